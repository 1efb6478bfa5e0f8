"""Rows of a real PostgreSQL: ties, commits that come late, types, and a server that dies in the middle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Cursor, Runner, sink, source
from gapless.errors import (
    AccessDenied,
    InvalidOption,
    InvalidValue,
    ObjectNotFound,
    StoreUnavailable,
    UnreadableInput,
    UnsupportedType,
)
from support.pipelines import all_polled
from support.postgres import Postgres


def ids(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("id").to_pylist()]


drained = partial(all_polled, read=ids)
KEYED = "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())"


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.database()


@pytest.mark.parametrize("limit", [1, 3, None])
def test_ties_of_the_cursor_column_are_neither_lost_nor_doubled(postgres: Postgres, database: str, limit: int | None) -> None:
    postgres.run(
        database,
        KEYED,
        "INSERT INTO t (at) SELECT '2026-01-05 00:00:00+05:30'::timestamptz + (n / 5) * interval '1 s' FROM generate_series(0, 19) n",
    )
    reader = source(postgres.url(database), table="t", cursor_column="at")
    first = ids(reader.poll(7))
    again = source(postgres.url(database), table="t", cursor_column="at")
    again.start(Cursor.from_json(reader.cursor.to_json()))
    assert first + drained(again, limit) == list(range(1, 21))
    assert again.cursor.timestamp == datetime(2026, 1, 4, 18, 30, 3, tzinfo=UTC)
    # A tie of the last one, and one that is older than it.
    postgres.run(database, "INSERT INTO t (at) SELECT max(at) FROM t", "INSERT INTO t (at) VALUES ('2026-01-01')")
    assert drained(again, limit) == [21]


def test_a_table_with_a_uuid_for_its_key_is_read_by_a_time(postgres: Postgres, database: str) -> None:
    postgres.run(
        database,
        "CREATE TABLE t (key uuid PRIMARY KEY DEFAULT gen_random_uuid(), id int, at timestamp NOT NULL)",
        "INSERT INTO t (id, at) SELECT n, '2026-01-05' FROM generate_series(0, 9) n",
    )
    reader = source(postgres.url(database), table="t", cursor_column="at")
    first = ids(reader.poll(4))
    again = source(postgres.url(database), table="t", cursor_column="at")
    again.start(Cursor.from_json(reader.cursor.to_json()))
    assert sorted(first + drained(again, 3)) == list(range(10))


def test_rows_that_commit_late_with_lower_ids_are_missed_without_a_lag_and_read_with_one(
    postgres: Postgres, database: str
) -> None:
    postgres.run(database, KEYED)
    by_id = partial(source, postgres.url(database), table="t", cursor_column="id")
    without, by_number = by_id(), by_id(lag=2)
    by_time = source(postgres.url(database), table="t", cursor_column="at", lag=timedelta(seconds=2))
    with postgres.connect(database, autocommit=False) as late:
        late.execute("INSERT INTO t DEFAULT VALUES RETURNING id")
        postgres.run(database, "INSERT INTO t DEFAULT VALUES", "INSERT INTO t DEFAULT VALUES")
        assert (drained(without), drained(by_number), drained(by_time)) == ([2, 3], [], [])
        late.commit()
    # What the documentation says of a source without a lag: it never sees row 1.
    assert (drained(without), drained(by_number)) == ([], [1])
    postgres.run(database, "INSERT INTO t DEFAULT VALUES", "INSERT INTO t DEFAULT VALUES")
    assert (drained(without), drained(by_number)) == ([4, 5], [2, 3])
    found = list[int]()
    while len(found) < 5:
        found += drained(by_time)
    assert found == [1, 2, 3, 4, 5]


COLUMNS: dict[str, tuple[str, pa.DataType, object]] = {
    "smallint": ("'-32768'", pa.int16(), -32768),
    "integer": ("7", pa.int32(), 7),
    "bigint": ("9223372036854775807", pa.int64(), 2**63 - 1),
    "numeric(20, 6)": ("12345678901234.123456", pa.decimal128(20, 6), Decimal("12345678901234.123456")),
    "numeric(60, 30)": ("123456789.000000000000000000000000000001", pa.decimal256(60, 30), Decimal("123456789.000000000000000000000000000001")),
    "real": ("0.1", pa.float32(), pa.scalar(0.1, pa.float32()).as_py()),
    "double precision": ("0.1", pa.float64(), 0.1),
    "boolean": ("true", pa.bool_(), True),
    "text": ("'ünï'", pa.string(), "ünï"),
    "varchar(3)": ("'a'", pa.string(), "a"),
    "char(3)": ("'a'", pa.string(), "a  "),
    "bytea": ("'\\x00ff'", pa.binary(), b"\x00\xff"),
    "date": ("'2026-02-28'", pa.date32(), date(2026, 2, 28)),
    "time": ("'23:59:59.999999'", pa.time64("us"), time(23, 59, 59, 999999)),
    "timestamp": ("'2026-01-05 01:02:03.000001'", pa.timestamp("us"), datetime(2026, 1, 5, 1, 2, 3, 1)),
    "timestamptz": (
        "'2026-01-05 01:02:03.000001+05:30'",
        pa.timestamp("us", "UTC"),
        datetime(2026, 1, 4, 19, 32, 3, 1, tzinfo=UTC),
    ),
    "uuid": ("'6F1ED002-ab5d-4a0e-8a4e-7d3f4cf1c2b1'", pa.string(), "6f1ed002-ab5d-4a0e-8a4e-7d3f4cf1c2b1"),
    # As the server has it: a driver's floats would lose digits of it.
    "jsonb": ("'{\"b\": 1.0000000000000000000001, \"a\": [null]}'", pa.string(), '{"a": [null], "b": 1.0000000000000000000001}'),
    "json": ("'{\"b\":1,  \"a\":2}'", pa.string(), '{"b":1,  "a":2}'),
    "mood": ("'ok'", pa.string(), "ok"),
}  # fmt: skip


def test_types_of_a_table_are_kept_exactly(postgres: Postgres, database: str) -> None:
    postgres.run(
        database,
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(f'c{at} {name}' for at, name in enumerate(COLUMNS))})",
        f"INSERT INTO t VALUES (1, {', '.join(value for value, _, _ in COLUMNS.values())})",
        "INSERT INTO t VALUES (2)",
    )
    reader = source(postgres.url(database), table="t", cursor_column="id")
    first, second = [row for batch in reader.poll() for row in batch.to_pylist()]
    for at, (name, (_, type_, value)) in enumerate(COLUMNS.items()):
        assert reader.schema.field(f"c{at}").type == type_, name
        assert (first[f"c{at}"], second[f"c{at}"]) == (value, None), name


@pytest.mark.parametrize("type_", ["numeric", "int[]", "interval", "inet", "xml", "point", "timetz", "int4range"])
def test_a_type_that_arrow_does_not_have_is_refused_and_left_out_or_cast(postgres: Postgres, database: str, type_: str) -> None:
    postgres.run(database, f"CREATE TABLE t (id int PRIMARY KEY, v {type_})", "INSERT INTO t VALUES (1, NULL)")
    with pytest.raises(UnsupportedType, match=r"'v' has .*schema=.*query="):
        source(postgres.url(database), table="t", cursor_column="id")
    assert drained(source(postgres.url(database), table="t", cursor_column="id", schema=pa.schema([("id", pa.int32())]))) == [1]
    cast = source(postgres.url(database), query="SELECT id, v::text AS v FROM t -- all", cursor_column="id")
    assert drained(cast) == [1]


@pytest.mark.parametrize(
    ("type_", "value", "declared", "error"),
    [
        ("timestamptz", "'infinity'", None, UnreadableInput),
        ("date", "'0044-03-15 BC'", None, UnreadableInput),
        ("numeric(10, 2)", "'NaN'", None, InvalidValue),
        ("timetz", "'10:00+05:30'", pa.time64("us"), InvalidValue),
        ("jsonb", "'[1]'", pa.int64(), InvalidValue),
        ("int[]", "'{1}'", pa.string(), InvalidValue),
        ("int", "7", pa.timestamp("us"), InvalidValue),
        ("date", "'2026-01-05'", pa.timestamp("us", "UTC"), InvalidValue),
    ],
)
def test_a_value_that_is_not_held_is_an_error_of_the_value(
    postgres: Postgres, database: str, type_: str, value: str, declared: pa.DataType | None, error: type[Exception]
) -> None:
    """And none of the store, which would be tried again for ever."""
    postgres.run(database, f"CREATE TABLE t (id int PRIMARY KEY, v {type_})", f"INSERT INTO t VALUES (1, {value})")
    schema = None if declared is None else pa.schema([("id", pa.int32()), ("v", declared)])
    reader = source(postgres.url(database), table="t", cursor_column="id", schema=schema)
    for _ in range(2):
        with pytest.raises(error, match="cast the column in query="):
            reader.poll()


def test_what_has_one_text_may_be_declared_as_text(postgres: Postgres, database: str) -> None:
    postgres.run(
        database,
        "CREATE TABLE t (id int PRIMARY KEY, n numeric, a inet, j jsonb)",
        "INSERT INTO t VALUES (1, 1234567890123456789012345678901234567890.5, '10.0.0.1', '{\"a\": 1}')",
    )
    schema = pa.schema([("n", pa.string()), ("a", pa.string()), ("j", pa.string())])
    reader = source(postgres.url(database), table="t", cursor_column="id", schema=schema)
    assert [batch.to_pylist() for batch in reader.poll()] == [
        [{"n": "1234567890123456789012345678901234567890.5", "a": "10.0.0.1", "j": '{"a": 1}'}]
    ]


def many(postgres: Postgres, database: str) -> None:
    """More than two pages."""
    postgres.run(
        database,
        "CREATE TABLE t (id bigint PRIMARY KEY, v text)",
        "INSERT INTO t SELECT n, 'v' || n FROM generate_series(0, 24999) n",
    )


def test_a_server_that_is_killed_in_the_middle_of_polls_loses_and_doubles_nothing(postgres: Postgres, database: str) -> None:
    many(postgres, database)
    reader = source(postgres.url(database), table="t", cursor_column="id")
    found = ids(reader.poll(7000))
    postgres.kill()
    try:
        found += ids(reader.poll(2000))  # what it had read already
        found += ids(reader.poll())  # the rest of that, before the error
        cursor = reader.cursor
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="Try again"):
                reader.poll(2000)
        assert reader.cursor == cursor
    finally:
        postgres.start()
    assert len(found) < 25_000
    assert found + drained(reader, 4000) == list(range(25_000))


def test_a_pipeline_whose_database_is_killed_goes_on_when_it_is_there_again(
    postgres: Postgres, database: str, tmp_path: Path
) -> None:
    many(postgres, database)

    def runner(transform: Callable[[pa.RecordBatch], pa.RecordBatch] | None) -> Runner:
        sinks = {"t": sink(f"delta:{tmp_path / 't'}", pipeline="p", name="t", create={})}
        reader = source(postgres.url(database), table="t", cursor_column="id")
        return Runner(reader, transform, sinks, CheckpointStore(tmp_path / "c"), checkpoint_rows=3000)

    seen = list[int]()

    def dying(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.num_rows)
        if len(seen) == 2:
            postgres.kill()
        return batch

    try:
        with pytest.raises(StoreUnavailable):
            runner(dying).run()
    finally:
        postgres.start()
    assert 0 < sum(seen) < 25_000
    runner(None).run()
    assert sorted(gl.delta.open(tmp_path / "t").scan().to_arrow()["id"].to_pylist()) == list(range(25_000))


def test_what_the_server_refuses_is_told_for_what_it_is(postgres: Postgres, database: str) -> None:
    postgres.run(
        database,
        'CREATE SCHEMA "S x"',
        'CREATE TABLE "S x"."T y" ("Id" int PRIMARY KEY, "%w:v" text)',
        'INSERT INTO "S x"."T y" VALUES (1, \'z\')',
        "CREATE TABLE trips (id int PRIMARY KEY)",
    )
    odd = source(postgres.url(database), table="S x.T y", cursor_column="Id")
    assert [batch.to_pylist() for batch in odd.poll()] == [[{"Id": 1, "%w:v": "z"}]]
    percent = source(postgres.url(database), query="SELECT 1 AS id WHERE 'a:b' LIKE 'a%' AND 5 % 2 = 1; ", cursor_column="id")
    assert drained(percent) == [1]
    user = f"weak_{database}"
    postgres.run(database, f"CREATE ROLE {user} LOGIN PASSWORD 'x'")
    refused: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        (postgres.url(database, password="wr0ng"), {"table": "trips"}, AccessDenied, "password authentication failed"),
        (postgres.url(database, user=user, password="x"), {"table": "trips"}, AccessDenied, "permission denied"),
        (postgres.url("nowhere"), {"table": "trips"}, ObjectNotFound, "database .nowhere. does not exist"),
        (postgres.url(database), {"table": "trip"}, ObjectNotFound, r"schema\.table\. Did you mean 'trips'\?"),
        (postgres.url(database), {"query": "SELECT id FROM trip"}, InvalidOption, "does not exist"),
        (postgres.url(database), {"query": "DELETE FROM trips RETURNING id"}, InvalidOption, "syntax error"),
    ]
    for url, what, error, match in refused:
        with pytest.raises(error, match=match) as caught:
            source(url, cursor_column="id", **what).poll()
        assert "wr0ng" not in str(caught.value)
        assert "s3cret" not in str(caught.value)
