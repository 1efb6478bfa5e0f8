"""Rows of a Delta table that match a filter of MongoDB's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.documents.collections.change import wanted_rows
from gapless.documents.filters.match import holds
from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.tree import Condition
from gapless.documents.rows.paths import check_paths, columns_named
from gapless.documents.rows.predicate import row_predicate
from gapless.documents.rows.values import documents_of
from gapless.documents.rows.variants import VariantFilter
from gapless.errors import InvalidOption
from gapless.tables.delta.read.scan import RowCondition
from gapless.tables.delta.read.view import DeltaView, scan_condition
from gapless.tables.shared.scan import Rows, parse_columns

_RECHECKED_ROWS = 10_000
"""Rows that are made documents at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """A filter over one version's rows."""

    condition: Condition
    columns: tuple[str, ...]
    """Those that are given."""
    pushed: RowCondition
    """What leaves out files, row groups and rows."""
    again: tuple[str, ...] | None
    """The columns by which the rows are looked at again that are left; None where what is pushed is all of the filter."""

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(dict.fromkeys([*self.columns, *(self.again or ())]))

    @classmethod
    def parse(cls, filter: Mapping[str, Any], schema: pa.Schema, columns: Sequence[str] | None) -> RowQuery:  # noqa: A002
        """Read a filter over these columns. Raises InvalidFilter, NotSupported, UnknownColumn, UnsupportedType, InvalidOption, InvalidValue."""
        condition = parse_filter(filter)
        check_paths(condition, schema)
        told, names = row_predicate(condition, schema), parse_columns(columns, schema)
        again = None if told.exact else columns_named(condition, schema)
        groups = VariantFilter.of(condition, schema)
        pushed = RowCondition(pushed=wanted_rows(told.predicate, schema), groups=groups)
        return cls(condition=condition, columns=names, again=again, pushed=pushed)

    def tables(self, rows: Rows) -> Iterator[pa.Table]:
        """Those of the rows that match. Raises as `Rows.to_batches`, InvalidFilter, InvalidValue."""
        for batch in rows.to_batches():
            table = pa.Table.from_batches([batch])
            if self.again is None:
                yield table
                continue
            for start in range(0, table.num_rows, _RECHECKED_ROWS):
                some = table.slice(start, _RECHECKED_ROWS)
                kept = np.fromiter(
                    (holds(self.condition, one) for one in documents_of(some, self.again)), dtype=bool, count=some.num_rows
                )
                yield some.filter(pa.array(kept)).select(list(self.columns))


def query(
    table: DeltaView,
    filter: Mapping[str, Any],  # noqa: A002  # as pymongo calls it
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> pa.Table:
    """The rows of a Delta table that match a filter, as `gl.documents.matches` has it of each row as a document.

    Args:
        table: A Delta table, or a version of it (`table.at(…)`).
        filter: Fields and what is asked of them: `{"age": {"$gte": 30}, "address.city": "Oslo", "tags": "new"}`. Columns are called by
            their names exactly, fields of structs and maps by dotted paths; lists are arrays. A null is null, in no column missing.
        columns: Columns to give back, in this order; all where not given.
        limit: How many rows to give at most, the first in the files' order; all where not given.

    As BSON has them, times are compared by whole milliseconds, a date is its midnight in UTC, text is never equal to a number. Longs and
    decimals are compared exactly. Files and row groups are left out by statistics, as far as columns outside of lists, maps and variants tell.

    Raises InvalidFilter for an operator that is not known, UnknownColumn for a path that no row has, NotSupported, UnsupportedType, InvalidOption,
    InvalidValue before anything is read; then what a scan raises.
    """
    if not isinstance(table, DeltaView):
        raise InvalidOption(
            f"a {type(table).__name__} is not queried by such filters",
            why="Delta tables are, and collections by find",
            fix="Pass what gl.delta.open gives",
            option="table",
            value=table,
        )
    _check_limit(limit)
    wanted = RowQuery.parse(filter, table.schema, columns)
    rows = scan_condition(table, wanted.pushed, wanted.read).rows()
    found, left = list[pa.Table](), limit
    for one in wanted.tables(rows):
        found.append(one if left is None else one.slice(0, left))
        if left is not None and (left := left - found[-1].num_rows) <= 0:
            break
    shape = pa.schema([rows.schema.field(name) for name in wanted.columns])
    return pa.concat_tables([shape.empty_table(), *found])


def _check_limit(limit: object) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidOption(
            f"limit={limit!r} is no number of rows", fix="Pass 1 or more, or None for all", option="limit", value=limit
        )
