"""VACUUM, for every kind of table: delete files that no retained version references."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Generic, Literal

from gapless.errors import InvalidOption, StoreError
from gapless.log.format import Entry, Snapshot
from gapless.model.instant import NS_PER
from gapless.model.protocols import ObjectInfo, ShowsUnfinished, Store
from gapless.runtime.committer import Committer, Proposal
from gapless.runtime.environment import Environment
from gapless.runtime.metrics import COUNTS, VACUUMED_DATA, VACUUMED_FILES, VACUUMS
from gapless.tables.shared.landing import Memory
from gapless.tables.shared.prepared import prepared_paths

_LOGGER = logging.getLogger("gapless.tables")

Reason = Literal["live", "retained", "tagged", "recent", "in-flight", "prepared", "published", "unknown", "expired", "orphan"]
"""Why a file stays, or goes:

- live: the newest version has it, or a log checkpoint that is stored
- retained: an older version that is kept has it
- tagged: a version that a tag names has it
- recent: nothing needs it, but it was removed, or written and never committed, less than `older_than` ago
- in-flight: no version names it, but a writer at work may be about to commit it
- prepared: a prepared commit needs it, or is it, until that is finalized or aborted, however old it is
- published: a version that is published in another format has it, and nothing else
- unknown: no name of ours, or it lies beyond a symbolic link: never touched
- expired: only versions that are expired have it: it goes
- orphan: a write that was never committed left it: it goes
"""

DELETED: frozenset[Reason] = frozenset({"expired", "orphan"})
"""The reasons for which a file goes."""

_TOGETHER = 16
"""Deletes under way at a time, where each is a request."""
_FEW = 64
"""So many are deleted one after the other all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumEntry:
    """One file, and what is to become of it."""

    path: str
    """Relative to the table root."""
    size: int
    """Bytes."""
    reason: Reason
    version: int | None = None
    """The newest version that needs it, where an older one (retained) or a tagged one does."""
    tag: str | None = None
    """The name of that version, where a tag keeps it."""

    @property
    def goes(self) -> bool:
        """Whether vacuum deletes it."""
        return self.reason in DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The time and the ages that decide, all in nanoseconds."""

    now_ns: int
    """Since 1970 UTC."""
    older_than_ns: int
    """How long ago a segment must have been removed, or written in vain."""
    horizon_ns: int
    """How long a writer may take from its first file to its commit."""

    def is_orphan(self, written_ns: int) -> bool:
        """Whether a file of ours that no version names may go, by the last sign that someone wrote it."""
        return self.reason_of_unnamed(written_ns) in DELETED

    def reason_of_unnamed(self, written_ns: int) -> Reason:
        """What becomes of a file of ours that no version names, by the last sign that someone wrote it."""
        age_ns = self.now_ns - written_ns
        if age_ns < self.horizon_ns:
            return "in-flight"
        return "recent" if age_ns < self.older_than_ns else "orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What `vacuum` deleted, or would delete, and why everything else stays."""

    url: str
    version: int
    """The version by which it decided; its own where it made a commit."""
    dry_run: bool
    """Whether nothing was changed."""
    entries: tuple[VacuumEntry, ...]
    """One for each file under data/, _coverage/ and _log_parts/, and each unfinished write, by path."""
    published: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As in `AppendReport`."""
    waits_for: tuple[str, ...] = ()
    """Formats in which a Delta table is published that keep files from going, since they describe a version that has them."""

    @property
    def deleted(self) -> tuple[VacuumEntry, ...]:
        """The files that went; those that would go, of a dry run."""
        return tuple(entry for entry in self.entries if entry.goes)

    @property
    def freed_bytes(self) -> int:
        """The size of those in bytes."""
        return sum(entry.size for entry in self.deleted)

    @property
    def files(self) -> Mapping[Reason, int]:
        """How many files there were for each reason that there was."""
        return Counter(entry.reason for entry in self.entries)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What becomes of a file; `version` and `tag` as in `VacuumEntry`."""

    reason: Reason
    version: int | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """What becomes of each file, and what the log must be told before any goes."""

    entries: tuple[VacuumEntry, ...]
    """By path."""
    forget: tuple[str, ...] = ()
    """Segments that a commit names before they are deleted, of a kind of table whose log must: those that expired, be they gone already,
    and those that were never committed.
    """

    @property
    def paths_to_delete(self) -> tuple[str, ...]:
        """The paths of the files that go."""
        return tuple(entry.path for entry in self.entries if entry.goes)

    def keeping(self, prepared: frozenset[str]) -> VacuumPlan:
        """The same, but for files that prepared commits keep by now."""
        entries = (replace(one, reason="prepared") if one.goes and one.path in prepared else one for one in self.entries)
        return replace(self, entries=tuple(entries))


def parse_age(name: str, value: object) -> int:
    """An age in nanoseconds; raises InvalidOption for what is none, or a time to come."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidOption(
            f"{name}={value!r} is no age",
            why="It says how long ago, and so is a timedelta of 0 or more",
            fix=f"Pass one, such as {name}=timedelta(days=7)",
            option=name,
            value=value,
        )
    return value // timedelta(microseconds=1) * NS_PER["us"]


def plan_entries(
    stored: Iterable[ObjectInfo], status_of: Callable[[ObjectInfo], FileStatus], protected: frozenset[str]
) -> tuple[VacuumEntry, ...]:
    """Each stored object with what becomes of it, by path; nothing goes that lies below one of the folders `protected`. Pure."""
    entries = []
    for info in sorted(stored, key=lambda info: info.path):
        status = status_of(info)
        if status.reason in DELETED and is_below(info.path, protected):
            status = FileStatus("unknown")
        entries.append(
            VacuumEntry(path=info.path, size=info.size, reason=status.reason, version=status.version, tag=status.tag)
        )
    return tuple(entries)


def is_below(path: str, folders: Collection[str]) -> bool:
    """Whether a path lies in one of the folders, at any depth.

    >>> is_below("a/b/c.parquet", {"a"}), is_below("ab/c.parquet", {"a"})
    (True, False)
    """
    parts = path.split("/")
    return any("/".join(parts[:depth]) in folders for depth in range(1, len(parts))) if folders else False


# -- one vacuum, from listing to deleting ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum(ABC, Generic[Entry, Memory]):
    """One vacuum; what is abstract is each kind's own: what it decides by, and what it tells the log before files go, or after."""

    committer: Committer[Entry, Memory]
    stored: list[ObjectInfo]
    """All that lies in the table's folders, listed before any version was read: one that was committed in between is then named by the log."""

    @property
    def env(self) -> Environment:
        """The environment that the table is reached by."""
        return self.committer.env

    @abstractmethod
    def plan(self, snapshot: Snapshot[Memory], prepared: frozenset[str]) -> VacuumPlan:
        """What goes and what stays, by a version; `prepared` are the paths that prepared commits keep."""

    @abstractmethod
    def start(self, snapshot: Snapshot[Memory], plan: VacuumPlan) -> Proposal[Entry] | None:
        """The commit before files go; None where the log needs none."""

    def is_in_time(self, begun_ns: int) -> bool:  # noqa: ARG002  # asked by those that override it
        """Whether a vacuum that began then (ns since 1970 UTC) may still delete; if not, it begins anew."""
        return True

    def end(self, snapshot: Snapshot[Memory], plan: VacuumPlan, start: int, *, done: bool) -> Proposal[Entry] | None:  # noqa: ARG002
        """The commit after files went, of a vacuum that version `start` began; None where the log needs none."""
        return None

    def run(self, snapshot: Snapshot[Memory], *, dry_run: bool) -> VacuumReport:
        """Decide by `snapshot` or a later version, tell the log, delete, and tell the log how that went; `dry_run` only decides.

        Where the outcome of the commit before is not known, nothing goes. Raises CorruptTable, CommitConflict, CommitOutcomeUnknown,
        StoreError.
        """
        plan, done = self._planned(snapshot) if dry_run else VacuumPlan(entries=()), dry_run
        while not done:
            snapshot, plan, done = self._apply(snapshot)
        report = VacuumReport(url=self.env.store.url, version=snapshot.version, dry_run=dry_run, entries=plan.entries)
        if not dry_run:
            VACUUMS.add(1, self.committer.table_format.kind, report.url)
            kept = len(report.entries) - len(report.deleted)
            _LOGGER.info(
                "%s: vacuum deleted %d files (%d bytes) and kept %d", report.url, len(report.deleted), report.freed_bytes, kept
            )
        return report

    def _apply(self, snapshot: Snapshot[Memory]) -> tuple[Snapshot[Memory], VacuumPlan, bool]:
        """The version after it, what it went by, and whether all that was deleted in time."""
        land, begun_ns = self.committer.land, self.env.clock.now_ns()
        decided: list[tuple[Snapshot[Memory], VacuumPlan]] = []

        def start(newest: Snapshot[Memory]) -> Proposal[Entry] | None:
            decided.append((newest, self._planned(newest)))
            return self.start(*decided[-1])

        started = land(snapshot, start)
        snapshot, plan = decided[-1]
        snapshot = started or snapshot
        if plan.paths_to_delete:
            # What was prepared since: whoever prepares reads the log for vacuums once its document is stored.
            plan = plan.keeping(self._prepared(snapshot))
        end = partial(self.end, plan=plan, start=snapshot.version)
        try:
            done = delete_all(self.env.store, plan.paths_to_delete, partial(self.is_in_time, begun_ns), self._counting(plan))
        except StoreError:
            land(snapshot, partial(end, done=False))
            raise
        return land(snapshot, partial(end, done=done)) or snapshot, plan, done

    def _counting(self, plan: VacuumPlan) -> Callable[[str], None]:
        """Counts a file that is deleted."""
        sizes = {entry.path: entry.size for entry in plan.entries} if COUNTS.on else {}
        told = self.committer.table_format.kind, self.env.store.url

        def count(path: str) -> None:
            VACUUMED_FILES.add(1, *told)
            VACUUMED_DATA.add(sizes.get(path, 0), *told)

        return count

    def _planned(self, snapshot: Snapshot[Memory]) -> VacuumPlan:
        return self.plan(snapshot, self._prepared(snapshot))

    def _prepared(self, snapshot: Snapshot[Memory]) -> frozenset[str]:
        return prepared_paths(self.env.store, lambda operation: snapshot.state.recognise(operation) is not None)


def list_stored(store: Store, folders: Sequence[str], log_folder: str) -> list[ObjectInfo]:
    """All objects in folders of a table, but for the log; the unfinished writes of a local disk, also of the log. Raises StoreError."""
    stored = [info for folder in folders for info in store.list(folder) if not info.path.startswith(f"{log_folder}/")]
    if isinstance(store, ShowsUnfinished):
        looked_in = folders if "" in folders else (*folders, log_folder)
        stored += [info for folder in looked_in for info in store.unfinished(folder)]
    return stored


def linked_folders(store: Store, stored: Iterable[ObjectInfo]) -> frozenset[str]:
    """The folders of these objects that are reached through a symbolic link below the table's root; none in a bucket."""
    folders = {info.path.rpartition("/")[0] for info in stored if "/" in info.path}
    places = {folder: place for folder in folders if (place := store.local_path(folder)) is not None}
    # The root itself is resolved, so that any difference is a link below it. pathlib costs as much as the system calls.
    return frozenset(folder for folder, place in places.items() if os.path.realpath(place) != place)


def delete_all(store: Store, paths: Sequence[str], in_time: Callable[[], bool], deleted: Callable[[str], None]) -> bool:
    """Delete all of these objects, or as many as can be; then raises the first StoreError, if there was any.

    Before each it asks `in_time`, and leaves what is late; whether it left none. `deleted` is told each that is.
    """
    late: list[str] = []

    def delete(path: str) -> StoreError | None:
        if not in_time():
            late.append(path)
            return None
        try:
            store.delete(path)
        except StoreError as error:
            return error
        deleted(path)
        return None

    if len(paths) > _FEW and store.local_path(paths[0]) is None:
        with ThreadPoolExecutor(_TOGETHER) as pool:
            errors = list(pool.map(delete, paths))
    else:
        errors = [delete(path) for path in paths]
    failed = [error for error in errors if error is not None]
    if failed:
        failed[0].add_note(f"{len(failed):,} of {len(paths):,} files could not be deleted; the next vacuum takes them")
        raise failed[0]
    return not late
