"""Rules decide by the measures alone, with the published thresholds, each on its own switch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from corpus.config import CorpusConfig
from corpus.document import DOCUMENT
from corpus.documents.language import cld2
from corpus.documents.measure import FORMULAS, MEASURES, Measure
from corpus.documents.rules import FAMILIES, Rules, RulesConfig, rule_table

ALL = list(FAMILIES)

#: A document that passes every rule.
SOUND = dict.fromkeys(FORMULAS, 0) | {
    "characters": 600, "words": 100, "mean_word_length": 5, "alphabetic_words": 1, "stop_words": 5, "sentences": 9,
    "complete_lines": 1,
}  # fmt: skip

#: Gopher's, C4's, FineWeb's and MT-NLG's thresholds as the papers print them.
PUBLISHED = {
    "gopher_quality_v1.word_count_low": 50,
    "gopher_quality_v1.word_count_high": 100_000,
    "gopher_quality_v1.mean_word_length_low": 3,
    "gopher_quality_v1.mean_word_length_high": 10,
    "gopher_quality_v1.hashes_high": 0.1,
    "gopher_quality_v1.ellipses_high": 0.1,
    "gopher_quality_v1.bullet_lines_high": 0.9,
    "gopher_quality_v1.ellipsis_lines_high": 0.3,
    "gopher_quality_v1.alphabetic_words_low": 0.8,
    "gopher_quality_v1.stop_words_low": 2,
    "gopher_repetition_v1.duplicate_lines_high": 0.30,
    "gopher_repetition_v1.duplicate_paragraphs_high": 0.30,
    "gopher_repetition_v1.duplicate_line_characters_high": 0.20,
    "gopher_repetition_v1.duplicate_paragraph_characters_high": 0.20,
    "gopher_repetition_v1.top_2gram_high": 0.20,
    "gopher_repetition_v1.top_3gram_high": 0.18,
    "gopher_repetition_v1.top_4gram_high": 0.16,
    "gopher_repetition_v1.duplicate_5gram_high": 0.15,
    "gopher_repetition_v1.duplicate_6gram_high": 0.14,
    "gopher_repetition_v1.duplicate_7gram_high": 0.13,
    "gopher_repetition_v1.duplicate_8gram_high": 0.12,
    "gopher_repetition_v1.duplicate_9gram_high": 0.11,
    "gopher_repetition_v1.duplicate_10gram_high": 0.10,
    "c4_v1.lorem_ipsum": 0,
    "c4_v1.curly_bracket": 0,
    "c4_v1.sentences_low": 5,
    "fineweb_v1.complete_lines_low": 0.12,
    "fineweb_v1.short_lines_high": 0.67,
    "fineweb_v1.duplicate_line_characters_high": 0.01,
    "fineweb_v1.newlines_per_word_high": 0.3,
    "mtnlg_v1.javascript_short": 256,
    "mtnlg_v1.non_english_short": 512,
}


def decide(config: RulesConfig, *measured: dict[str, object]) -> list[str | None]:
    rows = [{"id": str(i), "source": "s", "text": "x"} for i in range(len(measured))]
    batch = pa.RecordBatch.from_pylist(rows, DOCUMENT)
    batch = batch.append_column(MEASURES, pa.array(measured, MEASURES.type))
    return Rules(config).process(batch)["dropped"].to_pylist()  # type: ignore[no-any-return]


def test_the_thresholds_are_the_published_ones() -> None:
    assert {row.rule: row.published for row in rule_table()} == PUBLISHED
    assert all(row.formula and row.source for row in rule_table())


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_rule_lets_its_threshold_pass_and_nothing_beyond_it(name: str) -> None:
    family, rule_name = name.split(".")
    [rule] = [rule for rule in FAMILIES[family].rules if rule.name == rule_name]
    at = SOUND | {rule.measure: rule.threshold} | ({rule.only_if: 1} if rule.only_if else {})
    kind = MEASURES.type.field(rule.measure).type
    step = 1 if kind == pa.int32() else 1e-4
    beyond = at | {rule.measure: rule.threshold + (step if rule.fails == ">" else -step)}
    config = RulesConfig(families=[family])
    assert decide(config, SOUND, at, beyond) == [None, None, f"rules:{name}"]
    assert decide(config.model_copy(update={"disable": [name]}), beyond) == [None]
    assert decide(config.model_copy(update={"thresholds": {name: beyond[rule.measure]}}), beyond) == [None]
    assert decide(RulesConfig(families=[other for other in ALL if other != family]), SOUND) == [None]


def test_a_conditional_rule_needs_its_condition() -> None:
    config = RulesConfig(families=["mtnlg_v1"])
    short = SOUND | {"characters": 10}
    assert decide(config, short, short | {"javascript": 1}, short | {"non_english": None}) == [
        None,
        "rules:mtnlg_v1.javascript_short",
        None,
    ]


def test_the_first_rule_in_the_declared_order_is_the_reason() -> None:
    bad = SOUND | {"words": 10, "short_lines": 0.9}
    assert decide(RulesConfig(families=["gopher_quality_v1", "fineweb_v1"]), bad) == [
        "rules:gopher_quality_v1.word_count_low"
    ]
    assert decide(RulesConfig(families=["fineweb_v1", "gopher_quality_v1"]), bad) == [
        "rules:fineweb_v1.short_lines_high"
    ]


def test_a_measure_that_does_not_exist_fails_nobody() -> None:
    assert decide(RulesConfig(families=["gopher_quality_v1"]), SOUND | {"mean_word_length": None}) == [None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"families": ["gopher_quality"]}, "did you mean 'gopher_quality_v1'"),
        ({"families": []}, "at least 1 item"),
        ({"families": ["c4_v1", "c4_v1"]}, "listed twice"),
        ({"families": ["c4_v1"], "disable": ["c4_v1.sentence_low"]}, "did you mean 'c4_v1.sentences_low'"),
        ({"families": ["c4_v1"], "thresholds": {"fineweb_v1.short_lines_high": 1}}, "no rule of the chosen families"),
        ({"families": ["c4_v1"], "disable": ["c4_v1.lorem_ipsum"], "thresholds": {"c4_v1.lorem_ipsum": 1}}, "disabled"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest_right_one(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RulesConfig.model_validate(values)


def test_rules_without_measures_before_them_are_refused_with_the_config() -> None:
    values = {
        "workspace": "w",
        "sources": [{"name": "s", "paths": ["x.jsonl"]}],
        "tokenizer": {"kind": "bytelevel-bpe", "vocab_size": 300},
    }
    rules = {"rules": {"families": ["c4_v1"]}}
    CorpusConfig.model_validate(values | {"stages": ["measure", rules]})
    with pytest.raises(ValidationError, match="rules needs the column 'measures'"):
        CorpusConfig.model_validate(values | {"stages": [rules, "measure"]})


def test_prose_passes_and_what_the_rules_were_made_against_does_not(shared_data: Callable[[str], Path]) -> None:
    """English gold articles of real pages against a list of links, a keyword heap, a placeholder and a page that repeats."""
    gold = json.loads((shared_data("html-gold") / "article-extraction-benchmark" / "ground-truth.json").read_text())
    articles = [entry["articleBody"] for entry in gold.values()]
    articles = [text for text in articles if len(text.split()) > 150 and cld2(text)[0] == "en"]
    links = "\n".join(f"- Hyperlink {i}" for i in range(80))
    heap = "buy cheap phones online shop best price deal " * 30
    placeholder = "Lorem ipsum dolor sit amet. " + "The members of that committee have spoken with the visitor. " * 40
    texts = [*articles, links, heap, placeholder]
    rows = [{"id": str(i), "source": "s", "text": text, "language": "en"} for i, text in enumerate(texts)]
    batch = Measure().process(pa.RecordBatch.from_pylist(rows, DOCUMENT))
    config = RulesConfig(families=["gopher_quality_v1", "gopher_repetition_v1", "c4_v1"])
    reasons = Rules(config).process(batch)["dropped"].to_pylist()
    assert np.mean([reason is None for reason in reasons[:-3]]) > 0.95
    assert reasons[-3:] == [
        "rules:gopher_quality_v1.bullet_lines_high",
        "rules:gopher_quality_v1.stop_words_low",
        "rules:gopher_repetition_v1.top_3gram_high",
    ]
