"""Repair of broken text with ftfy, skipping what it provably leaves alone.

ftfy works line by line. A line of ASCII without control characters and without an entity comes out as it went in, so only
the other lines are given to it: the result is that of `ftfy.fix_text` on the whole text, always, at a fraction of its time.
"""

from __future__ import annotations

import re
from typing import ClassVar

import ftfy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ftfy import TextFixerConfig, fix_and_explain
from pydantic import Field

from corpus.document import drop_where, set_text
from corpus.stage import DocumentStage, StageConfig

#: What ftfy changes in ASCII text: control characters, escape sequences, carriage returns, HTML entities.
SUSPECT = r"[\x00-\x08\x0b\x0d-\x1f\x7f&]"
_SUSPECT = re.compile(SUSPECT)
#: Where a `<` stands before or in a line, entities are left alone, so `&` is no suspect.
_SUSPECT_MARKUP = re.compile(SUSPECT.replace("&", ""))


class RepairConfig(StageConfig):
    """What is repaired beside mojibake, control characters, escape sequences and line ends."""

    uncurl_quotes: bool = Field(False, description='turn typographic quotes into ASCII ones; „ would become " too')
    fix_character_width: bool = Field(
        False, description="turn full-width forms into ASCII; wrong for Chinese and Japanese"
    )
    fix_latin_ligatures: bool = Field(True, description="turn ligatures such as \ufb01 into letters")


class Repair(DocumentStage):
    """Mojibake, entities, control characters, line ends, surrogates; Unicode NFC. Emptied text is dropped."""

    name = "repair"
    version = 1
    Config: ClassVar[type[StageConfig]] = RepairConfig

    def open(self) -> None:
        self._fixer = fixer(self.config)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch["text"]
        clean = pc.and_(pc.string_is_ascii(texts), pc.invert(pc.match_substring_regex(texts, SUSPECT)))
        suspects = np.flatnonzero(~pc.fill_null(clean, True).to_numpy(zero_copy_only=False))
        if len(suspects):
            repaired = pa.array([repair(text, self._fixer) for text in texts.take(suspects).to_pylist()], pa.string())
            mask = np.zeros(batch.num_rows, bool)
            mask[suspects] = True
            batch = set_text(batch, pc.replace_with_mask(texts, pa.array(mask), repaired))
        empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(batch["text"])), 0)
        return drop_where(batch, pc.fill_null(empty, True).to_numpy(zero_copy_only=False), "repair:empty")


def fixer(config: RepairConfig) -> TextFixerConfig:
    """ftfy's settings for this config: as it comes, but for what would harm a corpus."""
    return TextFixerConfig(
        explain=False,
        uncurl_quotes=config.uncurl_quotes,
        fix_character_width=config.fix_character_width,
        fix_latin_ligatures=config.fix_latin_ligatures,
    )


def repair(text: str, settings: TextFixerConfig) -> str:
    """`ftfy.fix_text(text, settings)`, to the character. `settings.unescape_html` must be "auto", ftfy's default."""
    if text.isascii() and not _SUSPECT.search(text):
        return text
    if len(text) > settings.max_decode_length:
        return ftfy.fix_text(text, settings)
    repaired = []
    suspect = _SUSPECT
    for line in _lines(text):
        if settings.unescape_html and "<" in line:
            settings = settings._replace(unescape_html=False)
            suspect = _SUSPECT_MARKUP
        if line.isascii() and not suspect.search(line):
            repaired.append(line)
        else:
            repaired.append(fix_and_explain(line, settings).text)
    return "".join(repaired)


def _lines(text: str) -> list[str]:
    """The lines of a text with their line feeds; no other character ends one."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines
