"""Coverage and gaps as the command line prints them: JSON documents, rows and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gapless.cli.show.console import Plain
from gapless.cli.show.values import plain_identity, plain_index_value
from gapless.coverage.gap import Coverage, Gap, Window
from gapless.draw.label import name_of
from gapless.model.index import Identity
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.read.values import is_aware
from gapless.tables.timeseries.table import TimeSeriesTable

_NAMED = 5
"""Identities that a sentence names before it only counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFormat:
    """Identities, times and gaps of a table as JSON and printed tables have them."""

    table: TimeSeriesTable

    def time(self, value: object) -> Plain:
        """An index value as JSON and tables show it."""
        return plain_index_value(value, aware=self._aware)

    def identity(self, identity: Identity) -> dict[str, Plain]:
        """An identity as an object of its entity values."""
        return {name: plain_identity(value) for name, value in zip(self.table.entity, identity, strict=True)}

    def gap_row(self, gap: Gap[Any]) -> list[Plain]:
        """Entity values, start, end, buckets."""
        return [*map(plain_identity, gap.identity), self.time(gap.start), self.time(gap.end), gap.buckets]

    def range_document(self, window: Gap[Any] | Window[Any] | None) -> dict[str, Plain] | None:
        """A gap or a window as an object: start, end (past it), buckets, and the identity of a gap."""
        if window is None:
            return None
        whose = {"identity": self.identity(window.identity)} if isinstance(window, Gap) else {}
        return {**whose, "start": self.time(window.start), "end": self.time(window.end), "buckets": window.buckets}

    @property
    def _aware(self) -> bool:
        return is_aware(self.table.index, self.table.schema) is True


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCoverage(IndexFormat):
    """The coverage of a table, or of a part of it."""

    coverage: Coverage[Any]

    def gaps(self, min_buckets: int = 1) -> list[Gap[Any]]:
        """The gaps of at least so many buckets."""
        return [gap for gap in self.coverage.gaps() if gap.buckets >= min_buckets]

    @property
    def never_arrived(self) -> list[Identity]:
        """Expected identities of which the table holds no row at all."""
        present = set(self.table.identities())
        return [identity for identity in self.coverage.identities if identity not in present]

    def facts(self) -> list[tuple[str, str]]:
        """What a heat map does not say: the longest gap, the last bucket that all cover, who never arrived."""
        longest, window, facts = self.coverage.longest_gap(), self.coverage.last_full_window(), []
        if longest is not None:
            whose = f" of {name_of(longest.identity)}" if self.table.entity else ""
            facts.append(
                ("longest gap", f"{_buckets(longest.buckets)}{whose}, {self.time(longest.start)} – {self.time(longest.end)}")
            )
        if window is not None:
            facts.append(("last full bucket", f"{self.time(window.start)} – {self.time(window.end)}"))
        if self.never_arrived:
            facts.append(("never arrived", named(self.never_arrived)))
        return facts


def coverage_document(found: TableCoverage) -> dict[str, Plain]:
    """What `coverage --json` prints."""
    cov = found.coverage
    return {
        "expected_buckets": cov.expected,
        "covered_buckets": cov.covered,
        "ratio": cov.ratio,
        "gaps": len(cov.gaps()),
        "longest_gap": found.range_document(cov.longest_gap()),
        "last_full_window": found.range_document(cov.last_full_window()),
        "never_arrived": [found.identity(one) for one in found.never_arrived],
        "identities": [_identity_document(found, identity, one) for identity, one in cov.by_identity().items()],
    }


def _identity_document(found: TableCoverage, identity: Identity, one: Coverage[Any]) -> dict[str, Plain]:
    span = one.spans[identity]
    ends = (one.present(one.grid.start(span.start)), one.present(one.grid.end(span.end - 1))) if span.count else (None, None)
    return {
        "identity": found.identity(identity),
        "start": found.time(ends[0]),
        "end": found.time(ends[1]),
        "expected_buckets": one.expected,
        "covered_buckets": one.covered,
        "ratio": one.ratio,
    }


def gaps_document(found: TableCoverage, min_buckets: int) -> dict[str, Plain]:
    """What `gaps --json` prints; only `gaps` itself heeds `min_buckets`."""
    cov = found.coverage
    return {
        "gaps": [found.range_document(gap) for gap in found.gaps(min_buckets)],
        "missing_buckets": cov.expected - cov.covered,
        "expected_buckets": cov.expected,
        "never_arrived": [found.identity(one) for one in found.never_arrived],
    }


def identity_totals(found: TableCoverage) -> list[list[Plain]]:
    """Of each identity with gaps: its values, missing buckets, gaps, and buckets of the longest gap."""
    by_identity: dict[Identity, list[int]] = {}
    for gap in found.gaps():
        by_identity.setdefault(gap.identity, []).append(gap.buckets)
    return [[*map(plain_identity, identity), sum(sizes), len(sizes), max(sizes)] for identity, sizes in by_identity.items()]


def gaps_text(found: TableCoverage, min_buckets: int) -> str:
    """How many buckets are missing, in a sentence or two."""
    cov, absent = found.coverage, found.never_arrived
    late = f" Never arrived: {named(absent)}." if absent and found.table.entity else ""
    if not found.table.identities() and not cov.expected:
        return f"The table holds no rows yet, so nothing can be called missing; --start and --until would say what is expected.{late}"
    if not cov.identities:
        return "No identity in the table has these entity values."
    if not cov.expected:
        return f"No bucket is expected in this range.{late}"
    gaps, listed = cov.gaps(), found.gaps(min_buckets)
    if not gaps:
        return f"No gaps: all {cov.expected:,} expected buckets are covered."
    less = f" ({len(listed):,} of them of at least {_buckets(min_buckets)})" if min_buckets > 1 else ""
    return f"{_buckets(cov.expected - cov.covered)} of {cov.expected:,} missing, in {count(len(gaps), 'gap')}{less}.{late}"


def named(identities: list[Identity]) -> str:
    """Some identities by name, and how many more there are."""
    more = f" and {len(identities) - _NAMED:,} more" if len(identities) > _NAMED else ""
    return "; ".join(map(name_of, identities[:_NAMED])) + more


def _buckets(number: int) -> str:
    return count(number, "bucket")
