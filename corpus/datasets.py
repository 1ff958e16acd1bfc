"""From tokenised documents to `datasets/NAME.bin`, `.idx` and `.docs.parquet`.

Executors tokenise partitions that are sorted by (source, order, id) as a whole; one pass on the driver joins them by
copying bytes. The order is a hash of (seed, id): any prefix of a dataset is a random sample of it, and the files do not
depend on how the work was cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpus.document import DOCUMENT
from corpus.indexed import IndexedWriter
from corpus.tokenizer import Tokenizer
from corpus.workspace import file_sha256

#: Which document each sequence of a dataset is: one row a sequence, in order.
PROVENANCE = pa.schema(
    [DOCUMENT.field(name) for name in ("id", "url", "timestamp", "language", "language_score", "quality_score")]
    + [pa.field("tokens", pa.int32(), nullable=False)]
)

#: What `tokenised` gives; `content` is the sequence's token ids, in the dataset's dtype, little endian.
TOKENISED = pa.schema([DOCUMENT.field("source"), *PROVENANCE, pa.field("content", pa.binary(), nullable=False)])

ROWS_A_GROUP = 1 << 16


def tokenised(batch: pa.RecordBatch, tokenizer: Tokenizer, dtype: np.dtype) -> pa.RecordBatch:
    """Token ids of live documents, the end-of-document id last: rows of `TOKENISED`."""
    buffer, lengths = tokenizer.encode_to_buffer(batch["text"].to_pylist(), dtype, append_eod=True)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.asarray(lengths, np.int64) * dtype.itemsize, out=offsets[1:])
    content = pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(buffer)]
    )
    columns = {"tokens": pa.array(lengths, pa.int32()), "content": content}
    return pa.RecordBatch.from_arrays(
        [columns[name] if name in columns else batch[name] for name in TOKENISED.names], schema=TOKENISED
    )


class DatasetWriter:
    """Writes one dataset; a dataset that is not closed leaves no file with a final name."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype) -> None:
        self.prefix = folder / name
        self.dtype = dtype
        self.documents = 0
        self.tokens = 0
        self._index = IndexedWriter(self.prefix, dtype)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._provenance_path = folder / f"{name}.docs.parquet"
        self._provenance = pq.ParquetWriter(self._partial, PROVENANCE, compression="zstd")

    @property
    def _partial(self) -> Path:
        return self._provenance_path.with_name(self._provenance_path.name + ".partial")

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the sequences of a batch of `TOKENISED` rows."""
        lengths = batch["tokens"].to_numpy()
        content = batch["content"]
        offsets = np.frombuffer(content.buffers()[1], np.int32)[content.offset :][: len(content) + 1]
        self._index.add_many(memoryview(content.buffers()[2])[offsets[0] : offsets[-1]], lengths)
        self.documents += len(lengths)
        self.tokens += int(lengths.sum(dtype=np.int64))
        self._pending.append(batch.select(PROVENANCE.names))
        self._pending_rows += batch.num_rows
        while self._pending_rows >= ROWS_A_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        """Row groups have a fixed size, so that the file does not depend on how the rows arrived."""
        table = pa.Table.from_batches(self._pending, PROVENANCE)
        self._provenance.write_table(table.slice(0, ROWS_A_GROUP).combine_chunks(), row_group_size=ROWS_A_GROUP)
        rest = table.slice(ROWS_A_GROUP)
        self._pending, self._pending_rows = rest.to_batches(), rest.num_rows

    def close(self) -> dict[str, Any]:
        """Finish the files and give what the manifest says of them."""
        while self._pending_rows:
            self._write_group()
        self._provenance.close()
        self._index.finalize()
        self._partial.rename(self._provenance_path)
        paths: dict[str, str | Path] = {
            "bin": f"{self.prefix}.bin",
            "idx": f"{self.prefix}.idx",
            "docs.parquet": self._provenance_path,
        }
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "dtype": self.dtype.name,
            "sha256": {ending: file_sha256(path) for ending, path in paths.items()},
        }


def join(parts: Iterable[Path], folder: Path, dtype: np.dtype) -> dict[str, dict[str, Any]]:
    """Write the datasets from tokenised Parquet files, which are in order; gives what each one contains, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    finished: dict[str, dict[str, Any]] = {}
    writer: DatasetWriter | None = None
    name = ""
    for batch in _runs(parts):
        source = batch["source"][0].as_py()
        if writer is None or source != name:
            if writer is not None:
                finished[name] = writer.close()
            if source in finished:
                raise RuntimeError(f"tokenised files are out of order: {source!r} comes twice")
            writer, name = DatasetWriter(folder, source, dtype), source
        writer.add(batch)
    if writer is not None:
        finished[name] = writer.close()
    return finished


def _runs(parts: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    """The rows of `parts` in order, each batch of one source only."""
    for part in parts:
        for batch in pq.ParquetFile(part).iter_batches(columns=TOKENISED.names, batch_size=4096):
            sources = batch["source"].dictionary_encode().indices.to_numpy()
            edges = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist(), batch.num_rows]
            for begin, end in itertools.pairwise(edges):
                if end > begin:
                    yield batch.slice(begin, end - begin).cast(TOKENISED)
