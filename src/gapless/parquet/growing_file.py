"""A file in the making: held as the pieces in which it came, so that nothing is copied."""

from __future__ import annotations

import pyarrow as pa
import xxhash

from gapless.model.checksum import ALGORITHM


class GrowingFile:
    """Takes bytes in, and knows their count and checksum at any time."""

    def __init__(self) -> None:
        self._last = memoryview(b"")
        self._pieces: list[memoryview] = []
        self._size = 0
        self._hash = xxhash.xxh3_128()

    def write(self, data: bytes | pa.Buffer) -> None:
        """Add bytes; they must not change any more."""
        view = self._last = memoryview(data)
        self._pieces.append(view)
        self._size += view.nbytes
        self._hash.update(view)

    def tell(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def pieces(self) -> tuple[memoryview, ...]:
        """The bytes, as they came."""
        return tuple(self._pieces)

    @property
    def last(self) -> memoryview:
        """What came last."""
        return self._last

    @property
    def checksum(self) -> str:
        """The checksum of all bytes, as the log has it."""
        return f"{ALGORITHM}:{self._hash.hexdigest()}"
