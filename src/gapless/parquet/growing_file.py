"""A file in the making: held as the pieces in which it came, so that nothing is copied, or handed on at once."""

from __future__ import annotations

from collections.abc import Callable

import xxhash

from gapless.model.checksum import ALGORITHM
from gapless.parquet.page import Bytes


class GrowingFile:
    """Takes bytes in, and knows their count and checksum at any time."""

    def __init__(self, onto: Callable[..., object] | None = None) -> None:
        """Hold the bytes, or give them to `onto`."""
        self._onto = onto
        self._last = memoryview(b"")
        self._pieces: list[memoryview] = []
        self._size = 0
        self._hash = xxhash.xxh3_128()

    def write(self, *pieces: Bytes) -> None:
        """Add bytes; they must not change any more."""
        if self._onto is None:
            self._pieces += map(memoryview, pieces)
        else:
            self._onto(*pieces)
        self._last = memoryview(pieces[-1])
        self._size += sum(map(len, pieces))
        for piece in pieces:
            self._hash.update(piece)

    def tell(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def pieces(self) -> tuple[memoryview, ...]:
        """The bytes, as they came; none where they were handed on."""
        return tuple(self._pieces)

    @property
    def last(self) -> memoryview:
        """What came last."""
        return self._last

    @property
    def checksum(self) -> str:
        """The checksum of all bytes, as the log has it."""
        return f"{ALGORITHM}:{self._hash.hexdigest()}"
