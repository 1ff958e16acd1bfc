"""The contract of document stages, and the pass they are fused into."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from corpus.document import DOCUMENT, drop_where, set_column, set_text
from corpus.sources.ingest import READ
from corpus.stage import DocumentStage, StageConfig, StageError, fused, output_schema


def documents(*rows: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"source": "web", **row} for row in rows], DOCUMENT)


class Upper(DocumentStage):
    name = "upper"

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return set_text(batch, pc.utf8_upper(batch["text"]))


class Length(DocumentStage):
    name = "length"
    adds = (pa.field("length", pa.int32()),)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return set_column(batch, self.adds[0], pc.utf8_length(batch["text"]))


class DropShort(DocumentStage):
    name = "short"

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return drop_where(batch, pc.utf8_length(batch["text"]).to_numpy() < 3, "short:too_short")


class Loses(DocumentStage):
    name = "loses"

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(1)


class Raises(DocumentStage):
    name = "raises"

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyError("nothing here")


class Opened(Upper):
    name = "opened"
    log: ClassVar[list[str]] = []

    def open(self) -> None:
        self.log.append("open")

    def close(self) -> None:
        self.log.append("close")


def run(stages: list[DocumentStage], *batches: pa.RecordBatch, keep_rejected: bool = False) -> list[dict[str, object]]:
    return [row for batch in fused(stages, batches, keep_rejected=keep_rejected) for row in batch.to_pylist()]


def test_stages_see_live_documents_only_and_rows_keep_their_order() -> None:
    rows = run([DropShort(), Upper(), Length()], documents(*({"id": str(n), "text": "a" * n} for n in (5, 1, 4, 2, 3))))
    assert [row["id"] for row in rows] == ["5", "1", "4", "2", "3"]
    assert [row["dropped"] for row in rows] == [None, "short:too_short", None, "short:too_short", None]
    assert [row["length"] for row in rows] == [5, None, 4, None, 3]
    assert rows[0]["text"] == "AAAAA"


def test_text_of_dropped_documents_goes_unless_it_is_wanted() -> None:
    batch = documents({"id": "1", "text": "a"})
    assert run([DropShort()], batch)[0]["text"] is None
    assert run([DropShort()], batch, keep_rejected=True)[0]["text"] == "a"


def test_a_stage_works_on_its_own_sources_only() -> None:
    batch = documents(
        {"id": "1", "text": "x", "source": "code-a"},
        {"id": "2", "text": "x"},
        {"id": "3", "text": "x", "source": "code-b"},
    )
    rows = run([Upper(StageConfig(sources=["code-*"]))], batch)
    assert [row["text"] for row in rows] == ["X", "x", "X"]


def test_what_a_stage_does_not_depend_on_how_rows_are_batched() -> None:
    rows = [{"id": str(n), "text": "a" * (n % 7), "source": "ab"[n % 2]} for n in range(50)]
    stages = [DropShort(StageConfig(sources=["a"])), Length(), Upper()]
    whole = run(stages, documents(*rows))
    assert run(stages, *(documents(*rows[i : i + 3]) for i in range(0, 50, 3))) == whole


@pytest.mark.parametrize("batch", [documents(), documents({"id": "1", "text": "a", "dropped": "before:all"})])
def test_a_batch_without_live_documents_has_the_full_schema(batch: pa.RecordBatch) -> None:
    stages = [DropShort(), Length()]
    [result] = fused(stages, [batch])
    assert result.schema.names == output_schema(stages, DOCUMENT).names


def test_raw_columns_are_gone_after_a_pass() -> None:
    batch = pa.RecordBatch.from_pylist([{"id": "1", "source": "web", "text": "abc", "content": b"<p>"}], READ)
    [result] = fused([Upper()], [batch])
    assert "content" not in result.schema.names


def test_a_stage_that_loses_a_document_is_an_error_that_names_it() -> None:
    with pytest.raises(StageError, match="stage loses: 2 documents went in and 1 came out"):
        run([Loses()], documents({"id": "1", "text": "a"}, {"id": "2", "text": "b"}))


class Broken(DocumentStage):
    """Breaks the contract in the way that its config names."""

    name = "broken"

    def open(self) -> None:
        if self.config.sources == ["open"]:
            raise OSError("no model")

    def applies_to(self, source: str) -> bool:
        return True

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        [how] = self.config.sources
        field = DOCUMENT.field("source" if how == "source" else "text")
        nulls = pa.nulls(batch.num_rows, pa.string())
        return {
            "nothing": None,
            "table": pa.Table.from_batches([batch]),
            "column": batch.append_column(pa.field("secret", pa.string()), nulls),
            "lacking": batch.select([name for name in batch.schema.names if name != "url"]),
            "source": set_column(batch, field, pa.repeat(pa.scalar("elsewhere"), batch.num_rows)),
            "text": set_column(batch, field, nulls),
        }[how]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("open", "stage broken: cannot start: OSError: no model"),
        ("nothing", "gave a NoneType, not a RecordBatch"),
        ("table", "gave a Table, not a RecordBatch"),
        ("column", "other columns than it declares in `adds`: secret"),
        ("lacking", "other columns than it declares in `adds`: url"),
        ("source", "stage broken: .* their ids or sources changed"),
        ("text", "after broken: 1 documents have no text and are not dropped, the first is doc-1"),
    ],
)
def test_a_broken_contract_is_named_with_its_stage(how: str, message: str) -> None:
    with pytest.raises(StageError, match=message):
        run([Broken(StageConfig(sources=[how]))], documents({"id": "doc-1", "text": "a"}))


def test_an_exception_names_the_stage_and_a_document() -> None:
    with pytest.raises(StageError, match=r"stage raises: KeyError: 'nothing here' .* begins with doc-1"):
        run([Raises()], documents({"id": "doc-1", "text": "a"}))


def test_stages_are_closed_also_when_the_pass_fails() -> None:
    Opened.log.clear()
    with pytest.raises(StageError):
        run([Opened(), Raises()], documents({"id": "1", "text": "a"}))
    assert Opened.log == ["open", "close"]
