"""Reading speed, on one thread: our WARC reader against warcio and bare fastwarc, our JSONL reader against json.loads."""

from __future__ import annotations

import io
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import fastwarc
import numpy as np
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


def _texts() -> Iterator[str]:
    """Texts of 20 to 2,000 words from a skewed vocabulary, so that they compress about as well as prose."""
    letters, rng = random.Random(SEED), np.random.default_rng(SEED)
    vocabulary = ["".join(letters.choices("etaoinshrdlu", k=letters.randint(1, 9))) for _ in range(20_000)]
    cumulative = np.cumsum(1 / (np.arange(len(vocabulary)) + 5))
    while True:
        words = np.searchsorted(cumulative, rng.random(rng.integers(20, 2000)) * cumulative[-1])
        yield " ".join([vocabulary[word] for word in words])


def _warc() -> tuple[bytes, int]:
    """A crawl: request, response and metadata of each page, one gzip member each."""
    stream, pages, texts = io.BytesIO(), 0, _texts()
    writer = WARCWriter(stream, gzip=True)
    while stream.tell() < SIZE:
        url = f"https://example.org/{pages}"
        paragraphs = "".join(f"<div class='row'><p class='text'>{next(texts)}</p></div>\n" for _ in range(4))
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
    lines, size, texts = list[bytes](), 0, _texts()
    while size < 3 * SIZE:
        row = {"text": next(texts), "url": f"https://example.org/{len(lines)}", "meta": {"n": len(lines)}}
        lines.append(json.dumps(row).encode() + b"\n")
        size += len(lines[-1])
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
