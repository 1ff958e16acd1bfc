"""The demo crawl is the same twice, and what its truth says of it is so, as other libraries read it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from corpus.sources.config import SourceConfig
from corpus.sources.demo import FAULTS, make_demo_crawl
from corpus.sources.demo_pages import ENCODED, FOREIGN
from corpus.sources.jsonl import read_jsonl
from corpus.sources.record import Failure, Record, Skipped
from corpus.sources.warc import read_warc

PAGES = 200
MAGIC = b"\x1f\x8b\x08"

Crawl = tuple[Path, dict[str, Any]]


class Page(NamedTuple):
    """A response as warcio reads it."""

    file: str
    status: str
    content_type: str
    body: bytes


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    folder = tmp_path_factory.mktemp("demo") / "crawl"
    return folder, make_demo_crawl(folder, pages=PAGES)


@pytest.fixture(scope="module")
def pages(crawl: Crawl) -> dict[str, Page]:
    """The sound responses by URL."""
    folder, truth = crawl
    broken = {(place["file"], place["offset"]) for place in truth["pages"]["broken"]}
    found: dict[str, Page] = {}
    for path in sorted((folder / "pages").iterdir()):
        for offset, member in members(path.read_bytes()):
            if (path.name, offset) in broken:
                continue
            for record in ArchiveIterator(io.BytesIO(member)):
                if record.rec_type == "response":
                    url, http = record.rec_headers.get_header("WARC-Target-URI"), record.http_headers
                    assert url not in found
                    body = record.content_stream().read()
                    found[url] = Page(path.name, http.get_statuscode(), http.get_header("Content-Type"), body)
    return found


def members(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The whole gzip members of a file, with their offsets; what is no member, or is cut, is passed over."""
    begin = data.find(MAGIC)
    while begin >= 0:
        decoder = zlib.decompressobj(31)
        try:
            decoder.decompress(data[begin:])
        except zlib.error:
            begin = data.find(MAGIC, begin + 1)
            continue
        if not decoder.eof:
            return
        end = len(data) - len(decoder.unused_data)
        yield begin, data[begin:end]
        begin = data.find(MAGIC, end)


def decompressed(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else zstandard.ZstdDecompressor().stream_reader(data).read()


def digest(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def documentation(page: Page) -> bytes:
    """What a template shows as the page's own text."""
    found = re.search(rb'</h1>\n(?:<div class="post-body">)?(.*?)</(?:article|div)>', page.body, re.DOTALL)
    assert found is not None
    return found[1]


def test_it_is_the_same_twice(crawl: Crawl, tmp_path: Path) -> None:
    make_demo_crawl(tmp_path / "again", pages=PAGES)
    assert digest(tmp_path / "again") == digest(crawl[0])


def test_a_crawl_that_is_there_is_left_as_it_is(crawl: Crawl) -> None:
    folder, truth = crawl
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert make_demo_crawl(folder, pages=PAGES) == truth
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    with pytest.raises(FileExistsError, match="no demo crawl of 300 pages"):
        make_demo_crawl(folder, pages=300)


def test_too_few_pages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ask for 180 or more"):
        make_demo_crawl(tmp_path / "crawl", pages=179)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_run_left_is_made_anew(crawl: Crawl, tmp_path: Path) -> None:
    partial = tmp_path / "crawl.partial"
    partial.mkdir()
    (partial / "rest").write_text("of a run that was killed")
    make_demo_crawl(tmp_path / "crawl", pages=PAGES)
    assert digest(tmp_path / "crawl") == digest(crawl[0])
    assert not partial.exists()


def test_every_sound_response_is_counted_in_its_shard(crawl: Crawl, pages: dict[str, Page]) -> None:
    for file, counts in crawl[1]["pages"]["shards"].items():
        statuses = Counter(page.status for page in pages.values() if page.file == file)
        assert statuses["200"] == counts["records"] > 0
        assert statuses["404"] == counts["skipped"].get("http_status_404", 0)


def test_every_record_has_an_id_of_its_own_and_the_fixed_date(crawl: Crawl) -> None:
    ids: Counter[str] = Counter()
    for path in (crawl[0] / "pages").iterdir():
        for _, member in members(path.read_bytes()):
            head = gzip.decompress(member).split(b"\r\n\r\n")[0].decode()
            ids.update(re.findall(r"WARC-Record-ID: <urn:uuid:(.*)>", head))
            assert "WARC-Date: 2026-01-01T00:00:00Z" in head
    assert max(ids.values()) == 1
    assert len(ids) > PAGES


def test_every_kind_is_planted_and_nothing_else_counts_as_such(crawl: Crawl, pages: dict[str, Page]) -> None:
    planted = crawl[1]["pages"]["planted"]
    assert all(url in pages for urls in planted.values() for url in urls)
    assert {url for url, page in pages.items() if page.status == "404"} == set(planted["missing"])
    assert {url for url, page in pages.items() if not page.body} == set(planted["empty"])
    assert {url for url, page in pages.items() if page.body.startswith(b"\x89PNG")} == set(planted["image"])
    assert {url for url, page in pages.items() if b"This page is not ready yet." in page.body} == set(planted["short"])
    assert set(planted["foreign"].values()) == set(FOREIGN)


def test_copies_hold_the_text_of_their_originals(crawl: Crawl, pages: dict[str, Page]) -> None:
    planted = crawl[1]["pages"]["planted"]
    for copy, original in planted["mirror"].items():
        assert pages[copy].body == pages[original].body
    for copy, original in planted["reprint"].items():
        assert documentation(pages[copy]) == documentation(pages[original])
        assert pages[copy].body != pages[original].body
    copies = {**planted["mirror"], **planted["reprint"]}
    assert any(pages[copy].file != pages[original].file for copy, original in copies.items())


def test_no_text_but_that_of_copies_is_there_twice(crawl: Crawl, pages: dict[str, Page]) -> None:
    planted = crawl[1]["pages"]["planted"]
    apart = {url for kind in ("mirror", "reprint", "short", "empty", "missing", "image") for url in planted[kind]}
    texts = Counter(documentation(page) for url, page in pages.items() if url not in apart | set(planted["encoded"]))
    assert max(texts.values()) == 1


def test_encoded_pages_are_what_the_truth_says(crawl: Crawl, pages: dict[str, Page]) -> None:
    encoded = crawl[1]["pages"]["planted"]["encoded"]
    assert {(e["codec"], e["header"], e["meta"]) for e in encoded.values()} == {
        (variant.codec, variant.header, variant.meta) for variant in ENCODED
    }
    for url, expected in encoded.items():
        page = pages[url]
        text = page.body.decode(expected["codec"])
        assert f"<p>{expected['sentence']}</p>" in text
        assert page.content_type == f"text/html{expected['header']}"
        assert re.findall(r'<meta charset="(.*?)">', text) == ([expected["meta"]] if expected["meta"] else [])


def test_the_wrongly_labelled_page_is_not_in_its_declared_encoding(crawl: Crawl, pages: dict[str, Page]) -> None:
    encoded = crawl[1]["pages"]["planted"]["encoded"]
    wrong = [url for url, e in encoded.items() if e["codec"] == "cp1252" and e["header"].endswith("utf-8")]
    assert wrong
    for url in wrong:
        with pytest.raises(UnicodeDecodeError):
            pages[url].body.decode()


def test_mojibake_pages_are_garbled_and_can_be_restored(crawl: Crawl, pages: dict[str, Page]) -> None:
    for url, sentence in crawl[1]["pages"]["planted"]["mojibake"].items():
        text = pages[url].body.decode()
        assert sentence not in text
        assert sentence.encode().decode("cp1252") in text


def test_broken_records_are_broken_where_the_truth_says(crawl: Crawl) -> None:
    folder, truth = crawl
    broken = truth["pages"]["broken"]
    assert sorted(place["kind"] for place in broken) == sorted(FAULTS)
    for place in broken:
        data = (folder / "pages" / place["file"]).read_bytes()[place["offset"] :]
        if place["kind"] == "garbage":
            assert not data.startswith(MAGIC)
            assert MAGIC in data
        elif place["kind"] == "cut":
            with pytest.raises(EOFError):
                gzip.decompress(data)
        else:
            _, member = next(members(data))
            head, block = gzip.decompress(member).split(b"\r\n\r\n", 1)
            declared, size = head.rpartition(b"Content-Length: ")[2], len(block) - len(b"\r\n\r\n")
            wrong = {
                "length_too_small": declared.isdigit() and int(declared) < size,
                "length_too_large": declared.isdigit() and int(declared) > size,
                "length_no_number": not declared.isdigit(),
            }
            assert wrong[place["kind"]]


@pytest.mark.parametrize("source", ["code", "readmes"])
def test_broken_lines_are_all_and_only_those_of_the_truth(crawl: Crawl, source: str) -> None:
    folder, truth = crawl
    found = set()
    for path in (folder / source).iterdir():
        offset = 0
        for line in decompressed(path).splitlines(keepends=True):
            try:
                kind = None if isinstance(json.loads(line.decode())["text"], str) else "no_text"
            except UnicodeDecodeError:
                kind = "bad_utf8"
            except json.JSONDecodeError:
                kind = "bad_json"
            if kind:
                found.add((path.name, offset, kind))
            offset += len(line)
    assert found == {(place["file"], place["offset"], place["kind"]) for place in truth[source]["broken"]}


def test_code_lines_are_counted_by_subset(crawl: Crawl) -> None:
    folder, truth = crawl
    broken = {(place["file"], place["offset"]) for place in truth["code"]["broken"]}
    counts: Counter[str] = Counter()
    for path in (folder / "code").iterdir():
        offset = 0
        for line in decompressed(path).splitlines(keepends=True):
            if (path.name, offset) not in broken:
                counts[json.loads(line)["meta"]["pile_set_name"]] += 1
            offset += len(line)
    assert counts == truth["code"]["documents"]
    assert set(counts) == {"Github", "PythonTests"}


def test_the_readers_find_what_the_truth_says(crawl: Crawl) -> None:
    folder, truth = crawl
    config = SourceConfig(name="demo", paths=["unused"])
    for file, counts in truth["pages"]["shards"].items():
        with (folder / "pages" / file).open("rb") as stream:
            items = list(read_warc(stream, config))
        assert sum(isinstance(item, Record) for item in items) == counts["records"]
        assert Counter(item.reason for item in items if isinstance(item, Skipped)) == counts["skipped"]
        assert Counter(item.reason for item in items if isinstance(item, Failure)) == counts["failures"]
        assert failures(file, items) == places(truth["pages"], file)
    for source in ("code", "readmes"):
        for path in (folder / source).iterdir():
            with path.open("rb") as stream:
                assert failures(path.name, list(read_jsonl(stream, config))) == places(truth[source], path.name)


def failures(file: str, items: list[Any]) -> set[tuple[str, int, str]]:
    return {(file, item.offset, item.reason) for item in items if isinstance(item, Failure)}


def places(truth: dict[str, Any], file: str) -> set[tuple[str, int, str]]:
    return {(file, place["offset"], place["reason"]) for place in truth["broken"] if place["file"] == file}
