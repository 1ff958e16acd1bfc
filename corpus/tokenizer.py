"""Tokenizers behind one small interface: SentencePiece (unigram or BPE) and byte-level BPE, trained here or loaded.

A tokenizer that is trained here is exact: `decode(encode(text))` is `text` for every text that UTF-8 can hold, spaces,
line ends, NUL and unseen scripts included. One that is loaded gives the ids its own library gives, with what its
normalisation loses. In both, no text can produce the end-of-document token: a page that spells `<|endoftext|>` gets
ordinary pieces.

Training is deterministic: the model file depends on the set of texts and the config only, not on the order of the
texts or on the number of processors.
"""

from __future__ import annotations

import abc
import hashlib
import heapq
import io
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sentencepiece
from pydantic import BaseModel, ConfigDict, Field, model_validator
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFaceTokenizer

EOD = "<|endoftext|>"
#: End-of-document tokens by which common tokenizers go, the first one present is taken.
_KNOWN_EODS = (EOD, "<|end_of_text|>", "</s>", "<eos>")
#: SentencePiece writes a space as this character, so the character itself is spelled in bytes.
_META_SPACE = "\u2581"
#: Where a SentencePiece BPE without pieces across words can be cut: before spaces.
_SPACE_PARTS = re.compile(r" *[^ ]+| +")
#: Where GPT-2's pattern always cuts: before white space that follows something else. U+180E was white space once, and
#: U+001C to U+001F are to Python only; parts are not cut at either.
_GPT2_PARTS = re.compile(r"[\s\u180e]*[^\s\u180e]+(?:(?![ \n\t\r])[\s\u180e]+[^\s\u180e]*)*|[\s\u180e]+")
_REMEMBERED_PARTS = 2**18
_REMEMBERED_LENGTH = 64  # characters
#: SentencePiece sums in one order per number of threads, and writes the number into the model.
_TRAINING_THREADS = 16


class TokenizerError(ValueError):
    """A tokenizer cannot be trained, loaded or used; one line says why and what to do."""


class TokenizerConfig(BaseModel):
    """How to get a tokenizer: train one, or load one that exists."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["sentencepiece-unigram", "sentencepiece-bpe", "bytelevel-bpe"] = Field(
        "sentencepiece-unigram", description="Algorithm of the tokenizer to train."
    )
    vocab_size: int = Field(
        32_000, ge=258, le=2**24, description="Tokens, the end-of-document token and bytes included."
    )
    character_coverage: float = Field(
        0.9995, ge=0.98, le=1.0, description="Share of characters that get pieces of their own; the rest is bytes."
    )
    sample_mb: float = Field(200.0, gt=0, le=2000.0, description="Text to train on, in MB (10^6 bytes of UTF-8).")
    max_sentence_bytes: int = Field(4096, ge=64, le=2**16, description="Training text is cut into pieces of this size.")
    load: str | None = Field(None, description="Path of a finished tokenizer to use instead of training one.")
    eod: str | None = Field(None, description="End-of-document token of the loaded tokenizer, if not a usual one.")

    @model_validator(mode="after")
    def _train_or_load(self) -> TokenizerConfig:
        training = sorted(self.model_fields_set - {"load", "eod"})
        if self.load is not None and training:
            raise ValueError(f"`load` takes a finished tokenizer: remove {', '.join(training)}, or remove `load`")
        if self.load is None and self.eod is not None:
            raise ValueError(f"`eod` names a token of a tokenizer to `load`; a trained one has {EOD}")
        return self


_Encode = Callable[[list[str]], list[np.ndarray[Any, Any]]]


class _ByParts:
    """Encodes texts by parts that the algorithm never merges across, and remembers the ids of parts.

    The ids are those of the whole text. Words repeat, so most of a text is looked up.
    """

    def __init__(self, parts: re.Pattern[str], encode: _Encode) -> None:
        self._parts = parts
        self._encode = encode
        self._known: dict[str, bytes] = {}  # part -> its int32 ids

    def __call__(self, texts: list[str]) -> list[np.ndarray[Any, Any]]:
        if len(self._known) > _REMEMBERED_PARTS:
            self._known.clear()
        known = self._known
        parts = [self._parts.findall(text) for text in texts]
        new = list(set().union(*parts).difference(known))
        known.update(zip(new, (ids.tobytes() for ids in self._encode(new)), strict=True))
        encoded = [np.frombuffer(b"".join(map(known.__getitem__, each)), np.int32) for each in parts]
        for part in new:
            if len(part) > _REMEMBERED_LENGTH:
                del known[part]
        return encoded


class Tokenizer(abc.ABC):
    """Text to token ids and back. Picklable; made by `load`, `from_bytes` or `train`."""

    _encode: _Encode

    def __init__(self, model: bytes, vocab_size: int, eod: int) -> None:
        self.model = model
        self.vocab_size = vocab_size  #: The largest id + 1, special tokens included.
        self.eod = eod  #: Id of the end-of-document token.
        self.fingerprint = hashlib.sha256(model).hexdigest()  #: SHA-256 of the model file.

    @abc.abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens have none. Bytes that are not UTF-8 become U+FFFD."""

    def encode(self, texts: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        """Token ids of each text, int32, without special tokens.

        Raises: TokenizerError for text with lone surrogates, which UTF-8 cannot hold.
        """
        try:
            return self._encode(list(texts))
        except (UnicodeEncodeError, TypeError):
            i, problem = next(((i, p) for i, p in enumerate(map(_text_problem, texts)) if p), (None, None))
            if i is None:
                raise
            raise TokenizerError(f"text {i} of the batch {problem}") from None

    def encode_to_buffer(
        self, texts: Sequence[str], dtype: np.typing.DTypeLike, *, append_eod: bool = True
    ) -> tuple[bytes, np.ndarray[Any, Any]]:
        """The tokens of all texts back to back as `dtype`, and the number of each one's (int32, the EOD counted).

        These are what `IndexedWriter.add_many` takes. An empty text is a sequence of the EOD alone.

        Raises: TokenizerError if the vocabulary does not fit into `dtype`, or a text is not valid.
        """
        dtype = np.dtype(dtype)
        if self.vocab_size - 1 > np.iinfo(dtype).max:
            raise TokenizerError(f"a vocabulary of {self.vocab_size} does not fit into {dtype.name}; use int32")
        sequences = self.encode(texts)
        lengths = np.fromiter(map(len, sequences), np.int32, len(sequences)) + np.int32(append_eod)
        ends = np.cumsum(lengths, dtype=np.int64)
        tokens = np.full(int(ends[-1]) if len(ends) else 0, self.eod, dtype)
        for ids, start in zip(sequences, (ends - lengths).tolist(), strict=True):
            tokens[start : start + len(ids)] = ids
        return tokens.tobytes(), lengths

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, whole or not at all: `.model` for SentencePiece, `.json` for byte-level BPE."""
        partial = Path(f"{os.fspath(path)}.partial")
        partial.write_bytes(self.model)
        os.replace(partial, path)


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model; encodes on one thread."""

    def __init__(self, model: bytes, eod: str | None = None) -> None:
        self._eod = eod
        if not model:  # the library takes it for a model and fails at the first use
            raise TokenizerError("not a SentencePiece model: it is empty")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise TokenizerError(f"not a SentencePiece model: {_first_line(error)}") from None
        super().__init__(model, self._processor.vocab_size(), self._find_eod(eod))
        self._escape = self._meta_space_bytes()
        by_parts = self._escape is not None and self._merges_within_words()
        self._encode = _ByParts(_SPACE_PARTS, self._encode_whole) if by_parts else self._encode_whole

    def _find_eod(self, eod: str | None) -> int:
        processor = self._processor
        candidates = (eod,) if eod else _KNOWN_EODS
        for name in candidates:
            index = processor.piece_to_id(name)
            if index != processor.unk_id() and processor.is_control(index):
                return int(index)
        if eod is None and processor.eos_id() >= 0:
            return int(processor.eos_id())
        raise TokenizerError(f"the SentencePiece model has no control symbol {' or '.join(candidates)}; name its `eod`")

    def _meta_space_bytes(self) -> np.ndarray[Any, Any] | None:
        """Byte pieces that spell U+2581, if the model keeps text exactly; None leaves that character to the library."""
        processor = self._processor
        ids = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in _META_SPACE.encode()]
        probe = " a  e\u0301\ufb01\t "  # what a prefix, space removal, NFC or NFKC would change
        exact = processor.normalize(probe) == probe.replace(" ", _META_SPACE)
        return np.array(ids, np.int32) if exact and all(map(processor.is_byte, ids)) else None

    def _merges_within_words(self) -> bool:
        """Whether this is BPE, whose scores are its ranks negated, and no piece has a space behind something else."""
        processor = self._processor
        ids = [i for i in range(processor.vocab_size()) if not (processor.is_control(i) or processor.is_unknown(i))]
        return all(processor.get_score(i).is_integer() for i in ids) and not any(
            _META_SPACE in processor.id_to_piece(i).lstrip(_META_SPACE) for i in ids
        )

    def _encode_whole(self, texts: list[str]) -> list[np.ndarray[Any, Any]]:
        encoded: list[np.ndarray[Any, Any]] = self._processor.encode(texts, return_type="numpy", num_threads=1)
        if self._escape is not None:
            for i, text in enumerate(texts):
                if _META_SPACE in text:
                    encoded[i] = self._encode_escaped(text, self._escape)
        return encoded

    def _encode_escaped(self, text: str, escape: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        parts = self._processor.encode(text.split(_META_SPACE), return_type="numpy", num_threads=1)
        return np.concatenate([parts[0], *itertools.chain.from_iterable((escape, part) for part in parts[1:])])

    def decode(self, ids: Iterable[int]) -> str:
        try:
            return str(self._processor.decode([int(i) for i in ids]))
        except IndexError:
            raise TokenizerError(f"ids to decode must be 0 to {self.vocab_size - 1}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return SentencePieceTokenizer, (self.model, self._eod)


class ByteLevelBPETokenizer(Tokenizer):
    """A Hugging Face `tokenizer.json`.

    It encodes on as many threads as the library takes; set TOKENIZERS_PARALLELISM=false where each processor already
    has a task.
    """

    def __init__(self, model: bytes, eod: str | None = None) -> None:
        self._eod = eod
        try:
            self._tokenizer = HuggingFaceTokenizer.from_buffer(model)
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"not a tokenizer.json: {_first_line(error)}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        name = self._find_eod(eod)
        self._tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False)])
        self._tokenizer.encode_special_tokens = True  # special tokens in text are spelled out
        by_parts = _is_gpt2_like(json.loads(self._tokenizer.to_str()))
        self._encode = _ByParts(_GPT2_PARTS, self._encode_whole) if by_parts else self._encode_whole
        vocabulary = self._tokenizer.get_vocab()
        super().__init__(model, max(vocabulary.values()) + 1, vocabulary[name])
        if self.eod in self._encode([name])[0]:
            raise TokenizerError(f"plain text produces the end-of-document token {name}; name another `eod`")

    def _find_eod(self, eod: str | None) -> str:
        candidates = (eod,) if eod else _KNOWN_EODS
        for name in candidates:
            if self._tokenizer.token_to_id(name) is not None:
                return name
        special = [token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special]
        raise TokenizerError(f"tokenizer.json has no {' or '.join(candidates)}; name its `eod`, one of {special}")

    def _encode_whole(self, texts: list[str]) -> list[np.ndarray[Any, Any]]:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        return self._tokenizer.decode([int(i) for i in ids])

    def __reduce__(self) -> tuple[Any, ...]:
        return ByteLevelBPETokenizer, (self.model, self._eod)


def _is_gpt2_like(spec: dict[str, Any]) -> bool:
    """Whether a `tokenizer.json` is BPE within the words of GPT-2's pattern, and nothing else acts on text."""
    model, words = spec["model"], spec["pre_tokenizer"] or {}
    return (
        model["type"] == "BPE"
        and not model["dropout"]
        and spec["normalizer"] is None
        and words.get("type") == "ByteLevel"
        and words["use_regex"]
        and not words["add_prefix_space"]
        and all(token["special"] for token in spec["added_tokens"])
    )


def load(path: str | os.PathLike[str], eod: str | None = None) -> Tokenizer:
    """Load a SentencePiece `.model`, a `tokenizer.json`, or GPT-2's `vocab.json`, with `merges.txt` beside it.

    `eod` names the end-of-document token if it is not a usual one: `<|endoftext|>`, `<|end_of_text|>`, `</s>`, `<eos>`.

    Raises: FileNotFoundError; TokenizerError if the file is none of these, or has no end-of-document token.
    """
    path = Path(path)
    model = path.read_bytes()
    try:
        if path.name.endswith("vocab.json"):
            return ByteLevelBPETokenizer(_gpt2_model(path), eod)
        return from_bytes(model, eod)
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {error}") from None


def from_bytes(model: bytes, eod: str | None = None) -> Tokenizer:
    """The tokenizer whose model file has the content `model`: JSON is byte-level BPE, anything else SentencePiece."""
    return (ByteLevelBPETokenizer if model[:1] == b"{" else SentencePieceTokenizer)(model, eod)


def train(texts: Iterable[str], config: TokenizerConfig, path: str | os.PathLike[str]) -> Tokenizer:
    """Train a tokenizer on a sample of `texts` and write its model file.

    The sample is the texts of smallest hash up to `config.sample_mb`; it is held in memory.

    Raises: TokenizerError if the texts give no tokenizer of exactly `config.vocab_size`; it says which size they give.
    """
    if config.load is not None:
        raise TokenizerError(f"the config loads {config.load}; there is nothing to train")
    sample = _sample(texts, int(config.sample_mb * 1e6))
    sentences = (sentence for text in sample for sentence in _sentences(text, config.max_sentence_bytes))
    if config.kind == "bytelevel-bpe":
        tokenizer: Tokenizer = ByteLevelBPETokenizer(_train_bytelevel(sentences, config))
    else:
        tokenizer = SentencePieceTokenizer(_train_sentencepiece(sentences, config))
    tokenizer.save(path)
    return tokenizer


def _train_sentencepiece(sentences: Iterator[str], config: TokenizerConfig) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences,
            model_writer=model,
            model_type=config.kind.removeprefix("sentencepiece-"),
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            max_sentence_length=config.max_sentence_bytes,
            num_threads=_TRAINING_THREADS,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            allow_whitespace_only_pieces=True,
            byte_fallback=True,
            unk_id=0,
            eos_id=1,
            eos_piece=EOD,
            bos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise TokenizerError(_training_problem(str(error), config)) from None
    return model.getvalue()


def _training_problem(message: str, config: TokenizerConfig) -> str:
    if largest := re.search(r"set it to a value <= (\d+)", message):
        return _too_little_text(config, int(largest[1]))
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"vocab_size {config.vocab_size} cannot hold the characters of the text: use at least {smallest[1]}, "
            f"or a character_coverage below {config.character_coverage}"
        )
    if "sentences_.empty()" in message:
        return "there is no text to train a tokenizer on"
    return f"SentencePiece cannot train: {_first_line(message)}"


def _train_bytelevel(sentences: Iterator[str], config: TokenizerConfig) -> bytes:
    tokenizer = HuggingFaceTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        special_tokens=[EOD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    if tokenizer.get_vocab_size() != config.vocab_size:
        raise TokenizerError(_too_little_text(config, tokenizer.get_vocab_size()))
    return tokenizer.to_str().encode()


def _too_little_text(config: TokenizerConfig, largest: int) -> str:
    return f"the text is too little for vocab_size {config.vocab_size}: use at most {largest}, or more text"


def _sample(texts: Iterable[str], size: int) -> list[str]:
    """Texts of smallest hash, just as many as reach `size` bytes, in the order of their hashes."""
    heap: list[tuple[int, bytes]] = []
    total = 0
    for text in texts:
        if problem := _text_problem(text):
            raise TokenizerError(f"a text to train on {problem}")
        if not text:
            continue
        data = text.encode()
        digest = int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big")
        heapq.heappush(heap, (-digest, data))
        total += len(data)
        while total - len(heap[0][1]) >= size:
            total -= len(heapq.heappop(heap)[1])
    return [data.decode() for _, data in sorted(heap, reverse=True)]


def _sentences(text: str, size: int) -> Iterator[str]:
    """`text` cut into pieces of up to `size` bytes: after a line end, else before a space, else between characters."""
    data = text.encode()
    start = 0
    while len(data) - start > size:
        end = data.rfind(b"\n", start, start + size) + 1
        if end == 0:
            end = data.rfind(b" ", start + 1, start + size)
        if end <= start:
            end = start + size
            while data[end] & 0xC0 == 0x80:
                end -= 1
        yield data[start:end].decode()
        start = end
    yield data[start:].decode()


def _gpt2_model(vocab: Path) -> bytes:
    """A `tokenizer.json` with the content of `vocab.json` and its merges."""
    merges = vocab.with_name(vocab.name.removesuffix("vocab.json") + "merges.txt")
    if not merges.is_file():
        raise TokenizerError(f"its merges are missing: {merges.name} must lie beside it")
    try:
        tokenizer = HuggingFaceTokenizer(models.BPE.from_file(str(vocab), str(merges)))
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"not a GPT-2 vocabulary with {merges.name}: {_first_line(error)}") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer.to_str().encode()


def _text_problem(text: Any) -> str | None:
    if not isinstance(text, str):
        return f"is {type(text).__name__}, not str"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"has a lone surrogate {text[error.start]!a} at character {error.start}; repair the text first"
    return None


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
