"""Changing how a table wants to be written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.dialects.timeseries.actions import Action, Commit, SetTransaction, TableState, UpdateTableMeta
from gapless.dialects.timeseries.features import claim
from gapless.dialects.timeseries.property_terms import PropertyTerms
from gapless.log.dialect import Snapshot
from gapless.model.operation import OperationId, parse_operation_id
from gapless.model.properties import Properties
from gapless.model.protocols import Store
from gapless.model.report import Tally
from gapless.runtime.committer import ENGINE, Proposal
from gapless.runtime.series import SeriesProposal
from gapless.table.duplicates import refuse_duplicates
from gapless.table.handle import Handle
from gapless.table.scan import ScanRequest


class Settings(Handle):
    """A table's properties."""

    def set_properties(self, properties: Mapping[str, Any], *, operation_id: tuple[str, int] | str | None = None) -> int:
        """Change properties, those that `create` takes; None brings a default back. Returns the version that holds the change.

        One commit; the table's version where nothing differs. `unique=True` reads the keys of all rows first. Raises InvalidOption,
        DuplicateKey where a table that shall be unique is not, UpgradeNeeded, CommitConflict, CommitOutcomeUnknown, StoreError.
        """
        operation = None if operation_id is None else parse_operation_id(operation_id)
        snapshot = self._committer.refresh(self._snapshot)
        self._check_writable()

        def propose(newest: Snapshot[TableState]) -> SeriesProposal | None:
            nonlocal snapshot
            snapshot = newest
            return self._proposal(newest.state, properties, operation)

        landed = self._committer.change(snapshot, propose)
        known = None if operation is None or landed is not None else snapshot.state.recognise(operation)
        return known.version if known is not None else (landed or snapshot).version

    def _proposal(self, state: TableState, changes: Mapping[str, Any], operation: OperationId | None) -> SeriesProposal | None:
        """The change as it should be made to this version; None where that has it already."""
        old = state.meta.properties
        if operation is not None and state.recognise(operation) is not None:
            return None
        merged = {**old.changed(), **changes}
        new = Properties.parse({name: value for name, value in merged.items() if value is not None})
        actions: list[Action] = [] if new == old else [UpdateTableMeta(claim(replace(state.meta, properties=new)))]
        if operation is not None:
            actions.append(SetTransaction(operation, Tally()))
        if not actions:
            return None
        becomes_unique = new.unique and not old.unique
        if becomes_unique:
            _check_unique(self._rim.store, state)
        commit = Commit(
            id=self._rim.ids.uuid(),
            operation="set_properties",
            engine=ENGINE,
            parameters=dict(changes),
            actions=tuple(actions),
        )
        return Proposal(commit=commit, judge=PropertyTerms(checked_rows=becomes_unique, operation=operation).judge)


def _check_unique(store: Store, state: TableState) -> None:
    """Raise DuplicateKey where two rows have one identity and index value; holds the key columns of a stretch of rows at a time."""
    index, keys = state.meta.index, state.meta.index.keys
    if state.meta.schema is None:
        return
    known = pc.field(index.column).is_valid()  # other writers leave rows without an index value
    request = ScanRequest(start=None, end=None, where=known, entity={}, columns=keys, order="index")
    for stretch in _whole_instants(request.rows(store, state).to_batches(), index.column):
        counts = stretch.group_by(list(keys)).aggregate([([], "count_all")])
        repeated = counts.filter(pc.field("count_all") > 1)
        if repeated.num_rows:
            raise refuse_duplicates(
                repeated,
                keys,
                "in the table more than once",
                "A unique table holds no two rows with one identity and index value",
            )


def _whole_instants(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[pa.Table]:
    """Rows in index order, cut so that all rows of one index value come together."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        last = batch.column(column)[-1]
        if held and held[0].column(column)[0] != last:
            earlier = batch.filter(pc.not_equal(batch.column(column), last))
            yield pa.Table.from_batches([*held, earlier])
            held = [batch.slice(earlier.num_rows)]
        else:
            held.append(batch)
    if held:
        yield pa.Table.from_batches(held)
