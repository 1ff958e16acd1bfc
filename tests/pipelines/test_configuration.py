"""Config files: every fault is one line that names file, key and the nearest right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.config import CorpusConfig
from corpus.problems import UserError
from pipelines.cli import main
from pipelines.configuration import load_config

GOOD = """\
workspace: out
sources:
  - name: pages
    paths: [a/*.jsonl]
stages:
  - extract
  - language: {keep: [en]}
tokenizer: {vocab_size: 1000}
"""


def read(folder: Path, text: str, *overrides: str) -> CorpusConfig:
    path = folder / "my.yaml"
    path.write_text(text)
    return load_config(CorpusConfig, path, overrides)


def fault(folder: Path, text: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, text, *overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("workspace: out", "workspce: out", "workspce: unknown key; did you mean 'workspace'?"),
        ("keep: [en]", "kep: [en]", "stages[1]: language.kep: unknown key; did you mean 'keep'?"),
        ("- extract", "- extrct", "stages[0]: no stage is called 'extrct': did you mean 'extract'?"),
        ("vocab_size: 1000", "vocab_sise: 1000", "tokenizer.vocab_sise: unknown key; did you mean 'vocab_size'?"),
        ("vocab_size: 1000", "vocab_size: many", "tokenizer.vocab_size: input should be a valid integer"),
        (
            "vocab_size: 1000",
            "vocab_size: 3",
            "tokenizer.vocab_size: input should be greater than or equal to 258, not 3",
        ),
        ("paths: [a/*.jsonl]", "path: [a/*.jsonl]", "sources[0].path: unknown key; did you mean 'paths'?"),
        ("workspace: out", "seed: 1", "workspace: is missing"),
        ("{keep: [en]}", "{keep: [en], sources: [pgs]}", "language.sources names 'pgs'; the sources are pages"),
        ("- extract", "- my_module:Stage", "cannot import 'my_module'"),
        ("- extract", "- tests_broken_stages:Nameless", "the class needs `name = ...`"),
        ("- extract", "- tests_broken_stages:Idle", "the class lacks process"),
        ("- extract", "- tests_broken_module:Any", "importing 'tests_broken_module' raised ZeroDivisionError"),
        ("workspace: out", "workspace: s3://bucket/out", "must be the path of a folder, not a URI"),
        ("workspace: out", "workspace: run[1]", "must be the path of a folder"),
        ("workspace: out", "workspace: {{ out }}", "my.yaml:1: a key must be a word"),
        ("workspace: out", "workspace: out\nblend: {weights: {pags: 1}}", "blend.weights: no weight for pages"),
        ("workspace: out", "workspace: out\nblend: !include my.yaml", "!include leads back to"),
        ("- extract", "- corpus.stage:StageConfig", "neither a DocumentStage nor a CorpusStage"),
    ],
)
def test_a_fault_is_named_with_its_place_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tests_broken_module.py").write_text("1 / 0\n")
    (tmp_path / "tests_broken_stages.py").write_text(
        "from corpus.stage import DocumentStage\n"
        "class Nameless(DocumentStage):\n    def process(self, batch): return batch\n"
        "class Idle(DocumentStage):\n    name = 'idle'\n"
    )
    line = fault(tmp_path, GOOD.replace(old, new))
    assert message in line
    assert "my.yaml" in line


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    assert "my.yaml:2" in fault(tmp_path, "a: 1\nb: [")


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    assert "key 'workspace' is given twice" in fault(tmp_path, GOOD + "workspace: other\n")


def test_anchors_may_be_merged(tmp_path: Path) -> None:
    merged = GOOD.replace("paths: [a/*.jsonl]", "<<: {paths: [a/*.jsonl], url_field: link}")
    source = read(tmp_path, merged).sources[0]
    assert (source.paths, source.url_field) == (["a/*.jsonl"], "link")


def test_a_missing_file_suggests_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(GOOD)
    with pytest.raises(UserError, match=r"did you mean .*demo\.yaml"):
        load_config(CorpusConfig, tmp_path / "dmeo.yaml")


def test_overrides_reach_every_value(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        GOOD,
        "seed=7",
        "sources.pages.format=jsonl",
        "sources.0.paths.0=b/*.jsonl",
        "stages.language.keep=[de, fr]",
        "stages.extract.timeout_seconds=3",
        "blend.weights={pages: 2}",
        "tokenizer.kind=sentencepiece-bpe",
    )
    assert (config.seed, config.sources[0].format, config.tokenizer.kind) == (7, "jsonl", "sentencepiece-bpe")
    assert config.sources[0].paths == ["b/*.jsonl"]
    assert config.stages[1].config.keep == ["de", "fr"]
    assert config.stages[0].config.timeout_seconds == 3
    assert config.blend.weights == {"pages": 2}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "write key.sub=value"),
        ("stages.langage.keep=[en]", "stages has no entry 'langage'"),
        ("seed.x=1", "is 1234 and has no keys"),
        ("sede=1", "sede: unknown key; did you mean 'seed'?"),
        ("seed=[", "the value is not YAML"),
    ],
)
def test_a_wrong_override_is_named(tmp_path: Path, override: str, message: str) -> None:
    assert message in fault(tmp_path, GOOD + "seed: 1234\n", override)


def test_included_files_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "blends").mkdir()
    (tmp_path / "blends" / "mine.yaml").write_text("weights: {pages: 1}\n")
    assert read(tmp_path, GOOD + "blend: !include blends/mine.yaml\n").blend.weights == {"pages": 1}


def test_the_command_prints_one_line_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my.yaml").write_text(GOOD.replace("seed", "sede") + "sede: 1\n")
    assert main(["corpus", "build", str(tmp_path / "my.yaml")]) == 2
    assert capsys.readouterr().err.startswith(f"millrace: {tmp_path}/my.yaml: sede: unknown key")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A config whose sources are there."""
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    path = tmp_path / "my.yaml"
    path.write_text(
        GOOD.replace("a/*.jsonl", f"{tmp_path}/a.jsonl").replace("workspace: out", f"workspace: {tmp_path}/out")
    )
    return path


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "sources.pages.paths=[nothere*.jsonl]",
            "source pages: no file matches nothere*.jsonl; the nearest folder there is ",
        ),
        ("sources.pages.paths=[a]", "source pages: no file matches a; "),
        ("sources.pages.listing=no.txt", "source pages: listing: cannot read no.txt"),
        ("sources.pages.paths=['s3:// /x']", "s3:// /x"),
        ("tokenizer={load: no.model}", "tokenizer.load: no.model: not found"),
        ("workspace=/dev/null/out", "workspace /dev/null/out: cannot be made: Not a directory"),
    ],
)
def test_what_is_not_there_is_one_line_before_anything_runs(
    good: Path, override: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["corpus", "build", str(good), override]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"millrace: {message}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["--dry-run", "seed=7"], ["seed=7", "--dry-run"], ["seed=7", "--master", "local[1]", "--dry-run", "seed=8"]],
)
def test_overrides_may_stand_anywhere(good: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "build", str(good), *arguments]) == 0
    assert "pages: 1 files" in capsys.readouterr().out
    assert not (good.parent / "out").exists()


def test_a_misspelt_option_is_no_override(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["corpus", "build", str(good), "--dry-rum"])
    assert "unrecognized arguments: --dry-rum" in capsys.readouterr().err
