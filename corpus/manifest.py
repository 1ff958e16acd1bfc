"""`corpus.yaml`: what a finished corpus contains, and the blend that a trainer takes from it.

The blend follows MT-NLG 530B (2022), section 3: a weight is the share of training sequences that a dataset gives.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

FORMAT_VERSION = 1


class ManifestError(Exception):
    """A manifest or blend that cannot be used; the message says which and why."""


class BlendConfig(BaseModel):
    """Weights of the datasets of a corpus."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: dict[str, float] | None = Field(
        None, description="a positive number for each dataset, normalised to 1; none: in proportion to tokens"
    )
    token_budget: int | None = Field(
        None, gt=0, description="training tokens for which epochs are stated; none: one epoch of all tokens"
    )
    max_epochs: float = Field(4.0, gt=0, description="a dataset repeated more often than this is warned about")

    @field_validator("weights")
    @classmethod
    def _positive(cls, weights: dict[str, float] | None) -> dict[str, float] | None:
        for name, weight in (weights or {}).items():
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"weights: {name} has {weight}; a weight is a finite number, zero or more")
        if weights is not None and not sum(weights.values()) > 0:
            raise ValueError("weights: at least one must be above zero")
        return weights


@dataclasses.dataclass(frozen=True)
class Dataset:
    """One pair of token files: `prefix.bin` and `prefix.idx`, the prefix relative to the manifest."""

    name: str
    prefix: str
    documents: int
    tokens: int
    dtype: str
    weight: float
    sha256: Mapping[str, str]  #: By file ending: `bin`, `idx`, `docs.parquet`.


@dataclasses.dataclass(frozen=True)
class Share:
    """What a dataset gives to a training run of a known length."""

    name: str
    weight: float
    tokens: int  #: Tokens of the dataset.
    sampled: float  #: Tokens that the run takes from it.

    @property
    def epochs(self) -> float:
        """How often the run sees the dataset."""
        return self.sampled / self.tokens


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A finished corpus."""

    fingerprint: str  #: Of the tokens: a change of the blend leaves it as it is.
    tokenizer: Mapping[str, Any]
    datasets: Sequence[Dataset]
    steps: Sequence[str]  #: Folders below `stages/` with the documents after each step, in order.
    funnel: Sequence[Mapping[str, Any]]
    config: Mapping[str, Any]

    def dataset(self, name: str) -> Dataset:
        """The dataset called `name`. Raises ManifestError with the names there are."""
        for dataset in self.datasets:
            if dataset.name == name:
                return dataset
        raise ManifestError(f"no dataset is called {name!r}; there are {', '.join(d.name for d in self.datasets)}")

    def shares(self, token_budget: int | None = None) -> list[Share]:
        """What each dataset gives to a run of `token_budget` tokens (None: as many as the corpus has)."""
        budget = token_budget or sum(dataset.tokens for dataset in self.datasets)
        return [
            Share(dataset.name, dataset.weight, dataset.tokens, dataset.weight * budget)
            for dataset in self.datasets
            if dataset.tokens
        ]

    def to_yaml(self) -> str:
        """The manifest as text: the same corpus gives the same bytes."""
        content = {"format_version": FORMAT_VERSION} | dataclasses.asdict(self)
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)


def load(path: str | Path) -> Manifest:
    """Read a manifest.

    Raises: ManifestError if the file is not one, or is of another format version.
    """
    path = Path(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ManifestError(f"{path}: not found; a corpus that is not finished has no manifest") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path}: not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict) or content.get("format_version") != FORMAT_VERSION:
        raise ManifestError(f"{path}: not a manifest of format version {FORMAT_VERSION}")
    try:
        datasets = tuple(Dataset(**entry) for entry in content["datasets"])
        return Manifest(
            fingerprint=content["fingerprint"],
            tokenizer=content["tokenizer"],
            datasets=datasets,
            steps=tuple(content["steps"]),
            funnel=tuple(content["funnel"]),
            config=content["config"],
        )
    except (KeyError, TypeError) as error:
        raise ManifestError(f"{path}: damaged: {error}") from error


def check_weights(names: Collection[str], blend: BlendConfig) -> None:
    """Whether the weights of a blend, if it gives any, are those of datasets with these names.

    Raises: ManifestError if a dataset has no weight, or a weight no dataset.
    """
    if blend.weights is None:
        return
    without = sorted(set(names) - set(blend.weights))
    if without:
        raise ManifestError(f"blend.weights: no weight for {', '.join(without)}; give 0 to leave a dataset out")
    unknown = sorted(set(blend.weights) - set(names))
    if unknown:
        raise ManifestError(
            f"blend.weights: no dataset is called {', '.join(unknown)}; there are {', '.join(sorted(names))}"
        )


def blend_weights(tokens: Mapping[str, int], blend: BlendConfig) -> dict[str, float]:
    """Normalised weights (float64, they sum to 1) of datasets with these numbers of tokens.

    Raises: ManifestError if a dataset has no weight, a weight no dataset, or a positive weight an empty dataset.
    """
    if blend.weights is None:
        given: Mapping[str, float] = {name: float(count) for name, count in tokens.items()}
    else:
        given = blend.weights
        check_weights(tokens, blend)
        empty = sorted(name for name, count in tokens.items() if not count and given[name] > 0)
        if empty:
            raise ManifestError(f"blend.weights: {', '.join(empty)} has a weight but no tokens were kept of it")
    total = math.fsum(given.values())
    if not total:
        raise ManifestError("no tokens at all: every document was dropped; see the funnel")
    return {name: given[name] / total for name in tokens}
