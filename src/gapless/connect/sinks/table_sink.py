"""Sinks into tables: rows of a checkpoint, staged and committed by the table's own log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

import pyarrow as pa

from gapless.connect.identity import SinkIdentity
from gapless.connect.sinks.aborted import forget, shared_files, take_back, take_back_tries
from gapless.connect.sinks.applying import apply_staged
from gapless.connect.sinks.change import MODES, acts, rows_schema
from gapless.connect.sinks.change_kinds import DEFAULT_COLUMN
from gapless.connect.sinks.epoch import SPILL_BYTES, Epoch, RunningEpoch, conformed
from gapless.connect.sinks.opened_table import SinkTable
from gapless.connect.sinks.prepared_checks import (
    check_files_are_new,
    check_mine,
    check_not_aborted,
    check_same_rows,
    check_table,
    tell_known,
)
from gapless.connect.sinks.protocol import CommitInfo, Sink, SinkCapabilities
from gapless.connect.sinks.refusals import refuse_columns_between, refuse_old
from gapless.connect.sinks.staged_columns import told_columns
from gapless.connect.sinks.staged_rows import RowsEpoch
from gapless.errors import (
    CommitConflict,
    GaplessError,
    InvalidOption,
    NotSupported,
    PreparedFilesMissing,
    SchemaMismatch,
    UnknownColumn,
)
from gapless.files.ingest.table_types import with_table_types
from gapless.files.write.staged_files import StagedFiles
from gapless.model.instant import datetime_from_ns
from gapless.model.operation import Tally
from gapless.model.protocols import is_old
from gapless.runtime.metrics import DUPLICATES, SINK_ABORTED, SINK_FINALIZED, SINK_PREPARED, SINK_ROWS, Instrument
from gapless.tables.shared.inputs.rows import as_batches
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import (
    PreparedCommit,
    forget_prepared,
    prepared_commits,
    require_not_aborted,
    require_prepared_files,
    store_prepared,
)

_LOGGER = logging.getLogger("gapless.connect")


class TableSink(Sink):
    """A sink into one table. Made by `gl.connect.sink`.

    Memory holds up to `spill_bytes` of Arrow rows, and what staging them takes; what comes beyond is staged at once. With `spill_seconds`
    rows that came so long ago are staged as the next ones come.
    """

    def __init__(
        self,
        table: SinkTable,
        identity: SinkIdentity,
        change: Mapping[str, Any],
        *,
        spill_bytes: int = SPILL_BYTES,
        spill_seconds: float | None = None,
    ) -> None:
        """`change` has the `mode`, one of `MODES`, and its options."""
        self._spill_seconds = spill_seconds
        self._table, self._identity, self._change, self._spill_bytes = table, identity, dict(change), spill_bytes
        self._schema: pa.Schema | None = None
        self._running: RunningEpoch | None = None
        self._last: int | None = None

    def __repr__(self) -> str:
        """The table, whose checkpoints, and what becomes of rows."""
        return f"<{type(self).__name__} {self._table.place}, {self._identity.app}, {self._change['mode']}>"

    def __getstate__(self) -> dict[str, object]:
        """All that it was made with; raises NotSupported once it is initialized."""
        if self._schema is not None:
            raise NotSupported(
                "a sink that is initialized can be neither pickled nor copied",
                why="It holds rows that were written and not prepared yet; two of it would commit them twice",
                fix="Send it before initialize(), or make it in the other process with gl.connect.sink(…); a prepared commit"
                " can be sent: it is a document",
                feature="pickling of a sink at work",
            )
        return self.__dict__

    @property
    def capabilities(self) -> SinkCapabilities:
        """All of it: the table's log knows each checkpoint for ever."""
        takes_changes = self._change["mode"] == "cdc" and self._change.get("change_type", DEFAULT_COLUMN) == DEFAULT_COLUMN
        return SinkCapabilities(modes=frozenset(MODES), takes_changes=takes_changes)

    @property
    def identity(self) -> SinkIdentity:
        """Whose checkpoints these are."""
        return self._identity

    def initialize(self, schema: pa.Schema) -> None:
        """Open the table, or make it where the options say how, and check that it takes rows of these columns.

        Raises TableNotFound, SchemaMismatch, UnsupportedType, InvalidOption (also for other columns than those of rows that wait to be
        prepared), RetractingInput for rows that tell of changes where the mode is not
        "cdc", NotSupported for an append-only table of which rows would go, UnsupportedTable, StoreError: an error of the store is never taken
        for a table that is not there.
        """
        if not isinstance(schema, pa.Schema):
            raise InvalidOption(
                f"a {type(schema).__name__} is no schema",
                why="It says which columns and types come",
                fix="Pass a pyarrow.Schema, such as that of the rows",
                option="schema",
                value=schema,
            )
        if self._running is not None and schema.remove_metadata() != self._schema:
            if self._running.rows:
                raise refuse_columns_between(self._running.rows)
            self.abort(None)
        self._table.open(schema, self._change)
        self._table.check(schema, self._change)
        self._schema = schema.remove_metadata()

    def write(self, batch: object) -> int:
        """Take rows; see `Sink.write`. Raises SchemaMismatch for other columns than `initialize` was told, DataError, StoreError."""
        schema = self._ready()
        given = as_batches(batch, schema)
        part = with_table_types(given, schema)
        rows = pa.Table.from_batches(list(part), part.schema)
        if rows.schema.remove_metadata() != schema:
            rows = conformed(rows, schema, given.inferred.keys())
        running = self._running = self._running or self._begin(schema)
        now_s = self._table.env.clock.monotonic()
        fitted = running.epoch.fit(rows)
        running.hold(fitted, now_s)
        late = running.waited(now_s) >= (self._spill_seconds or inf)
        if late or running.held_bytes >= self._spill_bytes:
            try:
                running.store(close=late)
            except BaseException:
                running.release(fitted)
                raise
        self._count(SINK_ROWS, rows.num_rows)
        return int(rows.num_rows)

    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        """Stage all rows and store the document that names them; see `Sink.prepare`. Raises InvalidOption for a number that is not larger
        than the last one's, CommitConflict where another process committed a document of a try that failed, OperationReused for a number that
        the table has with another number of rows, DataError, StoreError. Warns (LogWarning) of one that the table has or has passed, where
        that cannot be told: these rows are left out.
        """
        schema, operation = self._ready(), self._identity.operation(checkpoint_id)
        if self._last is not None and checkpoint_id <= self._last:
            raise InvalidOption(
                f"checkpoint_id={checkpoint_id} comes after {self._last}",
                why="Checkpoints of one sink are counted upward, and a number stands for its rows for ever",
                fix=f"Pass {self._last + 1} or more",
                option="checkpoint_id",
                value=checkpoint_id,
            )
        running = self._running = self._running or self._begin(schema)
        env = self._table.env
        if running.tried:
            take_back_tries(self._table, running)
            # A document without an answer may come to light yet: it must not be taken for the next one.
            running.attempt = env.ids.uuid()
        with running.closed():
            prepared = running.epoch.prepared(operation, self._change, running.attempt)
            if acts(prepared):
                if self._last is None:  # another process may have used the number
                    tell_known(prepared, self._table)
                running.tried.append(prepared)
                store_prepared(env.store, prepared, running.epoch.attempt.deferred)
        if acts(prepared):
            self._check_young(running, prepared)
        self._running, self._last = None, checkpoint_id
        self._count(SINK_PREPARED, 1)
        return prepared

    def finalize(self, prepared: PreparedCommit) -> CommitInfo:
        """Commit it; see `Sink.finalize`. Raises CommitConflict where an earlier checkpoint of this sink is still to be finalized,
        PreparedFilesMissing (also where it was aborted), VersionNotFound where another table lies in the place, OperationReused where the table
        has other rows under its number or its files under another one, and as the change itself.
        """
        check_mine(prepared, self._identity)
        known = self._known(prepared)
        check_table(prepared, self._table)
        if known is not None:
            check_same_rows(prepared, known)
        else:
            check_files_are_new(prepared, self._table)
        if known is None and acts(prepared):
            self._check_order(prepared)
            try:
                require_prepared_files(self._table.env.store, prepared)
                known = self._commit(prepared)
            except GaplessError as error:
                known = self._finalized_elsewhere(prepared, error)
        elif known is None:
            known = ChangeOutcome(Tally(), self._table.version)
        forget(self._table, prepared)
        self._count(SINK_FINALIZED, 1)
        time_ns, appends = self._table.time_of(known.version), prepared.change["mode"] == "append"
        return CommitInfo(
            checkpoint_id=prepared.checkpoint_id,
            version=known.version,
            commit_timestamp=None if time_ns is None else datetime_from_ns(time_ns),
            already_committed=known.already,
            late_rows=0 if appends else known.tally.skipped_rows,
            skipped_rows=known.tally.skipped_rows if appends else 0,
        )

    def abort(self, prepared: PreparedCommit | None = None) -> bool:
        """Remove its files; see `Sink.abort`. Raises StoreError."""
        if prepared is None:
            running, self._running = self._running, None
            if running is not None:
                self._discard(running)
            return True
        check_mine(prepared, self._identity)
        taken_back = take_back(self._table, prepared, self._running)
        self._count(SINK_ABORTED, int(taken_back))
        return taken_back

    def pending(self) -> list[PreparedCommit]:
        """See `Sink.pending`. Raises CorruptTable for a document that cannot be read, StoreError."""
        return list(prepared_commits(self._table.env.store, self._identity.app))

    def last_committed(self) -> int | None:
        """See `Sink.last_committed`. Raises TableNotFound, StoreError."""
        return self._table.last(self._identity.operation(0))

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _count(self, instrument: Instrument, amount: int) -> None:
        instrument.add(amount, self._table.kind, self._change["mode"], self._table.env.store.url)

    def _known(self, prepared: PreparedCommit) -> ChangeOutcome | None:
        known = self._table.known(prepared.operation, prepared.change["mode"])
        if known is not None:
            check_not_aborted(prepared, self._table)
        self._count(DUPLICATES, 0 if known is None else 1)
        return known

    def _ready(self) -> pa.Schema:
        if self._schema is None:
            raise InvalidOption(
                "rows came before the sink was told their columns",
                why="initialize(schema) opens the table and checks that it takes them",
                fix="Call initialize first",
                option="schema",
                value=None,
            )
        return self._schema

    def _begin(self, schema: pa.Schema) -> RunningEpoch:
        epoch: Epoch
        env = self._table.env
        if self._change["mode"] == "append" and not self._table.stages_rows:
            epoch = self._table.begin(schema, self._change)
        else:
            check = self._table.row_check(schema, self._change)
            columns = told_columns(rows_schema(schema, self._change), self._table.columns)
            attempt = StagedFiles(env, committed_here=True)
            epoch = RowsEpoch(table=self._table, app=self._identity.app, check=check, columns=columns, attempt=attempt)
        return RunningEpoch(epoch=epoch, attempt=env.ids.uuid(), begun_ns=env.clock.now_ns())

    def _commit(self, prepared: PreparedCommit) -> ChangeOutcome:
        try:
            return self._committed(prepared)
        except (SchemaMismatch, UnknownColumn) as error:
            raise SchemaMismatch(
                f"checkpoint {prepared.checkpoint_id} of {self._identity.app} does not fit the table's columns of now: {error.what}",
                why=error.why or "They were other ones when it was prepared",
                fix="Give the columns the names back that they had, finalize, and rename them again; or abort the prepared commit, and send"
                " its rows again from the source",
                differences=error.facts.get("differences", (error.what,)),
            ) from error

    def _finalized_elsewhere(self, prepared: PreparedCommit, error: GaplessError) -> ChangeOutcome:
        """What the log tells of a commit that failed here: another process may have made it, and removed files that it wrote anew. Raises
        the error where it did not, PreparedFilesMissing where an abort began.
        """
        if (known := self._known(prepared)) is not None:
            return known
        try:
            if not isinstance(error, PreparedFilesMissing):
                require_not_aborted(self._table.env.store, prepared)
        except PreparedFilesMissing as missing:
            error = missing
        # Once more after the look at the document: who commits removes it then.
        if (known := self._known(prepared)) is None:
            raise error
        return known

    def _committed(self, prepared: PreparedCommit) -> ChangeOutcome:
        if prepared.change["mode"] == "append":
            with self._table.while_prepared(prepared):
                return self._table.append(prepared)
        outcome = apply_staged(self._table, prepared, partial(self._table.while_prepared, prepared))
        if outcome.tally.skipped_rows and not outcome.already:
            _LOGGER.info(
                "%s: checkpoint %d of %s left out %d rows that were late",
                self._table.env.store.url,
                prepared.checkpoint_id,
                self._identity.app,
                outcome.tally.skipped_rows,
            )
        return outcome

    def _discard(self, running: RunningEpoch) -> None:
        """Remove what was staged, unless a document may name it."""
        try:
            take_back_tries(self._table, running)
        except GaplessError as error:
            _LOGGER.warning("%s: what was staged stays until vacuum takes it: %s", self._table.env.store.url, error.what)
        else:
            running.epoch.attempt.discard()

    def _check_young(self, running: RunningEpoch, prepared: PreparedCommit) -> None:
        """Raise CommitConflict where a vacuum could have taken a file for one that was left behind, before the document said otherwise.

        Asked after the document is stored: had it been late, the files were old by then.
        """
        if not is_old(self._table.env.clock.now_ns(), running.begun_ns):
            return
        forget_prepared(self._table.env.store, prepared, prepared.needs)
        self._running = None
        raise refuse_old(f"checkpoint {prepared.checkpoint_id} of {self._identity.app}", self._table.version)

    def _check_order(self, prepared: PreparedCommit) -> None:
        """A later checkpoint that is known says that all before it are: so none may be left out."""
        for earlier in prepared_commits(self._table.env.store, self._identity.app, before=prepared):
            if self._table.known(earlier.operation, earlier.change["mode"]) is not None:
                # Finalized by a process that died before it removed the document.
                forget(self._table, earlier, but=shared_files(self._table, earlier, self._running))
                continue
            raise CommitConflict(
                f"checkpoint {earlier.checkpoint_id} of {self._identity.app} is prepared, and comes before {prepared.checkpoint_id}",
                why="The table remembers the highest checkpoint of a sink, so that one before it could not be committed any more",
                fix=f"Finalize or abort checkpoint {earlier.checkpoint_id} first",
                version=self._table.version,
                reason="an earlier checkpoint is prepared",
            )
