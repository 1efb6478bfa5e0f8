"""SQL over one version of a table of any kind, answered by DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.errors import GaplessError, InvalidQuery
from gapless.files.read.scan import Pinned
from gapless.tables.shared import duckdb_session
from gapless.tables.shared.duckdb_session import duck_schema, unsupported_columns
from gapless.tables.shared.scan import Rows

if TYPE_CHECKING:
    import duckdb


BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    """A query over a pinned version."""

    sql: str
    names: tuple[str, ...]
    """What the table is called in the SQL."""
    source: Pinned
    """What DuckDB scans: the columns of `duck_schema(schema)`."""
    schema: pa.Schema
    """The table's declared schema. A query that reads a column which DuckDB cannot hold is refused."""
    parameters: object
    """Values for `?`, `$1` (a list) or `$name` (a mapping)."""

    def rows(self) -> Rows:
        """The answer, planned but not read; raises InvalidQuery where DuckDB cannot plan it."""
        started = [self._start()]
        schema = started[0].schema

        def read() -> Iterator[pa.RecordBatch]:
            reader = started.pop() if started else self._start()
            try:
                yield from reader
            except (OSError, pa.ArrowException) as error:
                raise self._refusal(error) from error

        return Rows(schema, read)

    def _start(self) -> pa.RecordBatchReader:
        import duckdb

        try:
            shared = duckdb_session.SHARED.connection(self.sql)
            if shared is not None:
                try:
                    return self._answer(shared)
                except duckdb.FatalException:
                    duckdb_session.SHARED.give_up()
                except (duckdb.BinderException, duckdb.NotImplementedException):
                    pass  # what the one apart says counts
            return self._answer(duckdb_session.open_duckdb())
        except duckdb.Error as error:
            raise self._refusal(error) from error

    def _answer(self, connection: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
        """The answer of a connection; closes it where there is none."""
        try:
            for name in self.names:
                self._name(connection, name)
            # The reader holds on to the connection, and so to the pinned version.
            answer: Any = connection.sql(self.sql, params=self.parameters)  # None where the text holds no statement
            return pa.table({}).to_reader() if answer is None else answer.to_arrow_reader(BATCH_ROWS)
        except BaseException:
            connection.close()
            raise

    def _name(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        """Make the table known by a name; a column that DuckDB cannot hold raises once a query reads it."""
        if not self.schema.names:
            return  # DuckDB has no such table; a query that asks for it is told so
        unheld = unsupported_columns(self.schema)
        if not unheld:
            connection.register(name, self.source.dataset)
            return
        source, view = quoted(f"source of {name}"), quoted(name)
        connection.register(f"source of {name}", self.source.dataset)
        columns = ", ".join(_selected(one, unheld.get(one)) for one in self.schema.names)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT {columns} FROM {source}")  # noqa: S608  # names are quoted

    def _refusal(self, error: Exception) -> GaplessError:
        if self.source.failures:
            return self.source.failures.pop()
        if not self.schema.names:
            return InvalidQuery(
                f"the table {self.names[0]!r} has no columns, and SQL cannot ask a table without any",
                why=f"It has no rows either: its columns come with the first append, or were never said. DuckDB says: {error}",
                fix="Append rows first",
                sql=self.sql,
            )
        return InvalidQuery(
            f"DuckDB cannot answer the query: {error}",
            why=f"The table is known as {' and '.join(repr(name) for name in self.names)}",
            fix="Mend the SQL; table.schema shows the columns",
            sql=self.sql,
        )


def query_version(name: str, schema: pa.Schema, pin: Callable[[pa.Schema], Pinned], sql: object, parameters: object) -> Rows:
    """The answer to a query over one version of the table `name`, also known as `this`, whose declared schema is given.

    `pin` gives its rows as a dataset of a schema. Raises InvalidQuery, and what reading raises.
    """
    if not isinstance(sql, str) or sql.encode(errors="ignore").decode() != sql:
        what = "holds half of a character" if isinstance(sql, str) else f"is of type {type(sql).__name__}"
        raise InvalidQuery(
            f"the query {what}",
            why="A query is a text of SQL",
            fix='Pass a text, such as "select count(*) from this"',
            sql=repr(sql)[:100],
        )
    names = tuple(dict.fromkeys((name, "this")))
    return _Query(sql=sql, names=names, source=pin(duck_schema(schema)), schema=schema, parameters=parameters).rows()


def _selected(column: str, unheld: str | None) -> str:
    name = quoted(column)
    if unheld is None:
        return name
    reason = f"{unheld}; scan reads it".replace("'", "''")
    return f"error('{reason}')::VARCHAR AS {name}"


def quoted(name: str) -> str:
    """A name in standard SQL, with double quotes.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'
