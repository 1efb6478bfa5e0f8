"""The conversation that stores a log checkpoint: its new parts first, then itself, then the hint."""

from __future__ import annotations

from gapless.errors import StoreError, TableError, VersionNotFound
from gapless.log.effects import Conversation, Delete, Get, Later, NewId, Put, PutNew, Warn, perform
from gapless.log.format import Entry, Packed, Snapshot, State, TableFormat
from gapless.log.segment import lost_parts, point_to_checkpoint, read_hint
from gapless.log.snapshot import load


def write_checkpoint(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[None]:
    """Store a checkpoint of `snapshot` and point the hint at it; a failure is a warning, since the commit stands.

    The snapshot rests on the checkpoint's parts afterwards.
    """
    path = table_format.checkpoint_path(snapshot.version)
    try:
        packed = yield from _packed(table_format, snapshot)
        put, size = yield from store_checkpoint(table_format, packed)
    except (StoreError, TableError) as error:
        yield from perform(Warn(f"the log checkpoint {path} was not written: {error.what}"))
        return
    if put in (Put.DONE, Put.LATE) and packed.snapshot is not snapshot:
        table_format.settle(snapshot, packed.snapshot)
    if put is not Put.NO_ANSWER:
        yield from point_to_checkpoint(table_format, packed.snapshot, size)


def store_checkpoint(table_format: TableFormat[Entry, State], packed: Packed[State]) -> Conversation[tuple[Put, int]]:
    """Store parts and then the checkpoint that names them, which must not exist; with its bytes. Raises StoreError.

    Where another's checkpoint is there, the parts can be named by none, and are removed again.
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
    if table_format.rests_on(snapshot) or table_format.owes_parts(snapshot):
        again = apart | (yield from lost_parts(table_format.parts_of(snapshot)))
        packed = table_format.pack(snapshot, (yield from perform(NewId())), (yield from perform(Later())), again)
    return (yield from store_checkpoint(table_format, packed))


def _packed(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Packed[State]]:
    """The snapshot with the parts that it owes; on those of the newest checkpoint, where others wrote it."""
    rests_on = table_format.rests_on(snapshot)
    if not rests_on and not table_format.owes_parts(snapshot):
        return Packed(snapshot, ())
    hinted = yield from read_hint(table_format)
    if hinted is not None and rests_on < hinted.version < snapshot.version:
        snapshot = yield from _on_newest(table_format, snapshot)
    return table_format.pack(snapshot, (yield from perform(NewId())), (yield from perform(Later())))


def _on_newest(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Snapshot[State]]:
    """The same version, as the log tells it; as it is where that cannot be read."""
    try:
        found = yield from load(table_format, snapshot.version)
    except (TableError, VersionNotFound):
        return snapshot
    return snapshot if found is None or found.time_ns != snapshot.time_ns else found
