"""The arguments of a scan of any kind of table: a condition on rows, and the columns to return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidFilter, InvalidOption
from gapless.files.read.row_filter import EVERYTHING, RowFilter
from gapless.predicate.predicate import Predicate, columns_of
from gapless.predicate.prune_files import expression_columns
from gapless.predicate.range import check_columns
from gapless.predicate.where import parse_where


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A parsed `where`: a predicate, or a pyarrow expression."""

    schema: pa.Schema
    """The logical columns."""
    predicate: Predicate = EVERYTHING
    """True where there is none, or it is an expression."""
    expression: pc.Expression | None = None
    columns: tuple[str, ...] = ()
    """The top-level columns that it may read, in the order of `schema`."""

    @property
    def filter(self) -> RowFilter:
        """The filter of files, row groups and rows."""
        named = () if self.expression is None else self.columns
        return RowFilter(schema=self.schema, predicate=self.predicate, expression=self.expression, columns=named)


def parse_condition(where: str | pc.Expression | None, schema: pa.Schema) -> Condition:
    """A `where` over the logical columns of `schema`: SQL text or a pyarrow expression; raises InvalidFilter, UnknownColumn, InvalidTime."""
    if where is None:
        return Condition(schema=schema)
    if isinstance(where, pc.Expression):
        return Condition(schema=schema, expression=where, columns=expression_columns(where, schema))
    if not isinstance(where, str):
        raise InvalidFilter(
            f"where={where!r} is neither SQL text nor a pyarrow expression",
            fix="Pass a text such as \"price > 10\", or pyarrow.compute.field('price') > 10",
            where=str(where),
        )
    predicate = _parsed(where, schema)
    named = columns_of(predicate)
    return Condition(schema=schema, predicate=predicate, columns=tuple(name for name in schema.names if name in named))


@lru_cache(256)
def _parsed(where: str, schema: pa.Schema) -> Predicate:
    """To read a text takes longer than to plan with it."""
    return parse_where(where, schema)


def parse_columns(columns: Sequence[str] | None, schema: pa.Schema) -> tuple[str, ...]:
    """The columns to give back, in order; raises UnknownColumn, InvalidOption."""
    if columns is None:
        return tuple(schema.names)
    names = tuple(columns)
    if isinstance(columns, str) or len(set(names)) < len(names):
        raise InvalidOption(
            f"columns={columns!r} is no list of different names",
            fix="Name each column once, in a list",
            option="columns",
            value=columns,
        )
    check_columns(names, schema)
    return names
