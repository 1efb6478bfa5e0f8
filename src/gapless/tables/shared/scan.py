"""Scans of every kind of table: the condition and columns they take, and the lazy rows that scans, SQL and change feeds return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidFilter, InvalidOption, NotSupported
from gapless.files.read.row_filter import EVERYTHING, RowFilter
from gapless.model.valid_values import forbidden_values
from gapless.predicate.plan import expression_columns
from gapless.predicate.predicate import Predicate, columns_of
from gapless.predicate.range import check_columns
from gapless.predicate.where import parse_where
from gapless.tables.shared.duckdb_session import duck_schema, holds_type, unsupported_columns
from gapless.tables.shared.library_errors import is_library_error, said

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


_SHOWN = 80
"""Characters of an argument in a message."""


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


def given_names(option: str, given: object) -> tuple[str, ...] | None:
    """The column names that a caller gave as the argument `option`; None where none were.

    A list, a tuple, or anything else that gives different texts one by one; of `exclude` a set too, since their order says nothing.
    Raises InvalidOption.
    """
    if given is None:
        return None
    unordered = isinstance(given, AbstractSet) and not isinstance(given, KeysView) and option == "columns"
    if isinstance(given, str | bytes | Mapping) or unordered or not isinstance(given, Iterable):
        why, fix = _not_names(option, given)
        raise _refuse_names(option, given, why, fix)
    names = tuple(given)
    for name in names:
        if not isinstance(name, str):
            why = f"{name!r} in it is of type {type(name).__name__}, and a column's name is a text"
            raise _refuse_names(option, given, why, f"Pass {option}=[…] with the names, as `table.schema.names` has them")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise _refuse_names(option, given, f"It has {twice!r} more than once", "Name each column once")
    return names


def _not_names(option: str, given: object) -> tuple[str, str]:
    if isinstance(given, Mapping):
        kept, dropped = [key for key, value in given.items() if value], [key for key, value in given.items() if not value]
        meant = f"exclude={dropped!r}" if dropped and not kept else f"columns={kept or list(given)!r}"
        return "It is a mapping, of which nothing but the keys would be read", f"Pass a list of names, such as {meant}"
    if isinstance(given, str | bytes):
        return "It is one text, not a list", f"Pass {option}=[{given!r}]"
    if isinstance(given, AbstractSet):
        return "It is a set, and columns come back in the order in which they are named", "Pass a list"
    return f"It is of type {type(given).__name__}", f'Pass a list of names, such as {option}=["a", "b"]'


def _refuse_names(option: str, given: object, why: str, fix: str) -> InvalidOption:
    shown = repr(given)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return InvalidOption(f"{option}={shown} is no list of different names", why=why, fix=fix, option=option, value=given)


def parse_columns(columns: object, schema: pa.Schema, exclude: object = None) -> tuple[str, ...]:
    """The columns to give back, in order: those that are named, or all but those in `exclude`. Raises UnknownColumn, InvalidOption."""
    names, left_out = given_names("columns", columns), given_names("exclude", exclude)
    if names is not None and left_out is not None:
        raise InvalidOption(
            "columns= and exclude= were both given",
            why="One names the columns that come back, the other those that do not",
            fix="Pass one of them",
            option="exclude",
            value=exclude,
        )
    check_columns(names or left_out or (), schema)
    gone = frozenset(left_out or ())
    return tuple(name for name in schema.names if name not in gone) if names is None else names


@dataclass(frozen=True, slots=True)
class Rows:
    """A lazy result over one pinned version of the table; each call reads anew.

    Anything that takes an Arrow stream takes it as it is: `polars.DataFrame(rows)`, `pyarrow.table(rows)`.
    """

    schema: pa.Schema
    """Column names and types of the rows."""
    read: Callable[[], Iterator[pa.RecordBatch]]
    """Starts a read."""
    tally: Callable[[], int] | None = None
    """Counts the rows without reading all of them, where there is a way."""

    def __reduce__(self) -> tuple[object, ...]:
        """Raise NotSupported: rows that are not read yet are bound to this process."""
        raise NotSupported(
            "rows that are not read yet cannot be pickled",
            why="They are a way of reading in this process: files it has looked at, connections of its own",
            fix="Send the table, or table.at(version), which are pickled as place and version, and scan there; or send to_arrow()",
            feature="pickling of rows that are not read yet",
        )

    def __copy__(self) -> Self:
        """The same: each call reads anew."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """The same: each call reads anew."""
        return self

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as `pyarrow.RecordBatch`es, in bounded memory: for a scan about one row group (64 MiB of Arrow data); where
        segments overlap, or rows are asked for in index order, a sort of about 128 MiB, which takes up to four times as much.
        """
        return (batch for batch in self.read() if batch.num_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a `pyarrow.RecordBatchReader`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self, *, dictionary: Sequence[str] = ()) -> pa.Table:
        """All rows as a `pyarrow.Table`; the columns named in `dictionary` come dictionary-encoded. Raises UnknownColumn."""
        table = pa.Table.from_batches(list(self.to_batches()), schema=self.schema)
        check_columns(dictionary, self.schema)
        for name in dictionary:
            table = table.set_column(table.schema.get_field_index(name), name, table.column(name).dictionary_encode())
        return table

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame with a RangeIndex; needs pandas.

        Where integers hold nulls they come in pandas' nullable types (Int64 and the like), since floats would round them.
        Raises NotSupported for what pandas has no type for, such as a time of day with nanoseconds.
        """
        table = self.to_arrow()
        integers = _nullable_integers(table)
        try:
            return table.to_pandas(types_mapper=integers.get)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise _not_held("pandas", _forbidden(table) or said(error)) from error

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame; needs polars. Raises NotSupported for what Polars has no type for, naming it."""
        import polars as pl

        wide = next((field for field in self.schema if holds_type(field.type, pa.types.is_decimal256)), None)
        if wide is not None:
            raise _not_held("Polars", f"Column {wide.name!r} is {wide.type}, and Polars has decimals of 128 bits")
        table = self.to_arrow()
        # Polars takes what it is given for valid, and panics at a later look.
        if forbidden := _forbidden(table):
            raise _not_held("Polars", forbidden)
        try:
            frame = pl.from_arrow(table)
        except BaseException as error:
            if not is_library_error(error):
                raise
            raise _not_held("Polars", said(error)) from error
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation in a connection of its own, whose time zone is UTC.

        Types are those of `TimeSeriesTable.sql`; raises NotSupported for a column that DuckDB cannot hold exactly.
        """
        import duckdb

        if not self.schema.names:
            raise NotSupported(
                "DuckDB cannot hold rows without columns",
                why="A relation of DuckDB has one column at least",
                fix="Name a column (columns=); count() says how many rows there are",
                feature="rows in DuckDB",
            )
        for why in unsupported_columns(self.schema).values():
            raise _not_held("DuckDB", why)
        try:
            table = self.to_arrow().cast(duck_schema(self.schema))
        except pa.ArrowException as error:
            raise _not_held("DuckDB", said(error)) from error
        if forbidden := _forbidden(table):
            raise _not_held("DuckDB", forbidden)
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        return connection.from_arrow(table)

    def count(self) -> int:
        """How many rows there are.

        Of a scan the log alone answers where the filters keep all rows of a segment or none, as ranges do but at their ends; of other segments
        only columns that the filters name are read. Of SQL and changes all rows are read.
        """
        if self.tally is not None:
            return self.tally()
        return sum(batch.num_rows for batch in self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The Arrow PyCapsule stream of the rows."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """The columns; nothing is read."""
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"Rows({columns})"


def _nullable_integers(table: pa.Table) -> dict[pa.DataType, Any]:
    """Pandas' nullable type for each integer type of which a column holds nulls."""
    types = {column.type for column in table.columns if pa.types.is_integer(column.type) and column.null_count}
    if not types:
        return {}
    import pandas as pd

    return {type_: getattr(pd, f"{'U' * pa.types.is_unsigned_integer(type_)}Int{type_.bit_width}Dtype")() for type_ in types}


def _forbidden(table: pa.Table) -> str:
    """The first value of a table, of another writer, that its column's type forbids, for a message; empty where there is none."""
    found = next(forbidden_values(table), None)
    if found is None:
        return ""
    name, value = found
    return f"Column {name!r} holds {value.value!r} in row {value.row} (from 0): {value.why}"


def _not_held(library: str, why: str) -> NotSupported:
    return NotSupported(
        f"{library} cannot hold these rows",
        why=why,
        fix="Leave the column out (columns=), or take to_arrow(), which holds all, and cast it",
        feature=f"rows in {library}",
    )
