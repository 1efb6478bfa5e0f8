"""Segments put together into the partitions of a read: pure."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.model.segment import Segment

_MOST_BYTES = 128 << 20
_OPEN_BYTES = 1 << 20
"""What opening a file costs, as bytes that could be read meanwhile."""
_ROW_BYTES = 32
"""A guess, where another writer left the size out."""


def packs_of(segments: Iterable[Segment], cores: int) -> list[tuple[Segment, ...]]:
    """The segments, in their order, in packs of about one size: about as many as cores, more where they would be above 128 MiB.

    No packs without segments. A segment is never divided, and small ones lie together however many they are.
    """
    segments = tuple(segments)
    total = sum(map(_weight, segments))
    most = min(_MOST_BYTES, -(-total // max(1, cores)))
    packs: list[list[Segment]] = []
    room = 0
    for segment in segments:
        if not packs or _weight(segment) > room:
            packs.append([])
            room = most
        packs[-1].append(segment)
        room -= _weight(segment)
    return [tuple(pack) for pack in packs]


def _weight(segment: Segment) -> int:
    size = segment.rows * _ROW_BYTES if segment.size is None else segment.size
    return size + _OPEN_BYTES
