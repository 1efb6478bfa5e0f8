"""Optimistic commit with rebase: put-if-absent of the commit file of version N + 1 *is* the commit.

An unclear answer is resolved by reading that file back and comparing commit ids. After a lost race only the new commits are read and checked
for conflicts, and the next version is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from gapless.errors import StoreError
from gapless.log.effects import Conversation, Get, Now, Put, PutHint, PutNew, TakeTurn, Wait, perform
from gapless.log.format import ConflictChecker, Conflicting, Entry, State, TableFormat, WrittenFile
from gapless.log.segment import decode_commit
from gapless.log.snapshot import is_there
from gapless.model.protocols import is_old


@dataclass(frozen=True, slots=True)
class Committed(Generic[Entry]):
    """It landed as `version`; `entries` are the commits passed over and then ours: (version, entry, commit time)."""

    version: int
    entries: tuple[tuple[int, Entry, int], ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """It certainly did not land and never will: `version` conflicts with it."""

    version: int
    cause: Conflicting


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have landed as `version`, or may still; keep its files."""

    version: int


Outcome = Committed[Entry] | Conflict | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How a commit is made."""

    verify_base: bool = False
    """Whether the commit before it must be seen before the first try in any case, since another table may lie there by now, or none; else it is
    once the first try lost to a commit that is there."""
    in_turn: bool = False
    """Whether it queues first."""
    time_ns: int | None = None
    """Its commit time (since 1970 UTC), where the clock's is not meant."""


DEFAULT = CommitOptions()

CLEANED = "the log was cleaned past the version that this change was made for"
VACUUMED = "vacuum had given up files that this change names"


@dataclass(slots=True)
class _Race(Generic[Entry]):
    """A commit attempt: the entry, rebased so far, and the version it is to have."""

    entry: Entry
    version: int
    """To be tried next."""
    time_ns: int
    """Commit time of the version before."""
    passed: list[tuple[int, Entry, int]]
    written: Sequence[WrittenFile] = ()
    """The files that it makes live."""


@dataclass(frozen=True, slots=True)
class _Try:
    """One put of a commit attempt: its version, the commit time before it, and when it was."""

    version: int
    time_ns: int
    now_ns: int
    first: int
    """The number of a table's first version."""

    @property
    def is_stale(self) -> bool:
        """Whether the log may have been cleaned past this version since the one before it was known to be the newest."""
        return self.version > self.first and is_old(self.now_ns, self.time_ns)


def commit(
    table_format: TableFormat[Entry, State],
    base: int,
    base_time_ns: int,
    entry: Entry,
    check_conflict: ConflictChecker[Entry],
    *,
    written: Sequence[WrittenFile] = (),
    options: CommitOptions = DEFAULT,
) -> Conversation[Outcome[Entry]]:
    """Append `entry` after version `base` (the one before the first: there is no table yet), rebasing over commits that do not conflict.

    Commit times never run backward: each is at least a tick of the format's after the one before, whatever the clock says.
    Where so much time went by that the log may have been cleaned, a free version proves nothing unless the commit before it is there. It
    conflicts with a vacuum that came first and may delete one of the files `written`: a vacuum deletes nothing before a commit of its own
    says so, which is one of those that are read here, or `base` or one before.
    """
    race, attempt, tried = _Race(entry, base + 1, base_time_ns, [], written), 0, base
    if options.in_turn and (refused := (yield from _wait_for_turn(table_format, race, check_conflict))) is not None:
        return refused
    while True:
        at = _Try(race.version, race.time_ns, (yield from perform(Now())), table_format.first)
        if at.is_stale or (options.verify_base and table_format.first <= base == tried and not race.passed):
            refused = yield from _check_base(table_format, at, tried=tried == at.version)
            if refused is not None:
                return refused
        wanted_ns = at.now_ns if options.time_ns is None else options.time_ns
        ours_ns = max(wanted_ns - wanted_ns % table_format.tick_ns, at.time_ns + table_format.tick_ns)
        data = table_format.encode(race.entry, at.version, ours_ns)
        put = yield from _put(table_format.path_of(at.version), data, again=tried == at.version)
        if put in (Put.DONE, Put.LATE):
            return (yield from _landed(table_format, race, at, ours_ns, doubtful=at.is_stale or put is Put.LATE))
        tried = at.version
        try:
            found = yield from perform(Get(table_format.path_of(at.version)))
        except StoreError:
            return Unknown(at.version)
        if found is None:
            # Ours can land at this version and nowhere else, so it is tried again here, and lands once.
            attempt += 1
            if not (yield from perform(Wait(attempt))):
                return Unknown(at.version)
            continue
        verdict = yield from _read_on(table_format, race, found, check_conflict)
        if isinstance(verdict, int):
            late = is_old((yield from perform(Now())), at.now_ns)
            return (yield from _landed(table_format, race, at, verdict, doubtful=at.is_stale or late))
        if verdict is not None:
            return verdict
        # What came first are commits after the one that this change was made for only if that is there.
        unverified = at.is_stale or (not options.verify_base and table_format.first <= base == at.version - 1)
        if unverified and (yield from _is_cleaned(table_format, at)):
            return Conflict(at.version, Conflicting(CLEANED))
        attempt += 1
        if not (yield from perform(Wait(attempt))):
            return Conflict(race.version - 1, Conflicting("the deadline passed while other commits kept coming first"))


def _wait_for_turn(
    table_format: TableFormat[Entry, State], race: _Race[Entry], check_conflict: ConflictChecker[Entry]
) -> Conversation[Conflict | Unknown | None]:
    """Wait for the turn, checking meanwhile what others commit, so that little is left to do in it; returns why the entry cannot land
    any more.
    """
    base, waited = _Try(race.version, race.time_ns, race.time_ns, table_format.first), False
    while (yield from perform(TakeTurn())):
        waited = True
        if (conflict := (yield from _read_newest(table_format, race, check_conflict))) is not None:
            return conflict
    if not waited:
        return None
    # What was read are commits of this table only if the one that it was read from is there.
    if base.version > table_format.first and (gone := (yield from _check_base(table_format, base, tried=False))) is not None:
        return gone
    return (yield from _read_newest(table_format, race, check_conflict))


def _read_newest(
    table_format: TableFormat[Entry, State], race: _Race[Entry], check_conflict: ConflictChecker[Entry]
) -> Conversation[Conflict | None]:
    """Rebase over what was committed, before anything of ours was put."""
    found = yield from _read_on(
        table_format, race, (yield from perform(Get(table_format.path_of(race.version)))), check_conflict
    )
    return found if isinstance(found, Conflict) else None


def _read_on(
    table_format: TableFormat[Entry, State], race: _Race[Entry], data: bytes | None, check_conflict: ConflictChecker[Entry]
) -> Conversation[Conflict | int | None]:
    """Rebase over all commits up to the newest, since a put below it could only be refused; returns our own's commit time where it is one."""
    while data is not None:
        _, theirs, race.time_ns = decode_commit(table_format, data, race.version, race.time_ns)
        if table_format.id_of(theirs) == table_format.id_of(race.entry):
            race.entry = theirs
            return race.time_ns
        if (gone := table_format.vacuumed(theirs, race.time_ns, race.written)) is not None:
            return Conflict(race.version, Conflicting(VACUUMED, gone))
        verdict = yield from check_conflict(race.entry, race.version, theirs)
        if isinstance(verdict, Conflicting):
            return Conflict(race.version, verdict)
        race.entry = verdict.entry
        race.passed.append((race.version, theirs, race.time_ns))
        race.version += 1
        data = yield from perform(Get(table_format.path_of(race.version)))
    return None


def _check_base(table_format: TableFormat[Entry, State], at: _Try, *, tried: bool) -> Conversation[Conflict | Unknown | None]:
    """Why a version may not be put, if the log was cleaned past it; Unknown for one that was tried before."""
    try:
        if not (yield from _is_cleaned(table_format, at)):
            return None
    except StoreError:
        if not tried:
            raise
        return Unknown(at.version)
    return Unknown(at.version) if tried else Conflict(at.version, Conflicting(CLEANED))


def _is_cleaned(table_format: TableFormat[Entry, State], at: _Try) -> Conversation[bool]:
    """Whether the commit before a version is gone. Cleaning deletes commits in order: while it is there, all after it are."""
    return not (yield from is_there(table_format, at.version - 1, at.time_ns))


def _put(path: str, data: bytes, *, again: bool) -> Conversation[Put]:
    try:
        return (yield from perform(PutNew(path, data)))
    except StoreError:
        if not again:
            raise
        # This try failed whole, but one before it may have landed there, or may still.
        return Put.NO_ANSWER


def _landed(
    table_format: TableFormat[Entry, State], race: _Race[Entry], at: _Try, time_ns: int, *, doubtful: bool
) -> Conversation[Committed[Entry] | Unknown]:
    """Ours is stored. It is the commit of that version unless the log was cleaned past it before; then it is none, and no one reads it."""
    try:
        if doubtful and (at.version == table_format.first or (yield from _is_cleaned(table_format, at))):
            return Unknown(at.version)
    except StoreError:
        return Unknown(at.version)
    if table_format.hint is not None:
        yield from perform(PutHint(table_format.hint, b"%d\n" % at.version))
    return Committed(at.version, (*race.passed, (at.version, race.entry, time_ns)))
