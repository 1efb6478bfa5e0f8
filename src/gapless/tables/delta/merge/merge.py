"""Merging rows into a Delta table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import pyarrow as pa

from gapless.errors import InvalidOption, SchemaMismatch
from gapless.files.ingest.batches import Batches
from gapless.model.convert import convert
from gapless.model.operation import ChangeReport, OperationArgument
from gapless.model.types import bare_type, declared_field
from gapless.predicate.range import matching
from gapless.tables.delta.merge.plan import Act, Clause, Match, check_clauses
from gapless.tables.delta.merge.rows import MergeRows
from gapless.tables.delta.write.merge_schema import SchemaMode, parse_schema_mode
from gapless.tables.delta.write.rewrite import RowOperations
from gapless.tables.shared.inputs import as_batches

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport(ChangeReport):
    """What a merge did: `rows` = `inserted_rows` + `updated_rows` were written, `removed_rows` = `deleted_rows` + `updated_rows` went."""

    @property
    def deleted_rows(self) -> int:
        """Rows that the table had, and for which nothing came."""
        return self.removed_rows - self.updated_rows


class Merge:
    """A merge that is being described: each method gives one with a further clause, and `execute` makes it.

    Of the clauses for one kind of rows the first whose condition is true is taken; rows for which none is stay as they are, or stay out.
    `where` and values are SQL over both rows, `t.id` and `s.id` (or as the aliases say; a name that only one side has needs none); in clauses
    for rows that one side lacks, over the other's. Values that are no texts are values themselves, as in `update`.
    """

    __slots__ = ("_change", "_run")

    def __init__(self, change: MergeRows, run: Callable[[MergeRows, object], ChangeReport]) -> None:
        """Use `table.merge`."""
        self._change, self._run = change, run

    def when_matched_update(self, values: Values, *, where: str | None = None) -> Merge:
        """Give columns of the table's row new values where rows belong together."""
        return self._with("matched", "update", where, values)

    def when_matched_update_all(self, *, where: str | None = None) -> Merge:
        """Give the table's row all values of the source's, by name; columns that the source lacks stay."""
        return self._with("matched", "update", where)

    def when_matched_delete(self, *, where: str | None = None) -> Merge:
        """Delete the table's row where rows belong together."""
        return self._with("matched", "delete", where)

    def when_not_matched_insert(self, values: Values, *, where: str | None = None) -> Merge:
        """Add a row for a row of the source that has none in the table; columns not given are generated, take their default or are null."""
        return self._with("not_matched", "insert", where, values)

    def when_not_matched_insert_all(self, *, where: str | None = None) -> Merge:
        """Add the source's row, by the names of its columns."""
        return self._with("not_matched", "insert", where)

    def when_not_matched_by_source_update(self, values: Values, *, where: str | None = None) -> Merge:
        """Give columns new values in the table's rows that have no row in the source."""
        return self._with("not_matched_by_source", "update", where, values)

    def when_not_matched_by_source_delete(self, *, where: str | None = None) -> Merge:
        """Delete the table's rows that have no row in the source."""
        return self._with("not_matched_by_source", "delete", where)

    def execute(self, *, operation_id: OperationArgument = None) -> MergeReport:
        """Make the merge, in one commit to the newest version; made anew where another's commit came first into what it read.

        Only files that can hold a row of the source are opened, and only those of which a row changes are written anew, or get a deletion
        vector. Rows that stay what they are do not count, and nothing is committed where all do. Raises DuplicateKey where several rows
        of the source would update one row of the table, InvalidQuery, UnknownColumn, InvalidOption, SchemaMismatch, InvalidValue,
        NotSupported (an append-only table), CommitConflict, CommitOutcomeUnknown, UnsupportedTable, CorruptTable, StoreError.
        """
        check_clauses(self._change.clauses)
        report = self._run(self._change, operation_id)
        return MergeReport(**{one.name: getattr(report, one.name) for one in fields(ChangeReport)})

    def _with(self, match: Match, act: Act, where: str | None, values: Values | None = None) -> Merge:
        clause = Clause(match=match, act=act, where=where, values=values)
        return Merge(replace(self._change, clauses=(*self._change.clauses, clause)), self._run)


class Merging(RowOperations):
    """`merge`."""

    def merge(
        self,
        source: object,
        on: str,
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        schema_mode: SchemaMode = "strict",
    ) -> Merge:
        """Begin a merge of rows into the table; nothing happens before `.execute()`.

        Args:
            source: What `append` takes; read once, now, and held in memory.
            on: SQL that is true of rows of the table and the source that belong together, such as "t.id = s.id". Null equals nothing there:
                `t.id IS NOT DISTINCT FROM s.id` matches it.
            source_alias: What SQL calls the source.
            target_alias: What SQL calls the table.
            schema_mode: "merge" adds the source's columns that the table lacks.

        Raises UnreadableInput, InvalidOption, SchemaMismatch, UnsupportedType.
        """
        if source_alias.lower() == target_alias.lower():
            raise InvalidOption(
                f"both sides are called {source_alias!r}", fix="Pass two aliases", option="source_alias", value=source_alias
            )
        change = MergeRows(
            source=_held(source, self.schema),
            on=on,
            target_alias=target_alias,
            source_alias=source_alias,
            schema_mode=parse_schema_mode(schema_mode, ("strict", "merge")),
            new_name=lambda: f"col-{self._env.ids.uuid()}",
        )
        return Merge(change, self._change_rows)


def _held(source: object, table: pa.Schema) -> pa.Table:
    """A source's rows in plain types: no views, dictionaries or large texts; columns of nothing but nulls in the table's type."""
    batches = source if isinstance(source, Batches) else as_batches(source)
    twice = sorted(name for name, count in Counter(batches.schema.names).items() if count > 1)
    if twice:
        raise SchemaMismatch(
            f"the source's column {twice[0]!r} comes several times",
            fix="Rename its columns, or leave some out",
            differences=tuple(f"{name}: comes several times" for name in twice),
        )
    kinds = [_plain_type(one, table) for one in batches.schema]
    shape = pa.schema(list(zip(batches.schema.names, kinds, strict=True)))
    held = [_converted(batch, shape) for batch in batches]
    return pa.Table.from_batches(held, schema=shape)


def _converted(batch: pa.RecordBatch, shape: pa.Schema) -> pa.RecordBatch:
    columns = [convert(column, field.type) for column, field in zip(batch.columns, shape, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=shape)


def _plain_type(given: pa.Field, table: pa.Schema) -> pa.DataType:
    if not pa.types.is_null(bare_type(given.type)):
        return declared_field(given).type
    known = matching(given.name, table.names)
    return table.field(known[0]).type if len(known) == 1 else pa.null()
