"""A query over the tables of a lake as they were committed when it was asked, answered by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.errors import InvalidOption, InvalidQuery, SchemaMismatch
from gapless.tables.shared.duckdb_session import SHARED, open_duckdb
from gapless.tables.shared.scan import Rows
from gapless.tables.shared.sql import BATCH_ROWS, quoted

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeQuery:
    """One statement that selects, over views."""

    sql: str
    views: Mapping[str, str | Rows]
    """What each table that it names is: a query over its files, or what its own log gives."""
    root: str
    """The lake's, to which paths in views are relative."""
    tables: Callable[[], Sequence[str]]
    """The names of all tables, for messages."""
    parameters: object = None

    def check(self) -> None:
        """Raise InvalidQuery where it is not one statement that selects."""
        with self.typed(), SHARED.cursor() as connection:
            statements = _statements(connection, self.sql)
        if len(statements) != 1 or statements[0].type.name != "SELECT":
            raise InvalidQuery(
                "the query is not one statement that selects",
                why="A query reads; runs write",
                fix='Pass a text such as "select count(*) from orders"',
                sql=repr(self.sql)[:100],
            )

    def connect(self, **settings: str | int) -> duckdb.DuckDBPyConnection:
        """A DuckDB of its own that has the views. Raises InvalidQuery."""
        with self.typed():
            connection = open_duckdb(file_search_path=self.root, **settings)
            for name, rows in self.views.items():
                if isinstance(rows, Rows):
                    connection.register(name, rows)
                else:
                    connection.execute(f"CREATE VIEW {quoted(name)} AS {rows}")  # names and paths are quoted
            return connection

    def start(self, connection: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
        """The answer, planned; it holds on to the connection. Raises InvalidQuery."""
        with self.typed():
            answer: Any = connection.sql(self.sql, params=self.parameters)
            return answer.to_arrow_reader(BATCH_ROWS)

    def rows(self) -> Rows:
        """The answer. Raises InvalidQuery, now or while it is read."""
        started = [self.start(self.connect())]
        schema = started[0].schema

        def read() -> Iterator[pa.RecordBatch]:
            reader = started.pop() if started else self.start(self.connect())
            with self.typed():
                yield from reader

        return Rows(schema, read)

    @contextmanager
    def typed(self) -> Iterator[None]:
        """Raise InvalidQuery for what DuckDB says."""
        import duckdb

        try:
            yield
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            raise InvalidQuery(
                f"DuckDB cannot answer the query: {error}",
                why=f"The lake has the tables {', '.join(self.tables()) or '(none)'}",
                fix="Mend the SQL; lake.table(…).schema shows the columns",
                sql=str(self.sql),
            ) from error


def _statements(connection: duckdb.DuckDBPyConnection, sql: object) -> list[duckdb.Statement]:
    return connection.extract_statements(sql) if isinstance(sql, str) else []


def words_of(sql: str) -> set[str]:
    """What may be a table's name. A word too many costs a look at manifests; DuckDB names no tables of a query with parameters."""
    return set(re.findall(r"\w+", sql.lower()))


def require_fingerprint(name: str, fingerprints: Mapping[str, str]) -> None:
    """Raise InvalidOption where that of a table lacks which a query names."""
    if name not in fingerprints:
        raise InvalidOption(
            f"the query names the table {name!r}, and no fingerprint of its columns is given",
            why="Columns may have changed since they were looked at, and the answer would mean something else",
            fix=f"Look at what describe says of {name!r}, and give its fingerprint too",
            option="fingerprints",
            value=sorted(fingerprints),
        )


def check_fingerprint(name: str, found: str, wanted: str) -> None:
    """Raise SchemaMismatch where a table's columns are not those that a query was written for."""
    if found != wanted:
        raise SchemaMismatch(
            f"{name!r} has other columns than the query was written for",
            why=f"Their fingerprint is {found}, and {wanted} was asked for",
            fix="Look at lake.table(…).schema, and ask with its fingerprint",
            differences=(f"{name}: {found} against {wanted}",),
        )
