"""What writes give back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport:
    """What one append did."""

    version: int
    """The version that holds the rows; the table's version where nothing had to be written."""
    rows: int
    """Rows written."""
    segments: int
    """Segments written."""
    buckets: int
    """(identity, bucket) pairs that the written rows cover."""
    skipped_rows: int = 0
    """Rows left out because their bucket was covered already (`on_overlap="skip"`)."""
    skipped_buckets: int = 0
    """(identity, bucket) pairs those rows lie in."""
