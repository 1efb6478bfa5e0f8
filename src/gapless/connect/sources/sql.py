"""A source of the rows of a SQL table or query, by a column whose values only grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from gapless.connect.sources.piecewise import Piece
from gapless.connect.sources.positioned import Position, PositionedSource
from gapless.connect.sources.sql_rows import Keys, SqlRows, open_engine, open_rows
from gapless.connect.sources.sql_types import to_arrow
from gapless.errors import DuplicateKey, InvalidOption, InvalidValue, NullKey, UnsupportedType
from gapless.files.ingest.batches import Batches
from gapless.model.instant import datetime_from_ns
from gapless.model.protocols import Clock
from gapless.model.time.duration import parse_duration
from gapless.runtime.environment import SystemClock
from gapless.tables.shared.inputs.rows import as_batches

if TYPE_CHECKING:
    from sqlalchemy import Engine

_PAGE_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions:
    """What is read, and in which order."""

    table: str | None
    query: str | None
    order: tuple[str, ...]
    """The cursor column, and the key's where one was given."""
    start: object
    lag: timedelta | int | None
    schema: pa.Schema | None


class SqlSource(PositionedSource):
    """Rows in the order of a column and of a key, which together are unique. Made by `gl.connect.source`.

    The cursor holds their values of the last row. Each page is a short query of its own, which begins at that row again: one that shares
    its values shows that they are not unique.
    """

    kind = "sql"

    def __init__(self, engine: Engine, options: SqlOptions, clock: Clock) -> None:
        """Asks the database which columns there are."""
        self._rows: SqlRows = open_rows(
            engine, table=options.table, query=options.query, order=options.order, declared=options.schema
        )
        super().__init__(self._rows.place, self._rows.schema)
        self._options, self._clock = options, clock
        self._check_lag()
        self._start = self._begin()

    def close(self) -> None:
        """Leave the database."""
        self._rows.engine.dispose()

    def _first(self) -> Position:
        last = self._rows.last(self._bound()) if self._options.start == "latest" else None
        return Position(state={"after": None if last is None else self._encoded(last)})

    def _resumed(self, state: Mapping[str, Any]) -> Position:
        after = state["after"]
        if after is not None and len(_decoded(after)) != len(self._rows.order):
            raise ValueError(f"{len(after)} values of {', '.join(self._rows.order)}")
        return Position(state={"after": after})

    def _read(self, position: Position) -> Iterator[Piece[Position]]:
        if self._rows.checks_nulls and self._rows.has_null():
            raise self._null()
        after = None if position.state["after"] is None else _decoded(position.state["after"])
        bound = self._bound()
        while not (bound is None and self._options.lag is not None):
            # One more than a page: the row that is known already.
            found, keys = self._rows.page(after=after, start=self._start, bound=bound, rows=_PAGE_ROWS + 1)
            known = 1 if keys and keys[0] == after else 0
            self._check_keys(keys)
            rows, keys = found[known:], keys[known:]
            if not rows:
                return
            part = self._part(self._rows.names, rows, after)
            batch = pa.Table.from_batches(self._fitted(part), self._schema).combine_chunks().to_batches()[0]
            yield Piece(rows=batch, after=partial(self._after, position, keys))
            if len(found) <= _PAGE_ROWS:
                return
            after, position = keys[-1], self._after(position, keys, len(keys))

    def _after(self, before: Position, keys: Sequence[Keys], rows: int) -> Position:
        if not rows:
            return before
        value = keys[rows - 1][0]
        time = value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else None
        return Position(state={"after": self._encoded(keys[rows - 1])}, timestamp=time)

    def _part(self, names: Sequence[str], rows: Sequence[Any], after: Keys | None) -> Batches:
        """Rows of a page as this source's columns, where these are known, else as their values show."""
        schema = self._rows.schema or self._schema
        source = self.place if after is None else f"{self.place}, behind {after}"
        columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
        if schema is None:
            return as_batches([{name: row[place] for place, name in enumerate(names)} for row in rows])
        wanted = [field for field in schema if field.name in columns]
        batch = pa.RecordBatch.from_arrays(
            [to_arrow(columns[field.name], field, source) for field in wanted], schema=pa.schema(wanted)
        )
        return Batches(source=source, schema=batch.schema, read=lambda: iter([batch]), rows_hint=batch.num_rows)

    # -- checks ----------------------------------------------------------------------------------------------------------

    def _check_keys(self, keys: Sequence[Keys]) -> None:
        for one, other in pairwise(keys):
            if one == other:
                raise DuplicateKey(
                    f"several rows of {self.place} have {dict(zip(self._rows.order, one, strict=True))}",
                    why="The cursor says which rows were read by these columns, and could not tell them apart",
                    fix="Pass key= with columns that, together with the cursor column, are unique",
                    columns=self._rows.order,
                    keys=(one,),
                )
        if any(value is None for one in keys for value in one):
            raise self._null()

    def _null(self) -> NullKey:
        return NullKey(
            f"a row of {self.place} has no value in {' or '.join(map(repr, self._rows.order))}",
            why="It has no place in the order of rows, and would never be read",
            fix='Fill the value, or leave such rows out: query="SELECT … WHERE … IS NOT NULL"',
            column=self._rows.order[0],
            row=0,
        )

    def _begin(self) -> object:
        """The first value of the cursor column, as a value of its type where that is known; None for all. Raises InvalidOption."""
        start, column = self._options.start, self._rows.order[0]
        schema = self._rows.schema
        if start in (None, "earliest", "latest"):
            return None
        if schema is None or column not in schema.names:
            return start
        field = schema.field(column)
        try:
            if isinstance(start, str) and pa.types.is_timestamp(field.type):
                start = datetime.fromisoformat(start)
            if isinstance(start, str) and pa.types.is_date(field.type):
                start = date.fromisoformat(start)
            to_arrow([start], field, self.place)
        except (ValueError, InvalidValue) as error:
            raise InvalidOption(
                f"start={start!r} is no value of column {column!r}, of {field.type}",
                why=error.why if isinstance(error, InvalidValue) else str(error),
                fix='Pass "earliest", "latest", or the first value of the column; a time with a zone only where the column has one',
                option="start",
                value=start,
            ) from error
        return start

    # -- how far ---------------------------------------------------------------------------------------------------------

    def _check_lag(self) -> None:
        lag, schema = self._options.lag, self._rows.schema
        if lag is None:
            return
        at = -1 if schema is None else schema.get_field_index(self._rows.order[0])
        type_ = None if schema is None or at < 0 else schema.field(at).type
        fits = type_ is not None and (
            (isinstance(lag, timedelta) and lag >= timedelta(0) and pa.types.is_timestamp(type_))
            or (type(lag) is int and lag >= 0 and pa.types.is_integer(type_))
        )
        if not fits:
            known = "whose type is not declared" if type_ is None else f"of {type_}"
            raise InvalidOption(
                f"lag={lag!r} is none for a cursor column {known}",
                why="Rows that are younger wait: by the clock in a column of timestamps, by number in one of integers",
                fix="Pass a length of time or a whole number, as the column has it; declare a query's columns with schema=",
                option="lag",
                value=lag,
            )

    def _bound(self) -> object:
        """The largest value of the cursor column that is read now; None where there is no bound, or no row."""
        lag = self._options.lag
        if isinstance(lag, timedelta):
            assert self._rows.schema is not None
            now = datetime_from_ns(self._clock.now_ns()) - lag
            return now if self._rows.schema.field(self._rows.order[0]).type.tz else now.replace(tzinfo=None)
        if lag is None:
            return None
        last: Any = self._rows.last(None)
        return None if last is None else last[0] - lag

    def _encoded(self, keys: Keys) -> list[list[object]]:
        return [_encode(value, column) for value, column in zip(keys, self._rows.order, strict=True)]


def _encode(value: object, column: str) -> list[object]:
    match value:
        case bool():
            pass
        case int() | str():
            return [type(value).__name__, value]
        case datetime():
            return ["datetime", value.isoformat()]
        case date():
            return ["date", value.isoformat()]
        case Decimal() | UUID():
            return [type(value).__name__, str(value)]
    raise UnsupportedType(
        f"column {column!r} holds {value!r}, a {type(value).__name__}",
        why="A cursor holds whole numbers, texts, times, dates, decimals and UUIDs",
        fix="Go by another column, or cast it in query=",
        column=column,
        type=type(value).__name__,
    )


def _decoded(keys: Sequence[Sequence[Any]]) -> Keys:
    """Raises KeyError, TypeError or ValueError for what `_encode` did not make."""
    read: dict[str, Callable[[Any], object]] = {
        "int": int,
        "str": str,
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
        "Decimal": Decimal,
        "UUID": UUID,
    }
    return tuple(read[kind](value) for kind, value in keys)


def open_sql_source(
    url: str,
    *,
    cursor_column: str,
    table: str | None = None,
    query: str | None = None,
    key: str | Sequence[str] = (),
    start: object = None,
    lag: timedelta | str | int | None = None,
    schema: pa.Schema | None = None,
) -> SqlSource:
    """A source of the rows of a table or query, through SQLAlchemy.

    Args:
        url: SQLAlchemy's URL of the database, with its driver.
        cursor_column: Rows are read in its order, and those that come later have larger values.
        table: Name of a table, as `schema.table` where it is not in the default schema; or
        query: a SELECT.
        key: Columns that tell rows with one value of the cursor column apart; without it the table's primary key.
        start: None or "earliest" for all rows, "latest" for those behind the last, or the first value of the cursor column.
        lag: Rows wait until they are so old, by this machine's clock ("5 minutes", or a timedelta: a column of timestamps; one without a zone
            is taken for UTC), or until the largest value is so far away (integers): those that are committed later with a smaller value are
            not missed so.
        schema: The columns that are read, and their types; without it those of the table, or what the values of the query show.

    Raises InvalidOption, NotSupported, ObjectNotFound, UnknownColumn, UnsupportedType, StoreUnavailable, AccessDenied.
    """
    if (table is None) == (query is None):
        raise InvalidOption(
            "a source of a SQL database reads a table or a query",
            why="Both were given" if table is not None else "Neither was given",
            fix="Pass table= or query=",
            option="table",
            value=table,
        )
    order = (cursor_column, *((key,) if isinstance(key, str) else key))
    if not all(type(one) is str for one in order) or len(set(order)) < len(order):
        raise InvalidOption(
            f"cursor_column={cursor_column!r} and key={key!r} are no columns to order rows by",
            why="They are names, each once",
            fix='Pass such as cursor_column="updated_at", key=["id"]',
            option="key",
            value=key,
        )
    wait = parse_duration(lag, "lag") if isinstance(lag, str) else lag
    options = SqlOptions(table=table, query=query, order=order, start=start, lag=wait, schema=schema)
    return SqlSource(open_engine(url), options, SystemClock())
