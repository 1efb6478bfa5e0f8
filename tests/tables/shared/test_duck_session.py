"""Sessions of DuckDB for expressions over rows in memory."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pytest

from gapless.tables.delta.expressions.evaluate import evaluate
from gapless.tables.shared import duckdb_session
from gapless.tables.shared.duckdb_session import FEW_ALONE, FEW_ROWS, duck_session
from support.releases import needs_duckdb

SCHEMA = pa.schema([("y", pa.int64())])


def doubled(number: int) -> list[int]:
    found: list[int] = evaluate(pa.table({"x": [number]}), {"y": "x * 2"}, SCHEMA).column("y").to_pylist()
    return found


@pytest.mark.parametrize("rows", [1, FEW_ROWS + 1])
def test_sessions_know_nothing_of_each_other(rows: int) -> None:
    for _ in range(2):
        with duck_session(rows) as session:
            session.execute("SET TimeZone = 'Asia/Tokyo'")
            session.register("given", pa.table({"a": [1]}))
            session.execute("CREATE TEMP TABLE held AS SELECT * FROM given")
    with duck_session(rows) as session:
        assert session.execute("SELECT current_setting('TimeZone')").fetchone() == ("UTC",)
        assert session.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)
        assert session.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)


@needs_duckdb(2, "takes the time for one of a later day")
def test_an_error_of_duckdbs_own_ends_no_session_but_its_own() -> None:
    """After it DuckDB answers nothing that is asked in the same one."""
    beyond_a_day = pa.table({"clock": pa.array([2**40], pa.int64()).view(pa.time64("us"))})
    with duck_session(1) as session:
        session.register("given", beyond_a_day)
        with pytest.raises(duckdb.InternalException):
            session.sql("SELECT clock::VARCHAR FROM given").fetchall()
    assert doubled(3) == [6]


def test_threads_have_sessions_of_their_own() -> None:
    start = threading.Barrier(8)

    def work(number: int) -> list[list[int]]:
        start.wait()
        return [doubled(number + step) for step in range(20)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert found == [[[2 * (number + step)] for step in range(20)] for number in range(8)]


def test_a_forked_process_has_its_own() -> None:
    assert doubled(1) == [2]
    child = multiprocessing.get_context("fork").Process(target=doubled, args=(2,))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_rows_that_are_looked_at_alone_need_no_duckdb_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doubled(1) == [2]
    begun: list[dict[str, str | int]] = []

    def opened(**settings: str | int) -> object:
        begun.append(settings)
        return real(**settings)

    real = duckdb_session.open_duckdb
    monkeypatch.setattr(duckdb_session, "open_duckdb", opened)
    for rows, expected in ((FEW_ROWS + 1, 0), (FEW_ALONE + 1, 1)):
        numbers = pa.table({"x": pa.array(range(rows), pa.int64())})
        found = evaluate(numbers, {"y": "x * 2"}, SCHEMA).column("y")
        assert found.slice(rows - 1).to_pylist() == [2 * (rows - 1)]
        assert len(found) == rows
        assert len(begun) == expected
