"""Compressed files as a sequence of pieces, member by member, with damage reported in its place.

The codec is told from the first bytes, never from the file's name. A gzip, zstd or bzip2 file may have many members
(zstd: frames). A member that is cut off or corrupt becomes a `Failure`, and reading goes on at the next one.
"""

from __future__ import annotations

import abc
import bz2
import io
import re
from collections.abc import Iterator
from typing import BinaryIO, ClassVar, NamedTuple, cast

import zstandard
from fastwarc.stream_io import Lz4Reader
from isal import isal_zlib

from corpus.sources.record import Failure

#: Bytes that are read at once, and the most that one piece holds.
CHUNK = 1 << 17
PIECE = 1 << 20
#: A zstd decoder gives all that its input expands to, up to 128 KiB for 4 bytes: small bites bound a piece at 129 MiB.
ZSTD_BITE = 1 << 12
#: Windows as large as `zstd --long=31` writes.
ZSTD_WINDOW = 1 << 31

LZ4_MAGIC = b"\x04\x22\x4d\x18"


class Piece(NamedTuple):
    """Consecutive bytes of the decompressed file."""

    data: bytes
    member: int | None = None  #: Offset in the file of the member that they belong to; None if it has no members.
    ends_member: bool = False


class _Decoder(abc.ABC):
    """Decodes one member."""

    name: ClassVar[str]
    magic: ClassVar[re.Pattern[bytes]]  #: How a member begins.
    error: ClassVar[type[Exception]]

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""  #: Input behind the end of the member.

    @abc.abstractmethod
    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decode more input; `ended` and `rest` are set when the last piece comes."""


class _Gzip(_Decoder):
    name = "gzip"
    magic = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]")
    error = cast(type[Exception], isal_zlib.error)

    def __init__(self) -> None:
        super().__init__()
        self._inflater = isal_zlib.decompressobj(31)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while not self.ended:
            piece = self._inflater.decompress(data, PIECE)
            self.ended, self.rest = self._inflater.eof, self._inflater.unused_data
            yield piece
            data = self._inflater.unconsumed_tail
            if not data and len(piece) < PIECE:
                return


class _Bzip2(_Decoder):
    name = "bzip2"
    magic = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
    error = OSError

    def __init__(self) -> None:
        super().__init__()
        self._decompressor = bz2.BZ2Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        while not self.ended:
            piece = self._decompressor.decompress(data, PIECE)
            self.ended, self.rest = self._decompressor.eof, self._decompressor.unused_data
            yield piece
            data = b""
            if self._decompressor.needs_input:
                return


class _Zstd(_Decoder):
    name = "zstd"
    magic = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
    error = zstandard.ZstdError

    def __init__(self) -> None:
        super().__init__()
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()

    def feed(self, data: bytes) -> Iterator[bytes]:
        parts, size = list[bytes](), 0
        for end in range(ZSTD_BITE, len(data) + ZSTD_BITE, ZSTD_BITE):
            parts.append(self._decompressor.decompress(data[end - ZSTD_BITE : end]))
            size += len(parts[-1])
            self.ended = self._decompressor.eof
            if self.ended:
                self.rest = self._decompressor.unused_data + data[end:]
                break
            if size >= PIECE:
                yield b"".join(parts)
                parts, size = [], 0
        yield b"".join(parts)


_DECODERS: tuple[type[_Decoder], ...] = (_Gzip, _Zstd, _Bzip2)


def decompressed(stream: BinaryIO) -> Iterator[Piece | Failure]:
    """The content of `stream`, from where it stands to its end; a file that is not compressed passes as it is.

    Failures: `truncated_member` (the file ends inside one; what could be decoded came before), `corrupt_member` (bad
    data or checksum; the rest of the member is skipped). Their offset is that of the member in the file.
    """
    head = stream.read(CHUNK)
    for decoder in _DECODERS:
        if decoder.magic.match(head):
            yield from _members(decoder, stream, head)
            return
    if head.startswith(LZ4_MAGIC):
        stream.seek(-len(head), io.SEEK_CUR)
        yield from _lz4(stream)
        return
    while head:
        yield Piece(head)
        head = stream.read(CHUNK)


def _members(new_decoder: type[_Decoder], stream: BinaryIO, data: bytes) -> Iterator[Piece | Failure]:
    position = 0  # in the file, of data[0]
    sound = True  # whether anything was decoded since the last damage
    while data:
        decoder, begin = new_decoder(), position
        try:
            while data and not decoder.ended:
                for piece in decoder.feed(data):
                    if piece or decoder.ended:
                        sound = True
                        yield Piece(piece, begin, decoder.ended)
                position += len(data) - len(decoder.rest)
                data = decoder.rest or stream.read(CHUNK)
            if not decoder.ended:
                yield Failure(
                    begin, "truncated_member", f"{decoder.name}: the file ends at byte {position}, inside a member"
                )
        except decoder.error as error:
            if sound:
                yield Failure(begin, "corrupt_member", f"{decoder.name}: {error}")
            sound = False
            skip = 1 if position == begin else 0
            data, position = _next_member(decoder.magic, stream, data[skip:], position + skip)
        while data.startswith(b"\0"):  # padding
            behind = data.lstrip(b"\0")
            position += len(data) - len(behind)
            data = behind or stream.read(CHUNK)


def _next_member(magic: re.Pattern[bytes], stream: BinaryIO, data: bytes, position: int) -> tuple[bytes, int]:
    """The input from the next place on that looks like the beginning of a member, and its offset in the file."""
    overlap = 16  # longer than any magic number
    while not (found := magic.search(data)):
        chunk = stream.read(CHUNK)
        if not chunk:
            return b"", position + len(data)
        position += max(0, len(data) - overlap)
        data = data[-overlap:] + chunk
    return data[found.start() :], position + found.start()


def _lz4(stream: BinaryIO) -> Iterator[Piece | Failure]:
    reader = Lz4Reader(stream)
    while True:
        try:
            data = reader.read(CHUNK)
        except OSError as error:
            yield Failure(reader.inner_tell(), "corrupt_member", f"lz4: {error}")
            return
        if not data:
            return
        yield Piece(data)
