"""Finds and opens the files of a source, on this machine or in any store that pyarrow.fs knows."""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs

from corpus.problems import UserError
from corpus.sources.compression import Piece, decompressed
from corpus.sources.config import Format, SourceConfig
from corpus.sources.record import Failure

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

BUFFER = 1 << 20

#: Name endings of each format, after those of compressions are cut off.
SUFFIXES: dict[str, Format] = {
    ".warc": "warc",
    ".arc": "warc",
    ".wet": "wet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
}
COMPRESSIONS = frozenset({".gz", ".zst", ".bz2", ".lz4"})

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: Options of a file system, such as `?region=eu-west-1`; any other question mark belongs to a glob.
_OPTIONS = re.compile(r"\?\w+=[^/]*$")
_MAGIC = re.compile(r"[*?[]")
_GLOB_TOKEN = re.compile(r"(\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]*\])")


class SourceError(UserError):
    """The files of a source cannot be found, or not told apart; the message says what to do."""


class StoreError(Exception):
    """A store did not give what it holds: a fault of the network, a disk or a permission, never of the file's content."""


@dataclass(frozen=True)
class InputFile:
    """A file of a source. `uri` opens it; `relative` is its name in document ids, stable when the data is moved."""

    source: str
    uri: str
    relative: str
    size: int  #: Bytes.
    mtime_ns: int  #: 0 where the store tells none.
    format: Format

    @property
    def id(self) -> str:
        """Its name in the corpus; the ids of its documents begin with it."""
        return f"{self.source}/{self.relative}"


class _StoredFile(io.RawIOBase):
    """A file of a store. What goes wrong with the store is a `StoreError`, so that no reader takes it for bad content."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        with self._store():
            place = _locate(uri)
            self.file = place.filesystem.open_input_file(place.path)

    @contextlib.contextmanager
    def _store(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"cannot read {self.uri}: {' '.join(str(error).split())[:400]}") from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        with self._store():
            return self.file.readinto(buffer)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._store():
            return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()


class _Place(NamedTuple):
    """Where a path lies: its file system, the path there, and what makes such a path a URI again."""

    filesystem: pafs.FileSystem
    path: str
    before: str = ""
    behind: str = ""

    def uri(self, path: str) -> str:
        return self.before + (quote(path, safe="/:") if self.before else path) + self.behind


class _Found(NamedTuple):
    uri: str
    relative: str
    info: pafs.FileInfo


def list_files(config: SourceConfig) -> list[InputFile]:
    """The files of a source, sorted by `relative`, each once whatever links lead to it.

    Hidden, `_SUCCESS`-like and `.partial` files are left out.

    Raises: SourceError if a path or glob matches no file, a format cannot be told, or two files have different ones.
    """
    found = [file for path in config.paths for file in _expand(config.name, path)]
    if config.listing is not None:
        found += _listed(config.name, config.listing)
    once = {file.uri if _SCHEME.match(file.uri) else os.path.realpath(file.uri): file for file in reversed(found)}
    count = Counter(file.relative for file in once.values())
    files = [
        InputFile(
            source=config.name,
            uri=file.uri,
            relative=file.relative if count[file.relative] == 1 else file.uri,
            size=file.info.size,
            mtime_ns=file.info.mtime_ns or 0,
            format=config.format or _format(config.name, file.uri),
        )
        for file in once.values()
    ]
    files.sort(key=lambda file: file.relative)
    for file in files:
        if file.format != files[0].format:
            raise SourceError(
                f"source {config.name}: {files[0].uri} is {files[0].format} and {file.uri} is {file.format}: "
                "make two sources, or set `format`"
            )
    return files


def open_input(uri: str) -> BinaryIO:
    """Open a file that `list_files` found, for reading: buffered and seekable.

    Raises: StoreError if it cannot be opened, and so do its methods if it cannot be read.
    """
    return cast(BinaryIO, io.BufferedReader(_StoredFile(uri), BUFFER))


def _expand(source: str, path: str) -> list[_Found]:
    """The files that a path, folder or glob names."""
    options = _options(path)
    bare = path.removesuffix(options)
    magic = _MAGIC.search(bare)
    if magic is None or (not _SCHEME.match(bare) and os.path.exists(bare)):
        place = _locate(path)
        info = place.filesystem.get_file_info(place.path)
        if info.type == pafs.FileType.File:
            return [_Found(place.uri(info.path), posixpath.basename(info.path), info)]
        files = list(_below(place, recursive=True)) if info.type == pafs.FileType.Directory else []
    else:
        base, _, pattern = bare[: magic.start()].rpartition("/")
        pattern += bare[magic.start() :]
        place = _locate((base or ("/" if bare.startswith("/") else ".")) + options)
        matches = re.compile(_glob_regex(pattern)).fullmatch
        files = [file for file in _below(place, recursive="/" in pattern or "**" in pattern) if matches(file.relative)]
    if not files:
        raise SourceError(
            f"source {source}: no file matches {path}; the nearest folder there is {_nearest_folder(place)}"
        )
    return files


def _listed(source: str, listing: str) -> list[_Found]:
    """The files that the lines of `listing` name; a relative line is the file's name in ids, as it stands."""
    options = _options(listing)
    base = listing.removesuffix(options).rpartition("/")[0] or "."
    found: list[_Found] = []
    for line in (line.strip() for line in _text(source, listing).splitlines()):
        if not line or line.startswith("#"):
            continue
        if _SCHEME.match(line) or line.startswith("/"):
            found += _expand(source, line)
            continue
        files = _expand(source, f"{base}/{line}{options}")
        found += (
            [file._replace(relative=line) for file in files]
            if _MAGIC.search(line) is None and len(files) == 1
            else files
        )
    return found


def _text(source: str, listing: str) -> str:
    """The lines of a listing, which may be compressed."""
    try:
        with open_input(listing) as stream:
            pieces = list(decompressed(stream))
        for piece in pieces:
            if isinstance(piece, Failure):
                raise SourceError(f"source {source}: listing {listing}: {piece.detail}")
        return b"".join(piece.data for piece in pieces if isinstance(piece, Piece)).decode("utf-8-sig")
    except StoreError as error:
        raise SourceError(f"source {source}: listing: {error}") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"source {source}: listing {listing} is no UTF-8 text") from error


def _below(place: _Place, *, recursive: bool) -> Iterator[_Found]:
    """The files under a folder that are not hidden, partial or markers."""
    selector = pafs.FileSelector(place.path, recursive=recursive, allow_not_found=True)
    for info in sorted(place.filesystem.get_file_info(selector), key=lambda info: (info.path.count("/"), info.path)):
        relative = posixpath.relpath(info.path, place.path)
        hidden = any(part.startswith((".", "_")) for part in relative.split("/"))
        if info.type == pafs.FileType.File and not hidden and not relative.endswith(".partial"):
            yield _Found(place.uri(info.path), relative, info)


def _locate(path: str) -> _Place:
    if not _SCHEME.match(path):
        return _Place(pafs.LocalFileSystem(), os.path.abspath(path))
    path = re.sub(r"^s3[an]://", "s3://", path)
    options = _options(path)
    try:
        filesystem, inner = pafs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path}: {str(error).splitlines()[0]}") from error
    if isinstance(filesystem, pafs.LocalFileSystem):
        return _Place(filesystem, inner)
    bare, tail = path.removesuffix(options).rstrip("/"), inner.rstrip("/")
    return _Place(
        filesystem, inner, bare.removesuffix(tail if bare.endswith(tail) else quote(tail, safe="/:")), options
    )


def _options(path: str) -> str:
    found = _OPTIONS.search(path) if _SCHEME.match(path) else None
    return found[0] if found else ""


def _nearest_folder(place: _Place) -> str:
    path = place.path
    while path and place.filesystem.get_file_info(path).type != pafs.FileType.Directory:
        parent = posixpath.dirname(path)
        if parent == path:
            break
        path = parent
    return place.uri(path)


def _glob_regex(pattern: str) -> str:
    """`*` and `?` stop at slashes, `**` does not, `[...]` is a set of characters."""
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = []
    for token in _GLOB_TOKEN.split(pattern):
        if token in meaning:
            parts.append(meaning[token])
        elif _GLOB_TOKEN.fullmatch(token):
            parts.append("[" + token[1:-1].replace("\\", "\\\\").replace("!", "^", token[1] == "!") + "]")
        else:
            parts.append(re.escape(token))
    return "".join(parts)


def _format(source: str, uri: str) -> Format:
    name = posixpath.basename(uri.removesuffix(_options(uri))).lower()
    stem, suffix = posixpath.splitext(name)
    while suffix in COMPRESSIONS:
        stem, suffix = posixpath.splitext(stem)
    if suffix not in SUFFIXES:
        raise SourceError(
            f"source {source}: cannot tell the format of {uri} from its name: set `format`, or narrow `paths`"
        )
    return SUFFIXES[suffix]
