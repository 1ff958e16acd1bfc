"""Megatron-LM's own reader and builder as referees of the format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.indexed import IndexedDataset, IndexedWriter, check

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its optional accelerators
    megatron: Any = pytest.importorskip("megatron.core.datasets.indexed_dataset", exc_type=ImportError)

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

DTYPES = ("uint8", "int8", "int16", "uint16", "int32", "int64")


def sequences_of(dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    limits = np.iinfo(dtype)
    lengths = [*random.integers(0, 50, 200), 0, 0, 5000]
    return [random.integers(limits.min, limits.max, length, dtype, endpoint=True) for length in lengths]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mapped", [True, False])
def test_megatron_reads_what_we_write(tmp_path: Path, dtype: str, mapped: bool) -> None:
    sequences = sequences_of(dtype)
    with IndexedWriter(tmp_path / "ours", dtype) as writer:
        for sequence in sequences:
            writer.add(sequence)
    theirs = megatron.IndexedDataset(str(tmp_path / "ours"), multimodal=False, mmap=mapped)
    ours = IndexedDataset(tmp_path / "ours")
    assert len(theirs) == len(sequences)
    assert theirs.index.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(theirs.sequence_lengths, ours.lengths)
    np.testing.assert_array_equal(theirs.document_indices, ours.document_boundaries)
    for i, sequence in enumerate(sequences):
        np.testing.assert_array_equal(theirs[i], sequence)
        half = len(sequence) // 2
        np.testing.assert_array_equal(theirs.get(i, half), ours.get(i, half))
        np.testing.assert_array_equal(theirs.get(i, 0, half), ours.get(i, 0, half))


@pytest.mark.parametrize("dtype", DTYPES)
def test_we_read_and_write_the_files_that_megatron_builds(tmp_path: Path, dtype: str) -> None:
    sequences = sequences_of(dtype)
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.dtype(dtype).type)
    for sequence in sequences:
        builder.add_document(torch.from_numpy(sequence.astype(np.int64)), [len(sequence)])
    builder.finalize(str(tmp_path / "theirs.idx"))
    assert check(tmp_path / "theirs") == []
    with IndexedWriter(tmp_path / "ours", dtype) as writer:
        for read, built in zip(IndexedDataset(tmp_path / "theirs"), sequences, strict=True):
            np.testing.assert_array_equal(read, built)
            writer.add(read)
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"ours{suffix}").read_bytes() == (tmp_path / f"theirs{suffix}").read_bytes()


def test_we_read_megatrons_documents_of_several_sequences(tmp_path: Path) -> None:
    documents = [[3, 2], [], [4], [0, 1, 2]]
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.uint16)
    for lengths in documents:
        builder.add_document(torch.arange(sum(lengths)), lengths)
    builder.finalize(str(tmp_path / "theirs.idx"))
    dataset = IndexedDataset(tmp_path / "theirs")
    assert dataset.lengths.tolist() == [3, 2, 4, 0, 1, 2]
    assert dataset.document_boundaries.tolist() == [0, 2, 2, 3, 6]
    assert dataset[1].tolist() == [3, 4]


def test_we_read_what_megatron_merges(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 100)):
        with IndexedWriter(tmp_path / name, "uint16") as writer:
            for length in (3, 0, 2):
                writer.add(np.arange(first, first + length))
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "merged.bin"), dtype=np.uint16)
    builder.add_index(str(tmp_path / "a"))
    builder.add_index(str(tmp_path / "b"))
    builder.finalize(str(tmp_path / "merged.idx"))
    with IndexedWriter(tmp_path / "ours", "uint16") as writer:
        writer.add_dataset(IndexedDataset(tmp_path / "a"))
        writer.add_dataset(IndexedDataset(tmp_path / "b"))
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"ours{suffix}").read_bytes() == (tmp_path / f"merged{suffix}").read_bytes()


def test_we_pass_over_the_modes_that_megatron_writes(tmp_path: Path) -> None:
    builder = megatron.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=np.uint16, multimodal=True)
    builder.add_document(torch.arange(5), [3, 2], modes=[0, 1])
    builder.finalize(str(tmp_path / "theirs.idx"))
    assert [sequence.tolist() for sequence in IndexedDataset(tmp_path / "theirs")] == [[0, 1, 2], [3, 4]]


def test_our_empty_dataset_is_no_error_to_megatron(tmp_path: Path) -> None:
    with IndexedWriter(tmp_path / "empty", "uint16"):
        pass
    assert len(megatron.IndexedDataset(str(tmp_path / "empty"), mmap=False)) == 0
