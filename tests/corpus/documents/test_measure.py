"""Measures are what their formulas say: a plain second reading of them, in Python, is the referee."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from corpus.document import DOCUMENT
from corpus.documents.measure import FORMULAS, Measure, measures
from corpus.documents.words import BULLETS, LINE_ENDS, words

STOP_WORDS = ["the", "be", "to", "of", "and", "that", "have", "with"]


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def size(parts: Sequence[str]) -> int:
    return sum(map(len, parts))


def later_copies(items: Sequence[tuple[str, ...]]) -> list[int]:
    seen: set[tuple[str, ...]] = set()
    return [i for i, item in enumerate(items) if item in seen or seen.add(item)]  # type: ignore[func-returns-value]


def ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def covered(tokens: Sequence[str], starts: Sequence[int], n: int) -> int:
    return size([tokens[i] for i in sorted({i for start in starts for i in range(start, start + n)})])


def top(tokens: Sequence[str], n: int) -> int:
    grams = ngrams(tokens, n)
    counts = dict.fromkeys(grams, 0)
    for gram in grams:
        counts[gram] += 1
    if not grams or max(counts.values()) == 1:
        return 0
    best = max(counts, key=lambda gram: counts[gram])
    return covered(tokens, [i for i, gram in enumerate(grams) if gram == best], n)


def stripped_word(word: str) -> str:
    kept = [i for i, c in enumerate(word) if c.isalnum()]
    return word[kept[0] : kept[-1] + 1].lower() if kept else ""


def sentences(text: str) -> int:
    """Marks that end a sentence: before a space, brackets and quotes aside, or wide ones anywhere; a run of them is one."""
    marks, wide, closers = ".!?؟۔।॥։።", "。！？｡", "\"'”’»›)]}」』）】》"
    count = i = 0
    while i < len(text):
        if text[i] not in marks + wide:
            i += 1
            continue
        ends_alone = False
        while i < len(text) and text[i] in marks + wide + closers:
            ends_alone |= text[i] in wide
            i += 1
        count += ends_alone or i == len(text) or text[i].isspace()
    return count


def ellipses(text: str) -> int:
    return text.count("...") + text.count("…")


def plain_measures(text: str) -> dict[str, float | None]:
    tokens = words(text)
    spaced = [word for word in tokens if not unspaced(word)]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    line_words = [tuple(words(line)) for line in lines]
    paragraphs = [tuple(tuple(words(line)) for line in block) for block in paragraph_blocks(text)]
    characters = size(tokens)
    flat = [sum(paragraph, ()) for paragraph in paragraphs]
    paragraph_copies = later_copies(paragraphs)  # type: ignore[arg-type]
    stop_words = {stripped_word(word) for word in tokens} & set(STOP_WORDS)
    return {
        "characters": len(text),
        "words": len(tokens),
        "mean_word_length": size(spaced) / len(spaced) if spaced else None,
        "hashes_per_word": share(text.count("#"), len(tokens)),
        "ellipses_per_word": share(ellipses(text), len(tokens)),
        "bullet_lines": share(sum(line[0] in BULLETS for line in lines), len(lines)),
        "ellipsis_lines": share(sum(line.endswith(("...", "…")) for line in lines), len(lines)),
        "alphabetic_words": share(sum(any(map(str.isalpha, word)) for word in tokens), len(tokens)),
        "stop_words": len(stop_words),
        "duplicate_lines": share(len(later_copies(line_words)), len(lines)),
        "duplicate_line_characters": share(sum(size(line_words[i]) for i in later_copies(line_words)), characters),
        "duplicate_paragraphs": share(len(paragraph_copies), len(paragraphs)),
        "duplicate_paragraph_characters": share(sum(size(flat[i]) for i in paragraph_copies), characters),
        **{f"top_{n}gram_characters": share(top(tokens, n), characters) for n in (2, 3, 4)},
        **{
            f"duplicate_{n}gram_characters": share(covered(tokens, later_copies(ngrams(tokens, n)), n), characters)
            for n in range(5, 11)
        },
        "sentences": sentences(text),
        "curly_brackets": text.count("{"),
        "lorem_ipsum": int("lorem ipsum" in text.lower()),
        "javascript": int("javascript" in text.lower()),
        "complete_lines": share(
            sum(line.endswith(tuple(LINE_ENDS)) and not line.endswith("...") for line in lines), len(lines)
        ),
        "short_lines": share(sum(len(line) <= 30 for line in lines), len(lines)),
        "newlines_per_word": share(text.count("\n"), len(tokens)),
    }


def unspaced(word: str) -> bool:
    name = unicodedata.name(word[0], "")
    return word[0].isalpha() and name.split(" ")[0].split("-")[0] in {
        *("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "HALFWIDTH", "IDEOGRAPHIC"),
    }


def paragraph_blocks(text: str) -> Iterator[list[str]]:
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def assert_as_plain(texts: Sequence[str]) -> None:
    found = {name: values.to_pylist() for name, values in measures(pa.array(texts, pa.string())).items()}
    for i, text in enumerate(texts):
        for name, expected in plain_measures(text).items():
            value = found[name][i]
            if expected is None or value is None:
                assert value is None and expected is None, (name, ascii(text[:200]))
            else:
                assert float(value) == pytest.approx(float(np.float32(expected)), abs=1e-6), (name, ascii(text[:200]))


#: Pieces that measures count, or that only look so.
PIECES = [
    *("the ", "The, ", "(have) ", "them ", "to", "of-", "...", "…", ". ", "? ", '!" ', "3.14 ", "# ", "#tag ", "{x} "),
    *(
        "\n",
        "\n\n",
        " \t\n",
        "- item ",
        "• ",
        "* ",
        "a ",
        "b ",
        "word ",
        "javaScript ",
        "Lorem  ipsum ",
        "lorem ipsum ",
    ),
    *(
        "12 ",
        "é",
        "e\u0301 ",
        "日本",
        "。",
        "！",
        "かな ",
        "ไทย",
        "ที่ ",
        "؟ ",
        "\u3000",
        "\xa0",
        "\x85",
        "😀 ",
        "\x00",
        "’ ",
    ),
]


def test_texts_of_all_kinds_of_pieces() -> None:
    draw = random.Random(1)
    texts = ["", " ", "\n", *("".join(draw.choices(PIECES, k=draw.randint(1, 40))) for _ in range(4000))]
    assert_as_plain(texts)


def test_texts_that_repeat_themselves() -> None:
    draw = random.Random(2)
    vocabulary = ["a ", "bb ", "ccc ", "dddd ", "日", "\n", "\n\n"]
    texts = ["".join(draw.choices(vocabulary[: draw.randint(1, 7)], k=draw.randint(1, 120))) for _ in range(2000)]
    phrase = "one two three four five six seven eight nine ten eleven twelve "
    assert_as_plain([*texts, phrase * 9, phrase * 2, phrase + "and " + phrase[4:], "x " * 30])


def test_real_texts_of_many_languages(shared_data: Callable[[str], Path]) -> None:
    files = sorted((shared_data("multilingual") / "sentences").glob("*.txt"))
    assert len(files) > 10
    assert_as_plain([path.read_text()[:20_000] for path in files])


def test_the_hashes_of_long_texts_do_not_meet() -> None:
    """200,000 different words, then the same again."""
    numbers = [str(i * 7919) for i in range(200_000)]
    found = measures(pa.array([" ".join(numbers), " ".join(numbers + numbers)]))
    assert found["duplicate_5gram_characters"].to_pylist() == [0, pytest.approx(0.5)]
    assert found["duplicate_10gram_characters"].to_pylist() == [0, pytest.approx(0.5)]
    assert found["top_2gram_characters"].to_pylist()[0] == 0


def test_a_slice_of_an_array_is_measured_as_its_own_texts() -> None:
    texts = pa.array(["first one", None, "the second text, and more.", "日本語", "", "last"])
    for start, stop in [(0, 6), (1, 3), (2, 6), (5, 6), (3, 3)]:
        whole = {name: values.to_pylist()[start:stop] for name, values in measures(texts).items()}
        part = {name: values.to_pylist() for name, values in measures(texts[start:stop]).items()}
        assert part == whole


def test_the_stage_writes_every_measure_once_and_knows_the_language() -> None:
    rows = [
        {"id": "a", "source": "s", "text": "Some words here.", "language": "en"},
        {"id": "b", "source": "s", "text": "Quelques mots.", "language": "fr"},
        {"id": "c", "source": "s", "text": None, "language": None},
    ]
    batch = Measure().process(pa.RecordBatch.from_pylist(rows, DOCUMENT))
    found = batch["measures"].to_pylist()
    assert [list(row) for row in found] == [list(FORMULAS)] * 3
    assert [row["non_english"] for row in found] == [0, 1, None]
    assert [row["words"] for row in found] == [3, 2, 0]
