"""Queries while runs are committed: each answer is one committed state."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from gapless.lake.lake import Lake
from gapless.lake.opening import open_lake


@pytest.mark.parametrize(("commits", "queries"), [(6, 12), pytest.param(20, 100, marks=pytest.mark.long)])
def test_queries_while_runs_are_committed_each_see_one_committed_state(lake: Lake, commits: int, queries: int) -> None:
    """A commit replaces all rows by newer ones: an answer of two numbers would be of two states. Columns come and types change meanwhile."""
    table = lake.create_table("t", key="id")
    lake.run("t", [{"id": number, "v": 0} for number in range(5)])
    failures, done = list[Exception](), threading.Event()

    def write() -> None:
        try:
            writer = open_lake(lake.url, node="writer")
            for step in range(1, commits + 1):
                value: object = step if step < commits // 2 else f"{step}"
                row = {"v": value, **({"more": step} if step % 7 == 0 else {})}
                writer.run("t", pa.Table.from_pylist([{"id": number, **row} for number in range(5)]))
                if step % 5 == 0:
                    writer.table("t").compact(incremental=step % 10 == 0)
        except Exception as error:  # noqa: BLE001  # shown below
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen, asked = list[int](), 0
    while asked < queries or not done.is_set():
        (answer,) = lake.query("SELECT list(DISTINCT CAST(v AS INT)) AS v, count(*) AS n FROM t").to_arrow().to_pylist()
        assert answer["n"] == 5
        assert len(answer["v"]) == 1, answer
        seen += answer["v"]
        asked += 1
    thread.join()
    assert failures == []
    assert seen == sorted(seen)
    assert lake.query("SELECT v FROM t LIMIT 1").to_arrow().to_pylist() == [{"v": str(commits)}]
    assert table.history.schema.version == 2 + (commits >= 7)
