"""The corrections: what an upsert, a delete and a replacement do to a version of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bitmap import STORED_END, CoverageMap, bias, count_in
from gapless.errors import InvalidOption, InvalidTime, InvalidValue, SchemaMismatch
from gapless.files.compare.keys import KeySet, can_match
from gapless.files.ingest.batches import Batches
from gapless.files.sort.run import sort_run
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.conflict.rows import PROPERTIES
from gapless.formats.timeseries.replay import segments_covering
from gapless.log.commit import Conflict
from gapless.log.format import Conflicting
from gapless.predicate.expression import to_expression
from gapless.predicate.plan import expression_columns
from gapless.predicate.predicate import IsTruth, columns_of
from gapless.predicate.range import check_columns
from gapless.runtime.committer import refuse_conflict
from gapless.tables.timeseries.correct.rewrite_affected import RowChanges
from gapless.tables.timeseries.correct.row_selection import (
    BaseVersion,
    ConditionSelector,
    CoverageSelector,
    Filter,
    KeySelector,
)
from gapless.tables.timeseries.read.scan import ScanRequest, select_identities
from gapless.tables.timeseries.read.values import parse_index_value
from gapless.tables.timeseries.write.refusals import check_absent, check_distinct, refuse_duplicates

OnDuplicate = Literal["error", "last"]
ON_DUPLICATE: tuple[OnDuplicate, ...] = get_args(OnDuplicate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows of the input take the place of all rows that have their key, or are new."""

    key: tuple[str, ...] | None
    """The key's columns; None for the entity columns and the index."""
    on_duplicate: OnDuplicate
    given: tuple[frozenset[str], ...]
    """The columns that each part of the input has."""
    operation: str = "upsert"
    parameters: Mapping[str, object]

    def of_input(self, parts: Sequence[Batches]) -> Upsert:
        """The same of an input of these parts."""
        return replace(self, given=tuple(frozenset(part.schema.names) for part in parts))

    def decide(self, before: BaseVersion, rows: pa.Table) -> RowChanges:
        """See `Correction.decide`; raises DuplicateKey, SchemaMismatch, UnknownColumn, InvalidOption."""
        columns = self.columns(before)
        self.check(before)
        rows, keys = self._distinct(rows, columns)
        run = sort_run(rows, before.index, before.grid)
        cut = KeySelector.of(before, rows, keys, run.coverage if set(before.keys) <= set(columns) else None)
        if before.meta.properties.unique and set(columns) != set(before.keys):
            check_distinct(run, before)
            check_absent(run, before, segments_covering(before.state, run.coverage, before.grid), cut)
        return RowChanges(run, cut)

    def columns(self, before: BaseVersion) -> tuple[str, ...]:
        """The key's columns."""
        # The index first: it tells most rows apart.
        return before.keys[::-1] if self.key is None else self.key

    def check(self, before: BaseVersion) -> None:
        """Raise UnknownColumn or InvalidOption for a wrong key, SchemaMismatch where the input lacks columns."""
        columns = self.columns(before)
        check_columns(columns, before.schema)
        for name in columns:
            type_ = before.schema.field(name).type
            if not can_match(type_):
                raise InvalidOption(
                    f"column {name!r} cannot be part of a key",
                    why=f"Values of {type_} are not compared",
                    fix="Name columns of plain types",
                    option="key",
                    value=columns,
                )
        missing = sorted({field.name for field in before.schema if not pa.types.is_null(field.type)} - self._common())
        if self.given and missing:
            raise SchemaMismatch(
                f"the input lacks the column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}",
                why="A row takes the place of a whole row, so what the table holds in a missing column would be lost",
                fix="Add the columns: the values that should be there, or nulls where that is what you mean",
                differences=tuple(f"{name}: missing" for name in missing),
            )

    def _common(self) -> frozenset[str]:
        return frozenset.intersection(*self.given) if self.given else frozenset()

    def _distinct(self, rows: pa.Table, columns: tuple[str, ...]) -> tuple[pa.Table, KeySet]:
        keys = KeySet.of(rows, columns)
        if keys.count == rows.num_rows:
            return rows, keys
        if self.on_duplicate == "error":
            raise refuse_duplicates(
                rows.take(pa.array(keys.repeated())),
                columns[::-1] if self.key is None else columns,
                "more than once in the input",
                "Which of the rows should stay is not said",
            )
        rows = rows.take(pa.array(keys.last_rows()))
        return rows, KeySet.of(rows, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Rows that meet a condition go; a condition that is null keeps its row."""

    request: ScanRequest
    operation: str
    parameters: Mapping[str, object]

    def decide(self, before: BaseVersion, rows: pa.Table) -> RowChanges:
        """See `Correction.decide`; raises InvalidFilter, InvalidTime, UnknownColumn."""
        return RowChanges(sort_run(rows, before.index, before.grid), condition_cut(before, self.request))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Rows of a range of the index, and of some entities, go; those of the input come."""

    request: ScanRequest
    operation: str = "replace"
    parameters: Mapping[str, object]

    def decide(self, before: BaseVersion, rows: pa.Table) -> RowChanges:
        """See `Correction.decide`; raises InvalidValue for a row outside the range, DuplicateKey in a unique table."""
        self.check_inside(before.state, before.schema, rows)
        run = sort_run(rows, before.index, before.grid)
        if before.meta.properties.unique:
            check_distinct(run, before)
        return RowChanges(run, condition_cut(before, self.request))

    def check_inside(self, state: TableState, schema: pa.Schema, rows: pa.Table) -> None:
        """Raise InvalidValue for a row, in declared types, that lies outside of the range and the entities."""
        keys = state.meta.index.keys
        inside = to_expression(IsTruth(term=self.request.predicate(state, schema), value=True), schema)
        numbered = rows.select(keys).append_column("", pa.array(range(rows.num_rows), pa.int64()))
        outside = numbered.filter(~inside)
        if outside.num_rows:
            row = {name: outside.column(name)[0] for name in keys}
            number = outside.column("")[0].as_py()
            raise InvalidValue(
                f"row {number} lies outside what is to be replaced: {', '.join(f'{n}={v}' for n, v in row.items())}",
                why=f"{outside.num_rows:,} of {rows.num_rows:,} rows do; the range is half-open, and `entity` bounds it too",
                fix="Leave such rows out, or replace a range that holds them",
                column=state.meta.index.column, row=number, value=str(row[state.meta.index.column]),
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceCovered:
    """Rows in the (identity, bucket) pairs that the input covers go; those of the input come."""

    operation: str = "append"
    parameters: Mapping[str, object] = field(default_factory=lambda: {"on_overlap": "replace"})
    by_table: Callable[[], int] | None = None
    """Where the table's overlap policy asks for it, and not the caller: gives the newest version that is known."""

    def decide(self, before: BaseVersion, rows: pa.Table) -> RowChanges:
        """See `Correction.decide`; raises DuplicateKey in a unique table, and as `check`."""
        self.check(before)
        run = sort_run(rows, before.index, before.grid)
        if before.meta.properties.unique:
            check_distinct(run, before)
        return RowChanges(run, CoverageSelector.of(before, run.coverage))

    def check(self, before: BaseVersion) -> None:
        """Raise CommitConflict where the table, whose policy asked for this, has another one now."""
        now = before.meta.properties.on_overlap
        if self.by_table is not None and now != "replace":
            raise refuse_conflict(Conflict(self.by_table(), Conflicting(PROPERTIES, f"on_overlap={now!r}")))


def condition_cut(before: BaseVersion, request: ScanRequest) -> ConditionSelector:
    """The cut of the rows that a scan with these arguments gives; raises as the scan does."""
    predicate = request.predicate(before.state, before.schema)
    expression = request.where if isinstance(request.where, pc.Expression) else None
    read = () if expression is None else expression_columns(expression, before.schema)
    wanted = {before.index.column, *columns_of(predicate), *read}
    seen = Filter(
        columns=tuple(name for name in before.schema.names if name in wanted),
        predicate=predicate,
        expression=expression,
        expression_columns=read,
    )
    return ConditionSelector(before=before, seen=seen, covers=_covers(before, request))


def _covers(before: BaseVersion, request: ScanRequest) -> Callable[[CoverageMap], bool] | None:
    """Whether what a segment covers meets the range and the identities; None where rows without an index value may meet them too."""
    if request.start is None and request.end is None:
        return None
    chosen = select_identities(request.entity, before.index, before.schema)
    try:
        low, high = _stored_range(before, request)
    except InvalidTime:
        return None  # local days of years that have none: what the log says of bounds must do
    return lambda coverage: any(chosen(identity) and count_in(bitmap, low, high) for identity, bitmap in coverage.items())


def _stored_range(before: BaseVersion, request: ScanRequest) -> tuple[int, int]:
    grid, shift = before.grid, bias(signed=before.grid.signed)
    start, end = (
        None if value is None else parse_index_value(value, before.index, before.schema, name=name)
        for name, value in (("start", request.start), ("end", request.end))
    )
    low = 0 if start is None else max(0, grid.id_of(start) + shift)
    return low, STORED_END if end is None else min(STORED_END, grid.id_of(end - 1) + 1 + shift)
