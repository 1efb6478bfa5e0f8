"""Coverage questions over one or many identities: gaps, ratio, longest gap, last full window.

Unbroken runs of stored ids are found without a step for every bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import floor, nextafter
from operator import and_
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, array_of, bias, canonical_key, clip, count_in, range_bitmap
from gapless.coverage.bucket import Grid
from gapless.coverage.expected import ExpectedIds, Span, hull, plan_expected
from gapless.errors import InvalidOption
from gapless.model.index import Identity

Run = tuple[int, int]
"""Stored ids, half-open."""


def covered_runs(bitmap: BitMap64, start: int, end: int) -> list[Run]:
    """Maximal runs of members within `[start, end)`, ascending. Takes memory with the number of members."""
    ids = array_of(clip(bitmap, start, end))
    if len(ids) == 0:
        return []
    breaks = np.flatnonzero(np.diff(ids) != 1)
    firsts = ids[np.concatenate([[0], breaks + 1])].tolist()
    lasts = ids[np.append(breaks, len(ids) - 1)].tolist()
    return [(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]


def missing_runs(bitmap: BitMap64, start: int, end: int) -> list[Run]:
    """Maximal runs of `[start, end)` that hold no member, ascending.

    Works with whichever is fewer, members or missing ids, so that a range of any length costs no more than what is in it.
    """
    covered = count_in(bitmap, start, end)
    if end - start <= covered:
        return []
    if end - start - covered < covered:
        return covered_runs(range_bitmap(start, end) - bitmap, start, end)
    runs = covered_runs(bitmap, start, end)
    firsts = [start, *(last for _, last in runs)]
    lasts = [*(first for first, _ in runs), end]
    return [(first, last) for first, last in zip(firsts, lasts, strict=True) if first < last]


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Gap(Generic[V]):
    """A maximal run of expected buckets that hold no row, for one identity: index values `[start, end)`.

    Both its first and its last bucket are expected. Buckets of which nothing is expected may lie between, and do not end it.
    """

    identity: Identity
    start: V
    end: V
    buckets: int
    """How many are missing: the expected ones."""


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

    Rows in buckets that are not expected (outside of a calendar's sessions) count neither as covered nor as missing.
    All bounds it gives are index values, half-open, as `present` shows them (for a timestamp index, datetimes of the
    index's zone).
    """

    __slots__ = ("_bitmaps", "_ids", "_shift", "_spans", "grid", "present")

    grid: Grid
    """How index values fall into buckets."""
    present: Callable[[int], V]
    """From ns, or an integer, to the index value a user sees."""

    def __init__(
        self,
        covered: CoverageMap,
        grid: Grid,
        expected: Mapping[Identity, Span],
        present: Callable[[int], V],
        ids: ExpectedIds | None = None,
    ) -> None:
        """Take what is covered (of at least these identities), the span of buckets each is expected to cover, and which buckets of
        all the spans are expected at all; without it, those that are time.
        """
        self.grid, self.present, self._shift = grid, present, bias(signed=grid.signed)
        self._spans = {identity: expected[identity] for identity in sorted(expected, key=canonical_key)}
        self._ids = plan_expected(grid, hull(self._spans.values())) if ids is None else ids
        none = BitMap64()
        self._bitmaps = {
            i: self._ids.keep(clip(covered.get(i, none), *self._stored(span)), self._shift) for i, span in self._spans.items()
        }

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
        """How many buckets of a span are expected: all of them, but for the local days that a zone left out, and what lies outside
        of a calendar's sessions.
        """
        return self._ids.count(span)

    def covered_in(self, identity: Identity, span: Span) -> int:
        """How many expected buckets within a span an identity covers."""
        return count_in(self._bitmaps[identity], *self._stored(span.within(self._spans[identity])))

    def gaps(self, max_buckets: int | None = None) -> list[Gap[V]]:
        """Every gap of every identity: identities in canonical order, then by time.

        A gap of more than `max_buckets` comes in several parts, each of so many but the last. Raises InvalidOption unless it is above
        zero.
        """
        return [self.gap(identity, span) for identity, span in self.missing(max_buckets)]

    def missing(self, max_buckets: int | None = None) -> Iterator[tuple[Identity, Span]]:
        """The bucket ids of every gap, as `gaps` orders and cuts them; raises as it does."""
        if max_buckets is None:
            return self._missing()
        size = _positive("max_buckets", max_buckets, "a gap")
        return ((identity, part) for identity, span in self._missing() for part in self._ids.cut(span, size))

    def gap(self, identity: Identity, span: Span) -> Gap[V]:
        """A gap of these bucket ids, the first and the last of which are expected."""
        return Gap(identity, *self._bounds(span), self.expected_in(span))

    def longest_gap(self) -> Gap[V] | None:
        """The gap of the most buckets, the first of several; None where nothing is missing."""
        longest = max(self._missing(), key=lambda found: self.expected_in(found[1]), default=None)
        return self.gap(*longest) if longest else None

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
        wanted = _positive("buckets", buckets, "a window")
        full = reduce(and_, self._bitmaps.values()) if self._bitmaps else BitMap64()
        window = self._last_run(full, wanted) if full else None
        return Window(*self._bounds(window), wanted) if window else None

    def over(self, covered: CoverageMap) -> Coverage[V]:
        """The same question, asked of another coverage (of at least these identities)."""
        return Coverage(covered, self.grid, self._spans, self.present, self._ids)

    def union(self) -> Coverage[V]:
        """The answer over all identities as one, `()`: a bucket counts as covered where any identity covers it.

        Expected are the buckets from the earliest start to the latest end of the identities' spans.
        """
        if not self._spans:
            return self
        merged = CoverageMap({(): BitMap64.union(*self._bitmaps.values())})
        return Coverage(merged, self.grid, {(): hull(self._spans.values())}, self.present, self._ids)

    def by_identity(self) -> dict[Identity, Coverage[V]]:
        """One answer for each identity, in canonical order."""
        return {
            identity: Coverage(
                CoverageMap({identity: bitmap}), self.grid, {identity: self._spans[identity]}, self.present, self._ids
            )
            for identity, bitmap in self._bitmaps.items()
        }

    def _missing(self) -> Iterator[tuple[Identity, Span]]:
        return ((identity, found) for identity, span in self._spans.items() for found in self._missing_of(identity, span))

    def _missing_of(self, identity: Identity, span: Span) -> Iterator[Span]:
        """Of each run of expected ids what is missing; what reaches from the end of one into the beginning of the next is one."""
        bitmap = self._bitmaps[identity]
        if len(bitmap) == self.expected_in(span):
            return
        low, high, goes_on = 0, 0, False
        for run in self._ids.within(span):
            for start, end in missing_runs(bitmap, *self._stored(run)):
                first = start - self._shift
                if not (goes_on and first == run.start):
                    if low < high:
                        yield Span(low, high)
                    low = first
                high = end - self._shift
            goes_on = low < high == run.end
        if low < high:
            yield Span(low, high)

    def _last_run(self, full: BitMap64, wanted: int) -> Span | None:
        """The last so many consecutive expected ids that a bitmap (not empty) holds; what is not expected breaks no run."""
        low = high = 0
        for start, end in reversed(covered_runs(full, full.min(), full.max() + 1)):
            run = Span(start - self._shift, end - self._shift)
            if low == high or self.expected_in(Span(run.end, low)):
                high = run.end
            low = run.start
            if self.expected_in(Span(low, high)) >= wanted:
                return self._ids.last(wanted, high)
        return None

    def _bounds(self, span: Span) -> tuple[V, V]:
        return self.present(self.grid.start(span.start)), self.present(self.grid.end(span.end - 1))

    def _stored(self, span: Span) -> tuple[int, int]:
        return span.start + self._shift, span.end + self._shift


def _positive(option: str, count: int, of: str) -> int:
    if count < 1:
        raise InvalidOption(f"{option}={count} is no length of {of}", fix="Pass 1 or more", option=option, value=count)
    return count


def fraction(covered: int, expected: int) -> float:
    """Covered by expected; below 1.0 wherever anything is missing, 1.0 where nothing is expected."""
    if covered >= expected:
        return 1.0
    return min(covered / expected, nextafter(1.0, 0.0))
