"""Stretches of time in which rows are expected, and the calendars that say them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Protocol

from gapless.errors import InvalidOption
from gapless.model.instant import ns_from_datetime

Moment = datetime | int
"""An instant: a datetime, or ns since 1970-01-01T00:00Z (of the wall clock for a naive index)."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Half-open stretches of time, ascending, none reaching into the next; outside of them nothing is expected.

    A list of sessions is a `Calendar` too: that of exactly these sessions.
    """

    opens_ns: tuple[int, ...]
    """When each begins: ns since 1970-01-01T00:00Z (of the wall clock for a naive index)."""
    closes_ns: tuple[int, ...]
    """The ns just past the end of each."""

    def __post_init__(self) -> None:
        bounds = list(zip(self.opens_ns, self.closes_ns, strict=False))
        ordered = all(left[1] <= right[0] for left, right in pairwise(bounds)) and all(start < end for start, end in bounds)
        if len(self.opens_ns) != len(self.closes_ns) or not ordered:
            raise InvalidOption(
                f"{len(self.opens_ns)} opens and {len(self.closes_ns)} closes are no sessions",
                why="Each session must end after it begins, and not after the next begins",
                fix="Make them with Sessions.of(pairs), which takes any order and joins what overlaps",
                option="calendar", value=self,
            )  # fmt: skip

    @classmethod
    def of(cls, pairs: Iterable[tuple[Moment, Moment]]) -> Sessions:
        """Sessions from (start, end) pairs in any order: those that overlap or touch become one, empty ones are left out.

        >>> Sessions.of([(20, 30), (0, 10), (10, 12), (5, 5)])
        Sessions(opens_ns=(0, 20), closes_ns=(12, 30))
        """
        opens: list[int] = []
        closes: list[int] = []
        for start, end in sorted((_ns(start), _ns(end)) for start, end in pairs):
            if closes and start <= closes[-1]:
                closes[-1] = max(closes[-1], end)
            elif start < end:
                opens.append(start)
                closes.append(end)
        return cls(tuple(opens), tuple(closes))

    def sessions(self, start_ns: int, end_ns: int) -> Sessions:  # noqa: ARG002 - see `Calendar`: more may be given
        """These."""
        return self


class Calendar(Protocol):
    """When rows are expected. What has this one method can be given as `calendar=`."""

    def sessions(self, start_ns: int, end_ns: int) -> Sessions:
        """All sessions that reach into `[start_ns, end_ns)`, ns since 1970-01-01T00:00Z; others may be among them."""
        ...


def _ns(moment: Moment) -> int:
    return ns_from_datetime(moment) if isinstance(moment, datetime) else moment
