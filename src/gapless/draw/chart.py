"""A heat map of coverage as values, before it is drawn: rows, columns, shades, legend and sentences. Pure.

A shade is told apart by symbol, by lightness and by hue. The hues run from blue to yellow, which people with any of the common
colour vision deficiencies tell apart, and grow lighter with what is missing, so that a print in grey keeps the order. A cell that
lacks anything never looks complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from gapless.coverage.gap import Coverage, Gap
from gapless.coverage.heatmap import plan_heatmap
from gapless.draw.axis import Axis, axis_of, axis_value
from gapless.draw.label import name_of, percent, row_name
from gapless.model.index import Identity, format_bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Shade:
    """One step."""

    name: str
    """What it means, for a legend."""
    symbol: str
    """One character of a terminal."""
    plain: str
    """The same where only ASCII can be written."""
    colour: str
    """`#rrggbb`, for a fill."""


SHADES = (
    Shade(name="complete", symbol="█", plain="#", colour="#1f5a99"),
    Shade(name="99% or more", symbol="▓", plain="+", colour="#c05a1e"),
    Shade(name="90% or more", symbol="▒", plain="-", colour="#db7f2f"),
    Shade(name="50% or more", symbol="░", plain=":", colour="#ee9f47"),
    Shade(name="under 50%", symbol="·", plain=".", colour="#f8c46a"),
    Shade(name="missing", symbol="×", plain="x", colour="#fff08a"),
    Shade(name="nothing expected", symbol=" ", plain=" ", colour="#ececec"),
)
"""From complete to missing; the last is where nothing is expected."""
COMPLETE, MISSING, UNEXPECTED = 0, 5, 6


def shade_of(fraction: float) -> int:
    """The place in `SHADES` of a covered fraction, 0.0 to 1.0, or NaN where nothing is expected.

    >>> SHADES[shade_of(0.999_999)].name
    '99% or more'
    """
    if isnan(fraction):
        return UNEXPECTED
    if fraction in (0.0, 1.0):
        return MISSING if fraction == 0.0 else COMPLETE
    return 1 + sum(fraction < bound for bound in (0.99, 0.9, 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of cells."""

    identities: tuple[Identity, ...]
    covered: int
    """Buckets, summed over the identities."""
    expected: int
    """Buckets, summed over the identities."""
    values: tuple[float, ...]
    """Covered fraction of each column; NaN where nothing is expected."""
    shades: tuple[int, ...]
    """Place in `SHADES` of each column."""

    @property
    def ratio(self) -> str:
        """The covered share of the row."""
        return percent(self.covered, self.expected)

    def label(self, limit: int) -> str:
        """Its identities in at most `limit` cells."""
        return row_name(self.identities, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A heat map, ready to be drawn."""

    axis: Axis
    rows: tuple[Row, ...]
    identities: int
    cell: str
    """Size of a whole cell, such as "1d"."""
    bucket: str
    """Size of a bucket, such as "1h"."""
    covered: int
    expected: int
    gap_count: int
    """How many gaps there are."""

    @property
    def columns(self) -> int:
        """How many cells a row has."""
        return max(0, len(self.axis.edges) - 1)

    @property
    def shades_shown(self) -> tuple[int, ...]:
        """Places in `SHADES` that the rows use, in order."""
        found = {shade for row in self.rows for shade in row.shades}
        return tuple(at for at in range(len(SHADES)) if at in found)

    @property
    def summary(self) -> str:
        """What is covered and what is missing, in one sentence."""
        if not self.expected:
            return "Nothing is expected here"
        missing = self.expected - self.covered
        of = f"of {self.expected:,} expected bucket{'s' * (self.expected != 1)} ({self.bucket})"
        if not missing:
            return f"100% covered: none {of} is missing"
        runs = f"in {self.gap_count:,} gap{'s' * (self.gap_count != 1)}"
        return f"{percent(self.covered, self.expected)} covered: {missing:,} {of} {'is' if missing == 1 else 'are'} missing, {runs}"

    @property
    def scale(self) -> str:
        """What one cell stands for, and the zone of the times; empty where there is no cell."""
        if not self.columns or not self.rows:
            return ""
        most = max(len(row.identities) for row in self.rows)
        shared = f", a row up to {most:,} of {self.identities:,} identities" if most > 1 else ""
        zone = f"; times in {self.axis.zone}" if self.axis.zone else ""
        return f"A cell is {self.cell}{shared}{zone}"


def plan_chart(coverage: Coverage[Any], gaps: Sequence[Gap[Any]], width: int, height: int) -> Chart:
    """Fit coverage, and its gaps, into at most `width` columns and `height` rows. Raises as `plan_heatmap` does."""
    plan = plan_heatmap(coverage, width, height)
    rows = []
    for identities, numbers in zip(plan.rows, plan.values.tolist(), strict=True):
        spans = [coverage.spans[identity] for identity in identities]
        rows.append(
            Row(
                identities=identities,
                covered=sum(coverage.covered_in(i, span) for i, span in zip(identities, spans, strict=True)),
                expected=sum(coverage.expected_in(span) for span in spans),
                values=tuple(numbers),
                shades=tuple(shade_of(number) for number in numbers),
            )
        )
    return Chart(
        axis=axis_of(plan.edges),
        rows=tuple(rows),
        identities=len(coverage.identities),
        cell=plan.cell,
        bucket=format_bucket(coverage.grid.bucket),
        covered=sum(row.covered for row in rows),
        expected=sum(row.expected for row in rows),
        gap_count=len(gaps),
    )


def gap_texts(axis: Axis, gaps: Sequence[Gap[Any]]) -> list[tuple[str, str, str, str]]:
    """Identity, start (inclusive), end (exclusive) and buckets of gaps, as texts of one precision."""
    bounds = axis.texts([axis_value(value) for gap in gaps for value in (gap.start, gap.end)])
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return [(name_of(gap.identity), start, end, f"{gap.buckets:,}") for gap, (start, end) in zip(gaps, pairs, strict=True)]
