"""The live segments of a log checkpoint: those of its parts, which are read on access, and loose ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gapless.formats.timeseries.actions import LiveSegment, parse_own_name
from gapless.formats.timeseries.checkpoint.part import PartRef, PartRows
from gapless.model.index import Identity
from gapless.model.segment import May, Segment, coarse, overlapping

PartRequest = tuple[PartRef, frozenset[int]]
"""A part that is to be read, and the ordinals in it that need not be there."""
ReadParts = Callable[[Sequence[PartRequest]], "list[PartRows]"]
"""Reads parts, in order. Raises CorruptTable, StoreError."""
READ_TOGETHER = 32
_NONE: frozenset[int] = frozenset()


class CheckpointPart:
    """A part that is read once, when its segments are first asked for. Many versions share one."""

    __slots__ = ("reader", "ref", "rows")

    rows: PartRows | None
    """What it holds; None before it was read."""

    def __init__(self, ref: PartRef, reader: ReadParts, rows: PartRows | None = None) -> None:
        """`rows` are what it holds, where that is known already."""
        self.ref, self.reader, self.rows = ref, reader, rows

    @property
    def is_recovered(self) -> bool:
        """Whether it was read, and was not there to be read."""
        return self.rows is not None and self.rows.is_recovered

    def holds(self, gone: frozenset[int]) -> bool:
        """Whether all was read that is needed where some ordinals are gone."""
        return self.rows is not None and self.rows.missing <= gone

    @staticmethod
    def read(wanted: Iterable[tuple[CheckpointPart, frozenset[int]]]) -> None:
        """Read those that were not yet, together; none of them needs the ordinals that are gone."""
        unread = [(part, gone) for part, gone in wanted if not part.holds(gone)]
        if unread:
            found = unread[0][0].reader([(part.ref, gone) for part, gone in unread])
            for (part, _), rows in zip(unread, found, strict=True):
                part.rows = rows


class PartIndex:
    """Parts in the order their segments became live, with what tells which of them must be read: a value."""

    __slots__ = ("_first", "_from", "_last", "_other_names", "_to", "parts", "total")

    def __init__(self, parts: tuple[CheckpointPart, ...]) -> None:
        self.parts = parts
        self.total = sum(part.ref.segments for part in parts)
        refs = [part.ref for part in parts]
        self._first = np.array([coarse(ref.first) for ref in refs], dtype=np.int64)
        self._last = np.array([coarse(ref.last) for ref in refs], dtype=np.int64)
        self._other_names = np.array([ref.other_names for ref in refs], dtype=bool)
        self._from = np.array([1 if ref.instants is None else coarse(ref.instants[0]) for ref in refs], dtype=np.int64)
        self._to = np.array([0 if ref.instants is None else coarse(ref.instants[1]) for ref in refs], dtype=np.int64)

    def near(self, start: int, end: int, identities: frozenset[Identity]) -> list[int]:
        """The numbers of the parts that may hold a segment which `overlapping` gives."""
        if not self.parts:
            return []
        near = (self._first <= coarse(end - 1)) & (self._last >= coarse(start))
        return [number for number in np.flatnonzero(near).tolist() if _holds(self.parts[number].ref, identities)]

    def candidates(self, may: May) -> list[int]:
        """The numbers of the parts that may hold a segment which may be wanted."""
        return [number for number, part in enumerate(self.parts) if _may(part.ref, may)]

    def holding(self, path: str) -> list[int]:
        """The numbers of the parts that may hold the segment with this path, by the instant in its name."""
        if not self.parts:
            return []
        name = parse_own_name(path)
        if name is None or name.instant_ns is None:
            fit = self._other_names
        else:
            fit = (self._from <= coarse(name.instant_ns)) & (self._to >= coarse(name.instant_ns))
        found: list[int] = np.flatnonzero(fit).tolist()
        return found


def _holds(ref: PartRef, identities: frozenset[Identity]) -> bool:
    return ref.identities is None or any(one is None or one in identities for one in ref.identities)


def _may(ref: PartRef, may: May) -> bool:
    if not may(ref.first, ref.last, None):
        return False
    return ref.identities is None or any(may(ref.first, ref.last, one) for one in ref.identities)


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointSegments(Mapping[str, LiveSegment]):
    """Live segments by path, in the order they became live: those of parts come before loose ones."""

    index: PartIndex
    gone: Mapping[int, frozenset[int]]
    """By the number of a part, the ordinals of its segments that are live no more."""
    loose: dict[str, LiveSegment]
    version: int
    """The version of the log checkpoint whose parts these are; 0 where there are none."""

    @classmethod
    def of(cls, loose: dict[str, LiveSegment]) -> CheckpointSegments:
        """Loose segments alone."""
        return cls(PartIndex(()), {}, loose, 0)

    def count(self, number: int) -> int:
        """How many segments of a part are live."""
        return self.index.parts[number].ref.segments - len(self.gone.get(number, _NONE))

    def rows(self, number: int) -> PartRows:
        """What a part holds."""
        part = self.index.parts[number]
        if not part.holds(self.gone.get(number, _NONE)):
            self.read([number])
        assert part.rows is not None
        return part.rows

    def read(self, numbers: Sequence[int]) -> None:
        """Read parts of which anything is live, several at a time, where they were not read yet."""
        live = [number for number in numbers if self.count(number)]
        for first in range(0, len(live), READ_TOGETHER):
            some = live[first : first + READ_TOGETHER]
            CheckpointPart.read((self.index.parts[number], self.gone.get(number, _NONE)) for number in some)

    def taken(self, number: int) -> Iterator[tuple[str, LiveSegment]]:
        """Path and segment of all that are live of a part, in order; reads none where all are gone."""
        return self.rows(number).taken(self.gone.get(number, _NONE)) if self.count(number) else iter(())

    def locate(self, path: str) -> tuple[int, int] | None:
        """Part and ordinal of the live segment with this path; None where no part holds it."""
        for number in self.index.holding(path):
            if self.count(number):
                ordinal = self.rows(number).find(path)
                if ordinal is not None and ordinal not in self.gone.get(number, _NONE):
                    return number, ordinal
        return None

    def changed(self, new: Mapping[str, LiveSegment], gone: set[str]) -> CheckpointSegments:
        """Without the paths that are gone, and then with new segments."""
        lost: defaultdict[int, set[int]] = defaultdict(set)
        for path in (gone | new.keys()) - self.loose.keys():
            if (place := self.locate(path)) is not None:
                lost[place[0]].add(place[1])
        left = {**self.gone, **{number: self.gone.get(number, _NONE) | some for number, some in lost.items()}}
        kept = {path: one for path, one in self.loose.items() if path not in gone} if gone else self.loose
        return CheckpointSegments(self.index, left, {**kept, **new}, self.version)

    def flat(self) -> dict[str, LiveSegment]:
        """All of them, in order."""
        found: dict[str, LiveSegment] = {}
        numbers = range(len(self.index.parts))
        self.read(numbers)
        for number in numbers:
            found.update(self.taken(number))
        return found | self.loose

    def overlapping(self, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        """The segments of parts, in order, that may cover a bucket of `[start, end)` for one of the identities."""
        found: list[Segment] = []
        self.read(numbers := self.index.near(start, end, identities))
        for number in numbers:
            if self.count(number):
                rows = self.rows(number)
                near = self._chosen(number, rows, rows.columns.near(start, end, identities))
                found += overlapping(near, start, end, identities)
        return found

    def candidates(self, may: May) -> list[Segment]:
        """The segments of parts, in order, that may be wanted, and few others."""
        found: list[Segment] = []
        self.read(numbers := self.index.candidates(may))
        for number in numbers:
            if self.count(number):
                rows = self.rows(number)
                found += self._chosen(number, rows, rows.columns.candidates(may))
        return found

    def of_versions(self, start: int, end: int) -> Iterator[LiveSegment]:
        """Those that became live in a version of `[start, end]`, in order."""
        for number, part in enumerate(self.index.parts):
            if part.ref.start <= end and part.ref.end >= start:
                yield from (one for _, one in self.taken(number) if start <= one.version <= end)
        yield from (one for one in self.loose.values() if start <= one.version <= end)

    def _chosen(self, number: int, rows: PartRows, places: list[int]) -> Iterator[Segment]:
        gone = self.gone.get(number, _NONE)
        return (rows[rows.ordinals[at]].segment for at in places if rows.ordinals[at] not in gone)

    def __getitem__(self, path: str) -> LiveSegment:
        """A segment; KeyError where it is not live."""
        if (found := self.loose.get(path)) is not None:
            return found
        if (place := self.locate(path)) is None:
            raise KeyError(path)
        return self.rows(place[0])[place[1]]

    def __contains__(self, path: object) -> bool:
        """Whether a segment is live."""
        return path in self.loose or (isinstance(path, str) and self.locate(path) is not None)

    def __iter__(self) -> Iterator[str]:
        """Paths in order."""
        return iter(self.flat())

    def __len__(self) -> int:
        """How many are live; reads nothing."""
        return self.index.total - sum(map(len, self.gone.values())) + len(self.loose)
