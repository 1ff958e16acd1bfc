"""The first pass and each of its stages on one core: Spark and the frame, the stages alone, and plain library calls.

Everything runs pinned to one core, the JVM too. The corpus is the demo crawl's pages, some times over.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fastwarc
import ftfy
import pyarrow as pa
import pyarrow.parquet as pq
import pycld2
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding
from resiliparse.parse.html import HTMLTree
from rich.console import Console

from corpus.config import CorpusConfig
from corpus.document import DOCUMENT
from corpus.documents.language import LanguageConfig
from corpus.documents.repair import SETTINGS
from corpus.engine import Engine
from corpus.plan import make_plan
from corpus.registry import stage_class
from corpus.session import ClusterConfig, spark_session
from corpus.sources.config import SourceConfig
from corpus.sources.demo import make_demo_crawl
from corpus.sources.ingest import BATCH_ROWS, READ
from corpus.sources.record import Record
from corpus.sources.warc import read_warc
from corpus.stage import DocumentStage, fused

CRAWL = Path("build/demo/crawl")
COPIES = 20  # of the crawl's pages: Spark's seconds for a step however small must not count for much
PLAIN_COPIES = 4  # libraries alone have no such cost
RUNS = 3
STAGES = ["extract", "repair", "language", "measure"]
SOURCE = SourceConfig(name="pages", paths=["generated"])

Batches = list[pa.RecordBatch]


def run() -> list[dict[str, Any]]:
    """Rows of stages alone, then of the whole pass."""
    make_demo_crawl(CRAWL)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return [*_stages(), *_pass()]


def _stages() -> Iterator[dict[str, Any]]:
    """Each stage on what the one before it left, against its library on the same bytes."""
    batches = list(_batches(_shards()))
    peers: dict[str, tuple[str, Callable[[pa.RecordBatch], object]]] = {
        "extract": ("resiliparse", lambda batch: [_resiliparse(page.as_py()) for page in batch["content"]]),
        "repair": ("ftfy", lambda batch: [ftfy.fix_text(text.as_py(), SETTINGS) for text in batch["text"]]),
        "language": ("pycld2", lambda batch: [_cld2(text.as_py()) for text in batch["text"]]),
        "measure": ("", lambda batch: None),
        "rules": ("", lambda batch: None),
    }
    for name, (package, peer) in peers.items():
        stage = _stage(name)
        batches = [live for batch in batches if (live := _live(batch)).num_rows]
        column = "content" if name == "extract" else "text"
        megabytes = sum(batch[column].nbytes for batch in batches) / 1e6
        stage.open()
        stage.process(batches[0])
        ours, theirs = _interleaved(
            lambda stage=stage, batches=batches: [stage.process(batch) for batch in batches],
            lambda peer=peer, batches=batches: [peer(batch) for batch in batches],
        )
        batches = [stage.process(batch) for batch in batches]
        stage.close()
        yield _row(f"stage {name}", megabytes, ours, theirs if package else None, package, f"MB of {column}")


def _pass() -> Iterator[dict[str, Any]]:
    """The pass on Spark against the same stages called in one process, and against nothing but libraries."""
    with tempfile.TemporaryDirectory() as folder:
        shards = [Path(folder) / f"{copy}-{shard.name}" for copy in range(COPIES) for shard in _shards()]
        for shard in shards:
            shard.write_bytes(_sound(CRAWL / "pages" / shard.name.split("-", 1)[1]))
        megabytes = sum(batch["content"].nbytes for batch in _batches(shards)) / 1e6
        cluster = ClusterConfig(master="local[1]", driver_memory="2g")
        with spark_session(cluster, Path(folder) / "logs") as spark:
            _on_spark(spark, folder, [str(shard) for shard in shards])  # the JVM compiles as it warms up
            on_spark, alone, plain = _interleaved(
                lambda: _on_spark(spark, folder, [str(shard) for shard in shards]),
                lambda: _alone(shards, Path(folder) / "alone.parquet"),
                lambda: _plain(shards[: PLAIN_COPIES * len(_shards())], Path(folder) / "plain.parquet"),
            )
    notes = f"of HTML; read, {', '.join(STAGES)}, written as Parquet"
    yield _row("pass on Spark vs its stages in one process", megabytes, on_spark, alone, "pyarrow", notes)
    notes = f"of HTML; peer: fastwarc, resiliparse, ftfy {version('ftfy')}, pycld2 {version('pycld2')}; no measures"
    yield _row(
        "pass on Spark vs plain libraries", megabytes, on_spark, plain * COPIES / PLAIN_COPIES, "resiliparse", notes
    )


def _on_spark(spark: Any, folder: str, paths: list[str]) -> float:
    """Seconds of the first step, all that the engine does for it included."""
    with tempfile.TemporaryDirectory(dir=folder) as workspace:
        config = CorpusConfig.model_validate(
            {
                "workspace": workspace,
                "sources": [{"name": "pages", "paths": paths}],
                "max_bad_fraction": 1,
                "stages": STAGES,
                "tokenizer": {"vocab_size": 300, "sample_mb": 0.1},
            }
        )
        engine = Engine(make_plan(config), spark, Console(quiet=True))
        begin = time.perf_counter()
        engine.run_step(engine.steps[0], {})
        return time.perf_counter() - begin


def _alone(shards: list[Path], path: Path) -> None:
    stages = [_stage(name) for name in STAGES]
    _write(fused(stages, _batches(shards)), path)


def _plain(shards: list[Path], path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        rows = []
        for shard in shards:
            with shard.open("rb") as stream:
                for record in fastwarc.ArchiveIterator(stream, record_types=fastwarc.WarcRecordType.response):
                    text = ftfy.fix_text(_resiliparse(record.reader.read()), SETTINGS)
                    found = _cld2(text)
                    rows.append({"id": record.record_id, "source": "pages", "text": text, "language": found})
                    if len(rows) == BATCH_ROWS:
                        yield pa.RecordBatch.from_pylist(rows, DOCUMENT)
                        rows = []
        yield pa.RecordBatch.from_pylist(rows, DOCUMENT)

    _write(batches(), path)


def _write(batches: Iterator[pa.RecordBatch], path: Path) -> None:
    first = next(batches)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _resiliparse(page: bytes) -> str:
    tree = HTMLTree.parse(bytes_to_str(page, detect_encoding(page)))
    return str(extract_plain_text(tree, main_content=True, alt_texts=False, list_bullets=False))


def _cld2(text: str) -> str:
    beginning = text[: LanguageConfig().max_characters].encode()
    try:
        return str(pycld2.detect(beginning, isPlainText=True, bestEffort=True)[2][0][1])
    except pycld2.error:
        return "un"


def _shards() -> list[Path]:
    return sorted((CRAWL / "pages").glob("*.warc.gz"))


def _sound(shard: Path) -> bytes:
    """A shard without the records that are broken on purpose: bare fastwarc stops at the first of them."""
    data = shard.read_bytes()
    broken = json.loads((CRAWL / "truth.json").read_text())["pages"]["broken"]
    for begin in sorted((place["offset"] for place in broken if place["file"] == shard.name), reverse=True):
        end = data.find(data[:10], begin + 1)  # the head of a gzip member
        data = data[:begin] + (data[end:] if end >= 0 else b"")
    return data


def _batches(shards: list[Path]) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for shard in shards:
        with shard.open("rb") as stream:
            for item in read_warc(stream, SOURCE):
                if isinstance(item, Record):
                    id_ = f"{shard.name}#{item.offset}"
                    columns = {"url": item.url, "content": item.content, "content_type": item.content_type}
                    rows.append({"id": id_, "source": "pages", "timestamp": item.timestamp, "metadata": [], **columns})
                    if len(rows) == BATCH_ROWS:
                        yield pa.RecordBatch.from_pylist(rows, READ)
                        rows = []
    yield pa.RecordBatch.from_pylist(rows, READ)


def _live(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(batch["dropped"].is_null())


def _stage(name: str) -> DocumentStage:
    kind = stage_class(name)
    stage = kind(
        kind.Config(**({"families": ["gopher_quality_v1", "gopher_repetition_v1"]} if name == "rules" else {}))
    )
    assert isinstance(stage, DocumentStage)
    return stage


def _interleaved(*works: Callable[[], Any]) -> list[float]:
    """The median seconds of each, measured in turns; a work that gives seconds itself is taken at its word."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(RUNS):
        for work, measured in zip(works, seconds, strict=True):
            begin = time.perf_counter()
            own = work()
            measured.append(own if isinstance(own, float) else time.perf_counter() - begin)
    return [statistics.median(measured) for measured in seconds]


def _row(name: str, megabytes: float, ours: float, peer: float | None, package: str, notes: str) -> dict[str, Any]:
    return {
        "name": name,
        "ours": megabytes / ours,
        "peer": megabytes / peer if peer else None,
        "unit": "MB/s a core",
        "ratio": peer / ours if peer else None,
        "peer_version": f"{package} {version(package)}" if package else None,
        "runs": RUNS,
        "notes": f"{megabytes:.0f} MB {notes.removeprefix('MB ')}",
    }
