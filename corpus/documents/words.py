"""What a word is, and the classes of characters that the measures of a text are made of.

A word is a run of characters other than white space. Han, kana, Thai, Lao, Khmer and Burmese are written without spaces:
each of their letters, with the marks on it, is a word of its own, so that a Chinese line is not one word.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import numpy as np

#: Scripts without spaces between words, as ranges of code points; of these only letters count.
_UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # Han iteration mark and zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9D),  # half-width Katakana
    (0x20000, 0x323AF),  # Han extensions B to H
)

#: Marks that end a sentence or a line, and quotes or brackets that may follow them.
SENTENCE_ENDS = ".!?؟۔।॥։።"
WIDE_SENTENCE_ENDS = "。！？｡"  # need no space behind them
CLOSERS = "\"'”’»›)]}」』）】》"
#: Ends of a complete line: C4's `. ! ? "` and FineWeb's `'`, with their curly, angular and other scripts' forms.
LINE_ENDS = SENTENCE_ENDS + WIDE_SENTENCE_ENDS + "\"'”’»›」』"
BULLETS = "•‣◦▪●■-*"

#: Bits of a character's class. `kernels` is compiled with them: a change here wants its cache (`__pycache__/*.nb?`) removed.
SPACE, ALPHABETIC, ALPHANUMERIC, UNSPACED, MARK, SENTENCE_END, WIDE_END, CLOSER, LINE_END, BULLET = (
    1 << bit for bit in range(10)
)
#: Code points from here on are of no class.
CLASSES_SIZE = 0x32400


@cache
def character_classes() -> np.ndarray:
    """Bits of every code point: uint16 of shape (`CLASSES_SIZE`,)."""
    classes = np.zeros(CLASSES_SIZE, np.uint16)
    for code in range(CLASSES_SIZE):
        character = chr(code)
        if character.isspace():
            classes[code] = SPACE
        elif character.isalpha():
            classes[code] = ALPHABETIC | ALPHANUMERIC
        elif character.isalnum():
            classes[code] = ALPHANUMERIC
        elif unicodedata.category(character).startswith("M"):
            classes[code] = MARK
    for first, last in _UNSPACED_RANGES:
        block = classes[first : last + 1]
        block[(block & ALPHABETIC) > 0] |= UNSPACED
    for characters, bit in (
        (SENTENCE_ENDS, SENTENCE_END),
        (WIDE_SENTENCE_ENDS, WIDE_END),
        (CLOSERS, CLOSER),
        (LINE_ENDS, LINE_END),
        (BULLETS, BULLET),
    ):
        for character in characters:
            classes[ord(character)] |= bit
    classes.flags.writeable = False
    return classes


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    if text.isascii():
        return text.split()
    return _word_pattern().findall(text)


@cache
def _word_pattern() -> re.Pattern[str]:
    classes = character_classes()
    unspaced, marks = _members(classes & UNSPACED > 0), _members(classes & MARK > 0)
    return re.compile(f"[{unspaced}][{marks}]*|[^\\s{unspaced}]+")


def _members(chosen: np.ndarray) -> str:
    """The code points where `chosen` holds, as ranges for a character class of a regular expression."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    return "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in edges.reshape(-1, 2).tolist())
