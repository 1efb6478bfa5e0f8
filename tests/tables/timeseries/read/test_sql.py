"""SQL over a pinned version: names, parameters, refusals, and that DuckDB loses nothing in silence."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidQuery, NotSupported
from gapless.tables.shared.duckdb_session import duck_type

T0 = datetime(2024, 1, 1, tzinfo=UTC)
_counter = itertools.count()


def table_of(columns: dict[str, Any], name: str = "prices") -> gl.TimeSeriesTable:
    rows = len(next(iter(columns.values())))
    table = gl.create(f"memory://sql-{next(_counter)}/{name}", index="ts", bucket="1h")
    table.append({"ts": [T0 + timedelta(minutes=m) for m in range(rows)], **columns})
    return table


def answer(table: gl.TimeSeriesTable, query: str, parameters: object = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.sql(query, parameters).to_arrow().to_pylist()
    return found


@pytest.mark.parametrize(
    "name", ["prices", "my-table", "Select", "a b", 'q"uote', "it's", "größe.日本", "this", "1st", "a.b", "$x"]
)
def test_a_table_is_known_by_its_name_and_as_this(name: str) -> None:
    table = table_of({"x": [1, 2]}, name)
    assert table.name == name
    quoted = name.replace('"', '""')
    assert answer(table, f'SELECT sum(x) AS s FROM "{quoted}"') == answer(table, "SELECT sum(x) AS s FROM this") == [{"s": 3}]


@pytest.mark.parametrize("name", ["prices", 'q"uote', "it's"])
def test_names_work_where_a_column_must_be_withheld(name: str) -> None:
    table = table_of({'it\'s "d"': pa.array([1, 2], pa.duration("ns")), "x": [1, 2]}, name)
    quoted = name.replace('"', '""')
    assert answer(table, f'SELECT x FROM "{quoted}" ORDER BY x') == [{"x": 1}, {"x": 2}]


def test_a_table_joins_with_itself() -> None:
    table = table_of({"n": [1, 2, 3]})
    query = "SELECT a.n, b.n AS m FROM prices a JOIN this b ON a.n = b.n + 1 WHERE b.n > 1"
    assert answer(table, query) == [{"n": 3, "m": 2}]


@pytest.mark.parametrize(
    ("query", "parameters"),
    [("n = ?", [2]), ("n = $1", [2]), ("n = $k", {"k": 2}), ("ts = $k", {"k": T0 + timedelta(minutes=1)}), ("s = ?", ["it's"])],
)
def test_parameters(query: str, parameters: object) -> None:
    table = table_of({"n": [1, 2], "s": ["a", "it's"]})
    assert answer(table, f"SELECT n FROM this WHERE {query}", parameters) == [{"n": 2}]


@pytest.mark.parametrize(
    "query",
    [
        "SELEC 1",
        "SELECT nope FROM this",
        "SELECT * FROM others",
        "SELECT * FROM this WHERE n = ?",
        "INSERT INTO this VALUES (1)",
        "DELETE FROM prices",
        "SELECT CAST('a' AS INTEGER) FROM this",
        "SELECT error('boom') FROM this",
        "SELECT s::INTEGER FROM this",
        "SELECT * FROM table",
    ],
)
def test_what_duckdb_cannot_answer_is_one_typed_error(query: str) -> None:
    table = table_of({"n": [1, 2], "s": ["a", "b"]})
    with pytest.raises(InvalidQuery) as refusal:
        answer(table, query)
    assert refusal.value.sql == query
    assert "'prices' and 'this'" in str(refusal.value)
    assert answer(table, "SELECT count(*) AS n FROM this") == [{"n": 2}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT date_trunc('hour', max(ts)) AS t FROM this",
        "SELECT max(t) AS t FROM (SELECT date_trunc('hour', lag(ts) OVER (ORDER BY ts)) AS t FROM this)",
        "SELECT max(h) AS t FROM (SELECT date_trunc('hour', ts) AS h FROM this)",
        "SELECT max(time_bucket(INTERVAL 1 HOUR, ts)) AS t FROM prices WHERE random() >= 0",
        "SELECT list_transform([max(ts)], lambda x: date_trunc('hour', x))[1] AS t FROM this",
        "SET TimeZone = 'America/New_York'; SELECT date_trunc('hour', max(ts)) AS t FROM this",
    ],
)
def test_times_are_cut_wherever_a_query_does_so(query: str) -> None:
    table = table_of({"n": range(150)})
    assert answer(table, query)[0]["t"].astimezone(UTC) == T0 + timedelta(hours=2)


def test_what_a_query_sets_or_makes_is_not_there_for_the_next() -> None:
    table = table_of({"n": [1, 2]})
    cut = "SELECT date_trunc('day', ts) AS t FROM this LIMIT 1"
    assert answer(table, f"SET TimeZone = 'America/New_York'; {cut}")[0]["t"] == T0 - timedelta(hours=19)
    assert answer(table, f"CREATE TABLE made AS SELECT 1; {cut}")[0]["t"] == T0
    with pytest.raises(InvalidQuery, match="made"):
        answer(table, "SELECT * FROM made")
    assert answer(table, cut)[0]["t"] == T0
    assert answer(table, "SELECT current_setting('TimeZone') AS z") == [{"z": "UTC"}]


def test_an_error_of_duckdbs_own_ends_no_query_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """After it DuckDB answers nothing that is asked in the same one."""
    beyond_a_day = pa.array([2**40], pa.int64()).view(pa.time64("us"))
    with monkeypatch.context() as patched:
        # Earlier releases took such values in.
        patched.setattr("gapless.files.ingest.batches.forbidden_values", lambda _batch: [])
        table = table_of({"clock": beyond_a_day})
    other = table_of({"n": range(100_000)})
    begun = other.sql("SELECT n FROM this")
    for _ in range(2):
        with pytest.raises(InvalidQuery, match="INTERNAL"):
            table.sql("SELECT clock::VARCHAR FROM this").to_arrow()
        assert answer(table, "SELECT count(*) AS n FROM this") == [{"n": 1}]
        assert answer(other, "SELECT max(n) AS n FROM this") == [{"n": 99_999}]
    assert begun.to_arrow().num_rows == 100_000


def test_tables_of_one_name_do_not_meet() -> None:
    one, other = table_of({"n": [1]}), table_of({"n": [2], "m": [3]})
    begun = one.sql("SELECT n FROM prices")
    assert answer(other, "SELECT n, m FROM this") == [{"n": 2, "m": 3}]
    assert begun.to_arrow().column("n").to_pylist() == [1]


def test_python_variables_are_no_tables() -> None:
    others = pa.table({"n": [1]})
    assert others.num_rows == 1
    with pytest.raises(InvalidQuery, match="others"):
        answer(table_of({"n": [1]}), "SELECT * FROM others")


def test_an_answer_is_lazy_and_can_be_read_again() -> None:
    table = table_of({"n": [3, 1, 2]})
    rows = table.sql("SELECT n FROM this ORDER BY n")
    assert rows.schema == pa.schema([("n", pa.int64())])
    assert rows.to_arrow() == rows.to_arrow()
    assert rows.count() == 3
    assert rows.to_pandas()["n"].tolist() == rows.to_polars()["n"].to_list() == [1, 2, 3]


def test_an_error_of_a_later_row_is_typed_too() -> None:
    table = table_of({"s": ["1"] * 5_000 + ["x"]})
    with pytest.raises(InvalidQuery, match="Could not convert"):
        table.sql("SELECT s::INTEGER AS n FROM this").to_arrow()


def test_an_empty_table_and_one_without_a_schema() -> None:
    table = gl.create(f"memory://sql-{next(_counter)}", index="ts", bucket="1h")
    with pytest.raises(InvalidQuery):
        answer(table, "SELECT ts FROM this")
    table.append({"ts": pa.array([], pa.timestamp("us", "UTC")), "n": pa.array([], pa.int8())})
    assert table.sql("SELECT * FROM this").to_arrow().schema.names == ["ts", "n"]
    assert answer(table, "SELECT count(*) AS c FROM this") == [{"c": 0}]


def test_times_come_back_in_utc_wherever_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        table = table_of({"local": pa.array([T0], pa.timestamp("s", "America/New_York"))})
        found = table.sql("SELECT local, local::VARCHAR AS text FROM this").to_arrow()
        assert found.schema.field("local").type == pa.timestamp("us", "UTC")
        assert found.column("text").to_pylist() == ["2024-01-01 00:00:00+00"]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_nanoseconds_are_kept_with_and_without_a_zone(zone: str | None) -> None:
    ns = [1, 1001, 1_704_067_200_123_456_789]
    table = table_of({"t": pa.array(ns, pa.timestamp("ns", zone)), "n": [0, 1, 2]})
    found = table.sql("SELECT t FROM this ORDER BY t").to_arrow().column("t")
    assert found.cast(pa.int64()).to_pylist() == ns
    assert found.type.unit == "ns"
    at = "2024-01-01 00:00:00.123456789" + ("" if zone is None else "+00")
    assert answer(table, f"SELECT n FROM this WHERE t = '{at}'") == [{"n": 2}]
    assert answer(table, f"SELECT n FROM this WHERE t < '{at}' ORDER BY n") == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32(), pa.float16()])
@pytest.mark.parametrize("local", [True, False])
def test_stat_02_a_comparison_keeps_nan_as_a_scan_does(tmp_path: Path, type_: pa.DataType, local: bool) -> None:
    place = str(tmp_path / "t") if local else f"memory://sql-{next(_counter)}"
    table = gl.create(place, index="i", index_type="int64", bucket=1)
    for number, values in enumerate(([0.0, 9.0], [100.0, 109.0], [300.0, math.nan], [math.nan, math.nan])):
        table.append({"i": [number, number], "x": pa.array(values, type_), "s": [f"a{number}"] * 2})
    conditions = (
        "x > 250",
        "x >= 300",
        "x < 5",
        "x > 300",
        "isnan(x)",
        "NOT x <= 250",
        "x = 'NaN'::DOUBLE",
        "x BETWEEN 105 AND 'NaN'::FLOAT",
        "s LIKE 'a%'",
    )
    counts = {
        where: (table.scan(where=where).count(), len(answer(table, f"SELECT i FROM this WHERE {where}")))
        for where in conditions
    }
    assert [scanned for scanned, _ in counts.values()] == [4, 4, 1, 3, 3, 4, 3, 5, 8]
    assert all(scanned == queried for scanned, queried in counts.values())


HELD: dict[str, tuple[pa.Array, pa.DataType]] = {
    "half floats": (pa.array([1.5, None], pa.float16()), pa.float32()),
    "wide decimals that fit": (pa.array([Decimal("1.25"), None], pa.decimal256(38, 2)), pa.decimal128(38, 2)),
    "nested half floats": (
        pa.array([[{"h": 1.5}], None], pa.list_(pa.struct([("h", pa.float16())]))),
        pa.list_(pa.struct([("h", pa.float32())])),
    ),
    "dates in ms": (pa.array([0, None], pa.date64()), pa.date32()),
    "seconds with a zone": (pa.array([5, None], pa.timestamp("s", "Asia/Tokyo")), pa.timestamp("us", "UTC")),
    "times in s": (pa.array([5, None], pa.time32("s")), pa.time64("us")),
    "times in ns": (pa.array([5, None], pa.time64("ns")), pa.time64("ns")),
    "fixed binaries": (pa.array([b"abc", None], pa.binary(3)), pa.binary()),
}


@pytest.mark.parametrize("name", HELD)
def test_a_type_that_duckdb_names_otherwise_is_exact(name: str) -> None:
    array, type_ = HELD[name]
    table = table_of({"v": array})
    found = table.sql("SELECT v FROM this ORDER BY ts").to_arrow().column("v").combine_chunks()
    assert found.type == type_
    assert found.to_pylist() == array.cast(type_).to_pylist()
    assert answer(table, "SELECT count(*) AS n FROM this WHERE v IS NOT NULL") == [{"n": 1}]


def test_durations_are_intervals_and_never_wrap() -> None:
    table = table_of({"d": pa.array([1_500, None], pa.duration("ms")), "n": [1, 2]})
    assert answer(table, "SELECT n FROM this WHERE d > INTERVAL 1 SECOND") == [{"n": 1}]
    assert table.sql("SELECT d FROM this WHERE n = 1").to_arrow().column("d")[0].as_py().nanoseconds == 1_500_000_000
    ages = table_of({"d": pa.array([300 * 365 * 86_400], pa.duration("s")), "n": [1]})
    assert answer(ages, "SELECT n FROM this") == [{"n": 1}]
    with pytest.raises(InvalidQuery, match="out of bounds"):
        answer(ages, "SELECT d FROM this")


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1], pa.duration("ns")),
        pa.array([Decimal(1)], pa.decimal256(39, 0)),
        pa.array([[Decimal(1)]], pa.list_(pa.decimal256(76, 0))),
        pa.array([{"d": 1}], pa.struct([("d", pa.duration("ns"))])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_column_that_duckdb_cannot_hold_is_refused_once_it_is_read(array: pa.Array) -> None:
    table = table_of({"v": array, "n": [1]})
    assert duck_type(array.type) is None
    for query in (
        "SELECT n FROM this",
        "SELECT * EXCLUDE (v) FROM this WHERE n = 1",
        "SELECT a.n FROM this a JOIN prices b USING (n)",
    ):
        assert answer(table, query)[0]["n"] == 1
    for query in (
        "SELECT * FROM this",
        "SELECT v FROM this",
        "SELECT n FROM this WHERE v IS NOT NULL",
        "SELECT count(v) FROM this",
    ):
        with pytest.raises(InvalidQuery, match="Column 'v' is"):
            answer(table, query)
    with pytest.raises(NotSupported, match="Column 'v' is"):
        table.scan().to_duckdb()
    assert table.scan(columns=["n"]).to_duckdb().fetchall() == [(1,)]


def test_names_that_differ_in_case_are_not_mixed_up() -> None:
    """DuckDB would give column A for "a" as well."""
    table = table_of({"A": [1], "a": [2], "n": [3]})
    assert answer(table, "SELECT n FROM this") == [{"n": 3}]
    for query in ('SELECT "a" FROM this', 'SELECT "A" FROM this', "SELECT * FROM this"):
        with pytest.raises(InvalidQuery, match="has a twin in another case"):
            answer(table, query)
    assert table.scan(where='"a" = 2 AND "A" = 1').count() == 1


def test_stat_03_infinities_are_found_and_the_log_is_strict_json() -> None:
    import json

    from gapless.store.open import open_store

    table = table_of({"x": [1.0, math.inf, -math.inf, math.nan]})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    store = open_store(table.url)
    for info in store.list("_timeseries_log"):
        if info.path.endswith(".json"):
            json.loads(store.get(info.path), parse_constant=refuse)
    assert table.scan(where="x > 1e308").to_arrow().column("x").to_pylist()[0] == math.inf
    assert table.scan(where="x > 1e308 AND NOT isnan(x)").count() == 1
    assert len(answer(table, "SELECT x FROM this WHERE x < -1e308")) == 1
