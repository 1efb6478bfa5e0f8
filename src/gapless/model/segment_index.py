"""Which of many segments may cover a bucket, without a look at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from gapless.model.index import Identity
from gapless.model.segment import Segment, meeting

_DROPPED_BITS = 6
_LEAST, _MOST = -(2**63), 2**63 - 1
_SEVERAL = 0
"""The code of segments that hold several identities."""

May = Callable[["int | None", "int | None", "Identity | None"], bool]
"""Whether a segment may be wanted that has no index value before the first and none after the second of these (both inclusive, None:
not known), and rows of that identity alone (None: of any)."""


class SegmentColumns:
    """The bounds and identities of segments as arrays: a value, which says by place which segments may be meant."""

    __slots__ = ("_codes", "_columns")

    def __init__(self, columns: npt.NDArray[np.int64], codes: dict[Identity, int]) -> None:
        """`columns` are first and last index value, coarsely, and code of each segment; `codes` those of the identities, from 1."""
        self._columns, self._codes = columns, codes

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> SegmentColumns:
        """Those of segments, in order."""
        codes: dict[Identity, int] = {}
        return cls(_columns(tuple(segments), codes), codes)

    def extended(self, more: tuple[Segment, ...]) -> SegmentColumns:
        """Those of these segments and then `more`; looks at those only."""
        codes = dict(self._codes)
        return SegmentColumns(np.concatenate([self._columns, _columns(more, codes)], axis=1), codes)

    def near(self, start: int, end: int, identities: frozenset[Identity]) -> list[int]:
        """The places of those that `gapless.model.segment.meeting` may give, and of few others: bounds are coarse here."""
        first, last, code = self._columns
        near = (first <= coarse(end - 1)) & (last >= coarse(start))
        if self._codes:
            near &= self._wanted(identities)[code]
        found: list[int] = np.flatnonzero(near).tolist()
        return found

    def candidates(self, may: May) -> list[int]:
        """The places of those that may be wanted, and of few others."""
        first, last, code = self._columns
        if not len(first):
            return []
        low, high = fine(int(first.min()))[0], fine(int(last.max()))[1]
        wanted = np.zeros(len(self._codes) + 1, dtype=bool)
        identities: dict[int, Identity] = {code: identity for identity, code in self._codes.items()}
        for number in range(len(wanted)):
            wanted[number] = may(low, high, identities.get(number))
        places: list[int] = np.flatnonzero(wanted[code]).tolist()
        return [at for at in places if may(fine(int(first[at]))[0], fine(int(last[at]))[1], identities.get(int(code[at])))]

    def _wanted(self, identities: frozenset[Identity]) -> npt.NDArray[np.bool_]:
        """By code, whether it is that of one of the identities, or of several."""
        wanted = np.zeros(len(self._codes) + 1, dtype=bool)
        wanted[_SEVERAL] = True
        small, large = sorted((identities, self._codes.keys()), key=len)
        wanted[[self._codes[identity] for identity in small if identity in large]] = True
        return wanted


class SegmentIndex:
    """Segments with their columns: a value, which answers as `meeting` does on the segments themselves."""

    __slots__ = ("_columns", "segments")

    segments: tuple[Segment, ...]
    """What it was made of, in order."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        """Index segments."""
        self.segments = tuple(segments)
        self._columns = SegmentColumns.of(self.segments)

    def extended(self, more: Iterable[Segment]) -> SegmentIndex:
        """One of these segments and then `more`; looks at those only."""
        added, made = tuple(more), SegmentIndex()
        made.segments = self.segments + added
        made._columns = self._columns.extended(added)
        return made

    def meeting(self, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        """See `gapless.model.segment.meeting`."""
        if not self.segments:
            return []
        # Coarse bounds let some through that do not meet.
        return meeting((self.segments[at] for at in self._columns.near(start, end, identities)), start, end, identities)


def stored_columns(
    first: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    known: Mapping[int, Identity | None],
) -> SegmentColumns:
    """Columns from coarse bounds and the number of each segment's identity, of which `known` says what it is; None is several."""
    codes: dict[Identity, int] = {}
    of_place = np.zeros(max(known, default=0) + 1, dtype=np.int64)
    for number, identity in known.items():
        of_place[number] = _code_of(identity, codes)
    return SegmentColumns(np.stack([first, last, of_place[place]]), codes)


def coarse(value: int) -> int:
    """An index value in 64 bits, in steps of 64: so do uint64 and the years 1 to 9999 in nanoseconds fit. Order stays."""
    return max(_LEAST, min(value >> _DROPPED_BITS, _MOST))


def fine(value: int) -> tuple[int | None, int | None]:
    """The smallest and the largest index value that look like this coarsely; None where there is none."""
    low = None if value == _LEAST else value << _DROPPED_BITS
    return low, None if value == _MOST else ((value + 1) << _DROPPED_BITS) - 1


def _columns(segments: tuple[Segment, ...], codes: dict[Identity, int]) -> npt.NDArray[np.int64]:
    """First and last index value, coarsely, and code of each segment; `codes` takes in identities that are new."""
    columns = np.empty((3, len(segments)), dtype=np.int64)
    columns[0] = [coarse(s.bounds.first) for s in segments]
    columns[1] = [coarse(s.bounds.last) for s in segments]
    columns[2] = [_code_of(s.identity, codes) for s in segments]
    return columns


def _code_of(identity: Identity | None, codes: dict[Identity, int]) -> int:
    return _SEVERAL if identity is None else codes.setdefault(identity, len(codes) + 1)
