"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from rules_doc import PATH, rules_markdown

from corpus.config import CorpusConfig
from corpus.document import DOCUMENT
from corpus.registry import stage_class
from pipelines.cli import parser
from pipelines.configuration import load_config

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[str]:
    """Lines of that program in the blocks of all documents, comments off."""
    lines = [line for path in DOCUMENTS for line in path.read_text().splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith(f"{program} ")]


def test_every_command_is_one_that_the_command_line_takes() -> None:
    found = commands("millrace")
    assert len(found) >= 6
    for line in found:
        parser().parse_args(shlex.split(line)[1:])


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for line in commands("make")} | set(re.findall(r"`make ([a-z-]+)", TEXT))
    assert {"demo", "test", "corpus"} <= named <= targets


def test_every_file_that_is_named_is_there() -> None:
    for path in DOCUMENTS:
        for name in re.findall(r"(?:configs|docs)/[\w/.-]+\.(?:yaml|md|svg)", path.read_text()):
            assert (ROOT / name).is_file() or "mine" in name, f"{path.name} names {name}"


def test_the_config_is_a_config(tmp_path: Path) -> None:
    [text] = [block for block in blocks("yaml") if block.startswith("workspace:")]
    (tmp_path / "corpus").mkdir()
    (tmp_path / "blend").symlink_to(ROOT / "configs" / "blend")
    path = tmp_path / "corpus" / "mine.yaml"
    path.write_text(text)
    config = load_config(CorpusConfig, path)
    assert [source.name for source in config.sources] == ["pages", "pile"]


def test_the_stage_works_as_it_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = blocks("python")
    (tmp_path / "my_stages.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    [stages] = [yaml.safe_load(block)["stages"] for block in blocks("yaml") if "TooLoud" in block]
    [(name, values)] = stages[1].items()
    kind = stage_class(name)
    stage = kind(kind.Config(**values))
    rows = [{"id": str(i), "source": "pages", "text": text} for i, text in enumerate(["LOUD", "quiet", "Loud"])]
    dropped = stage.process(pa.RecordBatch.from_pylist(rows, DOCUMENT))["dropped"].to_pylist()
    assert dropped == ["too_loud:capitals", None, None]
    sys.modules.pop("my_stages")


def test_the_table_of_rules_is_that_of_the_code() -> None:
    assert PATH.read_text() == rules_markdown(), "run python tests/support/rules_doc.py"
