"""What was planted in the demo crawl, and what became of it in the corpus: the truth is known to the record."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from corpus.check import step_folders
from corpus.dedup.exact import DUPLICATE_OF
from corpus.manifest import load
from corpus.sources.record import BREAKS_FILE
from corpus.workspace import Workspace
from pipelines.cli import main

#: Sentences of the demo sites' banners and footers.
FRAMES = (
    "We use cookies to give you the best experience",
    "Copyright by the authors.",
    "Terms Privacy Cookies",
    "View history",
    "This page was last edited on 1 January",
)

Documents = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def truth(crawl: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((crawl / "truth.json").read_text())
    return found


@pytest.fixture(scope="module")
def steps(built: Path) -> list[Path]:
    return step_folders(Workspace(built), load(built / "corpus.yaml"))


@pytest.fixture(scope="module")
def pages(steps: list[Path]) -> Documents:
    """Every document of the pages as the last step left it, by URL."""
    return by_url(steps[-1] / "documents")


@pytest.fixture(scope="module")
def extracted(steps: list[Path]) -> Documents:
    """Every document of the pages as the first pass left it, by URL: texts of what was dropped later are still there."""
    return by_url(steps[0] / "documents")


def by_url(folder: Path) -> Documents:
    rows = pads.dataset(folder).to_table(filter=pads.field("source") == "pages").to_pylist()
    found = {row["url"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def planted(truth: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = truth["pages"]["planted"][kind]
    assert found
    return found


def test_every_broken_record_is_named_by_file_offset_and_reason_and_nothing_else(
    steps: list[Path], truth: dict[str, Any]
) -> None:
    folder = steps[0] / "failures"
    found = [dict(row["metadata"]) for row in pads.dataset(folder).to_table().to_pylist()]
    told = [place for source in ("pages", "code", "readmes") for place in truth[source]["broken"]]
    assert sorted((Path(row["file"]).name, int(row["offset"]), row["reason"]) for row in found) == sorted(
        (place["file"], place["offset"], place["reason"]) for place in told
    )


def test_every_record_of_every_file_is_accounted_for(built: Path, steps: list[Path], truth: dict[str, Any]) -> None:
    folder = steps[0] / "files"
    accounts = {}
    for row in pads.dataset(folder).to_table().to_pylist():
        account = dict(row["metadata"])
        name = Path(account.pop("file")).name
        accounts[name] = {key: int(value) for key, value in account.items()}
    for name, shard in truth["pages"]["shards"].items():
        skipped = {f"skipped:{reason}": count for reason, count in shard["skipped"].items()}
        broken = {"broken": 1} if BREAKS_FILE & set(shard["failures"]) else {}
        failures = sum(shard["failures"].values())
        assert accounts.pop(name) == {"documents": shard["records"], "failures": failures} | skipped | broken
    documents = sum(truth["code"]["documents"].values()) + truth["readmes"]["documents"]
    assert sum(account["documents"] for account in accounts.values()) == documents
    funnel = load(built / "corpus.yaml").funnel
    entered = {row["source"]: row["in"] - sum(row["failed"].values()) for row in reversed(funnel)}
    for name, count in truth["code"]["documents"].items():
        assert entered[name.lower()] == count


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("empty", "extract:empty"),
        ("image", "extract:content_type"),
        ("foreign", "language:not_kept"),
        ("short", "rules:gopher_quality_v1.word_count_low"),
    ],
)
def test_what_no_corpus_should_hold_is_dropped_for_its_own_reason(
    kind: str, reason: str, truth: dict[str, Any], pages: Documents
) -> None:
    urls = planted(truth, kind)
    assert {pages[url]["dropped"] for url in urls} == {reason}
    if kind != "short":
        assert {url for url, row in pages.items() if row["dropped"] == reason} == set(urls)


def test_error_pages_are_no_documents(truth: dict[str, Any], pages: Documents) -> None:
    assert not pages.keys() & planted(truth, "missing").keys()


@pytest.mark.parametrize("kind", ["mirror", "reprint"])
def test_of_a_page_and_its_copy_one_stays(kind: str, truth: dict[str, Any], pages: Documents) -> None:
    """Mirrors have the same HTML; reprints the same text in another site's frame, of which a line may be left."""
    fates = Counter()
    for copy, original in planted(truth, kind).items():
        one, other = pages[copy], pages[original]
        dropped = [row for row in (one, other) if row["dropped"] == "exact_dedup:duplicate"]
        if one["dropped"] == other["dropped"] != "exact_dedup:duplicate":
            fates["both fail the same rule" if one["dropped"] else "both kept"] += 1
            assert one["dropped"] or (kind == "reprint" and one["text"] != other["text"])
        else:
            assert len(dropped) == 1
            kept = one if dropped[0] is other else other
            assert kept["dropped"] is None
            assert dict(dropped[0]["metadata"])[DUPLICATE_OF] == kept["id"]
            fates["one kept"] += 1
    assert fates["one kept"] > 0


def test_pages_in_any_encoding_are_read(truth: dict[str, Any], extracted: Documents) -> None:
    for url, detail in planted(truth, "encoded").items():
        assert detail["sentence"] in extracted[url]["text"], (url, detail)


def test_mojibake_is_repaired(truth: dict[str, Any], extracted: Documents) -> None:
    for url, sentence in planted(truth, "mojibake").items():
        assert sentence in extracted[url]["text"], url


def test_no_frame_of_a_page_reaches_the_corpus(pages: Documents) -> None:
    for url, row in pages.items():
        if row["dropped"] is None:
            for frame in FRAMES:
                assert frame not in row["text"], url


def test_the_datasets_hold_what_was_kept_and_nothing_else(built: Path, pages: Documents) -> None:
    ids = pq.read_table(built / "datasets" / "pages.docs.parquet")["id"].to_pylist()
    assert sorted(ids) == sorted(row["id"] for row in pages.values() if row["dropped"] is None)


def test_the_corpus_passes_its_audit_and_shows_its_documents(
    built: Path, capsys: pytest.CaptureFixture[str], pages: Documents
) -> None:
    assert main(["corpus", "check", str(built)]) == 0
    assert "sampled tokens are those of their texts" in capsys.readouterr().out
    assert main(["corpus", "show", str(built), "pages:0"]) == 0
    id_ = pq.read_table(built / "datasets" / "pages.docs.parquet")["id"][0].as_py()
    shown = capsys.readouterr().out
    text = next(row["text"] for row in pages.values() if row["id"] == id_)
    assert f"id: {id_}" in shown
    assert text.split("\n")[0] in shown


def damage_bin(root: Path) -> None:
    path = root / "datasets" / "pages.bin"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)


def cut_step(root: Path) -> None:
    path = next(root.glob("stages/01-*/documents/part-*"))
    path.write_bytes(path.read_bytes()[:-10])


def lose_index(root: Path) -> None:
    (root / "datasets" / "github.idx").unlink()


def miscount(root: Path) -> None:
    path = root / "corpus.yaml"
    path.write_text(path.read_text().replace("documents: 4", "documents: 5").replace("documents: 1", "documents: 2"))


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (damage_bin, "pages.bin: its content has changed"),
        (cut_step, "bytes, and had"),
        (lose_index, "github.idx: is missing"),
        (miscount, "documents, the manifest says"),
    ],
)
def test_the_audit_finds_damage(
    damage: Callable[[Path], None], fault: str, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    damage(copy)
    assert main(["corpus", "check", str(copy)]) == 1
    assert fault in capsys.readouterr().out
