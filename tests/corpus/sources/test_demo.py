"""The demo crawl is the same twice, and what its truth says of it is so, as other libraries read it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from corpus.sources.demo import make_demo_crawl
from corpus.sources.demo_pages import ENCODED

PAGES = 200


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demo") / "crawl"
    return folder, make_demo_crawl(folder, pages=PAGES)


@pytest.fixture(scope="module")
def pages(crawl: tuple[Path, dict[str, Any]]) -> dict[str, tuple[str, bytes]]:
    """Status and body by URL, as warcio reads them member by member, broken ones left out."""
    found = {}
    for path in sorted((crawl[0] / "pages").iterdir()):
        for member in members(path.read_bytes()):
            for record in ArchiveIterator(io.BytesIO(member)):
                if record.rec_type == "response":
                    url = record.rec_headers.get_header("WARC-Target-URI")
                    found[url] = (record.http_headers.get_statuscode(), record.content_stream().read())
    return found


def members(data: bytes) -> list[bytes]:
    """The whole gzip members of a file; what is no member, or is cut, is passed over."""
    whole = []
    begin = data.find(b"\x1f\x8b\x08")
    while begin >= 0:
        decoder = zlib.decompressobj(31)
        try:
            decoder.decompress(data[begin:])
        except zlib.error:
            begin = data.find(b"\x1f\x8b\x08", begin + 1)
            continue
        if not decoder.eof:
            break
        end = len(data) - len(decoder.unused_data)
        whole.append(data[begin:end])
        begin = data.find(b"\x1f\x8b\x08", end)
    return whole


def digest(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()
    }


def test_it_is_the_same_twice(crawl: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    make_demo_crawl(tmp_path / "again", pages=PAGES)
    assert digest(tmp_path / "again") == digest(crawl[0])


def test_every_record_but_the_cut_one_is_there(
    crawl: tuple[Path, dict[str, Any]], pages: dict[str, tuple[str, bytes]]
) -> None:
    assert len(pages) == crawl[1]["pages"]["records"] - 1


def test_mirrors_are_the_same_page(crawl: tuple[Path, dict[str, Any]], pages: dict[str, tuple[str, bytes]]) -> None:
    mirrors = crawl[1]["pages"]["mirrors"]
    assert len(mirrors) >= 8
    for mirror, original in mirrors.items():
        assert pages[mirror] == pages[original]


def test_encoded_pages_hold_their_sentence_in_their_codec(
    crawl: tuple[Path, dict[str, Any]], pages: dict[str, tuple[str, bytes]]
) -> None:
    encoded = crawl[1]["pages"]["encoded"]
    assert len(encoded) >= len(ENCODED)
    for url, sentence in encoded.items():
        body = pages[url][1]
        assert any(sentence in body.decode(v.codec, "replace") for v in ENCODED if v.sentence == sentence), url


def test_planted_kinds_are_there(crawl: tuple[Path, dict[str, Any]], pages: dict[str, tuple[str, bytes]]) -> None:
    planted = crawl[1]["pages"]["planted"]
    assert sum(status == "404" for status, _ in pages.values()) == planted["missing"]
    assert sum(not body for _, body in pages.values()) == planted["empty"]
    assert sum(body.startswith(b"\x89PNG") for _, body in pages.values()) == planted["image"]


def test_broken_records_are_broken_where_the_truth_says(crawl: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = crawl
    for place in truth["pages"]["broken"]:
        data = (folder / "pages" / place["file"]).read_bytes()[place["offset"] :]
        if place["kind"] == "garbage":
            assert not data.startswith(b"\x1f\x8b")
        else:
            with pytest.raises(EOFError):
                gzip.decompress(data)
    for place in truth["code"]["broken"]:
        data = (folder / "code" / place["file"]).read_bytes()
        line = zstandard.ZstdDecompressor().stream_reader(data).read()[place["offset"] :].split(b"\n")[0]
        with pytest.raises(json.JSONDecodeError):
            json.loads(line)


def test_code_lines_are_counted_by_subset(crawl: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = crawl
    counts: dict[str, int] = {}
    for path in (folder / "code").iterdir():
        for line in zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().splitlines():
            if not line.endswith(b"mid"):
                subset = json.loads(line)["meta"]["pile_set_name"]
                counts[subset] = counts.get(subset, 0) + 1
    assert counts == truth["code"]["documents"]
