"""WARC, WET and ARC: real files with warcio as referee, and damage whose place is known."""

from __future__ import annotations

import gzip
import io
import random
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from corpus.sources.config import SourceConfig
from corpus.sources.record import Failure, Item, Record, Skipped
from corpus.sources.warc import read_warc

CONFIG = SourceConfig(name="crawl", paths=["*.warc.gz"])

SOUND = [
    "aut-issue-493.warc",
    "example.arc.gz",
    "html-lang-attribute.warc",
    "jwarc-cc.warc.gz",
    "sample-0000.warc.gz",
    "text-extraction-test.warc",
    "warcfile.warc.gz",
    "warcio-example-iana.org-chunked.warc",
    "warcio-example-resource.warc.gz",
    "warcio-example-space-in-target-uri.warc.gz",
    "warcio-example.arc",
    "warcio-example.arc.gz",
    "warcio-example.warc",
    "warcio-example.warc.gz",
    "warcio-post-test.warc.gz",
    "whirlwind.warc",
    "whirlwind.warc.gz",
    "whirlwind.warc.wat",
    "whirlwind.warc.wet",
    "whirlwind.warc.wet.gz",
]


def items_of(data: bytes) -> list[Item]:
    return list(read_warc(io.BytesIO(data), CONFIG))


def reasons(items: list[Item]) -> list[str]:
    return [item.reason for item in items if isinstance(item, Failure)]


def urls(items: list[Item]) -> list[str | None]:
    return [item.url for item in items if isinstance(item, Record)]


def warc_record(
    block: bytes, *, kind: str = "response", length: int | None = None, extra: bytes = b"", number: int = 0
) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://a.example/{number}\r\n"
        f"WARC-Date: 2024-05-17T23:31:22Z\r\nWARC-Record-ID: <urn:uuid:{number}>\r\n"
        f"Content-Length: {len(block) if length is None else length}\r\n"
    )
    return head.encode() + extra + b"\r\n" + block + b"\r\n\r\n"


def http(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, b"Content-Type: text/html", *headers, b"", body])


def page(number: int, size: int = 200) -> bytes:
    text = bytes(random.Random(number).choices(b"abcdefghij <>p/", k=size))
    return warc_record(http(b"<p>%d</p>" % number + text), number=number)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_file_gives_the_pages_and_payloads_that_warcio_finds(
    name: str, shared_data: Callable[[str], Path]
) -> None:
    path = shared_data("warc") / name
    expected = []
    with open(path, "rb") as stream:
        for record in ArchiveIterator(stream):
            payload = record.content_stream().read()
            http_page = record.http_headers is not None and record.http_headers.get_statuscode() == "200"
            if record.rec_type in ("resource", "conversion") or (record.rec_type == "response" and http_page):
                name_of_uri = "uri" if record.format == "arc" else "WARC-Target-URI"
                expected.append((record.rec_headers.get_header(name_of_uri).replace("%20", " "), payload))
    items = items_of(path.read_bytes())
    assert reasons(items) == []
    found = [
        ((item.url or "").replace("%20", " "), item.content if item.content is not None else (item.text or "").encode())
        for item in items
        if isinstance(item, Record)
    ]
    assert found == expected


@pytest.mark.parametrize(
    "name", ["warcio-example.warc.gz", "whirlwind.warc.gz", "sample-0000.warc.gz", "warcfile.warc.gz"]
)
def test_the_offset_of_a_record_is_where_its_gzip_member_begins(name: str, shared_data: Callable[[str], Path]) -> None:
    data = (shared_data("warc") / name).read_bytes()
    records = [item for item in items_of(data) if isinstance(item, Record)]
    assert records
    for record in records:
        member = zlib.decompressobj(31).decompress(data[record.offset :])
        assert (record.url or "").encode() in member.split(b"\r\n\r\n")[0]


def test_lz4_gives_the_same_pages_as_gzip(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("warc")
    gz, lz4 = (items_of((folder / name).read_bytes()) for name in ("warcfile.warc.gz", "warcfile.warc.lz4"))
    assert len(gz) == 16
    assert [item.content for item in gz if isinstance(item, Record)] == [
        item.content for item in lz4 if isinstance(item, Record)
    ]


def test_a_file_that_is_one_gzip_member_is_read_and_its_records_have_different_offsets() -> None:
    items = items_of(gzip.compress(b"".join(page(number) for number in range(50))))
    assert urls(items) == [f"https://a.example/{number}" for number in range(50)]
    assert len({item.offset for item in items}) == 50


def test_a_real_file_that_is_one_gzip_member_is_read(shared_data: Callable[[str], Path]) -> None:
    items = items_of((shared_data("warc") / "warcio-example-bad-non-chunked.warc.gz").read_bytes())
    assert urls(items) == ["http://example.com/"] and reasons(items) == []


def test_a_clipped_real_file_reports_one_truncated_record(shared_data: Callable[[str], Path]) -> None:
    items = items_of((shared_data("warc") / "clipped.warc.gz").read_bytes())
    assert reasons(items) == ["truncated_record"] and urls(items) == []


def test_a_truncated_arc_record_is_reported(shared_data: Callable[[str], Path]) -> None:
    items = items_of((shared_data("warc") / "warcio-example-space-in-url.arc").read_bytes())
    assert reasons(items) == ["truncated_record"]


def test_what_is_no_warc_is_named_once() -> None:
    items = items_of(b"<html>not a crawl</html>\n" * 10_000)
    assert reasons(items) == ["bad_header"] and len(items) == 1
    assert items_of(b"") == []


@pytest.mark.parametrize("step", [7])
def test_at_every_cut_of_a_gzip_file_earlier_records_come_out_and_one_failure_is_reported(step: int) -> None:
    members = [gzip.compress(page(number), mtime=0) for number in range(4)]
    members.insert(1, gzip.compress(warc_record(b"GET / HTTP/1.1\r\n\r\n", kind="request"), mtime=0))
    data, ends = b"".join(members), []
    for member in members:
        ends.append((ends[-1] if ends else 0) + len(member))
    pages_before = [1, 1, 2, 3, 4]
    for cut in {*range(0, len(data), step), *ends, *(end - 1 for end in ends), *(end + 1 for end in ends[:-1])}:
        items = items_of(data[:cut])
        whole = max((count for end, count in zip(ends, pages_before, strict=True) if end <= cut), default=0)
        at_boundary = cut in (0, *ends)
        found = urls(items)
        assert found[:whole] == [f"https://a.example/{number}" for number in range(whole)], cut
        assert len(found) <= whole + (not at_boundary), cut
        assert len(reasons(items)) == (0 if at_boundary else 1), (cut, items)


def test_at_every_cut_of_a_plain_file_earlier_records_come_out_and_one_failure_is_reported() -> None:
    pages = [page(number, size=60) for number in range(3)]
    data, ends = b"".join(pages), [sum(map(len, pages[: n + 1])) for n in range(3)]
    for cut in range(len(data)):
        items = items_of(data[:cut])
        whole = sum(end - 4 <= cut for end in ends)  # the line ends behind a record may be missing
        sound = cut == 0 or any(end - 4 <= cut <= end for end in ends)
        assert urls(items) == [f"https://a.example/{number}" for number in range(whole)], cut
        assert len(reasons(items)) == (0 if sound else 1), (cut, items)


@pytest.mark.parametrize("length", [5, 0, 150, 10_000])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_wrong_content_length_costs_one_record(length: int, compress: Callable[[bytes], bytes]) -> None:
    wrong = warc_record(http(b"<p>" + b"x" * 300), length=length, number=1)
    items = items_of(b"".join(compress(record) for record in (page(0), wrong, page(2), page(3))))
    assert urls(items) == [f"https://a.example/{number}" for number in (0, 2, 3)]
    assert len(reasons(items)) == 1


def test_a_content_length_beyond_all_limits_costs_one_gzip_member() -> None:
    wrong = warc_record(http(b"x"), length=10**15, number=1)
    items = items_of(b"".join(gzip.compress(record) for record in (page(0), wrong, page(2), page(3))))
    assert urls(items) == [f"https://a.example/{number}" for number in (0, 2, 3)]
    assert reasons(items) == ["record_too_large"]


@pytest.mark.parametrize("length", [b"", b"abc", b"-1", b"1e3", b"9" * 5000])
def test_a_header_without_a_usable_length_costs_one_record(length: bytes) -> None:
    wrong = page(1).replace(b"Content-Length: ", b"Content-Length: " + length + b" x", 1)
    items = items_of(page(0) + wrong + page(2))
    assert urls(items) == ["https://a.example/0", "https://a.example/2"]
    assert reasons(items) == ["bad_header"]


def test_a_corrupt_member_costs_one_record() -> None:
    members = [bytearray(gzip.compress(page(number, size=3000))) for number in range(3)]
    members[1][len(members[1]) // 2] ^= 0xFF
    members[1][len(members[1]) // 2 + 1] ^= 0xFF
    items = items_of(b"".join(members))
    assert urls(items) == ["https://a.example/0", "https://a.example/2"]
    assert reasons(items) == ["corrupt_member"]


def test_junk_between_records_is_reported_and_passed() -> None:
    items = items_of(page(0) + b"junk\n\x00\xff" * 99 + page(1))
    assert urls(items)[-1] == "https://a.example/1" and len(reasons(items)) == 1


@pytest.mark.parametrize("status", [b"404 Not Found", b"301 Moved", b"500", b"206 Partial Content"])
def test_a_response_with_another_status_is_skipped_by_it(status: bytes) -> None:
    items = items_of(warc_record(http(b"gone", status=status)))
    assert items == [Skipped(0, f"http_status_{status[:3].decode()}")]


def test_a_response_that_is_not_http_is_skipped() -> None:
    assert items_of(warc_record(b"20240517\nexample.com. 589 IN A 1.2.3.4\n")) == [Skipped(0, "not_http")]


def test_descriptive_records_and_revisits_are_passed_over() -> None:
    kinds = ("warcinfo", "request", "metadata", "revisit")
    assert items_of(b"".join(warc_record(http(b"x"), kind=kind) for kind in kinds)) == []


def test_header_fields_reach_the_record() -> None:
    extra = b"WARC-Payload-Digest: sha1:AB\r\nno colon here\r\n: no name\r\nX-\xe9: \xff\r\nWARC-Truncated: length\r\n"
    block = http(b"<p>\xe9", b"Power by: X", b"Set-Cookie: \xe4=\xf6", b"garbage")
    (item,) = items_of(warc_record(block, extra=extra, number=7))
    assert item == Record(
        0,
        content=b"<p>\xe9",
        content_type="text/html",
        url="https://a.example/7",
        timestamp=datetime(2024, 5, 17, 23, 31, 22, tzinfo=UTC),
        metadata={"record_id": "urn:uuid:7", "payload_digest": "sha1:AB", "truncated": "length"},
    )


def test_angle_brackets_around_the_uri_are_stripped() -> None:
    (item,) = items_of(page(0).replace(b"https://a.example/0", b"<https://a.example/\xc3\xb6>"))
    assert isinstance(item, Record) and item.url == "https://a.example/ö"


def test_wet_gives_text_with_its_languages() -> None:
    extra = b"Content-Type: text/plain\r\nWARC-Identified-Content-Language: oci,fra\r\n"
    (item,) = items_of(warc_record("Òc, ça va.\n".encode(), kind="conversion", extra=extra))
    assert isinstance(item, Record)
    assert item.text == "Òc, ça va.\n" and item.content is None and item.metadata["languages"] == "oci,fra"
    assert reasons(items_of(warc_record(b"\xff\xfe", kind="conversion", extra=extra))) == ["bad_utf8"]


def test_a_record_over_the_limit_is_a_failure_and_the_next_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpus.sources.warc.MAX_RECORD", 1000)
    items = items_of(page(0) + page(1, size=5000) + page(2))
    assert urls(items) == ["https://a.example/0", "https://a.example/2"]
    assert reasons(items) == ["record_too_large"]


@pytest.mark.parametrize(
    "name", ["sample-0000.warc.gz", "warcio-example.warc", "warcio-example.arc", "whirlwind.warc.wet"]
)
def test_random_damage_raises_nothing_and_loses_no_record_silently(
    name: str, shared_data: Callable[[str], Path]
) -> None:
    sound = (shared_data("warc") / name).read_bytes()
    whole = len(items_of(sound))
    random_ = random.Random(5)
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(random_.randint(1, 5)):
            begin = random_.randrange(len(data))
            data[begin : begin + random_.randint(0, 40)] = random_.randbytes(random_.randint(0, 40))
        items = items_of(bytes(data))
        offsets = [item.offset for item in items if isinstance(item, Record)]
        assert len(set(offsets)) == len(offsets) <= whole
        assert len(items) == whole or any(isinstance(item, Failure) for item in items)


def test_records_that_lie_about_their_length_take_linear_time_and_memory() -> None:
    lying = warc_record(http(b"x"), length=200_000_000)
    items = items_of(lying * 20_000)
    assert reasons(items) == ["truncated_record"] * 20_000
    lines = items_of(b"WARC/1.0\r\n" * 200_000)
    assert set(reasons(lines)) == {"bad_header", "truncated_record"} and len(lines) < 100
