"""Values in the order in which they came, gone through as often as is wanted. Pure: files are handed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gapless.documents.spill.blocks import Block, Spilling, packed, unpacked
from gapless.documents.spill.memory import ROW_BYTES, Memory

_PART = 64
"""A block is so small a part of the limit."""


class Spool(Spilling):
    """Values, packed; beyond the memory's limit they lie in a file."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self._stored: list[Block] = []
        self._held: list[bytes] = []
        self._bytes = 0
        self._count = 0

    @property
    def spilled(self) -> bool:
        """Whether a part lies in the file."""
        return bool(self._stored)

    def add(self, value: object) -> None:
        """Keep one more. Raises StorageFull."""
        data = packed(value)
        self._held.append(data)
        self._count += 1
        self._bytes += len(data) + ROW_BYTES
        if self._bytes > self._memory.limit:
            self._spill()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        for block in self._stored:
            yield from map(unpacked, self._blocks.read(block))
        yield from map(unpacked, self._held)

    def _spill(self) -> None:
        for part in parts_of(self._held, self._memory.limit // _PART, ROW_BYTES):
            self._stored.append(self._blocks.write(part))
        self._held.clear()
        self._bytes = 0


def parts_of(rows: list[bytes], size: int, beside: int) -> Iterator[list[bytes]]:
    """Rows in parts of about so many bytes."""
    start = taken = 0
    for place, one in enumerate(rows):
        taken += len(one) + beside
        if taken > size:
            yield rows[start : place + 1]
            start, taken = place + 1, 0
    if start < len(rows):
        yield rows[start:]
