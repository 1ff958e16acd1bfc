"""The bytes of a decompressed file from the current record on, filled piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from corpus.sources.compression import Piece
from corpus.sources.record import Failure


class Window:
    """Moves forward over pieces. It never reaches over damage: `damage` then says what happened.

    While `data` is a bytearray, views of it must be released before the next `fill`.
    """

    def __init__(self, pieces: Iterator[Piece | Failure]) -> None:
        self._pieces = pieces
        self._members: deque[tuple[int, int]] = deque()  # position of the first byte, and offset in the file
        self._position = 0  # in the decompressed file, of data[0]
        self._last_offset = -1
        self.data: bytes | bytearray = b""
        self.start = 0  #: Index in `data` of the current record.
        self.ends_member = False  #: Whether a member ends with the last byte of `data`.
        self.damage: Failure | None = None

    @property
    def held(self) -> int:
        """Bytes of the current record, and what follows it, that are in `data`."""
        return len(self.data) - self.start

    def fill(self, size: int) -> bool:
        """Hold at least `size` bytes; False if the data ends, or is damaged, before that."""
        while (
            len(self.data) - self.start < size
            and self.damage is None
            and (piece := next(self._pieces, None)) is not None
        ):
            if isinstance(piece, Failure):
                self.damage = piece
            else:
                self._append(piece)
        return len(self.data) - self.start >= size

    def skip(self, size: int) -> None:
        """Move forward by `size` bytes, at most to the end of the member or of the data, holding no more than a piece."""
        while size > self.held:
            size -= self.held
            self.start = len(self.data)
            if self.ends_member or not self.fill(1):
                return
        self.start += size

    def pass_damage(self) -> bool:
        """Go on behind the damage, where a new member begins; False at the end of the file."""
        self.start = len(self.data)
        self.damage = None
        return self.fill(1) or self.damage is not None

    def offset(self) -> int:
        """A number for the record that begins here, which no other record of the file has.

        It is the offset in the file of the compressed member that begins here. A record inside a member gets the number
        after that of the record before it; without members, it is the offset of the record itself.
        """
        position = self._position + self.start
        while len(self._members) > 1 and self._members[1][0] <= position:
            self._members.popleft()
        place = self._members[0][1] if self._members else position
        self._last_offset = max(place, self._last_offset + 1)
        return self._last_offset

    def _append(self, piece: Piece) -> None:
        end = self._position + len(self.data)
        if piece.member is not None and not (self._members and self._members[-1][1] == piece.member):
            self._members.append((end, piece.member))
        self.ends_member = piece.ends_member
        if self.held == 0:
            self.data, self.start, self._position = piece.data, 0, end
            return
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        if self.start > len(self.data) // 2:
            del self.data[: self.start]
            self._position, self.start = self._position + self.start, 0
        self.data += piece.data
