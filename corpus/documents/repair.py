"""Repair of broken text with ftfy, skipping what it provably leaves alone.

ftfy works line by line, and most lines come out as they went in. Three cheap tests find lines of which that is certain;
only the others are given to it, so the result is that of `ftfy.fix_text` on the whole text, always, at a fraction of its
time:

- nothing in the line is a control character, an entity, a ligature or another character that ftfy replaces;
- the line is in Unicode NFC;
- it cannot be mojibake: every pattern by which ftfy knows mojibake needs two neighbouring non-ASCII characters, or one of
  Œ, œ, Â, Ã.
"""

from __future__ import annotations

import re
import unicodedata

import ftfy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ftfy import TextFixerConfig, fix_and_explain
from ftfy.chardata import LIGATURES

from corpus.document import drop_where, set_text
from corpus.stage import DocumentStage

#: As ftfy comes, but for two things that harm a corpus: straight quotes for typographic ones („ would become " too), and
#: ASCII for full-width forms, which are the right ones in Chinese and Japanese.
SETTINGS = TextFixerConfig(explain=False, uncurl_quotes=False, fix_character_width=False)

#: What ftfy changes in ASCII text: control characters, escape sequences, carriage returns, entities.
ASCII_SUSPECT = r"\x00-\x08\x0b\x0d-\x1f\x7f"
MOJIBAKE_SUSPECT = "[^\x00-\x7f]{2}|[ŒœÂÃ]"
_REPLACED = "\x80-\x9f\u2028\u2029\ud800-\udfff\u206a-\u206f\ufeff\ufff9-\ufffc" + "".join(map(chr, LIGATURES))
_SUSPECT = re.compile(f"[{ASCII_SUSPECT}{_REPLACED}&]|{MOJIBAKE_SUSPECT}")
#: After a `<`, entities are left alone, so `&` is no suspect.
_SUSPECT_MARKUP = re.compile(f"[{ASCII_SUSPECT}{_REPLACED}]|{MOJIBAKE_SUSPECT}")


class Repair(DocumentStage):
    """Mojibake, entities, control characters, line ends, surrogates; Unicode NFC. Emptied text is dropped."""

    name = "repair"
    version = 1

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch["text"]
        clean = pc.and_(pc.string_is_ascii(texts), pc.invert(pc.match_substring_regex(texts, f"[{ASCII_SUSPECT}&]")))
        suspects = ~pc.fill_null(clean, True).to_numpy(zero_copy_only=False)
        if suspects.any():
            repaired = pa.array([repair(text) for text in texts.filter(pa.array(suspects)).to_pylist()], pa.string())
            batch = set_text(batch, pc.replace_with_mask(texts, pa.array(suspects), repaired))
        empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(batch["text"])), 0)
        return drop_where(batch, np.asarray(pc.fill_null(empty, True)), "repair:empty")


def repair(text: str, settings: TextFixerConfig = SETTINGS) -> str:
    """`ftfy.fix_text(text, settings)`, to the character; `settings` may differ from `SETTINGS` in `unescape_html` only."""
    if len(text) > settings.max_decode_length:
        return ftfy.fix_text(text, settings)
    repaired = []
    suspect = _SUSPECT
    for line in _lines(text):
        if settings.unescape_html and "<" in line:
            settings = settings._replace(unescape_html=False)
            suspect = _SUSPECT_MARKUP
        if suspect.search(line) or not unicodedata.is_normalized("NFC", line):
            line = fix_and_explain(line, settings).text
        repaired.append(line)
    return "".join(repaired)


def _lines(text: str) -> list[str]:
    """The lines of a text with their line feeds; no other character ends one."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines
