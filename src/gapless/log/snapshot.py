"""The conversations that read a table's state from the log: open, an older version, refresh."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.errors import CorruptTable, TableError, VersionNotFound
from gapless.log.checkpoint import read_checkpoint, read_hint
from gapless.log.dialect import Dialect, Entry, Snapshot, State
from gapless.log.requests import Get, ListNames, Now, Talk, ask
from gapless.model.horizon import is_old

FAR = 64
"""Commits that `refresh` reads one by one before it asks whether a log checkpoint is the shorter way."""


def load(dialect: Dialect[Entry, State], at: int | None = None) -> Talk[Snapshot[State] | None]:
    """Read the snapshot of version `at`, or the newest; None where there is no log at all.

    Reads the newest log checkpoint that serves and the commits after it. Raises CorruptTable where a commit is missing,
    VersionNotFound where `at` is no version, or one that the log was cleaned of.
    """
    while True:
        began_ns = yield from ask(Now())
        found = yield from _load(dialect, at)
        # In so long a time the log may have been cleaned, and a late put may lie on a number that was free again.
        if not is_old((yield from ask(Now())), began_ns):
            return found


def _load(dialect: Dialect[Entry, State], at: int | None) -> Talk[Snapshot[State] | None]:
    # The hint first: read after the listing it could name a commit that the listing was too early for.
    hinted = _parse_hint((yield from ask(Get(dialect.hint))))
    base = yield from _hinted_base(dialect, at)
    names = yield from ask(ListNames(dialect.folder, after="" if base is None else dialect.path_of(base.version)))
    if base is None:
        base = yield from _listed_base(dialect, names, at)
    start = base.version if base else 0
    versions = {v for name in names if (v := dialect.version_of(name)) is not None and v > start}
    newest = max(versions, default=start)
    if newest == 0 and hinted == 0:
        return None
    if hinted > newest and (at is None or newest < at <= hinted):
        raise lost(dialect, newest + 1, f"{dialect.hint} names version {hinted}, but the newest commit found is {newest}")
    target = newest if at is None else at
    if not 1 <= target <= newest:
        raise VersionNotFound(f"version {at} does not exist", why=f"The table has versions 1 to {newest}", version=target)
    if start < target and start + 1 not in versions:
        # The hint may lag behind a log that was cleaned since.
        base = (yield from _listed_base(dialect, names, at)) or base
        start = base.version if base else 0
        _check_kept(dialect, names, target, first=start + 1)
    try:
        entries = yield from read_entries(dialect, start + 1, target + 1)
    except CorruptTable:
        names = yield from ask(ListNames(dialect.folder))
        if cleaned_until(dialect, names, start + 1) is None:
            raise
        # Someone cleaned the log between the listing and the reading.
        return (yield from _load(dialect, at))
    return _fold(dialect, base, entries) if entries else base


def refresh(dialect: Dialect[Entry, State], snapshot: Snapshot[State]) -> Talk[Snapshot[State]]:
    """The newest snapshot, reading only the commits after `snapshot`; by a log checkpoint where those are many, or gone.

    Raises CorruptTable where a commit cannot be read, or the log is there no more.
    """
    entries: list[tuple[int, Entry, int]] = []
    version = snapshot.version + 1
    while (data := (yield from ask(Get(dialect.path_of(version))))) is not None:
        entries.append((version, *dialect.decode(data, version)))
        if len(entries) == FAR and (yield from read_hint(dialect)) > version:
            return (yield from _reload(dialect, snapshot))
        version += 1
    # The log may have been cleaned up to here and beyond: that the next commit is missing then says nothing, and one that is there
    # may be a late put on a number that was free again, which is no commit.
    doubtful = not entries or is_old((yield from ask(Now())), snapshot.time_ns)
    if doubtful and not (yield from is_there(dialect, snapshot.version, snapshot.time_ns)):
        return (yield from _reload(dialect, snapshot))
    return advance(dialect, snapshot, entries)


def is_there(dialect: Dialect[Entry, State], version: int, time_ns: int) -> Talk[bool]:
    """Whether the commit of a version that was read before, with this commit time, is still in the log."""
    data = yield from ask(Get(dialect.path_of(version)))
    try:
        return data is not None and dialect.decode(data, version)[1] == time_ns
    except TableError:
        return True  # damaged, and so there


def advance(
    dialect: Dialect[Entry, State], snapshot: Snapshot[State], entries: Iterable[tuple[int, Entry, int]]
) -> Snapshot[State]:
    """Fold further (version, entry, commit time) onto a snapshot."""
    entries = list(entries)
    return _fold(dialect, snapshot, entries) if entries else snapshot


def read_entries(dialect: Dialect[Entry, State], start: int, end: int) -> Talk[list[tuple[int, Entry, int]]]:
    """The commits of versions `[start, end)` as (version, entry, commit time). Raises CorruptTable where one is missing."""
    entries = []
    for version in range(start, end):
        data = yield from ask(Get(dialect.path_of(version)))
        if data is None:
            raise lost(dialect, version, "The commit is missing although later ones exist")
        entries.append((version, *dialect.decode(data, version)))
    return entries


def cleaned_until(dialect: Dialect[Entry, State], names: Iterable[str], version: int) -> int | None:
    """The log checkpoint at or past `version` from which a listing of the log shows it to be whole again, where the log was
    cleaned of that version's commit; None where the commit is there, or lost.

    Cleaning takes the oldest commits and leaves a log checkpoint behind them; a commit that is missing among others is lost.
    """
    commits: set[int] = set()
    checkpoints: list[int] = []
    for name in names:
        if (commit := dialect.version_of(name)) is not None:
            commits.add(commit)
        elif (checkpoint := dialect.checkpoint_of(name)) is not None:
            checkpoints.append(checkpoint)
    if any(commit <= version for commit in commits):
        return None
    oldest = min(commits, default=version + 1)
    return min((c for c in checkpoints if c >= version and c >= oldest - 1), default=None)


def lost(dialect: Dialect[Entry, State], version: int, why: str) -> CorruptTable:
    """The error for a commit that should be there and is not."""
    before = f"; gl.open_at(path, version={version - 1}) reads what was before it" if version > 1 else ""
    return CorruptTable(
        f"version {version} is lost: {dialect.path_of(version)} is not there",
        why=why,
        fix=f"Bring the file back from a backup{before}",
        path=dialect.path_of(version),
    )


def _check_kept(dialect: Dialect[Entry, State], names: Iterable[str], target: int, *, first: int) -> None:
    """Raise VersionNotFound where the log was cleaned of a commit of `[first, target]`."""
    kept = cleaned_until(dialect, names, first) if first <= target else None
    if kept is not None and kept > target:
        raise VersionNotFound(
            f"version {target} can be read no longer",
            why=f"The log was cleaned of its commits; after it, version {kept} is the earliest that can be read",
            fix="Take a later version, or one that a tag names",
            version=target,
        )


def _reload(dialect: Dialect[Entry, State], snapshot: Snapshot[State]) -> Talk[Snapshot[State]]:
    found = yield from load(dialect)
    if found is None or found.version < snapshot.version:
        raise lost(dialect, snapshot.version, "It was there when the table was opened")
    return found if found.version > snapshot.version else snapshot


def _hinted_base(dialect: Dialect[Entry, State], at: int | None) -> Talk[Snapshot[State] | None]:
    """The checkpoint that the hint names, if it serves."""
    version = yield from read_hint(dialect)
    if version == 0 or (at is not None and version > at):
        return None
    return (yield from read_checkpoint(dialect, version))


def _listed_base(dialect: Dialect[Entry, State], names: Iterable[str], at: int | None) -> Talk[Snapshot[State] | None]:
    """The newest checkpoint in a listing that serves."""
    versions = (v for name in names if (v := dialect.checkpoint_of(name)) is not None and (at is None or v <= at))
    for version in sorted(versions, reverse=True):
        snapshot = yield from read_checkpoint(dialect, version)
        if snapshot is not None:
            return snapshot
    return None


def _fold(
    dialect: Dialect[Entry, State], snapshot: Snapshot[State] | None, entries: list[tuple[int, Entry, int]]
) -> Snapshot[State]:
    state = dialect.replay(snapshot.state if snapshot else None, entries)
    version, _, time_ns = entries[-1]
    return Snapshot(version, time_ns, state)


def _parse_hint(data: bytes | None) -> int:
    text = (data or b"").strip().removeprefix(b"+")
    return int(text) if text.isdigit() and len(text) <= 10 else 0
