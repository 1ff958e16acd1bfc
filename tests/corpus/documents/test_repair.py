"""Repair is ftfy's, to the character, whatever the text."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ftfy
import pyarrow as pa
import pytest
from ftfy.badness import BADNESS_RE

from corpus.document import DOCUMENT
from corpus.documents.repair import SETTINGS, Repair, repair

#: Pieces that ftfy acts on, and such as only look so.
PIECES = [
    "plain words ", "café ", "cafÃ© ", "â€œquotedâ€\x9d ", "“quoted” ", "&amp; ", "&eacute; ", "&unknown; ", "& ", "<b> ", "< ",
    "&lt;", "\n", "\n\n", "\r\n", "\r", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\t", "\x00", "\x1b[31mred\x1b[0m", "\x7f",
    "\ufeff", "\ufffc", "e\u0301", "\u0301", "ﬁne ", "ＦＵＬＬ ", "日本語。", "😀",
    "\ud800", "ð\x9f\x98\x80", "Ã\xa0 ", "\xa0", "\x93hi\x94", "schön ", "schÃ¶n ", "&#233;", "&#x1b;", "&NBSP;",
    "Œ", "œuvre", "Â ", "aÃ b", "’", "—", "” ", "€",
]  # fmt: skip


def test_no_text_comes_out_other_than_from_ftfy() -> None:
    draw = random.Random(7)
    for _ in range(20_000):
        text = "".join(draw.choices(PIECES, k=draw.randint(1, 12)))
        assert repair(text) == ftfy.fix_text(text, SETTINGS), ascii(text)


def test_random_bytes_read_as_text_come_out_as_from_ftfy() -> None:
    draw = random.Random(8)
    for _ in range(3000):
        text = draw.randbytes(draw.randint(1, 40)).decode(draw.choice(["latin-1", "cp437", "utf-8"]), "replace")
        assert repair(text) == ftfy.fix_text(text, SETTINGS), ascii(text)


def test_mojibake_needs_two_neighbours_or_one_of_four_letters() -> None:
    """The grammar of ftfy's own pattern, alternative by alternative."""
    from re import _constants as op  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

    def may_be_ascii(item: Any) -> bool:
        kind, value = item
        if kind is op.LITERAL:
            return bool(value < 128)
        if kind is op.IN and value[0][0] is not op.NEGATE:
            return any(
                (k is op.LITERAL and v < 128) or (k is op.RANGE and v[0] < 128) or k is op.CATEGORY for k, v in value
            )
        return True

    def always_suspect(item: Any) -> bool:
        kind, value = item
        members = value if kind is op.IN else [item]
        letters = {chr(v) for k, v in members if k is op.LITERAL}
        controls = all(k is op.RANGE and v == (0x80, 0x9F) for k, v in members)
        return kind in (op.IN, op.LITERAL) and (controls or (letters <= set("ŒœÂÃ") and len(letters) == len(members)))

    [(kind, (_, alternatives))] = parser.parse(BADNESS_RE.pattern, BADNESS_RE.flags)
    assert kind is op.BRANCH
    assert len(alternatives) > 20
    for alternative in alternatives:
        neighbours = any(not may_be_ascii(a) and not may_be_ascii(b) for a, b in itertools.pairwise(alternative))
        assert neighbours or any(map(always_suspect, alternative)), list(alternative)


def test_every_single_character_between_ascii_comes_out_as_from_ftfy() -> None:
    for code in [*range(0x3000), *range(0xD7F0, 0x11000), 0x1D15E, 0x1F600, 0x2F800]:
        for text in (f"a{chr(code)}b", f"A {chr(code)} ", f"e{chr(code)}."):
            assert repair(text) == ftfy.fix_text(text, SETTINGS), ascii(text)


def test_real_mojibake_and_hostile_strings_come_out_as_from_ftfy(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("encodings")
    cases = json.loads((folder / "ftfy-in-the-wild.json").read_text()) + json.loads(
        (folder / "ftfy-negative.json").read_text()
    )
    texts = [case["original"] for case in cases] + (folder / "blns.txt").read_text().split("\n")
    texts.append("\n".join(texts))
    for text in texts:
        assert repair(text) == ftfy.fix_text(text, SETTINGS)


def test_real_text_of_many_languages_comes_out_as_from_ftfy(shared_data: Callable[[str], Path]) -> None:
    for path in sorted((shared_data("multilingual") / "udhr").glob("*.html")):
        text = path.read_text()
        assert repair(text) == ftfy.fix_text(text, SETTINGS), path.name


def process(*texts: str | None) -> list[dict[str, object]]:
    rows = [{"id": str(i), "source": "s", "text": text} for i, text in enumerate(texts)]
    return Repair().process(pa.RecordBatch.from_pylist(rows, DOCUMENT)).to_pylist()


def test_the_stage_repairs_suspect_rows_and_leaves_the_others() -> None:
    rows = process("plain", "cafÃ©", "a\r\nb", "„so“")
    assert [row["text"] for row in rows] == ["plain", "café", "a\nb", "„so“"]
    assert not any(row["dropped"] for row in rows)


@pytest.mark.parametrize("text", ["", " \n\t", "\x00\x01", "\ufeff", None])
def test_what_is_empty_afterwards_is_dropped(text: str | None) -> None:
    [row] = process(text)
    assert row["dropped"] == "repair:empty"
