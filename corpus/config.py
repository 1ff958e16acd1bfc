"""The config of a corpus: which sources, which stages, which tokenizer, which blend."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from corpus.manifest import BlendConfig, ManifestError, check_weights
from corpus.problems import describe
from corpus.registry import stage_class
from corpus.sources.config import SourceConfig
from corpus.stage import Stage
from corpus.tokenizer import TokenizerConfig


def _stage(entry: Any) -> Stage:
    """A stage from its entry in the config: `name` alone, or `{name: {key: value}}`."""
    if isinstance(entry, Stage):
        return entry
    if isinstance(entry, str):
        entry = {entry: None}
    if not isinstance(entry, dict) or len(entry) != 1:
        raise ValueError("a stage is written `name` or `name: {key: value}`; each begins with its own dash")
    [(name, values)] = entry.items()
    kind = stage_class(str(name))
    if values is not None and not isinstance(values, dict):
        raise ValueError(f"{name}: its config must be keys and values, not {values!r}")
    try:
        return kind(kind.Config.model_validate(values or {}))
    except ValidationError as error:
        raise ValueError("; ".join(f"{name}.{line}" for line in describe(error, kind.Config))) from error


class CorpusConfig(BaseModel):
    """Everything that decides what a corpus contains; nothing of where it is computed."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    workspace: str = Field(description="folder of the run; on a cluster, on a file system that all nodes see")
    seed: int = Field(1234, description="of every draw: sampling and the order of documents")
    sources: Annotated[list[SourceConfig], Field(min_length=1)]
    stages: list[Annotated[Stage, BeforeValidator(_stage)]] = Field(description="run in this order")
    tokenizer: TokenizerConfig
    blend: BlendConfig = Field(default_factory=BlendConfig, description="weights of the datasets")
    keep_rejected: bool = Field(False, description="keep the text of dropped documents")
    max_bad_fraction: float = Field(
        0.01,
        ge=0,
        le=1,
        description="a run stops when more of a source's records, or of its files (one aside), cannot be read",
    )

    @field_validator("workspace")
    @classmethod
    def _is_a_folder(cls, workspace: str) -> str:
        if "://" in workspace or set(workspace) & set("*?[]{}"):
            raise ValueError(f"{workspace!r} must be the path of a folder, not a URI, and without any of * ? [ ] {{ }}")
        return workspace

    @model_validator(mode="after")
    def _consistent(self) -> CorpusConfig:
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"sources: two are called {name!r}; give each its own name")
        if not any(source.split_field for source in self.sources):
            try:
                check_weights(names, self.blend)
            except ManifestError as error:
                raise ValueError(str(error)) from error
            for stage in self.stages:
                for key, name in stage.unmatched(names):
                    raise ValueError(f"stages: {stage.name}.{key} names {name!r}; the sources are {', '.join(names)}")
        added: set[str] = set()
        for stage in self.stages:
            for column in stage.needs:
                if column not in added:
                    raise ValueError(
                        f"stages: {stage.name} needs the column {column!r}, and no stage before it adds that"
                    )
            added |= {field.name for field in stage.adds}
        return self
