"""Plan of a coverage heat map: cells and their shares, for any renderer. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from gapless.coverage.expected import Span, hull
from gapless.coverage.gap import Coverage, fraction
from gapless.errors import InvalidOption
from gapless.model.index import Bucket, FixedWidth, Identity, IntWidth, LocalDays, format_bucket
from gapless.model.instant import NS_PER_DAY

V = TypeVar("V")

_NS_PER_S = 1_000_000_000
_NATURAL_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200)
_NATURAL_DAYS = (1, 2, 7, 14, 28, 91, 182, 364, 728, 1820, 3640)
_NATURAL_MONTHS = (1, 3, 6, 12, 60, 120, 600, 1200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap(Generic[V]):
    """Identities down, time across; each cell the fraction of its expected buckets that are covered."""

    values: npt.NDArray[np.float64]
    """Shape (rows, columns), from 0.0 to 1.0 (only where nothing is missing); NaN where nothing is expected."""
    rows: tuple[tuple[Identity, ...], ...]
    """The identities that each row stands for, in canonical order."""
    labels: tuple[str, ...]
    """One short text a row."""
    edges: tuple[V, ...]
    """Index values between columns: one more than there are columns, or none. The outer two are those of the whole span,
    so that the first and the last column may be narrower than the others."""
    cell_buckets: int
    """Buckets in a whole cell."""
    cell: str
    """Size of a whole cell, such as "1d"."""


def plan_heatmap(coverage: Coverage[V], width: int, height: int) -> Heatmap[V]:
    """Fit coverage into at most `width` columns and `height` rows.

    A cell is a whole number of buckets, of a natural size where one fits (a day, a week, a quarter); neighbouring
    identities share a row where there are more than rows. Raises InvalidOption unless both are above zero.
    """
    if min(width, height) < 1:
        raise InvalidOption(
            f"a heat map of {width} x {height} cells shows nothing", fix="Pass 1 or more", option="width", value=width
        )
    whole = hull(coverage.spans.values())
    size, anchor = _cell_size(coverage.grid.bucket, whole, width)
    cells = _cells(whole, size, anchor)
    rows = _rows(coverage.identities, height)
    shown: dict[Span, list[int]] = {}
    values = np.array([_row(coverage, row, cells, shown) for row in rows], dtype=np.float64).reshape(len(rows), len(cells))
    starts = [coverage.grid.start(cell.start) for cell in cells]
    ends = [coverage.grid.end(cell.end - 1) for cell in cells[-1:]]
    return Heatmap(
        values=values,
        rows=tuple(rows),
        labels=tuple(_label(row) for row in rows),
        edges=tuple(coverage.present(edge) for edge in starts + ends),
        cell_buckets=size,
        cell=format_bucket(coverage.grid.times(size)),
    )


def _cell_size(bucket: Bucket, whole: Span, width: int) -> tuple[int, int]:
    """Buckets in a cell, and an id at which one begins: a natural size from zero on, or just what fits from the start on."""
    needed = max(1, -(-whole.count // width))
    for natural in _natural_counts(bucket):
        if natural > 3 * needed:
            break
        if natural >= needed and -(-whole.end // natural) - whole.start // natural <= width:
            return natural, 0
    return needed, whole.start


def _natural_counts(bucket: Bucket) -> Iterator[int]:
    """How many buckets make each natural length of time, ascending."""
    match bucket:
        case IntWidth():
            yield from (step * 10**power for power in range(20) for step in (1, 2, 5))
        case FixedWidth(ns):
            small = (step * 10**power for power in range(9) for step in (1, 2, 5))
            lengths = (*small, *(s * _NS_PER_S for s in _NATURAL_S), *(d * NS_PER_DAY for d in _NATURAL_DAYS))
            yield from (length // ns for length in lengths if length % ns == 0)
        case LocalDays(days):
            yield from (length // days for length in _NATURAL_DAYS if length % days == 0)
        case _:
            yield from (length // bucket.months for length in _NATURAL_MONTHS if length % bucket.months == 0)


def _cells(whole: Span, size: int, anchor: int) -> list[Span]:
    if not whole.count:
        return []
    low, high = (whole.start - anchor) // size, -((anchor - whole.end) // size)
    return [Span(*pair) for pair in pairwise([whole.start, *(anchor + at * size for at in range(low + 1, high)), whole.end])]


def _rows(identities: Sequence[Identity], height: int) -> list[tuple[Identity, ...]]:
    share = max(1, -(-len(identities) // height))
    return [tuple(identities[at : at + share]) for at in range(0, len(identities), share)]


def _row(coverage: Coverage[V], row: Sequence[Identity], cells: Sequence[Span], shown: dict[Span, list[int]]) -> list[float]:
    """One row of fractions; `shown` keeps the expected counts of spans that were met before."""
    spans = [coverage.spans[identity] for identity in row]
    for span in spans:
        if span not in shown:
            shown[span] = [coverage.expected_in(cell.within(span)) for cell in cells]
    expected = [sum(counts) for counts in zip(*(shown[span] for span in spans), strict=True)]
    covered = [sum(coverage.covered_in(identity, cell) for identity in row) for cell in cells]
    return [fraction(c, e) if e else float("nan") for c, e in zip(covered, expected, strict=True)]


def _label(row: Sequence[Identity]) -> str:
    """The identity, or the first and the last of several and how many they are.

    >>> _label([("EWR",), ("JFK",), ("LGA",)])
    'EWR … LGA (3)'
    """
    names = [", ".join(str(value) for value in identity) or "all" for identity in (row[0], row[-1])]
    return names[0] if len(row) == 1 else f"{names[0]} … {names[1]} ({len(row)})"
