"""Which of many segments may cover a bucket, without a look at each of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from gapless.model.index import Identity
from gapless.model.segment import Segment, meeting

_DROPPED_BITS = 6
_LEAST, _MOST = -(2**63), 2**63 - 1
_SEVERAL = 0
"""The code of segments that hold several identities."""


class SegmentIndex:
    """The bounds and identities of segments as arrays: a value, which answers as `meeting` does on the segments themselves."""

    __slots__ = ("_codes", "_columns", "segments")

    segments: tuple[Segment, ...]
    """What it was made of, in order."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        """Index segments."""
        self.segments = tuple(segments)
        self._codes: dict[Identity, int] = {}
        self._columns = _columns(self.segments, self._codes)

    def extended(self, more: Iterable[Segment]) -> SegmentIndex:
        """One of these segments and then `more`; looks at those only."""
        added, made = tuple(more), SegmentIndex()
        made.segments = self.segments + added
        made._codes = dict(self._codes)
        made._columns = np.concatenate([self._columns, _columns(added, made._codes)], axis=1)
        return made

    def meeting(self, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        """See `gapless.model.segment.meeting`."""
        first, last, code = self._columns
        near = (first <= _coarse(end - 1)) & (last >= _coarse(start))
        if self._codes:
            near &= self._wanted(identities)[code]
        # Coarse bounds let some through that do not meet.
        return meeting((self.segments[at] for at in np.flatnonzero(near).tolist()), start, end, identities)

    def _wanted(self, identities: frozenset[Identity]) -> npt.NDArray[np.bool_]:
        """By code, whether it is that of one of the identities, or of several."""
        wanted = np.zeros(len(self._codes) + 1, dtype=bool)
        wanted[_SEVERAL] = True
        small, large = sorted((identities, self._codes.keys()), key=len)
        wanted[[self._codes[identity] for identity in small if identity in large]] = True
        return wanted


def _columns(segments: tuple[Segment, ...], codes: dict[Identity, int]) -> npt.NDArray[np.int64]:
    """First and last index value, coarsely, and code of each segment; `codes` takes in identities that are new."""
    columns = np.empty((3, len(segments)), dtype=np.int64)
    columns[0] = [_coarse(s.bounds.first) for s in segments]
    columns[1] = [_coarse(s.bounds.last) for s in segments]
    columns[2] = [_SEVERAL if s.identity is None else codes.setdefault(s.identity, len(codes) + 1) for s in segments]
    return columns


def _coarse(value: int) -> int:
    """An index value in 64 bits, in steps of 64: so do uint64 and the years 1 to 9999 in nanoseconds fit. Order stays."""
    return max(_LEAST, min(value >> _DROPPED_BITS, _MOST))
