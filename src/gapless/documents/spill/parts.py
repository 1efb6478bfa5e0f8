"""Rows by parts, so that each part is looked at by itself. Pure: files are handed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gapless.documents.spill.blocks import Block, Spilling, packed, unpacked
from gapless.documents.spill.memory import ROW_BYTES, Memory

COUNT = 128
_PART = 4


class Parts(Spilling):
    """Parts of rows, each in the order in which its rows came."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self._limit = memory.limit // _PART
        self._stored: list[list[Block]] = [[] for _ in range(COUNT)]
        self._held: list[list[bytes]] = [[] for _ in range(COUNT)]
        self._bytes = 0

    def add(self, part: int, row: object) -> None:
        """Put a row into a part. Raises StorageFull."""
        data = packed(row)
        self._held[part].append(data)
        self._bytes += len(data) + ROW_BYTES
        if self._bytes > self._limit:
            self._spill()

    def read(self, part: int) -> Iterator[Any]:
        """The rows of a part."""
        for block in self._stored[part]:
            yield from map(unpacked, self._blocks.read(block))
        yield from map(unpacked, self._held[part])

    def _spill(self) -> None:
        for held, stored in zip(self._held, self._stored, strict=True):
            if held:
                stored.append(self._blocks.write(held))
                held.clear()
        self._bytes = 0
