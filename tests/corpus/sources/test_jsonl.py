"""JSON Lines: real files, bad lines, cut archives."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from corpus.sources.config import SourceConfig
from corpus.sources.jsonl import read_jsonl
from corpus.sources.record import Failure, Item, Record

PLAIN = SourceConfig(name="s", paths=["*.jsonl"])


def items_of(data: bytes, **config: Any) -> list[Item]:
    return list(read_jsonl(io.BytesIO(data), SourceConfig(name="s", paths=["*.jsonl"], **config)))


def texts(items: list[Item]) -> list[str | None]:
    return [item.text for item in items if isinstance(item, Record)]


def reasons(items: list[Item]) -> list[str]:
    return [item.reason for item in items if isinstance(item, Failure)]


def lines(count: int) -> bytes:
    return b"".join(json.dumps({"text": f"text {n} " * (n % 7 + 1), "id": n}).encode() + b"\n" for n in range(count))


@pytest.mark.parametrize(
    "name", ["cc_en_head-0091.jsonl", "cc_en_head-0174.jsonl", "cc_en_head-0091.jsonl.gz", "arxiv.jsonl"]
)
def test_real_files_give_what_json_loads_gives(name: str, shared_data: Callable[[str], Path]) -> None:
    data = (shared_data("text") / name).read_bytes()
    plain = gzip.decompress(data) if name.endswith(".gz") else data
    rows = [json.loads(line) for line in plain.splitlines()]
    items = items_of(data, timestamp_field="created", metadata_fields=["metadata.bucket", "metadata.length"])
    assert texts(items) == [row["text"] for row in rows]
    for item, row in zip(items, rows, strict=True):
        assert isinstance(item, Record)
        assert plain[item.offset :].startswith(b"{")
        if "id" in row:
            assert item.metadata == {
                "record_id": row["id"],
                "metadata.bucket": row["metadata"]["bucket"],
                "metadata.length": str(row["metadata"]["length"]),
            }
            assert item.timestamp == datetime.fromisoformat(row["created"])


def test_the_archives_of_the_pile_are_read(shared_data: Callable[[str], Path]) -> None:
    with tarfile.open(shared_data("text") / "blns.jsonl.zst.tar") as tar:
        for member in tar.getmembers():
            if member.isfile():
                stream = tar.extractfile(member)
                assert stream is not None
                data = stream.read()
                plain = zstandard.ZstdDecompressor().stream_reader(data).read()
                items = items_of(data)
                expected = [json.loads(line)["text"] for line in plain.splitlines()]
                assert texts(items) == [text for text in expected if isinstance(text, str)] and len(texts(items)) == 3
                assert reasons(items) == ["no_text"]  # a list of two strings


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress, bz2.compress])
def test_every_codec_and_many_members_give_the_same_records(compress: Callable[[bytes], bytes]) -> None:
    data = lines(3000)
    middle = len(data) // 2  # not at the end of a line
    assert items_of(compress(data[:middle]) + compress(data[middle:])) == items_of(data)
    assert len(items_of(data)) == 3000


def test_bad_lines_are_failures_in_their_place() -> None:
    bad = [b'{"text": "\xff"}', b'{"text": "open', b"[1]", b'{"text": null}', b'{"text": 5}', b"{}", b"[" * 100_000]
    data = b'{"text": "first"}\n' + b"".join(line + b"\n" for line in bad) + b'{"text": "last"}'
    items = items_of(data)
    assert texts(items) == ["first", "last"]
    assert reasons(items) == ["bad_utf8", "bad_json", "bad_json", "no_text", "no_text", "no_text", "bad_json"]
    for item, line in zip(items[1:], bad, strict=False):
        assert data[item.offset :].startswith(line)
    assert all("\n" not in item.detail and len(item.detail) <= 500 for item in items if isinstance(item, Failure))


def test_the_detail_of_bad_json_is_escaped() -> None:
    (item,) = items_of('{"text": "\x1b[31m <script> ü'.encode())
    assert isinstance(item, Failure) and item.detail.isascii() and item.detail.isprintable()


def test_blank_lines_carriage_returns_and_a_byte_order_mark_are_no_matter() -> None:
    items = items_of(b'\xef\xbb\xbf{"text": "a"}\r\n\r\n \t\n\n{"text": "b"}\r\n')
    assert texts(items) == ["a", "b"] and len(items) == 2


def test_lone_surrogates_are_replaced_and_counted_and_pairs_are_kept() -> None:
    (item,) = items_of(b'{"text": "a\\ud800b\\udc00 \\ud83d\\ude00", "url": "u\\udfff", "id": "\\ud800"}')
    assert isinstance(item, Record)
    assert item.text == "a\ufffdb\ufffd \U0001f600" and item.url == "u\ufffd"
    assert item.metadata == {"replaced_surrogates": "2", "record_id": "\ufffd"}


def test_the_pile_splits_by_a_nested_field() -> None:
    data = b'{"text": "x", "meta": {"pile_set_name": "ArXiv"}}\n{"text": "y", "meta": 3}\n{"text": "z"}'
    subsets = [item.subset for item in items_of(data, split_field="meta.pile_set_name") if isinstance(item, Record)]
    assert subsets == ["ArXiv", None, None]


def test_fields_are_chosen_by_the_config() -> None:
    row = {"body": {"raw": "x"}, "link": "http://a", "when": 86400, "a.b": 1, "a": {"c": [1, "é"]}, "d": None, "id": 7}
    (item,) = items_of(
        json.dumps(row).encode(),
        text_field="body.raw",
        url_field="link",
        timestamp_field="when",
        metadata_fields=["a.b", "a.c", "d", "e"],
    )
    metadata = {"a.b": "1", "a.c": '[1, "é"]', "record_id": "7"}
    moment = datetime(1970, 1, 2, tzinfo=UTC)
    assert item == Record(0, text="x", url="http://a", timestamp=moment, metadata=metadata)


@pytest.mark.parametrize("stamp", ["yesterday", "", 1e300, -1e18, [], {}, None, "9999-99-99"])
def test_a_time_that_says_none_is_none(stamp: object) -> None:
    (item,) = items_of(json.dumps({"text": "x", "timestamp": stamp}).encode())
    assert isinstance(item, Record) and item.timestamp is None


def test_at_every_cut_of_a_gzip_file_the_whole_lines_come_out_and_one_failure_is_reported() -> None:
    data = lines(40)
    archive = gzip.compress(data, mtime=0)
    for cut in range(4, len(archive)):
        decodable = zlib.decompressobj(31).decompress(archive[:cut])
        items = items_of(archive[:cut])
        assert len(texts(items)) == decodable.count(b"\n"), cut
        assert reasons(items) == ["truncated_member"], cut


def test_at_every_cut_of_a_zstd_file_earlier_frames_come_out_and_one_failure_is_reported() -> None:
    frames = [zstandard.compress(lines(n + 1)) for n in range(3)]
    archive, counts = b"".join(frames), [0, 1, 3, 6]
    ends = [sum(map(len, frames[:n])) for n in range(4)]
    for cut in range(4, len(archive) + 1):
        items = items_of(archive[:cut])
        whole = max(n for n in range(4) if ends[n] <= cut)
        assert len(texts(items)) >= counts[whole], cut
        assert reasons(items) == ([] if cut in ends else ["truncated_member"]), cut


def test_a_line_over_the_limit_is_a_failure_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpus.sources.jsonl.MAX_LINE", 1 << 20)
    long = b'{"text": "' + b"x" * (3 << 20) + b'"}'
    for data in (b'{"text": "a"}\n' + long + b'\n{"text": "b"}', b'{"text": "a"}\n{"text": "b"}\n' + long):
        items = items_of(gzip.compress(data))
        assert texts(items) == ["a", "b"] and reasons(items) == ["record_too_large"]
        assert [data[item.offset :][:9] for item in items] == [b'{"text": '] * 3
