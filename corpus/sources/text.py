"""Reads plain text, compressed or not: one file is one document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from corpus.sources.compression import decompressed
from corpus.sources.config import SourceConfig
from corpus.sources.record import Failure, Item, Record

#: A longer text is a failure and not held in memory.
MAX_TEXT = 256 << 20


def read_text(stream: BinaryIO, config: SourceConfig) -> Iterator[Item]:
    """The file as one record, without a byte order mark; an empty file has none.

    Failures: `bad_utf8`, `record_too_large`, `truncated_member`, `corrupt_member`.
    """
    parts, size = [], 0
    for piece in decompressed(stream):
        if isinstance(piece, Failure):
            yield piece
            return
        parts.append(piece.data)
        size += len(piece.data)
        if size > MAX_TEXT:
            yield Failure(0, "record_too_large", f"more than {MAX_TEXT} bytes: split the file, one document each")
            return
    try:
        text = b"".join(parts).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Failure(0, "bad_utf8", f"byte {error.start}: {error.reason}: convert the file to UTF-8")
        return
    if text:
        yield Record(0, text=text)
