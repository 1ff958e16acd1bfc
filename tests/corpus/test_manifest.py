"""The manifest round-trips, and blends are normalised or refused by name."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from corpus.manifest import BlendConfig, Dataset, Manifest, ManifestError, blend_weights, load

ROOT = Path(__file__).resolve().parents[2]


def manifest() -> Manifest:
    datasets = (
        Dataset("web", "datasets/web", 10, 300, "uint16", 0.25, {"bin": "aa"}),
        Dataset("wiki", "datasets/wiki", 5, 100, "uint16", 0.75, {"bin": "bb"}),
    )
    funnel = ({"step": "ingest", "source": "web", "in": 1},)
    return Manifest("abc", {"vocab_size": 10}, datasets, ("00-ingest-abc",), funnel, {"seed": 1})


def test_it_round_trips_and_the_same_corpus_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "corpus.yaml"
    path.write_text(manifest().to_yaml())
    assert load(path) == manifest()
    assert load(path).to_yaml() == manifest().to_yaml()


def test_epochs_follow_from_weights_and_budget() -> None:
    epochs = {share.name: share.epochs for share in manifest().shares(1200)}
    assert epochs == {"web": 1.0, "wiki": 9.0}


@pytest.mark.parametrize("text", ["", "a: [", "format_version: 99", "format_version: 1", "\x00"])
def test_anything_else_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "corpus.yaml"
    path.write_text(text)
    with pytest.raises(ManifestError, match=r"corpus\.yaml"):
        load(path)


def test_a_missing_manifest_says_that_the_corpus_is_not_finished(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="not finished"):
        load(tmp_path / "corpus.yaml")


def test_weights_are_normalised_and_default_to_the_tokens() -> None:
    tokens = {"a": 300, "b": 100}
    assert blend_weights(tokens, BlendConfig()) == {"a": 0.75, "b": 0.25}
    assert blend_weights(tokens, BlendConfig(weights={"a": 1, "b": 3})) == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize(
    ("tokens", "weights", "message"),
    [
        ({"a": 1, "b": 1}, {"a": 1}, "no weight for b"),
        ({"a": 1}, {"a": 1, "c": 1}, "no dataset is called c"),
        ({"a": 1, "b": 0}, {"a": 1, "b": 1}, "b has a weight but no tokens"),
        ({"a": 0}, None, "every document was dropped"),
    ],
)
def test_a_blend_that_does_not_fit_is_refused(
    tokens: dict[str, int], weights: dict[str, float] | None, message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        blend_weights(tokens, BlendConfig(weights=weights))


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(ValidationError, match="finite number, zero or more"):
        BlendConfig(weights={"a": weight, "b": 1.0})


def test_the_shipped_mt_nlg_blend_sums_to_one_over_fifteen_datasets() -> None:
    blend = BlendConfig.model_validate(yaml.safe_load((ROOT / "configs/blend/mt-nlg.yaml").read_text()))
    assert blend.weights is not None
    assert len(blend.weights) == 15
    assert round(math.fsum(blend.weights.values()), 12) == 1.0
