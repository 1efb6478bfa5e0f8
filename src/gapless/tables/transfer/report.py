"""What becomes of each file of an import, and what the whole did, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gapless.tables.transfer.sources.foreign import SourceFormat

Outcome = Literal["taken", "rewritten", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("taken", "rewritten", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """What becomes of one file."""

    name: str
    """What the source calls it: relative to its root, or a URI."""
    outcome: Outcome
    """"taken": it becomes a segment as it is; "rewritten": its rows are read and written anew; "refused": it cannot be imported."""
    reason: str = ""
    """Why it is not taken."""
    fix: str = ""
    """What can be done about a file that is refused."""
    rows: int | None = None
    """Its live rows; None where that is not known before they are read."""
    size: int = 0
    """Bytes of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did, or would do."""

    source: str
    """Where the source lies."""
    format: SourceFormat
    source_version: str
    """The version of the source that was imported."""
    target: str
    """Where the time-series table lies."""
    version: int | None
    """The table's version with all rows; None where nothing was imported."""
    files: tuple[PlannedFile, ...]
    """In the order of the source."""
    not_kept: tuple[str, ...]
    """What the source has and a time-series table does not keep, a sentence each."""
    dry_run: bool = False
    already_applied: bool = False
    """Whether all of it was in the table before this call."""

    def count(self, outcome: Outcome) -> int:
        """How many files have this outcome."""
        return sum(file.outcome == outcome for file in self.files)

    def rows(self, outcome: Outcome | None = None) -> int | None:
        """The rows of the files with this outcome, or of all that are imported; None where those of one are not known."""
        wanted = [
            file.rows for file in self.files if file.outcome == outcome or (outcome is None and file.outcome != "refused")
        ]
        known = [rows for rows in wanted if rows is not None]
        return sum(known) if len(known) == len(wanted) else None


def refused_text(files: Sequence[PlannedFile], most: int = 3) -> str:
    """The files that are refused, the first of them with their reasons."""
    refused = [file for file in files if file.outcome == "refused"]
    shown = "; ".join(f"{file.name}: {file.reason}" for file in refused[:most])
    return shown + (f"; and {len(refused) - most} more" if len(refused) > most else "")
