"""The life of a change of rows, from the version it finds to the commit.

Which rows a change of rows means: any SQL condition over a row, as far as possible in words that statistics understand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidFilter
from gapless.formats.delta.actions import AddFile, Commit, Json, TableState, canonical
from gapless.formats.delta.conflict import CommitPredicate, Reads
from gapless.formats.delta.deletion_vector import Positions
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.log.format import Snapshot
from gapless.model.operation import ChangeReport, OperationId, Tally, parse_operation_id
from gapless.predicate.expression import to_expression
from gapless.predicate.predicate import columns_of
from gapless.predicate.range import conjunction
from gapless.runtime.committer import Proposal
from gapless.tables.delta.expressions.evaluate import true_rows
from gapless.tables.delta.expressions.sql import columns_read, parsed
from gapless.tables.delta.files.opened import POSITION, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.merge.plan import terms
from gapless.tables.delta.read.scan import Candidate, select_files
from gapless.tables.delta.write.commits import check_may_remove, new_commit
from gapless.tables.delta.write.revision import RewriteResult
from gapless.tables.delta.write.row_edit import AffectedFile, Mask
from gapless.tables.shared.landing import land_change
from gapless.tables.shared.scan import Condition, parse_condition

OperationArgument = tuple[str, int] | str | None


def no_rows() -> Iterable[pa.RecordBatch]:
    """What a change inserts that inserts nothing."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseVersion:
    """The version of a table that a change is made to."""

    state: TableState
    after: TableState
    """The same, with the metadata that the change's rows are written for."""
    reader: FileReader
    """Reads files with the columns of `after`."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of `after`, logical names."""
        return to_arrow(self.after.metadata.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """What a change does to one version."""

    touches: Iterable[AffectedFile]
    """File by file, in the order in which they are gone through; may be decided on the way."""
    inserts: Callable[[], Iterable[pa.RecordBatch]] = no_rows
    """The rows that are new, in the table's columns and types; asked for after the last touch."""
    reads: Reads


class RowChange(Protocol):
    """One intended change of rows."""

    @property
    def operation(self) -> str:
        """Delta's name for it."""
        ...

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it."""
        ...

    def fit(self, state: TableState) -> TableState:
        """The version with the metadata that its rows need; the version itself where those fit. Raises what a wrong call deserves."""
        ...

    def decide(self, before: BaseVersion) -> RowChanges:
        """What it does to a version. Raises what a wrong input deserves."""
        ...


class RowChanging(DeltaHandle):
    """What changes of rows share."""

    def _change_rows(self, change: RowChange, operation_id: object) -> ChangeReport:
        """Make a change to the newest version, in one commit; anew where another's commit came first and clashes.

        Raises CommitConflict at the deadline, CommitOutcomeUnknown, StoreError, and what `change` raises.
        """
        operation = None if operation_id is None else parse_operation_id(operation_id)
        committer = self._committer
        snapshot = committer.refresh(self._snapshot)
        self._check_writable()

        def propose(newest: Snapshot[TableState]) -> Proposal[Commit] | Tally:
            return self._proposed(newest, change, operation)

        return land_change(committer, snapshot, propose, operation).change_report

    def _proposed(
        self, newest: Snapshot[TableState], change: RowChange, operation: OperationId | None
    ) -> Proposal[Commit] | Tally:
        self._check_writable()
        state = newest.state
        check_may_remove(state, change.operation)
        after = change.fit(state)
        attempt = StagedWrite.begin(self._env)
        with attempt.discarded_on_error():
            reader = FileReader.of(self._env.store, after.metadata)
            decision = change.decide(BaseVersion(state=state, after=after, reader=reader))
            revision = RewriteResult(state=state, after=after, reader=reader, attempt=attempt)
            actions = revision.run(decision.touches, decision.inserts)
        if not actions and operation is None:
            return Tally()
        return Proposal(
            commit=new_commit(
                self._env,
                newest,
                change.operation,
                actions,
                parameters=change.parameters,
                tally=revision.tally,
                operation_id=operation,
            ),
            check_conflict=CommitPredicate(state=state, reads=decision.reads).check_conflict,
            tally=revision.tally,
            discard=attempt.discard,
            deferred=tuple(attempt.ahead),
        )


def reads_of(state: TableState, condition: Condition, files: Iterable[AddFile]) -> Reads:
    """What a change read that looked at these files for rows that a condition keeps."""

    def reaches(file: AddFile) -> bool:
        return bool(select_files(replace(state, files={file.key: file}), condition))

    return Reads(reaches=reaches, paths=frozenset(canonical(file.path) for file in files))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCondition:
    """A `where`, understood in two parts, both of which must be true."""

    near: Condition
    """What scans understand: it prunes files and row groups."""
    rest: str | None = None
    """SQL that only DuckDB answers, row by row; None where there is none."""

    @classmethod
    def parse(cls, where: str | pc.Expression | None, schema: pa.Schema) -> RowCondition:
        """Read a `where`: what a scan takes, or any SQL expression over a row.

        Raises InvalidFilter, UnknownColumn, InvalidTime, InvalidQuery.
        """
        try:
            return cls(near=parse_condition(where, schema))
        except InvalidFilter:
            if not isinstance(where, str):
                raise
        near, rest = [], []
        for term in terms(parsed(where)):
            text = str(term.sql(dialect="duckdb"))
            try:
                near.append(parse_condition(text, schema).predicate)
            except InvalidFilter:
                rest.append(f"({text})")
        predicate, text = conjunction(near), " AND ".join(rest)
        columns_read(text, schema)
        named = columns_of(predicate)
        columns = tuple(name for name in schema.names if name in named)
        return cls(near=Condition(schema=schema, predicate=predicate, columns=columns), rest=text)

    def takes_whole(self, candidate: Candidate) -> bool:
        """Whether every row of a file is certainly meant."""
        return candidate.whole and self.rest is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The top-level columns that it reads, in the schema's order."""
        read = set(self.near.columns) | set(() if self.rest is None else columns_read(self.rest, self.near.schema))
        return tuple(name for name in self.near.schema.names if name in read)

    def mask(self, rows: pa.Table) -> Mask:
        """For each of these rows, which have the schema's columns, whether it is true of it. Raises InvalidQuery."""
        near = self.near
        kept = np.zeros(rows.num_rows, dtype=bool)
        numbered = rows.append_column(POSITION, pa.array(np.arange(rows.num_rows)))
        found = numbered.filter(to_expression(near.predicate, near.schema))
        found = found if near.expression is None else found.filter(near.expression)
        kept[found.column(POSITION).to_numpy()] = True
        return kept if self.rest is None else kept & true_rows(rows, self.rest)

    def positions(self, before: BaseVersion, candidate: Candidate) -> Positions:
        """Where in a file the live rows lie that are meant. Raises InvalidQuery, CorruptTable, StoreError."""
        found = list(self._positions(before, candidate))
        return np.concatenate([np.empty(0, np.int64), *found])

    def _positions(self, before: BaseVersion, candidate: Candidate) -> Iterator[Positions]:
        columns = () if self.rest is None else columns_read(self.rest, before.schema)
        near = self.near
        wanted = Projection(columns=columns, predicate=near.predicate, expression=near.expression, position=True)
        for batch in before.reader.batches(candidate.file, wanted):
            positions: Positions = batch.column(POSITION).to_numpy()
            if self.rest is not None:
                positions = positions[true_rows(pa.Table.from_batches([batch]), self.rest)]
            yield positions
