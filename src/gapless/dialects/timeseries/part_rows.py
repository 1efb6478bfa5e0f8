"""What a part of a log checkpoint holds, once it was read: bounds at hand, bodies decoded when they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gapless.dialects.timeseries.actions import LiveSegment
from gapless.dialects.timeseries.segment_codec import decode_segment
from gapless.errors import CorruptTable
from gapless.model.segment_index import SegmentColumns

_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


class PartRows:
    """The segments of a part by ordinal. What was decoded is kept, and the text of all where it was needed for one."""

    __slots__ = (
        "_bodies",
        "_known",
        "_ordinals",
        "_paths",
        "_place",
        "_versions",
        "columns",
        "is_recovered",
        "missing",
        "ordinals",
    )

    columns: SegmentColumns
    """Bounds and identities, one for each of `ordinals`."""
    ordinals: Sequence[int]
    """Which segments of the part these are: all of them, but for a part that was lost and put together again."""

    is_recovered: bool
    """Whether the part was lost, and this was put together from elsewhere."""
    missing: frozenset[int]
    """The ordinals of which nothing is known any more: who needs them must look for the part again."""

    def __init__(self, columns: SegmentColumns, known: dict[int, LiveSegment], place: str) -> None:
        """Decoded segments by ordinal, in order; `place` is the part's path, for messages."""
        self.columns, self.ordinals = columns, tuple(known)
        self.is_recovered, self.missing = False, frozenset()
        self._known, self._place = known, place
        self._ordinals: dict[str, int] | None = None
        self._paths: Any = None
        self._versions: Sequence[int] = ()
        self._bodies: Any = None

    @classmethod
    def of(cls, known: Mapping[int, LiveSegment], place: str) -> PartRows:
        """Those of decoded segments by ordinal, in order."""
        return cls(SegmentColumns.of(one.segment for one in known.values()), dict(known), place)

    @classmethod
    def recovered(cls, known: Mapping[int, LiveSegment], place: str, count: int) -> PartRows:
        """Those of a part that was lost and had `count` segments, as far as they were needed and are known."""
        made = cls.of(known, place)
        made.is_recovered, made.missing = True, frozenset(range(count)).difference(known)
        return made

    @classmethod
    def stored(cls, *, columns: SegmentColumns, paths: Any, versions: Sequence[int], bodies: Any, place: str) -> PartRows:
        """Those of a part's columns, paths and bodies as Arrow has them."""
        made = cls(columns, {}, place)
        made.ordinals = range(len(versions))
        made._paths, made._versions, made._bodies = paths, versions, bodies
        return made

    def __getitem__(self, ordinal: int) -> LiveSegment:
        """A segment. Raises CorruptTable where it cannot be decoded, or could not be put together again."""
        found = self._known.get(ordinal)
        if found is None:
            found = self._known[ordinal] = self._decoded(ordinal)
        return found

    def taken(self, gone: frozenset[int]) -> Iterator[tuple[str, LiveSegment]]:
        """Path and segment of all but the ordinals that are gone, in order."""
        for ordinal in self.ordinals:
            if ordinal not in gone:
                found = self[ordinal]
                yield found.segment.path, found
        if self._bodies is not None and len(self._known) == len(self._versions):
            self._bodies = None  # all are decoded

    def find(self, path: str) -> int | None:
        """The ordinal of the segment with this path; None where there is none."""
        if self._ordinals is None:
            if self._paths is None:
                self._ordinals = {one.segment.path: ordinal for ordinal, one in self._known.items()}
            else:
                self._ordinals = {name: ordinal for ordinal, name in enumerate(self._paths.to_pylist())}
        return self._ordinals.get(path)

    def _decoded(self, ordinal: int) -> LiveSegment:
        bodies = self._bodies
        try:
            if bodies is None:
                return self._known[ordinal]  # another thread decoded the last of them just now
            return LiveSegment(decode_segment(json.loads(bodies[ordinal].as_py())), self._versions[ordinal])
        except _DAMAGE as error:
            raise CorruptTable(
                f"segment {ordinal} of the part {self._place} of a log checkpoint cannot be read",
                why="Whoever wrote the part broke the format"
                if bodies is not None
                else "The part is lost, and what it said of it",
                fix="Open the table again; run `gapless verify` if that does not help",
                path=self._place,
            ) from error
