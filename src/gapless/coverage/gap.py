"""The answer to "what do I have, and what is missing?" over one or many identities."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import floor, nextafter
from operator import and_
from types import MappingProxyType
from typing import Generic, TypeVar

from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, array_of, bias, canonical_key, clip, count_in
from gapless.coverage.bucket import Grid
from gapless.coverage.runs import covered_runs, missing_runs
from gapless.coverage.span import Span, hull
from gapless.errors import InvalidOption
from gapless.model.index import Identity

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Gap(Generic[V]):
    """A maximal run of expected buckets that hold no row, for one identity: index values `[start, end)`."""

    identity: Identity
    start: V
    end: V
    buckets: int


@dataclass(frozen=True, slots=True)
class CoveredBucket(Generic[V]):
    """A bucket `[start, end)` in which an identity has at least one row."""

    identity: Identity
    start: V
    end: V


@dataclass(frozen=True, slots=True)
class Window(Generic[V]):
    """Consecutive buckets, index values `[start, end)`."""

    start: V
    end: V
    buckets: int


class Coverage(Generic[V]):
    """Covered and missing buckets of some identities over their expected spans: a value.

    All bounds it gives are index values, half-open, as `present` shows them (for a timestamp index, datetimes of the
    index's zone).
    """

    __slots__ = ("_bitmaps", "_shift", "_skipped", "_spans", "grid", "present")

    grid: Grid
    """How index values fall into buckets."""
    present: Callable[[int], V]
    """From ns, or an integer, to the index value a user sees."""

    def __init__(
        self, covered: CoverageMap, grid: Grid, expected: Mapping[Identity, Span], present: Callable[[int], V]
    ) -> None:
        """Take what is covered (of at least these identities) and the span of buckets each is expected to cover."""
        self.grid, self.present, self._shift = grid, present, bias(signed=grid.signed)
        self._spans = {identity: expected[identity] for identity in sorted(expected, key=canonical_key)}
        none = BitMap64()
        self._bitmaps = {i: clip(covered.get(i, none), *self._stored(span)) for i, span in self._spans.items()}
        whole = hull(self._spans.values())
        self._skipped = grid.skipped(whole.start, whole.end)

    def __repr__(self) -> str:
        """Ratio (rounded down), identities and gaps."""
        gaps = sum(1 for _ in self._missing())
        return f"Coverage(ratio={floor(self.ratio * 10_000) / 10_000}, identities={len(self._spans)}, gaps={gaps})"

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The expected identities, in canonical order; `()` is that of a table without entity columns, or of a union."""
        return tuple(self._spans)

    @property
    def spans(self) -> Mapping[Identity, Span]:
        """Expected bucket ids of each identity."""
        return MappingProxyType(self._spans)

    @property
    def expected(self) -> int:
        """Expected buckets, summed over the identities."""
        return sum(self.expected_in(span) for span in self._spans.values())

    @property
    def covered(self) -> int:
        """Expected buckets that hold a row, summed over the identities."""
        return sum(len(bitmap) for bitmap in self._bitmaps.values())

    @property
    def ratio(self) -> float:
        """Covered by expected, from 0.0 to 1.0; 1.0 only where nothing is missing, also where nothing is expected."""
        return fraction(self.covered, self.expected)

    def expected_in(self, span: Span) -> int:
        """How many buckets of a span are time at all: all but the local days that a zone left out."""
        return span.count - (bisect_left(self._skipped, span.end) - bisect_left(self._skipped, span.start))

    def covered_in(self, identity: Identity, span: Span) -> int:
        """How many expected buckets within a span an identity covers."""
        return count_in(self._bitmaps[identity], *self._stored(span.within(self._spans[identity])))

    def gaps(self) -> list[Gap[V]]:
        """Every gap of every identity: identities in canonical order, then by time."""
        return [self._gap(identity, span) for identity, span in self._missing()]

    def longest_gap(self) -> Gap[V] | None:
        """The gap of the most buckets, the first of several; None where nothing is missing."""
        longest = max(self._missing(), key=lambda found: self.expected_in(found[1]), default=None)
        return self._gap(*longest) if longest else None

    def buckets(self) -> list[CoveredBucket[V]]:
        """Every covered bucket: identities in canonical order, then by time. One object for each."""
        return [
            CoveredBucket(identity, *self._bounds(Span(at - self._shift, at - self._shift + 1)))
            for identity, bitmap in self._bitmaps.items()
            for at in array_of(bitmap).tolist()
        ]

    def last_full_window(self, buckets: int = 1) -> Window[V] | None:
        """The latest `buckets` consecutive buckets that every identity covers; None where there are none.

        Raises InvalidOption unless `buckets` is above zero.
        """
        if buckets < 1:
            raise InvalidOption(
                f"buckets={buckets} is no length of a window", fix="Pass 1 or more", option="buckets", value=buckets
            )
        if not self._bitmaps:
            return None
        full = reduce(and_, self._bitmaps.values())
        if not full:
            return None
        for run in reversed(self._bridged(full)):
            if self.expected_in(run) >= buckets:
                start = run.end - buckets
                while self.expected_in(Span(start, run.end)) < buckets:
                    start -= 1
                return Window(*self._bounds(Span(start, run.end)), buckets)
        return None

    def union(self) -> Coverage[V]:
        """The answer over all identities as one, `()`: a bucket counts as covered where any identity covers it.

        Expected are the buckets from the earliest start to the latest end of the identities' spans.
        """
        if not self._spans:
            return self
        merged = CoverageMap({(): BitMap64.union(*self._bitmaps.values())})
        return Coverage(merged, self.grid, {(): hull(self._spans.values())}, self.present)

    def by_identity(self) -> dict[Identity, Coverage[V]]:
        """One answer for each identity, in canonical order."""
        return {
            identity: Coverage(CoverageMap({identity: self._bitmaps[identity]}), self.grid, {identity: span}, self.present)
            for identity, span in self._spans.items()
        }

    def _missing(self) -> Iterator[tuple[Identity, Span]]:
        for identity, span in self._spans.items():
            for start, end in missing_runs(self._bitmaps[identity], *self._stored(span)):
                found = Span(start - self._shift, end - self._shift)
                if self.expected_in(found):
                    yield identity, found

    def _bridged(self, full: BitMap64) -> list[Span]:
        """Runs of ids in a bitmap; a local day that was left out does not break one."""
        low, high = full.min(), full.max() + 1
        days = [day + self._shift for day in self._skipped]
        runs = covered_runs(full | BitMap64(days) if days else full, low, high)
        return [Span(start - self._shift, end - self._shift) for start, end in runs]

    def _gap(self, identity: Identity, span: Span) -> Gap[V]:
        return Gap(identity, *self._bounds(span), self.expected_in(span))

    def _bounds(self, span: Span) -> tuple[V, V]:
        return self.present(self.grid.start(span.start)), self.present(self.grid.end(span.end - 1))

    def _stored(self, span: Span) -> tuple[int, int]:
        return span.start + self._shift, span.end + self._shift


def fraction(covered: int, expected: int) -> float:
    """Covered by expected; below 1.0 wherever anything is missing, 1.0 where nothing is expected."""
    if covered >= expected:
        return 1.0
    return min(covered / expected, nextafter(1.0, 0.0))
