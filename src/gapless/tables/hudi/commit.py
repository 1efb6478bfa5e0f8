"""A commit into a Hudi table: under its lock, decided on the newest state, claimed, and completed; and tidied behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from gapless.errors import CommitConflict, GaplessError
from gapless.formats.hudi.instants import COMMITS, CompletedInstant, next_digits
from gapless.formats.hudi.marks import Mark
from gapless.formats.hudi.names import METADATA_FOLDER, PROPERTIES_FILE
from gapless.formats.hudi.properties import METADATA_PARTITIONS, decode_properties, encode_properties
from gapless.formats.hudi.table_commits import TableCommit, encode_table_commit
from gapless.log.format import Snapshot
from gapless.model.operation import SequenceId, Tally
from gapless.model.protocols import TaggedObject
from gapless.runtime.environment import Environment
from gapless.tables.hudi.care import tidied
from gapless.tables.hudi.changes import Base, Change, Decide
from gapless.tables.hudi.claim import (
    Claim,
    begin_attempt,
    claimed,
    closed,
    complete,
    end_attempt,
    settled,
    swept,
)
from gapless.tables.hudi.data_files import TARGET_BYTES, FileWriter
from gapless.tables.hudi.lock import HeldLock, LockLost, locked
from gapless.tables.hudi.rows import table_columns
from gapless.tables.hudi.timeline import PROPERTIES, HudiState, HudiTimeline
from gapless.tables.shared.handle import is_stored
from gapless.tables.shared.landing import ChangeOutcome

_LOGGER = logging.getLogger("gapless.tables")
Result = TypeVar("Result")
_TRIES = 5
"""How often a commit is decided anew whose lock was taken over."""
_WRITES = (*COMMITS, "deltacommit")
_HEARTBEATS = f"{METADATA_FOLDER}/.heartbeat"
_METADATA_TABLE = f"{METADATA_FOLDER}/metadata"
_CHECKSUMS = (f"{METADATA_FOLDER}/.{PROPERTIES_FILE}.crc",)
"""What Hadoop's local file system keeps of the properties, which it would hold against others' bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns that a commit gives its table."""

    columns: pa.Schema
    text: str
    """As Avro."""


@contextmanager
def changing(timeline: HudiTimeline) -> Iterator[tuple[HeldLock, HudiState, TaggedObject | None]]:
    """Under the lock: the table's state, with all commits complete that were claimed, and the claim to be replaced.

    Raises CommitConflict where the lock cannot be had, LockLost, and what loading raises.
    """
    with locked(timeline.env) as lock:
        state = timeline.load()
        claim, changed = settled(timeline, state)
        if changed:
            state = timeline.load()
        swept(timeline, state)
        yield lock, state, claim


def commit_change(
    timeline: HudiTimeline,
    operation: SequenceId | None,
    kind: str,
    decide: Decide,
    *,
    check: Callable[[HudiState], None] = lambda _: None,
    schema: Callable[[HudiState], Schema] | None = None,
    target_bytes: int = TARGET_BYTES,
) -> ChangeOutcome:
    """Make a change once, or say that it was made: `decide` writes its files for the newest state, of which `check` is asked before.

    `schema` says the columns from then on, where these are others than before. Raises CommitConflict, OperationReused, and as `decide`.
    """
    for _ in range(_TRIES):
        try:
            with changing(timeline) as (lock, state, claim):
                if (known := known_outcome(state, operation, kind)) is not None:
                    return known
                check_nothing_pending(state, timeline.env)
                check(state)
                follows = Schema(columns=state.schema, text=state.schema_text) if schema is None else schema(state)
                attempt = _Attempt(timeline, lock, state, claim, operation, kind)
                return attempt.made(decide, follows, target_bytes)
        except LockLost:
            continue
    raise _lost(timeline)


def evolve_table(timeline: HudiTimeline, columns: Callable[[HudiState], pa.Schema]) -> None:
    """Give the table other columns, in a commit without files, where `columns` says so of its newest state. Raises UnsupportedType, CommitConflict,
    StoreError.
    """

    def schema(state: HudiState) -> Schema:
        found, text = table_columns(columns(state), state.config.name)
        return Schema(columns=found, text=text)

    commit_change(timeline, None, "alter", lambda _: Change(operation="ALTER_SCHEMA", tally=Tally()), schema=schema)


def under_lock(timeline: HudiTimeline, act: Callable[[HeldLock, HudiState], Result]) -> Result:
    """Do something else than a commit under the lock, on the newest state. Raises CommitConflict, and as `act`."""
    for _ in range(_TRIES):
        try:
            with changing(timeline) as (lock, state, _claim):
                return act(lock, state)
        except LockLost:
            continue
    raise _lost(timeline)


def known_outcome(state: HudiState, operation: SequenceId | None, kind: str) -> ChangeOutcome | None:
    """What the marks tell of an operation. Raises OperationReused."""
    return ChangeOutcome.before(Snapshot(state.version, 0, state), operation, kind)


def check_nothing_pending(state: HudiState, env: Environment) -> None:
    """Raise CommitConflict where a writer of Hudi that does not lock is at work, or died: once a commit follows, Hudi could not roll its
    instant back, nor write any more. One that locks, and so rolls back later, shows a heartbeat. Raises StoreError.
    """
    for one in state.pending:
        if one.action in _WRITES and not is_stored(env.store, f"{_HEARTBEATS}/{one.requested}"):
            raise CommitConflict(
                f"instant {one.requested} of the Hudi table at {state.url} is not completed, and its writer does not lock",
                why="It is at work, or died; Hudi could not take it back once a commit follows it. Nothing was committed",
                fix="Finalize again once it is done; one that died is taken back by Hudi's next write, or by"
                f" `call rollback_to_instant(table => '…', instant_time => '{one.requested}')`",
                version=state.version,
                reason="pending instant",
            )


def _lost(timeline: HudiTimeline) -> CommitConflict:
    return CommitConflict(
        f"the lock of the Hudi table at {timeline.env.store.url} was lost {_TRIES} times",
        why="Other writers took it over, since writing took longer than a lock is valid, or this process stood still; nothing was committed",
        fix="Finalize again; commit smaller checkpoints",
        version=0,
        reason="lock lost",
    )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One try of a commit, on one state of the table."""

    timeline: HudiTimeline
    lock: HeldLock
    state: HudiState
    claim: TaggedObject | None
    operation: SequenceId | None
    kind: str

    def made(self, decide: Decide, schema: Schema, target_bytes: int) -> ChangeOutcome:
        env, state = self.timeline.env, self.state
        requested = next_digits(env.clock.now_ns(), state.newest)
        writer = FileWriter(
            env=env,
            config=state.config,
            schema=schema.columns,
            instant=requested,
            target_bytes=target_bytes,
            lock=self.lock,
        )
        begin_attempt(env, requested, self.lock.owner)
        try:
            live = state.live(self.timeline.files())
            change = decide(Base(state=state, live=live, writer=writer))
            without_metadata_table(env, state)
            self.lock.renew()
            claim = self._claim(requested, change, schema)
        except (GaplessError, LockLost):
            end_attempt(env, requested, writer.written)
            raise
        try:
            # After an error of the store it may be decided: then nothing is removed, and who comes next completes it.
            mine = claimed(env, claim, self.claim)
        except LockLost:
            end_attempt(env, requested, writer.written)
            raise
        complete(env, claim)
        self._tidy(mine, requested)
        return ChangeOutcome(change.tally, int(requested))

    def _claim(self, requested: str, change: Change, schema: Schema) -> Claim:
        env, state = self.timeline.env, self.state
        marks = state.marks
        if self.operation is not None:
            mark = Mark(operation=self.operation, kind=self.kind, version=int(requested), tally=change.tally)
            marks = marks.followed_by(mark)
        commit = TableCommit(
            operation=change.operation,
            files=change.files,
            replaced=change.replaced,
            schema=schema.text,
            extra=marks.encode(),
        )
        completed = next_digits(env.clock.now_ns(), max(requested, state.newest))
        return Claim(
            instant=CompletedInstant(requested, completed, commit.action),
            commit=encode_table_commit(commit),
            files=tuple(one.path for one in change.files),
            follows=tuple(one.path for one in state.commits),
        )

    def _tidy(self, claim: TaggedObject, requested: str) -> None:
        """What may fail: the commit is made."""
        env = self.timeline.env
        try:
            closed(env, claim)
            end_attempt(env, requested, ())
            tidied(self.timeline, self.lock)
        except (GaplessError, LockLost) as error:
            _LOGGER.warning("%s: what follows a commit is left to the next one: %r", env.store.url, error)


def without_metadata_table(env: Environment, state: HudiState) -> None:
    """Take Hudi's metadata table away, which would not know of our commit, as Hudi does for a writer with `hoodie.metadata.enable=false`; its
    next writer makes it anew. First the property, by which readers ask it. Raises StoreError.
    """
    if not state.config.metadata_partitions:
        return
    properties = decode_properties(env.store.get(PROPERTIES))
    for name in (METADATA_PARTITIONS, f"{METADATA_PARTITIONS}.inflight"):
        properties.pop(name, None)
    for path in _CHECKSUMS:
        env.store.delete(path)
    env.store.put(PROPERTIES, encode_properties(properties), mode="overwrite")
    for info in list(env.store.list(_METADATA_TABLE)):
        env.store.delete(info.path)
