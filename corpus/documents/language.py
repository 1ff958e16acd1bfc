"""Language identification, offline: CLD2 (as in MT-NLG's pipeline), or a fastText model such as lid.176."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from corpus.document import DOCUMENT, drop, set_column
from corpus.stage import DocumentStage, StageConfig

#: The code of text of which no language can be said.
UNDETERMINED = "und"

#: A language and the share of the text (CLD2) or the probability (fastText) that speak for it, in [0, 1].
Guess = tuple[str, float]

#: CLD2 refuses these: control characters, surrogates and code points that are no characters.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]|[\U0001fffe-\U0001ffff]")


class LanguageConfig(StageConfig):
    """How a language is found, and which ones stay."""

    method: Literal["cld2", "fasttext"] = Field("cld2", description="cld2 needs no model; fasttext needs `model`")
    model: str | None = Field(None, description="path of a fastText model with __label__xx labels, such as lid.176.ftz")
    keep: list[str] | None = Field(None, description="codes of languages that stay (ISO 639-1, else 639-3); none: all")
    min_score: float = Field(
        0.65, ge=0, le=1, description="least score of a kept language; 0.65 is FineWeb's, CCNet has 0.5"
    )
    max_characters: int = Field(20_000, gt=0, description="only so much of the beginning is looked at")

    @model_validator(mode="after")
    def _model_fits(self) -> LanguageConfig:
        if (self.method == "fasttext") != (self.model is not None):
            raise ValueError("`model` goes with method fasttext, and fasttext needs one")
        return self


class Language(DocumentStage):
    """Writes `language` and `language_score`; drops what is not kept (`not_kept`) or not certain (`low_score`)."""

    name = "language"
    version = 1
    Config: ClassVar[type[StageConfig]] = LanguageConfig

    def reads(self) -> Sequence[str]:
        return [self.config.model] if self.config.model else []

    def open(self) -> None:
        self._guess: Callable[[str], Guess] = (
            cld2 if self.config.method == "cld2" else fasttext_model(self.config.model)
        )

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        limit = self.config.max_characters
        guesses = [self._guess((text or "")[:limit]) for text in batch["text"].to_pylist()]
        scores = np.array([score for _, score in guesses], np.float32)
        batch = set_column(batch, DOCUMENT.field("language"), pa.array([code for code, _ in guesses], pa.string()))
        batch = set_column(batch, DOCUMENT.field("language_score"), pa.array(scores))
        return drop(batch, [self._fate(code, float(score)) for (code, _), score in zip(guesses, scores, strict=True)])

    def _fate(self, code: str, score: float) -> str | None:
        keep = self.config.keep
        if keep is None:
            return None
        if code not in keep:
            return "language:not_kept"
        # Both sides as float32: a score that is stored as the threshold passes it.
        return None if score >= float(np.float32(self.config.min_score)) else "language:low_score"


def cld2(text: str) -> Guess:
    """CLD2's first language, with the share of the text's letters that it has."""
    import pycld2

    text = _REFUSED.sub(" ", text)
    try:
        _, _, details = pycld2.detect(text.encode(), isPlainText=True, bestEffort=True)
    except pycld2.error:
        return UNDETERMINED, 0.0
    _, code, percent, _ = details[0]
    if code == "un":
        return UNDETERMINED, 0.0
    return _CLD2_CODES.get(code, code), percent / 100


#: CLD2's own codes where ISO 639 has another.
_CLD2_CODES = {"iw": "he", "jw": "jv", "zh-Hant": "zh", "mo": "ro"}


def fasttext_model(path: str) -> Callable[[str], Guess]:
    """A function that asks the model at `path`.

    Raises: ValueError if the file cannot be loaded, or its labels are not languages.
    """
    import fasttext

    if not Path(path).is_file():
        raise ValueError(f"language: no fastText model at {path}")
    fasttext.FastText.eprint = lambda *_: None
    try:
        model: Any = fasttext.load_model(path)
    except ValueError as error:
        raise ValueError(f"language: {path} is no fastText model: {error}") from error

    def guess(text: str) -> Guess:
        # One line, since a newline raises; no label of the text's own, since fastText would read it as one.
        line = " ".join(text.replace("__label__", " ").replace("\0", " ").split())
        if not any(map(str.isalpha, line)):
            return UNDETERMINED, 0.0
        labels, scores = model.predict([line])
        if not labels[0]:
            return UNDETERMINED, 0.0
        return labels[0][0].removeprefix("__label__"), min(1.0, float(scores[0][0]))

    return guess
