"""Log checkpoints: a stored snapshot, so that opening does not replay the log.

A checkpoint is a shortcut and never the truth: a missing, torn or damaged one is passed over for an older one or for the commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from gapless.errors import CorruptTable, StoreError, TableError
from gapless.log.effects import Conversation, Delete, Get, Later, PutHint, Together, Warn, perform
from gapless.log.format import Entry, PartName, Snapshot, State, Stored, TableFormat
from gapless.model.segment import check


def is_due(version: int, interval: int) -> bool:
    """Whether the writer of this version owes a checkpoint; an interval of 0 turns them off."""
    return interval > 0 and version > 0 and version % interval == 0


def point_to_checkpoint(table_format: TableFormat[Entry, State], snapshot: Snapshot[State], size: int) -> Conversation[None]:
    """Let the hint name our checkpoint of this snapshot, of `size` bytes."""
    if (beside := table_format.beside(table_format.last_checkpoint)) is not None:
        with suppress(StoreError):
            yield from perform(Delete(beside))
    yield from perform(PutHint(table_format.last_checkpoint, table_format.encode_pointer(snapshot, size)))


def read_hint(table_format: TableFormat[Entry, State]) -> Conversation[Stored | None]:
    """The checkpoint that the hint names; None where there is none, or one that cannot be read."""
    return parse_pointer(table_format, (yield from perform(Get(table_format.last_checkpoint))))


def parse_pointer(table_format: TableFormat[Entry, State], data: bytes | None) -> Stored | None:
    """The checkpoint in the hint's bytes; None where there is none."""
    return None if data is None else table_format.decode_pointer(data)


def objects_of(table_format: TableFormat[Entry, State], stored: Stored) -> tuple[Get, ...]:
    """What is read for a checkpoint: its objects, and the commit of its version where it may not say that one's time."""
    return tuple(map(Get, (*stored.paths, table_format.path_of(stored.version)) if table_format.bare else stored.paths))


def read_checkpoint(table_format: TableFormat[Entry, State], stored: Stored) -> Conversation[Snapshot[State] | None]:
    """The snapshot that a checkpoint holds, without its parts; None, with a warning, where it is missing or damaged."""
    found = yield from perform(Together(objects_of(table_format, stored)))
    return (yield from decode_read(table_format, stored, found))


def decode_read(
    table_format: TableFormat[Entry, State], stored: Stored, found: Sequence[bytes | None]
) -> Conversation[Snapshot[State] | None]:
    """The snapshot in a checkpoint, of what was `found` for its `objects_of`; None, with a warning, where it serves no one."""
    pieces: list[bytes] = []
    for path, data in zip(stored.paths, found, strict=False):
        if data is None:
            yield from perform(Warn(f"the log checkpoint {path} is missing; an older one or the commits serve instead"))
            return None
        pieces.append(data)
    drive = yield from perform(Later())
    try:
        snapshot = table_format.assemble(pieces, stored, drive)
    except CorruptTable as error:
        yield from perform(Warn(f"{error.what}; an older log checkpoint or the commits serve instead"))
        return None
    return _timed(table_format, snapshot, found[len(pieces)]) if table_format.bare else snapshot


def _timed(table_format: TableFormat[Entry, State], snapshot: Snapshot[State], commit: bytes | None) -> Snapshot[State]:
    """The same with its commit's time, by its commit where it does not say it itself; 0 where neither tells."""
    if snapshot.time_ns or commit is None:
        return snapshot
    try:
        return replace(snapshot, time_ns=table_format.time_of(commit, snapshot.version))
    except TableError:
        return snapshot  # damaged; no one needs it but to tell the time


def read_whole(table_format: TableFormat[Entry, State], stored: Stored) -> Conversation[Snapshot[State] | None]:
    """The snapshot in a checkpoint of which every part was read; None, with a warning, where anything is damaged."""
    snapshot = yield from read_checkpoint(table_format, stored)
    if snapshot is None or not (lost := (yield from lost_parts(table_format.parts_of(snapshot)))):
        return snapshot
    yield from perform(Warn(f"the log checkpoint {stored.paths[0]} needs {min(lost)}, which is missing or damaged"))
    return None


def lost_parts(parts: Iterable[PartName]) -> Conversation[frozenset[str]]:
    """The paths of those parts that are not stored as they were written. Raises StoreError."""
    lost = set()
    for part in parts:
        data = yield from perform(Get(part.path))
        try:
            check(data or b"", part.checksum, part.path)
        except CorruptTable:
            lost.add(part.path)
        if data is None:
            lost.add(part.path)
    return frozenset(lost)
