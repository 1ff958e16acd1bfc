"""The indexed dataset: what is written is read, what others wrote is read, and each kind of damage is named."""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpus.indexed import IndexedDataset, IndexedDatasetError, IndexedWriter, _write_index, check, dtype_for

SharedData = Callable[[str], Path]


def sequences_of(seed: int, count: int = 300, vocab_size: int = 60_000) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(0, vocab_size, length) for length in random.integers(0, 40, count)]


def write(prefix: Path, sequences: list, dtype: str = "uint16") -> Path:
    with IndexedWriter(prefix, dtype) as writer:
        for sequence in sequences:
            writer.add(sequence)
    return prefix


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Three sequences, one of them empty: 5 uint16 tokens, 10 bytes."""
    return write(tmp_path / "small", [[1, 2, 3], [], [4, 5]])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "int64"])
def test_what_is_written_is_read_in_every_dtype(tmp_path: Path, dtype: str) -> None:
    sequences = sequences_of(1, vocab_size=127)
    dataset = IndexedDataset(write(tmp_path / "data", sequences, dtype))
    assert dataset.dtype == np.dtype(dtype) and len(dataset) == len(sequences)
    for read, written in zip(dataset, sequences, strict=True):
        np.testing.assert_array_equal(read, written)
        assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(dataset.document_boundaries, np.arange(len(sequences) + 1))
    assert dataset.tokens == sum(map(len, sequences))
    assert check(tmp_path / "data", vocab_size=127) == []


def test_slices_are_those_of_the_whole_sequence(tmp_path: Path) -> None:
    sequences = sequences_of(2, count=20)
    dataset = IndexedDataset(write(tmp_path / "data", sequences))
    for i, sequence in enumerate(sequences):
        for offset in range(len(sequence) + 1):
            np.testing.assert_array_equal(dataset.get(i, offset), sequence[offset:])
            for length in range(len(sequence) - offset + 1):
                np.testing.assert_array_equal(dataset.get(i, offset, length), sequence[offset : offset + length])
    np.testing.assert_array_equal(dataset[-1], sequences[-1])


@pytest.mark.parametrize("arguments", [(3,), (-4,), (0, 4), (0, 0, 4), (0, 2, 2), (0, -1), (1, 0, 1), (0, 0, -1)])
def test_nothing_is_read_outside_a_sequence(prefix: Path, arguments: tuple[int, ...]) -> None:
    with pytest.raises(IndexError, match="small"):
        IndexedDataset(prefix).get(*arguments)


def test_sequences_are_read_only_views(prefix: Path) -> None:
    sequence = IndexedDataset(prefix)[0]
    with pytest.raises(ValueError, match="read-only"):
        sequence[0] = 9


def test_a_pickled_dataset_carries_the_path_and_not_the_tokens(tmp_path: Path) -> None:
    dataset = IndexedDataset(write(tmp_path / "data", sequences_of(3, count=5000)))
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 1000
    np.testing.assert_array_equal(pickle.loads(pickled)[17], dataset[17])


def test_concatenated_sequences_give_the_same_files_as_single_ones(tmp_path: Path) -> None:
    sequences = sequences_of(4)
    one_by_one = write(tmp_path / "single", sequences)
    with IndexedWriter(tmp_path / "many", "uint16") as writer:
        for start in range(0, len(sequences), 7):
            batch = sequences[start : start + 7]
            writer.add_many(np.concatenate(batch).astype("<u2").tobytes(), np.array([len(s) for s in batch], np.int32))
    with IndexedWriter(tmp_path / "joined", "uint16") as writer:
        for start in (0, 100, 200):
            piece = write(tmp_path / f"piece-{start}", sequences[start : start + 100])
            writer.add_dataset(IndexedDataset(piece))
    for other in ("many", "joined"):
        for suffix in (".bin", ".idx"):
            assert (tmp_path / f"{other}{suffix}").read_bytes() == one_by_one.with_suffix(suffix).read_bytes()


def test_the_bytes_are_those_of_the_format(prefix: Path) -> None:
    assert prefix.with_suffix(".bin").read_bytes() == struct.pack("<5H", 1, 2, 3, 4, 5)
    assert prefix.with_suffix(".idx").read_bytes() == (
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 3, 4) + struct.pack("<3i3q4q", 3, 0, 2, 0, 6, 6, 0, 1, 2, 3)
    )


def test_pointers_pass_the_range_of_int32(tmp_path: Path) -> None:
    """The sequences are a hole in a sparse file: 6 GB that take no space."""
    prefix = write(tmp_path / "data", [[7]], "int32")
    lengths = np.array([1] + [2**29] * 3, np.int32)
    pointers = np.array([0, 4, 4 + 2**31, 4 + 2**32])
    prefix.with_suffix(".idx").write_bytes(index_bytes(4, lengths, pointers, np.arange(5)))
    with open(prefix.with_suffix(".bin"), "r+b") as file:
        file.truncate(4 + 3 * 2**31)
        file.seek(4 + 2**32)
        file.write(struct.pack("<i", 42))
    dataset = IndexedDataset(prefix)
    assert dataset.get(3, 0, 2).tolist() == [42, 0]
    assert dataset.tokens == 1 + 3 * 2**29
    assert check(prefix) == []


def test_the_writer_computes_pointers_in_64_bits() -> None:
    index = io.BytesIO()
    _write_index(index, np.dtype("<i4"), np.array([2**30, 2**30 - 1, 1], np.int32))
    assert np.frombuffer(index.getvalue(), "<i8", 3, 34 + 12).tolist() == [0, 2**32, 2**33 - 4]


def test_many_sequences_make_a_consistent_index(tmp_path: Path) -> None:
    """More sequences than the writer handles at a time."""
    count = 2**21 + 3
    lengths = np.arange(count, dtype=np.int32) % 3
    tokens = np.arange(lengths.sum()).astype("<u2")
    with IndexedWriter(tmp_path / "data", "uint16") as writer:
        writer.add_many(tokens.tobytes(), lengths)
    dataset = IndexedDataset(tmp_path / "data")
    assert check(tmp_path / "data", 65_536) == []
    assert dataset[count - 1].tolist() == tokens[-int(lengths[-1]) or len(tokens) :].tolist()
    np.testing.assert_array_equal(dataset[2**20 + 1], tokens[lengths[: 2**20 + 1].sum() :][: lengths[2**20 + 1]])


@pytest.mark.parametrize("sequences", [[], [[]], [[], [], []]])
def test_datasets_without_tokens_are_datasets(tmp_path: Path, sequences: list) -> None:
    prefix = write(tmp_path / "empty", sequences)
    assert [sequence.tolist() for sequence in IndexedDataset(prefix)] == sequences
    assert check(prefix, 10) == []


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(1, "u2"), (65_500, "u2"), (65_535, "u2"), (65_536, "u2"), (65_537, "i4"), (2**31, "i4")]
)
def test_uint16_goes_up_to_the_largest_vocabulary_it_holds(tmp_path: Path, vocab_size: int, dtype: str) -> None:
    assert dtype_for(vocab_size) == np.dtype(dtype)
    prefix = write(tmp_path / "edge", [[vocab_size - 1, 0]], dtype_for(vocab_size))
    assert IndexedDataset(prefix)[0].tolist() == [vocab_size - 1, 0]


@pytest.mark.parametrize("vocab_size", [0, 2**31 + 1])
def test_a_vocabulary_that_no_dtype_holds_is_refused(vocab_size: int) -> None:
    with pytest.raises(IndexedDatasetError, match=str(vocab_size)):
        dtype_for(vocab_size)


def test_the_header_decides_the_dtype(tmp_path: Path) -> None:
    dataset = IndexedDataset(write(tmp_path / "wide", [[1, 2]], "int32"))
    assert dataset.dtype == np.int32 and dataset[0].tolist() == [1, 2]


class TestWriter:
    @pytest.mark.parametrize("token", [-1, 65_536])
    def test_refuses_tokens_that_would_wrap(self, tmp_path: Path, token: int) -> None:
        with pytest.raises(IndexedDatasetError, match=f"sequence 1 has token {token}"):
            write(tmp_path / "data", [[1], [token]])
        assert names(tmp_path) == []

    @pytest.mark.parametrize("tokens", [[1.5], [[1], [2]], ["a"], 3])
    def test_refuses_what_is_not_a_row_of_integers(self, tmp_path: Path, tokens: object) -> None:
        with pytest.raises(IndexedDatasetError, match="sequence 0"):
            write(tmp_path / "data", [tokens])

    @pytest.mark.parametrize("dtype", ["float32", "float64", "uint32", "uint64", "bool"])
    def test_refuses_dtypes_without_a_code(self, tmp_path: Path, dtype: str) -> None:
        with pytest.raises(IndexedDatasetError, match=dtype):
            IndexedWriter(tmp_path / "data", dtype)
        assert names(tmp_path) == []

    @pytest.mark.parametrize(("size", "lengths"), [(6, [1, 1]), (2, [1, 1]), (3, [1]), (4, [3, -1])])
    def test_writes_nothing_if_buffer_and_lengths_disagree(self, tmp_path: Path, size: int, lengths: list[int]) -> None:
        with IndexedWriter(tmp_path / "data", "uint16") as writer:
            writer.add([1])
            with pytest.raises(IndexedDatasetError, match="data"):
                writer.add_many(bytes(size), np.array(lengths))
        assert IndexedDataset(tmp_path / "data").tokens == 1

    def test_refuses_to_join_another_dtype(self, tmp_path: Path, prefix: Path) -> None:
        with (
            pytest.raises(IndexedDatasetError, match=r"small: uint16 tokens cannot join .*data, which has int32"),
            IndexedWriter(tmp_path / "data", "int32") as writer,
        ):
            writer.add_dataset(IndexedDataset(prefix))

    def test_leaves_nothing_behind_when_its_block_raises(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError, match="stop"), IndexedWriter(tmp_path / "data", "uint16") as writer:
            writer.add([1])
            raise RuntimeError("stop")
        assert names(tmp_path) == []

    def test_keeps_an_earlier_dataset_when_its_block_raises(self, prefix: Path) -> None:
        with pytest.raises(RuntimeError, match="stop"), IndexedWriter(prefix, "int32") as writer:
            writer.add([9])
            raise RuntimeError("stop")
        assert IndexedDataset(prefix)[0].tolist() == [1, 2, 3]

    def test_gives_the_final_names_only_when_all_is_written(self, tmp_path: Path) -> None:
        writer = IndexedWriter(tmp_path / "data", "uint16")
        writer.add([1])
        assert names(tmp_path) == ["data.bin.partial"]
        writer.finalize()
        assert names(tmp_path) == ["data.bin", "data.idx"]

    def test_replaces_an_earlier_dataset(self, prefix: Path) -> None:
        write(prefix, [[9]], "int32")
        assert [s.tolist() for s in IndexedDataset(prefix)] == [[9]]
        assert names(prefix.parent) == ["small.bin", "small.idx"]

    def test_never_leaves_an_older_index_beside_new_tokens(self, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        replace = os.replace

        def fail_at_the_index(source: Path, target: Path) -> None:
            if target.suffix == ".idx":
                raise OSError("no space left")
            replace(source, target)

        monkeypatch.setattr(os, "replace", fail_at_the_index)
        with pytest.raises(OSError, match="no space left"):
            write(prefix, [[9, 8, 7, 6, 5]])
        assert names(prefix.parent) == ["small.bin"]

    def test_writes_little_endian_whatever_it_is_given(self, tmp_path: Path) -> None:
        write(tmp_path / "data", [np.array([1, 258], ">u2")], ">u2")
        assert (tmp_path / "data.bin").read_bytes() == b"\x01\x00\x02\x01"

    def test_keeps_dots_of_a_prefix(self, tmp_path: Path) -> None:
        write(tmp_path / "cc.2024.en", [[1]])
        assert names(tmp_path) == ["cc.2024.en.bin", "cc.2024.en.idx"]


def index_bytes(
    code: int, lengths: np.ndarray, pointers: np.ndarray, boundaries: np.ndarray, version: int = 1
) -> bytes:
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, code, len(lengths), len(boundaries))
    return (
        header + lengths.astype("<i4").tobytes() + pointers.astype("<i8").tobytes() + boundaries.astype("<i8").tobytes()
    )


def small_index(
    code: int = 8,
    lengths: tuple[int, ...] = (3, 0, 2),
    pointers: tuple[int, ...] = (0, 6, 6),
    boundaries: tuple[int, ...] = (0, 1, 2, 3),
    version: int = 1,
) -> bytes:
    return index_bytes(code, np.array(lengths), np.array(pointers), np.array(boundaries), version)


#: What lies in `.idx` -> what the error says.
REFUSED = {
    "empty": (b"", "begins with b''"),
    "other": (b"PAR1" * 20, "begins with b'PAR1PAR1P'"),
    "fairseq": (b"TNTIDX\0\0" + bytes(100), "TNTIDX"),
    "cut-header": (small_index()[:20], "20 bytes, cut within the header of 34"),
    "cut-lengths": (small_index()[:40], "40 bytes, and the header's 3 sequences and 4 document boundaries take 102"),
    "cut-by-a-byte": (small_index()[:-1], "101 bytes, .* take 102"),
    "long-by-a-byte": (small_index() + b"\0", "103 bytes, .* take 102"),
    "version": (small_index(version=2), "version 2"),
    "float-6": (small_index(code=6), "code 6 is float32 or float64"),
    "float-7": (small_index(code=7), "code 7 is float32 or float64"),
    "code-0": (small_index(code=0), "code 0 is unknown"),
    "code-9": (small_index(code=9), "code 9 is unknown"),
    "huge-count": (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2**60, 4), "1152921504606846976 sequences"),
    "other-dtype": (small_index(code=4), "10 bytes, and .* says 14 .*int32"),
    "other-lengths": (small_index(lengths=(3, 0, 3)), "10 bytes, and .* says 12"),
}


@pytest.mark.parametrize("damage", REFUSED)
def test_a_damaged_index_is_refused_in_one_line(prefix: Path, damage: str) -> None:
    content, message = REFUSED[damage]
    prefix.with_suffix(".idx").write_bytes(content)
    with pytest.raises(IndexedDatasetError, match=message) as caught:
        IndexedDataset(prefix)
    assert "\n" not in str(caught.value) and "small" in str(caught.value)
    assert check(prefix) == [str(caught.value)] or damage.startswith("other-")


@pytest.mark.parametrize("size", [0, 9, 11])
def test_tokens_of_another_size_than_the_index_says_are_refused(prefix: Path, size: int) -> None:
    prefix.with_suffix(".bin").write_bytes(bytes(size))
    with pytest.raises(IndexedDatasetError, match=rf"small\.bin: {size} bytes, and .*small\.idx says 10"):
        IndexedDataset(prefix)
    assert any(f"{size} bytes" in problem for problem in check(prefix))


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_a_missing_file_is_named(prefix: Path, suffix: str) -> None:
    prefix.with_suffix(suffix).unlink()
    with pytest.raises(FileNotFoundError, match=rf"small\{suffix}"):
        IndexedDataset(prefix)
    assert f"small{suffix}" in check(prefix)[0]


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        (small_index(pointers=(0, 4, 6)), "sequence 1 lies at byte 4, and the lengths before it end at byte 6"),
        (small_index(pointers=(2, 6, 6)), "sequence 0 lies at byte 2"),
        (small_index(lengths=(4, -1, 2)), "sequence 1 has length -1"),
        (small_index(boundaries=(0, 1, 2)), "the document array ends at 2, and there are 3 sequences"),
        (small_index(boundaries=()), "the document array ends at nothing, and there are 3 sequences"),
        (small_index(boundaries=(1, 3)), "the first document begins at sequence 1"),
        (small_index(boundaries=(0, 2, 1, 3)), "document 1 runs from sequence 2 back to 1"),
        (small_index(lengths=(3, 0, 3), boundaries=(0, 1)), "10 bytes"),
    ],
)
def test_check_names_what_an_index_gets_wrong(prefix: Path, index: bytes, problem: str) -> None:
    prefix.with_suffix(".idx").write_bytes(index)
    assert any(problem in line for line in check(prefix)), check(prefix)


@pytest.mark.parametrize(("vocab_size", "problems"), [(6, 0), (5, 1), (3, 1)])
def test_check_finds_tokens_outside_the_vocabulary(prefix: Path, vocab_size: int, problems: int) -> None:
    found = check(prefix, vocab_size)
    assert len(found) == problems
    if vocab_size == 5:
        assert "token 5 in sequence 2; the vocabulary has 5" in found[0]


def test_a_sequence_that_lies_outside_the_tokens_is_named(prefix: Path) -> None:
    prefix.with_suffix(".idx").write_bytes(small_index(pointers=(8, -2, 6)))
    dataset = IndexedDataset(prefix)
    assert dataset[2].tolist() == [4, 5]
    with pytest.raises(IndexedDatasetError, match=r"small\.idx: sequence 0 lies at byte 8 of 10"):
        dataset[0]


def test_an_unmerged_document_array_is_read_with_a_warning(prefix: Path) -> None:
    prefix.with_suffix(".idx").write_bytes(small_index(boundaries=(0, 1)))
    with pytest.warns(UserWarning, match="ends at 1, and there are 3 sequences"):
        dataset = IndexedDataset(prefix)
    assert [s.tolist() for s in dataset] == [[1, 2, 3], [], [4, 5]]
    assert dataset.document_boundaries.tolist() == [0, 1, 2, 3]


def test_the_tail_of_a_multimodal_file_is_passed_over(prefix: Path) -> None:
    prefix.with_suffix(".idx").write_bytes(small_index() + bytes([0, 1, 0]))
    assert [s.tolist() for s in IndexedDataset(prefix)] == [[1, 2, 3], [], [4, 5]]
    assert check(prefix) == []


def test_documents_of_several_sequences_keep_their_boundaries(prefix: Path) -> None:
    prefix.with_suffix(".idx").write_bytes(small_index(boundaries=(0, 2, 2, 3)))
    assert IndexedDataset(prefix).document_boundaries.tolist() == [0, 2, 2, 3]
    assert check(prefix) == []


@pytest.mark.parametrize(
    ("name", "sequences", "tokens", "dtype", "vocab_size"),
    [
        ("meg-gpt2-openwebtext_text_document", 1000, 1_361_845, "uint16", 5_000),
        ("ag_news_prompt_inputs_document", 100, 23_780 // 4, "int32", 250_880),
        ("ag_news_prompt_targets_document", 100, 976 // 4, "int32", 250_880),
    ],
)
def test_files_of_the_real_megatron_tool_are_read_and_written_again_bit_for_bit(
    shared_data: SharedData, tmp_path: Path, name: str, sequences: int, tokens: int, dtype: str, vocab_size: int
) -> None:
    folder = shared_data("megatron-bin")
    dataset = IndexedDataset(folder / name)
    assert (len(dataset), dataset.tokens, dataset.dtype) == (sequences, tokens, np.dtype(dtype))
    assert check(folder / name, vocab_size) == []
    ours = write(tmp_path / name, list(dataset), dtype)
    for suffix in (".bin", ".idx"):
        assert ours.with_suffix(suffix).read_bytes() == (folder / f"{name}{suffix}").read_bytes()
