"""The published rule families, deciding on the column `measures` alone.

Each rule states which measure it looks at and when a document fails; the measures' formulas are in `corpus.documents.measure`.
A document is dropped for the first rule that it fails, in the order declared: `rules:gopher_quality_v1.word_count_low`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from corpus.document import drop
from corpus.documents.measure import FORMULAS, MEASURES
from corpus.stage import DocumentStage, StageConfig

_FAILS = {"<": pc.less, ">": pc.greater}


@dataclass(frozen=True, slots=True)
class Rule:
    """A document fails if `measure` is `fails` than `threshold`, and `only_if`, when there is one, is 1."""

    name: str
    measure: str
    fails: Literal["<", ">"]
    threshold: float
    only_if: str | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """Rules that were published together; a change of any makes a new version, with a name of its own."""

    source: str
    rules: tuple[Rule, ...]


FAMILIES: dict[str, Family] = {
    "gopher_quality_v1": Family(
        "Rae et al. 2021 (Gopher), A1.1, quality filtering; made for English",
        (
            Rule("word_count_low", "words", "<", 50),
            Rule("word_count_high", "words", ">", 100_000),
            Rule("mean_word_length_low", "mean_word_length", "<", 3),
            Rule("mean_word_length_high", "mean_word_length", ">", 10),
            Rule("hashes_high", "hashes_per_word", ">", 0.1),
            Rule("ellipses_high", "ellipses_per_word", ">", 0.1),
            Rule("bullet_lines_high", "bullet_lines", ">", 0.9),
            Rule("ellipsis_lines_high", "ellipsis_lines", ">", 0.3),
            Rule("alphabetic_words_low", "alphabetic_words", "<", 0.8),
            Rule("stop_words_low", "stop_words", "<", 2),
        ),
    ),
    "gopher_repetition_v1": Family(
        "Rae et al. 2021 (Gopher), A1.1, repetition removal",
        (
            Rule("duplicate_lines_high", "duplicate_lines", ">", 0.30),
            Rule("duplicate_paragraphs_high", "duplicate_paragraphs", ">", 0.30),
            Rule("duplicate_line_characters_high", "duplicate_line_characters", ">", 0.20),
            Rule("duplicate_paragraph_characters_high", "duplicate_paragraph_characters", ">", 0.20),
            *(
                Rule(f"top_{n}gram_high", f"top_{n}gram_characters", ">", threshold)
                for n, threshold in ((2, 0.20), (3, 0.18), (4, 0.16))
            ),
            *(
                Rule(f"duplicate_{n}gram_high", f"duplicate_{n}gram_characters", ">", threshold)
                for n, threshold in ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))
            ),
        ),
    ),
    "c4_v1": Family(
        "Raffel et al. 2020 (C4), 2.2, rules on pages; those on lines are the stage c4_lines, which goes before `measure`",
        (
            Rule("lorem_ipsum", "lorem_ipsum", ">", 0),
            Rule("curly_bracket", "curly_brackets", ">", 0),
            Rule("sentences_low", "sentences", "<", 5),
        ),
    ),
    "fineweb_v1": Family(
        "Penedo et al. 2024 (FineWeb), 3.6, custom filters",
        (
            Rule("complete_lines_low", "complete_lines", "<", 0.12),
            Rule("short_lines_high", "short_lines", ">", 0.67),
            Rule("duplicate_line_characters_high", "duplicate_line_characters", ">", 0.01),
            Rule("newlines_per_word_high", "newlines_per_word", ">", 0.3),
        ),
    ),
    "mtnlg_v1": Family(
        "Smith et al. 2022 (MT-NLG), as in the cleaning script of Megatron-LM's tools/openwebtext; the second needs the "
        "stage `language` before `measure`",
        (
            Rule("javascript_short", "characters", "<", 256, only_if="javascript"),
            Rule("non_english_short", "characters", "<", 512, only_if="non_english"),
        ),
    ),
}


class RulesConfig(StageConfig):
    """Which rules decide, and with which thresholds. A rule is named `family.rule`."""

    families: list[str] = Field(
        min_length=1, description=f"in the order in which they decide; of {', '.join(FAMILIES)}"
    )
    disable: list[str] = Field([], description="rules of these families that are off")
    thresholds: dict[str, float] = Field({}, description="thresholds in place of the published ones")

    @field_validator("families")
    @classmethod
    def _families_exist(cls, families: list[str]) -> list[str]:
        for family in families:
            _require(family, FAMILIES, "family")
        if len(set(families)) < len(families):
            raise ValueError("a family is listed twice")
        return families

    @model_validator(mode="after")
    def _rules_exist(self) -> RulesConfig:
        known = [f"{family}.{rule.name}" for family in self.families for rule in FAMILIES[family].rules]
        for name in [*self.disable, *self.thresholds]:
            _require(name, known, "rule of the chosen families")
        for name in self.disable:
            if name in self.thresholds:
                raise ValueError(f"{name} has a threshold and is disabled; remove one of the two")
        return self


def _require(name: str, known: Iterable[str], what: str) -> None:
    if name in known:
        return
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(known)}"
    raise ValueError(f"no {what} is called {name!r}; {hint}")


class Rules(DocumentStage):
    """Drops the documents that fail a rule, by what the stage `measure` wrote."""

    name = "rules"
    version = 1
    Config: ClassVar[type[StageConfig]] = RulesConfig
    starts_pass = True
    needs = (MEASURES.name,)

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        measures = _measures(batch)
        reasons = np.full(batch.num_rows, None, object)
        passed = np.ones(batch.num_rows, bool)
        for family, rule in self._rules():
            failed = _failed(rule, self.config.thresholds.get(f"{family}.{rule.name}", rule.threshold), measures)
            reasons[failed & passed] = f"rules:{family}.{rule.name}"
            passed &= ~failed
        return drop(batch, pa.array(reasons, pa.string()))

    def _rules(self) -> list[tuple[str, Rule]]:
        chosen = [(family, rule) for family in self.config.families for rule in FAMILIES[family].rules]
        return [(family, rule) for family, rule in chosen if f"{family}.{rule.name}" not in self.config.disable]


def _measures(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    column = batch[MEASURES.name]
    if column.null_count:
        missing = batch["id"][pc.index(column.is_null(), True).as_py()]
        raise ValueError(f"document {missing} has no measures: let `measure` work on all sources that `rules` works on")
    return {field.name: pc.struct_field(column, field.name) for field in column.type}


def _failed(rule: Rule, threshold: float, measures: dict[str, pa.Array]) -> np.ndarray:
    """Which documents fail: bool, one each. Nobody fails by a measure that is null."""
    values = measures[rule.measure]
    # As float32 on both sides if the measure is one: 3 of 10 is then exactly a threshold of 0.3.
    exact = np.float32(threshold) if values.type == pa.float32() else threshold
    failed = pc.fill_null(_FAILS[rule.fails](values, pa.scalar(exact)), False)
    if rule.only_if is not None:
        failed = pc.and_(failed, pc.fill_null(pc.equal(measures[rule.only_if], 1), False))
    return failed.to_numpy(zero_copy_only=False)


class RuleRow(NamedTuple):
    """A rule in words, for help and documentation."""

    rule: str
    fails_if: str
    formula: str
    published: float
    source: str


def rule_table() -> list[RuleRow]:
    """Every rule there is, with the formula of its measure and its published threshold."""
    rows = []
    for name, family in FAMILIES.items():
        for rule in family.rules:
            condition = f"{rule.measure} {rule.fails} {rule.threshold:g}" + (
                f" and {rule.only_if}" if rule.only_if else ""
            )
            formula = FORMULAS[rule.measure][1]
            rows.append(RuleRow(f"{name}.{rule.name}", condition, formula, rule.threshold, family.source))
    return rows
