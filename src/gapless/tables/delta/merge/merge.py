"""MERGE INTO a Delta table: the builder that users call, and one merge made to one version."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import pyarrow as pa

from gapless.errors import InvalidOption, SchemaMismatch
from gapless.files.ingest.batches import Batches, with_schema
from gapless.formats.delta.actions import Json, TableState
from gapless.formats.delta.deletion_vector import Positions
from gapless.formats.delta.schema.char_varchar import char_lengths
from gapless.model.by_value import Floats
from gapless.model.convert import convert
from gapless.model.operation import ChangeReport, OperationArgument
from gapless.model.stats import distinct
from gapless.model.types import bare_type, declared_field, with_known_types
from gapless.predicate.range import NameIndex
from gapless.runtime.environment import Environment
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.merge.match import BoundClause, MergeEdit, Numbers, match_rows, source_bounds_condition
from gapless.tables.delta.merge.plan import Act, Clause, Match, Names, check_clauses, key_pairs, source_columns
from gapless.tables.delta.read.scan import select_files
from gapless.tables.delta.write.changed_files import TellOrder
from gapless.tables.delta.write.merge_schema import SchemaMode, evolve_schema, parse_schema_mode
from gapless.tables.delta.write.rewrite import BaseVersion, RowChangePlan, RowOperations, reads_of
from gapless.tables.delta.write.row_edit import AffectedFile
from gapless.tables.shared.handle import environment_of
from gapless.tables.shared.inputs.rows import as_batches
from gapless.tables.shared.scan import Condition

_LOGGED: dict[Match, str] = {
    "matched": "matchedPredicates",
    "not_matched": "notMatchedPredicates",
    "not_matched_by_source": "notMatchedBySourcePredicates",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRows:
    """A merge, as it was described."""

    source: pa.Table
    inferred: Mapping[str, Floats]
    """The source's columns whose types nobody declared; see `Batches`."""
    on: str
    target_alias: str
    source_alias: str
    schema_mode: SchemaMode
    new_name: Callable[[], str]
    """Physical names for new columns."""
    clauses: tuple[Clause, ...] = ()
    weights: Numbers | None = None
    """For each row of the source how many rows are skipped where it belongs to a row of the table and no clause takes it; None for none."""
    unstored: frozenset[str] = frozenset()
    """Columns of the source that the table does not get, whatever `schema_mode` says."""
    left_out: int = 0
    """How many more rows were skipped before they came to be rows of the source."""
    order: TellOrder | None = None
    """In which order the change feed tells its rows; see `TellOrder`."""
    operation: str = "MERGE"

    @classmethod
    def of(
        cls, table: DeltaHandle, source: Batches, on: str, *, source_alias: str, target_alias: str, schema_mode: SchemaMode
    ) -> MergeRows:
        """One without clauses, whose source is read now. Raises UnreadableInput, InvalidOption, SchemaMismatch, UnsupportedType."""
        if source_alias.lower() == target_alias.lower():
            raise InvalidOption(
                f"both sides are called {source_alias!r}", fix="Pass two aliases", option="source_alias", value=source_alias
            )
        return cls(
            source=held_rows(source, table.schema),
            inferred=source.inferred,
            on=on,
            target_alias=target_alias,
            source_alias=source_alias,
            schema_mode=parse_schema_mode(schema_mode, ("strict", "merge")),
            new_name=partial(column_id, environment_of(table)),
        )

    def with_clauses(self, *clauses: Clause) -> MergeRows:
        """The same with further clauses."""
        return replace(self, clauses=(*self.clauses, *clauses))

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it, as Delta does: texts, lists of clauses as JSON."""
        said: dict[str, Json] = {"predicate": json.dumps([self.on])}
        for match, name in _LOGGED.items():
            clauses = [clause for clause in self.clauses if clause.match == match]
            told = [{"actionType": one.act} | ({} if one.where is None else {"predicate": one.where}) for one in clauses]
            said[name] = json.dumps(told)
        return said

    def fit(self, state: TableState) -> TableState:
        """The version with the source's columns added to it, where that was asked for. Raises SchemaMismatch, UnsupportedType."""
        if self.schema_mode != "merge":
            return state
        stored = self.source.drop_columns(sorted(self.unstored))
        part = Batches(
            source="the merge's source",
            schema=stored.schema,
            read=lambda: iter(stored.to_batches()),
            inferred=self.inferred,
        )
        return evolve_schema(state, [part], "merge", self.new_name).state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which rows change, go and come. Raises CallError where the call is wrong, DuplicateKey."""
        return self._run(before).changes()

    def reaches(self, before: BaseVersion) -> Condition:
        """See `FileOperation.reaches`."""
        return self._run(before).reaches

    def inserts(self, before: BaseVersion, unmatched: Numbers) -> Iterable[pa.RecordBatch]:
        """See `FileOperation.inserts`."""
        return self._run(before).inserts(unmatched)

    def _run(self, before: BaseVersion) -> _Run:
        check_clauses(self.clauses)
        names = Names(
            target_alias=self.target_alias,
            source_alias=self.source_alias,
            target=before.schema,
            source=self.source.schema,
        )
        self._check_source(names)
        return _Run(merge=self, before=before, names=names, edit=self._edit(before, names))

    def _edit(self, before: BaseVersion, names: Names) -> MergeEdit:
        return MergeEdit(
            state=before.after,
            names=names,
            source=self.source,
            inferred=self.inferred,
            keys=key_pairs(self.on, names),
            clauses=[BoundClause.of(clause, names) for clause in self.clauses],
            passed_over=[],
        )

    def _check_source(self, names: Names) -> None:
        """Raise SchemaMismatch where a column of the source would be left out in silence by a clause that takes all."""
        if all(clause.values is not None or clause.act == "delete" for clause in self.clauses):
            return
        texts = [self.on, *(clause.where for clause in self.clauses if clause.where is not None)]
        texts += [text for clause in self.clauses for text in (clause.values or {}).values() if isinstance(text, str)]
        target = NameIndex(names.target.names)
        unknown = [name for name in names.source.names if len(target.matching(name)) != 1]
        lost = [name for name in unknown if name not in source_columns(texts, names)]
        if lost:
            raise SchemaMismatch(
                f"the source's column {lost[0]!r} is not in the table",
                why="A clause that takes all of the source's columns would leave it out",
                fix='Leave it out of the source, or pass schema_mode="merge" to add it to the table',
                differences=tuple(f"{name}: not in the table" for name in lost),
            )

    def has(self, match: Match) -> bool:
        """Whether there is a clause for these rows."""
        return any(clause.match == match for clause in self.clauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A merge on its way through one version."""

    merge: MergeRows
    before: BaseVersion
    names: Names
    edit: MergeEdit

    @property
    def near(self) -> Condition:
        """What is true of every row that one of the source's belongs to."""
        return source_bounds_condition(self.merge.on, self.names, self.merge.source, self._chars)

    @property
    def reaches(self) -> Condition:
        """What is true of every row that may change."""
        return Condition(schema=self.names.target) if self.merge.has("not_matched_by_source") else self.near

    @property
    def _chars(self) -> Mapping[str, int]:
        return char_lengths(self.before.after.metadata.schema)

    def changes(self) -> RowChangePlan:
        merge, chars, near = self.merge, self._chars, self.near
        read = Condition(schema=near.schema) if merge.has("not_matched_by_source") else near
        files = [one.file for one in select_files(self.before.after, read)]
        pairs = match_rows(self.before, files, merge.on, self.names, merge.source, near, chars)
        matched = np.zeros(merge.source.num_rows, dtype=bool)
        for one in pairs:
            matched[one.rows] = True
        affected = (
            AffectedFile(file=file, positions=self._positions(found.positions), edit=partial(self.edit.edit, found))
            for file, found in zip(files, pairs, strict=True)
            if self._may_touch(len(found.positions))
        )
        return RowChangePlan(
            affected=affected,
            inserts=partial(self.inserts, np.flatnonzero(~matched)),
            skipped=self._skipped,
            reads=reads_of(self.before.after, read, files),
            order=merge.order,
            unmatched=np.flatnonzero(~matched),
        )

    def _may_touch(self, pairs: int) -> bool:
        return self.merge.has("not_matched_by_source") or (pairs > 0 and self.merge.has("matched"))

    def _positions(self, found: Positions) -> Positions | None:
        return None if self.merge.has("not_matched_by_source") else distinct(found)

    def inserts(self, unmatched: Numbers) -> Iterable[pa.RecordBatch]:
        rows = self.edit.inserts(unmatched) if self.merge.has("not_matched") else None
        return () if rows is None else rows.to_batches()

    def _skipped(self) -> int:
        weights, passed = self.merge.weights, self.edit.passed_over
        skipped = self.merge.left_out
        return skipped if weights is None or not passed else skipped + int(weights[distinct(np.concatenate(passed))].sum())


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
        return Merge(self._change.with_clauses(clause), self._run)


def column_id(env: Environment) -> str:
    """A physical name for a new column."""
    return f"col-{env.ids.uuid()}"


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
        batches = source if isinstance(source, Batches) else as_batches(source, self.schema)
        change = MergeRows.of(self, batches, on, source_alias=source_alias, target_alias=target_alias, schema_mode=schema_mode)
        return Merge(change, self._change_rows)


def held_rows(batches: Batches, table: pa.Schema) -> pa.Table:
    """A source's rows in plain types: no views, dictionaries or large texts; what is nothing but nulls in the table's type."""
    twice = sorted(name for name, count in Counter(batches.schema.names).items() if count > 1)
    if twice:
        raise SchemaMismatch(
            f"the source's column {twice[0]!r} comes several times",
            fix="Rename its columns, or leave some out",
            differences=tuple(f"{name}: comes several times" for name in twice),
        )
    names = NameIndex(table.names)
    kinds = [_plain_type(one, table, names) for one in batches.schema]
    shape = pa.schema(list(zip(batches.schema.names, kinds, strict=True)))
    held = [_converted(batch, shape) for batch in batches]
    return pa.Table.from_batches(held, schema=shape)


def _converted(batch: pa.RecordBatch, shape: pa.Schema) -> pa.RecordBatch:
    columns = [convert(column, field.type) for column, field in zip(batch.columns, shape, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=shape) if columns else with_schema(batch, shape)


def _plain_type(given: pa.Field, table: pa.Schema, names: NameIndex) -> pa.DataType:
    known = names.matching(given.name)
    told = with_known_types(bare_type(given.type), table.field(known[0]).type) if len(known) == 1 else given.type
    return pa.null() if pa.types.is_null(bare_type(told)) else declared_field(given.with_type(told)).type
