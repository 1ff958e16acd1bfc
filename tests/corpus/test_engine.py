"""Whole corpora on Spark, small and with planted truth: what comes out, what is not done twice, what stops a run."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from corpus.check import audit, document_id, find_document
from corpus.config import CorpusConfig
from corpus.engine import Engine
from corpus.indexed import IndexedDataset
from corpus.manifest import Manifest, ManifestError, load
from corpus.plan import make_plan
from corpus.problems import UserError
from corpus.tokenizer import load as load_tokenizer
from corpus.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Build = Callable[..., Manifest]


#: A user's module with a stage of their own.
OWN_STAGE = """
import numpy as np
from corpus.document import drop_where
from corpus.stage import DocumentStage, StageConfig

class MarkedConfig(StageConfig):
    word: str = "secret"

class DropMarked(DocumentStage):
    name = "marked"
    Config = MarkedConfig

    def process(self, batch):
        found = np.array([self.config.word in text for text in batch["text"].to_pylist()], dtype=bool)
        return drop_where(batch, found, "marked:word")
"""
MARKED = "own_stages_of_a_user:DropMarked"


@pytest.fixture(autouse=True)
def own_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_stages_of_a_user.py").write_text(OWN_STAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_stages_of_a_user", raising=False)


def sentence(n: int) -> str:
    return (
        f"Document {n} tells of the {n * 7919 % 1000} ships that sailed in {1500 + n} and of {n * n} barrels of rye. "
    )


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Two sources in Pile layout: 60 web pages, 20 notes that repeat web pages, 3 broken lines."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    lines = [json.dumps({"text": sentence(n) * 8, "id": f"w{n}", "meta": {"set": "Web-CC"}}) for n in range(60)]
    lines[10] = '{"text": "cut'
    lines[20] = "[]"
    (folder / "web-0.jsonl").write_text("\n".join(lines[:30]) + "\n")
    (folder / "web-1.jsonl").write_text("\n".join(lines[30:]) + "\n")
    notes = [json.dumps({"text": sentence(n) * 8, "meta": {"set": "Notes"}}) for n in range(30, 50)]
    notes += [json.dumps({"text": f"a secret of {sentence(n)}", "meta": {"set": "Notes"}}) for n in range(100, 140)]
    (folder / "notes.jsonl").write_text("\n".join([*notes, '{"no": "text"}']) + "\n")
    return folder


@pytest.fixture
def said() -> io.StringIO:
    """What the builds of a test print."""
    return io.StringIO()


@pytest.fixture
def build(crawl: Path, tmp_path: Path, spark: SparkSession, said: io.StringIO) -> Build:
    def build(workspace: str = "run", **changes: Any) -> Manifest:
        content: dict[str, Any] = {
            "workspace": str(tmp_path / workspace),
            "max_bad_fraction": 0.1,
            "sources": [{"name": "pile", "paths": [f"{crawl}/*.jsonl"], "split_field": "meta.set"}],
            "stages": ["exact_dedup"],
            "tokenizer": {"vocab_size": 400, "kind": "sentencepiece-bpe"},
        }
        config = CorpusConfig.model_validate(content | changes)
        return Engine(make_plan(config), spark, Console(file=said, width=1000)).run()

    return build


def digests(workspace: Path) -> dict[str, str]:
    files = [*(workspace / "datasets").iterdir(), workspace / "corpus.yaml"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_record_has_one_fate_and_each_subset_is_a_source(build: Build, tmp_path: Path) -> None:
    manifest = build()
    assert {d.name: d.documents for d in manifest.datasets} == {"notes": 60, "web-cc": 38}
    ingest = {row["source"]: row for row in manifest.funnel if row["step"] == "ingest"}
    assert sum(ingest["pile"]["failed"].values()) == 3
    dedup = {row["source"]: row for row in manifest.funnel if row["step"] == "exact_dedup"}
    assert dedup["web-cc"]["dropped"] == {"exact_dedup:duplicate": 20}
    assert not list(audit(Workspace(tmp_path / "run"), manifest, samples=100))


def test_tokens_are_those_of_the_documents_in_hashed_order(build: Build, crawl: Path, tmp_path: Path) -> None:
    build()
    reader = IndexedDataset(tmp_path / "run/datasets/web-cc")
    tokenizer = load_tokenizer(tmp_path / "run/datasets/tokenizer.model")
    ids = pq.read_table(tmp_path / "run/datasets/web-cc.docs.parquet")["id"].to_pylist()
    texts = {}
    for path in sorted(crawl.glob("web-*.jsonl")):
        offset = 0
        for line in path.read_bytes().splitlines(keepends=True):
            texts[f"pile/{path.name}#{offset}"] = line
            offset += len(line)
    assert ids != sorted(ids)
    for number, id_ in enumerate(ids):
        tokens = reader[number].tolist()
        assert tokens[-1] == tokenizer.eod
        assert tokenizer.decode(tokens[:-1]) == json.loads(texts[id_])["text"]


def test_the_duplicate_of_the_preferred_source_stays_and_is_named(
    build: Build, tmp_path: Path, spark: SparkSession
) -> None:
    manifest = build(stages=[{"exact_dedup": {"priority": ["web-cc", "notes"]}}])
    assert {d.name: d.documents for d in manifest.datasets} == {"notes": 40, "web-cc": 58}
    [folder] = (tmp_path / "run/stages").glob("01-exact_dedup-*")
    losers = spark.read.parquet(str(folder / "documents")).where("dropped is not null").collect()
    survivors = {row["metadata"]["duplicate_of"] for row in losers}
    assert {row["source"] for row in losers} == {"notes"}
    assert len(survivors) == 20
    assert all(survivor.startswith("pile/web-") for survivor in survivors)


def test_bytes_do_not_depend_on_partitions(build: Build, tmp_path: Path, spark: SparkSession) -> None:
    build("one")
    spark.conf.set("spark.sql.shuffle.partitions", "13")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        build("many")
    finally:
        for key in ("spark.sql.adaptive.enabled", "spark.sql.files.maxPartitionBytes"):
            spark.conf.unset(key)
        spark.conf.set("spark.sql.shuffle.partitions", "4")
    assert digests(tmp_path / "one") == digests(tmp_path / "many")


def written(workspace: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in workspace.glob("stages/*/stage.json")}


def test_a_rerun_does_only_what_changed(build: Build, tmp_path: Path) -> None:
    build(stages=["exact_dedup", MARKED])
    first, result = written(tmp_path / "run"), digests(tmp_path / "run")
    build(stages=["exact_dedup", MARKED])
    assert written(tmp_path / "run") == first
    build(stages=["exact_dedup", {MARKED: {"word": "ships that sailed in 1530 "}}])
    second = written(tmp_path / "run")
    kept = {name for name in first if name.startswith(("00-", "01-"))}
    assert {name: second[name] for name in kept} == {name: first[name] for name in kept}
    assert len(second) == len(first) + 3
    assert digests(tmp_path / "run") != result


def test_too_many_bad_records_stop_the_run_with_the_first_one_named(build: Build, crawl: Path) -> None:
    with pytest.raises(UserError, match=r"source pile: 3 of 121 records could not be read.*at \d+ of .*\.jsonl"):
        build(max_bad_fraction=0.01)
    build(max_bad_fraction=0.05)


def test_the_bad_source_is_named_with_its_own_record_behind_many_of_another(build: Build, tmp_path: Path) -> None:
    (tmp_path / "aged.jsonl").write_text(f"broken\n{json.dumps({'text': sentence(1)})}\n" * 40)
    (tmp_path / "fresh.jsonl").write_text("broken\n")
    sources = [{"name": name, "paths": [str(tmp_path / f"{name}.jsonl")]} for name in ("aged", "fresh")]
    with pytest.raises(UserError, match=r"source fresh: 1 of 1 .* bad_json at 0 of .*/fresh\.jsonl"):
        build(sources=sources, max_bad_fraction=0.6)


def test_nothing_kept_is_said_and_not_a_crash(build: Build) -> None:
    with pytest.raises(UserError, match="every document was dropped"):
        build(stages=[{MARKED: {"word": " "}}])


@pytest.mark.parametrize("documents", [1, 30])
def test_a_corpus_without_duplicates_keeps_all(build: Build, tmp_path: Path, documents: int) -> None:
    path = tmp_path / "unique.jsonl"
    path.write_text("".join(json.dumps({"text": sentence(n) * 20}) + "\n" for n in range(documents)))
    tokenizer = {"vocab_size": 270, "kind": "bytelevel-bpe"}
    manifest = build(sources=[{"name": "unique", "paths": [str(path)]}], tokenizer=tokenizer)
    assert [dataset.documents for dataset in manifest.datasets] == [documents]


def test_a_stage_whose_source_is_misspelt_is_warned_of(build: Build, said: io.StringIO) -> None:
    build(stages=[{"exact_dedup": {"sources": ["web-c"]}}])
    [warning] = [line for line in said.getvalue().splitlines() if line.startswith("warning")]
    assert "stages: exact_dedup.sources names 'web-c'; the sources are notes, " in warning


#: Two sources of one file, and the field that each takes for its text.
FIELDS = {"texts": "text", "names": "id"}


def test_two_sources_may_read_the_same_files(build: Build, crawl: Path) -> None:
    sources = [{"name": name, "paths": [f"{crawl}/web-1.jsonl"], "text_field": field} for name, field in FIELDS.items()]
    manifest = build(sources=sources, stages=[])
    assert {dataset.name: dataset.documents for dataset in manifest.datasets} == {"names": 30, "texts": 30}


def test_files_that_break_off_stop_the_run_though_few_records_are_seen_to_be_lost(build: Build, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": sentence(n)}) + "\n" for n in range(2000))
    for number in range(6):
        whole = gzip.compress(lines.encode(), mtime=0)
        (tmp_path / f"shard-{number}.jsonl.gz").write_bytes(whole[:60] if number in (1, 3, 4) else whole)
    sources = [{"name": "shards", "paths": [f"{tmp_path}/shard-*"]}]
    with pytest.raises(UserError, match=r"source shards: 3 of 6 files break off.*truncated_member at 0 of .*shard-1"):
        build(sources=sources, stages=[])
    assert build(sources=sources, stages=[], max_bad_fraction=0.5).datasets[0].documents == 6000


def test_a_sample_of_few_large_documents_is_not_empty(build: Build, tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"book-{number}.txt").write_text("".join(sentence(n) for n in range(number, 9000, 3)))
    tokenizer = {"vocab_size": 300, "sample_mb": 0.01, "kind": "sentencepiece-bpe"}
    manifest = build(sources=[{"name": "books", "paths": [f"{tmp_path}/book-*"]}], tokenizer=tokenizer)
    assert manifest.datasets[0].documents == 4


def test_a_change_of_the_blend_touches_no_dataset_and_a_wrong_one_nothing(build: Build, tmp_path: Path) -> None:
    build(blend={"weights": {"notes": 1, "web-cc": 3}})
    before = {path: path.stat().st_ino for path in (tmp_path / "run/datasets").iterdir()}
    for weights, message in (
        ({"notes": 1}, "no weight for web-cc"),
        ({"notes": 1, "web-cc": 1, "x": 1}, "called x; there are notes, web-cc"),
    ):
        with pytest.raises(ManifestError, match=message):
            build(blend={"weights": weights})
    weights = {dataset.name: dataset.weight for dataset in load(tmp_path / "run/corpus.yaml").datasets}
    assert weights == {"notes": 0.25, "web-cc": 0.75}
    changed = build(blend={"weights": {"notes": 1, "web-cc": 1}, "token_budget": 10_000})
    assert {dataset.name: dataset.weight for dataset in changed.datasets} == {"notes": 0.5, "web-cc": 0.5}
    assert {path: path.stat().st_ino for path in (tmp_path / "run/datasets").iterdir()} == before
    assert load(tmp_path / "run/corpus.yaml") == changed


@pytest.mark.parametrize("damage", ["no-bin", "empty-manifest"])
def test_what_is_lost_of_the_datasets_is_made_again(build: Build, tmp_path: Path, damage: str) -> None:
    build()
    expected = digests(tmp_path / "run")
    if damage == "no-bin":
        (tmp_path / "run/datasets/notes.bin").unlink()
    else:
        (tmp_path / "run/corpus.yaml").write_text("")
    build()
    assert digests(tmp_path / "run") == expected


def test_duplicates_are_found_across_kinds_of_space_and_name_their_survivor(
    build: Build, tmp_path: Path, spark: SparkSession
) -> None:
    """One document comes with a link of an earlier deduplication in its metadata."""
    texts = ["Two  words " + sentence(1) * 9, "two\u00a0words\u3000" + sentence(1) * 9, sentence(2) * 20]
    path = tmp_path / "spaces.jsonl"
    path.write_text("".join(json.dumps({"text": text, "duplicate_of": "of old"}) + "\n" for text in texts))
    source = {"name": "spaces", "paths": [str(path)], "metadata_fields": ["duplicate_of"]}
    tokenizer = {"vocab_size": 300, "kind": "bytelevel-bpe"}
    build(sources=[source], stages=[{"exact_dedup": {"compare": "normalised"}}], tokenizer=tokenizer)
    [folder] = (tmp_path / "run/stages").glob("01-exact_dedup-*")
    dropped = spark.read.parquet(str(folder / "documents")).where("dropped is not null").collect()
    [survivor] = [row["metadata"]["duplicate_of"] for row in dropped]
    assert survivor.startswith("spaces/spaces.jsonl#")


def test_ids_that_a_source_repeats_are_counted_and_do_no_harm(build: Build, crawl: Path, tmp_path: Path) -> None:
    (crawl / "again.jsonl").write_text(
        json.dumps({"text": sentence(999), "id": "w3", "meta": {"set": "Web-CC"}}) + "\n"
    )
    manifest = build()
    assert {d.name: d.documents for d in manifest.datasets}["web-cc"] == 39
    [folder] = (tmp_path / "run/stages").glob("00-ingest-*")
    repeated = json.loads((folder / "stage.json").read_text())["repeated_record_ids"]
    assert (repeated["ids"], repeated["records"]) == (1, 2)
    assert repeated["examples"][0]["record_id"] == "w3"


@pytest.mark.parametrize("victim", ["notes.bin", "notes.idx", "notes.docs.parquet", "tokenizer.model"])
def test_the_audit_names_a_changed_file(build: Build, tmp_path: Path, victim: str) -> None:
    manifest = build()
    path = tmp_path / "run/datasets" / victim
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    faults = list(audit(Workspace(tmp_path / "run"), manifest, samples=10))
    assert any(victim in fault or victim.split(".")[0] in fault for fault in faults), faults


def test_a_config_changed_and_changed_back_is_audited_by_its_own_steps(build: Build, tmp_path: Path) -> None:
    """The workspace holds the steps of both; the newer ones are not those of the corpus that is there now."""
    workspace = Workspace(tmp_path / "run")
    preferred = {"exact_dedup": {"priority": ["web-cc", "notes"]}}
    first, other, again = build(), build(stages=[preferred]), build()
    assert first == again
    assert first.steps[-1] != other.steps[-1]
    assert not list(audit(workspace, again, samples=100))
    way = find_document(workspace, again, document_id(workspace, again.dataset("notes"), 0))
    assert [folder for folder, _ in way] == list(again.steps)
    shutil.rmtree(workspace.step(again.steps[-1]))
    assert any(again.steps[-1] in fault for fault in audit(workspace, again, samples=100))


def test_the_audit_names_a_lost_and_a_cut_step_file(build: Build, tmp_path: Path) -> None:
    manifest = build()
    lost, cut = sorted((tmp_path / "run/stages").glob("*/documents/**/*.parquet"))[:2]
    lost.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    faults = list(audit(Workspace(tmp_path / "run"), manifest, samples=0))
    assert any(str(lost) in fault and "is missing" in fault for fault in faults)
    assert any(str(cut) in fault and "bytes" in fault for fault in faults)
