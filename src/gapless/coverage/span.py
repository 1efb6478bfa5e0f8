"""Which buckets are expected: a pure planner from a question's range to one span of bucket ids an identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from gapless.coverage.bitmap import STORED_END, CoverageMap, bias, canonical_key
from gapless.coverage.bucket import Grid
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


def reach(coverage: CoverageMap, grid: Grid) -> tuple[int, int]:
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
