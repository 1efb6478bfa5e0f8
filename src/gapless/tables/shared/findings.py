"""What `verify` found and `repair` did, as values; statistics of the log held against those of the rows that are there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import pyarrow as pa

from gapless.errors import CorruptTable
from gapless.model.stats import Bound, ColumnStats
from gapless.model.valid_values import forbidden_values

Code = Literal[
    "commit-missing",
    "commit-damaged",
    "commit-contradicts",
    "commit-unsupported",
    "commit-time",
    "schema-lost",
    "hint-ahead",
    "hint-unreadable",
    "hint-missing",
    "hint-behind",
    "checkpoint-damaged",
    "checkpoint-differs",
    "checkpoint-hint",
    "segment-missing",
    "segment-altered",
    "segment-unreadable",
    "rows-differ",
    "bounds-differ",
    "stats-differ",
    "identity-differs",
    "order-differs",
    "values-invalid",
    "coverage-missing",
    "coverage-altered",
    "coverage-unreadable",
    "coverage-differs",
    "coverage-index",
    "overlap",
    "prepared-unreadable",
    "prepared",
    "orphan",
    "publication-foreign",
    "publication-differs",
]
"""What kind of thing was found; a code never changes its meaning."""

Mend = Literal["repair", "accept-loss", "no"]
"""What repairs it: `repair` alone, `repair` with `accept_loss` (what is lost stays lost, the table works again), or neither."""

Severity = Literal["problem", "note"]
"""A note is a state that a table may well be in: an interrupted write leaves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as the log says."""

    code: Code
    path: str
    """The object it is about, relative to the table root."""
    what: str
    """One sentence for people."""
    mend: Mend = "no"
    severity: Severity = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What `verify` looked at and found."""

    url: str
    version: int | None
    """The newest version that could be told from the log; None where there is none."""
    deep: bool
    """Whether every row was read."""
    commits: int
    """Commits read."""
    segments: int
    """Live segments looked at."""
    bytes_read: int
    """Bytes of segments that were read and, where the log has a checksum, compared with it."""
    unchecked: int
    """Segments of other writers, for which the log has no checksum: only a deep look says more of them."""
    findings: tuple[Finding, ...]
    """Problems and notes, in the order of the table: log, segments, coverage, orphans."""

    @property
    def ok(self) -> bool:
        """Whether there is no problem; notes do not count."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What is damaged or contradicts itself."""
        return tuple(finding for finding in self.findings if finding.severity == "problem")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is merely worth knowing."""
        return tuple(finding for finding in self.findings if finding.severity == "note")

    def require_ok(self) -> None:
        """Raise CorruptTable for the first problem, if there is one."""
        for problem in self.problems:
            raise CorruptTable(
                f"{self.url}: {problem.what}",
                why=f"`verify` found {count(len(self.problems), 'problem')}; this is the first",
                fix="Look at the whole report; `repair` says what it can mend",
                path=problem.path,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that `repair` does, or would do."""

    act: Literal[
        "set-aside",
        "fill-version",
        "write-hint",
        "write-coverage",
        "write-part",
        "remove-checkpoint",
        "write-checkpoint-hint",
        "publish-again",
    ]
    path: str
    """The object that it writes, moves or removes, relative to the table root."""
    what: str
    """One sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What `repair` did, or would do."""

    url: str
    applied: bool
    """Whether the steps were taken; without it nothing was changed."""
    steps: tuple[Step, ...]
    left: tuple[Finding, ...]
    """Problems that these steps do not repair: those found again once they were applied, or those expected to stay."""

    @property
    def ok(self) -> bool:
        """Whether no problem is left, and nothing is left to do."""
        return not self.left and (self.applied or not self.steps)


Column = TypeVar("Column", bound=str | tuple[str, ...])
"""A column, by name or by path."""

Progress = Callable[[int, int], None]
"""Told how many live files `verify` has looked at, and of how many."""


def no_progress(_done: int, _total: int) -> None:
    """Nobody watches."""


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> count(1, "entry", "entries"), count(2_000, "row")
    ('1 entry', '2,000 rows')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def numbers_of(run: range) -> str:
    """Consecutive versions in words.

    >>> numbers_of(range(3, 4)), numbers_of(range(3, 6))
    ('version 3', 'versions 3 to 5')
    """
    return f"version {run[0]}" if len(run) == 1 else f"versions {run[0]} to {run[-1]}"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live data file, of which something is found."""

    noun: str
    """What its kind of table calls it."""
    path: str

    def finding(self, code: Code, what: str) -> Finding:
        """A finding that begins with the file's name."""
        return Finding(code=code, path=self.path, what=f"{self.noun} {self.path} {what}")

    def missing(self) -> Finding:
        """Nothing is stored there."""
        return self.finding("segment-missing", "is missing: nothing is stored under the path that the log names")

    def check_size(self, found: int, logged: int | None) -> Iterator[Finding]:
        """Where it has other bytes than the log says, if that does."""
        if logged is not None and found != logged:
            yield self.finding("segment-altered", f"has {found:,} bytes, and the log says {logged:,}")

    def check_rows(self, found: int, logged: int | None) -> Iterator[Finding]:
        """Where it has other rows than the log says, if that does."""
        if logged is not None and found != logged:
            yield self.finding("rows-differ", f"holds {count(found, 'row')}, and the log says {logged:,}")

    def check_values(self, rows: pa.RecordBatch | pa.Table, first_row: int, known: set[str]) -> Iterator[Finding]:
        """The first value of each column that the column's own type forbids, as text that is not UTF-8; of columns in `known` no more.

        `first_row` is the number of the first row; `known` takes in the columns of which one is found.
        """
        for name, found in forbidden_values(rows):
            if name not in known:
                known.add(name)
                what = f"holds {found.value!r} in column {name!r}, row {first_row + found.row} (from 0): {found.why}"
                yield self.finding("values-invalid", what)

    def check_stats(
        self, found: Mapping[Column, Sequence[ColumnStats]], logged: Mapping[Column, ColumnStats]
    ) -> Iterator[Finding]:
        """Where values of a column are not those that the log's statistics allow; columns that are not read say nothing."""
        for column, known in logged.items():
            if column in found and (said := contradiction(known, found[column])):
                name = column if isinstance(column, str) else ".".join(column)
                yield self.finding("stats-differ", f"holds other values of column {name!r} than the log says: {said}")


def contradiction(known: ColumnStats, found: Sequence[ColumnStats]) -> str:
    """What the log's statistics exclude although it is there, as a clause; empty where they hold. `found` are those of the parts of a file."""
    for name in ("nulls", "nans"):
        said, counted = getattr(known, name), [getattr(one, name) for one in found]
        if said is not None and None not in counted and sum(counted) != said:
            return f"{sum(counted):,} {name}, not {said:,}"
    for one in found:
        if _less(one.min, known.min):
            return f"{one.min!r} is below {known.min!r}"
        if _less(known.max, one.max):
            return f"{one.max!r} is above {known.max!r}"
    return ""


def _less(low: Bound | None, high: Bound | None) -> bool:
    if low is None or high is None:
        return False
    try:
        return bool(low < high)  # type: ignore[operator]  # two bounds of one column are of one kind, or it is caught
    except TypeError:
        return True
