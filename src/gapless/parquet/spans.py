"""Stretches of rows that are near a filter: few and long ones, since what lies between two of them is only left out where that is pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

GAP_ROWS = 16_384
"""Fewer rows than these between two stretches are read with them: pages have about as many."""

Rows = npt.NDArray[np.int64]
Span = tuple[int, int]
"""The rows `[first, end)`, of which there is one at least."""


@dataclass(frozen=True, slots=True)
class Near:
    """Rows among which are all that a filter keeps."""

    spans: tuple[Span, ...]
    """Ascending, with `GAP_ROWS` between them at least."""
    exact: bool
    """Whether none are among them that it does not keep."""

    @property
    def hull(self) -> Span:
        """From the first to the last; none where both are the same."""
        return (self.spans[0][0], self.spans[-1][1]) if self.spans else (0, 0)

    @property
    def rows(self) -> int:
        """How many there are, with what is read along between them."""
        return sum(end - first for first, end in self.spans) + GAP_ROWS * max(0, len(self.spans) - 1)

    def both(self, other: Near) -> Near:
        """The rows that are among these and those.

        >>> Near(((0, 10), (20, 30)), True).both(Near(((5, 25),), True))
        Near(spans=((5, 10), (20, 25)), exact=True)
        """
        each = ((max(one[0], two[0]), min(one[1], two[1])) for one in self.spans for two in other.spans)
        return Near(tuple(span for span in each if span[0] < span[1]), self.exact and other.exact)


def merged(firsts: Rows, ends: Rows) -> Near:
    """Stretches that begin and end so, ascending, as fewer that hold them.

    >>> merged(np.array([0, 20, 90_000]), np.array([10, 30, 90_001]))
    Near(spans=((0, 30), (90000, 90001)), exact=False)
    """
    if not len(firsts):
        return Near((), exact=True)
    apart = np.flatnonzero(firsts[1:] - ends[:-1] >= GAP_ROWS)
    begins, stops = [int(firsts[0]), *firsts[apart + 1].tolist()], [*ends[apart].tolist(), int(ends[-1])]
    return Near(tuple(zip(begins, stops, strict=True)), exact=sum(stops) - sum(begins) == int((ends - firsts).sum()))
