"""Reads WARC and WET files, and the older ARC, compressed or not, sound or damaged.

Records are found by their `Content-Length`, and each is checked to be followed by another one. If it is not, the record
is a failure, and reading goes on at the next place that looks like the beginning of a record (ISO 28500:2017; for ARC
the Internet Archive's ARC 1.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, NamedTuple

from corpus.sources.compression import decompressed
from corpus.sources.config import SourceConfig
from corpus.sources.fields import as_timestamp
from corpus.sources.http import BodyTooLarge, decode_body, parse_headers, parse_response
from corpus.sources.record import Failure, Item, Record, Skipped
from corpus.sources.window import Window

#: A larger record, or page, is a failure and not held in memory.
MAX_RECORD = 256 << 20
#: A header without an end after so many bytes is none.
MAX_HEADER = 64 << 10

#: WARC headers that are kept as a document's metadata.
METADATA = {
    b"warc-record-id": "record_id",
    b"warc-payload-digest": "payload_digest",
    b"warc-identified-content-language": "languages",
    b"warc-truncated": "truncated",
}
#: Records that describe a crawl and hold no page.
NOT_PAGES = frozenset({b"warcinfo", b"request", b"metadata", b"revisit"})

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_LINE_ENDS = re.compile(rb"[\r\n]+")
_ARC_LINE = (
    rb"(?P<url>[A-Za-z][A-Za-z0-9+.-]*:[^\n]*) (?P<ip>[^ \n]+) (?P<date>\d{14})\d* (?P<type>[^ \n]+)"
    rb"(?: [^\n]*)? (?P<length>[^ \n]+)\r?\n"
)


class _Framing(NamedTuple):
    """How the records of a format begin."""

    name: str
    begin: re.Pattern[bytes]
    lost: re.Pattern[bytes]  #: Where to look for a beginning when the place of the next record is unknown.
    unfinished: re.Pattern[bytes]  #: A beginning that the end of the data cuts off.
    end_of_head: re.Pattern[bytes]  #: Searched from the beginning of the record on.
    parse: Callable[[bytes], dict[bytes, bytes]]  #: The head as WARC headers.


def _arc_headers(line: bytes) -> dict[bytes, bytes]:
    found = re.fullmatch(_ARC_LINE, line)
    assert found is not None, "the record begins with such a line"
    day, time = found["date"][:8], found["date"][8:]
    return {
        b"warc-type": b"warcinfo" if found["url"].startswith(b"filedesc:") else b"response",
        b"warc-target-uri": found["url"],
        b"warc-date": day + b"T" + time,
        b"content-length": found["length"],
    }


_WARC_LINE = re.compile(rb"WARC/\d\.\d+[ \t]*\r?\n")
WARC = _Framing(
    name="WARC",
    begin=_WARC_LINE,
    lost=_WARC_LINE,
    unfinished=re.compile(rb"W?A?R?C?/?[\d.]*\s*\Z"),
    end_of_head=_BLANK_LINE,
    parse=parse_headers,
)
ARC = _Framing(
    name="ARC",
    begin=re.compile(_ARC_LINE),
    lost=re.compile(rb"(?<=\n)" + _ARC_LINE),
    unfinished=re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*(?::[^\n]*)?\Z"),
    end_of_head=re.compile(rb"\n"),
    parse=_arc_headers,
)


class _Malformed(Exception):
    """A record that cannot be read; `skip` bytes from its beginning on, another one may begin."""

    def __init__(self, reason: str, detail: str, skip: int) -> None:
        super().__init__(detail)
        self.reason, self.skip = reason, skip


def read_warc(stream: BinaryIO, config: SourceConfig) -> Iterator[Item]:
    """The pages of a WARC, WET or ARC file.

    HTTP responses with status 200 and resources come as `content`, plain-text conversions (WET) as `text`; other
    responses are skipped by status. Descriptive records and revisits are passed over.

    Failures: `truncated_record`, `bad_content_length`, `bad_header`, `record_too_large`, `bad_utf8` (WET),
    `corrupt_member`.
    """
    window = Window(decompressed(stream))
    window.fill(1)
    framing = ARC if ARC.begin.match(window.data) else WARC
    while True:
        yield from _undamaged(window, framing)
        if not window.pass_damage():
            return


def _undamaged(window: Window, framing: _Framing) -> Iterator[Item]:
    """The records up to the next damage, or the end of the file; one failure for a last record that it cuts off."""
    cut: Failure | None = None
    while _at_content(window):
        offset = window.offset()
        try:
            headers, block = _next_record(window, framing)
        except _Malformed as error:
            failure = Failure(offset, error.reason, str(error))
            found = _resync(window, framing, error.skip)
            if not found and (error.reason == "truncated_record" or window.damage is not None):
                cut = failure
            else:
                yield failure
            continue
        with block:
            item = _item(offset, headers, block)
        if item is not None:
            yield item
    if window.damage is not None:
        reason = "truncated_record" if window.damage.reason == "truncated_member" else window.damage.reason
        yield Failure(cut.offset if cut else window.damage.offset, reason, window.damage.detail)
    elif cut is not None:
        yield cut


def _at_content(window: Window) -> bool:
    """Move past the empty lines between records; False at the end of the data."""
    while window.fill(1):
        window.start = _skip_line_ends(window.data, window.start)
        if window.held:
            return True
    return False


def _next_record(window: Window, framing: _Framing) -> tuple[dict[bytes, bytes], memoryview]:
    """Headers and block of the record that begins here; the window then stands behind it."""
    size = _head_size(window, framing)
    headers = framing.parse(bytes(window.data[window.start : window.start + size]))
    try:
        length = int(headers[b"content-length"])
        if length < 0:
            raise ValueError
    except (KeyError, ValueError):
        found = headers.get(b"content-length", b"none")
        raise _Malformed("bad_header", f"Content-Length is {_shown(found)}, not a number of bytes", size) from None
    if length > MAX_RECORD:
        window.skip(size + length)
        raise _Malformed("record_too_large", f"{length} bytes, at most {MAX_RECORD} are read", 0)
    end = size + length
    if not window.fill(end):
        raise _Malformed("truncated_record", f"ends after {window.held - size} of {length} bytes", size)
    if not _followed(window, framing, end):
        raise _Malformed("bad_content_length", f"no record begins {length} bytes after the header", size)
    block = memoryview(window.data)[window.start + size : window.start + end]
    window.start += end
    return headers, block


def _head_size(window: Window, framing: _Framing) -> int:
    while True:
        begins = framing.begin.match(window.data, window.start)
        limit = window.start + MAX_HEADER
        end = framing.end_of_head.search(window.data, window.start, limit) if begins else None
        if end is not None:
            return end.end() - window.start
        if window.held >= MAX_HEADER or not window.fill(window.held + 1):
            break
    if not begins:
        found = _shown(window.data[window.start : window.start + 80])
        raise _Malformed("bad_header", f"not the beginning of a {framing.name} record: {found}", 1)
    if window.held < MAX_HEADER:
        raise _Malformed("truncated_record", "ends inside the header", window.held)
    # No sound header lies in here: to pass half of it, and not a line, keeps the search linear.
    raise _Malformed("bad_header", f"no end within {MAX_HEADER} bytes", MAX_HEADER // 2)


def _followed(window: Window, framing: _Framing, end: int) -> bool:
    """Whether another record begins at `end`, after line ends only, or the data ends there."""
    while True:
        place = _skip_line_ends(window.data, window.start + end)
        if framing.begin.match(window.data, place):
            return True
        rest = len(window.data) - place
        if rest > MAX_HEADER or window.data.find(b"\n", place) >= 0:
            return False
        if (rest == 0 and window.ends_member) or not window.fill(window.held + 1):
            return rest == 0 or framing.unfinished.match(window.data, place) is not None


def _resync(window: Window, framing: _Framing, skip: int) -> bool:
    """Move to the next place where a record seems to begin; False if the data ends before that."""
    window.skip(skip)
    while window.fill(1):
        found = framing.lost.search(window.data, window.start)
        if found:
            window.start = found.start()
            return True
        held = window.held
        if not window.fill(held + 1):
            window.skip(held)
            return False
        window.skip(max(0, held - MAX_HEADER))
    return False


def _item(offset: int, headers: dict[bytes, bytes], block: memoryview) -> Item | None:
    kind = headers.get(b"warc-type", b"").lower()
    if kind in NOT_PAGES:
        return None
    record = partial(
        Record,
        offset,
        url=_decoded(headers.get(b"warc-target-uri", b"")) or None,
        timestamp=as_timestamp(_decoded(headers.get(b"warc-date", b""))),
        metadata={name: _decoded(headers[key]) for key, name in METADATA.items() if key in headers},
    )
    content_type = _decoded(headers.get(b"content-type", b"")) or None
    if kind == b"conversion" and headers.get(b"content-type", b"").startswith(b"text/plain"):
        try:
            return record(text=str(block, "utf-8"))
        except UnicodeDecodeError as error:
            return Failure(offset, "bad_utf8", f"byte {error.start}: {error.reason}")
    if kind in (b"conversion", b"resource"):
        return record(content=bytes(block), content_type=content_type)
    if kind != b"response":
        return Skipped(offset, "unknown_record_type")
    response = parse_response(block)
    if response is None:
        return Skipped(offset, "not_http")
    if response.status != 200:
        return Skipped(offset, f"http_status_{response.status}")
    try:
        content = decode_body(response, MAX_RECORD)
    except BodyTooLarge as error:
        return Failure(offset, "record_too_large", str(error))
    return record(content=content, content_type=_decoded(response.headers.get(b"content-type", b"")) or None)


def _skip_line_ends(data: bytes | bytearray, start: int) -> int:
    found = _LINE_ENDS.match(data, start)
    return found.end() if found else start


def _decoded(value: bytes) -> str:
    """A header's value as text: UTF-8 or else Latin-1, without the `<>` that some writers put around URIs and ids."""
    if value.startswith(b"<") and value.endswith(b">"):
        value = value[1:-1]
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _shown(data: bytes | bytearray) -> str:
    """Bytes of a hostile file, safe to show."""
    return ascii(bytes(data[:80]))[1:]
