"""What can be known to be wrong before a run starts is said before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corpus.config import CorpusConfig
from corpus.plan import Plan, make_plan
from corpus.problems import UserError

TOKENIZER = {"vocab_size": 300}


def plan(folder: Path, stages: list[Any], tokenizer: dict[str, Any] = TOKENIZER) -> Plan:
    """For a WARC source `pages` and a JSONL source `notes`."""
    (folder / "a.warc").write_bytes(b"")
    (folder / "a.jsonl").write_bytes(b"")
    sources = [{"name": "pages", "paths": [f"{folder}/a.warc"]}, {"name": "notes", "paths": [f"{folder}/a.jsonl"]}]
    content = {"workspace": str(folder / "run"), "sources": sources, "stages": stages, "tokenizer": tokenizer}
    return make_plan(CorpusConfig.model_validate(content))


@pytest.mark.parametrize(
    "stages",
    [
        [],
        ["repair"],
        ["repair", "extract"],
        ["exact_dedup", "extract"],
        [{"exact_dedup": {"sources": ["notes"]}}, "extract"],
        [{"extract": {"sources": ["notes"]}}],
    ],
)
def test_pages_whose_text_no_stage_makes_in_time_are_refused(tmp_path: Path, stages: list[Any]) -> None:
    with pytest.raises(UserError, match=r"source pages is WARC.*put `extract` before all other stages"):
        plan(tmp_path, stages)


@pytest.mark.parametrize(
    "stages",
    [["extract", "repair"], [{"repair": {"sources": ["notes"]}}, "extract"], [{"extract": {"sources": ["p*"]}}]],
)
def test_other_sources_and_later_stages_are_free(tmp_path: Path, stages: list[Any]) -> None:
    assert plan(tmp_path, stages).steps[0].name.startswith("ingest+")


def test_a_tokenizer_that_is_not_there_or_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer\.load: .*no\.model: not found"):
        plan(tmp_path, ["extract"], {"load": str(tmp_path / "no.model")})
    (tmp_path / "bad.model").write_bytes(b"not a model")
    with pytest.raises(UserError, match=r"tokenizer\.load: .*bad\.model"):
        plan(tmp_path, ["extract"], {"load": str(tmp_path / "bad.model")})
