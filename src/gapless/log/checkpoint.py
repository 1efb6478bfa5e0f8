"""Read and store log checkpoints: stored snapshots, so that opening a table does not replay its whole log.

A checkpoint is a shortcut and never the truth: a missing, torn or damaged one is passed over for an older one or for the commits. It is
stored in order: its new parts, itself, then the hint that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from gapless.errors import CorruptTable, StoreError, TableError
from gapless.log.effects import Concurrently, Conversation, Delete, Get, GetDrive, NewId, Put, PutHint, PutNew, Warn, perform
from gapless.log.format import Entry, Packed, PartName, Snapshot, State, StoredCheckpoint, TableFormat
from gapless.model.segment import check


def is_due(version: int, interval: int) -> bool:
    """Whether the writer of this version owes a checkpoint; an interval of 0 turns them off."""
    return interval > 0 and version > 0 and version % interval == 0


# -- reading -----------------------------------------------------------------------------------------------------------


def read_hint(table_format: TableFormat[Entry, State]) -> Conversation[StoredCheckpoint | None]:
    """The checkpoint that the hint names; None where there is none, or one that cannot be read."""
    return parse_hint(table_format, (yield from perform(Get(table_format.last_checkpoint))))


def parse_hint(table_format: TableFormat[Entry, State], data: bytes | None) -> StoredCheckpoint | None:
    """The checkpoint in the hint's bytes; None where there is none."""
    return None if data is None else table_format.decode_pointer(data)


def objects_of(table_format: TableFormat[Entry, State], checkpoint: StoredCheckpoint) -> tuple[Get, ...]:
    """What is read for a checkpoint: its objects, and the commit of its version where it may not have that one's time."""
    paths = checkpoint.paths
    return tuple(map(Get, (*paths, table_format.path_of(checkpoint.version)) if table_format.foreign_checkpoints else paths))


def read_checkpoint(
    table_format: TableFormat[Entry, State], checkpoint: StoredCheckpoint
) -> Conversation[Snapshot[State] | None]:
    """The snapshot that a checkpoint holds, without its parts; None, with a warning, where it is missing or damaged."""
    found = yield from perform(Concurrently(objects_of(table_format, checkpoint)))
    return (yield from decode_objects(table_format, checkpoint, found))


def decode_objects(
    table_format: TableFormat[Entry, State], checkpoint: StoredCheckpoint, found: Sequence[bytes | None]
) -> Conversation[Snapshot[State] | None]:
    """The snapshot in a checkpoint, of what was `found` for its `objects_of`; None, with a warning, where it is missing or damaged."""
    pieces: list[bytes] = []
    for path, data in zip(checkpoint.paths, found, strict=False):
        if data is None:
            yield from perform(Warn(f"the log checkpoint {path} is missing; an older one or the commits serve instead"))
            return None
        pieces.append(data)
    drive = yield from perform(GetDrive())
    try:
        snapshot = table_format.assemble(pieces, checkpoint, drive)
    except CorruptTable as error:
        yield from perform(Warn(f"{error.what}; an older log checkpoint or the commits serve instead"))
        return None
    return _with_commit_time(table_format, snapshot, found[len(pieces)]) if table_format.foreign_checkpoints else snapshot


def _with_commit_time(
    table_format: TableFormat[Entry, State], snapshot: Snapshot[State], commit: bytes | None
) -> Snapshot[State]:
    """The snapshot with its commit's time, by its commit where the checkpoint does not have it; 0 where neither has."""
    if snapshot.time_ns or commit is None:
        return snapshot
    try:
        return replace(snapshot, time_ns=table_format.time_of(commit, snapshot.version))
    except TableError:
        return snapshot  # damaged; only its time is needed


def read_whole(table_format: TableFormat[Entry, State], checkpoint: StoredCheckpoint) -> Conversation[Snapshot[State] | None]:
    """The snapshot in a checkpoint of which every part was read; None, with a warning, where anything is damaged."""
    snapshot = yield from read_checkpoint(table_format, checkpoint)
    if snapshot is None or not (lost := (yield from lost_parts(table_format.parts_of(snapshot)))):
        return snapshot
    yield from perform(Warn(f"the log checkpoint {checkpoint.paths[0]} needs {min(lost)}, which is missing or damaged"))
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


# -- storing -----------------------------------------------------------------------------------------------------------


def store_checkpoint(table_format: TableFormat[Entry, State], packed: Packed[State]) -> Conversation[tuple[Put, int]]:
    """Store parts and then the checkpoint that names them, which must not exist; with its bytes. Raises StoreError.

    Where another's checkpoint is there, the parts can be named by none, and are deleted again.
    """
    for path, data in packed.parts:
        put = yield from perform(PutNew(path, data))
        # Its name is new: it can only be our own that is there. One that is not may be on its way.
        if put not in (Put.DONE, Put.LATE) and (yield from perform(Get(path))) != data:
            return Put.NO_ANSWER, 0
    path, data = table_format.checkpoint_path(packed.snapshot.version), table_format.encode_checkpoint(packed.snapshot)
    put = yield from perform(PutNew(path, data))
    if put is Put.REFUSED and packed.parts:
        found = yield from perform(Get(path))
        if found == data:
            return Put.DONE, len(data)
        if found is not None:
            for part, _ in packed.parts:
                yield from perform(Delete(part))
    return put, len(data)


def store_snapshot(
    table_format: TableFormat[Entry, State], snapshot: Snapshot[State], apart: frozenset[str] = frozenset()
) -> Conversation[tuple[Put, int]]:
    """Store a checkpoint of a snapshot, where there must be none: parts that it would name and that are lost, or in `apart`, are made anew.

    Raises CorruptTable where what they held is not known any more, StoreError.
    """
    packed = Packed(snapshot, ())
    if table_format.parts_version(snapshot) or table_format.needs_parts(snapshot):
        again = apart | (yield from lost_parts(table_format.parts_of(snapshot)))
        packed = table_format.pack(snapshot, (yield from perform(NewId())), (yield from perform(GetDrive())), again)
    return (yield from store_checkpoint(table_format, packed))


def point_to_checkpoint(table_format: TableFormat[Entry, State], snapshot: Snapshot[State], size: int) -> Conversation[None]:
    """Write the hint that names our checkpoint of this snapshot, of `size` bytes."""
    if (checksum := table_format.checksum_path(table_format.last_checkpoint)) is not None:
        with suppress(StoreError):
            yield from perform(Delete(checksum))
    yield from perform(PutHint(table_format.last_checkpoint, table_format.encode_pointer(snapshot, size)))
