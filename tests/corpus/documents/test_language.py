"""Languages are found offline, hostile text raises nothing, and thresholds decide as they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from corpus.document import DOCUMENT
from corpus.documents.language import UNDETERMINED, Language, LanguageConfig, cld2, fasttext_model

ENGLISH = "The committee met on Tuesday to discuss the budget, and it decided that nothing would be changed this year. "
GERMAN = "Der Ausschuss traf sich am Dienstag, um über den Haushalt zu sprechen, und beschloss, nichts zu verändern. "


def process(config: LanguageConfig, *texts: str | None) -> list[dict[str, object]]:
    rows = [{"id": str(i), "source": "s", "text": text} for i, text in enumerate(texts)]
    stage = Language(config)
    stage.open()
    return stage.process(pa.RecordBatch.from_pylist(rows, DOCUMENT)).to_pylist()


@pytest.mark.parametrize(
    ("codes", "floor"), [("zh", 0.9), ("ja", 0.97), ("en de fr fi cs nl pt tr vi", 0.75), ("ar he el ko ru uk", 0.85)]
)
def test_single_sentences_are_told_apart(codes: str, floor: float, shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("multilingual") / "sentences"
    for code in codes.split():
        lines = [line for line in (folder / f"{code}.txt").read_text().splitlines() if line.strip()]
        right = sum(cld2(line)[0] == code for line in lines)
        assert right / len(lines) >= floor, (code, right, len(lines))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("th", "ฝนตกหนักตั้งแต่เช้าเมื่อวานนี้เราจึงอยู่บ้านและอ่านหนังสือด้วยกันทั้งวัน"),
        ("zh", "昨天早上开始下大雨所以我们整天待在家里一起看书"),
        ("ja", "昨日は朝から大雨だったので一日中家で一緒に本を読んでいました"),
    ],
)
def test_scripts_without_spaces_are_told_apart(code: str, text: str) -> None:
    assert cld2(text)[0] == code


@pytest.mark.parametrize("text", ["", "  \n", "12 34 !?", "\x00\x01", "\ufffe", "__label__en", "😀", None])
def test_text_of_no_language_is_undetermined(text: str | None) -> None:
    [row] = process(LanguageConfig(), text)
    assert (row["language"], row["language_score"], row["dropped"]) == (
        UNDETERMINED,
        0.0,
        None,
    ) or text == "__label__en"


def test_hostile_strings_raise_nothing(shared_data: Callable[[str], Path]) -> None:
    lines = (shared_data("encodings") / "blns.txt").read_text().split("\n")
    rows = process(LanguageConfig(), *lines, "\n".join(lines))
    assert all(0 <= float(str(row["language_score"])) <= 1 for row in rows)


def test_control_characters_do_not_hide_a_language() -> None:
    assert cld2("\x00\x07" + ENGLISH + "\x9f\ufdd0")[0] == "en"


@pytest.mark.parametrize("opening", ["a < b ", "<", "if (a<b) &amp; "])
def test_an_angle_bracket_is_text_and_no_tag_that_hides_the_rest(opening: str) -> None:
    assert cld2(opening + GERMAN)[0] == "de"


def test_languages_outside_the_list_and_uncertain_ones_are_dropped() -> None:
    rows = process(
        LanguageConfig(keep=["en"], min_score=0.9), ENGLISH, GERMAN, ENGLISH + GERMAN * 2, "", ENGLISH * 2 + GERMAN
    )
    assert [row["dropped"] for row in rows] == [
        None,
        "language:not_kept",
        "language:not_kept",
        "language:not_kept",
        "language:low_score",
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small fastText model of two languages, trained here."""
    import fasttext

    folder = tmp_path_factory.mktemp("lid")
    lines = [f"__label__en {ENGLISH}"] * 50 + [f"__label__de {GERMAN}"] * 50
    (folder / "train.txt").write_text("\n".join(lines))
    trained = fasttext.train_supervised(str(folder / "train.txt"), minn=2, maxn=4, dim=8, epoch=20, thread=1, verbose=0)
    trained.save_model(str(folder / "lid.bin"))
    return str(folder / "lid.bin")


def test_a_fasttext_model_takes_text_with_newlines_and_labels(model: str) -> None:
    rows = process(
        LanguageConfig(method="fasttext", model=model), ENGLISH.replace(" ", "\n"), "__label__en " + GERMAN, "", "??"
    )
    assert [row["language"] for row in rows] == ["en", "de", UNDETERMINED, UNDETERMINED]


def test_a_missing_or_damaged_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no fastText model at .*lid\.bin"):
        fasttext_model(str(tmp_path / "lid.bin"))
    (tmp_path / "lid.bin").write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"lid\.bin is no fastText model"):
        fasttext_model(str(tmp_path / "lid.bin"))


@pytest.mark.parametrize("values", [{"method": "fasttext"}, {"model": "x.bin"}])
def test_method_and_model_must_fit(values: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="fasttext needs one"):
        LanguageConfig.model_validate(values)


def test_the_model_is_part_of_what_the_stage_reads(model: str) -> None:
    assert Language(LanguageConfig(method="fasttext", model=model)).reads() == [model]
