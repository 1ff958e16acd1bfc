"""Writes docs/rules.md from the rules themselves: `python tests/support/rules_doc.py`."""

from __future__ import annotations

import itertools
from pathlib import Path

from corpus.documents.measure import FORMULAS
from corpus.documents.rules import rule_table

PATH = Path(__file__).resolve().parents[2] / "docs" / "rules.md"

HEAD = """\
# Measures and rules

The stage `measure` writes a struct column `measures`; the stage `rules` drops documents by it, in a pass of its own: to
change a threshold repeats no extraction. The first rule that a document fails is the reason of its drop, in the order of
the families in the config and of the rules below. Numbers equal to a threshold pass.

```yaml
stages:
  - measure
  - rules:
      families: [gopher_quality_v1, c4_v1]
      disable: [gopher_quality_v1.hashes_high]
      thresholds: {gopher_quality_v1.word_count_low: 30}
```

A word is a run of characters other than white space; in scripts that are written without spaces (Han, kana, Thai, Lao,
Khmer, Burmese) each letter is one. Two lines are the same if their words are.

"""


def rules_markdown() -> str:
    """The whole file."""
    lines: list[str] = []
    for family, rows in itertools.groupby(rule_table(), key=lambda row: row.rule.split(".")[0]):
        rules = list(rows)
        lines += [f"## {family}", "", f"{rules[0].source}.", "", "| rule | a document fails if |", "|---|---|"]
        lines += [f"| `{row.rule.split('.')[1]}` | `{row.fails_if}` |" for row in rules] + [""]
    lines += ["## Measures", "", "| measure | formula |", "|---|---|"]
    lines += [f"| `{name}` | {formula} |" for name, (_, formula) in FORMULAS.items()]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(rules_markdown())
