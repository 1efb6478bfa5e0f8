"""Log checkpoints: a stored snapshot, so that opening does not replay the log.

A checkpoint is a shortcut and never the truth: a missing, torn or damaged one is passed over for an older one or for the commits.
"""

from __future__ import annotations

import json

from gapless.errors import CorruptTable, StoreError
from gapless.log.dialect import Dialect, Entry, Snapshot, State
from gapless.log.requests import Get, Put, PutHint, PutNew, Talk, Warn, ask


def is_due(version: int, interval: int) -> bool:
    """Whether the writer of this version owes a checkpoint; an interval of 0 turns them off."""
    return interval > 0 and version % interval == 0


def write_checkpoint(dialect: Dialect[Entry, State], snapshot: Snapshot[State]) -> Talk[None]:
    """Store a checkpoint of `snapshot` and point the hint at it; a failure is a warning, since the commit stands."""
    path = dialect.checkpoint_path(snapshot.version)
    try:
        put = yield from ask(PutNew(path, dialect.encode_checkpoint(snapshot)))
    except StoreError as error:
        yield from ask(Warn(f"the log checkpoint {path} was not written: {error.what}"))
        return
    if put is not Put.NO_ANSWER:
        yield from point_to_checkpoint(dialect, snapshot.version)


def point_to_checkpoint(dialect: Dialect[Entry, State], version: int) -> Talk[None]:
    """Let the hint name this version's checkpoint."""
    yield from ask(PutHint(dialect.last_checkpoint, json.dumps({"version": version}).encode()))


def read_hint(dialect: Dialect[Entry, State]) -> Talk[int]:
    """The version that the hint names; 0 where there is none, or one that cannot be read."""
    data = yield from ask(Get(dialect.last_checkpoint))
    try:
        version = json.loads(data or b"{}")["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) and version > 0 else 0


def read_checkpoint(dialect: Dialect[Entry, State], version: int) -> Talk[Snapshot[State] | None]:
    """The snapshot stored for a version; None, with a warning, where it is missing or damaged."""
    path = dialect.checkpoint_path(version)
    data = yield from ask(Get(path))
    if data is None:
        yield from ask(Warn(f"the log checkpoint {path} is missing; an older one or the commits serve instead"))
        return None
    try:
        return dialect.decode_checkpoint(data, version)
    except CorruptTable as error:
        yield from ask(Warn(f"{error.what}; an older log checkpoint or the commits serve instead"))
        return None
