"""Known bugs of pipelines, planted from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.connect import Checkpoint, CheckpointStore, CommitInfo, Cursor, PreparedCommit
from gapless.connect.backlog import Backlog
from gapless.connect.checkpoint_store import Decision, Recovered
from gapless.connect.identity import SinkIdentity
from gapless.connect.sinks import aborted, staged_rows, table_sink
from gapless.connect.sinks.change import KeyedChange
from gapless.connect.sinks.change_kinds import PUT, Kinds
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.connect.sinks.table_sink import TableSink
from gapless.connect.sources.table.source import TableSource
from gapless.errors import ObjectNotFound, StoreError
from gapless.tables.shared import vacuum
from gapless.testing.simulation.pipelines.stores import FolderStore

Plant = Callable[[pytest.MonkeyPatch], None]


def constant_app_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this is modelled on does: the id in the log is one for all pipelines into a table, and all that were made anew."""
    monkeypatch.setattr(SinkIdentity, "app", property(lambda _self: "p/main#1"))


def rows_in_memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this is modelled on does: the rows of an upsert are kept by the process that prepared them."""

    def add(self: Any, rows: Any, *, close: bool) -> Callable[[], None]:
        store, kept = self.table.env.store, dict[str, bytes]()
        with monkeypatch.context() as patched:
            patched.setattr(FolderStore, "put", lambda _self, path, data, **_named: kept.update({path: bytes(data)}))
            undo = honest_add(self, rows, close=close)
        vars(store).setdefault("kept", {}).update(kept)
        return undo

    def get(self: FolderStore, path: str, *arguments: Any) -> bytes:
        return vars(self).get("kept", {}).get(path) or honest_get(self, path, *arguments)

    honest_add, honest_get = staged_rows.RowsEpoch.add, FolderStore.get
    monkeypatch.setattr(staged_rows.RowsEpoch, "add", add)
    monkeypatch.setattr(FolderStore, "get", get)
    monkeypatch.setattr(table_sink, "require_prepared_files", lambda _store, _prepared: None)


def decide_before_the_rows_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision is made, and then the files of rows are written."""
    honest_put, honest_finalize = FolderStore.put, TableSink.finalize

    def put(self: FolderStore, path: str, data: Any, **named: Any) -> None:
        if "/rows-" in path:
            vars(self).setdefault("late", []).append((path, bytes(data)))
        else:
            honest_put(self, path, data, **named)

    def finalize(self: TableSink, prepared: PreparedCommit) -> CommitInfo:
        store = self._table.env.store
        for path, data in vars(store).pop("late", []):
            honest_put(store, path, data, mode="overwrite")  # type: ignore[arg-type]  # the simulator's
        return honest_finalize(self, prepared)

    monkeypatch.setattr(FolderStore, "put", put)
    monkeypatch.setattr(TableSink, "finalize", finalize)


def take_a_read_error_for_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the decision cannot be read just now, the checkpoint is taken for one that was given up."""
    honest = CheckpointStore._decision

    def broken(self: CheckpointStore, number: int) -> Decision:
        try:
            return honest(self, number)
        except ObjectNotFound:
            raise
        except StoreError:
            return Decision(commit=False, checkpoint=None)

    monkeypatch.setattr(CheckpointStore, "_decision", broken)


def forget_the_rows_of_a_failed_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run after one that failed goes on where the source stands, and not at the stored cursor."""
    honest = TableSource.start

    def broken(self: TableSource, cursor: Cursor | None = None) -> None:
        if self._position is None:
            honest(self, cursor)

    monkeypatch.setattr(TableSource, "start", broken)


def keep_rows_that_were_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run after one that failed has the rows in its sinks still, and they come again."""
    honest = TableSink.abort
    monkeypatch.setattr(TableSink, "abort", lambda self, prepared=None: prepared is None or honest(self, prepared))


def emit_a_version_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor in the middle of a version is one before its first row."""
    honest = vars(TableSource)["cursor"].fget

    def broken(self: TableSource) -> Cursor:
        found: Cursor = honest(self)
        return replace(found, state={**found.state, "row": 0})

    monkeypatch.setattr(TableSource, "cursor", property(broken))


def store_a_cursor_ahead_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor in the middle of a version is one behind its last row."""
    honest = vars(TableSource)["cursor"].fget

    def broken(self: TableSource) -> Cursor:
        found: Cursor = honest(self)
        state = found.state
        ahead = {**state, "version": state["version"] + 1, "row": 0, "whole": False} if state["row"] else state
        return replace(found, state=ahead)

    monkeypatch.setattr(TableSource, "cursor", property(broken))


def abort_what_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery takes back all that is prepared, though some of it was decided."""
    monkeypatch.setattr(Backlog, "paths", property(lambda _self: frozenset()))


def decide_by_overwriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two coordinators that decide one number, the second wins, too."""

    def broken(self: CheckpointStore, path: str, data: bytes, *, durable: bool = True) -> bytes:
        self._store.put(path, data, mode="overwrite", durable=durable)
        return data

    monkeypatch.setattr(CheckpointStore, "_created", broken)


def recover_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery does not decide that what is undecided is given up."""
    monkeypatch.setattr(CheckpointStore, "_abort", lambda _self, _number: True)


def use_a_number_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next checkpoint has the number after the last decision, whatever was prepared under it."""
    honest = CheckpointStore.recover

    def broken(self: CheckpointStore) -> Recovered:
        found = honest(self)
        return replace(found, next_id=1 if found.decided is None else found.decided.id + 1)

    monkeypatch.setattr(CheckpointStore, "recover", broken)


def say_done_before_the_sinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint is finished when it is decided, and the sinks follow."""
    honest = Backlog.add

    def broken(self: Backlog, checkpoint: Checkpoint, *, rows: bool) -> None:
        honest(self, checkpoint, rows=rows)
        with contextlib.suppress(StoreError):
            self.store.finish(checkpoint)

    monkeypatch.setattr(Backlog, "add", broken)


def vacuum_what_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum does not read the documents of prepared commits."""
    monkeypatch.setattr(vacuum, "prepared_paths", lambda _store, _applied: frozenset())


def abort_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by this simulator: an abort deletes the files of a finalization that has looked for them already."""
    monkeypatch.setattr(aborted, "mark_aborted", lambda _store, _prepared: False)
    monkeypatch.setattr(aborted, "is_stored", lambda _store, _path: False)


def abort_without_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """An abort says so in the log, and not in the document: a finalization that begins afterwards does not know."""
    monkeypatch.setattr(aborted, "mark_aborted", lambda _store, _prepared: True)


def read_what_is_passing_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by this simulator: a create that is refused for a request in flight, or an object that another coordinator removes, is an error."""

    def broken(self: CheckpointStore, path: str, data: bytes, *, durable: bool = True) -> bytes:
        try:
            self._store.put(path, data, durable=durable)
        except StoreError:
            return self._store.get(path)
        return data

    monkeypatch.setattr(CheckpointStore, "_created", broken)


def take_removals_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that applies changes puts the rows that say that others are gone."""
    honest = KeyedChange.kinds

    def broken(self: KeyedChange, rows: pa.Table) -> Kinds:
        kinds = honest(self, rows)
        return np.full_like(kinds, PUT) if self.mode == "cdc" else kinds

    monkeypatch.setattr(KeyedChange, "kinds", broken)


def overwrite_all_for_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overwrite of a part takes the place of the whole table, what other pipelines brought too."""
    honest = vars(StagedRows)["change"].fget

    def broken(self: StagedRows) -> dict[str, Any]:
        return {name: value for name, value in honest(self).items() if name not in ("where", "entity")}

    monkeypatch.setattr(StagedRows, "change", property(broken))


def apply_the_first_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a checkpoint whose rows were staged in several files the first is applied."""
    honest = StagedRows.tables

    def broken(self: StagedRows, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        return islice(honest(self, columns), 1)

    monkeypatch.setattr(StagedRows, "tables", broken)


def delete_more_than_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion finds rows by the first column of its key."""
    honest = KeyedChange.of.__func__  # type: ignore[attr-defined]  # of a class method

    def broken(cls: type[KeyedChange], change: Mapping[str, Any], default_key: tuple[str, ...]) -> KeyedChange:
        found: KeyedChange = honest(cls, change, default_key)
        return replace(found, key=found.key[:1]) if found.mode == "delete" else found

    monkeypatch.setattr(KeyedChange, "of", classmethod(broken))


PIPELINE_PLANTS: tuple[Plant, ...] = (
    constant_app_id,
    rows_in_memory_only,
    decide_before_the_rows_are_stored,
    take_a_read_error_for_no_decision,
    forget_the_rows_of_a_failed_checkpoint,
    keep_rows_that_were_given_up,
    emit_a_version_twice,
    store_a_cursor_ahead_of_its_rows,
    abort_what_was_decided,
    decide_by_overwriting,
    recover_without_a_fence,
    use_a_number_again,
    say_done_before_the_sinks,
    vacuum_what_is_prepared,
    abort_without_a_word,
    abort_without_a_mark,
    read_what_is_passing_as_lost,
    take_removals_for_rows,
    overwrite_all_for_a_part,
    apply_the_first_file_alone,
    delete_more_than_the_key,
)
