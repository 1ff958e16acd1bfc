"""Conservation: in = kept + dropped + failed, and nothing comes back."""

from __future__ import annotations

import pytest

from corpus.ledger import ConservationError, broken_files, follow, ingested


def test_each_step_counts_only_what_it_dropped_itself() -> None:
    before = {("web", None): 10, ("web", "a:x"): 2, ("code", None): 3}
    after = {("web", None): 6, ("web", "a:x"): 2, ("web", "b:y"): 4, ("code", None): 3}
    rows = {row.source: row.as_dict() for row in follow("b", before, after)}
    assert rows["web"] == {
        "step": "b",
        "source": "web",
        "in": 10,
        "kept": 6,
        "dropped": {"b:y": 4},
        "failed": {},
        "skipped": {},
    }
    assert rows["code"]["dropped"] == {}


@pytest.mark.parametrize("count", [9, 11])
def test_a_lost_or_invented_document_fails_the_run(count: int) -> None:
    with pytest.raises(ConservationError, match=f"dedup: 10 documents of 'web' went in and {count} came out"):
        follow("dedup", {("web", None): 10}, {("web", None): count})


def test_a_document_cannot_come_back() -> None:
    with pytest.raises(ConservationError, match="came back"):
        follow("late", {("web", None): 1, ("web", "a:x"): 1}, {("web", None): 2})


FILES = [
    {"id": "web/a", "source": "web", "documents": "2", "failures": "1", "broken": "1"},
    {"id": "web/b", "source": "web", "documents": "1", "skipped:http_status_404": "4"},
    {"id": "moved/a", "source": "moved", "skipped:http_status_301": "2"},
]


def test_ingest_accounts_for_every_record_of_every_file() -> None:
    documents = {("web", None): 2, ("web", "extract:empty"): 1}
    moved, row = ingested("ingest", documents, {("web", "failed:bad_json"): 1}, FILES, 3)
    assert row.as_dict() == {
        "step": "ingest",
        "source": "web",
        "in": 4,
        "kept": 2,
        "dropped": {"extract:empty": 1},
        "failed": {"bad_json": 1},
        "skipped": {"http_status_404": 4},
    }
    assert (moved.source, moved.entered, moved.skipped) == ("moved", 0, {"http_status_301": 2})
    assert broken_files(FILES) == {"web": (1, 2), "moved": (0, 1)}


@pytest.mark.parametrize(
    ("files", "written", "message"),
    [
        (FILES[:1], 3, "3 files were listed, 1 read"),
        ([*FILES, FILES[0]], 5, "read twice: \\['web/a'\\]"),
        (FILES, 2, "the files held 3 documents and 2 were written"),
    ],
)
def test_a_lost_file_a_repeated_file_and_a_lost_record_are_seen(
    files: list[dict[str, str]], written: int, message: str
) -> None:
    with pytest.raises(ConservationError, match=message):
        ingested("ingest", {("web", None): written}, {("web", "failed:bad_json"): 1}, files, 3)
