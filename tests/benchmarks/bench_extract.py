"""Extractors: quality on gold pages, and pages a second on one core, the sandbox of the stage included for ours."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from gold_pages import gold_pages, quality

from corpus.documents.charset import decode
from corpus.documents.extract import Extract, ExtractConfig
from corpus.documents.extractors import EXTRACTORS
from corpus.sources.ingest import READ

RUNS = 3
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
PAGES = Path(os.environ.get("MILLRACE_TEST_DATA", SHARED)) / "html-gold" / "article-extraction-benchmark"
PACKAGES = {"millrace": "resiliparse", "resiliparse": "resiliparse", "trafilatura": "trafilatura", "justext": "justext"}


def run() -> list[dict[str, Any]]:
    """A row for each extractor: `ours` is the stage with the default one, `peer` the bare extractor in this process."""
    pages = gold_pages(PAGES)
    htmls = [html for _, html in pages]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    works: dict[str, Callable[[], object]] = {name: _bare(name, htmls) for name in PACKAGES}
    stage = Extract(ExtractConfig())
    stage.open()
    batch = pa.RecordBatch.from_pylist(
        [
            {"id": str(i), "source": "s", "content": html, "content_type": "text/html; charset=utf-8", "metadata": []}
            for i, html in enumerate(htmls)
        ],
        READ,
    )
    works["stage"] = lambda: stage.process(batch)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(RUNS):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begin)
    stage.close()
    speed = {name: len(pages) / statistics.median(times) for name, times in seconds.items()}
    return [_row(name, speed, pages) for name in PACKAGES]


def _bare(name: str, htmls: list[bytes]) -> Callable[[], object]:
    extract = EXTRACTORS[name]
    return lambda: [extract(decode(html, "text/html; charset=utf-8")[0]) for html in htmls]


def _row(name: str, speed: dict[str, float], pages: list[tuple[str, bytes]]) -> dict[str, Any]:
    extract = EXTRACTORS[name]
    measured = quality((gold, extract(decode(html)[0])) for gold, html in pages)
    return {
        "name": f"stage extract vs bare {name}",
        "ours": speed["stage"],
        "peer": speed[name],
        "unit": "pages/s a core",
        "ratio": speed["stage"] / speed[name],
        "peer_version": f"{PACKAGES[name]} {version(PACKAGES[name])}",
        "runs": RUNS,
        "notes": f"peer's F1 {measured.f1:.3f}, precision {measured.precision:.3f}, recall {measured.recall:.3f}",
    }
