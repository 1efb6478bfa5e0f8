"""An immutable view of a table at one version, and the conversations that read it from the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic

from gapless.errors import CorruptTable, VersionNotFound
from gapless.log.dialect import Dialect, Entry, State
from gapless.log.requests import Get, ListNames, Talk, ask


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[State]):
    """A table's state at a version, with that version's commit time (nanoseconds since 1970 UTC)."""

    version: int
    time_ns: int
    state: State


def load(dialect: Dialect[Entry, State], at: int | None = None) -> Talk[Snapshot[State] | None]:
    """Read the snapshot of version `at`, or the newest; None where there is no log at all.

    Raises CorruptTable where a commit is missing, VersionNotFound where `at` lies past the newest.
    """
    # The hint first: read after the listing it could name a commit that the listing was too early for.
    hinted = _parse_hint((yield from ask(Get(dialect.hint))))
    names = yield from ask(ListNames(dialect.folder))
    newest = _check_whole(dialect, {v for name in names if (v := dialect.version_of(name)) is not None}, hinted, at)
    if newest == 0:
        return None
    if at is not None and not 1 <= at <= newest:
        raise VersionNotFound(f"version {at} does not exist", why=f"The table has versions 1 to {newest}", version=at)
    entries = yield from _read_range(dialect, 1, (at or newest) + 1)
    return _fold(dialect, None, entries)


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
    return (yield from _read_range(dialect, start, end))


def _read_range(dialect: Dialect[Entry, State], start: int, end: int) -> Talk[list[tuple[int, Entry, int]]]:
    entries = []
    for version in range(start, end):
        data = yield from ask(Get(dialect.path_of(version)))
        if data is None:
            raise _lost(dialect, version, "The commit is missing although later ones exist")
        entries.append((version, *dialect.decode(data, version)))
    return entries


def _fold(
    dialect: Dialect[Entry, State], snapshot: Snapshot[State] | None, entries: list[tuple[int, Entry, int]]
) -> Snapshot[State]:
    state = dialect.replay(snapshot.state if snapshot else None, entries)
    version, _, time_ns = entries[-1]
    return Snapshot(version, time_ns, state)


def _parse_hint(data: bytes | None) -> int:
    text = (data or b"").strip().removeprefix(b"+")
    return int(text) if text.isdigit() else 0


def _check_whole(dialect: Dialect[Entry, State], versions: set[int], hinted: int, at: int | None) -> int:
    """The newest version, once everything that the asked version needs is known to be listed."""
    newest = max(versions, default=0)
    if hinted > newest and at is None:
        raise _lost(dialect, hinted, f"{dialect.hint} names version {hinted}, but the newest commit found is {newest}")
    for version in range(1, min(at or newest, newest) + 1):
        if version not in versions:
            raise _lost(dialect, version, "The commit is missing although later ones exist")
    return newest


def _lost(dialect: Dialect[Entry, State], version: int, why: str) -> CorruptTable:
    return CorruptTable(
        f"version {version} is lost: {dialect.path_of(version)} is not there",
        why=why,
        fix="Bring the file back from a backup; a version before it can still be opened",
        path=dialect.path_of(version),
    )
