"""Reads a file of any format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from corpus.sources.config import Format, SourceConfig
from corpus.sources.files import InputFile, StoreError
from corpus.sources.jsonl import read_jsonl
from corpus.sources.parquet import read_parquet
from corpus.sources.record import Failure, Item
from corpus.sources.text import read_text
from corpus.sources.warc import read_warc

#: The reader of each format; WET is WARC with conversion records.
READERS: dict[Format, Callable[[BinaryIO, SourceConfig], Iterator[Item]]] = {
    "warc": read_warc,
    "wet": read_warc,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "text": read_text,
}


def read(file: InputFile, stream: BinaryIO, config: SourceConfig) -> Iterator[Item]:
    """The items of `file`, whose bytes `stream` gives.

    An error that a reader raises ends the file with a failure `reader_error`; a store that fails, or memory that does
    not suffice, is no fault of the file.

    Raises: StoreError, MemoryError.
    """
    offset = 0
    try:
        for item in READERS[file.format](stream, config):
            offset = item.offset
            yield item
    except (StoreError, MemoryError):
        raise
    except Exception as error:
        yield Failure(
            offset, "reader_error", f"{file.uri}: {type(error).__name__}: {' '.join(str(error).split())}"[:400]
        )
