"""The conversations that read a table's state from the log: open, refresh, history."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.errors import CorruptTable, VersionNotFound
from gapless.log.checkpoint import read_checkpoint, read_hint
from gapless.log.dialect import Dialect, Entry, Snapshot, State
from gapless.log.requests import Get, ListNames, Talk, ask


def load(dialect: Dialect[Entry, State], at: int | None = None) -> Talk[Snapshot[State] | None]:
    """Read the snapshot of version `at`, or the newest; None where there is no log at all.

    Reads the newest log checkpoint that serves and the commits after it. Raises CorruptTable where a commit is missing,
    VersionNotFound where `at` is no version.
    """
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
    if hinted > newest and at is None:
        raise _lost(dialect, newest + 1, f"{dialect.hint} names version {hinted}, but the newest commit found is {newest}")
    target = newest if at is None else at
    if not 1 <= target <= newest:
        raise VersionNotFound(f"version {at} does not exist", why=f"The table has versions 1 to {newest}", version=target)
    entries = yield from read_entries(dialect, start + 1, target + 1)
    return _fold(dialect, base, entries) if entries else base


def refresh(dialect: Dialect[Entry, State], snapshot: Snapshot[State]) -> Talk[Snapshot[State]]:
    """The newest snapshot, reading only the commits after `snapshot`."""
    entries = []
    version = snapshot.version + 1
    while (data := (yield from ask(Get(dialect.path_of(version))))) is not None:
        entries.append((version, *dialect.decode(data, version)))
        version += 1
    return advance(dialect, snapshot, entries)


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
            raise _lost(dialect, version, "The commit is missing although later ones exist")
        entries.append((version, *dialect.decode(data, version)))
    return entries


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


def _lost(dialect: Dialect[Entry, State], version: int, why: str) -> CorruptTable:
    return CorruptTable(
        f"version {version} is lost: {dialect.path_of(version)} is not there",
        why=why,
        fix="Bring the file back from a backup; a version before it can still be opened",
        path=dialect.path_of(version),
    )
