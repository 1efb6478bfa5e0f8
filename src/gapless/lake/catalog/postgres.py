"""A catalog in a schema of PostgreSQL, for copies of one lake on several machines: leases hold among all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from gapless.errors import AccessDenied, InvalidOption, NotSupported, StoreError, StoreUnavailable
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.rows import DDL, USER_VERSION, Answer, Connection, statements_of

if TYPE_CHECKING:
    from psycopg import Connection as Psycopg

_SCHEMES = ("postgresql", "postgres")
_WAIT_S = 60
"""For how long a transaction waits for others, as SQLite's does."""
_CONNECT_S = 10
_TYPES = (("TEXT", 'TEXT COLLATE "C"'), ("INTEGER", "BIGINT"), (") WITHOUT ROWID", ")"))
"""SQLite's words in the statements of the tables, and PostgreSQL's: texts order by their bytes in both."""


@dataclass(frozen=True, slots=True)
class PostgresCatalog(Catalog):
    """The tables in a schema. Each call connects anew, so that processes, threads and forks may share the value."""

    url: str = field(repr=False)
    """As libpq takes it, with what is secret."""
    schema: str
    shared: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise InvalidOption, NotSupported without psycopg. The URL is in no message: a secret may be anywhere in it."""
        try:
            parts = urlsplit(self.url)
            _ = parts.port
        except ValueError:
            raise _no_url() from None
        if parts.scheme not in _SCHEMES or not (parts.hostname or "host=" in parts.query):
            raise _no_url()
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise NotSupported(
                "a catalog in PostgreSQL needs psycopg",
                why="It is not installed",
                fix="pip install 'psycopg[binary]'",
                feature="a lake's catalog in PostgreSQL",
            ) from error

    @property
    def place(self) -> str:
        """Where it lies, without user and password."""
        parts = urlsplit(self.url)
        return f"postgresql://{parts.hostname or ''}{parts.path}, schema {self.schema}"

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """See `Catalog.transaction`: one at a time among all who have the catalog."""
        with self._connected() as found:
            self._lock(found)
            self._check_tables(found)
            yield _Transaction(found)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """See `Catalog.reading`: what is committed, without a wait for whoever writes."""
        with self._connected() as found:
            self._check_tables(found)
            yield _Transaction(found)

    @contextmanager
    def _connected(self) -> Iterator[Psycopg[Any]]:
        import psycopg

        options = {} if "connect_timeout" in urlsplit(self.url).query else {"connect_timeout": _CONNECT_S}
        try:
            with psycopg.connect(self.url, **options) as connection:  # type: ignore[arg-type]  # libpq's options
                connection.execute(f"SET LOCAL lock_timeout = '{_WAIT_S}s'".encode())
                # A commit of a run may take long between two statements, and must not lose its lease unseen.
                connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                connection.execute("SELECT set_config('search_path', %s, true)", (f'"{self.schema}"',))
                yield connection
        except psycopg.Error as error:
            raise self._broken(error) from None  # what libpq says of a URL may quote it

    def _lock(self, connection: Psycopg[Any]) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"gapless lake {self.schema}",))

    def _is_there(self, connection: Psycopg[Any]) -> bool:
        found = connection.execute("SELECT to_regclass('catalog_version')").fetchone()
        return found is not None and found[0] is not None

    def _check_tables(self, connection: Psycopg[Any]) -> None:
        """Make the tables where they are not there; raise StoreError where a newer release made them."""
        if not self._is_there(connection):
            self._lock(connection)
            if not self._is_there(connection):
                self._make(connection)
        found = connection.execute("SELECT max(version) FROM catalog_version").fetchone()
        if found is not None and (found[0] or 0) > USER_VERSION:
            raise self.newer(self.place, found[0])

    def _make(self, connection: Psycopg[Any]) -> None:
        there = connection.execute("SELECT to_regnamespace(%s)", (f'"{self.schema}"',)).fetchone()
        if there is None or there[0] is None:
            connection.execute(f'CREATE SCHEMA "{self.schema}"'.encode())
        for statement in statements_of(postgres_ddl()):
            connection.execute(statement.encode())
        connection.execute("INSERT INTO catalog_version VALUES (%s)", (USER_VERSION,))

    def _broken(self, error: Exception) -> StoreError:
        import psycopg

        why = " ".join(str(error).split())[:300]
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return AccessDenied(
                f"the user may not use the catalog at {self.place}",
                why=why,
                fix=f"GRANT it that, or make the schema for it: CREATE SCHEMA {self.schema} AUTHORIZATION …",
                path=self.place,
            )
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return StoreUnavailable(
                f"the catalog at {self.place} is at work for another for {_WAIT_S} s",
                why="One commits at a time, and one that began is not done",
                fix="Run it again; a session that is stuck is in pg_stat_activity",
                path=self.place,
            )
        if isinstance(error, psycopg.OperationalError):
            return StoreUnavailable(
                f"the catalog at {self.place} does not answer",
                why=_without(why, self.url),
                fix="Check that the database runs, and user and password; then run it again: what manifests say is told it then",
                path=self.place,
            )
        return StoreError(
            f"the catalog at {self.place} cannot be used",
            why=_without(why, self.url),
            fix="It holds nothing that the manifests do not say, but for leases: dropped while no run is at work it is made anew",
            path=self.place,
        )


class _Transaction:
    """A transaction that takes `?` for values."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Psycopg[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Answer:
        return self._connection.execute(_placed(statement), tuple(parameters))

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_placed(statement), parameters)


def _placed(statement: str) -> bytes:
    return statement.replace("%", "%%").replace("?", "%s").encode()


def postgres_ddl() -> str:
    """The tables as PostgreSQL takes them."""
    ddl = DDL
    for theirs, ours in _TYPES:
        ddl = ddl.replace(theirs, ours)
    return f"CREATE TABLE catalog_version (version BIGINT NOT NULL);\n{ddl}"


def passwords_of(url: str) -> list[str]:
    """What a URL says of passwords, before the host or behind it as `password=`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []  # it is no URL, and refused as that
    named = (one.partition("=") for one in parts.query.split("&"))
    return [
        *([parts.password] if parts.password else []),
        *(text for name, _, text in named if "pass" in name.lower() and text),
    ]


def _without(text: str, url: str) -> str:
    """A message without what is secret in a URL."""
    parts = urlsplit(url)
    secrets = {*passwords_of(url), parts.netloc, parts.query, url}
    for secret in sorted((secrets | {unquote(one) for one in secrets}) - {""}, key=len, reverse=True):
        text = text.replace(secret, "…")
    return text


def _no_url() -> InvalidOption:
    return InvalidOption(
        "the url of the catalog is none of PostgreSQL",
        why="It has a scheme, a host and a database; what it says is not shown, since it may hold a password",
        fix='Write such as url = "postgresql://user:${PASSWORD}@host/database" under [catalog] in lake.toml',
        option="catalog.url",
        value="…",
    )
