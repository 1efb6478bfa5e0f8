"""DuckDB sessions: for SQL over a pinned version, for expressions over rows in memory; and which Arrow types DuckDB holds exactly.

To open a DuckDB takes ten times as long as a small query in one that is open, so what cannot change it shares one. Every session is a
connection of its own, so that names which it makes known are its own; what lasts longer than a connection is out of reach of statements
that only select.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.model.types import UTC, children, with_children
from gapless.runtime.concurrency import ForkSafeLock, renew_after_fork

if TYPE_CHECKING:
    import duckdb


STATEFUL_FUNCTIONS = frozenset({
    "add_grammar_extension", "checkpoint", "create_external_resource", "current_connection_id", "current_query", "current_query_id",
    "current_transaction_id", "currval", "deregister_external_resource", "destroy_external_resource", "disable_logging",
    "disable_profiling", "enable_logging", "enable_profiling", "error", "force_checkpoint", "gen_random_uuid", "nextval", "random",
    "register_external_resource", "register_external_resource_type", "remove_grammar_extension", "setseed", "setval", "sleep_ms", "stats",
    "truncate_duckdb_logs", "uuid", "uuidv4", "uuidv7", "vector_type", "write_log",
})  # fmt: skip
"""Functions that change a DuckDB, or answer otherwise each time they are called: our macros may call what it is given twice."""

_FIRST, _LAST = "TIMESTAMPTZ '0001-01-02 00:00:00+00'", "TIMESTAMPTZ '9999-01-01 00:00:00+00'"
_PARTS = "'microsecond', 'millisecond', 'second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'"


def _faster() -> str:
    """Macros for `date_trunc` and `time_bucket`.

    Of an aware time DuckDB asks a calendar, which takes eight times as long as to count: in UTC, where every query is, both are the same.
    """
    others = ("TIMESTAMPTZ_NS", "TIMESTAMP", "DATE")
    truncated = (
        f"(part VARCHAR, t TIMESTAMPTZ) AS CASE WHEN part IN ({_PARTS}) AND t BETWEEN {_FIRST} AND {_LAST} "
        "THEN make_timestamptz(epoch_us(system.main.date_trunc(part, make_timestamp(epoch_us(t))))) ELSE system.main.date_trunc(part, t) END, "
        + ", ".join(f"(part VARCHAR, t {kind}) AS system.main.date_trunc(part, t)" for kind in (*others, "INTERVAL"))
    )
    bucketed = (
        f"(width INTERVAL, t TIMESTAMPTZ) AS CASE WHEN t BETWEEN {_FIRST} AND {_LAST} "
        "THEN make_timestamptz(epoch_us(system.main.time_bucket(width, make_timestamp(epoch_us(t))))) ELSE system.main.time_bucket(width, t) END, "
        + ", ".join(f"(width INTERVAL, t {kind}) AS system.main.time_bucket(width, t)" for kind in (*others, "TIME"))
        + ", (width, t, origin) AS system.main.time_bucket(width, t, origin)"
    )
    return f"CREATE MACRO date_trunc{truncated}; CREATE MACRO datetrunc{truncated}; CREATE MACRO time_bucket{bucketed}"


def open_duckdb(**settings: str | int) -> duckdb.DuckDBPyConnection:
    """A DuckDB by itself, whose times are in UTC wherever this runs."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false", **settings})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def _open_for_queries() -> duckdb.DuckDBPyConnection:
    base = open_duckdb()
    # A file that a query names is read again by the next.
    base.execute("SET GLOBAL enable_external_file_cache = false")
    base.execute(_faster())
    return base


class SharedDuck:
    """One DuckDB of a process, opened when it is first needed."""

    def __init__(self, begin: Callable[[], duckdb.DuckDBPyConnection] = _open_for_queries) -> None:
        self._begin = begin
        self._lock = ForkSafeLock()
        self._base: duckdb.DuckDBPyConnection | None = None
        renew_after_fork(self)

    def start_afresh(self) -> None:
        """Let go of the parent's, for good: to close it would wait for threads that are not in this process."""
        if self._base is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._base))
            self._base = None

    def give_up(self) -> None:
        """Have the queries to come open another: after an error of its own, in whatever query, DuckDB answers none any more."""
        with self._lock:
            self._base = None

    def connection(self, query: str) -> duckdb.DuckDBPyConnection | None:
        """A connection for a query that does no more than select; None for any other, and for text that is no SQL."""
        import duckdb

        if "://" in query or not STATEFUL_FUNCTIONS.isdisjoint(re.findall(r"\w+", query.lower())):
            return None
        connection = self.cursor()
        try:
            statements = connection.extract_statements(query)
        except duckdb.Error:
            return None
        return connection if statements and all(one.type == duckdb.StatementType.SELECT for one in statements) else None

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own, with names of its own."""
        with self._lock:
            if self._base is None:
                self._base = self._begin()
            return self._base.cursor()


SHARED = SharedDuck()
"""Answers the queries over pinned versions."""

FEW_ROWS = 1 << 16
"""Up to so many rows are not worth a DuckDB of their own, which takes longer to begin than they do."""
FEW_ALONE = 1 << 20
"""The same of rows that are looked at one by one, and not joined, sorted or counted."""
_JOINS_AS_WRITTEN = {"disabled_optimizers": "join_order,build_side_probe_side"}
# One thread is the caller's own: none is there that a fork would lose.
_FEW = SharedDuck(lambda: open_duckdb(threads=1, **_JOINS_AS_WRITTEN))


@contextmanager
def duck_session(rows: int, few: int = FEW_ROWS) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session to register about so many rows in, of which nothing is left after. More than `few` have threads. Times are in UTC, and of a join
    the right side is held while the left one streams past it.
    """
    with _of_few() if rows <= few else open_duckdb(**_JOINS_AS_WRITTEN) as session:
        yield session


def _of_few() -> duckdb.DuckDBPyConnection:
    """A session of the DuckDB for few rows; of another, once an error of its own has ended that one."""
    import duckdb

    try:
        return _FEW.cursor().execute("SET TimeZone = 'UTC'")
    except duckdb.FatalException:
        _FEW.give_up()
        return _FEW.cursor()


WIDEST_DECIMAL = 38


def duck_type(type_: pa.DataType) -> pa.DataType | None:
    """The type under which DuckDB reads every value of a declared type exactly; None where it has none.

    Half floats come as floats, decimals of 256 bits in 128 where they fit, nested types likewise. Instants come in UTC and not
    coarser than µs, as DuckDB writes them into the filters that it hands to Arrow. Durations come in ns: DuckDB gives an
    INTERVAL back as a count of ns, which wraps in silence past 292 years, where Arrow's cast to ns raises; the ns of a
    duration[ns] itself an INTERVAL does not hold.
    """
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp("ns" if type_.unit == "ns" else "us", UTC)
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_decimal256(type_):
        return pa.decimal128(type_.precision, type_.scale) if type_.precision <= WIDEST_DECIMAL else None
    if pa.types.is_duration(type_):
        return None if type_.unit == "ns" else pa.duration("ns")
    held = {child.name: duck_type(child.type) for child in children(type_)}
    if None in held.values():
        return None
    return with_children(type_, lambda child: child.with_type(held[child.name]))


def duck_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a declared schema that DuckDB can hold, as it reads them."""
    unheld = unsupported_columns(schema)
    return pa.schema([field.with_type(duck_type(field.type)) for field in schema if field.name not in unheld])


def unsupported_columns(schema: pa.Schema) -> dict[str, str]:
    """Why DuckDB cannot read a column, as a sentence, by the names of the columns that it cannot read."""
    # DuckDB folds ASCII letters only, and of two names that it takes for one it would give the first for both.
    folded = Counter(name.encode().lower() for name in schema.names)
    why = {
        field.name: f"Column {field.name!r} is {field.type}, which DuckDB has no type for that holds it exactly"
        for field in schema
        if duck_type(field.type) is None
    }
    twins = [name for name in schema.names if folded[name.encode().lower()] > 1]
    return why | {name: f"Column {name!r} has a twin in another case, and DuckDB does not tell the two apart" for name in twins}


def holds_type(type_: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or one nested in it at any depth, passes a test."""
    return test(type_) or any(holds_type(child.type, test) for child in children(type_))
