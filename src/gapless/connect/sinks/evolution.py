"""What a sink does with columns that its table lacks, or that are too narrow there: decided when it is initialized, before the first row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from gapless.errors import InvalidChange, one_of
from gapless.formats.delta.schema.arrow_types import from_arrow, to_arrow
from gapless.model.column_ids import steps
from gapless.model.types import bare_type, children, is_any_list
from gapless.model.widening import why_not, why_not_widen
from gapless.predicate.range import NameIndex
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

Policy = Literal["refuse", "add", "widen"]
"""- refuse: rows with such columns are refused;
- add: columns, and fields of structs, that the table lacks are added, nullable;
- widen: and types that are too narrow become the narrowest that hold both.
"""
POLICIES: tuple[Policy, ...] = ("refuse", "add", "widen")
_TRIES = 5
"""How often the columns are looked at again, where another changes them meanwhile."""
_COMMON = (pa.int16(), pa.int32(), pa.int64(), pa.float64())
Path = tuple[str, ...]


def parse_policy(given: object) -> Policy:
    """Check what a caller gave; raises InvalidOption."""
    return one_of("schema_evolution", given, POLICIES, "It says what becomes of columns that the table lacks")


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column, or a field of a struct, that the table lacks."""

    path: Path
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A column or field whose type does not hold all values that may come."""

    path: Path
    type: pa.DataType
    by_value: bool
    """Whether values that fit could come as it is, one by one."""


Step = AddColumn | WidenColumn


def plan_evolution(
    table: pa.Schema, rows: pa.Schema, policy: Policy, *, any_case: bool = False, fixed: tuple[str, ...] = ()
) -> list[Step]:
    """What is to be changed so that a table of these columns takes rows of those, as far as the policy allows. Pure.

    `any_case`: names match whatever their case. Types of the columns `fixed` stay. A table without columns takes those of its first rows.
    """
    if policy == "refuse" or not table.names:
        return []
    found = _steps(list(table), list(rows), (), any_case=any_case)
    return [one for one in found if isinstance(one, AddColumn) or (policy == "widen" and one.path[0] not in fixed)]


def _steps(table: list[pa.Field], rows: list[pa.Field], above: Path, *, any_case: bool) -> Iterator[Step]:
    known = {field.name: field.type for field in table}
    names = NameIndex(known)
    for one in rows:
        matching = names.matching(one.name) if any_case else [one.name] if one.name in known else []
        if not matching:
            yield AddColumn((*above, one.name), one.type)
        elif len(matching) == 1:
            path = (*above, matching[0])
            yield from _differences(known[matching[0]], bare_type(one.type), path, any_case=any_case)


def _differences(table: pa.DataType, rows: pa.DataType, path: Path, *, any_case: bool) -> Iterator[Step]:
    if pa.types.is_struct(table) and pa.types.is_struct(rows):
        yield from _steps(list(table), list(rows), path, any_case=any_case)
    elif (is_any_list(table) and is_any_list(rows)) or (pa.types.is_map(table) and pa.types.is_map(rows)):
        for step, ours, theirs in zip(steps(table), children(table), children(rows), strict=True):
            yield from _differences(ours.type, theirs.type, (*path, step), any_case=any_case)
    elif not pa.types.is_null(table) and why_not_widen(rows, table) is not None:
        wider = _common(table, rows)
        if wider is not None:
            yield WidenColumn(path, wider, by_value=why_not(rows, table) is None)


def _common(table: pa.DataType, rows: pa.DataType) -> pa.DataType | None:
    """The narrowest type that holds every value of both; None where none does, or only the table's own."""
    candidates = [rows, *_COMMON]
    if pa.types.is_decimal(table) and pa.types.is_decimal(rows):
        scale = max(table.scale, rows.scale)
        digits = max(table.precision - table.scale, rows.precision - rows.scale) + scale
        candidates += [pa.decimal128(digits, scale)] if digits <= 38 else []
    fits = (one for one in candidates if why_not_widen(table, one) is None and why_not_widen(rows, one) is None)
    return next((one for one in fits if one != table), None)


def evolve_series(table: TimeSeriesTable, rows: pa.Schema, policy: Policy) -> None:
    """Change the columns of a table so that it takes rows of these, as far as the policy allows; a commit for each change. What is left is
    refused where the rows are checked. The index and entity columns keep their types.

    Raises InvalidChange, UnsupportedType, UpgradeNeeded, CommitConflict, StoreError.
    """

    def plan() -> list[Step]:
        schema = table.refresh().schema
        return [] if schema is None else plan_evolution(schema, rows, policy, fixed=table.index.keys)

    def apply(step: Step) -> None:
        if isinstance(step, AddColumn):
            table.add_column(step.path, step.type)
        else:
            table.widen_column(step.path, step.type)

    carry_out(plan, apply)


def evolve_delta(table: DeltaTable, rows: pa.Schema, policy: Policy) -> None:
    """The same for a Delta table, whose types are widened only where its `delta.enableTypeWidening` is true. Partition columns keep theirs."""
    if policy == "refuse":
        return
    # As the table would have them: Delta has no unsigned integers, and one kind of text.
    declared = to_arrow(from_arrow(rows))

    def plan() -> list[Step]:
        schema = table.refresh().schema
        return plan_evolution(schema, declared, policy, any_case=True, fixed=tuple(table.partition_by))

    def apply(step: Step) -> None:
        if isinstance(step, AddColumn):
            table.alter.add_column(step.path, step.type)
        else:
            table.alter.widen(step.path, step.type)

    carry_out(plan, apply)


def carry_out(plan: Callable[[], list[Step]], apply: Callable[[Step], None]) -> None:
    """Carry a plan of `plan_evolution` out, and look again where another changed the columns first."""
    left = plan()
    for _ in range(_TRIES):
        try:
            for step in left:
                _apply_one(step, apply)
        except InvalidChange:
            if (now := plan()) == left:
                raise
            left = now
        else:
            return


def _apply_one(step: Step, apply: Callable[[Step], None]) -> None:
    try:
        apply(step)
    except InvalidChange:
        # The type stays, and each value is judged by itself.
        if not (isinstance(step, WidenColumn) and step.by_value):
            raise
