"""The indexed dataset: token ids of many sequences in `PREFIX.bin`, where each one lies in `PREFIX.idx`.

This is version 1 of Megatron-LM's `MMIDIDX` format. `.bin` is the tokens of all sequences back to back, with no header.
`.idx` is little-endian and unaligned, in this order:

    bytes   content
    9       magic: `MMIDIDX`, NUL, NUL
    8       uint64 version, 1
    1       uint8 code of the token dtype
    8       uint64 number of sequences, S
    8       uint64 length of the document array, D: documents + 1
    4 S     int32 length of each sequence, in tokens
    8 S     int64 place of each sequence in `.bin`, in bytes
    8 D     int64 document boundaries, in sequences: the first is 0, the last is S
    S       int8 mode of each sequence: multimodal files only, nothing in the header announces it

A `.bin` of n tokens that was written as one sequence a document has D = S + 1. Both files are local: object stores have
neither mmap nor an atomic rename, so write here and upload.
"""

from __future__ import annotations

import array
import mmap
import os
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
#: Token dtypes by their code in the header. 6 and 7 are float64 and float32 to Megatron-LM and the reverse to GPT-NeoX.
DTYPES = {code: np.dtype(name) for code, name in {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}.items()}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
_FAIRSEQ_MAGIC = b"TNTIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
_INT32_MAX = 2**31 - 1
_BLOCK = 1 << 20  # sequences, or bytes of tokens, that are handled at a time


class IndexedDatasetError(ValueError):
    """The files of a dataset are damaged, do not belong together, or cannot hold what was asked; one line says it."""


def dtype_for(vocab_size: int) -> np.dtype[Any]:
    """The dtype of tokens `0 .. vocab_size - 1`, special tokens included: uint16 up to 65,536 of them, else int32.

    Megatron-LM's tools switch at 65,500; readers go by the header, so both are right.
    """
    if not 0 < vocab_size <= 2**31:
        raise IndexedDatasetError(f"vocabulary of {vocab_size} tokens: the format holds 1 to {2**31}")
    return np.dtype("<u2") if vocab_size <= 2**16 else np.dtype("<i4")


class _Index(NamedTuple):
    """What `.idx` says; the arrays are views of the mapped file."""

    dtype: np.dtype[Any]
    lengths: np.ndarray[Any, Any]  # int32 [S], tokens
    pointers: np.ndarray[Any, Any]  # int64 [S], bytes
    boundaries: np.ndarray[Any, Any]  # int64 [D], sequences

    @property
    def bin_size(self) -> int:
        """Bytes that `.bin` must have, by the last sequence."""
        if not len(self.lengths):
            return 0
        return int(self.pointers[-1]) + int(self.lengths[-1]) * self.dtype.itemsize


class IndexedDataset:
    """A dataset on disk, read through mmap: opening costs nothing per sequence, and workers share the pages.

    `dataset[i]` is sequence i as a read-only array of the dataset's dtype. The tail of multimodal files is passed over.
    Pickling takes only the path; each process maps the files itself.

    Raises: FileNotFoundError; IndexedDatasetError for files that are damaged or of another format.
    Warns: for files whose document array does not end at the last sequence, as old merging tools left it; each sequence
    then counts as one document.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        self.prefix = Path(prefix)
        index = _read_index(_idx(prefix))
        self._bin = _map(_bin(prefix))
        if len(self._bin) != index.bin_size:
            raise IndexedDatasetError(_size_mismatch(prefix, index, len(self._bin)))
        self.dtype = index.dtype
        self.lengths = index.lengths
        self._pointers = index.pointers
        self._boundaries = index.boundaries
        if not len(index.boundaries) or index.boundaries[-1] != len(self):
            warnings.warn(f"{_document_mismatch(prefix, index)}; taking each sequence as one document", stacklevel=2)
            self._boundaries = np.arange(len(self) + 1)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> np.ndarray[Any, Any]:
        return self.get(i)

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        return (self.get(i) for i in range(len(self)))

    def get(self, i: int, offset: int = 0, length: int | None = None) -> np.ndarray[Any, Any]:
        """`length` tokens of sequence `i` from token `offset` on; all the rest of it without `length`.

        Raises: IndexError if there is no such sequence, or it has no such tokens.
        """
        sequence = i + len(self) if i < 0 else i
        if not 0 <= sequence < len(self):
            raise IndexError(f"{self.prefix}: sequence {i} of {len(self)}")
        available = int(self.lengths[sequence])
        count = available - offset if length is None else length
        if offset < 0 or count < 0 or offset + count > available:
            raise IndexError(
                f"{self.prefix}: tokens {offset} to {offset + count} of sequence {i}, which has {available}"
            )
        start = int(self._pointers[sequence]) + offset * self.dtype.itemsize
        try:
            return np.frombuffer(self._bin, self.dtype, count, start)
        except ValueError:
            raise IndexedDatasetError(
                f"{_idx(self.prefix)}: sequence {i} lies at byte {self._pointers[sequence]} of {len(self._bin)}"
            ) from None

    @property
    def document_boundaries(self) -> np.ndarray[Any, Any]:
        """int64 [documents + 1]: document d is the sequences `boundaries[d] .. boundaries[d + 1] - 1`."""
        return self._boundaries

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return int(self.lengths.sum(dtype=np.int64))

    def __reduce__(self) -> tuple[type[IndexedDataset], tuple[Path]]:
        return IndexedDataset, (self.prefix,)


class IndexedWriter:
    """Writes a dataset sequence by sequence, one sequence a document, in constant memory but for 4 bytes a sequence.

    The files carry `.partial` until `finalize`, which renames `.bin`, then `.idx`: a dataset with an `.idx` is whole.
    As a context manager it finalizes at the end of the block, or removes the partial files if the block raised.

        with IndexedWriter(prefix, dtype_for(tokenizer.vocab_size)) as writer:
            writer.add(tokens)

    Raises: IndexedDatasetError for a dtype that the format has no code for.
    """

    def __init__(self, prefix: str | os.PathLike[str], dtype: np.typing.DTypeLike) -> None:
        self.prefix = Path(prefix)
        self.dtype = np.dtype(dtype).newbyteorder("<")
        if self.dtype not in _CODES:
            names = ", ".join(known.name for known in DTYPES.values())
            raise IndexedDatasetError(f"{prefix}: tokens cannot be {np.dtype(dtype).name}; the format has {names}")
        self._lengths = array.array("i")
        self._file: BinaryIO = open(_partial(_bin(prefix)), "wb")  # noqa: SIM115  (closed by finalize or discard)

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, tokens: np.typing.ArrayLike) -> None:
        """Append one sequence, which may be empty. Integers of any dtype are taken if their values fit.

        Raises: IndexedDatasetError naming the sequence and the value that does not fit.
        """
        values = np.asarray(tokens)
        if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
            raise IndexedDatasetError(
                f"{self.prefix}: sequence {len(self)} is {values.dtype} of shape {values.shape}; give integers in a row"
            )
        if values.size > _INT32_MAX:
            raise IndexedDatasetError(
                f"{self.prefix}: sequence {len(self)} has {values.size} tokens; split it, the format holds {_INT32_MAX}"
            )
        if values.size and not np.can_cast(values.dtype, self.dtype):
            _check_range(values, self.dtype, f"{self.prefix}: sequence {len(self)}")
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self._lengths.append(values.size)

    def add_many(self, buffer: bytes | memoryview, lengths: np.ndarray[Any, Any]) -> None:
        """Append concatenated sequences: `buffer` is their tokens in the dataset's dtype, `lengths` counts each one's.

        Raises: IndexedDatasetError if the two do not agree; nothing is written then.
        """
        lengths = np.asarray(lengths)
        if lengths.size and (lengths.min() < 0 or lengths.max() > _INT32_MAX):
            raise IndexedDatasetError(
                f"{self.prefix}: lengths from {lengths.min()} to {lengths.max()}; the format holds 0 to {_INT32_MAX}"
            )
        size, expected = memoryview(buffer).nbytes, int(lengths.sum(dtype=np.int64)) * self.dtype.itemsize
        if size != expected:
            raise IndexedDatasetError(
                f"{self.prefix}: a buffer of {size} bytes for sequences of {expected} bytes ({self.dtype.name} tokens)"
            )
        self._file.write(buffer)
        self._lengths.frombytes(lengths.astype("i").tobytes())

    def add_dataset(self, dataset: IndexedDataset) -> None:
        """Append all sequences of another dataset, block by block.

        Raises: IndexedDatasetError if its dtype is another.
        """
        if dataset.dtype != self.dtype:
            raise IndexedDatasetError(
                f"{dataset.prefix}: {dataset.dtype.name} tokens cannot join {self.prefix}, which has {self.dtype.name}"
            )
        with open(_bin(dataset.prefix), "rb") as source:
            while block := source.read(_BLOCK):
                self._file.write(block)
        self._lengths.frombytes(dataset.lengths.astype("i").tobytes())

    def finalize(self) -> None:
        """Write the index, and give both files their names. The writer takes nothing more."""
        _close_durably(self._file)
        with open(_partial(_idx(self.prefix)), "wb") as index:
            _write_index(index, self.dtype, np.frombuffer(self._lengths, "i"))
            _close_durably(index)
        _idx(self.prefix).unlink(missing_ok=True)  # an older index must never lie beside the new tokens
        for path in (_bin(self.prefix), _idx(self.prefix)):
            os.replace(_partial(path), path)

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        for path in (_bin(self.prefix), _idx(self.prefix)):
            _partial(path).unlink(missing_ok=True)

    def __enter__(self) -> IndexedWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finalize()
        finally:
            self.discard()


def check(prefix: str | os.PathLike[str], vocab_size: int | None = None) -> list[str]:
    """Everything that is wrong with a dataset, one line a problem. Reads the tokens only if `vocab_size` is given.

    Raises: nothing for damaged or missing files: that is what the lines are for.
    """
    try:
        index = _read_index(_idx(prefix))
        tokens = _map(_bin(prefix))
    except (OSError, IndexedDatasetError) as error:
        return [str(error)]
    problems = []
    if len(tokens) != index.bin_size:
        problems.append(_size_mismatch(prefix, index, len(tokens)))
    problems += _check_sequences(prefix, index) + _check_documents(prefix, index)
    if vocab_size is not None and not problems:
        problems += _check_tokens(prefix, index, np.frombuffer(tokens, index.dtype), vocab_size)
    return problems


def _check_sequences(prefix: str | os.PathLike[str], index: _Index) -> list[str]:
    negative = np.flatnonzero(index.lengths < 0)
    if len(negative):
        return [f"{_idx(prefix)}: sequence {negative[0]} has length {index.lengths[negative[0]]}"]
    expected = np.cumsum(index.lengths, dtype=np.int64) * index.dtype.itemsize
    expected = np.concatenate([[0], expected[:-1]])[: len(index.lengths)]
    wrong = np.flatnonzero(index.pointers != expected)
    if len(wrong):
        i = wrong[0]
        return [
            f"{_idx(prefix)}: sequence {i} lies at byte {index.pointers[i]}, and the lengths before it end at "
            f"byte {expected[i]} ({len(wrong)} of {len(index.lengths)} sequences are out of place)"
        ]
    return []


def _check_documents(prefix: str | os.PathLike[str], index: _Index) -> list[str]:
    boundaries = index.boundaries
    if not len(boundaries) or boundaries[-1] != len(index.lengths):
        return [_document_mismatch(prefix, index)]
    problems = []
    if boundaries[0] != 0:
        problems.append(f"{_idx(prefix)}: the first document begins at sequence {boundaries[0]}, not 0")
    falls = np.flatnonzero(np.diff(boundaries) < 0)
    if len(falls):
        d = falls[0]
        problems.append(f"{_idx(prefix)}: document {d} runs from sequence {boundaries[d]} back to {boundaries[d + 1]}")
    return problems


def _check_tokens(
    prefix: str | os.PathLike[str], index: _Index, tokens: np.ndarray[Any, Any], vocab_size: int
) -> list[str]:
    for start in range(0, len(tokens), _BLOCK):
        block = tokens[start : start + _BLOCK]
        if block.min() < 0 or block.max() >= vocab_size:
            position = start + int(np.flatnonzero((block < 0) | (block >= vocab_size))[0])
            sequence = int(np.searchsorted(np.cumsum(index.lengths, dtype=np.int64), position, side="right"))
            return [f"{_bin(prefix)}: token {tokens[position]} in sequence {sequence}; the vocabulary has {vocab_size}"]
    return []


def _read_index(path: Path) -> _Index:
    data = _map(path)
    magic = bytes(data[: len(MAGIC)])
    if magic.startswith(_FAIRSEQ_MAGIC):
        raise IndexedDatasetError(
            f"{path}: TNTIDX, the older fairseq index; tokenise again, or convert it to MMIDIDX with its own tools"
        )
    if magic != MAGIC:
        raise IndexedDatasetError(f"{path}: begins with {magic!r}, not {MAGIC!r}; not an index of tokens")
    if len(data) < _HEADER.size:
        raise IndexedDatasetError(f"{path}: {len(data)} bytes, cut within the header of {_HEADER.size}")
    _, version, code, sequences, boundaries = _HEADER.unpack(data[: _HEADER.size])
    if version != VERSION:
        raise IndexedDatasetError(f"{path}: version {version} of the format; this reads version {VERSION}")
    if code in (6, 7):
        raise IndexedDatasetError(
            f"{path}: dtype code {code} is float32 or float64, depending on the tool; tokens are integers"
        )
    if code not in DTYPES:
        raise IndexedDatasetError(f"{path}: dtype code {code} is unknown; the codes are {', '.join(map(str, DTYPES))}")
    expected = _HEADER.size + 12 * sequences + 8 * boundaries
    if len(data) not in (expected, expected + sequences):
        raise IndexedDatasetError(
            f"{path}: {len(data)} bytes, and the header's {sequences} sequences and {boundaries} document boundaries "
            f"take {expected}; copy or write it again"
        )
    pointers_at = _HEADER.size + 4 * sequences
    return _Index(
        dtype=DTYPES[code],
        lengths=np.frombuffer(data, "<i4", sequences, _HEADER.size),
        pointers=np.frombuffer(data, "<i8", sequences, pointers_at),
        boundaries=np.frombuffer(data, "<i8", boundaries, pointers_at + 8 * sequences),
    )


def _write_index(file: BinaryIO, dtype: np.dtype[Any], lengths: np.ndarray[Any, Any]) -> None:
    count = len(lengths)
    file.write(_HEADER.pack(MAGIC, VERSION, _CODES[dtype], count, count + 1))
    file.write(lengths.astype("<i4").data)
    end = 0
    for start in range(0, count, _BLOCK):
        ends = np.cumsum(lengths[start : start + _BLOCK], dtype=np.int64) * dtype.itemsize + end
        file.write(np.concatenate([[end], ends[:-1]]).astype("<i8").data)
        end = int(ends[-1])
    for start in range(0, count + 1, _BLOCK):
        file.write(np.arange(start, min(start + _BLOCK, count + 1), dtype="<i8").data)


def _map(path: Path) -> mmap.mmap | bytes:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # mmap refuses an empty file
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _check_range(values: np.ndarray[Any, Any], dtype: np.dtype[Any], where: str) -> None:
    limits = np.iinfo(dtype)
    for value in (values.min(), values.max()):
        if not limits.min <= value <= limits.max:
            raise IndexedDatasetError(f"{where} has token {value}, which {dtype.name} cannot hold")


def _close_durably(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _size_mismatch(prefix: str | os.PathLike[str], index: _Index, size: int) -> str:
    return (
        f"{_bin(prefix)}: {size} bytes, and {_idx(prefix)} says {index.bin_size} ({len(index.lengths)} sequences of "
        f"{index.dtype.name}); the two do not belong together, or one was cut"
    )


def _document_mismatch(prefix: str | os.PathLike[str], index: _Index) -> str:
    last = index.boundaries[-1] if len(index.boundaries) else "nothing"
    return f"{_idx(prefix)}: the document array ends at {last}, and there are {len(index.lengths)} sequences"


def _bin(prefix: str | os.PathLike[str]) -> Path:
    return Path(f"{os.fspath(prefix)}.bin")


def _idx(prefix: str | os.PathLike[str]) -> Path:
    return Path(f"{os.fspath(prefix)}.idx")


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")
