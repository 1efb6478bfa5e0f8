"""Lakes: rows/s of a run beside pyarrow writing the same Parquet, and tables of 1,000 runs beside DuckDB on the same files. Not part of `make bench`.

- run: 2 million ticks in one piece, in pages of 100,000 rows, and as JSON's values, each into a lake, beside `pyarrow.parquet.write_table` of the
  same rows (zstd level 1; JSON's values made into Arrow first). The ratio is that of rows/s; the floor neither syncs, hashes nor commits. The
  goal is 0.8 for rows of Arrow; what JSON's values take beside `pyarrow.Table.from_pylist` is to see their types.
- view: 1,000 runs of 1,000 rows each. `views/<table>.sql` in a DuckDB beside `read_parquet` of the same files in the same DuckDB; for a table with
  a key beside the merge as one would write it by hand. The goal is 1.1. `lake.query` is a whole question from Python: manifests, a DuckDB of
  its own, the answer.

Both sides of a ratio alternate in one process; a first round of each is not counted. `--quick` is a slice that takes seconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl

RUN_GOAL, VIEW_GOAL = 0.8, 1.1
PAGE = 100_000
QUESTIONS = {
    "count": "SELECT count(*) FROM {}",
    "sum": "SELECT sum(price), max(id) FROM {}",
    "group": "SELECT symbol, count(*), avg(price) FROM {} GROUP BY symbol ORDER BY symbol",
}


def ticks(rows: int, first: int = 0) -> pa.Table:
    """Rows of fifty symbols in order of time, the first with the id `first`."""
    dice = np.random.default_rng(first)
    ids = np.arange(rows, dtype=np.int64) + first
    return pa.table(
        {
            "id": ids,
            "ts": pa.array(1_767_571_200_000_000 + ids * 1000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", dice.integers(0, 50, rows).astype(str))),
            "price": np.round(100 + dice.normal(0, 1, rows).cumsum() * 0.01, 4),
            "volume": dice.integers(1, 1000, rows),
        }
    )


def seconds(act: Callable[[], object]) -> float:
    """What an act takes, once."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def paged(rows: pa.Table, _saved: Any) -> Iterator[gl.lake.Page]:
    """A source that gives pages with a cursor behind each."""
    for at in range(0, rows.num_rows, PAGE):
        yield gl.lake.Page(rows.slice(at, PAGE), at + PAGE)


def write_floor(rows: pa.Table | list[dict[str, Any]], path: Path) -> None:
    """What a run is compared with."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    pq.write_table(table, path, compression="zstd", compression_level=1)


def run_costs(folder: Path, rows: int, rounds: int) -> Iterator[str]:
    """Lines of what runs take; each is into a table of its own, which is read back and counted."""
    table = ticks(rows)
    objects = table.slice(0, rows // 10).to_pylist()
    shapes: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "one piece": (table, table, {}),
        f"pages of {PAGE:,}": (table, partial(paged, table), {"cursor": "opaque"}),
        "JSON's values": (objects, objects, {}),
    }
    lake = gl.lake.init(folder / "runs")
    for name, (given, source, options) in shapes.items():
        ratios, rates = [], []
        for number in range(rounds + 1):
            floor = seconds(partial(write_floor, given, folder / "floor.parquet"))
            into = f"t{len(lake.tables())}"
            lake.create_table(into)
            ours = seconds(partial(lake.run, into, source, **options))
            assert lake.table(into).count() == len(given)
            if number:
                ratios.append(floor / ours)
                rates.append(len(given) / ours)
        goal = "" if given is objects else f", goal {RUN_GOAL}"
        yield line(f"run, {name}", ratios, f"{statistics.median(rates) / 1e6:5.2f} M rows/s{goal}")


def merged(files: list[str]) -> str:
    """Of each key the newest row, as one would write it by hand."""
    return (
        f"(SELECT id, ts, symbol, price, volume FROM read_parquet({files}, filename = true, file_row_number = true) "
        "QUALIFY row_number() OVER (PARTITION BY id ORDER BY filename DESC, file_row_number DESC) = 1)"
    )


def view_costs(folder: Path, runs: int, rounds: int) -> Iterator[str]:
    """Lines of what questions take of many runs."""
    lake = gl.lake.init(folder / "views")
    connection = duckdb.connect()
    connection.execute(f"SET file_search_path = '{folder / 'views'}'")
    for table, key in (("plain", []), ("keyed", ["id"])):
        lake.create_table(table, key=key)
        for number in range(runs):
            lake.run(table, ticks(1000, number * 900 if key else number * 1000))
        # Paths from the lake on, as the view has them.
        data = Path("tables") / table / "data" / "runs"
        files = [str(one.relative_to(folder / "views")) for one in sorted((folder / "views" / data).glob("*/*/part-*.parquet"))]
        assert len(files) == runs
        connection.execute((folder / "views" / "views" / f"{table}.sql").read_text())
        floor = merged(files) if key else f"read_parquet({files})"
        for name, question in QUESTIONS.items():
            asked: dict[str, Callable[[], list[tuple[Any, ...]]]] = {
                "duckdb": partial(fetch, connection, question.format(floor)),
                "view": partial(fetch, connection, question.format(table)),
                "lake.query": partial(ask, lake, question.format(table)),
            }
            answers = [[tuple(map(rounded, row)) for row in act()] for act in asked.values()]
            assert answers[0] == answers[1] == answers[2], name
            took: dict[str, list[float]] = {side: [] for side in asked}
            for number in range(rounds):
                for side in list(asked) if number % 2 == 0 else reversed(asked):
                    took[side].append(seconds(asked[side]))
            for side in ("view", "lake.query"):
                ratios = [ours / theirs for ours, theirs in zip(took[side], took["duckdb"], strict=True)]
                goal = f", goal {VIEW_GOAL}" if side == "view" else ""
                yield line(f"{side}, {table}, {name}", ratios, f"{statistics.median(took[side]) * 1e3:7.1f} ms{goal}")


def fetch(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """What a DuckDB that is open answers."""
    return connection.sql(sql).fetchall()


def ask(lake: gl.lake.Lake, sql: str) -> list[tuple[Any, ...]]:
    """What a lake answers, as `fetch` gives it."""
    return [tuple(row.values()) for row in lake.query(sql).to_arrow().to_pylist()]


def rounded(value: Any) -> Any:
    """Sums of doubles depend on the order."""
    return round(value, 4) if isinstance(value, float) else value


def line(name: str, ratios: list[float], more: str) -> str:
    """One line of the output."""
    return f"{name:26} {min(ratios):5.2f} / {statistics.median(ratios):5.2f} / {max(ratios):5.2f}  {more}"


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="100,000 rows, 30 runs, 2 rounds")
    asked = parser.parse_args()
    rows, runs, rounds = (100_000, 30, 2) if asked.quick else (asked.rows, asked.runs, asked.rounds)
    print(f"{'x the floor':26} {'min / median / max':21}")
    with tempfile.TemporaryDirectory() as folder:
        for costs in (run_costs(Path(folder), rows, rounds), view_costs(Path(folder), runs, rounds)):
            for one in costs:
                print(one, flush=True)


if __name__ == "__main__":
    main()
