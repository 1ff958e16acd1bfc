"""From the fields of a row, as JSON and Parquet give them, to a record."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from typing import Any

from corpus.sources.config import SourceConfig
from corpus.sources.record import Failure, Record

_SURROGATES = re.compile("[\ud800-\udfff]")


def record_of(offset: int, row: dict[str, Any], config: SourceConfig) -> Record | Failure:
    """The record that `row` holds; a failure `no_text` if its text is null, missing or not a string."""
    text = lookup(row, config.text_field)
    if not isinstance(text, str):
        fields = ", ".join(ascii(name)[1:-1] for name in list(row)[:20])
        return Failure(offset, "no_text", f"{config.text_field} is {_kind(text)}; the record has: {fields}"[:400])
    text, replaced = replace_surrogates(text)
    metadata = {name: lookup(row, name) for name in config.metadata_fields}
    metadata["record_id"] = lookup(row, "id")
    if replaced:
        metadata["replaced_surrogates"] = replaced
    return Record(
        offset,
        text=text,
        url=as_string(lookup(row, config.url_field)),
        timestamp=as_timestamp(lookup(row, config.timestamp_field)),
        subset=as_string(lookup(row, config.split_field)) if config.split_field else None,
        metadata={name: string for name, value in metadata.items() if (string := as_string(value)) is not None},
    )


def lookup(row: dict[str, Any], path: str) -> Any:
    """The value of the field `path`: a name, or the names of nested fields joined by dots. None if it is not there."""
    value: Any = row.get(path)
    if value is not None or "." not in path:
        return value
    value = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def as_string(value: Any) -> str | None:
    """`value` as valid Unicode: strings as they are, None as None, all else as JSON."""
    if value is None:
        return None
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return replace_surrogates(value)[0]


def replace_surrogates(text: str) -> tuple[str, int]:
    """`text` with U+FFFD for each lone surrogate, which no UTF-8 can hold, and how many there were."""
    try:
        if not text.isascii():
            text.encode()
        return text, 0
    except UnicodeEncodeError:
        return _SURROGATES.subn("\ufffd", text)


def as_timestamp(value: Any) -> datetime | None:
    """The time that `value` says, in UTC: ISO 8601, or seconds since 1970; without a zone it is UTC. None if unclear."""
    try:
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError, AttributeError):
        return None


def _kind(value: Any) -> str:
    return "null or missing" if value is None else f"a {type(value).__name__}, not a string"
