"""Rows of a SQL table or query in the order of an increasing column, page by page, through SQLAlchemy."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.connect.sources.sql_types import arrow_type, sql_type
from gapless.errors import (
    AccessDenied,
    InvalidOption,
    NotSupported,
    ObjectNotFound,
    StoreUnavailable,
    UnknownColumn,
    UnreadableInput,
    nearest,
)
from gapless.tables.shared.library_errors import missing_library

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Engine, FromClause

Keys = tuple[object, ...]
"""Of one row the values of the cursor column and of the key, which together are unique."""
_PACKAGES = {"MySQLdb": "mysqlclient", "cx_Oracle": "cx-Oracle"}
"""Of drivers whose package has another name."""
_WRONG = ("syntax error", "no such")
"""What SQLite says of a query, which is not told from a failure by the kind of its error."""
_NO_DATABASE = ("does not exist", "unknown database")
_DENIED = ("authentication", "permission denied", "access denied", "not authorized", "login failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRows:
    """What is read."""

    engine: Engine
    place: str
    rows: FromClause
    """The table, or the query."""
    schema: pa.Schema | None
    """Its columns that are read; None for a query whose values show them."""
    order: tuple[str, ...]
    """The cursor column, and those of the key."""
    checks_nulls: bool
    """Whether the cursor column might be null, as far as the database says."""

    @property
    def names(self) -> list[str]:
        """The names of the columns that a page's rows begin with."""
        return list(self.rows.c.keys())

    def page(self, *, after: Keys | None, start: object, bound: object, rows: int) -> tuple[list[Any], list[Keys]]:
        """At most so many rows, and the keys of each: from those with these keys on, and where there are none, from a value on; up to a
        value. Raises InvalidOption, StoreUnavailable, AccessDenied, UnreadableInput.
        """
        import sqlalchemy as sa

        keys = self._keys()
        wanted = sa.select(*self.rows.c, *(key.label(f"gapless_key_{place}") for place, key in enumerate(keys)))
        wanted = wanted.order_by(*keys).limit(rows)
        if after is not None:
            wanted = wanted.where(_from_on(keys, after))
        elif start is not None:
            wanted = wanted.where(keys[0] >= self._told(start))
        if bound is not None:
            wanted = wanted.where(keys[0] <= self._told(bound))
        found = self._fetch(wanted)
        return found, [tuple(row[-len(keys) :]) for row in found]

    def _keys(self) -> list[ColumnElement[Any]]:
        """The columns that rows are ordered by, as the driver has them: what it gave is what it is asked for again."""
        import sqlalchemy as sa

        return [sa.type_coerce(self.rows.c[name], sa.types.NullType()) for name in self.order]

    def _told(self, value: object) -> object:
        """A value as the driver has it. SQLite has texts for times, of which the shortest one is the first."""
        if self.engine.dialect.name != "sqlite" or not isinstance(value, date):
            return value
        return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()

    def has_null(self) -> bool:
        """Whether the cursor column is null in some row."""
        import sqlalchemy as sa

        column = self.rows.c[self.order[0]]
        return bool(self._fetch(sa.select(sa.literal(1)).select_from(self.rows).where(column.is_(None)).limit(1)))

    def last(self, bound: object) -> Keys | None:
        """The keys of the last row; None where there is none."""
        import sqlalchemy as sa

        keys = self._keys()
        wanted = sa.select(*keys).where(keys[0].is_not(None)).order_by(*(one.desc() for one in keys)).limit(1)
        found = self._fetch(wanted if bound is None else wanted.where(keys[0] <= self._told(bound)))
        return tuple(found[0]) if found else None

    def _fetch(self, wanted: Any) -> list[Any]:
        with typed(self.place), self.engine.connect() as connection:
            return list(connection.execute(wanted).fetchall())


def _from_on(columns: Sequence[ColumnElement[Any]], keys: Keys) -> ColumnElement[bool]:
    """Whether a row comes with these keys, or after, by all columns one after the other."""
    import sqlalchemy as sa

    choices = []
    for place, (column, key) in enumerate(zip(columns, keys, strict=True)):
        same = [one == value for one, value in zip(columns[:place], keys[:place], strict=True)]
        choices.append(sa.and_(*same, column >= key if place == len(columns) - 1 else column > key))
    return sa.or_(*choices)


@contextmanager
def typed(place: str) -> Iterator[None]:
    """What SQLAlchemy and its drivers raise, as errors of gapless that show neither parameters nor passwords."""
    from sqlalchemy import exc

    try:
        yield
    except exc.DBAPIError as error:
        said = " ".join(str(error.orig).split())[:500]
        if any(one in said.lower() for one in _DENIED):
            raise AccessDenied(
                f"{place} may not be read: {said}",
                why="The database refuses it",
                fix="Check user, password and grants",
                path=place,
            ) from None
        if isinstance(error, exc.DataError):
            raise UnreadableInput(
                f"{place} cannot be read: {said}",
                why="A row has a value that the driver, or the query, does not take",
                fix="Mend the value, or cast the column in query=",
                source=place,
            ) from None
        if isinstance(error, exc.OperationalError) and any(one in said.lower() for one in _NO_DATABASE):
            raise ObjectNotFound(
                f"{place} cannot be read: {said}", why="The server does not know it", fix="Check the URL's database", path=place
            ) from None
        if isinstance(error, exc.ProgrammingError) or any(one in said for one in _WRONG):
            raise InvalidOption(
                f"{place} cannot be asked so: {said}",
                why="The database refuses the query",
                fix="Mend it",
                option="query",
                value=place,
            ) from None
        raise StoreUnavailable(
            f"{place} cannot be read: {said}", why="The database gave no usable answer", fix="Try again", path=place
        ) from None
    except (exc.SQLAlchemyError, ValueError, TypeError, InvalidOperation) as error:
        raise UnreadableInput(
            f"{place} cannot be read",
            why=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            fix="Mend the value, or cast the column in query=",
            source=place,
        ) from error


def open_engine(url: str) -> Engine:
    """An engine of a database. Raises NotSupported without SQLAlchemy or the driver, InvalidOption, ObjectNotFound for a file that is not there; none shows the URL."""
    try:
        import sqlalchemy as sa
    except ModuleNotFoundError as error:
        raise missing_library("SQL databases", "SQLAlchemy", "sql") from error
    try:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
    except ModuleNotFoundError as error:
        raise NotSupported(
            f"this database needs the driver {error.name!r}",
            why="It is not installed",
            fix=f"pip install {_PACKAGES.get(error.name or '', error.name)}; or name another driver in the URL, as in postgresql+psycopg://",
            feature="sql",
        ) from None
    except (sa.exc.ArgumentError, ValueError) as error:
        shown = str(error) if isinstance(error, sa.exc.NoSuchModuleError) else "SQLAlchemy cannot read it"
        raise InvalidOption(
            "the URL of the database is none",
            why=shown,
            fix="Pass such as 'sql:postgresql+psycopg://user:password@host/database' or 'sql:sqlite:///trips.db'",
            option="url",
            value=None,
        ) from None
    name = engine.url.database or ":memory:"
    if engine.dialect.name == "sqlite" and not name.startswith((":memory:", "file:")) and not Path(name).exists():
        raise ObjectNotFound(
            f"there is no database {name!r}",
            why="SQLite would make an empty one of that name",
            fix="Check the path: 'sql:sqlite:///beside.db' lies beside, 'sql:sqlite:////var/lib/trips.db' has its whole path",
            path=name,
        )
    return engine


def open_rows(
    engine: Engine, *, table: str | None, query: str | None, order: Sequence[str], declared: pa.Schema | None
) -> SqlRows:
    """A table, or a query. Without a key those of a table's primary key follow the cursor column.

    Raises ObjectNotFound where there is no such table, UnknownColumn, UnsupportedType, InvalidOption for a nullable column to go by.
    """
    return (
        _table_rows(engine, table, order, declared) if table is not None else _query_rows(engine, str(query), order, declared)
    )


def _place(engine: Engine, what: str, column: str) -> str:
    return f"sql:{engine.url.database or ''}#{what} by {column}"


def _table_rows(engine: Engine, name: str, order: Sequence[str], declared: pa.Schema | None) -> SqlRows:
    import sqlalchemy as sa

    place = _place(engine, name, order[0])
    found, primary = _columns_of(engine, name, place)
    keys = tuple(order) if len(order) > 1 else (order[0], *(one for one in primary if one != order[0]))
    wanted = list(found) if declared is None else declared.names
    for one in (*keys, *wanted):
        _check_column(one, list(found), place)
    for one in keys:
        if found[one]["nullable"] and one not in primary:
            raise InvalidOption(
                f"column {one!r} of {name} may be null, and rows are ordered by it",
                why="A row without a value has no place in that order, and would never be read",
                fix="Declare it NOT NULL, or pass query= that leaves such rows out (… IS NOT NULL), and key=",
                option="cursor_column" if one == order[0] else "key",
                value=one,
            )
    dialect = engine.dialect.name
    types = (
        {one: arrow_type(found[one]["type"], one, dialect) for one in wanted}
        if declared is None
        else dict(zip(declared.names, declared.types, strict=True))
    )
    fields = list(declared) if declared is not None else [pa.field(one, types[one]) for one in wanted]
    columns = [sa.column(one, _read_as(found[one]["type"], types.get(one), dialect)) for one in dict.fromkeys((*wanted, *keys))]
    schema, _, table = name.rpartition(".")
    rows = sa.table(table, *columns, schema=schema or None)
    return SqlRows(
        engine=engine,
        place=place,
        rows=rows,
        schema=pa.schema(fields),
        order=keys,
        checks_nulls=bool(found[keys[0]]["nullable"]),
    )


def _columns_of(engine: Engine, name: str, place: str) -> tuple[dict[str, Any], list[str]]:
    """What the database says of a table's columns, by name, and those of its primary key. Raises ObjectNotFound."""
    import sqlalchemy as sa

    schema, _, table = name.rpartition(".")
    tables: list[str] = []
    with typed(place), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", sa.exc.SAWarning
        )  # of types that it does not know, which are refused where they are wanted
        inspector = sa.inspect(engine)
        try:
            found = {one["name"]: one for one in inspector.get_columns(table, schema=schema or None)}
            return found, list(inspector.get_pk_constraint(table, schema=schema or None)["constrained_columns"])
        except sa.exc.NoSuchTableError:
            tables = inspector.get_table_names(schema=schema or None)
    raise ObjectNotFound(
        f"there is no table {name!r} in {engine.url.database!r}",
        why="The database does not know it",
        fix=f"A table of another schema is named schema.table. {nearest(table, tables)}",
        path=name,
    )


def _read_as(type_: Any, wanted: pa.DataType | None, dialect: str) -> Any:
    """The type as which a column is read: its own, but for SQLite's decimals, which SQLAlchemy would round, and JSON, which is its text."""
    import sqlalchemy as sa

    if isinstance(type_, sa.JSON):
        return _json_text()
    raw = isinstance(type_, sa.Numeric) and not isinstance(type_, sa.Float)
    return sql_type(wanted) if raw or (dialect == "sqlite" and isinstance(type_, sa.types.NullType)) else type_


def _json_text() -> Any:
    """JSON as the server writes it: values that a driver reads from it lose digits."""
    import sqlalchemy as sa

    class JsonText(sa.types.UserDefinedType[str]):
        cache_ok = True

        def column_expression(self, colexpr: Any) -> Any:
            return sa.cast(colexpr, sa.Text())

    return JsonText()


def _query_rows(engine: Engine, query: str, order: Sequence[str], declared: pa.Schema | None) -> SqlRows:
    import sqlalchemy as sa

    place = _place(engine, f"query-{hashlib.sha256(query.encode()).hexdigest()[:12]}", order[0])
    # A comment at its end would hide what comes behind it.
    bare = query.strip().rstrip(";").replace(":", "\\:") + "\n"
    with typed(place), engine.connect() as connection:
        whole = sa.text(bare).columns().subquery("gapless_rows")
        names = list(connection.execute(sa.select(sa.text("*")).select_from(whole).where(sa.false())).keys())
    for one in (*order, *(declared.names if declared is not None else ())):
        _check_column(one, names, place)
    types = {} if declared is None else dict(zip(declared.names, declared.types, strict=True))
    kept = names if declared is None else list(dict.fromkeys((*declared.names, *order)))
    columns = [sa.column(one, sql_type(types.get(one))) for one in kept]
    rows = sa.text(bare).columns(*columns).subquery("gapless_rows")
    return SqlRows(engine=engine, place=place, rows=rows, schema=declared, order=tuple(order), checks_nulls=True)


def _check_column(name: str, names: Sequence[str], place: str) -> None:
    if name not in names:
        raise UnknownColumn(
            f"{place} has no column {name!r}",
            why=f"It has {', '.join(names)}",
            fix=nearest(name, names),
            column=name,
            columns=tuple(names),
        )
