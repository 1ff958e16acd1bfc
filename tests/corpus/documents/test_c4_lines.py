"""C4's edit of lines: what goes, what stays, and that each condition is on its own switch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from corpus.document import DOCUMENT
from corpus.documents.c4_lines import C4Lines, C4LinesConfig

KEPT = "This line is running text."


def edit(config: C4LinesConfig, *texts: str | None) -> list[tuple[str | None, str | None]]:
    rows = [{"id": str(i), "source": "s", "text": text} for i, text in enumerate(texts)]
    stage = C4Lines(config)
    stage.open()
    batch = stage.process(pa.RecordBatch.from_pylist(rows, DOCUMENT))
    return list(zip(batch["text"].to_pylist(), batch["dropped"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "line",
    [
        *(
            "It ends in a mark!",
            "Does it end in one?",
            'He said "yes it does"',
            "“Ja, so ist es.”",
            "  It has spaces.  ",
        ),
        *("这是一个句子。", "これは文です。", "यह एक वाक्य है।", "A word of " + "x" * 999 + "."),
    ],
)
def test_lines_of_running_text_stay(line: str) -> None:
    assert edit(C4LinesConfig(), f"{line}\nMenu") == [(line.strip(), None)]


@pytest.mark.parametrize(
    "line",
    [
        *(
            "Home | About us",
            "Read on and on ...",
            "Read on and on...",
            "Two words.",
            "",
            "   ",
            "Enable JavaScript to go on.",
        ),
        *("See our Privacy Policy for more.", "This site uses cookies today.", "A word of " + "x" * 1000 + "."),
    ],
)
def test_lines_of_anything_else_go(line: str) -> None:
    assert edit(C4LinesConfig(), f"{line}\n{KEPT}\n{line}") == [(KEPT, None)]


def test_a_document_without_lines_left_is_dropped() -> None:
    assert [reason for _, reason in edit(C4LinesConfig(), "Menu\nHome", "", None, KEPT)] == [
        "c4_lines:empty",
        "c4_lines:empty",
        "c4_lines:empty",
        None,
    ]


def test_each_condition_can_be_switched_off() -> None:
    assert edit(C4LinesConfig(terminal_punctuation=False), "Home | About us")[0][0] == "Home | About us"
    assert edit(C4LinesConfig(min_words=1), "Two words.")[0][0] == "Two words."
    assert edit(C4LinesConfig(phrases=[]), "Enable JavaScript to go on.")[0][0] == "Enable JavaScript to go on."
    assert edit(C4LinesConfig(max_word_characters=5), "This is a longer one.") == [("", "c4_lines:empty")]
