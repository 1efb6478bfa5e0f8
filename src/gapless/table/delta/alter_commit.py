"""Committing a change of what a Delta table is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from gapless.dialects.delta.actions import Action, Commit, TableState
from gapless.dialects.delta.arrow_types import to_arrow
from gapless.dialects.delta.conflict import Reads, Terms
from gapless.dialects.delta.features import check_writable
from gapless.errors import InvalidQuery, SchemaMismatch
from gapless.log.dialect import Snapshot
from gapless.parquet.delta.read import FileReader, Wanted
from gapless.runtime.committer import Committer, Proposal
from gapless.runtime.driver import Rim
from gapless.table.delta.checks import Constraint, check_constraints
from gapless.table.delta.commits import new_commit
from gapless.table.delta.expression_sql import columns_read
from gapless.table.delta.expressions import evaluate
from gapless.table.delta.shape import Shape

Change = Callable[[TableState], Shape]
"""What a version becomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshaper:
    """Changes what a table is, from the newest version on."""

    rim: Rim
    committer: Committer[Commit, TableState]
    snapshot: Snapshot[TableState]
    """The version that the handle sees."""
    check: Callable[[], None]
    """Raises UnsupportedTable where the handle may not write."""

    def change(self, operation: str, parameters: Mapping[str, object], change: Change, reads: Reads) -> int:
        """Commit a change; returns its version, the newest one's where it changes nothing. `operation` is Delta's name for it."""
        # What a column is, the newest version says, whichever the handle sees.
        newest = self.committer.refresh(self.snapshot)
        self.check()
        landed = self.committer.change(newest, partial(self._propose, operation, parameters, change, reads))
        return newest.version if landed is None else landed.version

    def _propose(
        self,
        operation: str,
        parameters: Mapping[str, object],
        change: Change,
        reads: Reads,
        snapshot: Snapshot[TableState],
    ) -> Proposal[Commit] | None:
        """The commit that makes this change to a version; None where it changes nothing."""
        state, url = snapshot.state, self.rim.store.url
        check_writable(state.protocol, url, state.metadata)
        before, after = Shape.of(state), change(state)
        protocol: tuple[Action, ...] = () if after.protocol == before.protocol else (after.protocol,)
        metadata: tuple[Action, ...] = () if after.metadata == before.metadata else (after.metadata,)
        if not protocol and not metadata:
            return None
        check_writable(after.protocol, url, after.metadata)
        said = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
        entry = new_commit(self.rim, snapshot, operation, (*protocol, *metadata), parameters=said)
        entry = replace(entry, in_commit_time=after.settings.in_commit_timestamps)
        return Proposal(commit=entry, judge=Terms(state=state, reads=reads).judge)

    def new_name(self) -> str:
        """A name that no column of any version has in files."""
        return f"col-{self.rim.ids.uuid()}"

    def check_rows(self, state: TableState, name: str, expression: str) -> None:
        """Raise InvalidValue for the first row of a version that breaks a constraint, in Spark's SQL; InvalidQuery, UnknownColumn
        where it is none.
        """
        schema = to_arrow(state.metadata.schema)
        _check_condition(expression, schema)
        constraint = Constraint(name=f"the constraint {name!r}", expression=expression, condition=expression)
        reader = FileReader.of(self.rim.store, state.metadata)
        columns = columns_read(expression, schema, "spark") or tuple(schema.names[:1])
        first = 0
        for _, rows in reader.read(state.files.values(), Wanted(columns=columns)):
            for batch in rows.to_batches():
                check_constraints(batch, (constraint,), first_row=first)
                first += batch.num_rows


def _check_condition(expression: str, schema: pa.Schema) -> None:
    """Raise InvalidQuery or UnknownColumn for what is no condition over these columns."""
    row = pa.table([pa.nulls(1, field.type) for field in schema], names=schema.names)
    try:
        evaluate(row, {"condition": expression}, pa.schema([("condition", pa.bool_())]), dialect="spark")
    except SchemaMismatch as error:
        raise InvalidQuery(
            f"{expression!r} is no condition",
            why="It is neither true nor false but another value",
            fix="Compare it with something",
            sql=expression,
        ) from error
