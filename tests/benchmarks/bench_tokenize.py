"""Text to an indexed dataset on one thread: ours against the tokenizer's own library and a plain loop that writes."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from tokenizers import Tokenizer as HuggingFaceTokenizer

from corpus.indexed import IndexedWriter, dtype_for
from corpus.tokenizer import Tokenizer, TokenizerConfig, load, train

RUNS = 3
VOCAB_SIZE = 16_000
BATCH = 256
DATA = Path(os.environ.get("MILLRACE_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "text"

Encode = Callable[[list[str]], Iterator[list[int]]]


def run() -> list[dict[str, Any]]:
    """One row a tokenizer and way of calling its library. Ours starts each run with nothing remembered."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = _texts()
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for kind in ("sentencepiece-unigram", "sentencepiece-bpe", "bytelevel-bpe"):
            model = Path(folder) / kind
            train(texts, TokenizerConfig(kind=kind, vocab_size=VOCAB_SIZE), model)
            for call, encode in _peers(kind, model).items():
                rows.append(_row(kind, call, texts, model, encode, Path(folder)))
        return rows


def _row(kind: str, call: str, texts: list[str], model: Path, encode: Encode, folder: Path) -> dict[str, Any]:
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    ours, peer = [], []
    for _ in range(RUNS):
        tokenizer = load(model)
        ours.append(megabytes / _seconds(_write_ours, texts, tokenizer, folder / "ours"))
        peer.append(megabytes / _seconds(_write_plainly, texts, encode, tokenizer.eod, folder / "peer.bin"))
    if (folder / "ours.bin").read_bytes() != (folder / "peer.bin").read_bytes():
        raise RuntimeError(f"{kind}: our tokens are not those of {call}")
    library = "tokenizers" if kind == "bytelevel-bpe" else "sentencepiece"
    return {
        "name": f"{kind} vs {call}",
        "ours": statistics.median(ours),
        "peer": statistics.median(peer),
        "unit": "MB/s",
        "ratio": statistics.median(ours) / statistics.median(peer),
        "peer_version": f"{library} {version(library)}",
        "runs": RUNS,
        "notes": f"{megabytes:.1f} MB, {len(texts)} documents, {VOCAB_SIZE} tokens, 1 thread, same bytes",
    }


def _peers(kind: str, model: Path) -> dict[str, Encode]:
    if kind == "bytelevel-bpe":
        library = HuggingFaceTokenizer.from_file(str(model))
        return {
            "encode": lambda texts: (library.encode(text).ids for text in texts),
            "encode_batch_fast": lambda texts: (
                encoding.ids for batch in _batches(texts) for encoding in library.encode_batch_fast(batch)
            ),
        }
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return {
        "encode": lambda texts: (processor.encode(text) for text in texts),
        "encode of a batch": lambda texts: (
            ids for batch in _batches(texts) for ids in processor.encode(batch, num_threads=1)
        ),
    }


def _write_ours(texts: list[str], tokenizer: Tokenizer, prefix: Path) -> None:
    with IndexedWriter(prefix, dtype_for(tokenizer.vocab_size)) as writer:
        for batch in _batches(texts):
            writer.add_many(*tokenizer.encode_to_buffer(batch, writer.dtype))


def _write_plainly(texts: list[str], encode: Encode, eod: int, path: Path) -> None:
    with open(path, "wb") as file:
        for ids in encode(texts):
            file.write(np.array([*ids, eod], np.uint16).tobytes())


def _batches(texts: list[str]) -> Iterator[list[str]]:
    return (texts[start : start + BATCH] for start in range(0, len(texts), BATCH))


def _seconds(work: Callable[..., None], *arguments: Any) -> float:
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def _texts() -> list[str]:
    if not DATA.is_dir():
        raise SystemExit(f"no real text in {DATA}: set MILLRACE_TEST_DATA to the folder that holds text/")
    documents = [
        json.loads(line)["text"]
        for name in ("arxiv.jsonl", "cc_en_head-0091.jsonl", "cc_en_head-0174.jsonl")
        for line in (DATA / name).read_text(encoding="utf-8").splitlines()
    ]
    for name in ("wikitext-2/test.txt", "wikitext-2/valid.txt", "tinyshakespeare.txt", "wagahaiwa_nekodearu.txt"):
        documents += (DATA / name).read_text(encoding="utf-8").split("\n \n")
    return documents
