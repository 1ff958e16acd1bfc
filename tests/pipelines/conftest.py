"""A small demo crawl with every kind of fault planted in it, and its corpus as a user's command builds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corpus.sources.demo import make_demo_crawl

ROOT = Path(__file__).resolve().parents[2]
PAGES = 240
DEADLINE_SECONDS = 300


@pytest.fixture(scope="session")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "crawl"
    make_demo_crawl(folder, pages=PAGES)
    return folder


@pytest.fixture(scope="session")
def command(crawl: Path) -> Callable[..., list[str]]:
    """`command(workspace, *arguments)`: the words of a command that builds the crawl's corpus there."""

    def words(workspace: Path, *arguments: str) -> list[str]:
        overrides = [
            f"workspace={workspace}",
            f"sources.pages.paths=[{crawl}/pages/*.warc.gz]",
            f"sources.code.paths=[{crawl}/code/*.jsonl.zst]",
            f"sources.readmes.paths=[{crawl}/readmes/*]",
            "tokenizer.vocab_size=1000",
            "tokenizer.sample_mb=1",
        ]
        config = str(ROOT / "configs/corpus/demo.yaml")
        return [sys.executable, "-m", "pipelines", "corpus", "build", config, *overrides, *arguments]

    return words


@pytest.fixture(scope="session")
def build(command: Callable[..., list[str]]) -> Callable[..., str]:
    """`build(workspace, *arguments)` runs that command to its end and gives what it printed."""

    def run(workspace: Path, *arguments: str) -> str:
        result = subprocess.run(
            command(workspace, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_SECONDS
        )
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:] + _log(workspace)
        return result.stdout

    return run


def _log(workspace: Path) -> str:
    log = workspace / "logs" / "spark.log"
    return log.read_text()[-3000:] if log.exists() else ""


@pytest.fixture(scope="session")
def built(build: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of the crawl's corpus, built on one core."""
    workspace = tmp_path_factory.mktemp("one") / "run"
    assert "datasets, and their share" in build(workspace, "--master", "local[1]")
    return workspace
