"""Rows of SQL databases: each once by an increasing column, ties and late commits included."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import Cursor, source
from gapless.connect.sources.sql import SqlOptions, SqlSource
from gapless.connect.sources.sql_rows import open_engine
from gapless.errors import (
    DuplicateKey,
    InvalidOption,
    InvalidValue,
    NotSupported,
    NullKey,
    ObjectNotFound,
    StoreUnavailable,
    UnknownColumn,
    UnreadableInput,
    UnsupportedType,
)
from support.pipelines import all_polled


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sql:sqlite:///{tmp_path / 'd.db'}"


def run(database: str, *statements: str) -> None:
    """By another connection, as another program has."""
    with closing(sqlite3.connect(database.removeprefix("sql:sqlite:///"))) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def trips(database: str, *rows: tuple[int, int]) -> None:
    """Rows of (id, at) in a table whose `at` has ties."""
    run(
        database,
        "CREATE TABLE IF NOT EXISTS trips (id INTEGER PRIMARY KEY, at INTEGER NOT NULL)",
        *(f"INSERT INTO trips VALUES {row}" for row in rows),
    )


def ids(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("id").to_pylist()]


drained = partial(all_polled, read=ids)


def resumed(reader: Any, *place: Any, **options: Any) -> Any:
    other = source(*place, **options)
    other.start(Cursor.from_json(reader.cursor.to_json()))
    return other


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of three rows."""
    monkeypatch.setattr("gapless.connect.sources.sql._PAGE_ROWS", 3)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("limit", [1, 2, 4, None])
def test_rows_come_once_in_order_and_then_those_that_come(database: str, limit: int | None) -> None:
    trips(database, *((n, 10 * n) for n in range(10)))
    reader = source(database, table="trips", cursor_column="at")
    assert reader.schema == pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.int64())])
    assert drained(reader, limit) == list(range(10))
    assert drained(reader, limit) == []
    trips(database, (77, 100), (76, 101))
    assert drained(reader, limit) == [77, 76]


@pytest.mark.usefixtures("pages")
def test_ties_that_polls_and_pages_cut_are_neither_lost_nor_doubled(database: str) -> None:
    trips(database, *((n, n // 5) for n in range(20)))
    for taken in range(1, 20):
        first = source(database, table="trips", cursor_column="at")
        begun = ids(first.poll(taken))
        assert begun + drained(resumed(first, database, table="trips", cursor_column="at"), 2) == list(range(20))


@pytest.mark.usefixtures("pages")
def test_a_tie_that_comes_later_is_read_where_its_key_is_larger(database: str) -> None:
    trips(database, (1, 5), (2, 5))
    reader = source(database, table="trips", cursor_column="at")
    assert drained(reader) == [1, 2]
    trips(database, (3, 5), (4, 5))
    assert drained(reader) == [3, 4]


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize(
    "rows", [[(1, 5), (2, 5)], [(1, 1), (2, 2), (3, 3), (4, 3)], [(n, n if n < 7 else 6) for n in range(8)]]
)
def test_ties_without_a_key_are_an_error_wherever_they_stand(database: str, rows: list[tuple[int, int]]) -> None:
    trips(database, *rows)
    reader = source(database, query="SELECT id, at FROM trips", cursor_column="at")
    with pytest.raises(DuplicateKey, match="Pass key="):
        drained(reader)
    assert drained(source(database, query="SELECT id, at FROM trips", cursor_column="at", key="id")) == [one for one, _ in rows]


def test_a_tie_without_a_key_that_comes_between_polls_is_an_error(database: str) -> None:
    trips(database, (1, 1), (2, 2))
    reader = source(database, query="SELECT id, at FROM trips;", cursor_column="at")
    assert drained(reader) == [1, 2]
    trips(database, (3, 2))
    with pytest.raises(DuplicateKey):
        reader.poll()


def test_the_last_row_may_be_changed_or_removed(database: str) -> None:
    trips(database, (1, 1), (2, 2))
    reader = source(database, table="trips", cursor_column="at")
    assert drained(reader) == [1, 2]
    run(database, "DELETE FROM trips WHERE id = 2")
    trips(database, (3, 3))
    assert drained(reader) == [3]
    run(database, "UPDATE trips SET at = 4 WHERE id = 1")
    assert drained(reader) == [1]


class Clock:
    now = datetime(2026, 1, 5, 12, tzinfo=UTC)

    def now_ns(self) -> int:
        return int(self.now.timestamp()) * 10**9


def lagging(database: str, clock: Clock, **options: Any) -> SqlSource:
    given = {"table": "trips", "query": None, "order": ("at",), "start": None, "lag": timedelta(minutes=5), "schema": None}
    timed: Any = clock
    return SqlSource(open_engine(database.removeprefix("sql:")), SqlOptions(**{**given, **options}), timed)


def test_rows_that_commit_late_with_a_smaller_value_are_read_with_a_lag(database: str) -> None:
    run(database, "CREATE TABLE trips (id INTEGER PRIMARY KEY, at DATETIME NOT NULL)")
    insert = "INSERT INTO trips VALUES ({}, '2026-01-05 {}')"
    run(database, insert.format(1, "11:50:00"), insert.format(2, "11:58:00"))
    clock, without = Clock(), source(database, table="trips", cursor_column="at")
    reader = lagging(database, clock)
    assert (drained(reader), drained(without)) == ([1], [1, 2])
    run(database, insert.format(3, "11:57:00.5"))
    assert (drained(reader), drained(without)) == ([], [])
    clock.now += timedelta(minutes=5)
    assert drained(reader) == [3, 2]


def test_a_lag_is_written_as_durations_are(database: str) -> None:
    run(database, "CREATE TABLE trips (id INTEGER PRIMARY KEY, at DATETIME NOT NULL)")
    run(database, f"INSERT INTO trips VALUES (1, '2026-01-05'), (2, '{datetime.now(UTC):%Y-%m-%d %H:%M:%S}')")
    assert drained(source(database, table="trips", cursor_column="at", lag="12 hours")) == [1]
    with pytest.raises(InvalidOption, match="lag='12' is no length of time"):
        source(database, table="trips", cursor_column="at", lag="12")


def test_a_lag_of_numbers_keeps_the_last_ones_back(database: str) -> None:
    trips(database, (1, 10), (2, 20), (3, 30))
    reader = source(database, table="trips", cursor_column="at", lag=10)
    assert drained(reader) == [1, 2]
    trips(database, (4, 25), (5, 40))
    assert drained(reader) == [4, 3]
    trips(empty := database.replace("d.db", "e.db"))
    assert drained(source(empty, table="trips", cursor_column="at", lag=10, start="latest")) == []


def test_where_it_begins(database: str) -> None:
    trips(database, (1, 10), (2, 20), (3, 30))
    for start, expected in ((None, [1, 2, 3]), ("earliest", [1, 2, 3]), (20, [2, 3]), (21, [3]), ("latest", [])):
        reader = source(database, table="trips", cursor_column="at", start=start)
        assert drained(reader) == expected
    trips(database, (4, 30))
    assert drained(reader) == [4]
    run(
        database,
        "CREATE TABLE t (id INTEGER NOT NULL, at DATETIME NOT NULL)",
        "INSERT INTO t VALUES (1, '2026-01-05 00:00:00')",
    )
    assert drained(source(database, table="t", cursor_column="at", key="id", start=datetime(2026, 1, 5))) == [1]


def test_times_of_one_instant_written_with_and_without_digits_keep_their_order(database: str) -> None:
    run(
        database,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME NOT NULL)",
        "INSERT INTO t VALUES (1, '2026-01-05 00:00:00'), (2, '2026-01-05 00:00:00'), (3, '2026-01-05 00:00:00.000000')",
    )
    for taken in (1, 2):
        first = source(database, table="t", cursor_column="at")
        assert ids(first.poll(taken)) + drained(resumed(first, database, table="t", cursor_column="at")) == [1, 2, 3]


def test_types_of_a_table_are_kept_exactly(database: str) -> None:
    run(
        database,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, d DECIMAL(18, 4), b BOOLEAN, s VARCHAR(9), x BLOB, day DATE, at DATETIME,"
        " tm TIME, r DOUBLE, big BIGINT)",
        "INSERT INTO t VALUES (1, '1234567.5678', 1, '007', x'00ff', '2026-01-05', '2026-01-05 01:02:03.000004',"
        " '01:02:03.000004', 0.1, 9007199254740993)",
        "INSERT INTO t (id, d) VALUES (2, 0.1)",
    )
    reader = source(database, table="t", cursor_column="id")
    assert [str(one) for one in reader.schema.types] == [
        "int64", "decimal128(18, 4)", "bool", "string", "binary", "date32[day]", "timestamp[us]", "time64[us]", "double", "int64",
    ]  # fmt: skip
    first, second = [row for batch in reader.poll() for row in batch.to_pylist()]
    assert second["d"] == Decimal("0.1000")
    assert first == {
        "id": 1, "d": Decimal("1234567.5678"), "b": True, "s": "007", "x": b"\x00\xff", "day": date(2026, 1, 5),
        "at": datetime(2026, 1, 5, 1, 2, 3, 4), "tm": time(1, 2, 3, 4), "r": 0.1, "big": 9007199254740993,
    }  # fmt: skip


def test_a_query_takes_its_types_from_the_schema_or_its_values(database: str) -> None:
    run(database, "CREATE TABLE t (id INTEGER, n NUMERIC, at TEXT)", "INSERT INTO t VALUES (1, '1.10', '2026-01-05 00:00:01')")
    query = "SELECT id, n, at, 'a:b' AS c, 1 % 2 AS odd FROM t"
    bare = source(database, query=query, cursor_column="id")
    assert [str(one) for one in bare.schema.types] == ["int64", "double", "string", "string", "int64"]
    assert next(row for batch in bare.poll() for row in batch.to_pylist())["c"] == "a:b"
    schema = pa.schema([("at", pa.timestamp("us")), ("n", pa.decimal128(9, 2))])
    typed = source(database, query=query, cursor_column="id", schema=schema)
    assert typed.schema == schema
    rows = [row for batch in typed.poll() for row in batch.to_pylist()]
    assert rows == [{"at": datetime(2026, 1, 5, 0, 0, 1), "n": Decimal("1.10")}]
    run(database, "INSERT INTO t VALUES (2, 'x', '2026-01-05')")
    with pytest.raises(InvalidValue, match="'n' holds 'x'"):
        typed.poll()
    again = resumed(bare, database, query=query, cursor_column="id")
    assert again.schema == bare.schema
    with pytest.raises(InvalidValue, match="'n' holds 'x'"):
        again.poll()


def test_a_value_that_is_none_of_its_columns_type_is_named(database: str) -> None:
    run(
        database,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, d DECIMAL(9, 2), n INTEGER, at DATETIME)",
        "INSERT INTO t VALUES (1, 0.125, 1, NULL)",
    )
    with pytest.raises(InvalidValue, match="'d' holds"):
        source(database, table="t", cursor_column="id").poll()
    run(database, "UPDATE t SET d = 1, n = 'x'")
    with pytest.raises(InvalidValue, match="'n' holds 'x'"):
        source(database, table="t", cursor_column="id").poll()
    run(database, "UPDATE t SET n = 1, at = 'yesterday'")
    with pytest.raises(UnreadableInput, match="yesterday"):
        source(database, table="t", cursor_column="id").poll()
    aware = pa.schema([("at", pa.timestamp("us", "UTC"))])
    run(database, "UPDATE t SET at = '2026-01-05 00:00:00'")
    with pytest.raises(InvalidValue, match="no zone"):
        source(database, table="t", cursor_column="id", schema=aware).poll()


def test_a_column_that_may_be_null_is_none_to_go_by(database: str) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER)", "INSERT INTO t VALUES (1, 1), (2, NULL)")
    with pytest.raises(InvalidOption, match="'at' of t may be null"):
        source(database, table="t", cursor_column="at")
    with pytest.raises(NullKey, match="'at'"):
        source(database, query="SELECT * FROM t", cursor_column="at").poll()
    with pytest.raises(NullKey, match="'k'"):
        source(database, query="SELECT id, at AS k FROM t", cursor_column="id", key="k").poll()
    assert drained(source(database, query="SELECT * FROM t WHERE at IS NOT NULL", cursor_column="at")) == [1]


def test_what_cannot_be_is_refused_with_its_name(database: str, tmp_path: Path) -> None:
    trips(database, (1, 1))
    run(
        database,
        "CREATE TABLE odd (id INTEGER PRIMARY KEY, j JSON, n NUMERIC, f FLOAT NOT NULL)",
        "INSERT INTO odd VALUES (1, '1', 1, 0.5)",
    )
    with pytest.raises(ObjectNotFound, match="Did you mean 'trips'"):
        source(database, table="tripz", cursor_column="at")
    with pytest.raises(UnknownColumn, match="Did you mean 'at'"):
        source(database, table="trips", cursor_column="att")
    with pytest.raises(UnknownColumn, match="'x'"):
        source(database, query="SELECT id FROM trips", cursor_column="x")
    with pytest.raises(UnsupportedType, match="'n'"):
        source(database, query=None, table="odd", cursor_column="id")
    run(database, "ALTER TABLE odd DROP COLUMN n")
    assert source(database, table="odd", cursor_column="id").poll()[0].column("j").to_pylist() == ["1"]
    with pytest.raises(UnsupportedType, match="'f'"):
        source(database, table="odd", cursor_column="f").poll(1)
    with pytest.raises(InvalidOption, match="cannot be asked"):
        source(database, query="SELEC 1", cursor_column="id")
    with pytest.raises(InvalidOption, match="table= or query="):
        source(database, cursor_column="id")
    with pytest.raises(InvalidOption, match="needs cursor_column="):
        source(database, table="trips")
    for lag in (timedelta(1), -1, True, "1h"):
        with pytest.raises(InvalidOption, match="lag"):
            source(database, table="trips", cursor_column="at", lag=lag)
    with pytest.raises(InvalidOption, match="key"):
        source(database, table="trips", cursor_column="at", key="at")
    with pytest.raises(StoreUnavailable, match="unable to open"):
        source(f"sql:sqlite:///{tmp_path}", table="t", cursor_column="id")


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFound, match=r"there is no database .*SQLite would make an empty one"):
        source(f"sql:sqlite:///{tmp_path / 'typo.db'}", table="trips", cursor_column="at")
    assert not list(tmp_path.iterdir())
    with pytest.raises(NotSupported, match="pip install mysqlclient"):
        source("sql:mysql://ada@localhost/trips", table="trips", cursor_column="at")


def test_a_start_that_is_no_value_of_the_column_is_refused(database: str) -> None:
    """SQLite would find each number before each text."""
    run(
        database,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME NOT NULL UNIQUE, day DATE NOT NULL, name TEXT NOT NULL)",
        "INSERT INTO t VALUES (1, '2026-01-05 00:00:00', '2026-01-05', 'a'), (2, '2026-01-06 12:00:00', '2026-01-06', 'b')",
    )
    for column, start in (
        ("id", 2),
        ("at", "2026-01-06T00:00"),
        ("day", "2026-01-06"),
        ("name", "b"),
        ("day", date(2026, 1, 6)),
    ):
        assert drained(source(database, table="t", cursor_column=column, start=start)) == [2]
    wrong: tuple[tuple[str, object], ...] = (
        ("id", "2"),
        ("id", datetime(2026, 1, 5)),
        ("at", "2026-01-06T00:00Z"),
        ("at", "last week"),
        ("at", 2),
        ("day", "2026"),
        ("name", 3),
    )
    for column, value in wrong:
        with pytest.raises(InvalidOption, match=f"is no value of column '{column}'"):
            source(database, table="t", cursor_column=column, start=value)


def test_a_password_is_in_no_message_and_no_repr(database: str) -> None:
    for url in (
        "sql:nodb://ada:hunter2@h/d",
        "sql:postgresql+nodriver://ada:hunter2@h/d",
        "sql:ada:hunter2@h",
        "mysql://ada:hunter2@h/d",
    ):
        with pytest.raises((InvalidOption, NotSupported)) as error:
            source(url, table="t", cursor_column="id")
        assert "hunter2" not in f"{error.value} {error.value.facts}"
    trips(database, (1, 1))
    reader = source(database, table="trips", cursor_column="at")
    reader.poll()
    assert "d.db" in repr(reader)


def test_a_cursor_of_another_table_or_none_is_refused(database: str) -> None:
    trips(database, (1, 1))
    reader = source(database, table="trips", cursor_column="at")
    reader.poll()
    with pytest.raises(InvalidOption, match="cannot start"):
        source(database, table="trips", cursor_column="id").start(reader.cursor)
    broken: tuple[Any, ...] = ([], [["int", 1]], [["x", 1], ["int", 1]], [["int", "x"], ["int", 1]], 7, [7, 7])
    for after in broken:
        with pytest.raises(InvalidOption, match="cannot start"):
            reader.start(Cursor(source="sql", state={**reader.cursor.state, "after": after}))
