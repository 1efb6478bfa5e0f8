"""Rows in the order of keys, sorted by way of a file where memory does not hold them: an external merge sort. Pure: files are handed in."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from gapless.documents.spill.blocks import Block, Spilling, packed, unpacked
from gapless.documents.spill.memory import ROW_BYTES, Memory

_MOST_RUNS = 128
"""Runs that are merged at once, a block of each in memory."""
_PART = 2 * _MOST_RUNS
_key = itemgetter(0)
Row = tuple[bytes, bytes]
Run = list[Block]


class Sorter(Spilling):
    """Rows, each a key of bytes with a value; those of equal keys stay in the order in which they came."""

    def __init__(self, memory: Memory, most: int | None = None) -> None:
        super().__init__(memory)
        self._most = most
        """How many rows are asked for at most: the first."""
        self._runs: list[Run] = []
        self._held: list[Row] = []
        self._bytes = 0

    def add(self, key: bytes, value: object) -> None:
        """Take one more. Raises StorageFull."""
        data = packed(value)
        self._held.append((key, data))
        self._bytes += len(key) + len(data) + ROW_BYTES
        if self._bytes > self._memory.limit:
            self._spill()

    def __iter__(self) -> Iterator[tuple[bytes, Any]]:
        """All rows in order, once. Raises StorageFull."""
        self._sort()
        runs: list[Iterable[Row]] = [*map(self._read, self._runs), self._held]
        merged = heapq.merge(*runs, key=_key) if self._runs else self._held
        return ((key, unpacked(data)) for key, data in islice(merged, self._most))

    def _sort(self) -> None:
        self._held.sort(key=_key)
        if self._most is not None:
            del self._held[self._most :]

    def _spill(self) -> None:
        self._sort()
        self._bytes = sum(len(key) + len(data) + ROW_BYTES for key, data in self._held)
        if self._bytes <= self._memory.limit // 2:
            # The first rows alone are wanted, and memory holds them.
            return
        self._runs.append(self._written(self._held))
        self._held = []
        self._bytes = 0
        if len(self._runs) == _MOST_RUNS:
            merged = heapq.merge(*map(self._read, self._runs), key=_key)
            self._runs = [self._written(islice(merged, self._most))]

    def _written(self, rows: Iterable[Row]) -> Run:
        run: Run = []
        part: list[Row] = []
        taken = 0
        for one in rows:
            part.append(one)
            taken += len(one[0]) + len(one[1]) + ROW_BYTES
            if taken > self._memory.limit // _PART:
                run.append(self._blocks.write(part))
                part, taken = [], 0
        if part:
            run.append(self._blocks.write(part))
        return run

    def _read(self, run: Run) -> Iterator[Row]:
        for block in run:
            yield from self._blocks.read(block)
