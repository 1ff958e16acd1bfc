"""Parquet: row groups, nested fields, bad columns."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpus.sources.config import SourceConfig
from corpus.sources.parquet import read_parquet
from corpus.sources.record import Failure, Item, Record


def parquet(table: pa.Table, rows: int = 100, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows, **options)
    return sink.getvalue()


def items_of(data: bytes, **config: Any) -> list[Item]:
    return list(read_parquet(io.BytesIO(data), SourceConfig(name="s", paths=["*.parquet"], **config)))


def reasons(items: list[Item]) -> list[str]:
    return [item.reason for item in items if isinstance(item, Failure)]


def test_rows_come_in_order_with_their_number_as_offset() -> None:
    data = parquet(pa.table({"text": [f"text {n}" for n in range(1001)], "other": range(1001)}))
    assert items_of(data) == [Record(n, text=f"text {n}") for n in range(1001)]


def test_nested_fields_times_and_ids_reach_the_record() -> None:
    row = {
        "text": "x",
        "url": "http://a",
        "timestamp": datetime(2024, 1, 2, tzinfo=UTC),
        "id": 5,
        "meta": {"pile_set_name": "ArXiv", "n": 3},
    }
    (item,) = items_of(
        parquet(pa.Table.from_pylist([row])), split_field="meta.pile_set_name", metadata_fields=["meta.n", "meta.none"]
    )
    metadata = {"meta.n": "3", "record_id": "5"}
    assert item == Record(
        0,
        text="x",
        url="http://a",
        timestamp=row["timestamp"],
        subset="ArXiv",
        metadata=metadata,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_every_string_type_is_text_and_null_is_a_failure(kind: pa.DataType) -> None:
    items = items_of(parquet(pa.table({"text": pa.array(["a", None, "ü"]).cast(kind)})))
    assert [item.text for item in items if isinstance(item, Record)] == ["a", "ü"]
    assert [(item.offset, item.reason) for item in items if isinstance(item, Failure)] == [(1, "no_text")]


def test_a_missing_text_column_is_one_failure_that_names_the_columns() -> None:
    (item,) = items_of(parquet(pa.table({"body": ["a", "b"], "title": ["c", "d"]})))
    assert isinstance(item, Failure) and item.reason == "no_text"
    assert "body, title" in item.detail and "text" in item.detail


def test_a_row_with_invalid_utf8_is_a_failure_and_the_others_are_read() -> None:
    raw = pa.array([b"a", b"\xff\xfe", b"c"] * 200, pa.binary())
    items = items_of(parquet(pa.table({"text": pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())})))
    assert len(items) == 600 and reasons(items) == ["bad_utf8"] * 200
    assert [item.offset for item in items] == list(range(600))


def test_a_time_that_python_cannot_hold_costs_itself_only() -> None:
    seconds = [0, 6 * 10**12, 86_400]
    times = pa.array(seconds, pa.timestamp("s"))
    texts = ["a", "b", "c"]
    items = items_of(parquet(pa.table({"text": texts, "timestamp": times})))
    assert [(item.text, item.timestamp and item.timestamp.day) for item in items if isinstance(item, Record)] == [
        ("a", 1),
        ("b", None),
        ("c", 2),
    ]
    unknown = items_of(parquet(pa.table({"text": texts, "timestamp": times.cast(pa.timestamp("s", "Nowhere/At_All"))})))
    assert [item.text for item in unknown if isinstance(item, Record)] == texts
    dates = items_of(parquet(pa.table({"text": ["a"], "timestamp": pa.array([1], pa.date32())})))
    assert [item.timestamp for item in dates if isinstance(item, Record)] == [datetime(1970, 1, 2, tzinfo=UTC)]


def test_a_corrupt_row_group_costs_that_group_only() -> None:
    table = pa.table({"text": [f"text {n} " * 20 for n in range(300)]})
    data = bytearray(parquet(table, compression="zstd", use_dictionary=False))
    column = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(1).column(0)
    begin = column.data_page_offset
    data[begin : begin + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    items = items_of(bytes(data))
    assert [item.offset for item in items if isinstance(item, Record)] == [*range(100), *range(200, 300)]
    (failure,) = (item for item in items if isinstance(item, Failure))
    assert (failure.offset, failure.reason) == (100, "bad_row_group") and "100 rows" in failure.detail


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all" * 9])
def test_what_is_no_parquet_is_one_failure(data: bytes) -> None:
    assert reasons(items_of(data)) == ["bad_file"]


def test_a_cut_file_is_one_failure() -> None:
    data = parquet(pa.table({"text": ["a"] * 1000}))
    assert reasons(items_of(data[:-20])) == ["bad_file"]
