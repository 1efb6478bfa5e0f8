"""Queries that go only so far: interrupted ones end, and no more are begun than may be at work."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread

import pytest

from gapless.cli.lake.mcp_server import AT_ONCE, LakeTools
from gapless.errors import GaplessError, InvalidOption, InvalidQuery, QueryLimitExceeded
from gapless.lake.lake import Lake
from gapless.lake.limits import LimitedQuery, QueryLimits

RUNAWAY = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
LONG = QueryLimits(seconds=600)


def run_into(query: LimitedQuery, failures: list[GaplessError]) -> None:
    try:
        query.run()
    except GaplessError as error:
        failures.append(error)


def test_an_interrupted_query_ends_long_before_its_time_and_leaves_room_for_others(lake: Lake) -> None:
    tools = LakeTools(lake=lake, limits=LONG)
    queries = [tools.prepare({"sql": RUNAWAY, "fingerprints": {}}) for _ in range(AT_ONCE)]
    failures = list[GaplessError]()
    threads = [Thread(target=run_into, args=(one, failures), daemon=True) for one in queries]
    for query, thread in zip(queries, threads, strict=True):
        tools.admit(query)
        thread.start()
    small = tools.prepare({"sql": "SELECT 1 AS n", "fingerprints": {}})
    with pytest.raises(QueryLimitExceeded, match="queries are at work"):
        tools.admit(small)
    while any(thread.is_alive() for thread in threads):  # one may be interrupted between its connection and its start
        for query in queries:
            query.interrupt()
        threads[0].join(0.01)
    assert [type(one) for one in failures] == [InvalidQuery] * AT_ONCE
    tools.admit(small)
    assert small.run().table.to_pylist() == [{"n": 1}]


def test_a_process_may_end_while_duckdb_lets_go_of_a_query(lake: Lake) -> None:
    code = f"""
from gapless.lake.opening import open_lake
from gapless.lake.limits import QueryLimits
for sql, seconds in (("SELECT 1", 60), ({RUNAWAY!r}, 0.1)):
    try:
        open_lake({lake.url!r}, read_only=True).limited_query(sql, fingerprints={{}}, limits=QueryLimits(seconds=seconds)).run()
    except Exception as error:
        print(error.code)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "query-limit-exceeded\n", "")


def test_a_query_that_was_interrupted_before_it_began_does_not_begin(lake: Lake) -> None:
    query = lake.limited_query(RUNAWAY, fingerprints={}, limits=LONG)
    query.interrupt()
    assert query.ended
    with pytest.raises(InvalidQuery, match="before it began"):
        query.run()


@pytest.mark.parametrize(
    "given", [{"rows": 0}, {"seconds": "1"}, {"seconds": 0}, {"memory_bytes": True}, {"answer_bytes": 1.5}]
)
def test_what_is_no_limit_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="is no limit"):
        QueryLimits(**given)  # type: ignore[arg-type]
