"""Tokenizers: exact round trips, an end-of-document token that no text produces, the same model from the same texts."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from pydantic import ValidationError
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import normalizers, pre_tokenizers

import corpus.tokenizer
from corpus.indexed import IndexedDataset, IndexedWriter, dtype_for
from corpus.tokenizer import (
    ByteLevelBPETokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    TokenizerConfig,
    TokenizerError,
    _ByParts,
    _sample,
    _sentences,
    from_bytes,
    load,
    train,
)

SharedData = Callable[[str], Path]
KINDS = ("sentencepiece-unigram", "sentencepiece-bpe", "bytelevel-bpe")
EOD = "<|endoftext|>"

#: Text of which tokenizers have lost a part before.
TRAPS = [
    "",
    " ",
    "  ",
    "\n",
    "\n\n\n",
    "\t",
    "\r\n",
    " leading",
    "trailing ",
    "  both  ",
    "two  spaces   three",
    "line\nline\n\nparagraph\n",
    "a\x00b\x00",
    "\x01\x7f\x1b[0m",
    "\u2581",
    "\u2581\u2581 \u2581a \u2581",
    "a\u2581b",
    "\u2585 \u2047 \ufffd \ufeff \uffff \u0085 \u2028 \u00a0 \u3000",
    "e\u0301 \u00e9 \u212b \ufb01 \u2460 \uff21",  # what NFC and NFKC change
    "日本語 한국어 العربية עברית ελληνικά русский தமிழ் ქართული",
    "👩\u200d👩\u200d👧 🇪🇺 \U0010ffff",
    EOD,
    f"a {EOD} b{EOD}{EOD}",
    "<|endoftext|",
    "<unk> <s> </s> <pad> <0x0A> <0xE2><0x96><0x81>",
    "x" * 5000,
    " " * 5000,
    "\n" * 5000,
    "日" * 2000,
    "0123456789" * 100,
]


def words(seed: int, count: int) -> str:
    """Text of made-up words, the frequent ones short, in lines."""
    random = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    lexicon = ["".join(random.choice(letters, n)) for n in random.integers(1, 9, 800)]
    chosen = np.minimum(random.zipf(1.3, count), 800) - 1
    return "".join(f"{lexicon[i]}{'. ' if i % 11 == 3 else chr(10) if i % 13 == 5 else ' '}" for i in chosen)


TEXTS = [words(seed, 400) for seed in range(60)]


def config_of(kind: str, vocab_size: int = 600) -> TokenizerConfig:
    return TokenizerConfig.model_validate({"kind": kind, "vocab_size": vocab_size})


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return train(TEXTS, config_of(request.param), tmp_path_factory.mktemp("tokenizer") / "model")


@pytest.mark.parametrize("text", TRAPS, ids=[f"{i}-{text[:12]!a}" for i, text in enumerate(TRAPS)])
def test_a_round_trip_is_exact(trained: Tokenizer, text: str) -> None:
    (ids,) = trained.encode([text])
    assert trained.decode(ids) == text
    assert trained.eod not in ids
    assert trained.decode([*ids, trained.eod]) == text


def test_every_character_survives(trained: Tokenizer) -> None:
    characters = [chr(point) for point in [*range(0xD800), *range(0xE000, 0x30000, 7)]]
    texts = ["".join(characters[i : i + 512]) for i in range(0, len(characters), 512)]
    for text, ids in zip(texts, trained.encode(texts), strict=True):
        assert trained.decode(ids) == text


def test_real_text_round_trips_exactly(trained: Tokenizer, shared_data: SharedData) -> None:
    files = [
        shared_data("encodings") / "blns.txt",
        *sorted(shared_data("multilingual").glob("sentences/*.txt")),
        *(shared_data("text") / name for name in ("botchan.txt", "wagahaiwa_nekodearu.txt", "wikitext-2/valid.txt")),
    ]
    for file in files:
        text = file.read_bytes().decode()
        pieces = [*text.split("\n")[:200], text[:40_000]]
        for piece, ids in zip(pieces, trained.encode(pieces), strict=True):
            assert trained.decode(ids) == piece, (file.name, piece[:80])
            assert trained.eod not in ids
    arxiv = (shared_data("text") / "arxiv.jsonl").read_text(encoding="utf-8").splitlines()[:20]
    documents = [json.loads(line)["text"] for line in arxiv]
    assert [trained.decode(ids) for ids in trained.encode(documents)] == documents


def test_ids_do_not_depend_on_the_batch(trained: Tokenizer) -> None:
    together = trained.encode(TRAPS)
    for text, ids in zip(TRAPS, together, strict=True):
        np.testing.assert_array_equal(trained.encode([text])[0], ids)
        assert ids.dtype == np.int32


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_library_for_the_whole_text(kind: str, tmp_path: Path) -> None:
    """What is encoded by parts must not differ: random strings of all kinds of space and of what stands beside it."""
    random = np.random.default_rng(5)
    spaces = list("     \n\n\t\r\v\f\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u180e\u2000\u200b\u2028\u202f\u3000\ufeff")
    others = [*"aetoi'!.0", "\u0301", "é", "日", "'s", "'ll", "\u0660", "²", "👧", TEXTS[0][:9]]
    texts = ["".join(random.choice([*spaces, *others], random.integers(1, 30))) for _ in range(4000)]
    tokenizer = train(texts, config_of(kind, 2300), tmp_path / "model")  # every pair is in its vocabulary
    if kind == "bytelevel-bpe":
        library = HuggingFaceTokenizer.from_file(str(tmp_path / "model"))
        expected = [encoding.ids for encoding in library.encode_batch(texts)]
    else:
        expected = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model")).encode(texts)
    for text, ids, wanted in zip(texts, tokenizer.encode(texts), expected, strict=True):
        assert ids.tolist() == wanted, text


@pytest.mark.parametrize("kind", KINDS[1:])
def test_what_is_remembered_is_bounded_and_changes_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus.tokenizer, "_REMEMBERED_PARTS", 50)
    tokenizer = train(TEXTS, config_of(kind), tmp_path / "model")
    expected = load(tmp_path / "model").encode(TEXTS)
    for text, ids in zip(TEXTS, expected, strict=True):
        np.testing.assert_array_equal(tokenizer.encode([text])[0], ids)
        assert isinstance(tokenizer._encode, _ByParts)
        assert len(tokenizer._encode._known) <= 50 + len(text.split())


def test_training_gives_the_vocabulary_asked_for(trained: Tokenizer) -> None:
    assert trained.vocab_size == 600
    assert max(int(ids.max()) for ids in trained.encode(TEXTS)) < 600
    assert sum(map(len, trained.encode(TEXTS))) < sum(map(len, TEXTS)) * 0.6  # it learnt something


def test_a_saved_tokenizer_is_the_same_one(trained: Tokenizer, tmp_path: Path) -> None:
    trained.save(tmp_path / "copy")
    for copy in (load(tmp_path / "copy"), from_bytes(trained.model), pickle.loads(pickle.dumps(trained))):
        assert type(copy) is type(trained)
        assert (copy.fingerprint, copy.vocab_size, copy.eod) == (trained.fingerprint, trained.vocab_size, trained.eod)
        np.testing.assert_array_equal(copy.encode([TEXTS[0]])[0], trained.encode([TEXTS[0]])[0])
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


class TestBuffer:
    def test_is_the_sequences_with_their_ends(self, trained: Tokenizer) -> None:
        buffer, lengths = trained.encode_to_buffer(TRAPS, np.uint16)
        expected = [[*ids, trained.eod] for ids in trained.encode(TRAPS)]
        assert lengths.dtype == np.int32 and lengths.tolist() == [len(ids) for ids in expected]
        assert np.frombuffer(buffer, np.uint16).tolist() == [i for ids in expected for i in ids]

    def test_has_no_ends_if_none_are_wanted(self, trained: Tokenizer) -> None:
        buffer, lengths = trained.encode_to_buffer(["", "a b", ""], np.int32, append_eod=False)
        assert lengths[[0, 2]].tolist() == [0, 0]
        assert np.frombuffer(buffer, np.int32).tolist() == trained.encode(["a b"])[0].tolist()

    def test_of_nothing_is_empty(self, trained: Tokenizer) -> None:
        buffer, lengths = trained.encode_to_buffer([], np.uint16)
        assert buffer == b"" and lengths.shape == (0,) and lengths.dtype == np.int32

    def test_is_what_the_writer_takes(self, trained: Tokenizer, tmp_path: Path) -> None:
        with IndexedWriter(tmp_path / "data", dtype_for(trained.vocab_size)) as writer:
            for start in range(0, len(TRAPS), 4):
                writer.add_many(*trained.encode_to_buffer(TRAPS[start : start + 4], writer.dtype))
        dataset = IndexedDataset(tmp_path / "data")
        assert [trained.decode(ids[:-1]) for ids in dataset] == TRAPS
        assert {int(ids[-1]) for ids in dataset} == {trained.eod}

    def test_refuses_a_dtype_that_the_vocabulary_exceeds(self, trained: Tokenizer) -> None:
        with pytest.raises(TokenizerError, match="600 does not fit into uint8"):
            trained.encode_to_buffer(["a"], np.uint8)

    @pytest.mark.parametrize(
        ("extra", "fits"), [(65_535 - 50_257, True), (65_536 - 50_257, True), (65_537 - 50_257, False)]
    )
    def test_counts_added_tokens_in_the_vocabulary(self, shared_data: SharedData, extra: int, fits: bool) -> None:
        library = HuggingFaceTokenizer.from_file(str(shared_data("tokenizers") / "gpt2" / "tokenizer.json"))
        library.add_tokens([f"<added-{i}>" for i in range(extra)])
        tokenizer = from_bytes(library.to_str().encode())
        assert tokenizer.vocab_size == 50_257 + extra
        assert dtype_for(tokenizer.vocab_size) == (np.uint16 if fits else np.int32)
        text = f"<added-{extra - 1}>"
        if fits:
            buffer, _ = tokenizer.encode_to_buffer([text], np.uint16)
            assert np.frombuffer(buffer, np.uint16).tolist() == [tokenizer.vocab_size - 1, tokenizer.eod]
        else:
            with pytest.raises(TokenizerError, match="use int32"):
                tokenizer.encode_to_buffer([text], np.uint16)


@pytest.mark.parametrize("bad", ["a\ud800b", None, b"bytes"])
def test_what_is_no_valid_text_is_named_by_its_place(trained: Tokenizer, bad: object) -> None:
    with pytest.raises(TokenizerError, match="text 1 of the batch"):
        trained.encode(["good", bad])  # type: ignore[list-item]


class TestTraining:
    @pytest.mark.parametrize("kind", KINDS)
    def test_gives_the_same_bytes_on_any_number_of_processors(self, kind: str, tmp_path: Path) -> None:
        (tmp_path / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
        program = (
            "import json, os, sys\n"
            "if sys.argv[3] == '1' and hasattr(os, 'sched_setaffinity'):\n"
            "    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
            "from corpus.tokenizer import TokenizerConfig, train\n"
            "config = TokenizerConfig(kind=sys.argv[1], vocab_size=600)\n"
            "train(json.load(open('texts.json', encoding='utf-8')), config, sys.argv[2])\n"
        )
        root = Path(__file__).resolve().parents[2]
        for threads in ("1", "3"):
            environment = {
                **os.environ,
                "PYTHONPATH": str(root),
                "PYTHONHASHSEED": threads,
                "RAYON_NUM_THREADS": threads,
                "TOKENIZERS_PARALLELISM": "true",
            }
            command = [sys.executable, "-c", program, kind, threads, threads]
            subprocess.run(command, cwd=tmp_path, env=environment, check=True)
        assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()

    @pytest.mark.parametrize("kind", KINDS)
    def test_does_not_depend_on_the_order_of_the_texts(self, kind: str, tmp_path: Path) -> None:
        config = TokenizerConfig.model_validate({"kind": kind, "vocab_size": 500, "sample_mb": 0.05})
        forward = train(TEXTS, config, tmp_path / "a")
        backward = train(reversed(TEXTS), config, tmp_path / "b")
        assert forward.fingerprint == backward.fingerprint

    @pytest.mark.parametrize("kind", KINDS)
    def test_names_the_largest_vocabulary_that_the_text_gives(self, kind: str, tmp_path: Path) -> None:
        texts = ["one two three four five six"] * 3
        with pytest.raises(TokenizerError, match=r"use at most \d+") as caught:
            train(texts, config_of(kind, 5000), tmp_path / "model")
        assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())
        largest = int(str(caught.value).split("at most ")[1].split(",")[0])
        assert train(texts, config_of(kind, largest), tmp_path / "model").vocab_size == largest

    @pytest.mark.parametrize("kind", KINDS[:2])
    def test_names_the_smallest_vocabulary_that_holds_the_characters(self, kind: str, tmp_path: Path) -> None:
        texts = ["".join(map(chr, range(0x4E00, 0x4F00)))]
        with pytest.raises(TokenizerError, match=r"use at least \d+"):
            train(texts, config_of(kind, 300), tmp_path / "model")

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("texts", [[], ["", ""]])
    def test_without_text_is_an_error(self, kind: str, texts: list[str], tmp_path: Path) -> None:
        with pytest.raises(TokenizerError, match=r"no text|at most"):
            train(texts, config_of(kind), tmp_path / "model")

    @pytest.mark.parametrize("kind", KINDS)
    def test_learns_from_the_whole_of_a_long_line(self, kind: str, tmp_path: Path) -> None:
        """SentencePiece by itself passes over sentences of more than 4,192 bytes."""
        line = " ".join(TEXTS).replace("\n", " ")
        tokenizer = train([line], config_of(kind), tmp_path / "model")
        assert len(tokenizer.encode([line])[0]) < len(line) * 0.6

    def test_of_a_loaded_tokenizer_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerError, match="nothing to train"):
            train(TEXTS, TokenizerConfig(load="some.model"), tmp_path / "model")

    def test_refuses_text_that_utf8_cannot_hold(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerError, match="lone surrogate"):
            train(["\ud800"], config_of("bytelevel-bpe"), tmp_path / "model")


class TestConfig:
    @pytest.mark.parametrize(
        "values",
        [
            {"vocabulary": 5},
            {"vocab_size": 100},
            {"kind": "wordpiece"},
            {"load": "x.model", "vocab_size": 1000},
            {"eod": "</s>"},
        ],
    )
    def test_contradictions_are_refused(self, values: dict) -> None:
        with pytest.raises(ValidationError):
            TokenizerConfig(**values)


@pytest.mark.parametrize("size", [64, 100, 4096])
def test_training_pieces_are_all_of_the_text_and_within_the_limit(size: int) -> None:
    for text in [*TRAPS, *TEXTS[:5], "日本語 " * 500, "a" * 63 + "é" * 200]:
        pieces = list(_sentences(text, size))
        assert "".join(pieces) == text
        assert max(len(piece.encode()) for piece in pieces) <= size


def test_the_sample_is_as_large_as_asked_and_chosen_by_content() -> None:
    size = 30_000
    sample = _sample(TEXTS, size)
    assert size <= sum(map(len, sample)) < size + max(map(len, TEXTS))
    assert sample == _sample(reversed(TEXTS), size)
    assert set(sample) < set(_sample(TEXTS, 2 * size))
    assert sorted(_sample(TEXTS, 10**9)) == sorted(TEXTS)


class TestLoaded:
    """Published tokenizers: the ids are those of their own library."""

    def texts(self, shared_data: SharedData) -> list[str]:
        lines = (shared_data("encodings") / "blns.txt").read_text(encoding="utf-8").splitlines()
        english = (shared_data("text") / "botchan.txt").read_text(encoding="utf-8")[:20_000]
        return [text for text in [*TRAPS, *lines, english] if EOD not in text]

    def test_gpt2_gives_the_known_ids(self, shared_data: SharedData) -> None:
        tokenizer = load(shared_data("tokenizers") / "gpt2" / "vocab.json")
        assert (tokenizer.vocab_size, tokenizer.eod) == (50_257, 50_256)
        assert tokenizer.encode(["Hello world"])[0].tolist() == [15496, 995]
        assert tokenizer.encode(["Hello, I'm a language model,"])[0].tolist() == [
            15496,
            11,
            314,
            1101,
            257,
            3303,
            2746,
            11,
        ]

    def test_gpt2_is_the_same_from_both_layouts_and_exact(self, shared_data: SharedData) -> None:
        folder = shared_data("tokenizers") / "gpt2"
        library = HuggingFaceTokenizer.from_file(str(folder / "tokenizer.json"))
        texts = self.texts(shared_data)
        pair, single = load(folder / "vocab.json"), load(folder / "tokenizer.json")
        for text, a, b in zip(texts, pair.encode(texts), single.encode(texts), strict=True):
            assert a.tolist() == b.tolist() == library.encode(text).ids
            assert pair.decode(a) == single.decode(b) == text

    @pytest.mark.parametrize("name", ["gpt2/vocab.json", "gpt2/tokenizer.json", "gpt-neox/tokenizer.json"])
    def test_text_cannot_end_the_document(self, shared_data: SharedData, name: str) -> None:
        tokenizer = load(shared_data("tokenizers") / name)
        for ids in tokenizer.encode([EOD, f"a{EOD}b", f" {EOD}\n"]):
            assert tokenizer.eod not in ids
        assert tokenizer.decode(tokenizer.encode([f"a{EOD}b"])[0]) == f"a{EOD}b"

    def test_gpt_neox_gives_the_ids_of_its_library(self, shared_data: SharedData) -> None:
        path = shared_data("tokenizers") / "gpt-neox" / "tokenizer.json"
        library, tokenizer = HuggingFaceTokenizer.from_file(str(path)), load(path)
        texts = [text for text in self.texts(shared_data) if "<|padding|>" not in text]
        assert (tokenizer.vocab_size, tokenizer.eod) == (50_277, 0)
        assert [ids.tolist() for ids in tokenizer.encode(texts)] == [library.encode(text).ids for text in texts]

    def test_megatrons_tiny_vocabulary_reads_its_own_dataset(self, shared_data: SharedData) -> None:
        folder = shared_data("megatron-bin")
        tokenizer = load(folder / "gpt2-tiny-vocab.json")
        dataset = IndexedDataset(folder / "meg-gpt2-openwebtext_text_document")
        assert tokenizer.vocab_size == 5000
        for i in range(0, len(dataset), 50):
            (ids,) = tokenizer.encode([tokenizer.decode(dataset[i])])
            assert [*ids.tolist(), tokenizer.eod] == dataset[i].tolist()

    @pytest.mark.parametrize(
        "name",
        [
            "test_model",
            "test_ja_model",
            "test_sentencepiece_bpe",
            "test_sentencepiece_with_bytefallback",
            "llama2-tokenizer",
        ],
    )
    def test_sentencepiece_models_give_the_ids_of_their_library(self, shared_data: SharedData, name: str) -> None:
        path = shared_data("tokenizers") / "sentencepiece" / f"{name}.model"
        library = sentencepiece.SentencePieceProcessor(model_file=str(path))
        tokenizer = load(path)
        texts = [*self.texts(shared_data), "</s>", "<s>"]
        assert tokenizer.eod == library.eos_id() and tokenizer.vocab_size == library.vocab_size()
        for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
            assert ids.tolist() == library.encode(text), text
            assert tokenizer.eod not in ids

    def test_truncation_and_padding_of_the_file_do_not_apply(self, shared_data: SharedData) -> None:
        library = HuggingFaceTokenizer.from_file(str(shared_data("tokenizers") / "gpt2" / "tokenizer.json"))
        library.enable_truncation(4)
        library.enable_padding(length=8)
        tokenizer = from_bytes(library.to_str().encode())
        assert [len(ids) for ids in tokenizer.encode(["a", "xqzjkvbwxqzjkvbw"])] == [1, 15]

    @pytest.mark.parametrize("change", ["added token", "normalizer", "prefix space", "split"])
    def test_a_tokenizer_unlike_gpt2_gives_the_ids_of_its_library(self, shared_data: SharedData, change: str) -> None:
        library = HuggingFaceTokenizer.from_file(str(shared_data("tokenizers") / "gpt2" / "tokenizer.json"))
        if change == "added token":
            library.add_tokens(["two words", "  "])
        elif change == "normalizer":
            library.normalizer = normalizers.Replace("o w", "x")
        elif change == "prefix space":
            library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        else:
            library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        texts = ["two words  of two words", "a \n\n b", "a\nb"]
        expected = [library.encode(text).ids for text in texts]
        assert [ids.tolist() for ids in from_bytes(library.to_str().encode()).encode(texts)] == expected

    def test_a_symbol_that_text_can_spell_does_not_end_documents(self, tmp_path: Path) -> None:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXTS),
            model_prefix=str(tmp_path / "m"),
            vocab_size=200,
            user_defined_symbols=[EOD],
            minloglevel=2,
        )
        tokenizer = load(tmp_path / "m.model")
        assert (
            tokenizer.decode([*tokenizer.encode([EOD])[0]]) == EOD and tokenizer.eod not in tokenizer.encode([EOD])[0]
        )
        with pytest.raises(TokenizerError, match="no control symbol"):
            load(tmp_path / "m.model", eod=EOD)

    def test_another_end_of_document_token_can_be_named(self, shared_data: SharedData) -> None:
        folder = shared_data("tokenizers")
        assert load(folder / "gpt-neox" / "tokenizer.json", eod="<|padding|>").eod == 1
        assert load(folder / "sentencepiece" / "llama2-tokenizer.model", eod="<s>").eod == 1
        for path in (folder / "gpt-neox" / "tokenizer.json", folder / "sentencepiece" / "llama2-tokenizer.model"):
            with pytest.raises(TokenizerError, match=r"<nothing>.*name its `eod`"):
                load(path, eod="<nothing>")

    @pytest.mark.parametrize(
        "content", [b"", b"{}", b'{"version": "1.0"}', b"{ not json", b"\x00\x01 no model", b"PAR1"]
    )
    def test_what_is_no_tokenizer_is_refused_in_one_line(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "some.model").write_bytes(content)
        with pytest.raises(TokenizerError, match=r"some\.model: not a") as caught:
            load(tmp_path / "some.model")
        assert "\n" not in str(caught.value)

    def test_a_vocabulary_without_merges_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "vocab.json").write_text("{}")
        with pytest.raises(TokenizerError, match=r"merges\.txt must lie beside it"):
            load(tmp_path / "vocab.json")

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"none\.model"):
            load(tmp_path / "none.model")


def test_the_kinds_are_told_apart_by_content(tmp_path: Path) -> None:
    for kind, expected in zip(
        KINDS, (SentencePieceTokenizer, SentencePieceTokenizer, ByteLevelBPETokenizer), strict=True
    ):
        train(TEXTS[:20], config_of(kind, 400), tmp_path / "model")
        assert type(load(tmp_path / "model")) is expected
