"""The two kinds of stage, and the one pass that a run of document stages is fused into.

A stage is a small class made from its config. A `DocumentStage` sees one Arrow batch at a time and knows nothing of
Spark; a `CorpusStage` sees the whole corpus as a DataFrame.
"""

from __future__ import annotations

import abc
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from corpus.document import DOCUMENT, RAW, set_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StageConfig(BaseModel):
    """Values that every stage takes; a stage adds its own in a subclass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Sources (names or globs) that the stage works on; the documents of others pass unchanged. None: all.
    sources: list[str] | None = None


class Stage(abc.ABC):
    """A named, versioned step of a corpus. Its version changes whenever its output may."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Config: ClassVar[type[StageConfig]] = StageConfig
    #: Columns that the stage appends to the schema.
    adds: ClassVar[tuple[pa.Field, ...]] = ()
    #: Names of columns beyond `DOCUMENT` that a stage before it must have added.
    needs: ClassVar[tuple[str, ...]] = ()
    #: Whether the stage gives a text to pages, whose raw columns only the first pass has.
    makes_text: ClassVar[bool] = False

    def __init__(self, config: Any = None) -> None:
        self.config: Any = config if config is not None else self.Config()

    def applies_to(self, source: str) -> bool:
        """Whether documents of `source` are this stage's business."""
        patterns = self.config.sources
        return patterns is None or any(fnmatch.fnmatchcase(source, pattern) for pattern in patterns)

    def unmatched(self, sources: Sequence[str]) -> list[tuple[str, str]]:
        """Config keys with names that are those of no source: most often they are misspelt."""
        return [("sources", pattern) for pattern in self.config.sources or () if not fnmatch.filter(sources, pattern)]

    def reads(self) -> Sequence[str]:
        """Paths of files, such as models, whose content the output depends on."""
        return ()


class DocumentStage(Stage):
    """Arrow batch in, Arrow batch out: one row out for each row in, in the same order, with the same `id`."""

    #: A stage that only decides starts a pass of its own: to change a threshold then repeats no extraction.
    starts_pass: ClassVar[bool] = False

    def open(self) -> None:
        """Load models. Called in a worker before the first batch of each task."""

    def close(self) -> None:
        """Release what `open` took. Called after the last batch, also when the pass failed."""

    @abc.abstractmethod
    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Work on live documents: `dropped` is null in every row, and each row's source is one of the stage's."""


class CorpusStage(Stage):
    """Needs the whole corpus: DataFrame in, DataFrame out, every document still there exactly once."""

    @abc.abstractmethod
    def run(self, documents: DataFrame) -> DataFrame:
        """`documents` has the columns of `DOCUMENT` and those that earlier stages added."""


class StageError(RuntimeError):
    """A stage broke its contract, or failed on a batch; the message names the stage and the first document."""


def output_schema(stages: Iterable[DocumentStage], schema: pa.Schema) -> pa.Schema:
    """The schema after `stages`: added columns appended, raw columns gone."""
    fields = {field.name: field for field in schema if field.name not in RAW.names}
    for stage in stages:
        fields.update({field.name: field for field in stage.adds})
    return pa.schema(list(fields.values()))


def fused(
    stages: Sequence[DocumentStage], batches: Iterable[pa.RecordBatch], *, keep_rejected: bool = False
) -> Iterator[pa.RecordBatch]:
    """Run neighbouring document stages over `batches` in one pass.

    Each stage gets only the live rows of its sources. The raw columns are gone afterwards, and so is the text of
    dropped documents unless `keep_rejected`.

    Raises: StageError if a stage changes, loses or adds a document, leaves one without text or raises itself.
    """
    try:
        for stage in stages:
            _open(stage)
        for batch in batches:
            for stage in stages:
                batch = _apply(stage, batch)
            yield _finish(stages, batch, keep_rejected)
    finally:
        for stage in stages:
            stage.close()


def _open(stage: DocumentStage) -> None:
    try:
        stage.open()
    except Exception as error:
        raise StageError(f"stage {stage.name}: cannot start: {type(error).__name__}: {error}") from error


def _apply(stage: DocumentStage, batch: pa.RecordBatch) -> pa.RecordBatch:
    mask = _live(stage, batch)
    if mask.all():
        return _checked(stage, batch)
    rest = batch.filter(pa.array(~mask))
    for field in stage.adds:
        if field.name not in rest.schema.names:
            rest = rest.append_column(field, pa.nulls(rest.num_rows, field.type))
    if not mask.any():
        return rest
    worked = _checked(stage, batch.filter(pa.array(mask)))
    joined = pa.Table.from_batches([worked, rest.select(worked.schema.names).cast(worked.schema)])
    order = np.argsort(np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)]))
    return joined.take(pa.array(order)).combine_chunks().to_batches()[0]


def _live(stage: DocumentStage, batch: pa.RecordBatch) -> np.ndarray:
    mask = batch["dropped"].is_null().to_numpy(zero_copy_only=False)
    if stage.config.sources is None:
        return mask
    sources = batch["source"].dictionary_encode()
    chosen = np.array([stage.applies_to(name) for name in sources.dictionary.to_pylist()], dtype=bool)
    return mask & chosen[sources.indices.to_numpy()]


def _checked(stage: DocumentStage, batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_rows == 0:
        for field in stage.adds:
            batch = set_column(batch, field, pa.nulls(0, field.type))
        return batch
    try:
        result = stage.process(batch)
    except Exception as error:
        raise StageError(
            f"stage {stage.name}: {type(error).__name__}: {error} (in a batch of {batch.num_rows} documents that begins "
            f"with {batch['id'][0]})"
        ) from error
    if not isinstance(result, pa.RecordBatch):
        raise StageError(f"stage {stage.name}: `process` gave a {type(result).__name__}, not a RecordBatch")
    if not (result["id"].equals(batch["id"]) and result["source"].equals(batch["source"])):
        raise StageError(
            f"stage {stage.name}: {batch.num_rows} documents went in and {result.num_rows} came out, or their ids or sources "
            f"changed (batch begins with {batch['id'][0]}): set `dropped` instead of removing a row"
        )
    declared = {*batch.schema.names, *(field.name for field in stage.adds)}
    if wrong := sorted(declared.symmetric_difference(result.schema.names)):
        raise StageError(
            f"stage {stage.name}: writes other columns than it declares in `adds`: {', '.join(wrong)} "
            "is missing or not declared"
        )
    return result


def _finish(stages: Sequence[DocumentStage], batch: pa.RecordBatch, keep_rejected: bool) -> pa.RecordBatch:
    schema = output_schema(stages, batch.schema)
    batch = batch.select(schema.names).cast(schema)
    textless = batch.filter(pc.and_(batch["dropped"].is_null(), batch["text"].is_null()))
    if textless.num_rows:
        raise StageError(
            f"after {'+'.join(stage.name for stage in stages) or 'reading'}: {textless.num_rows} documents have no text "
            f"and are not dropped, the first is {textless['id'][0]}: give them a text, or set `dropped`"
        )
    if keep_rejected:
        return batch
    text = pc.if_else(batch["dropped"].is_null(), batch["text"], pa.scalar(None, pa.string()))
    return set_column(batch, DOCUMENT.field("text"), text)
