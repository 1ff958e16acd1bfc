"""Reading speed, on one thread: our WARC reader against warcio and bare fastwarc, our JSONL reader against json.loads."""

from __future__ import annotations

import io
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import fastwarc
import zstandard
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from corpus.sources.config import SourceConfig
from corpus.sources.jsonl import read_jsonl
from corpus.sources.record import Record
from corpus.sources.warc import read_warc

CONFIG = SourceConfig(name="bench", paths=["generated"])
RUNS = 5
SIZE = 20 << 20  # of the input file, about
SEED = 11


def run() -> list[dict[str, Any]]:
    """The rows of the table; `ratio` says how many times faster ours is than the peer in one interleaved run."""
    warc, page_count = _warc()
    jsonl, line_count = _jsonl()
    cases: list[tuple[str, int, bytes, Callable[[bytes], int], str, Callable[[bytes], int], str]] = [
        (
            "read .warc.gz",
            3 * page_count,
            warc,
            _ours_warc,
            "warcio",
            _warcio,
            "all payloads read; a page has 3 records",
        ),
        (
            "read .warc.gz",
            3 * page_count,
            warc,
            _ours_warc,
            "fastwarc",
            _fastwarc,
            "it checks neither lengths nor ends",
        ),
        (
            "read .jsonl.zst",
            line_count,
            jsonl,
            _ours_jsonl,
            "zstandard",
            _json_loads,
            "peer: TextIOWrapper and json.loads",
        ),
    ]
    rows = []
    for name, records, data, ours, peer, theirs, notes in cases:
        assert ours(data) == theirs(data), f"{name}: ours and {peer} read different documents"
        our_seconds, peer_seconds = _interleaved(data, ours, theirs)
        rows.append(
            {
                "name": f"{name} vs {peer}",
                "ours": records / our_seconds,
                "peer": records / peer_seconds,
                "unit": "records/s",
                "ratio": peer_seconds / our_seconds,
                "peer_version": f"{peer} {version(peer)}",
                "runs": RUNS,
                "notes": f"{len(data) >> 20} MB file; {notes}",
            }
        )
    return rows


def _interleaved(data: bytes, *functions: Callable[[bytes], int]) -> Sequence[float]:
    """The median seconds of each function, measured in turns."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(RUNS):
        for function, measured in zip(functions, seconds, strict=True):
            begin = time.perf_counter()
            function(data)
            measured.append(time.perf_counter() - begin)
    return [statistics.median(measured) for measured in seconds]


def _words(random_: random.Random, count: int) -> str:
    # Zipf-like lengths and repetition, so that it compresses about as well as prose.
    return " ".join(
        f"{int(random_.paretovariate(0.9)) % 5000:x}word"[: 2 + int(random_.random() * 7)] for _ in range(count)
    )


def _warc() -> tuple[bytes, int]:
    """A crawl: request, response and metadata of each page, one gzip member each."""
    random_, stream, pages = random.Random(SEED), io.BytesIO(), 0
    writer = WARCWriter(stream, gzip=True)
    while stream.tell() < SIZE:
        url = f"https://example.org/{pages}"
        paragraphs = "".join(
            f"<p class='c'>{_words(random_, 120)}</p>\n" for _ in range(int(random_.paretovariate(1.2) * 20) % 400)
        )
        page = f"<!doctype html><html><body>{paragraphs}</body></html>".encode()
        request = StatusAndHeaders(f"GET /{pages} HTTP/1.1", [("Host", "example.org")], is_http_request=True)
        headers = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Server", "nginx"),
            ("Content-Length", str(len(page))),
        ]
        response = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
        for record in (
            writer.create_warc_record(url, "request", http_headers=request, payload=io.BytesIO(b"")),
            writer.create_warc_record(url, "response", http_headers=response, payload=io.BytesIO(page)),
            writer.create_warc_record(url, "metadata", payload=io.BytesIO(b"fetchTimeMs: 12\r\n")),
        ):
            writer.write_record(record)
        pages += 1
    return stream.getvalue(), pages


def _jsonl() -> tuple[bytes, int]:
    random_, lines = random.Random(SEED), []
    while sum(map(len, lines[-1:])) * len(lines) < 3 * SIZE:
        row = {"text": _words(random_, 400), "url": f"https://example.org/{len(lines)}", "meta": {"n": len(lines)}}
        lines.append(json.dumps(row).encode() + b"\n")
    return zstandard.compress(b"".join(lines)), len(lines)


def _ours_warc(data: bytes) -> int:
    return sum(len(item.content or b"") for item in read_warc(io.BytesIO(data), CONFIG) if isinstance(item, Record))


def _warcio(data: bytes) -> int:
    size = 0
    for record in ArchiveIterator(io.BytesIO(data)):
        payload = record.content_stream().read()
        size += len(payload) if record.rec_type == "response" else 0
    return size


def _fastwarc(data: bytes) -> int:
    size = 0
    for record in fastwarc.ArchiveIterator(io.BytesIO(data), parse_http=True):
        payload = record.reader.read()
        size += len(payload) if record.record_type == fastwarc.WarcRecordType.response else 0
    return size


def _ours_jsonl(data: bytes) -> int:
    return sum(len(item.text or "") for item in read_jsonl(io.BytesIO(data), CONFIG) if isinstance(item, Record))


def _json_loads(data: bytes) -> int:
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data))
    return sum(len(json.loads(line)["text"]) for line in io.TextIOWrapper(reader, encoding="utf-8"))


if __name__ == "__main__":
    for row in run():
        print(json.dumps(row))
