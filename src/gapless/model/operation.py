"""Operation ids, which make retries idempotent, and the reports that writes return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from gapless.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class SequenceId:
    """One change of a stream: sequences of one app only grow, and the highest is remembered for ever."""

    app: str
    sequence: int


@dataclass(frozen=True, slots=True)
class JobId:
    """One change of a job that runs in any order: remembered exactly, for the table's `operation_retention_days`."""

    id: str


OperationId = SequenceId | JobId


def parse_operation_id(given: object) -> OperationId:
    """Read ("app", sequence) or a text; raises InvalidOption.

    >>> parse_operation_id(("job-7", 42))
    SequenceId(app='job-7', sequence=42)
    """
    match given:
        case SequenceId() | JobId():
            return given
        case str() if _is_name(given):
            return JobId(given)
        case (str() as app, int() as sequence) if _is_name(app) and not isinstance(sequence, bool) and 0 <= sequence < 2**63:
            return SequenceId(app, sequence)
    raise InvalidOption(
        f"operation_id={given!r} names no operation",
        why="A stream names (app, sequence) with a whole number that only grows; a job that runs in any order names one text",
        fix='Pass ("job-7", 42) or "backfill-2026-01-05"',
        option="operation_id",
        value=given,
    )


OperationArgument = tuple[str, int] | str | None
"""An operation id as callers write it; None for a change that has none."""


def parse_operation(given: object) -> OperationId | None:
    """Read an `OperationArgument`; raises InvalidOption."""
    return None if given is None else parse_operation_id(given)


def operation_argument(operation: OperationId) -> tuple[str, int] | str:
    """An operation id as callers write it.

    >>> operation_argument(SequenceId("job-7", 42))
    ('job-7', 42)
    """
    return (operation.app, operation.sequence) if isinstance(operation, SequenceId) else operation.id


def _is_name(text: str) -> bool:
    """Whether a log can hold it: UTF-8 has no half surrogates."""
    return text != "" and not any("\ud800" <= character <= "\udfff" for character in text)


def operation_key(operation: OperationId) -> str:
    """One key for all sequences of an app, one for each job; the two never meet."""
    return f"app:{operation.app}" if isinstance(operation, SequenceId) else f"job:{operation.id}"


def supersedes(applied: OperationId, requested: OperationId) -> bool:
    """Whether `applied`, which was applied, says that `requested` was too: it is the same, or a later sequence of its app."""
    if isinstance(applied, SequenceId) and isinstance(requested, SequenceId):
        return applied.app == requested.app and applied.sequence >= requested.sequence
    return applied == requested


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one change counted; the log keeps it with an operation id."""

    rows: int = 0
    """Rows written."""
    segments: int = 0
    """Segments written."""
    buckets: int = 0
    """(identity, bucket) pairs that the written rows cover."""
    skipped_rows: int = 0
    """Rows left out because their bucket was covered already (`on_overlap="skip"`), or the table had a newer row of their key (sinks)."""
    skipped_buckets: int = 0
    """(identity, bucket) pairs those rows lie in."""
    removed_rows: int = 0
    """Rows that the table had and has no more: deleted, or replaced by written ones."""
    removed_segments: int = 0
    """Segments that are live no more: written anew, or without rows."""
    replaced_buckets: int = 0
    """Of `buckets`, those that the table covered before (`on_overlap="replace"`)."""
    updated_rows: int = 0
    """Of `rows`, those that took the place of rows with their key (upsert)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport(Tally):
    """What one append did."""

    version: int
    """The version that holds the rows; the table's version where nothing had to be written."""
    already_applied: bool = False
    """Whether the operation id was known: nothing was written now, and the counts are those of the first time.

    For a sequence below the app's highest, `version` is the one that holds the highest, and nothing was counted.
    """
    published: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """By format in which the table is published: "published", or why it is not yet. The rows are committed whatever it says."""

    @classmethod
    def of(cls, tally: Tally, version: int, *, already_applied: bool = False) -> AppendReport:
        """A report of these counts."""
        return cls(version=version, already_applied=already_applied, published={}, **_counts(tally))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport(Tally):
    """What one upsert, delete, replace or drop did.

    `rows` counts rows of the input that were written, `segments` all segments that were, with the rows they keep.
    """

    version: int
    """The version that holds the change; the table's version where there was nothing to change."""
    already_applied: bool = False
    """Whether the operation id was known: nothing was changed now, and the counts are those of the first time."""
    published: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As in `AppendReport`."""

    @property
    def inserted_rows(self) -> int:
        """Of `rows`, those whose key the table did not have (upsert)."""
        return self.rows - self.updated_rows

    @classmethod
    def of(cls, tally: Tally, version: int, *, already_applied: bool = False) -> ChangeReport:
        """A report of these counts."""
        return cls(version=version, already_applied=already_applied, published={}, **_counts(tally))


def _counts(tally: Tally) -> dict[str, int]:
    return {field.name: getattr(tally, field.name) for field in fields(Tally)}
