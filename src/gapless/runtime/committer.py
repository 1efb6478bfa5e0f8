"""Committing changes of a table: proposed to a version, and anew to a newer one where another's commit came first and clashes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic

from gapless._version import __version__
from gapless.errors import (
    AccessDenied,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptTable,
    GaplessError,
    ObjectNotFound,
    StorageFull,
    StoreError,
)
from gapless.log.checkpoint import is_due
from gapless.log.commit import VACUUMED, CommitOptions, Committed, Conflict, commit
from gapless.log.format import ConflictChecker, Entry, Snapshot, State, TableFormat, WrittenFile
from gapless.log.snapshot import advance, refresh, write_checkpoint
from gapless.log.versions import read_back
from gapless.model.operation import Tally
from gapless.model.protocols import WRITER_HORIZON_NS, is_old
from gapless.runtime.environment import Environment
from gapless.runtime.metrics import (
    COMMITS,
    CONFLICTS,
    COUNTS,
    DATA_WRITTEN,
    FILES_WRITTEN,
    RETRIES,
    ROWS_REMOVED,
    ROWS_SKIPPED,
    ROWS_WRITTEN,
    UNKNOWN,
    Instrument,
)

if TYPE_CHECKING:
    from gapless.runtime.condition import Condition


def require_files(
    env: Environment, table_format: TableFormat[Entry, State], written: Iterable[WrittenFile], version: int
) -> None:
    """Raise CommitConflict where a file that a commit makes live was written long ago, and a vacuum deletes it, or it is no longer there.

    Long is half the writer horizon: until then nothing removes what a writer at work has written. `version` is the one that the commit is
    made for: later vacuums are the commit conversation's. Raises CorruptTable, StoreError.
    """
    now_ns = env.clock.now_ns()
    old = [file for file in written if file.instant_ns is None or is_old(now_ns, file.instant_ns)]
    _require_not_vacuumed(env, table_format, [file for file in old if not file.retained], version)
    for file in old:
        if file.stored:
            require_file(env, file.path, version)


def _require_not_vacuumed(
    env: Environment, table_format: TableFormat[Entry, State], files: Sequence[WrittenFile], version: int
) -> None:
    """Raise CommitConflict where a vacuum up to a version may have deleted a file that was written before, or be about to.

    A vacuum says so in a commit before it deletes anything, and that comes after the file. So the log is read back to when the oldest was
    begun; a log that was cleaned later does not tell.
    """
    begun = [file.instant_ns for file in files if file.instant_ns is not None]
    if not begun or version < table_format.first:
        return
    since_ns = min(begun) - WRITER_HORIZON_NS // 2
    commits = env.drive(read_back(table_format, version, since_ns=since_ns))
    for at, entry, time_ns in reversed(commits):
        if (path := table_format.vacuumed(entry, time_ns, files)) is not None:
            raise refuse_vacuumed(path, f"Version {at} is a vacuum that deletes it, or has done so", version)
    if not commits or (commits[0][0] > table_format.first and commits[0][2] > since_ns):
        path = min(files, key=lambda file: file.instant_ns or 0).path
        raise refuse_vacuumed(path, "It is older than the log, which was cleaned of commits that could say so", version)


def refuse_vacuumed(path: str, why: str, version: int) -> CommitConflict:
    """The error for a change whose file a vacuum may have deleted, or be about to; `version` is the newest that is known."""
    return CommitConflict(
        f"{path} is gone or about to go, which this change wrote",
        why=f"It was not committed for half a day or longer. {why}; nothing was committed",
        fix="Make the change again from its data",
        version=version,
        reason=VACUUMED,
    )


def require_file(env: Environment, path: str, version: int) -> None:
    """Raise CommitConflict where a file that a change wrote or needs is gone; `version` as in `require_files`. Raises StoreError."""
    try:
        env.store.head(path)
    except ObjectNotFound as error:
        raise CommitConflict(
            f"{path} is gone, which this change wrote or needs",
            why="It was not committed for half a day or longer, or was removed since, and vacuum or someone else deleted it; "
            "nothing was committed",
            fix="Make the change again from its data",
            version=version,
            reason="files are gone",
        ) from error


ENGINE = f"gapless/{__version__}"
"""Who commits, as the log says it."""


_LOGGER = logging.getLogger("gapless.runtime")

NOT_COMMITTED = (StorageFull, AccessDenied)
"""Errors of a store after which a commit certainly is not there: local puts and conditional puts fail whole. After others it may be."""


def nothing() -> None:
    """Do nothing: for a change without files."""


@contextlib.contextmanager
def calling_on_error(act: Callable[[], None]) -> Iterator[None]:
    """Calls `act` where the block raises, whatever it raises."""
    try:
        yield
    except BaseException:
        act()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Generic[Entry]):
    """A change of one version of the table, ready to be committed."""

    commit: Entry
    check_conflict: ConflictChecker[Entry]
    """May it stand after a commit that came first?"""
    tally: Tally = field(default_factory=Tally)
    """What it counts."""
    discard: Callable[[], None] = nothing
    """Removes the files that were written for it alone, once it certainly is not and will not be committed."""
    abandon: Callable[[], None] = nothing
    """Removes those that another proposal of the change would take too, once the store has refused the commit for good,
    or the committer's condition."""
    landed: Callable[[], None] = nothing
    """Called once it is committed."""
    deferred: Sequence[str] = ()
    """Files of it that may not be durable yet, and become so with its commit, just before it."""
    prepared: frozenset[str] = frozenset()
    """Paths of files that a stored document protects: a vacuum reads those after its commit, and before it deletes."""
    describes: bool = False
    """Whether its files are those of another log, which are described here once more: nothing was written for it."""
    begun_ns: int | None = None
    """When it was begun to be made for its version (since 1970 UTC), for files of it that tell no time; None: just now."""
    time_ns: int | None = None
    """Its commit time (since 1970 UTC), where that is another table's; None for the clock's."""

    def discarding(self, discard: Callable[[], None]) -> Proposal[Entry]:
        """The same, to which the files that `discard` removes belong too."""

        def both() -> None:
            self.discard()
            discard()

        return replace(self, discard=both)


Propose = Callable[[Snapshot[State]], "Proposal[Entry] | None"]
"""The change as it should be made to this version; None where nothing is left to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer(Generic[Entry, State]):
    """Commits to one table; `moved` is given each newer snapshot as it becomes known, and `landed` each that a commit of ours made."""

    table_format: TableFormat[Entry, State]
    env: Environment
    moved: Callable[[Snapshot[State]], None]
    landed: Callable[[Snapshot[State]], None] = lambda _: None
    began: float | None = None
    """When the call began, by the environment's monotonic clock in seconds; None leaves the duration of its commits out."""
    condition: Condition[Entry] | None = None
    """What must hold besides for its changes to be committed."""

    def refresh(self, snapshot: Snapshot[State]) -> Snapshot[State]:
        """The newest version."""
        newest = self.env.drive(refresh(self.table_format, snapshot))
        self.moved(newest)
        return newest

    def commit(self, snapshot: Snapshot[State], proposal: Proposal[Entry]) -> Snapshot[State] | Conflict:
        """The version that holds the change, or the commit that it cannot follow, with its files still there.

        Writes the log checkpoint that the version may owe. Raises CommitOutcomeUnknown, StoreError; CommitConflict where the change
        took so long that its files are gone; and what its condition raises.
        """
        check_conflict = proposal.check_conflict
        if self.condition is not None:
            with calling_on_error(proposal.abandon), calling_on_error(proposal.discard):
                self.condition.check()
            check_conflict = self.condition.checker(check_conflict)
        entry, operation = self._timed(proposal.commit), self.table_format.operation_of(proposal.commit)
        begun_ns = self.env.clock.now_ns() if proposal.begun_ns is None else proposal.begun_ns
        named = tuple(self.table_format.written_files(entry, snapshot.state, begun_ns))
        written = tuple(file for file in named if file.path not in proposal.prepared)
        try:
            require_files(self.env, self.table_format, written, snapshot.version)
        except CommitConflict:
            self.count(CONFLICTS, 1, operation)
            proposal.discard()
            raise
        try:
            base = snapshot.version, snapshot.time_ns
            # Near by, a look back costs next to nothing; where the store is far, nothing beside files that are deferred.
            verify_base = bool(proposal.deferred) or not self.env.store.capabilities.concurrent
            conversation = commit(
                self.table_format,
                *base,
                entry,
                check_conflict,
                written=written,
                options=CommitOptions(verify_base=verify_base, in_turn=True, time_ns=proposal.time_ns),
            )
            outcome = self.env.drive(conversation, proposal.deferred, turn=self.table_format.folder)
        except CommitConflict:
            self.count(CONFLICTS, 1, operation)
            proposal.discard()
            raise
        except StoreError as error:
            if isinstance(error, NOT_COMMITTED) or error.facts.get("path") in proposal.deferred:
                proposal.discard()
                proposal.abandon()
            raise
        finally:
            self.env.forget(proposal.deferred)
        match outcome:
            case Committed(version, entries):
                self._count_landed(operation, proposal.tally, () if proposal.describes else named)
                try:
                    newest = advance(self.table_format, snapshot, entries)
                except (StoreError, CorruptTable) as error:
                    # Commits that came first may remove what lies in a part of the log checkpoint that was not read yet.
                    raise _landed_unread(version, self.table_format.id_of(entry), error) from error
                self._follow(newest)
                proposal.landed()
                self.landed(newest)
                return newest
            case Conflict():
                self.count(CONFLICTS, 1, operation)
                return outcome
            case unknown:
                self.count(UNKNOWN, 1, operation)
                raise outcome_unknown(unknown.version, self.table_format.id_of(entry))

    def land(
        self,
        snapshot: Snapshot[State],
        propose: Propose[State, Entry],
        *,
        discard: Callable[[], None] = nothing,
        lost: Callable[[Conflict], None] | None = None,
        retry_missing: bool = True,
    ) -> Snapshot[State] | None:
        """The version that holds the change; None where there was nothing to change.

        Args:
            snapshot: The version that it is proposed to first.
            propose: Called again with the newest version each time another's commit clashes, or took files away. It may stage files
                anew, filter them, or take those again that it has.
            discard: Removes files that were written for whichever proposal is committed, once it is certain that none is and will be:
                not while an outcome is unknown. Those of one proposal alone are for `Proposal.discard`.
            lost: Told the commit that a proposal lost to, before the next; raises where that shall not be made. Without it changes are
                proposed until the environment's deadline, from now on.
            retry_missing: Whether a change is proposed to a newer version, if there is one, where files of this one or its own are missing.

        Raises CommitConflict, CommitOutcomeUnknown, StoreError, and what `propose` raises.
        """
        lost = lost or self.until_deadline()
        while True:
            with calling_on_error(discard):
                begun_ns = self.env.clock.now_ns()
                snapshot, proposal = self._proposed(snapshot, propose, retry_missing=retry_missing)
            if proposal is None:
                discard()
                return None
            try:
                outcome = self.commit(snapshot, replace(proposal, abandon=discard, begun_ns=begun_ns))
            except CommitConflict as error:
                with calling_on_error(discard):
                    snapshot = self._newer(snapshot, error, retry_missing=retry_missing)
                continue
            if not isinstance(outcome, Conflict):
                return outcome
            proposal.discard()
            with calling_on_error(discard):
                lost(outcome)
                self._say_again(f"version {outcome.version} came first and clashes ({outcome.cause.reason})")
                snapshot = self.refresh(snapshot)

    def until_deadline(self) -> Callable[[Conflict], None]:
        """Raises CommitConflict for the commit that it is told, once the environment's deadline is over, which begins now."""
        until = self.env.clock.monotonic() + self.env.deadline_s

        def lost(conflict: Conflict) -> None:
            if self.env.clock.monotonic() >= until:
                raise refuse_conflict(conflict)

        return lost

    def _proposed(
        self, snapshot: Snapshot[State], propose: Propose[State, Entry], *, retry_missing: bool
    ) -> tuple[Snapshot[State], Proposal[Entry] | None]:
        """The proposal, and the version that it is for: a newer one where files of this one are missing."""
        while True:
            try:
                return snapshot, propose(snapshot)
            except CorruptTable as error:
                snapshot = self._newer(snapshot, error, retry_missing=retry_missing)

    def _newer(self, snapshot: Snapshot[State], missed: GaplessError, *, retry_missing: bool) -> Snapshot[State]:
        """The newest version, which says whether the files that were missed had expired; raises `missed` where this is the newest."""
        if not retry_missing:
            raise missed
        newest = self.refresh(snapshot)
        if newest.version == snapshot.version:
            raise missed
        self._say_again(missed.what)
        return newest

    def count(self, instrument: Instrument, amount: int, operation: str) -> None:
        """Count for this table, of changes of this kind."""
        instrument.add(amount, self.table_format.kind, operation, self.env.store.url)

    def count_rows(self, tally: Tally, operation: str) -> None:
        """Count the rows of a change that is done, by a commit or without one."""
        self.count(ROWS_WRITTEN, tally.rows, operation)
        self.count(ROWS_REMOVED, tally.removed_rows, operation)
        self.count(ROWS_SKIPPED, tally.skipped_rows, operation)

    def _count_landed(self, operation: str, tally: Tally, named: Sequence[WrittenFile]) -> None:
        if not COUNTS.on:
            return
        sizes = [file.size for file in named if file.size is not None and not file.retained]
        self.count(COMMITS, 1, operation)
        self.count(FILES_WRITTEN, len(sizes), operation)
        self.count(DATA_WRITTEN, sum(sizes), operation)
        self.count_rows(tally, operation)

    def _say_again(self, why: str) -> None:
        RETRIES.add(1, "conflict", self.env.store.url)
        _LOGGER.info("%s: %s; the change is made again for the newest version", self.env.store.url, why)

    def _timed(self, entry: Entry) -> Entry:
        if self.began is None:
            return entry
        return self.table_format.with_duration(entry, max(0, round(1_000 * (self.env.clock.monotonic() - self.began))))

    def _follow(self, snapshot: Snapshot[State]) -> None:
        """Tell a version of ours, and write the log checkpoint that it owes."""
        self.moved(snapshot)
        if is_due(snapshot.version, self.table_format.interval(snapshot.state)):
            self.env.drive(write_checkpoint(self.table_format, snapshot))


def refuse_conflict(conflict: Conflict) -> CommitConflict:
    """The error for a commit that lost to one it cannot follow."""
    detail = f": {conflict.cause.detail}" if conflict.cause.detail is not None else ""
    return CommitConflict(
        f"version {conflict.version} came first and clashes ({conflict.cause.reason}{detail})",
        why="Another writer committed it while this change was under way; nothing of this change was written",
        fix="Refresh the table, look at that version, and send the change again if it is still wanted",
        version=conflict.version,
        reason=conflict.cause.reason,
    )


def _landed_unread(version: int, commit_id: str, error: GaplessError) -> CommitOutcomeUnknown:
    """The error for a commit that landed, after others of which no one could be told what they make of the table."""
    return CommitOutcomeUnknown(
        f"the commit landed as version {version}, but what the commits before it changed could not be read: {error.what}",
        why="The store failed after the commit; nothing is lost",
        fix=f"When the store answers again, open the table anew; commit_id {commit_id} is in table.history()",
        version=version,
        commit_id=commit_id,
    )


def outcome_unknown(version: int, commit_id: str) -> CommitOutcomeUnknown:
    """The error for a commit of which no one can say yet whether it landed."""
    return CommitOutcomeUnknown(
        f"whether the commit landed as version {version} is not known",
        why="The store gave no usable answer until the deadline; nothing was deleted",
        fix=f"When the store answers again, look for commit_id {commit_id} in table.history(); if it is absent, send it again",
        version=version,
        commit_id=commit_id,
    )
