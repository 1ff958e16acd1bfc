"""Compressed input: members, padding, damage, and the size of pieces."""

from __future__ import annotations

import bz2
import gzip
import io
import random
import zlib
from collections.abc import Callable

import pytest
import zstandard

from corpus.sources.compression import PIECE, Piece, decompressed
from corpus.sources.record import Failure

TEXT = b"".join(b"%d: %s\n" % (n, random.Random(n).randbytes(9).hex().encode()) for n in range(20_000))

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bzip2": bz2.compress,
}


def read_all(data: bytes) -> tuple[bytes, list[Failure]]:
    items = list(decompressed(io.BytesIO(data)))
    content = b"".join(item.data for item in items if isinstance(item, Piece))
    return content, [item for item in items if isinstance(item, Failure)]


@pytest.mark.parametrize("codec", COMPRESS)
def test_many_members_read_as_one_and_tell_where_they_begin(codec: str) -> None:
    parts = [TEXT[start : start + 50_000] for start in range(0, len(TEXT), 50_000)]
    members = [COMPRESS[codec](part) for part in parts]
    pieces = [item for item in decompressed(io.BytesIO(b"".join(members))) if isinstance(item, Piece)]
    assert b"".join(piece.data for piece in pieces) == TEXT
    begins = [sum(map(len, members[:n])) for n in range(len(members))]
    assert sorted({piece.member for piece in pieces}) == begins
    assert sum(piece.ends_member for piece in pieces) == len(members)


def test_plain_bytes_pass_as_they_are_whatever_they_look_like() -> None:
    for data in (TEXT, b"", b"BZh is a word", b"\x1f\x8b", b"\x28\xb5"):
        assert read_all(data) == (data, [])


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_cut_inside_a_member_is_reported_once_at_that_member(codec: str) -> None:
    first, second = COMPRESS[codec](TEXT[:999]), COMPRESS[codec](TEXT[999:3000])
    for cut in range(len(first), len(first) + len(second)):
        content, failures = read_all((first + second)[:cut])
        assert content.startswith(TEXT[:999]) and TEXT.startswith(content)
        expected = [] if cut == len(first) else [(len(first), "truncated_member")]
        assert [(failure.offset, failure.reason) for failure in failures] == expected, cut


def test_of_a_cut_gzip_file_all_that_zlib_can_decode_comes_out() -> None:
    data = gzip.compress(TEXT)
    for cut in range(20, len(data), 9973):
        expected = zlib.decompressobj(31).decompress(data[:cut])
        content, _ = read_all(data[:cut])
        assert expected.startswith(content) and len(content) > len(expected) - 16


@pytest.mark.parametrize("codec", COMPRESS)
def test_behind_a_corrupt_member_reading_goes_on(codec: str) -> None:
    members = [bytearray(COMPRESS[codec](TEXT[start : start + 30_000])) for start in (0, 30_000, 60_000)]
    middle = len(members[1]) // 2
    members[1][middle : middle + 64] = random.Random(1).randbytes(64)
    content, failures = read_all(b"".join(members))
    assert content.startswith(TEXT[:30_000]) and content.endswith(TEXT[60_000:90_000])
    assert [(failure.offset, failure.reason) for failure in failures] == [(len(members[0]), "corrupt_member")]


def test_a_wrong_checksum_is_damage() -> None:
    member = bytearray(gzip.compress(b"hello"))
    member[-5] ^= 1
    assert [failure.reason for failure in read_all(bytes(member) + gzip.compress(b" world"))[1]] == ["corrupt_member"]


def test_zeros_behind_members_are_padding() -> None:
    assert read_all(gzip.compress(b"a") + bytes(99) + gzip.compress(b"b") + bytes(300_000)) == (b"ab", [])


def test_junk_behind_the_last_member_is_reported() -> None:
    content, failures = read_all(gzip.compress(b"a") + b"junk" * 9)
    assert content == b"a" and [failure.reason for failure in failures] == ["corrupt_member"]


SIZES = {"gzip": 50 * PIECE, "bzip2": 50 * PIECE, "zstd": 300 * PIECE}


@pytest.mark.parametrize(("codec", "bound"), [("gzip", PIECE), ("bzip2", PIECE), ("zstd", 129 * PIECE)])
def test_a_bomb_comes_in_small_pieces(codec: str, bound: int) -> None:
    size = 0
    for item in decompressed(io.BytesIO(COMPRESS[codec](bytes(SIZES[codec])))):
        assert isinstance(item, Piece) and len(item.data) <= bound
        size += len(item.data)
    assert size == SIZES[codec]


def test_zstd_with_a_long_window_and_skippable_frames_is_read() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compress(TEXT)
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    assert read_all(skippable + frame + skippable) == (TEXT, [])


def test_a_stream_that_gives_few_bytes_at_a_time_reads_the_same() -> None:
    class Dribble(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 7))

    data = gzip.compress(TEXT[:5000]) + gzip.compress(TEXT[5000:9000])
    pieces = list(decompressed(Dribble(data)))
    assert b"".join(item.data for item in pieces if isinstance(item, Piece)) == TEXT[:9000]
