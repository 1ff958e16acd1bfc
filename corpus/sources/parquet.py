"""Reads Parquet: one record a row, its fields chosen by the source's config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from corpus.sources.config import SourceConfig
from corpus.sources.fields import record_of
from corpus.sources.record import Failure, Item

#: Rows that are turned into Python objects at once.
ROWS = 256


def read_parquet(stream: BinaryIO, config: SourceConfig) -> Iterator[Item]:
    """The rows of a Parquet file, row group by row group. The offset of a record is the number of its row in the file.

    Failures: `no_text` (one a row whose text is null or no string; one for the file if it has no such column),
    `bad_utf8`, `bad_row_group` (the whole group is lost), `bad_file`.
    """
    try:
        file = pq.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        yield Failure(0, "bad_file", _one_line(error))
        return
    names = file.schema_arrow.names
    if _column(config.text_field, names) is None:
        yield Failure(0, "no_text", f"no column {config.text_field}; the file has: {', '.join(names)}")
        return
    columns = sorted({name for path in _paths(config) if (name := _column(path, names)) is not None})
    first = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        row = first
        try:
            for batch in file.iter_batches(batch_size=ROWS, row_groups=[group], columns=columns, use_threads=False):
                yield from _items(row, batch, config)
                row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            yield Failure(row, "bad_row_group", f"{first + rows - row} rows lost: {_one_line(error)}")
        first += rows


def _paths(config: SourceConfig) -> list[str]:
    fixed = [config.text_field, config.url_field, config.timestamp_field, "id", *config.metadata_fields]
    return [*fixed, config.split_field] if config.split_field else fixed


def _column(path: str, names: list[str]) -> str | None:
    """The column that the field `path` lies in."""
    root = path.split(".")[0]
    return path if path in names else root if root in names else None


def _items(first: int, batch: pa.RecordBatch, config: SourceConfig) -> Iterator[Item]:
    for index, row in enumerate(_rows(batch), start=first):
        if isinstance(row, UnicodeDecodeError):
            yield Failure(index, "bad_utf8", str(row))
        else:
            yield record_of(index, row, config)


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any] | UnicodeDecodeError]:
    """The rows as Python objects; in place of a row with invalid UTF-8, the error."""
    try:
        return batch.to_pylist()
    except (ValueError, OverflowError, LookupError):
        return [_row(batch, index) for index in range(batch.num_rows)]


def _row(batch: pa.RecordBatch, index: int) -> dict[str, Any] | UnicodeDecodeError:
    """One row. A value that Python cannot hold, such as a time in the year 192,000 or of an unknown zone, is None."""
    values = {}
    for name in batch.schema.names:
        try:
            values[name] = batch[name][index].as_py()
        except UnicodeDecodeError as error:
            return error
        except (ValueError, OverflowError, LookupError):
            values[name] = None
    return values


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:400]
