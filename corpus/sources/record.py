"""What a reader yields: records, records that are no documents, and the places where none could be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Record:
    """One document as it lies in a file: either `text`, or `content` (bytes of a page) with its `content_type`."""

    offset: (
        int  #: Byte where the record begins: in the file if its format is seekable, else in the decompressed stream.
    )
    text: str | None = None
    content: bytes | None = None
    content_type: str | None = None  #: The HTTP header's value, undecoded labels and all.
    url: str | None = None
    timestamp: datetime | None = None  #: Aware, in UTC.
    subset: str | None = None  #: The Pile's `meta.pile_set_name`, or whatever field the source is split by.
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A sound record of a crawl that holds no document, such as an error page."""

    offset: int
    reason: str  #: A short name in snake_case: `http_status_404`, `not_http`.


@dataclass(frozen=True, slots=True)
class Failure:
    """A place where a record could not be read; the reader goes on behind it if it can."""

    offset: int
    reason: str  #: A short name in snake_case: `truncated_member`, `bad_json`, ...
    detail: str = ""  #: One line for a person.


#: Reasons of failures behind which the rest of a file, however much that was, is lost.
BREAKS_FILE = frozenset({"truncated_record", "truncated_member", "bad_file", "bad_row_group", "reader_error"})

#: Everything that a reader may yield.
Item = Record | Skipped | Failure
