"""What a source is: a named set of files of one format, and where its records keep their fields."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Format = Literal["warc", "wet", "jsonl", "parquet", "text"]


class SourceConfig(BaseModel):
    """One source of documents. Fields of JSONL and Parquet records may be dotted: `meta.pile_set_name`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9._-]+$", description="Name of the source, in document ids and file names.")
    paths: list[str] = Field(
        default=[],
        description="Files, folders and globs (`*`, `?`, `[...]`, `**` for any depth), as paths or URIs: s3://, hdfs://, ...",
    )
    listing: str | None = Field(
        default=None,
        description="A file that lists more paths, one a line, relative to itself; `#` begins a comment line.",
    )
    format: Format | None = Field(
        default=None, description="Format of the files; inferred from their names if not given."
    )
    text_field: str = Field(default="text", description="Field of a record that holds its text.")
    split_field: str | None = Field(
        default=None, description="Field whose values split the source into sources of their own."
    )
    url_field: str = Field(default="url", description="Field that holds the URL.")
    timestamp_field: str = Field(
        default="timestamp",
        description="Field that holds the time: ISO 8601, or seconds since 1970. No zone means UTC.",
    )
    metadata_fields: list[str] = Field(
        default=[], description="Fields that are copied into the document's metadata as strings."
    )

    @model_validator(mode="after")
    def _has_files(self) -> SourceConfig:
        if not self.paths and self.listing is None:
            raise ValueError(f"source {self.name}: give `paths`, `listing` or both")
        return self
