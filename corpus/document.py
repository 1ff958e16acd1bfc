"""What a document is: its Arrow schema, and how a stage drops one.

A stage never makes a document vanish. It sets `dropped` to `stage:reason`, so that every document that came in is
counted exactly once on the way out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Columns of every document, in order. `id` is stable across runs and partitions: source, file and record offset.
DOCUMENT = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("url", pa.string()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("language", pa.string()),
        pa.field("language_score", pa.float32()),
        pa.field("quality_score", pa.float32()),
        pa.field("metadata", pa.map_(pa.string(), pa.string())),
        pa.field("dropped", pa.string()),
    ]
)

#: Columns that exist only between a reader and the extraction stage: the page as bytes and its HTTP `Content-Type`.
RAW = pa.schema([pa.field("content", pa.binary()), pa.field("content_type", pa.string())])


def set_column(batch: pa.RecordBatch, field: pa.Field, values: pa.Array) -> pa.RecordBatch:
    """`batch` with the column `field` replaced, or appended when it is not there."""
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        return batch.append_column(field, values)
    return batch.set_column(index, field, values)


def set_text(batch: pa.RecordBatch, texts: Sequence[str | None] | pa.Array) -> pa.RecordBatch:
    """`batch` with new texts."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    return set_column(batch, DOCUMENT.field("text"), array)


def drop(batch: pa.RecordBatch, reasons: pa.Array | Sequence[str | None]) -> pa.RecordBatch:
    """Mark documents as dropped.

    `reasons` has one entry a row: `stage:reason`, or null to leave the row as it is. A row that an earlier stage dropped
    keeps its first reason.
    """
    array = reasons if isinstance(reasons, pa.Array) else pa.array(reasons, pa.string())
    return set_column(batch, DOCUMENT.field("dropped"), pc.coalesce(batch["dropped"], array))


def drop_where(batch: pa.RecordBatch, mask: np.ndarray, reason: str) -> pa.RecordBatch:
    """Mark the rows where `mask` (bool, one a row) holds as dropped for `reason` (`stage:reason`)."""
    return drop(batch, pc.if_else(pa.array(mask), pa.scalar(reason, pa.string()), pa.scalar(None, pa.string())))
