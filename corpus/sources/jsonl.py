"""Reads JSON Lines, compressed or not: one object a line, its fields chosen by the source's config."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from corpus.sources.compression import Piece, decompressed
from corpus.sources.config import SourceConfig
from corpus.sources.fields import record_of
from corpus.sources.record import Failure, Item

#: A longer line is a failure and not held in memory.
MAX_LINE = 256 << 20

_BOM = b"\xef\xbb\xbf"


def read_jsonl(stream: BinaryIO, config: SourceConfig) -> Iterator[Item]:
    """The records of a JSON Lines file. Offsets are those of lines in the decompressed file; blank lines are no records.

    Failures: `bad_utf8`, `bad_json`, `no_text` (null, missing or not a string), `record_too_large`, `truncated_member`,
    `corrupt_member`.
    """
    for offset, line in _lines(decompressed(stream)):
        if isinstance(line, Failure):
            yield line
        elif line.strip():
            yield _item(offset, line.removeprefix(_BOM) if offset == 0 else line, config)


def _lines(pieces: Iterator[Piece | Failure]) -> Iterator[tuple[int, bytes | Failure]]:
    """Lines with their offsets, and in place of a line what is wrong with it."""
    begin, parts, held = 0, list[bytes](), 0  # of the line that is not ended yet
    for piece in pieces:
        if isinstance(piece, Failure):
            yield begin, piece
            begin, parts, held = begin + held, [], 0
            continue
        *ended, rest = piece.data.split(b"\n")
        for line in ended:
            size = held + len(line)
            if size > MAX_LINE:
                yield begin, _too_long(begin, size)
            else:
                yield begin, b"".join([*parts, line]) if parts else line
            begin, parts, held = begin + size + 1, [], 0
        held += len(rest)
        if held > MAX_LINE:
            parts = []
        elif rest:
            parts.append(rest)
    if held > MAX_LINE:
        yield begin, _too_long(begin, held)
    elif held:
        yield begin, b"".join(parts)


def _too_long(offset: int, size: int) -> Failure:
    return Failure(offset, "record_too_large", f"a line of {size} bytes, at most {MAX_LINE} are read")


def _item(offset: int, line: bytes, config: SourceConfig) -> Item:
    try:
        row: Any = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return Failure(offset, "bad_utf8", f"byte {error.start} of the line: {error.reason}")
    except (ValueError, RecursionError) as error:
        return Failure(offset, "bad_json", f"{error}: {ascii(line[:80])[1:]}")
    if not isinstance(row, dict):
        return Failure(offset, "bad_json", f"not an object: {ascii(line[:80])[1:]}")
    return record_of(offset, row, config)
