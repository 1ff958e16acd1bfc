"""Real news pages with the text of their article, and how close an extractor comes to it."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

WORDS = 4  # in a gram


class Quality(NamedTuple):
    """Means over pages; `f1` is the harmonic mean of the two means."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / (self.precision + self.recall)


def gold_pages(folder: Path) -> list[tuple[str, bytes]]:
    """(article text, HTML) of each page of scrapinghub's article-extraction-benchmark."""
    truth = json.loads((folder / "ground-truth.json").read_text())
    return [
        (entry["articleBody"], gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes()))
        for name, entry in truth.items()
    ]


def quality(pairs: Iterable[tuple[str, str]]) -> Quality:
    """Precision and recall over word 4-grams of (gold, found), as article-extraction-benchmark computes them."""
    shares = []
    for gold, found in pairs:
        expected, got = _grams(gold), _grams(found)
        common = (expected & got).total()
        shares.append((common / max(1, got.total()), common / max(1, expected.total())))
    return Quality(*(sum(column) / len(shares) for column in zip(*shares, strict=True)))


def _grams(text: str) -> Counter[tuple[str, ...]]:
    words = re.findall(r"\w+", text)
    return Counter(tuple(words[i : i + WORDS]) for i in range(max(1, len(words) - WORDS + 1)))
