"""The HTTP response inside a crawl's record: its status, headers and decoded body."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from fastwarc.stream_io import BrotliReader

from corpus.sources.compression import CHUNK, Piece, decompressed

#: A brotli decoder gives nothing of a piece that it cannot fill: small ones save more of a body that is cut off.
BROTLI_PIECE = 1 << 12

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})\b")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,16})[^\n]{0,4096}\n")


class BodyTooLarge(ValueError):
    """A body expands to more bytes than the limit."""


class Response(NamedTuple):
    """A response as it was recorded; `body` is still encoded."""

    status: int
    headers: dict[bytes, bytes]  #: Names in lower case; of a repeated header, the first value.
    body: memoryview


def parse_headers(lines: bytes) -> dict[bytes, bytes]:
    """Header lines by lower-case name. Lines that are no header are passed over; bytes are left as they are."""
    headers: dict[bytes, bytes] = {}
    for line in lines.split(b"\n"):
        name, colon, value = line.partition(b":")
        if colon:
            headers.setdefault(name.strip().lower(), value.strip())
    return headers


def parse_response(block: memoryview) -> Response | None:
    """The response in `block`; None if it does not begin with an HTTP status line."""
    status = _STATUS.match(block)
    if status is None:
        return None
    blank = _BLANK_LINE.search(block)
    head, body = (block[: blank.start()], block[blank.end() :]) if blank else (block, block[:0])
    return Response(int(status[1]), parse_headers(bytes(head[status.end() :])), body)


def decode_body(response: Response, limit: int) -> bytes:
    """The body without its transfer and content encodings, as far as it can be decoded.

    Crawlers often store a body decoded and leave the header: what is not in the declared encoding stays as it is.

    Raises: BodyTooLarge if it expands to more than `limit` bytes.
    """
    body = bytes(response.body)
    if b"chunked" in response.headers.get(b"transfer-encoding", b"").lower():
        body = _join_chunks(body)
    for encoding in reversed(response.headers.get(b"content-encoding", b"").lower().split(b",")):
        body = _bounded(_decode(encoding.strip(), body), limit)
    return body


def _join_chunks(body: bytes) -> bytes:
    chunks: list[bytes] = []
    position = 0
    while size := _CHUNK_SIZE.match(body, position):
        length = min(int(size[1], 16), len(body))
        if length == 0:
            return b"".join(chunks)
        chunks.append(body[size.end() : size.end() + length])
        position = size.end() + length
        position += 2 if body.startswith(b"\r\n", position) else body.startswith(b"\n", position)
    return b"".join([*chunks, body[position:]])


def _decode(encoding: bytes, body: bytes) -> Iterator[bytes]:
    if encoding in (b"gzip", b"x-gzip", b"zstd"):
        return (piece.data for piece in decompressed(io.BytesIO(body)) if isinstance(piece, Piece))
    if encoding == b"deflate":
        return _inflate(body)
    if encoding == b"br":
        return _unbrotli(body)
    return iter((body,))


def _inflate(body: bytes) -> Iterator[bytes]:
    for window_bits in (zlib.MAX_WBITS, -zlib.MAX_WBITS):  # some servers send it without the zlib header
        decoder, data, sound = zlib.decompressobj(window_bits), body, False
        try:
            while piece := decoder.decompress(data, CHUNK):
                sound = True
                yield piece
                data = decoder.unconsumed_tail
        except zlib.error:
            pass
        if sound:
            return
    yield body


def _unbrotli(body: bytes) -> Iterator[bytes]:
    reader, sound = BrotliReader(io.BytesIO(body)), False
    try:
        while piece := reader.read(BROTLI_PIECE):
            sound = True
            yield piece
    except OSError:
        pass
    if not sound:
        yield body


def _bounded(pieces: Iterator[bytes], limit: int) -> bytes:
    parts, size = [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > limit:
            raise BodyTooLarge(f"the body expands to more than {limit >> 20} MiB")
    return b"".join(parts)
