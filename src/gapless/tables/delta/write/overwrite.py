"""Overwriting a Delta table, or a part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidOption, InvalidValue, one_of
from gapless.formats.delta.actions import Action, CdcFile, Commit, Json, TableState
from gapless.formats.delta.conflict import EVERYTHING, CommitPredicate, Reads
from gapless.formats.delta.file_path import canonical
from gapless.formats.delta.partitions import Partitions
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.log.format import Snapshot
from gapless.model.operation import AppendReport, OperationArgument, OperationId, Tally, parse_operation
from gapless.predicate.plan import expression_text
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite, Target
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.read.scan import RowCondition
from gapless.tables.delta.write.append import write_parameters
from gapless.tables.delta.write.changed_files import ChangeLog, RowChangeWriter
from gapless.tables.delta.write.commits import check_may_remove, new_commit
from gapless.tables.delta.write.delete import Delete
from gapless.tables.delta.write.landing import RowCommitter, StagedRows
from gapless.tables.delta.write.merge_schema import SchemaMode, parse_schema_mode
from gapless.tables.delta.write.rewrite import BaseVersion, RowChangePlan, no_rows
from gapless.tables.delta.write.row_edit import AffectedFile
from gapless.tables.shared.inputs.rows import ReadParts, parts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Proposes to put fresh rows in the place of others."""

    env: Environment
    going: Callable[[BaseVersion, StagedRows], RowChangePlan]
    """Which rows of a version go."""
    said: dict[str, Json]
    """What the log says of that."""
    operation: OperationId | None

    @classmethod
    def of(
        cls,
        env: Environment,
        *,
        where: str | pc.Expression | None,
        partitions: str | None,
        mode: SchemaMode,
        operation: OperationId | None,
    ) -> Overwrite:
        """Of all rows, or the part that is named. Raises InvalidOption where it is named twice, or beside new columns for all rows."""
        return cls(env=env, going=_parse_part(where, partitions, mode), said=_said(where, partitions), operation=operation)

    def propose(self, snapshot: Snapshot[TableState], fresh: StagedRows) -> Proposal[Commit] | Tally:
        """Fresh rows in the place of those that go; nothing counted where none goes and none comes."""
        state = snapshot.state
        check_may_remove(state, "WRITE")
        now = fresh.evolved.state
        after = replace(state, metadata=now.metadata, protocol=now.protocol)
        beside = StagedWrite.begin(self.env)
        with beside.discarded_on_error():
            reader = FileReader.of(self.env.store, after.metadata)
            changes = self.going(BaseVersion(state=state, after=after, reader=reader), fresh)
            rewrite = RowChangeWriter(state=state, after=after, reader=reader, attempt=beside)
            removed = rewrite.run(changes.affected, no_rows)
            told = _told_inserts(removed, beside, after, fresh)
        actions = (*removed, *fresh.files, *told)
        if not actions and self.operation is None:
            return Tally()
        gone = rewrite.tally
        tally = replace(
            fresh.tally,
            segments=fresh.tally.segments + gone.segments,
            removed_rows=gone.removed_rows,
            removed_segments=gone.removed_segments,
        )
        parameters = {**write_parameters("Overwrite", state), **self.said}
        commit = new_commit(
            self.env, snapshot, "WRITE", actions, parameters=parameters, tally=tally, operation_id=self.operation
        )
        return Proposal(
            commit=commit,
            check_conflict=CommitPredicate(state=state, reads=changes.reads).check_conflict,
            tally=tally,
            discard=beside.discard,
            deferred=tuple(beside.deferred),
        )


def _told_inserts(removed: tuple[Action, ...], attempt: StagedWrite, after: TableState, fresh: StagedRows) -> list[CdcFile]:
    """The change feed's files of fresh rows, where it has files of the commit: readers then look at nothing else of it."""
    if not any(isinstance(action, CdcFile) for action in removed):
        return []
    log = ChangeLog(attempt=attempt, target=Target.of(after))
    for batch in fresh.batches():
        log.add_inserts(pa.Table.from_batches([batch]))
    return log.finish()


def all_rows(before: BaseVersion, _fresh: StagedRows) -> RowChangePlan:
    """Every row goes."""
    return RowChangePlan(affected=[AffectedFile(file=file) for file in before.state.files.values()], reads=EVERYTHING)


def same_partitions(before: BaseVersion, fresh: StagedRows) -> RowChangePlan:
    """The rows of the partitions go that fresh rows lie in."""
    key = Partitions.of(before.after.metadata).key
    mine = {key(file) for file in fresh.files}
    files = [file for file in before.state.files.values() if key(file) in mine]
    paths = frozenset(canonical(file.path) for file in files)
    return RowChangePlan(
        affected=[AffectedFile(file=file) for file in files], reads=Reads(reaches=lambda file: key(file) in mine, paths=paths)
    )


def matching_rows(where: str | pc.Expression) -> Callable[[BaseVersion, StagedRows], RowChangePlan]:
    """The rows go for which a condition is true."""
    return lambda before, _fresh: Delete(where=where).decide(before)


def check_matches(where: str | pc.Expression) -> Callable[[pa.RecordBatch, int, TableState], None]:
    """A check that refuses rows for which a condition is not true."""

    def check(rows: pa.RecordBatch, first_row: int, state: TableState) -> None:
        table = pa.Table.from_batches([rows])
        condition = RowCondition.parse(where, to_arrow(state.metadata.schema))
        kept = condition.mask(table)
        if not kept.all():
            at = int(kept.argmin())
            names = condition.columns or tuple(table.column_names[:1])
            values = {name: table.column(name)[at].as_py() for name in names}
            raise InvalidValue(
                f"row {first_row + at} does not satisfy where={str(where)!r}",
                why="It has " + ", ".join(f"{name}={value!r}" for name, value in values.items()),
                fix="Overwrite with rows of that part alone, or append the others",
                column=names[0], row=first_row + at, value=values[names[0]],
            )  # fmt: skip

    return check


class Overwriting(DeltaHandle):
    """`overwrite`."""

    def overwrite(
        self,
        data: object,
        *,
        where: str | pc.Expression | None = None,
        partitions: str | None = None,
        operation_id: OperationArgument = None,
        schema_mode: SchemaMode = "strict",
    ) -> AppendReport:
        """Put rows in the place of all rows, or of a part, in one commit: readers see the old rows or the new ones.

        Args:
            data: What `append` takes, read once.
            where: Only rows for which this is true are replaced; every new row must satisfy it. What `delete` takes. Files of
                which some rows go are written anew or get a deletion vector, as `delete` does it.
            partitions: "dynamic" replaces the partitions that the new rows lie in, and leaves the others.
            operation_id: As in `append`.
            schema_mode: As in `append`; "overwrite", where all rows are replaced, takes the columns of `data` in place of the table's.

        The report counts `rows` and `removed_rows`. Older versions keep their rows until vacuum. Raises NotSupported (an append-only
        table), InvalidValue for a row that does not satisfy `where`, and what `append` and `delete` raise.
        """
        return self._overwrite(partial(parts_of, data, self.schema), where, partitions, operation_id, schema_mode)

    def _overwrite(
        self,
        read: ReadParts,
        where: str | pc.Expression | None,
        partitions: str | None,
        operation_id: object,
        schema_mode: object,
    ) -> AppendReport:
        mode = parse_schema_mode(schema_mode, ("strict", "merge", "overwrite"))
        operation = parse_operation(operation_id)
        overwrite = Overwrite.of(self._env, where=where, partitions=partitions, mode=mode, operation=operation)
        snapshot = self._committer.refresh(self._snapshot)
        check_part(snapshot.state, where, partitions)
        committer = RowCommitter(
            committer=self._committer,
            propose=overwrite.propose,
            kind="overwrite",
            check_writable=self._check_writable,
            mode=mode,
            operation=operation,
            check=None if where is None else check_matches(where),
            keeps=True,
        )
        return self._with_publications(committer.land(snapshot, read).append_report)


def check_part(state: TableState, where: str | pc.Expression | None, partitions: str | None) -> None:
    """Raise what an overwrite of that part of a version deserves, before a row is looked at: NotSupported, InvalidOption, and as `scan`."""
    check_may_remove(state, "WRITE")
    if partitions is not None:
        _check_partitioned(state)
    if where is not None:
        RowCondition.parse(where, to_arrow(state.metadata.schema))


def _said(where: str | pc.Expression | None, partitions: str | None) -> dict[str, Json]:
    said: dict[str, Json] = {} if where is None else {"predicate": expression_text(where)}
    return said if partitions is None else {**said, "partitionOverwriteMode": partitions}


def _parse_part(
    where: str | pc.Expression | None, partitions: str | None, mode: SchemaMode
) -> Callable[[BaseVersion, StagedRows], RowChangePlan]:
    if partitions is not None:
        one_of("partitions", partitions, ("dynamic",))
    if where is not None and partitions is not None:
        raise InvalidOption(
            "where and partitions both say what is replaced", fix="Leave one of them out", option="partitions", value=partitions
        )
    if mode == "overwrite" and (where is not None or partitions is not None):
        raise InvalidOption(
            'schema_mode="overwrite" with a part of the table',
            why="The rows that stay have the table's columns",
            fix='Pass schema_mode="merge", or replace all rows',
            option="schema_mode",
            value=mode,
        )
    if where is not None:
        return matching_rows(where)
    return all_rows if partitions is None else same_partitions


def _check_partitioned(state: TableState) -> None:
    if not state.metadata.partition_by:
        raise InvalidOption(
            'partitions="dynamic" in a table without partition columns',
            fix="Pass where=…, or leave it out to replace all rows",
            option="partitions",
            value="dynamic",
        )
