"""Log checkpoints: a stored snapshot, so that opening does not replay the log.

A checkpoint is a shortcut and never the truth: a missing, torn or damaged one is passed over for an older one or for the commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from gapless.errors import CorruptTable
from gapless.log.dialect import Dialect, PartName, Snapshot, State
from gapless.log.requests import Get, Later, PutHint, Talk, Warn, ask
from gapless.log.verdict import Entry
from gapless.model.checksum import check


def is_due(version: int, interval: int) -> bool:
    """Whether the writer of this version owes a checkpoint; an interval of 0 turns them off."""
    return interval > 0 and version % interval == 0


def point_to_checkpoint(dialect: Dialect[Entry, State], version: int) -> Talk[None]:
    """Let the hint name this version's checkpoint."""
    yield from ask(PutHint(dialect.last_checkpoint, json.dumps({"version": version}).encode()))


def read_hint(dialect: Dialect[Entry, State]) -> Talk[int]:
    """The version that the hint names; 0 where there is none, or one that cannot be read."""
    return parse_pointer((yield from ask(Get(dialect.last_checkpoint))))


def parse_pointer(data: bytes | None) -> int:
    """The version in the hint's bytes; 0 where there is none."""
    try:
        version = json.loads(data or b"{}")["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) and version > 0 else 0


def read_checkpoint(dialect: Dialect[Entry, State], version: int) -> Talk[Snapshot[State] | None]:
    """The snapshot stored for a version, without its parts; None, with a warning, where it is missing or damaged."""
    data = yield from ask(Get(dialect.checkpoint_path(version)))
    return (yield from decode_read(dialect, version, data))


def decode_read(dialect: Dialect[Entry, State], version: int, data: bytes | None) -> Talk[Snapshot[State] | None]:
    """The snapshot in a version's checkpoint as it was read (None: it is not there); None, with a warning, where it serves no one."""
    if data is None:
        path = dialect.checkpoint_path(version)
        yield from ask(Warn(f"the log checkpoint {path} is missing; an older one or the commits serve instead"))
        return None
    drive = yield from ask(Later())
    try:
        return dialect.decode_checkpoint(data, version, drive)
    except CorruptTable as error:
        yield from ask(Warn(f"{error.what}; an older log checkpoint or the commits serve instead"))
        return None


def read_whole(dialect: Dialect[Entry, State], version: int) -> Talk[Snapshot[State] | None]:
    """The snapshot stored for a version, of whose checkpoint every part was read; None, with a warning, where anything is damaged."""
    snapshot = yield from read_checkpoint(dialect, version)
    if snapshot is None or not (lost := (yield from lost_parts(dialect.parts_of(snapshot)))):
        return snapshot
    yield from ask(
        Warn(f"the log checkpoint {dialect.checkpoint_path(version)} needs {min(lost)}, which is missing or damaged")
    )
    return None


def lost_parts(parts: Iterable[PartName]) -> Talk[frozenset[str]]:
    """The paths of those parts that are not stored as they were written. Raises StoreError."""
    lost = set()
    for part in parts:
        data = yield from ask(Get(part.path))
        try:
            check(data or b"", part.checksum, part.path)
        except CorruptTable:
            lost.add(part.path)
    return frozenset(lost)
