"""A query over the tables of a lake as they were committed when it was asked, answered by DuckDB."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.errors import InvalidOption, InvalidQuery, NotSupported, ObjectNotFound, SchemaMismatch
from gapless.files.read.source import ObjectFile
from gapless.model.protocols import ObjectInfo, Store
from gapless.tables.shared.duckdb_session import SHARED, open_duckdb
from gapless.tables.shared.scan import Rows
from gapless.tables.shared.sql import BATCH_ROWS, quoted

if TYPE_CHECKING:
    import duckdb


_PROTOCOL = "gaplesslake"
"""Of paths by which DuckDB reads files of a store that is no directory."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")
_READ_BYTES = 256 << 10
"""What is read at once where DuckDB asks for less."""


def is_local(store: Store) -> bool:
    """Whether DuckDB opens the files by itself."""
    return _URL.match(store.url) is None


def whole_paths(store: Store) -> str:
    """What a path below the lake's root begins with in a view that is read from anywhere."""
    return f"{store.url}/" if is_local(store) else f"{_PROTOCOL}://"


def view_paths(store: Store) -> str:
    """What a path begins with in the views of a query: nothing where it is relative to the root."""
    return "" if is_local(store) else whole_paths(store)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeQuery:
    """One statement that selects, over views."""

    sql: str
    views: Mapping[str, str | Rows]
    """What each table that it names is: a query over its files, or what its own log gives."""
    store: Store
    """The lake's."""
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
            connection = open_duckdb(**({"file_search_path": self.store.url} if is_local(self.store) else {}), **settings)
            if not is_local(self.store):
                connection.register_filesystem(_files_of(self.store))
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


def _files_of(store: Store) -> Any:
    """The objects of a store as DuckDB reads files: by ranges, with the credentials that the store has. Raises NotSupported without fsspec."""
    try:
        from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]  # has no types
    except ImportError as error:
        raise NotSupported(
            f"queries of a lake at {store.url} need fsspec",
            why="DuckDB reads what is no file of this machine by it",
            fix="pip install fsspec",
            feature="queries of a lake in a bucket",
        ) from error

    class StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # has no types
        protocol = _PROTOCOL
        cachable = False

        def __init__(self) -> None:
            super().__init__(use_listings_cache=False)
            self._known: dict[str, ObjectInfo] = {}  # files that manifests name never change

        def _info(self, path: str) -> ObjectInfo:
            name = str(self._strip_protocol(path)).lstrip("/")
            try:
                return self._known.get(name) or self._known.setdefault(name, store.head(name))
            except ObjectNotFound as error:
                raise FileNotFoundError(path) from error

        def info(self, path: str, **_: object) -> dict[str, object]:
            return {"name": path, "size": self._info(path).size, "type": "file"}

        def modified(self, path: str) -> datetime:
            return datetime.fromtimestamp(self._info(path).modified_ns // 1_000_000_000, UTC)

        def glob(self, path: str, **_: object) -> list[str]:
            return [path]  # names are names, whatever signs are in them

        def _open(self, path: str, mode: str = "rb", **_: object) -> io.BufferedReader:
            assert mode == "rb", mode
            info = self._info(path)
            return io.BufferedReader(ObjectFile(store, info.path, info.size), _READ_BYTES)

    return StoreFiles()
