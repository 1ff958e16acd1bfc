"""Audit of a finished corpus: are all files whole, do they agree with each other, and are the tokens those of the texts?"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from corpus import indexed
from corpus.datasets import ROWS_A_GROUP
from corpus.manifest import Dataset, Manifest
from corpus.tokenizer import Tokenizer, TokenizerError
from corpus.tokenizer import load as load_tokenizer
from corpus.workspace import Workspace, data_files, file_sha256


def audit(workspace: Workspace, manifest: Manifest, samples: int) -> Iterator[str]:
    """Everything that is wrong, one line a fault. `samples` documents of each dataset are tokenised again."""
    yield from _steps(workspace, manifest)
    tokenizer, faults = _tokenizer(workspace, manifest)
    yield from faults
    for dataset in manifest.datasets:
        found = list(_dataset(workspace, dataset, tokenizer))
        yield from found
        if tokenizer is not None and not found:
            yield from _tokens(workspace, manifest, dataset, tokenizer, samples)
    yield from _funnel(manifest)


def step_folders(workspace: Workspace, manifest: Manifest) -> list[Path]:
    """The steps that made the corpus, in order; other runs of the workspace may have left more."""
    return [workspace.step(name) for name in manifest.steps]


def _steps(workspace: Workspace, manifest: Manifest) -> Iterator[str]:
    for folder in sorted({*step_folders(workspace, manifest), *workspace.finished()}):
        try:
            files = json.loads((folder / "stage.json").read_text())["files"]
        except (OSError, ValueError, KeyError) as error:
            yield f"{folder}/stage.json: cannot be read: {error}"
            continue
        present = {str(path.relative_to(folder)): path.stat().st_size for path in data_files(folder)}
        for name, size in files.items():
            if name not in present:
                yield f"{folder / name}: is missing"
            elif present[name] != size:
                yield f"{folder / name}: has {present[name]:,} bytes, and had {size:,} when it was written"
        for name in sorted(set(present) - set(files)):
            yield f"{folder / name}: is not of this run"


def _tokenizer(workspace: Workspace, manifest: Manifest) -> tuple[Tokenizer | None, list[str]]:
    path = workspace.root / manifest.tokenizer["path"]
    try:
        tokenizer = load_tokenizer(path, manifest.config["tokenizer"].get("eod"))
    except (OSError, TokenizerError) as error:
        return None, [f"{path}: cannot be loaded: {error}"]
    if tokenizer.fingerprint != manifest.tokenizer["fingerprint"]:
        return None, [f"{path}: is not the tokenizer that made the datasets"]
    return tokenizer, []


def _dataset(workspace: Workspace, dataset: Dataset, tokenizer: Tokenizer | None) -> Iterator[str]:
    prefix = workspace.root / dataset.prefix
    for ending, digest in dataset.sha256.items():
        path = Path(f"{prefix}.{ending}")
        if not path.is_file():
            yield f"{path}: is missing"
        elif file_sha256(path) != digest:
            yield f"{path}: its content has changed since it was written (SHA-256 differs)"
    problems = indexed.check(prefix, tokenizer.vocab_size if tokenizer else None)
    yield from problems
    if problems:
        return
    reader = indexed.IndexedDataset(prefix)
    for what, found, said in (
        ("documents", len(reader), dataset.documents),
        ("tokens", reader.tokens, dataset.tokens),
        ("dtype", reader.dtype.name, dataset.dtype),
    ):
        if found != said:
            yield f"{prefix}: has {found} {what}, the manifest says {said}"
    try:
        batches = pq.ParquetFile(f"{prefix}.docs.parquet").iter_batches(columns=["tokens"])
        first = 0
        for tokens in (batch["tokens"].to_numpy() for batch in batches):
            if not np.array_equal(tokens, reader.lengths[first : first + len(tokens)]):
                break
            first += len(tokens)
    except (OSError, pa.ArrowException) as error:
        yield f"{prefix}.docs.parquet: cannot be read: {str(error).splitlines()[0]}"
        return
    if first != len(reader):
        yield f"{prefix}.docs.parquet: its lengths are not those of the .idx, from sequence {first} on"


def _tokens(
    workspace: Workspace, manifest: Manifest, dataset: Dataset, tokenizer: Tokenizer, samples: int
) -> Iterator[str]:
    """Compare the tokens of documents, spread evenly over the dataset, with their texts."""
    reader = indexed.IndexedDataset(workspace.root / dataset.prefix)
    chosen = np.unique(np.linspace(0, len(reader) - 1, min(samples, len(reader)), dtype=np.int64))
    if not len(chosen):
        return
    ids = _ids(workspace, dataset, chosen.tolist())
    documents = step_folders(workspace, manifest)[-1] / "documents"
    if not documents.is_dir():
        return
    wanted = pc.is_in(pads.field("id"), pa.array(ids, pa.string()))
    table = pads.dataset(documents).to_table(columns=["id", "text"], filter=wanted)
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    for number, id_ in zip(chosen.tolist(), ids, strict=True):
        text = texts.get(id_)
        if text is None:
            yield f"{dataset.name}: document {id_} (sequence {number}) is not among the documents of the last step"
            continue
        expected = [*tokenizer.encode([text])[0].tolist(), tokenizer.eod]
        if reader[number].tolist() != expected:
            yield f"{dataset.name}: the tokens of sequence {number} are not those of document {id_}"


def _funnel(manifest: Manifest) -> Iterator[str]:
    """In = kept + dropped + failed, step by step, and what the last step kept is what the datasets hold."""
    kept: dict[str, int] = {}
    for row in manifest.funnel:
        out = row["kept"] + sum(row["dropped"].values()) + sum(row["failed"].values())
        if row["in"] != out:
            yield f"funnel: {row['step']}, {row['source']}: {row['in']} went in and {out} came out"
        if row["source"] in kept and kept[row["source"]] != row["in"]:
            yield f"funnel: {row['step']}, {row['source']}: {row['in']} went in, and the step before kept {kept[row['source']]}"
        kept[row["source"]] = row["kept"]
    held = {dataset.name: dataset.documents for dataset in manifest.datasets}
    for source, count in kept.items():
        if held.get(source, 0) != count:
            yield f"funnel: {count} documents of {source} were kept, its dataset has {held.get(source, 0)}"


def find_document(workspace: Workspace, manifest: Manifest, id_: str) -> list[tuple[str, dict[str, object]]]:
    """A document as each step left it: (name of the step's folder, its columns)."""
    found = []
    for folder in step_folders(workspace, manifest):
        if (folder / "documents").is_dir():
            table = pads.dataset(folder / "documents").to_table(filter=pads.field("id") == id_)
            found += [(folder.name, row) for row in table.to_pylist()]
    return found


def document_id(workspace: Workspace, dataset: Dataset, number: int) -> str:
    """The id of the document that is sequence `number` of a dataset. Raises: IndexError if there is no such sequence."""
    if not 0 <= number < dataset.documents:
        raise IndexError(f"{dataset.name} has the sequences 0 to {dataset.documents - 1}, not {number}")
    return _ids(workspace, dataset, [number])[0]


def _ids(workspace: Workspace, dataset: Dataset, numbers: Sequence[int]) -> list[str]:
    """Ids of the sequences with these ascending numbers; only the row groups that hold them are read."""
    file = pq.ParquetFile(f"{workspace.root / dataset.prefix}.docs.parquet")
    found: list[str] = []
    for group, members in itertools.groupby(numbers, lambda number: number // ROWS_A_GROUP):
        ids = file.read_row_group(group, columns=["id"])["id"]
        found += [ids[number % ROWS_A_GROUP].as_py() for number in members]
    return found
