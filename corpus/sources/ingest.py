"""The reading end of the first pass: files in, batches of documents out, and an account of every record.

Runs in a worker, without Spark. One file gives three kinds of row, told apart by the column `outcome`:
`document` (a record that was read), `failure` (one that was not) and `file` (one for each file, with the number of
records it held), so that a lost or repeated file cannot go unseen.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from corpus.document import DOCUMENT, RAW
from corpus.sources.config import SourceConfig
from corpus.sources.files import InputFile, open_input
from corpus.sources.readers import read
from corpus.sources.record import BREAKS_FILE, Failure, Record, Skipped
from corpus.stage import DocumentStage, fused, output_schema

BATCH_ROWS = 256
BATCH_BYTES = 16 << 20

#: Input bytes of a task, and the least number of tasks for each core when there is little input.
TASK_BYTES = 64 << 20
TASKS_PER_CORE = 3

#: A longer name of a subset is cut.
SUBSET_CHARACTERS = 64

#: Columns of a document before any stage.
READ = pa.schema([*DOCUMENT, *RAW])

OUTCOME = pa.field("outcome", pa.string(), nullable=False)


def ingest_schema(stages: Sequence[DocumentStage]) -> pa.Schema:
    """Schema of the rows that `ingest` gives."""
    return output_schema(stages, READ).append(OUTCOME)


def ingest(
    files: Iterable[InputFile],
    sources: Mapping[str, SourceConfig],
    stages: Sequence[DocumentStage],
    keep_rejected: bool,
) -> Iterator[pa.RecordBatch]:
    """Read `files`, run `stages` over their documents, and give rows of `ingest_schema(stages)`."""
    schema = ingest_schema(stages)
    account: list[dict[str, object]] = []
    batches = _documents(files, sources, account)
    for batch in fused(stages, batches, keep_rejected=keep_rejected):
        outcome = pa.repeat(pa.scalar("document"), batch.num_rows)
        yield batch.append_column(OUTCOME, outcome).cast(schema)
        yield from _drain(account, schema)
    yield from _drain(account, schema)


def _drain(account: list[dict[str, object]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if account:
        yield pa.RecordBatch.from_pylist(account, schema)
        account.clear()


def _documents(
    files: Iterable[InputFile], sources: Mapping[str, SourceConfig], account: list[dict[str, object]]
) -> Iterator[pa.RecordBatch]:
    for file in files:
        counts: Counter[str] = Counter()
        rows: list[dict[str, object]] = []
        size = 0
        with open_input(file.uri) as stream:
            for item in read(file, stream, sources[file.source]):
                if isinstance(item, Record):
                    counts["documents"] += 1
                    rows.append(_row(file, item))
                    size += len(item.content or b"") + len(item.text or "")
                    if len(rows) == BATCH_ROWS or size >= BATCH_BYTES:
                        yield _batch(rows)
                        rows, size = [], 0
                elif isinstance(item, Skipped):
                    counts[f"skipped:{item.reason}"] += 1
                else:
                    counts["failures"] += 1
                    if item.reason in BREAKS_FILE:
                        counts["broken"] = 1
                    account.append(_failure_row(file, item))
        if rows:
            yield _batch(rows)
        account.append(_file_row(file, counts))


def _batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    """Rows as Arrow. What UTF-8 cannot hold, such as a lone surrogate in a URL, becomes a question mark."""
    try:
        return pa.RecordBatch.from_pylist(rows, READ)
    except UnicodeEncodeError:
        return pa.RecordBatch.from_pylist([{key: _valid(value) for key, value in row.items()} for row in rows], READ)


def _valid(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [(_valid(key), _valid(item)) for key, item in value]
    return value


def _row(file: InputFile, record: Record) -> dict[str, object]:
    return {
        "id": f"{file.id}#{record.offset}",
        "source": subset_name(record.subset) if record.subset else file.source,
        "text": record.text,
        "url": record.url,
        "timestamp": record.timestamp,
        "metadata": list(record.metadata.items()),
        "content": record.content,
        "content_type": record.content_type,
    }


def _failure_row(file: InputFile, failure: Failure) -> dict[str, object]:
    place = {"file": file.uri, "offset": str(failure.offset), "reason": failure.reason, "detail": failure.detail[:500]}
    return {
        "id": f"{file.id}#{failure.offset}",
        "source": file.source,
        "metadata": list(place.items()),
        "dropped": f"failed:{failure.reason}",
        "outcome": "failure",
    }


def _file_row(file: InputFile, counts: Counter[str]) -> dict[str, object]:
    return {
        "id": file.id,
        "source": file.source,
        "metadata": [("file", file.uri), *((name, str(count)) for name, count in sorted(counts.items()))],
        "outcome": "file",
    }


def subset_name(subset: str) -> str:
    """A subset's name as a source: lower case, with dashes; `Pile-CC` is `pile-cc`.

    A name that does not survive this, for want of Latin letters or because it is long, gets a hash of itself.
    """
    name = re.sub(r"[^a-z0-9._]+", "-", subset.lower()).strip("-.")
    if name and subset.isascii() and len(name) <= SUBSET_CHARACTERS:
        return name
    mark = hashlib.sha256(subset.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[:SUBSET_CHARACTERS].strip('-.') or 'subset'}-{mark}"


def pack(files: Sequence[InputFile], cores: int) -> list[list[InputFile]]:
    """Files as tasks, largest first: small files share a task of `TASK_BYTES`, or of less so that no core is idle.

    Formats here are read from their start, so a task is never less than a file.
    """
    share = sum(map(_weight, files)) // (TASKS_PER_CORE * cores)
    tasks: list[list[InputFile]] = []
    room = 0
    for file in sorted(files, key=lambda file: (-file.size, file.source, file.relative)):
        if not tasks or _weight(file) > room:
            tasks.append([])
            room = min(share, TASK_BYTES)
        tasks[-1].append(file)
        room -= _weight(file)
    return tasks


def _weight(file: InputFile) -> int:
    """Bytes that stand for the work of a file; opening one has a price too."""
    return max(file.size, 1 << 12)
