"""A table of PostgreSQL as the sink of a pipeline: rows and the number of their batch are one transaction, so that each comes once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import (
    AccessDenied,
    DataError,
    DuplicateKey,
    InvalidOption,
    NotSupported,
    NullKey,
    SchemaMismatch,
    StoreUnavailable,
)
from gapless.pipelines.sinks.postgres_types import postgres_type, rows_of

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.sql import Composable
    from pyspark.sql import DataFrame

BATCHES = "gapless_batches"
"""The table beside, of the newest batch of each sink."""
_URL = re.compile(r"^(?:jdbc:)?(?:postgresql|postgres)(?:\+psycopg)?://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of a batch."""

    rows: int
    already_applied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSink:
    """Writes batches into a table, which is made of the first one's columns where it is missing."""

    url: str = field(repr=False)
    """As libpq takes it, with the user and the password."""
    table: tuple[str, ...]
    """Its name, a schema before it or none."""
    mode: str
    """"append", "upsert" or "complete"."""
    key: tuple[str, ...]
    app_id: str
    """What the sink's batches are known by."""

    @classmethod
    def of(cls, options: Mapping[str, Any], mode: str, app_id: str) -> PostgresSink:
        """As options of a sink say. Raises InvalidOption for a URL or a name that is none, NotSupported for another database, or without
        psycopg.
        """
        _check_driver()
        table = tuple(options["table"].split("."))
        if len(table) > 2 or not all(table):
            raise InvalidOption(
                f"table={options['table']!r} names no table",
                why="It has a name, and a schema before it or none",
                fix="Write table='trips' or table='public.trips'",
                option="table",
                value=options["table"],
            )
        url = _libpq_url(options["url"], options["user"], options["password"])
        return cls(url=url, table=table, mode=mode, key=tuple(options["key"] or ()), app_id=app_id)

    def check(self) -> None:
        """Raise before the first row: StoreUnavailable where the database cannot be reached, InvalidOption where a table that is there cannot
        be upserted by the key.
        """
        with self._transaction() as cursor:
            self._make_batches(cursor)
            if self._columns(cursor):
                self._check_unique(cursor)

    def __call__(self, frame: DataFrame, batch: int) -> Written:
        """Write a batch; whether the table had it already. Raises SchemaMismatch for columns that it lacks, UnsupportedType; NullKey and
        DuplicateKey with a key; StoreUnavailable.
        """
        from psycopg import sql

        with self._transaction() as cursor:
            self._make_batches(cursor)
            if not self._begin(cursor, batch):
                return Written(rows=0, already_applied=True)
            rows = frame.toArrow()
            self._fit(cursor, rows.schema)
            if self.mode == "upsert":
                self._upsert(cursor, rows)
            else:
                if self.mode == "complete":
                    # And not TRUNCATE, which those who read at the same time would see at once.
                    cursor.execute(sql.SQL("DELETE FROM {}").format(self._name))
                self._copy(cursor, self._name, rows)
            cursor.execute(
                "UPDATE gapless_batches SET batch = %s, rows = %s, written = now() WHERE app = %s",
                (batch, rows.num_rows, self.app_id),
            )
        return Written(rows=rows.num_rows)

    # -- which batches it has ----------------------------------------------------------------------------------------------

    def _make_batches(self, cursor: Cursor[Any]) -> None:
        cursor.execute("SELECT to_regclass(%s)", (BATCHES,))
        if cursor.fetchone() == (None,):
            # Two runs may make it at the same time, which IF NOT EXISTS alone does not let them.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (BATCHES,))
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS gapless_batches "
                "(app text PRIMARY KEY, batch bigint NOT NULL, rows bigint, written timestamptz)"
            )

    def _begin(self, cursor: Cursor[Any], batch: int) -> bool:
        """Whether a batch is new; whoever else writes the same sink waits until this transaction ends."""
        cursor.execute("INSERT INTO gapless_batches (app, batch) VALUES (%s, -1) ON CONFLICT DO NOTHING", (self.app_id,))
        cursor.execute("SELECT batch FROM gapless_batches WHERE app = %s FOR UPDATE", (self.app_id,))
        found = cursor.fetchone()
        return found is None or found[0] < batch

    # -- columns -----------------------------------------------------------------------------------------------------------

    def _fit(self, cursor: Cursor[Any], schema: pa.Schema) -> None:
        """Make the table where it is missing; raise SchemaMismatch where it lacks columns."""
        from psycopg import sql

        known = self._columns(cursor)
        if not known:
            columns: list[Composable] = [
                sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL(postgres_type(one.type, one.name))) for one in schema
            ]
            if self.key:
                columns.append(sql.SQL("PRIMARY KEY ({})").format(_names(self.key)))
            cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(self._name, sql.SQL(", ").join(columns)))
            return
        if missing := [name for name in schema.names if name not in known]:
            raise SchemaMismatch(
                f"the table {'.'.join(self.table)} has no column {', '.join(map(repr, missing))}",
                why=f"It has {', '.join(known)}",
                fix="Leave it out of the query, name it as the table does, or ALTER the table",
                differences=tuple(f"{name}: is missing" for name in missing),
            )

    def _columns(self, cursor: Cursor[Any]) -> list[str]:
        """The names of its columns; none where there is no table."""
        cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (self._quoted(cursor),),
        )
        return [name for (name,) in cursor.fetchall()]

    def _check_unique(self, cursor: Cursor[Any]) -> None:
        """Raise InvalidOption where nothing says that a key is unique."""
        if not self.key:
            return
        cursor.execute(
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            " WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid",
            (self._quoted(cursor),),
        )
        found = [sorted(names) for (names,) in cursor.fetchall()]
        if sorted(self.key) not in found:
            raise InvalidOption(
                f"the table {'.'.join(self.table)} cannot be upserted by {', '.join(self.key)}",
                why=f"It is unique by {' or by '.join(', '.join(names) for names in found)}"
                if found
                else "No index says what is unique",
                fix=f"CREATE UNIQUE INDEX ON {'.'.join(self.table)} ({', '.join(self.key)}), or name another key",
                option="key",
                value=", ".join(self.key),
            )

    # -- rows --------------------------------------------------------------------------------------------------------------

    def _upsert(self, cursor: Cursor[Any], rows: pa.Table) -> None:
        from psycopg import sql

        for name in self.key:
            if rows.column(name).null_count:
                raise NullKey(
                    f"the key {name!r} is null in a row for {'.'.join(self.table)}",
                    why="A row without a key takes the place of none",
                    fix=f"Add WHERE {name} IS NOT NULL to the query",
                    column=name,
                    row=pc.index(pc.is_null(rows.column(name)), pa.scalar(True)).as_py(),
                )
        stage, names = sql.Identifier("gapless_stage"), _names(rows.column_names)
        cursor.execute(
            sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(stage, names, self._name)
        )
        self._copy(cursor, stage, rows)
        self._check_once(cursor, stage)
        others = [name for name in rows.column_names if name not in self.key]
        sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)
        then = sql.SQL("UPDATE SET {}").format(sets) if others else sql.SQL("NOTHING")
        cursor.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}").format(
                self._name, names, names, stage, _names(self.key), then
            )
        )

    def _check_once(self, cursor: Cursor[Any], stage: Composable) -> None:
        from psycopg import sql

        key = _names(self.key)
        cursor.execute(sql.SQL("SELECT {} FROM {} GROUP BY {} HAVING count(*) > 1 LIMIT 1").format(key, stage, key))
        if (found := cursor.fetchone()) is not None:
            raise DuplicateKey(
                f"a batch for {'.'.join(self.table)} has several rows of the key {', '.join(map(str, found))}",
                why="Which of them stays is not said: rows of a batch have no order",
                fix="Have the query give one row of each key, such as by max_by(…) and GROUP BY",
                columns=self.key,
                keys=(tuple(found),),
            )

    def _copy(self, cursor: Cursor[Any], into: Composable, rows: pa.Table) -> None:
        from psycopg import sql

        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(into, _names(rows.column_names))) as copy:
            for row in rows_of(rows):
                copy.write_row(row)

    # -- the way to it -----------------------------------------------------------------------------------------------------

    @property
    def _name(self) -> Composable:
        from psycopg import sql

        return sql.Identifier(*self.table)

    def _quoted(self, cursor: Cursor[Any]) -> str:
        return self._name.as_string(cursor)

    @contextmanager
    def _transaction(self) -> Iterator[Cursor[Any]]:
        import psycopg

        try:
            connection: Connection[Any] = psycopg.connect(self.url)
            with connection, connection.cursor() as cursor:
                yield cursor
        except psycopg.OperationalError as error:
            place = urlsplit(self.url)
            raise StoreUnavailable(
                f"the database at {place.hostname}{place.path} does not answer",
                why=_line(error),
                fix="Check that it runs, and user and password; then run the pipeline again: it goes on with that batch",
                path=".".join(self.table),
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise AccessDenied(
                f"the user of the sink may not write into {'.'.join(self.table)}",
                why=_line(error),
                fix=f"GRANT it that, and the right to make the table {BATCHES} beside",
                path=".".join(self.table),
            ) from error
        except psycopg.Error as error:
            raise DataError(
                f"PostgreSQL refuses rows for {'.'.join(self.table)}",
                why=_line(error),
                fix="CAST or filter them in the query, or ALTER the table",
            ) from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _names(names: Sequence[str]) -> Composable:
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, names))


def _check_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise NotSupported(
            "a sink into PostgreSQL needs psycopg",
            why="It is not installed",
            fix="pip install 'psycopg[binary]'",
            feature="jdbc",
        ) from error


def _libpq_url(url: str, user: str | None, password: str | None) -> str:
    """The URL as libpq takes it. Raises NotSupported for another database's, InvalidOption for one that is none, or has a user twice."""
    if (match := _URL.match(url)) is None:
        kind = re.match(r"^(?:jdbc:)?([\w+]+):", url)
        raise NotSupported(
            f"a sink of type 'jdbc' does not write into {kind[1] if kind else 'this'}",
            why="Rows and the number of their batch are one transaction, which is built for PostgreSQL alone",
            fix="Give a URL such as jdbc:postgresql://host:5432/database",
            feature="jdbc",
        )
    rest = url[match.end() :]
    has_user = "@" in rest.partition("/")[0]
    if (user or password) and has_user:
        raise InvalidOption(
            "the URL of the database names a user, and so do user= or password=",
            why="Which of them is meant is not clear",
            fix="Leave the user out of the URL",
            option="url",
            value=None,
        )
    asks = f"{quote(user or '', safe='')}{':' + quote(password, safe='') if password else ''}@" if user or password else ""
    return f"postgresql://{asks}{rest}"
