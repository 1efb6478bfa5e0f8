"""Expected buckets: from the range of a question and the sessions of a calendar to bucket ids. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pyroaring import BitMap64

from gapless.coverage.bitmap import STORED_END, CoverageMap, bias, canonical_key, clip
from gapless.coverage.bucket import Grid
from gapless.coverage.calendar import Sessions
from gapless.errors import InvalidTime
from gapless.model.index import Identity, IntWidth
from gapless.model.instant import format_instant


@dataclass(frozen=True, slots=True)
class Span:
    """Bucket ids `[start, end)`; empty where `start == end`."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """How many ids."""
        return self.end - self.start

    def within(self, other: Span) -> Span:
        """The part inside another span."""
        start = max(self.start, other.start)
        return Span(start, max(start, min(self.end, other.end)))


def hull(spans: Iterable[Span]) -> Span:
    """The smallest span around all that are not empty; `Span(0, 0)` where there is none."""
    filled = [span for span in spans if span.count]
    return Span(min(s.start for s in filled), max(s.end for s in filled)) if filled else Span(0, 0)


def covered_range(coverage: CoverageMap, grid: Grid) -> tuple[int, int]:
    """Index values `[start, end)` from the first covered bucket to the last one, of a coverage that covers anything."""
    shift = bias(signed=grid.signed)
    first, last = min(one.min() for one in coverage.values()), max(one.max() for one in coverage.values())
    return grid.start(first - shift), grid.end(last - shift)


def plan_ranges(
    coverage: CoverageMap, grid: Grid, start: int | None, end: int | None, identities: Sequence[Identity] | None
) -> dict[Identity, Span]:
    """The buckets that each identity is expected to cover, in canonical order of identities.

    `start` and `end` bound index values, half-open (ns for a timestamp, else integers): a bucket that the range touches is
    expected, so pass an `end` at a bucket's start where the bucket that runs now should not count. An open end is the
    identity's own first or last covered bucket. `identities` are exactly the expected ones; without them, those that cover
    anything (a table without entity columns passes `[()]`, so that an empty one shows as missing). One that covers nothing
    takes open ends from all others together; if none covers anything, nothing is expected of it.

    Raises InvalidTime where `start` is past `end`, and as `Grid.id_of` does.
    """
    if start is not None and end is not None and start > end:
        raise _reversed(grid, start, end)
    low = None if start is None else grid.id_of(start)
    high = None if end is None else grid.id_of(end - 1) + 1
    if start is not None and start == end:
        high = low
    possible = Span(-bias(signed=grid.signed), STORED_END - bias(signed=grid.signed))
    wanted = coverage.identities() if identities is None else sorted(set(identities), key=canonical_key)
    absent = any(identity not in coverage for identity in wanted)
    everything = hull(_own(bitmap, grid) for bitmap in coverage.values()) if absent else Span(0, 0)
    ranges = {}
    for identity in wanted:
        own = _own(coverage[identity], grid) if identity in coverage else everything
        first, last = own.start if low is None else low, own.end if high is None else high
        known = own.count > 0 or (low is not None and high is not None)
        ranges[identity] = Span(first, max(first, last) if known else first).within(possible)
    return ranges


def _own(bitmap: BitMap64, grid: Grid) -> Span:
    shift = bias(signed=grid.signed)
    return Span(bitmap.min() - shift, bitmap.max() - shift + 1)


def _reversed(grid: Grid, start: int, end: int) -> InvalidTime:
    shown = [str(v) if isinstance(grid.bucket, IntWidth) else format_instant(v, "") for v in (start, end)]
    return InvalidTime(
        f"the range starts at {shown[0]}, past its end {shown[1]}",
        why="A range is half-open, from its start up to but not including its end",
        fix="Swap start and end",
        value=start,
    )


class ExpectedIds:
    """The expected bucket ids of a stretch, as maximal runs: a value. Its cost grows with the runs, not with the ids.

    The *rank* of an id is how many expected ids lie before it.
    """

    __slots__ = ("_before", "_ends", "_starts")

    def __init__(self, runs: Iterable[Span]) -> None:
        """Take runs: ascending, none empty, none touching the next."""
        runs = list(runs)
        self._starts = [run.start for run in runs]
        self._ends = [run.end for run in runs]
        self._before = [0, *accumulate(run.count for run in runs)]

    def __repr__(self) -> str:
        """How much it holds."""
        return f"ExpectedIds(runs={len(self._starts)}, buckets={self._before[-1]})"

    def count(self, span: Span) -> int:
        """How many ids of a span are expected."""
        return self._rank(span.end) - self._rank(span.start)

    def within(self, span: Span) -> Iterator[Span]:
        """The runs, or their parts, that lie in a span."""
        if not span.count:
            return iter(())
        first, end = bisect_right(self._ends, span.start), bisect_left(self._starts, span.end)
        runs = zip(self._starts[first:end], self._ends[first:end], strict=True)
        return (Span(max(start, span.start), min(stop, span.end)) for start, stop in runs)

    def cut(self, span: Span, size: int) -> Iterator[Span]:
        """A span in parts of `size` expected ids each, the last of what is left; each begins and ends with one."""
        low, high = self._rank(span.start), self._rank(span.end)
        return (self._ranks(at, min(at + size, high)) for at in range(low, high, size))

    def last(self, count: int, end: int) -> Span:
        """The last `count` (>= 1) expected ids before `end`, of which there must be so many, and what lies between them."""
        rank = self._rank(end)
        return self._ranks(rank - count, rank)

    def keep(self, bitmap: BitMap64, shift: int) -> BitMap64:
        """The expected ids of a bitmap, whose members are ids plus `shift`; may be the bitmap itself."""
        if not bitmap or not self._starts:
            return BitMap64()
        inside = clip(bitmap, self._starts[0] + shift, self._ends[-1] + shift)
        if not inside:
            return inside
        first = max(0, bisect_right(self._starts, inside.min() - shift) - 1)
        end = bisect_left(self._starts, inside.max() - shift)
        breaks = list(zip(self._ends[first:end], self._starts[first + 1 : end + 1], strict=False))
        if not breaks:
            return inside
        kept = inside.copy()
        for low, high in breaks:
            kept.remove_range(low + shift, high + shift)
        return kept

    def _rank(self, at: int) -> int:
        run = bisect_right(self._starts, at) - 1
        return self._before[run] + min(at, self._ends[run]) - self._starts[run] if run >= 0 else 0

    def _at(self, rank: int) -> int:
        run = bisect_right(self._before, rank) - 1
        return self._starts[run] + rank - self._before[run]

    def _ranks(self, low: int, high: int) -> Span:
        return Span(self._at(low), self._at(high - 1) + 1)


def plan_expected(grid: Grid, span: Span, sessions: Sessions | None = None) -> ExpectedIds:
    """The expected ids of a span: those of buckets that any session reaches into, all of them where there are no sessions.

    A bucket is expected if a session covers any part of it: if it begins in one, or one begins in it. An hour is expected of a
    market that opens at half past. Local days that a zone left out never are. Raises InvalidTime as `Grid.start` does.
    """
    if not span.count:
        return ExpectedIds(())
    runs = iter([span]) if sessions is None else _reached(grid, span, sessions)
    return ExpectedIds(_without(runs, grid.skipped(span.start, span.end)))


def _reached(grid: Grid, span: Span, sessions: Sessions) -> Iterator[Span]:
    """The maximal runs of ids that sessions reach into."""
    low, high = grid.start(span.start), grid.end(span.end - 1)
    first, end = bisect_right(sessions.closes_ns, low), bisect_left(sessions.opens_ns, high)
    start = stop = span.start
    for opens, closes in zip(sessions.opens_ns[first:end], sessions.closes_ns[first:end], strict=True):
        at = grid.id_of(max(opens, low))
        if at > stop:
            if start < stop:
                yield Span(start, stop)
            start = at
        stop = grid.id_of(min(closes, high) - 1) + 1
    if start < stop:
        yield Span(start, stop)


def _without(runs: Iterator[Span], ids: Sequence[int]) -> Iterator[Span]:
    """The runs less some ids (ascending)."""
    for run in runs:
        inside = ids[bisect_left(ids, run.start) : bisect_left(ids, run.end)]
        for before, after in pairwise([run.start - 1, *inside, run.end]):
            if before + 1 < after:
                yield Span(before + 1, after)
