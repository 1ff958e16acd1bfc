"""Repair and language identification against the bare libraries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import ftfy
import pyarrow as pa
import pycld2

from corpus.document import DOCUMENT
from corpus.documents.language import Language
from corpus.documents.repair import SETTINGS, Repair
from corpus.stage import DocumentStage

RUNS = 3
ROWS = 1200


def run() -> list[dict[str, Any]]:
    """MB/s of UTF-8, one thread, ours and the library's turn by turn."""
    texts = documents()
    size = sum(len(text.encode()) for text in texts) / 1e6
    batch = pa.RecordBatch.from_pylist(
        [{"id": str(i), "source": "s", "text": t} for i, t in enumerate(texts)], DOCUMENT
    )
    repair, language = Repair(), Language()

    return [
        row("repair", size, on(repair, batch), lambda: [ftfy.fix_text(text, SETTINGS) for text in texts], "ftfy"),
        row("language", size, on(language, batch), lambda: [pycld2.detect(text.encode()) for text in texts], "pycld2"),
    ]


def documents() -> list[str]:
    """Docstrings of the standard library, every third with accents, quotes or a few mojibake lines in it."""
    import inspect
    import pkgutil

    lines: list[str] = []
    for name in (
        "argparse",
        "asyncio",
        "collections",
        "datetime",
        "decimal",
        "email",
        "logging",
        "pathlib",
        "unittest",
    ):
        lines += inspect.getsource(pkgutil.resolve_name(name)).splitlines()
    texts = []
    for i in range(ROWS):
        text = lines[i * 7 % len(lines) :][:40]
        if i % 3 == 0:
            text[::9] = [f"{line} — “naïve café”" for line in text[::9]]
        if i % 30 == 0:
            text[::13] = [f"{line} cafÃ© &amp; cream" for line in text[::13]]
        texts.append("\n".join(text).replace("<", "").replace("\x0c", ""))
    return texts


def on(stage: DocumentStage, batch: pa.RecordBatch) -> Callable[[], object]:
    stage.open()
    return lambda: stage.process(batch)


def row(name: str, size: float, ours: Callable[[], object], peer: Callable[[], object], package: str) -> dict[str, Any]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(RUNS):
        for work, seconds in zip((ours, peer), times, strict=True):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    speeds = [size / statistics.median(seconds) for seconds in times]
    return {
        "name": name,
        "ours": speeds[0],
        "peer": speeds[1],
        "unit": "MB/s a core",
        "ratio": speeds[0] / speeds[1],
        "peer_version": f"{package} {version(package)}",
        "runs": RUNS,
        "notes": f"{size:.1f} MB; a third of the texts not ASCII",
    }
