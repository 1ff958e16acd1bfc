"""The charset is found in the order that browsers have, and nothing can make decoding raise."""

from __future__ import annotations

import codecs
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from corpus.documents.charset import decode

GERMAN = "Die schöne Müllerin fährt über die Brücke. " * 3
HTML = "<html><head>{meta}</head><body>" + GERMAN + "</body></html>"


@pytest.mark.parametrize(
    ("content", "content_type", "label"),
    [
        (HTML.format(meta='<meta charset="utf-8">').encode("cp1252"), "text/html; charset=windows-1252", "windows-1252 (http)"),
        (HTML.format(meta="").encode("cp1252"), "text/html; charset=ISO-8859-1", "windows-1252 (http)"),
        (HTML.format(meta='<meta charset="iso-8859-1">').encode("cp1252"), "text/html", "windows-1252 (meta)"),
        (HTML.format(meta='<meta content="text/html; charset=latin1">').encode("cp1252"), None, "windows-1252 (meta)"),
        (HTML.format(meta="").encode("utf-8-sig"), None, "utf-8 (bom)"),
        (HTML.format(meta='<meta charset="iso-8859-1">').encode("utf-8-sig"), None, "utf-8 (bom)"),
        (HTML.format(meta="").encode("utf-16"), None, "utf-16-le (bom)"),
        (HTML.format(meta="").encode("utf-16-be"), None, "utf-16-be (detected)"),
        (HTML.format(meta="").encode("utf-16-le"), None, "utf-16-le (detected)"),
        (HTML.format(meta="").encode("utf-32"), None, "utf-32-le (bom)"),
        (HTML.format(meta='<meta charset="utf-8">').encode(), "text/html; charset=utf-4", "utf-8 (meta)"),
        (HTML.format(meta='<meta charset="utf-8">').encode(), "text/html; charset=utf–8", "utf-8 (meta)"),
        (HTML.format(meta="").encode(), "text/html; charset=", "utf-8 (detected)"),
        (HTML.format(meta='<meta charset="utf-16">').encode(), None, "utf-8 (meta)"),
        (HTML.format(meta="").encode("cp1252"), "text/html; charset=utf-8", "windows-1252 (detected)"),
    ],
)  # fmt: skip
def test_the_right_source_decides(content: bytes, content_type: str | None, label: str) -> None:
    text, found = decode(content, content_type)
    assert found == label
    assert GERMAN in text


def test_a_label_is_judged_by_the_characters_that_it_could_get_wrong() -> None:
    """Two accents in a long English page are enough to see that it is not UTF-8; one bad byte among many is a slip."""
    long = "plain words " * 500
    assert decode((long + "café Köln").encode("cp1252"), "text/html; charset=utf-8")[0] == long + "café Köln"
    slip = (GERMAN * 5).encode() + b"\xe9" + long.encode()
    assert decode(slip, "text/html; charset=utf-8") == (GERMAN * 5 + "\ufffd" + long, "utf-8 (http)")


def test_latin_1_means_windows_1252() -> None:
    assert decode("“quoted” – 5 €".encode("cp1252"), "text/plain; charset=iso-8859-1")[0] == "“quoted” – 5 €"


def test_nothing_raises_and_nothing_unstorable_comes_out() -> None:
    draw = random.Random(3)
    labels = [
        None,
        "text/html; charset=utf-16",
        "charset=\x00",
        "charset=utf-7",
        "charset='",
        "x" * 5000,
        "charset=idna",
        "charset=zip",
    ]
    for _ in range(2000):
        text, _ = decode(draw.randbytes(draw.randint(0, 60)), draw.choice(labels))
        text.encode()
        assert "\0" not in text


def test_real_files_come_out_in_their_encoding(shared_data: Callable[[str], Path]) -> None:
    """Of the kinds that the web is written in; exotic ones (Johab, Mac Cyrillic, ISO-2022-KR) are guessed wrong."""
    web = {
        "utf-8": "utf-8", "iso-8859-1": "cp1252", "windows-1252": "cp1252", "windows-1251-russian": "cp1251",
        "Big5": "big5hkscs", "CP932": "cp932", "SHIFT_JIS": "cp932", "GB2312": "gb18030", "KOI8-R": "koi8-r",
        "TIS-620": "cp874", "UTF-16": "utf-16", "windows-1251-bulgarian": "cp1251", "iso-8859-5-bulgarian": "iso8859-5",
    }  # fmt: skip
    right = total = 0
    for folder, codec in web.items():
        for path in (shared_data("encodings") / "chardet" / folder).iterdir():
            content = path.read_bytes()
            right += decode(content)[0] == content.decode(codec, "replace").replace("\0", "\ufffd").removeprefix(
                "\ufeff"
            )
            total += 1
    assert total >= 20
    assert right / total >= 0.85, (right, total)


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE])
def test_a_mark_alone_is_an_empty_text(mark: bytes) -> None:
    assert decode(mark)[0] == ""
