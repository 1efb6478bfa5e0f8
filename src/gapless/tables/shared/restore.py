"""Restore, for every kind of table: make the newest version the same as an earlier one, by one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gapless.errors import CorruptTable, VersionNotFound
from gapless.log.format import Entry, Snapshot, State
from gapless.runtime.committer import Committer, Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What one restore did."""

    version: int
    """The version that holds the restored rows; the table's version where it held them already."""
    restored: int
    """The version they are from."""
    added_segments: int = 0
    """Segments that are live again."""
    removed_segments: int = 0
    """Segments that are live no more."""
    added_rows: int = 0
    """Rows of the segments that are live again."""
    removed_rows: int = 0
    """Rows of the segments that are live no more."""
    published: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As in `AppendReport`."""


def run_restore(
    committer: Committer[Entry, State],
    newest: Snapshot[State],
    plan: Callable[[Snapshot[State]], tuple[RestoreReport, Proposal[Entry] | None]],
) -> RestoreReport:
    """Commit what `plan` says makes a version the same as the earlier one; nothing where a version is so already.

    Raises CommitConflict, CommitOutcomeUnknown, StoreError, and what `plan` raises.
    """
    reports: list[RestoreReport] = []

    def propose(now: Snapshot[State]) -> Proposal[Entry] | None:
        report, proposal = plan(now)
        reports.append(report)
        return proposal

    landed = committer.land(newest, propose)
    return reports[-1] if landed is None else replace(reports[-1], version=landed.version)


def expired_version(version: int, path: str, earliest: int) -> VersionNotFound:
    """The error for a version whose files a vacuum deleted; from `earliest` on all versions are whole."""
    return VersionNotFound(
        f"version {version} cannot be restored: its file {path} is gone",
        why=f"A vacuum deleted files that only older versions had; the earliest version that can be restored is {earliest}; "
        "nothing was changed",
        fix=f"Restore version {earliest} or a later one, or bring the file back from a backup",
        version=version,
    )


def missing_file(version: int, path: str, why: str) -> CorruptTable:
    """The error for a version of which a file is gone; `why` it may be, as a sentence's part."""
    return CorruptTable(
        f"version {version} cannot be restored: {path} is missing",
        why=f"The log keeps that version, but nothing is stored there{why}; nothing was changed",
        fix="Bring the file back from a backup, or restore another version",
        path=path,
    )
