"""HTTP responses as crawlers store them: encodings right, wrong and hostile."""

from __future__ import annotations

import gzip
import random
import zlib

import brotli
import pytest
import zstandard

from corpus.sources.http import BodyTooLarge, decode_body, parse_response

PAGE = b"<!doctype html><p>" + b" ".join(b"%x" % random.Random(n).getrandbits(30) for n in range(6000))
LIMIT = 1 << 20


def decoded(body: bytes, *headers: bytes) -> bytes:
    response = parse_response(memoryview(b"\r\n".join([b"HTTP/1.1 200 OK", *headers, b"", body])))
    assert response is not None and response.status == 200
    return decode_body(response, LIMIT)


def chunked(body: bytes, size: int = 1000) -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x;ext=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nTrailer: x\r\n\r\n"


RAW_DEFLATE = zlib.compressobj(wbits=-15)
ENCODED = [
    (b"gzip", gzip.compress(PAGE)),
    (b"X-GZIP", gzip.compress(PAGE[:100]) + gzip.compress(PAGE[100:])),
    (b"deflate", zlib.compress(PAGE)),
    (b"deflate", RAW_DEFLATE.compress(PAGE) + RAW_DEFLATE.flush()),
    (b"br", brotli.compress(PAGE)),
    (b"zstd", zstandard.compress(PAGE)),
    (b"deflate, gzip", gzip.compress(zlib.compress(PAGE))),
    (b"identity", PAGE),
    (b"no-such-thing", PAGE),
]


@pytest.mark.parametrize(("encoding", "body"), ENCODED)
def test_encodings_are_undone_also_under_chunks(encoding: bytes, body: bytes) -> None:
    assert decoded(body, b"Content-Encoding: " + encoding) == PAGE
    assert decoded(chunked(body), b"content-encoding:" + encoding, b"TRANSFER-ENCODING: chunked") == PAGE


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_a_body_that_is_stored_decoded_stays_as_it_is(encoding: bytes) -> None:
    assert decoded(PAGE, b"Content-Encoding: " + encoding, b"Transfer-Encoding: chunked") == PAGE
    assert decoded(b"", b"Content-Encoding: " + encoding, b"Transfer-Encoding: chunked") == b""


@pytest.mark.parametrize(("encoding", "body"), ENCODED[:5])
def test_of_a_cut_body_the_beginning_is_kept(encoding: bytes, body: bytes) -> None:
    content = decoded(body[:-9], b"Content-Encoding: " + encoding)
    assert PAGE.startswith(content) and len(content) > 0


def test_chunks_that_are_cut_or_broken_keep_what_is_there() -> None:
    header = b"Transfer-Encoding: chunked"
    assert decoded(b"4\r\nabcd\r\n8\r\nef", header) == b"abcdef"
    assert decoded(b"4\r\nabcd\r\nzz\r\nef", header) == b"abcdzz\r\nef"
    assert decoded(b"4\nabcd\n2\nef\n0\n\n", header) == b"abcdef"
    assert decoded(b"ffffffffffffffff\r\nabc", header) == b"abc"


@pytest.mark.parametrize(
    "bomb", [(b"gzip", gzip.compress(bytes(LIMIT + 1))), (b"br", brotli.compress(bytes(LIMIT + 1)))]
)
def test_a_bomb_is_refused(bomb: tuple[bytes, bytes]) -> None:
    with pytest.raises(BodyTooLarge):
        decoded(bomb[1], b"Content-Encoding: " + bomb[0])


def test_headers_without_an_end_and_other_protocols() -> None:
    response = parse_response(memoryview(b"HTTP/1.0 200\nContent-Type: a\nContent-Type: b"))
    assert response is not None
    assert response.headers == {b"content-type": b"a"} and bytes(response.body) == b""
    for block in (b"", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n", b"ICY 200 OK\r\n\r\n"):
        assert parse_response(memoryview(block)) is None
