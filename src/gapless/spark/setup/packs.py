"""Data files put together into the partitions of a read. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from gapless.model.segment import Segment

_MOST_BYTES = 128 << 20
_OPEN_BYTES = 1 << 20
"""What opening a file costs, as bytes that could be read meanwhile."""
_ROW_BYTES = 32
"""A guess, where another writer left the size out."""


class SizedFile(Protocol):
    """A data file of a read."""

    @property
    def size(self) -> int | None:
        """Bytes, where they are known."""
        ...


File = TypeVar("File", bound=SizedFile)


def packs_of(files: Iterable[File], cores: int) -> list[tuple[File, ...]]:
    """The files, in their order, in packs of about one size: about as many as cores, more where they would be above 128 MiB.

    No packs without files. A file is never divided, and small ones lie together however many they are.
    """
    files = tuple(files)
    total = sum(map(_weight, files))
    most = min(_MOST_BYTES, -(-total // max(1, cores)))
    packs: list[list[File]] = []
    room = 0
    for file in files:
        if not packs or _weight(file) > room:
            packs.append([])
            room = most
        packs[-1].append(file)
        room -= _weight(file)
    return [tuple(pack) for pack in packs]


def _weight(file: SizedFile) -> int:
    # Another writer may have left the size out of a segment.
    size = file.rows * _ROW_BYTES if isinstance(file, Segment) and file.size is None else file.size or 0
    return size + _OPEN_BYTES
