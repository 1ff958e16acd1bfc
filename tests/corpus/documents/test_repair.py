"""Repair is ftfy's, to the character, whatever the text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import ftfy
import pyarrow as pa
import pytest

from corpus.document import DOCUMENT
from corpus.documents.repair import Repair, RepairConfig, fixer, repair

SETTINGS = fixer(RepairConfig())

#: Pieces that ftfy acts on, and such as only look so.
PIECES = [
    "plain words ", "café ", "cafÃ© ", "â€œquotedâ€\x9d ", "“quoted” ", "&amp; ", "&eacute; ", "&unknown; ", "& ", "<b> ", "< ",
    "&lt;", "\n", "\n\n", "\r\n", "\r", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\t", "\x00", "\x1b[31mred\x1b[0m", "\x7f",
    "\ufeff", "\ufffc", "e\u0301", "\u0301", "ﬁne ", "ＦＵＬＬ ", "日本語。", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "\ud800", "ð\x9f\x98\x80", "Ã\xa0 ", "\xa0", "\x93hi\x94", "schön ", "schÃ¶n ", "&#233;", "&#x1b;", "&NBSP;",
]  # fmt: skip


def test_no_text_comes_out_other_than_from_ftfy() -> None:
    draw = random.Random(7)
    for _ in range(20_000):
        text = "".join(draw.choices(PIECES, k=draw.randint(1, 12)))
        assert repair(text, SETTINGS) == ftfy.fix_text(text, SETTINGS), ascii(text)


def test_random_bytes_read_as_text_come_out_as_from_ftfy() -> None:
    draw = random.Random(8)
    for _ in range(3000):
        text = draw.randbytes(draw.randint(1, 40)).decode(draw.choice(["latin-1", "cp437", "utf-8"]), "replace")
        assert repair(text, SETTINGS) == ftfy.fix_text(text, SETTINGS), ascii(text)


@pytest.mark.parametrize(
    "changes", [{"uncurl_quotes": True}, {"fix_character_width": True}, {"fix_latin_ligatures": False}]
)
def test_it_follows_ftfy_under_every_setting(changes: dict[str, bool]) -> None:
    settings = fixer(RepairConfig(**changes))
    for text in PIECES + ["".join(PIECES)]:
        assert repair(text, settings) == ftfy.fix_text(text, settings), ascii(text)


def test_real_mojibake_and_hostile_strings_come_out_as_from_ftfy(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("encodings")
    cases = json.loads((folder / "ftfy-in-the-wild.json").read_text()) + json.loads(
        (folder / "ftfy-negative.json").read_text()
    )
    texts = [case["original"] for case in cases] + (folder / "blns.txt").read_text().split("\n")
    texts.append("\n".join(texts))
    for text in texts:
        assert repair(text, SETTINGS) == ftfy.fix_text(text, SETTINGS)


def test_real_text_of_many_languages_comes_out_as_from_ftfy(shared_data: Callable[[str], Path]) -> None:
    for path in sorted((shared_data("multilingual") / "udhr").glob("*.html")):
        text = path.read_text()
        assert repair(text, SETTINGS) == ftfy.fix_text(text, SETTINGS), path.name


def process(*texts: str | None) -> list[dict[str, object]]:
    rows = [{"id": str(i), "source": "s", "text": text} for i, text in enumerate(texts)]
    stage = Repair()
    stage.open()
    return stage.process(pa.RecordBatch.from_pylist(rows, DOCUMENT)).to_pylist()


def test_the_stage_repairs_suspect_rows_and_leaves_the_others() -> None:
    rows = process("plain", "cafÃ©", "a\r\nb", "„so“")
    assert [row["text"] for row in rows] == ["plain", "café", "a\nb", "„so“"]
    assert not any(row["dropped"] for row in rows)


@pytest.mark.parametrize("text", ["", " \n\t", "\x00\x01", "\ufeff", None])
def test_what_is_empty_afterwards_is_dropped(text: str | None) -> None:
    [row] = process(text)
    assert row["dropped"] == "repair:empty"
