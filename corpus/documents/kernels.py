"""Measures of texts, compiled: one pass over the UTF-8 bytes of each document, straight from the Arrow buffer.

The pass hashes words, lines and paragraphs (64 bits, FNV-1a and a final mix) and counts what the rules ask for;
repetition is then found among the hashes. Two lines are the same if their words are, and paragraphs if their lines are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from corpus.documents.words import (
    ALPHABETIC,
    ALPHANUMERIC,
    BULLET,
    CLASSES_SIZE,
    CLOSER,
    LINE_END,
    MARK,
    SENTENCE_END,
    SPACE,
    UNSPACED,
    WIDE_END,
)

#: Columns of what `scan` counts in a document.
COUNTS = (
    "characters",
    "words",
    "spaced_words",
    "spaced_word_characters",
    "word_characters",
    "alphabetic_words",
    "stop_words",
    "hashes",
    "ellipses",
    "curly_brackets",
    "sentences",
    "newlines",
    "lines",
    "bullet_lines",
    "ellipsis_lines",
    "complete_lines",
    "short_lines",
    "paragraphs",
)
(
    CHARACTERS,
    WORDS,
    SPACED_WORDS,
    SPACED_WORD_CHARACTERS,
    WORD_CHARACTERS,
    ALPHABETIC_WORDS,
    STOP_WORDS,
    HASHES,
    ELLIPSES,
    CURLY_BRACKETS,
    SENTENCES,
    NEWLINES,
    LINES,
    BULLET_LINES,
    ELLIPSIS_LINES,
    COMPLETE_LINES,
    SHORT_LINES,
    PARAGRAPHS,
) = range(len(COUNTS))

#: Columns of what `repetition` finds: counts, and characters of words that repeat.
REPEATS = (
    "duplicate_lines",
    "duplicate_line_characters",
    "duplicate_paragraphs",
    "duplicate_paragraph_characters",
    *(f"top_{n}gram_characters" for n in (2, 3, 4)),
    *(f"duplicate_{n}gram_characters" for n in range(5, 11)),
)

#: Gopher's stop words (Rae et al. 2021, A1.1).
STOP_WORD_LIST = ("the", "be", "to", "of", "and", "that", "have", "with")
#: Lines of at most so many characters are short (FineWeb).
SHORT_LINE = 30

_STOP_CODES = np.array([int.from_bytes(word.encode(), "big") for word in STOP_WORD_LIST], np.int64)
_FNV_BASIS = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_FOLD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_32 = np.uint64(32)
_ELLIPSIS = 0x2026


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as machine code, kept beside this file or in the user's cache where one of them can be written."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)


@compiled
def _mixed(value):
    value ^= value >> _32
    value *= _MIX
    value ^= value >> _32
    value *= _MIX
    return value ^ (value >> _32)


@compiled
def _folded(state, item):
    return _mixed(state * _FOLD + item)


@compiled
def _first_slot(table, key):
    """Where `key` is in an open-addressed table of a power of two of slots, or where it belongs. No key is 0."""
    mask = np.uint64(table.size - 1)
    slot = _mixed(key) & mask
    while table[slot] != 0 and table[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def _later_copies(keys, sizes, table):
    """How many of `keys` were there before, and the sum of their `sizes`."""
    table[:] = 0
    copies = characters = 0
    for i in range(keys.size):
        slot = _first_slot(table, keys[i])
        if table[slot] == keys[i]:
            copies += 1
            characters += sizes[i]
        table[slot] = keys[i]
    return copies, characters


@compiled
def _covered_by_copies(grams, n, sizes, table):
    """Characters of the words in n-grams that were there before, each word once."""
    table[:] = 0
    characters = covered = 0
    for i in range(grams.size):
        slot = _first_slot(table, grams[i])
        if table[slot] == grams[i]:
            for j in range(max(i, covered), i + n):
                characters += sizes[j]
            covered = i + n
        table[slot] = grams[i]
    return characters


@compiled
def _covered_by_top(grams, n, sizes, table, tally):
    """Characters in the most frequent n-gram, each word once; of equally frequent ones the first; 0 if none recurs."""
    table[:] = 0
    tally[:] = 0
    most = 1
    for i in range(grams.size):
        slot = _first_slot(table, grams[i])
        table[slot] = grams[i]
        tally[slot] += 1
        most = max(most, tally[slot])
    if most == 1:
        return 0
    top = np.uint64(0)
    characters = covered = 0
    for i in range(grams.size):
        if top == 0 and tally[_first_slot(table, grams[i])] == most:
            top = grams[i]
        if grams[i] == top:
            for j in range(max(i, covered), i + n):
                characters += sizes[j]
            covered = i + n
    return characters


@compiled
def repetition(words, word_sizes, lines, line_sizes, paragraphs, paragraph_sizes, table, tally, out):
    """Fill `out` (int64, as `REPEATS`) from the hashes (uint64) and sizes in characters of a document's parts."""
    size = 8
    while size < 2 * words.size:
        size *= 2
    table, tally = table[:size], tally[:size]
    out[0], out[1] = _later_copies(lines, line_sizes, table)
    out[2], out[3] = _later_copies(paragraphs, paragraph_sizes, table)
    out[4:] = 0
    grams = words.copy()
    for n in range(2, 11):
        count = words.size - n + 1
        for i in range(count):
            grams[i] = _folded(grams[i], words[i + n - 1]) | np.uint64(1)
        found = 0
        if count > 1 and n < 5:
            found = _covered_by_top(grams[:count], n, word_sizes, table, tally)
        elif count > 1:
            found = _covered_by_copies(grams[:count], n, word_sizes, table)
        if found == 0:
            return  # longer n-grams cannot repeat either
        out[n + 2] = found


@compiled
def scan(data, classes, out, words, word_sizes, lines, line_sizes, paragraphs, paragraph_sizes):
    """Fill `out` (int64, as `COUNTS`), and the hashes and sizes of words, lines and paragraphs, from UTF-8 bytes."""
    out[:] = 0
    end = data.size
    word = _FNV_BASIS  # hash of the word that is being read
    word_size = 0
    word_unspaced = word_alphabetic = False
    letters = letters_state = 0  # its ASCII letters; 0 before them, 1 in them, 2 behind, 3 it is no stop word
    line_word = line_size = line_from = line_to = line_last = 0  # of the line: words before it, ...
    line_bullet = False
    line = paragraph = np.uint64(0)
    paragraph_size = 0
    dots = sentence = 0  # sentence: 1 behind a mark that ends one before a space, 2 behind one that needs none
    stops = 0
    last_byte = 0
    at = 0
    while at <= end:
        code = 0x0A  # the end of the text ends its last line
        width = 1
        if at < end:
            code = np.int64(data[at])
            if code >= 0xF0:
                width, code = 4, code & 0x07
            elif code >= 0xE0:
                width, code = 3, code & 0x0F
            elif code >= 0xC0:
                width, code = 2, code & 0x1F
            for k in range(at + 1, min(at + width, end)):
                code = code << 6 | (data[k] & 0x3F)
            out[CHARACTERS] += 1
        kind = np.int64(classes[code]) if code < CLASSES_SIZE else 0

        joins = word_size > 0 and not kind & SPACE and not kind & UNSPACED
        if joins and word_unspaced and not kind & MARK:
            joins = False
        if word_size > 0 and not joins:
            word = _mixed(word) | np.uint64(1)
            words[out[WORDS]] = word
            word_sizes[out[WORDS]] = word_size
            out[WORDS] += 1
            out[WORD_CHARACTERS] += word_size
            if not word_unspaced:
                out[SPACED_WORDS] += 1
                out[SPACED_WORD_CHARACTERS] += word_size
            out[ALPHABETIC_WORDS] += word_alphabetic
            if 1 <= letters_state <= 2:
                for k in range(_STOP_CODES.size):
                    if letters == _STOP_CODES[k]:
                        stops |= 1 << k
            line = _folded(line, word)
            line_size += word_size
            word = _FNV_BASIS
            word_size = letters = letters_state = 0
            word_unspaced = word_alphabetic = False

        if sentence and not kind & (SENTENCE_END | WIDE_END | CLOSER):
            if kind & SPACE or sentence == 2:
                out[SENTENCES] += 1
            sentence = 0
        if code == 0x2E:
            dots += 1
            if dots == 3:
                out[ELLIPSES] += 1
                dots = 0
        else:
            dots = 0

        if kind & SPACE:
            if code == 0x0A:
                out[NEWLINES] += at < end
                if line_size > 0:
                    lines[out[LINES]] = line | np.uint64(1)
                    line_sizes[out[LINES]] = line_size
                    out[LINES] += 1
                    out[BULLET_LINES] += line_bullet
                    out[SHORT_LINES] += line_to - line_from <= SHORT_LINE
                    dotted = (
                        line_last == 0x2E
                        and last_byte >= 2
                        and data[last_byte - 1] == 0x2E
                        and data[last_byte - 2] == 0x2E
                    )
                    out[ELLIPSIS_LINES] += dotted or line_last == _ELLIPSIS
                    out[COMPLETE_LINES] += line_last < CLASSES_SIZE and classes[line_last] & LINE_END > 0 and not dotted
                    paragraph = _folded(paragraph, line)
                    paragraph_size += line_size
                if paragraph_size > 0 and (line_size == 0 or at == end):
                    paragraphs[out[PARAGRAPHS]] = paragraph | np.uint64(1)
                    paragraph_sizes[out[PARAGRAPHS]] = paragraph_size
                    out[PARAGRAPHS] += 1
                    paragraph = np.uint64(0)
                    paragraph_size = 0
                line = np.uint64(0)
                line_size = 0
                line_word = 0
        else:
            if line_word == 0:
                line_word = 1
                line_from = out[CHARACTERS] - 1
                line_bullet = kind & BULLET > 0
            line_to = out[CHARACTERS]
            line_last = code
            last_byte = at + width - 1
            if word_size == 0:
                word_unspaced = kind & UNSPACED > 0
            word_size += 1
            word_alphabetic |= kind & ALPHABETIC > 0
            for k in range(at, min(at + width, end)):
                word = (word ^ np.uint64(data[k])) * _FNV_PRIME
            if kind & ALPHANUMERIC:
                lower = code | 0x20
                if 0x61 <= lower <= 0x7A and letters_state < 2:
                    letters_state = 1
                    letters = min(letters << 8 | lower, 1 << 40)
                else:
                    letters_state = 3
            elif letters_state == 1:
                letters_state = 2
            if kind & SENTENCE_END:
                sentence = max(sentence, 1)
            elif kind & WIDE_END:
                sentence = 2
            if code == 0x23:
                out[HASHES] += 1
            elif code == 0x7B:
                out[CURLY_BRACKETS] += 1
            elif code == _ELLIPSIS:
                out[ELLIPSES] += 1
        at += width
    for k in range(_STOP_CODES.size):
        out[STOP_WORDS] += stops >> k & 1


@compiled
def measure_documents(data, offsets, classes, counts, repeats):
    """Fill `counts` and `repeats` (int64, one row a document) from the buffer and the offsets of an Arrow string array."""
    longest = 0
    for i in range(offsets.size - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    most = longest // 2 + 2  # no word, line or paragraph has less than two bytes with what parts it from the next
    words = np.empty(most, np.uint64)
    lines = np.empty(most, np.uint64)
    paragraphs = np.empty(most, np.uint64)
    word_sizes = np.empty(most, np.int64)
    line_sizes = np.empty(most, np.int64)
    paragraph_sizes = np.empty(most, np.int64)
    size = 8
    while size < 2 * most:
        size *= 2
    table = np.empty(size, np.uint64)
    tally = np.empty(size, np.int32)
    for i in range(offsets.size - 1):
        count = counts[i]
        text = data[offsets[i] : offsets[i + 1]]
        scan(text, classes, count, words, word_sizes, lines, line_sizes, paragraphs, paragraph_sizes)
        repetition(
            words[: count[WORDS]],
            word_sizes[: count[WORDS]],
            lines[: count[LINES]],
            line_sizes[: count[LINES]],
            paragraphs[: count[PARAGRAPHS]],
            paragraph_sizes[: count[PARAGRAPHS]],
            table,
            tally,
            repeats[i],
        )
