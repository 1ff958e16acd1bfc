"""Which files a source has, what they are called, and what the errors say."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from pydantic import ValidationError

from corpus.sources import files
from corpus.sources.config import Format, SourceConfig
from corpus.sources.files import InputFile, SourceError, StoreError, list_files, open_input
from corpus.sources.readers import read
from corpus.sources.record import Failure, Record


@pytest.fixture
def data(tmp_path: Path) -> Path:
    names = ["b.jsonl", "a.jsonl.gz", "deep/a.jsonl", "deep/er/c.jsonl.zst", "[1].jsonl", "deep/n 1+é.jsonl"]
    hidden = ["_SUCCESS", ".hidden.jsonl", "x.jsonl.partial", "_temporary/d.jsonl", "deep/.a.jsonl.crc"]
    for name in names + hidden:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"text": "x"}\n')
    return tmp_path / "in"


def relative(*paths: str | Path, **options: str) -> list[str]:
    return [
        file.relative for file in list_files(SourceConfig(name="s", paths=[str(path) for path in paths], **options))
    ]


ALL = ["[1].jsonl", "a.jsonl.gz", "b.jsonl", "deep/a.jsonl", "deep/er/c.jsonl.zst", "deep/n 1+é.jsonl"]


def test_a_folder_gives_all_below_it_but_hidden_and_partial_files(data: Path) -> None:
    assert relative(data) == relative(f"{data}/") == relative(f"file://{data}") == relative(f"{data}/**") == ALL


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.jsonl", ["[1].jsonl", "b.jsonl"]),
        ("*.jsonl*", ["[1].jsonl", "a.jsonl.gz", "b.jsonl"]),
        ("?.jsonl", ["b.jsonl"]),
        ("[!a]*l", ["[1].jsonl", "b.jsonl"]),
        ("[ab].*", ["a.jsonl.gz", "b.jsonl"]),
        ("**/[a-c].jsonl", ["b.jsonl", "deep/a.jsonl"]),
        ("*/*.jsonl", ["deep/a.jsonl", "deep/n 1+é.jsonl"]),
        ("deep/**/*.zst", ["er/c.jsonl.zst"]),
        ("[1].jsonl", ["[1].jsonl"]),
        ("deep/n 1+é.jsonl", ["n 1+é.jsonl"]),
    ],
)
def test_globs(data: Path, pattern: str, expected: list[str]) -> None:
    assert relative(data / pattern) == expected


def test_a_path_relative_to_the_working_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    assert relative("b.jsonl") == ["b.jsonl"] and relative("*.jsonl.gz") == ["a.jsonl.gz"]
    assert relative("deep/*.jsonl") == ["a.jsonl", "n 1+é.jsonl"]


def test_a_file_that_is_named_twice_is_there_once(data: Path) -> None:
    assert relative(data / "*.jsonl", data / "b.jsonl", f"file://{data}/b.jsonl") == ["[1].jsonl", "b.jsonl"]


def test_files_of_one_name_are_called_by_their_full_path(data: Path) -> None:
    (data / "other").mkdir()
    (data / "other" / "a.jsonl").write_text("{}")
    files = list_files(
        SourceConfig(name="s", paths=[f"{data}/deep/a.jsonl", f"{data}/other/a.jsonl", f"{data}/b.jsonl"])
    )
    assert [file.relative for file in files] == sorted([f"{data}/deep/a.jsonl", f"{data}/other/a.jsonl", "b.jsonl"])


def test_the_names_do_not_change_when_the_data_is_moved(data: Path, tmp_path: Path) -> None:
    before = relative(data / "**/*.jsonl")
    data.rename(tmp_path / "moved")
    assert relative(tmp_path / "moved" / "**/*.jsonl") == before


def test_a_listing_names_files_relative_to_itself(data: Path) -> None:
    listing = data / "paths.txt"
    listing.write_text(f"# comment\n\ndeep/a.jsonl\n  b.jsonl  \n{data}/deep/n 1+é.jsonl\ndeep/er/*.zst\n")
    files = list_files(SourceConfig(name="s", listing=str(listing)))
    assert [file.relative for file in files] == ["b.jsonl", "c.jsonl.zst", "deep/a.jsonl", "n 1+é.jsonl"]


def test_size_and_time_change_with_the_file(data: Path) -> None:
    os.utime(data / "b.jsonl", ns=(10**18, 10**18 + 1))
    (file,) = list_files(SourceConfig(name="s", paths=[f"{data}/b.jsonl"]))
    assert (file.size, file.mtime_ns, file.source, file.format) == (14, 10**18 + 1, "s", "jsonl")


@pytest.mark.parametrize("missing", ["nothing*.jsonl", "no/such/file.jsonl", "no/such/*.jsonl", "deep/x"])
def test_a_pattern_without_a_file_is_an_error_that_names_the_nearest_folder(data: Path, missing: str) -> None:
    nearest = data / "deep" if missing.startswith("deep") else data
    with pytest.raises(SourceError) as error:
        relative(data / "b.jsonl", data / missing)
    assert str(data / missing) in str(error.value) and str(error.value).endswith(f" {nearest}")


def test_mixed_formats_are_an_error_that_names_two_files(data: Path) -> None:
    (data / "page.warc.gz").write_bytes(b"")
    with pytest.raises(SourceError, match=r"\[1\]\.jsonl is jsonl and .*page\.warc\.gz is warc"):
        relative(data)
    assert "page.warc.gz" in relative(data, format="text")


def test_an_unknown_name_is_an_error_unless_the_format_is_given(data: Path) -> None:
    (data / "page.zip").write_bytes(b"")
    with pytest.raises(SourceError, match=r"page\.zip"):
        relative(data / "page.zip")
    assert relative(data / "page.zip", format="text") == ["page.zip"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.warc.wet.gz", "wet"),
        ("x.WARC.GZ", "warc"),
        ("x.arc.gz", "warc"),
        ("x.json.zst", "jsonl"),
        ("x.ndjson.bz2", "jsonl"),
        ("x.parquet", "parquet"),
        ("x.md", "text"),
        ("x.txt.gz", "text"),
    ],
)
def test_the_format_is_told_from_the_name(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / name).write_bytes(b"")
    (file,) = list_files(SourceConfig(name="s", paths=[str(tmp_path / name)]))
    assert file.format == expected


def test_an_opened_input_can_be_read_and_sought(data: Path) -> None:
    (file,) = list_files(SourceConfig(name="s", paths=[f"file://{data}/b.jsonl"]))
    with open_input(file.uri) as stream:
        assert stream.seekable() and stream.read(3) == b'{"t'
        stream.seek(2)
        assert stream.read() == b'text": "x"}\n'


@pytest.mark.parametrize(
    "bad", [{"name": "A b", "paths": ["x"]}, {"name": "s"}, {"name": "s", "paths": ["x"], "path": "y"}]
)
def test_a_bad_config_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SourceConfig.model_validate(bad)


def test_text_is_one_document_a_file(tmp_path: Path) -> None:
    contents = {
        "a.txt": "ünïcode\n".encode(),
        "b.txt.gz": gzip.compress(b"packed"),
        "c.md": b"\xef\xbb\xbf# title",
        "d.txt": b"",
        "e.txt": b"caf\xe9",
        "f.txt.gz": gzip.compress(b"packed")[:-3],
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    config = SourceConfig(name="s", paths=[str(tmp_path)])
    found = {}
    for file in list_files(config):
        with open_input(file.uri) as stream:
            found[file.relative] = list(read(file, stream, config))
    assert [len(items) for items in found.values()] == [1, 1, 1, 0, 1, 1]
    assert [item.text for items in found.values() for item in items if isinstance(item, Record)] == [
        "ünïcode\n",
        "packed",
        "# title",
    ]
    failures = [item.reason for items in found.values() for item in items if isinstance(item, Failure)]
    assert failures == ["bad_utf8", "truncated_member"]


def test_an_error_of_a_reader_ends_the_file_with_a_failure_that_names_it(data: Path) -> None:
    config = SourceConfig(name="s", paths=[f"{data}/b.jsonl"])
    (file,) = list_files(config)
    stream = open_input(file.uri)
    stream.close()
    (item,) = read(file, stream, config)
    assert isinstance(item, Failure) and item.reason == "reader_error" and "b.jsonl" in item.detail


class FailingFile:
    """A file of a store whose connection breaks after some bytes."""

    def __init__(self, content: bytes, breaks_at: int) -> None:
        self.stream, self.left = io.BytesIO(content), breaks_at

    def readinto(self, buffer: memoryview) -> int:
        if self.left <= 0:
            raise OSError("connection reset")
        count = self.stream.readinto(buffer[: min(len(buffer), self.left)])
        self.left -= count
        return count

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()

    def close(self) -> None:
        self.stream.close()


NOISE = random.Random(1)


def parquet(rows: int) -> bytes:
    stream = io.BytesIO()
    texts = pa.table({"text": [NOISE.randbytes(64).hex() for _ in range(rows)]})
    pq.write_table(texts, stream, row_group_size=rows // 8, use_dictionary=False, compression="none")
    return stream.getvalue()


LINES = b"".join(b'{"text": "%s"}\n' % NOISE.randbytes(64).hex().encode() for _ in range(20_000))
WARC = b"".join(
    b"WARC/1.0\r\nContent-Length: 64\r\n\r\n%s\r\n\r\n" % NOISE.randbytes(32).hex().encode() for _ in range(20_000)
)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("jsonl", LINES),
        ("jsonl", gzip.compress(LINES, 1)),
        ("jsonl", bz2.compress(LINES, 1)),
        ("jsonl", zstandard.compress(LINES, 1)),
        ("jsonl", pa.compress(LINES, "lz4", asbytes=True)),
        ("warc", gzip.compress(WARC, 1)),
        ("parquet", parquet(20_000)),
        ("text", LINES),
    ],
)
def test_a_store_that_fails_is_no_fault_of_the_file(
    kind: Format, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a lost connection would lose documents for good."""
    file = InputFile("s", "/nowhere/a", "a", len(content), 0, kind)
    failing = FailingFile(content, len(content) * 3 // 4)
    store = SimpleNamespace(open_input_file=lambda _: failing)
    monkeypatch.setattr(files, "_locate", lambda _: SimpleNamespace(filesystem=store, path="/nowhere/a"))
    with pytest.raises(StoreError, match="cannot read /nowhere/a: connection reset"), open_input(file.uri) as stream:
        list(read(file, stream, SourceConfig(name="s", paths=["a"])))


def test_a_folder_that_leads_back_to_itself_gives_each_file_once(data: Path) -> None:
    (data / "self").symlink_to(".")
    (data / "deep" / "again.jsonl").symlink_to(data / "b.jsonl")
    assert relative(data) == ALL


def test_a_compressed_listing_is_read_and_a_broken_one_is_named(data: Path) -> None:
    listing = data / "warc.paths.gz"
    listing.write_bytes(gzip.compress(b"b.jsonl\ndeep/a.jsonl\n"))
    assert [file.relative for file in list_files(SourceConfig(name="s", listing=str(listing)))] == [
        "b.jsonl",
        "deep/a.jsonl",
    ]
    for content in (gzip.compress(b"b.jsonl\n")[:-9], b"\xff\xfe\x00b"):
        listing.write_bytes(content)
        with pytest.raises(SourceError, match=r"source s: listing .*warc\.paths\.gz"):
            list_files(SourceConfig(name="s", listing=str(listing)))
    with pytest.raises(SourceError, match=r"source s: listing: cannot read .*no\.paths"):
        list_files(SourceConfig(name="s", listing=str(data / "no.paths")))
