"""The DuckDB that queries share: they answer as in one of their own, and none leaves anything to the next."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from gapless.tables.shared.duckdb_session import STATEFUL_FUNCTIONS, SharedDuck, open_duckdb
from support.releases import needs_duckdb

DAY_US = 86_400_000_000
REFUSED = (duckdb.BinderException, duckdb.NotImplementedException)
"""After which `query_version` asks a DuckDB apart."""
ENDS = (2**63 - 1, -(2**63) + 1)
"""How DuckDB holds infinities."""


def instants() -> pa.Table:
    dice = np.random.default_rng(11)
    some = [
        *dice.integers(-62_100_000_000_000_000, 253_000_000_000_000_000, 4_000),
        *(np.arange(-2_000, 2_000) * DAY_US),
        *(np.arange(-2_000, 2_000) * DAY_US - 1),
        *range(-3, 4),
    ]
    us = pa.array([None, *ENDS, *(int(one) for one in some)], pa.int64())
    return pa.table({
        "tz": us.cast(pa.timestamp("us", "UTC")), "ts": us.cast(pa.timestamp("us")), "n": pa.array(np.arange(len(us)) % 5),
        "ns": pa.array(np.arange(len(us)) * 1_000_000_007, pa.timestamp("ns")),
        "nstz": pa.array(np.arange(len(us)) * 1_000_000_007, pa.timestamp("ns", "UTC")),
        "day": pa.array(np.arange(len(us)) % 40_000, pa.int32()).cast(pa.date32()),
        "part": pa.array([("hour", "day", "century", None)[n % 4] for n in range(len(us))]),
    })  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> SharedDuck:
    return SharedDuck()


@pytest.fixture(scope="module")
def apart() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_duckdb() as connection:
        connection.register("x", instants())
        yield connection


def answer(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    """The columns and rows, or that there are none."""
    try:
        return connection.sql(query).to_arrow_table().combine_chunks()
    except duckdb.Error as error:
        return type(error)


def both(shared: SharedDuck, apart: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, Any]:
    connection = shared.connection(query)
    assert connection is not None, query
    connection.register("x", instants())
    return answer(connection, query), answer(apart, query)


PARTS = ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century",
         "millennium", "isoyear", "HOUR", "hours", "us", "nonsense"]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_dates_are_cut_as_duckdb_alone_cuts_them(shared: SharedDuck, apart: duckdb.DuckDBPyConnection, part: str) -> None:
    query = f"select tz, date_trunc('{part}', tz), datetrunc('{part}', tz) from x"
    ours, theirs = both(shared, apart, query)
    assert ours == theirs
    assert part not in PARTS[:10] or ours.num_rows > 10_000


@pytest.mark.parametrize(
    "width", ["1 hour", "7 minutes", "1 day", "3 days", "1 week", "1 month", "5 months", "100 years", "1 microsecond"]
)
def test_buckets_are_those_of_duckdb_alone(shared: SharedDuck, apart: duckdb.DuckDBPyConnection, width: str) -> None:
    ours, theirs = both(
        shared, apart, f"select tz, time_bucket(interval '{width}', tz) from x where isfinite(tz) or tz is null"
    )
    assert ours == theirs
    assert ours.num_rows > 10_000


@pytest.mark.parametrize(
    "query",
    [
        "select date_trunc('hour', ts), date_trunc('day', day), date_trunc('hour', ns), date_trunc('day', nstz) from x",
        "select date_trunc('hour', interval '90 minutes'), date_trunc('day', current_date) is null",
        "select date_trunc(part, tz), date_trunc(part, ts) from x",
        "select time_bucket(interval '1 day', ts), time_bucket(interval '1 day', day), time_bucket(interval '1 hour', ns) from x",
        "select time_bucket(interval '1 day', day, day), time_bucket(interval '1 hour', tz, interval '5 minutes') from x where n = 1 and isfinite(tz)",
        "select time_bucket(interval '1 day', tz, 'America/New_York') from x where tz > '1990-01-01' and isfinite(tz)",
        "select date_trunc('hour', tz) as h, count(*) from x group by h order by h",
        "select date_trunc('month', tz), max(tz) from x group by all order by all",
        "select tz from x order by date_trunc('day', tz) desc nulls last, tz limit 50",
        "select date_trunc('hour', null::timestamptz)",
        "select date_trunc(null, tz) from x",
        "select date_trunc('hour', (select max(tz) from x where isfinite(tz)))",
        "select n, count(distinct date_trunc('year', tz)) from x group by n order by n",
        "with a as (select date_trunc('day', tz) as d from x) select count(*) from a join x on a.d = date_trunc('day', x.tz)",
        "select date_trunc('hour', columns('t[sz]')) from x",
        "pivot (select * from x where isfinite(tz)) on n using max(date_trunc('day', tz))",
    ],
)
def test_what_a_query_means_stays(shared: SharedDuck, apart: duckdb.DuckDBPyConnection, query: str) -> None:
    if query.startswith("pivot"):
        assert shared.connection(query) is None, "a statement of several"
        return
    ours, theirs = both(shared, apart, query)
    assert ours == theirs
    assert isinstance(ours, pa.Table), "it has an answer"


@pytest.mark.parametrize(
    "query",
    [
        "select date_trunc('hour', max(tz)) from x",
        "select date_trunc('hour', lag(tz) over (order by tz)) from x",
        "select date_trunc('hour', min(ts)) from x",
        "select date_trunc('era', tz) from x",
        "select list_transform([tz], lambda t: date_trunc('hour', t)) from x",
        "select date_trunc('hour', tz) as d, date_trunc('day', d) from x",
        "select date_trunc('hour', '2020-01-01 10:11:12')",
        "select date_trunc('hour', 5)",
        "select date_trunc('hour')",
    ],
)
def test_what_cannot_be_told_apart_by_type_is_refused_and_never_answered_otherwise(
    shared: SharedDuck, apart: duckdb.DuckDBPyConnection, query: str
) -> None:
    """`query_version` then asks a DuckDB apart: see `tests/tables/timeseries/read/test_sql.py`."""
    ours, theirs = both(shared, apart, query)
    assert isinstance(ours, pa.Table) or issubclass(ours, REFUSED)
    assert not isinstance(ours, pa.Table) or ours == theirs


@pytest.mark.parametrize(
    "query",
    ["create table t (a int)", "set threads = 1", "insert into x values (1)", "select 1; create table t (a int)", "select random()", "Select UUID ()",
     "select * from enable_logging()", 'select "nextval"(\'s\')', "attach ':memory:' as y", "explain analyze insert into t select 1", "selec", "",
     "from 's3://bucket/key.parquet'", pytest.param("pragma version", marks=needs_duckdb(2, "turns it into a query")), "call duckdb_tables()", "copy (select 1) to 'x.csv'", "use memory"],
)  # fmt: skip
def test_what_may_change_a_duckdb_or_is_no_query_is_not_asked_of_the_shared_one(shared: SharedDuck, query: str) -> None:
    assert shared.connection(query) is None


def test_every_function_that_answers_otherwise_each_time_is_known(apart: duckdb.DuckDBPyConnection) -> None:
    """Those are asked apart, since a cut date may be computed twice; and so is whatever switches something on or off."""
    found = apart.sql(
        "select distinct function_name from duckdb_functions() where stability = 'VOLATILE' or has_side_effects or (function_type = 'table' and "
        "regexp_matches(function_name, '^(add|create|deregister|destroy|disable|enable|force|register|remove|truncate)_'))"
    )
    names = {name for (name,) in found.fetchall()}
    assert len(names) > 15
    assert names <= STATEFUL_FUNCTIONS


def test_names_of_one_query_are_not_those_of_another(shared: SharedDuck) -> None:
    one, other = shared.connection("from a"), shared.connection("from a")
    assert one is not None
    assert other is not None
    one.register("a", pa.table({"n": [1]}))
    with pytest.raises(duckdb.CatalogException):
        other.sql("from a").fetchall()
    other.register("a", pa.table({"n": [2]}))
    assert (one.sql("from a").fetchall(), other.sql("from a").fetchall()) == ([(1,)], [(2,)])


def test_a_file_that_changes_is_read_again(shared: SharedDuck, tmp_path: Any) -> None:
    for value in (1, 2, 3):
        (tmp_path / "f.csv").write_text(f"a\n{value}\n")
        connection = shared.connection("select 1")
        assert connection is not None
        assert connection.sql(f"select a from read_csv('{tmp_path}/f.csv')").fetchall() == [(value,)]


def test_what_a_query_held_is_let_go(shared: SharedDuck) -> None:
    class Watched:
        def __init__(self) -> None:
            self.held = pa.table({"n": range(10)})

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self.held.__arrow_c_stream__(requested_schema)

    def ask() -> weakref.ref[Watched]:
        source = Watched()
        connection = shared.connection("from a")
        assert connection is not None
        connection.register("a", source)
        assert connection.sql("select sum(n) from a").fetchall() == [(45,)]
        return weakref.ref(source)

    left = [ask() for _ in range(20)]
    gc.collect()
    assert [one() for one in left] == [None] * 20


def test_many_threads_ask_at_once(shared: SharedDuck) -> None:
    found: list[list[tuple[int, ...]]] = []

    def ask(number: int) -> None:
        for _ in range(15):
            connection = shared.connection("from mine")
            assert connection is not None
            connection.register("mine", pa.table({"n": np.arange(50_000) + number}).to_reader(4_096))
            found.append(connection.sql(f"select min(n) - {number}, count(*) from mine").fetchall())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 90
    assert {row for rows in found for row in rows} == {(0, 50_000)}
