"""Every measure that the published rules need, computed once a document and written as one column, `measures`.

Deciding is another stage's business (`rules`): a threshold can then be changed without reading a text again. The same name
means different things in the known tools, so each measure states its formula here. In all of them:

- a word is as in `corpus.documents.words`, its length is in characters, and characters of words leave out white space;
- a line is what stands between line feeds, without white space at its ends; blank lines do not count;
- a paragraph is a run of lines without a blank one between them;
- a line is a duplicate if the words of an earlier one are the same, a paragraph if the lines of an earlier one are:
  the first is none;
- a share of nothing is 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpus.document import set_column
from corpus.documents.words import character_classes
from corpus.stage import DocumentStage

#: Name of each measure: its type, and its formula.
FORMULAS: dict[str, tuple[Literal["int32", "float32"], str]] = {
    "characters": ("int32", "code points of the text"),
    "words": ("int32", "words"),
    "mean_word_length": (
        "float32",
        "characters of words / words, of words in scripts that part them by spaces; null without any",
    ),
    "hashes_per_word": ("float32", "number of '#' / words"),
    "ellipses_per_word": ("float32", "number of '...' and '…' / words"),
    "bullet_lines": ("float32", "lines that begin with one of • ‣ ◦ ▪ ● ■ - * / lines"),
    "ellipsis_lines": ("float32", "lines that end in '...' or '…' / lines"),
    "alphabetic_words": ("float32", "words with at least one alphabetic character / words"),
    "stop_words": (
        "int32",
        "how many of the, be, to, of, and, that, have, with occur, in either case, punctuation around them aside",
    ),
    "duplicate_lines": ("float32", "duplicate lines / lines"),
    "duplicate_line_characters": ("float32", "characters of words in duplicate lines / characters of words"),
    "duplicate_paragraphs": ("float32", "duplicate paragraphs / paragraphs"),
    "duplicate_paragraph_characters": ("float32", "characters of words in duplicate paragraphs / characters of words"),
    **{
        f"top_{n}gram_characters": (
            "float32",
            f"characters of words in occurrences of the most frequent word {n}-gram, each once / characters of words; "
            "the first of equally frequent ones; 0 if none occurs twice",
        )
        for n in (2, 3, 4)
    },
    **{
        f"duplicate_{n}gram_characters": (
            "float32",
            f"characters of words in word {n}-grams that occurred before, each once / characters of words",
        )
        for n in range(5, 11)
    },
    "sentences": (
        "int32",
        "marks . ! ? and the like that white space follows, brackets and quotes aside; 。！？ need none",
    ),
    "curly_brackets": ("int32", "number of '{'"),
    "lorem_ipsum": ("int32", "1 if the text contains 'lorem ipsum' in either case, else 0"),
    "javascript": ("int32", "1 if the text contains 'javascript' in either case, else 0"),
    "complete_lines": (
        "float32",
        "lines that end in terminal punctuation (. ! ? or a quote, and those of other scripts), but not in '...' / lines",
    ),
    "short_lines": ("float32", "lines of at most 30 characters / lines"),
    "newlines_per_word": ("float32", "line feeds / words"),
    "non_english": ("int32", "1 if `language` is another than en, 0 if it is en, null if it is not known"),
}

MEASURES = pa.field(
    "measures", pa.struct([pa.field(name, pa.type_for_alias(kind)) for name, (kind, _) in FORMULAS.items()])
)


class Measure(DocumentStage):
    """Writes the struct column `measures`, its fields and formulas in `FORMULAS`. Language, if wanted, goes before."""

    name = "measure"
    version = 1
    adds = (MEASURES,)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = measures(batch["text"]) | {"non_english": pc.not_equal(batch["language"], "en")}
        fields = list(MEASURES.type)
        arrays = [columns[field.name].cast(field.type) for field in fields]
        return set_column(batch, MEASURES, pa.StructArray.from_arrays(arrays, fields=fields))


def measures(texts: pa.StringArray) -> dict[str, pa.Array]:
    """All measures of `texts` but `non_english`, which is not in the text; one value a text, a null text being empty."""
    counts, repeats = _counted(pc.fill_null(texts, ""))
    words, lines, characters = counts["words"], counts["lines"], counts["word_characters"]
    shares = {
        "hashes_per_word": _share(counts["hashes"], words),
        "ellipses_per_word": _share(counts["ellipses"], words),
        "alphabetic_words": _share(counts["alphabetic_words"], words),
        "newlines_per_word": _share(counts["newlines"], words),
        "duplicate_lines": _share(repeats["duplicate_lines"], lines),
        "duplicate_paragraphs": _share(repeats["duplicate_paragraphs"], counts["paragraphs"]),
    }
    shares |= {name: _share(counts[name], lines) for name in counts if name.endswith("_lines")}
    shares |= {name: _share(repeats[name], characters) for name in repeats if name.endswith("_characters")}
    spaced = counts["spaced_words"]
    mean_length = pa.array(_share(counts["spaced_word_characters"], spaced), mask=spaced == 0)
    whole = ("characters", "words", "stop_words", "sentences", "curly_brackets")
    return {
        **{name: pa.array(values) for name, values in shares.items()},
        **{name: pa.array(counts[name]) for name in whole},
        "mean_word_length": mean_length,
        "lorem_ipsum": _contains(texts, "lorem ipsum"),
        "javascript": _contains(texts, "javascript"),
    }


def _counted(texts: pa.StringArray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    from corpus.documents import kernels

    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    counts = np.empty((len(texts), len(kernels.COUNTS)), np.int64)
    repeats = np.empty((len(texts), len(kernels.REPEATS)), np.int64)
    kernels.measure_documents(content, bounds, character_classes(), counts, repeats)
    return dict(zip(kernels.COUNTS, counts.T, strict=True)), dict(zip(kernels.REPEATS, repeats.T, strict=True))


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0).astype(np.float32)


def _contains(texts: pa.StringArray, phrase: str) -> pa.BooleanArray:
    return pc.fill_null(pc.match_substring(texts, phrase, ignore_case=True), False)
