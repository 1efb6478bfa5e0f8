"""How much a stage may hold in memory, and where the rest goes. Pure: files are handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from sys import getsizeof
from typing import BinaryIO

DEFAULT_LIMIT = 100_000_000
"""Bytes that a stage holds, as MongoDB has it."""
LEAST_LIMIT = 1_000_000
ROW_BYTES = 160
"""What a row takes beside its bytes: the objects that hold them, and a place in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of one stage."""

    limit: int
    """Bytes."""
    open: Callable[[], BinaryIO]
    """A new file, which is gone when it is closed. Raises StorageFull."""


UNBOUNDED = Memory(limit=1 << 62, open=BytesIO)
"""No limit."""


def size_of(value: object) -> int:
    """About how many bytes a value takes in memory.

    >>> size_of({"a": "x" * 1000}) > 1000
    True
    """
    size = getsizeof(value)
    if isinstance(value, Mapping):
        return size + sum(size_of(name) + size_of(one) for name, one in value.items())
    if isinstance(value, list | tuple):
        return size + sum(map(size_of, value))
    return size
