"""What writes give back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one append counted; the log keeps it with an operation id."""

    rows: int = 0
    """Rows written."""
    segments: int = 0
    """Segments written."""
    buckets: int = 0
    """(identity, bucket) pairs that the written rows cover."""
    skipped_rows: int = 0
    """Rows left out because their bucket was covered already (`on_overlap="skip"`)."""
    skipped_buckets: int = 0
    """(identity, bucket) pairs those rows lie in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport(Tally):
    """What one append did."""

    version: int
    """The version that holds the rows; the table's version where nothing had to be written."""
    already_applied: bool = False
    """Whether the operation id was known: nothing was written now, and the counts are those of the first time.

    For a sequence below the app's highest, `version` is the one that holds the highest, and nothing was counted.
    """

    @classmethod
    def of(cls, tally: Tally, version: int, *, already_applied: bool = False) -> AppendReport:
        """A report of these counts."""
        return cls(
            version=version,
            already_applied=already_applied,
            rows=tally.rows,
            segments=tally.segments,
            buckets=tally.buckets,
            skipped_rows=tally.skipped_rows,
            skipped_buckets=tally.skipped_buckets,
        )
