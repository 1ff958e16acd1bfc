"""Bytes of a page to text: the HTTP header's charset, then the byte order mark, the page's own meta, a detector.

Labels mean what browsers take them to mean (WHATWG Encoding Standard: `iso-8859-1` is windows-1252). A label that nobody
knows, or one that the bytes contradict, is passed over.
"""

from __future__ import annotations

import codecs
import re

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
META_BYTES = 4096
#: A declared charset that leaves more than these shares undecoded, of all characters or of those beyond ASCII, is wrong.
MAX_UNDECODED, MAX_UNDECODED_BEYOND_ASCII = 0.02, 0.5

_HTTP_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*[\"']?\s*([^\s\"'/>;?]+)", re.IGNORECASE
)


def decode(content: bytes, content_type: str | None = None) -> tuple[str, str]:
    """The text of a page, and how it was found: `windows-1252 (http)`; http, bom, meta or detected. Never raises."""
    for source, label in _declared(content, content_type):
        codec = _codec(label)
        if codec is None:
            continue
        text = content.decode(codec, "replace")
        if not _contradicted(text):
            return _clean(text), f"{_name(codec)} ({source})"
    codec = _utf16_without_mark(content) or _codec(detect_encoding(content) or "") or "utf-8"
    return _clean(content.decode(codec, "replace")), f"{_name(codec)} (detected)"


def _contradicted(text: str) -> bool:
    undecoded = text.count("\ufffd")
    if not undecoded:
        return False
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return undecoded > MAX_UNDECODED * len(text) or undecoded > MAX_UNDECODED_BEYOND_ASCII * beyond_ascii


def _declared(content: bytes, content_type: str | None) -> list[tuple[str, str]]:
    labels = []
    if found := _HTTP_CHARSET.search(content_type or ""):
        labels.append(("http", found[1]))
    labels += [("bom", codec) for mark, codec in BOMS if content.startswith(mark)]
    if meta := _META_CHARSET.search(content[:META_BYTES]):
        label = meta[1].decode("latin-1")
        # A meta that could be read as ASCII proves that the page is not UTF-16.
        labels.append(("meta", "utf-8" if label.lower().startswith("utf-16") else label))
    return labels


def _codec(label: str) -> str | None:
    """Python's name of the codec that browsers use for `label`; None if they know no such label."""
    if label in {codec for _, codec in BOMS}:
        return label
    name = map_encoding_to_html5(label, fallback_utf8=False) if label.isascii() else None
    try:
        return codecs.lookup(_PYTHON.get(name, name)).name if name else None
    except LookupError:
        return None


#: Codecs of browsers that know more characters than Python's of the same name.
_PYTHON = {"shift_jis": "cp932", "euc_kr": "cp949", "gbk": "gb18030", "gb2312": "gb18030", "big5": "big5hkscs"}


def _utf16_without_mark(content: bytes) -> str | None:
    """UTF-16 shows by its zero bytes: in text of mostly ASCII, nearly every second byte is one."""
    sample = content[:2048]
    half = len(sample) // 2
    if half >= 8:
        for codec, zeros in (("utf-16-le", sample[1::2].count(0)), ("utf-16-be", sample[0::2].count(0))):
            if zeros > 0.7 * half and sample.count(0) < 1.1 * half:
                return codec
    return None


def _name(codec: str) -> str:
    return codec.replace("cp1252", "windows-1252")


def _clean(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\0", "\ufffd")
