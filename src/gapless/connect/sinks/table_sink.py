"""Sinks into time-series and Delta tables: rows of a checkpoint, staged and committed by the table's own log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import inf
from typing import Any

import pyarrow as pa

from gapless.connect.identity import SinkIdentity
from gapless.connect.sinks.change import MODES, acts
from gapless.connect.sinks.change_kinds import DEFAULT_COLUMN
from gapless.connect.sinks.epoch import Epoch, RunningEpoch, conformed
from gapless.connect.sinks.opened_table import SinkTable
from gapless.connect.sinks.protocol import CommitInfo, Sink, SinkCapabilities
from gapless.connect.sinks.staged_rows import RowsEpoch, StagedRows
from gapless.errors import (
    CommitConflict,
    GaplessError,
    InvalidOption,
    NotSupported,
    PreparedFilesMissing,
    SchemaMismatch,
    UnknownColumn,
    UnsupportedTable,
    VersionNotFound,
)
from gapless.files.ingest.table_types import with_table_types
from gapless.model.instant import datetime_from_ns
from gapless.model.operation import Tally
from gapless.model.protocols import is_old
from gapless.runtime.metrics import DUPLICATES, SINK_ABORTED, SINK_FINALIZED, SINK_PREPARED, SINK_ROWS, Instrument
from gapless.tables.shared.handle import is_stored
from gapless.tables.shared.inputs import as_batches
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import (
    PreparedCommit,
    forget_prepared,
    mark_aborted,
    prepared_commits,
    require_not_aborted,
    require_prepared_files,
    store_prepared,
)

_LOGGER = logging.getLogger("gapless.connect")
SPILL_BYTES = 256 << 20
"""Arrow memory of rows that are held before they are staged."""


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

        Raises TableNotFound, SchemaMismatch, UnsupportedType, InvalidOption, RetractingInput for rows that tell of changes where the mode is not
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
        if running.held_bytes >= self._spill_bytes or running.held_for(now_s) >= (self._spill_seconds or inf):
            try:
                running.store()
            except BaseException:
                running.release(fitted)
                raise
        self._count(SINK_ROWS, rows.num_rows)
        return int(rows.num_rows)

    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        """Stage all rows and store the document that names them; see `Sink.prepare`. Raises InvalidOption for a number that is not larger
        than the last one's, DataError, StoreError.
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
        running.store()
        prepared = running.epoch.prepared(operation, self._change, running.attempt)
        if acts(prepared):
            store_prepared(self._table.env.store, prepared)
            self._check_young(running, prepared)
        self._running, self._last = None, checkpoint_id
        self._count(SINK_PREPARED, 1)
        return prepared

    def finalize(self, prepared: PreparedCommit) -> CommitInfo:
        """Commit it; see `Sink.finalize`. Raises CommitConflict where an earlier checkpoint of this sink is still to be finalized,
        PreparedFilesMissing, VersionNotFound where another table lies in the place, and as the change itself.
        """
        self._check_mine(prepared)
        known = self._known(prepared)
        self._check_table(prepared)
        if known is None and acts(prepared):
            self._check_order(prepared)
            try:
                require_prepared_files(self._table.env.store, prepared)
                known = self._commit(prepared)
            except GaplessError as error:
                known = self._finalized_elsewhere(prepared, error)
        elif known is None:
            known = ChangeOutcome(Tally(), self._table.version)
        self._forget(prepared)
        self._count(SINK_FINALIZED, 1)
        time_ns = self._table.time_of(known.version)
        return CommitInfo(
            checkpoint_id=prepared.checkpoint_id,
            version=known.version,
            commit_timestamp=None if time_ns is None else datetime_from_ns(time_ns),
            already_committed=known.already,
            late_rows=0 if prepared.change["mode"] == "append" else known.tally.skipped_rows,
        )

    def abort(self, prepared: PreparedCommit | None = None) -> bool:
        """Remove its files; see `Sink.abort`. Raises StoreError."""
        if prepared is None:
            running, self._running = self._running, None
            if running is not None:
                running.epoch.discard()
            return True
        self._check_mine(prepared)
        if not self._is_committed(prepared) and acts(prepared) and prepared.table_id == self._table.table_id:
            store = self._table.env.store
            # In this order: who finalizes it and has not seen the mark has read a version before the entry of `give_up`, and meets that.
            if mark_aborted(store, prepared) or any(is_stored(store, path) for path in prepared.needs):
                self._table.give_up(prepared)
        committed = self._is_committed(prepared)
        self._forget(prepared)
        self._count(SINK_ABORTED, 0 if committed else 1)
        return not committed

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
        if self._change["mode"] == "append":
            epoch = self._table.begin(schema, self._change)
        else:
            check = self._table.row_check(schema, self._change)
            epoch = RowsEpoch(table=self._table, app=self._identity.app, check=check)
        env = self._table.env
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
        with self._table.while_prepared(prepared):
            if prepared.change["mode"] == "append":
                return self._table.append(prepared)
            outcome = self._table.apply(prepared, StagedRows(self._table.env.store, prepared))
        if outcome.tally.skipped_rows and not outcome.already:
            _LOGGER.info(
                "%s: checkpoint %d of %s left out %d rows that were late",
                self._table.env.store.url,
                prepared.checkpoint_id,
                self._identity.app,
                outcome.tally.skipped_rows,
            )
        return outcome

    def _is_committed(self, prepared: PreparedCommit) -> bool:
        known = self._table.known(prepared.operation, prepared.change["mode"])
        return known is not None or bool(self._table.held(prepared.data_files))

    def _forget(self, prepared: PreparedCommit) -> None:
        """Remove the document, and files that no version has: rows that were read back and written anew, or were never the table's files."""
        if acts(prepared):
            unneeded = () if self._table.held(prepared.data_files) else prepared.needs
            forget_prepared(self._table.env.store, prepared, unneeded)

    def _check_young(self, running: RunningEpoch, prepared: PreparedCommit) -> None:
        """Raise CommitConflict where a vacuum could have taken a file for one that was left behind, before the document said otherwise.

        Asked after the document is stored: had it been late, the files were old by then.
        """
        if not is_old(self._table.env.clock.now_ns(), running.begun_ns):
            return
        forget_prepared(self._table.env.store, prepared, prepared.needs)
        self._running = None
        raise CommitConflict(
            f"the rows of checkpoint {prepared.checkpoint_id} of {self._identity.app} were staged half a day ago or longer",
            why="A vacuum may have taken their files for ones that an interrupted write left; nothing was committed",
            fix="Prepare a checkpoint more often than every half day, and send these rows again from the source",
            version=self._table.version,
            reason="staged too long ago",
        )

    def _check_mine(self, prepared: PreparedCommit) -> None:
        if not isinstance(prepared, PreparedCommit):
            raise InvalidOption(
                f"a {type(prepared).__name__} is no prepared commit",
                why="It is what prepare gave",
                fix="Read a stored one with PreparedCommit.from_json",
                option="prepared",
                value=prepared,
            )
        if prepared.change.get("mode") not in MODES:
            raise UnsupportedTable(
                f"the prepared commit is to make a change {prepared.change.get('mode')!r}, which this release does not know",
                why="A newer one prepared it",
                fix="Finalize or abort it with that release",
                needs=f"mode {prepared.change.get('mode')!r}",
            )
        if prepared.operation.app != self._identity.app:
            raise InvalidOption(
                f"the prepared commit is one of {prepared.operation.app}, and this sink is {self._identity.app}",
                why="Each sink finalizes and aborts its own checkpoints",
                fix="Make the sink with the pipeline, name and generation that prepared it",
                option="prepared",
                value=prepared.path,
            )

    def _check_table(self, prepared: PreparedCommit) -> None:
        if prepared.table_id != self._table.table_id:
            raise VersionNotFound(
                f"the table at {self._table.env.store.url} is not the one that checkpoint {prepared.checkpoint_id} was prepared for",
                why="That was removed, and another one made in its place",
                fix="Abort the prepared commit, and start the pipeline anew with a higher generation",
                version=self._table.version,
            )

    def _check_order(self, prepared: PreparedCommit) -> None:
        """A later checkpoint that is known says that all before it are: so none may be left out."""
        for earlier in self.pending():
            if earlier.checkpoint_id >= prepared.checkpoint_id:
                continue
            if self._table.known(earlier.operation, earlier.change["mode"]) is not None:
                self._forget(earlier)  # finalized by a process that died before it removed the document
                continue
            raise CommitConflict(
                f"checkpoint {earlier.checkpoint_id} of {self._identity.app} is prepared, and comes before {prepared.checkpoint_id}",
                why="The table remembers the highest checkpoint of a sink, so that one before it could not be committed any more",
                fix=f"Finalize or abort checkpoint {earlier.checkpoint_id} first",
                version=self._table.version,
                reason="an earlier checkpoint is prepared",
            )
