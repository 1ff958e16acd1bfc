"""The first pass in chunks: whole chunks outlive a run that stops, half ones leave no trace."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from rich.console import Console

from corpus import first_pass
from corpus.document import drop_where
from corpus.first_pass import FirstPass
from corpus.sources.config import SourceConfig
from corpus.sources.files import list_files
from corpus.stage import DocumentStage, StageConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 12
LINES = 40

Run = Callable[[], str]


class PoisonConfig(StageConfig):
    antidote: str


class Poison(DocumentStage):
    """Fails on a poisoned text until the antidote, a file, is there."""

    name = "poison"
    Config = PoisonConfig

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        poisoned = np.array(["poison" in text for text in batch["text"].to_pylist()])
        if poisoned.any() and not Path(self.config.antidote).exists():
            raise ValueError("poison")
        return drop_where(batch, poisoned, "poison:found")


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """The sixth one has a broken line, the last one a poisoned text."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    for number in range(FILES):
        lines = [json.dumps({"text": f"text {line:02d} of file {number:02d}"}) for line in range(LINES)]
        if number == 5:
            lines[7] = "broken"
        if number == FILES - 1:
            lines[20] = json.dumps({"text": "poison"})
        (folder / f"{number:02d}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def run(crawl: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the pass in chunks of four files, one at a time, and gives what it said."""
    monkeypatch.setattr(first_pass, "CHUNK_TASKS_PER_CORE", 1)
    monkeypatch.setattr(first_pass, "CHUNKS_AT_ONCE", 1)
    source = SourceConfig(name="web", paths=[f"{crawl}/*.jsonl"])
    stage = Poison(PoisonConfig(antidote=str(tmp_path / "antidote")))
    folder = tmp_path / "step"
    folder.mkdir()

    def run() -> str:
        said = io.StringIO()
        FirstPass(spark, [source], [stage], keep_rejected=False, folder=folder).run(
            list_files(source), Console(file=said), "ingest"
        )
        return said.getvalue()

    return run


def rows(tmp_path: Path, kind: str) -> list[dict[str, object]]:
    table = pads.dataset(tmp_path / "step" / kind).to_table().sort_by("id")
    found: list[dict[str, object]] = table.to_pylist()
    return found


def whole(tmp_path: Path) -> dict[str, list[dict[str, object]]]:
    return {kind: rows(tmp_path, kind) for kind in ("documents", "failures", "files")}


def written(tmp_path: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (tmp_path / "step").glob("*/*/*.parquet")}


def test_a_run_that_stops_keeps_its_whole_chunks_and_the_next_reads_only_the_rest(run: Run, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="poison"):
        run()
    before = written(tmp_path)
    kept = {row["id"] for row in rows(tmp_path, "files")}
    assert len(kept) == 8
    (tmp_path / "antidote").touch()
    assert f"8 of {FILES} files were read before" in run()
    assert before.items() <= written(tmp_path).items()
    continued = whole(tmp_path)
    shutil.rmtree(tmp_path / "step")
    (tmp_path / "step").mkdir()
    assert run() == ""
    assert whole(tmp_path) == continued
    assert [len(continued[kind]) for kind in ("documents", "failures", "files")] == [FILES * LINES - 1, 1, FILES]
    assert [row["dropped"] for row in continued["documents"] if row["dropped"]] == ["poison:found"]


@pytest.mark.parametrize("lost", ["files", "documents"])
def test_a_chunk_killed_between_its_renames_is_read_again(run: Run, tmp_path: Path, lost: str) -> None:
    """Accounts move last: a kill before that leaves documents alone, or nothing but what lies aside."""
    (tmp_path / "antidote").touch()
    run()
    expected = whole(tmp_path)
    aside = tmp_path / "step" / "chunks" / "00001"
    aside.mkdir(parents=True)
    (tmp_path / "step/files/00001").rename(aside / "outcome=file")
    if lost == "documents":
        (tmp_path / "step/documents/00001").rename(aside / "outcome=document")
    assert f"8 of {FILES} files were read before" in run()
    assert whole(tmp_path) == expected
    assert not (tmp_path / "step/chunks").exists()


def test_a_finished_pass_is_not_repeated(run: Run, tmp_path: Path) -> None:
    (tmp_path / "antidote").touch()
    run()
    before = written(tmp_path)
    assert f"{FILES} of {FILES} files were read before" in run()
    assert written(tmp_path) == before


def test_chunks_at_once_give_the_same_rows(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "antidote").touch()
    run()
    one = whole(tmp_path)
    shutil.rmtree(tmp_path / "step")
    (tmp_path / "step").mkdir()
    monkeypatch.setattr(first_pass, "CHUNKS_AT_ONCE", 3)
    run()
    assert whole(tmp_path) == one
