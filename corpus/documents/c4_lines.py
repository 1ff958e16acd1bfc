"""C4's edit of lines (Raffel et al. 2020, 2.2): what is left of a page is its lines of running text."""

from __future__ import annotations

import re
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from corpus.document import drop, set_text
from corpus.documents.words import LINE_ENDS, words
from corpus.stage import DocumentStage, StageConfig

#: What notices of policy say (the code of C4, as released with T5).
POLICY_PHRASES = ["terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"]


class C4LinesConfig(StageConfig):
    """Which lines go. C4's own values are the defaults; FineWeb ran with `terminal_punctuation` off."""

    terminal_punctuation: bool = Field(
        True, description="drop lines that do not end in . ! ? or a quote (or another script's), and those in '...'"
    )
    min_words: int = Field(3, ge=1, description="drop lines of fewer words; blank ones always go")
    max_word_characters: int = Field(1000, ge=1, description="drop lines with a longer word")
    phrases: list[str] = Field(
        ["javascript", *POLICY_PHRASES], description="drop lines that contain one of these, in either case"
    )


class C4Lines(DocumentStage):
    """Drops lines that are not running text; a document without any left is dropped."""

    name = "c4_lines"
    version = 1
    Config: ClassVar[type[StageConfig]] = C4LinesConfig

    def open(self) -> None:
        phrases = "|".join(map(re.escape, self.config.phrases))
        self._phrase = re.compile(phrases or r"(?!)", re.IGNORECASE)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = [self._edited(text or "") for text in batch["text"].to_pylist()]
        return drop(set_text(batch, texts), [None if text else "c4_lines:empty" for text in texts])

    def _edited(self, text: str) -> str:
        return "\n".join(line for line in map(str.strip, text.split("\n")) if self._stays(line))

    def _stays(self, line: str) -> bool:
        if self.config.terminal_punctuation and (not line.endswith(tuple(LINE_ENDS)) or line.endswith("...")):
            return False
        parts = words(line)
        return (
            len(parts) >= self.config.min_words
            and max(map(len, parts)) <= self.config.max_word_characters
            and not self._phrase.search(line)
        )
