"""Reading a table of ticks: gapless beside pyarrow, DuckDB and Polars over the same files, in turns, in one run.

Three layouts of the same rows: a segment a day, as they are appended; one compacted table; and, as the floor of a plain file, one file in
arrival order, which `pyarrow.parquet.write_table` wrote. Every contender's answer is compared. Times are ratios to the plain pyarrow scan of
the same layout (`pyarrow.dataset` with a filter); DuckDB and Polars are given the files. Nobody but gapless checks bytes.

    python bench/bench_scan.py [--rows 3000000] [--repeats 9] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import gapless as gl

SYMBOLS, DAYS = 50, 25
START = datetime(2026, 1, 5, tzinfo=UTC)
COLUMNS = ["ts", "symbol", "open", "high", "low", "close", "volume"]
SYMBOL, DAY = "SYM17", START + timedelta(days=11)
WEEK = START + timedelta(days=7)


def ticks(rows: int) -> pa.Table:
    """Ticks in arrival order: time rises, irregularly; symbols in no order."""
    dice = np.random.default_rng(7)
    span_us = DAYS * 86_400_000_000
    ts = int(START.timestamp()) * 1_000_000 + np.sort(dice.integers(0, span_us, rows))
    prices = {name: np.round(100 + dice.normal(0, 1, rows).cumsum() * 0.01, 4) for name in ("open", "high", "low", "close")}
    names = np.array([f"SYM{n}" for n in range(SYMBOLS)])[dice.integers(0, SYMBOLS, rows)]
    return pa.table(
        {"ts": pa.array(ts, pa.timestamp("us", "UTC")), "symbol": names, **prices, "volume": dice.integers(0, 10_000, rows)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way in which the rows lie."""

    name: str
    table: gl.TimeSeriesTable
    files: list[str]
    """What the other engines read."""


def layouts(rows: int, folder: Path) -> list[Layout]:
    """The table as appended day by day, compacted, and beside one plain file."""
    data = ticks(rows)
    daily, whole = (gl.create(folder / name, index="ts", entity=["symbol"], bucket="1m") for name in ("daily", "whole"))
    for day in range(DAYS):
        start, end = (pa.scalar(START + timedelta(days=day + n), pa.timestamp("us", "UTC")) for n in (0, 1))
        part = data.filter((pc.field("ts") >= start) & (pc.field("ts") < end))
        daily.append(part)
        whole.append(part)
    whole.compact()
    pq.write_table(data, folder / "plain.parquet", compression="zstd", compression_level=1)
    found = [Layout(name=name, table=table, files=files_of(table)) for name, table in (("daily", daily), ("compacted", whole))]
    return [*found, Layout(name="one plain file", table=whole, files=[str(folder / "plain.parquet")])]


def files_of(table: gl.TimeSeriesTable) -> list[str]:
    return [f"{table.url}/{segment.path}" for segment in table.segments()]


Ask = Callable[[Layout], pa.Table]


def arrow(layout: Layout, **asked: object) -> pa.Table:
    return ds.dataset(layout.files, format="parquet").to_table(**asked)


def within(start: datetime, days: int, symbol: str | None = None) -> pc.Expression:
    kept = (pc.field("ts") >= start) & (pc.field("ts") < start + timedelta(days=days))
    return kept if symbol is None else kept & (pc.field("symbol") == symbol)


def duck(sql: str, layout: Layout) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(sql.format(t="read_parquet($files)"), params={"files": layout.files}).to_arrow_table()


def lazy(layout: Layout) -> pl.LazyFrame:
    return pl.scan_parquet(layout.files)


ONE_DAY = f"select * from {{t}} where symbol = '{SYMBOL}' and ts >= '{DAY}' and ts < '{DAY + timedelta(days=1)}' order by ts"
ALL_DAY = f"select * from {{t}} where ts >= '{DAY}' and ts < '{DAY + timedelta(days=1)}'"
HOURLY = (
    "select symbol, time_bucket(interval '1 hour', ts) as hour, avg(close) as mean, max(high) as high, sum(volume)::bigint as volume from {t} "
    f"where ts >= '{WEEK}' and ts < '{WEEK + timedelta(days=7)}' group by all"
)
"""`time_bucket` counts microseconds where DuckDB's `date_trunc` of an aware time asks a calendar, which takes it three times as long."""
FACTS = "select count(*) as rows, min(ts) as first, max(ts) as last, count(distinct symbol) as symbols from {t}"


def arrow_hourly(layout: Layout) -> pa.Table:
    rows = arrow(layout, columns=["symbol", "ts", "close", "high", "volume"], filter=within(WEEK, 7))
    rows = rows.append_column("hour", pc.floor_temporal(rows["ts"], unit="hour"))
    found = rows.group_by(["symbol", "hour"]).aggregate([("close", "mean"), ("high", "max"), ("volume", "sum")])
    return found.rename_columns(["symbol", "hour", "mean", "high", "volume"])


def arrow_facts(layout: Layout) -> pa.Table:
    rows = arrow(layout, columns=["ts", "symbol"])
    ends = pc.min_max(rows["ts"]).as_py()
    return facts(rows.num_rows, ends["min"], ends["max"], pc.count_distinct(rows["symbol"]).as_py())


def facts(rows: int, first: datetime, last: datetime, symbols: int) -> pa.Table:
    return pa.table({"rows": [rows], "first": [first], "last": [last], "symbols": [symbols]})


def polars_hourly(layout: Layout) -> pa.Table:
    week = lazy(layout).filter(pl.col("ts").is_between(WEEK, WEEK + timedelta(days=7), closed="left"))
    by = week.group_by("symbol", pl.col("ts").dt.truncate("1h").alias("hour"))
    of = (pl.col("close").mean().alias("mean"), pl.col("high").max(), pl.col("volume").sum())
    return by.agg(*of).collect().to_arrow()


def polars_facts(layout: Layout) -> pa.Table:
    ts = pl.col("ts")
    of = (pl.len().alias("rows"), ts.min().alias("first"), ts.max().alias("last"), pl.col("symbol").n_unique().alias("symbols"))
    return lazy(layout).select(*of).collect().to_arrow()


def polars_day(layout: Layout) -> pa.Table:
    in_day = pl.col("ts").is_between(DAY, DAY + timedelta(days=1), closed="left")
    return lazy(layout).filter(in_day & (pl.col("symbol") == SYMBOL)).collect().to_arrow()


def polars_all_day(layout: Layout) -> pa.Table:
    return lazy(layout).filter(pl.col("ts").is_between(DAY, DAY + timedelta(days=1), closed="left")).collect().to_arrow()


def gapless_day(layout: Layout) -> pa.Table:
    return layout.table.scan(DAY, DAY + timedelta(days=1), entity={"symbol": SYMBOL}).to_arrow()


def gapless_facts(layout: Layout) -> pa.Table:
    bounds = layout.table.bounds()
    assert bounds is not None
    return facts(layout.table.count(), *bounds, len(layout.table.identities()))


QUERIES: dict[str, dict[str, Ask]] = {
    "one symbol's day": {
        "pyarrow": lambda layout: arrow(layout, filter=within(DAY, 1, SYMBOL)),
        "gapless scan": gapless_day,
        "gapless sql": lambda layout: layout.table.sql(ONE_DAY.format(t="this")).to_arrow(),
        "duckdb": lambda layout: duck(ONE_DAY, layout),
        "polars": polars_day,
    },
    "a day of all symbols": {
        "pyarrow": lambda layout: arrow(layout, filter=within(DAY, 1)),
        "gapless scan": lambda layout: layout.table.scan(DAY, DAY + timedelta(days=1)).to_arrow(),
        "duckdb": lambda layout: duck(ALL_DAY, layout),
        "polars": polars_all_day,
    },
    "a week by hour": {
        "pyarrow": arrow_hourly,
        "gapless sql": lambda layout: layout.table.sql(HOURLY.format(t="this")).to_arrow(),
        "duckdb": lambda layout: duck(HOURLY, layout),
        "polars": polars_hourly,
    },
    "count, ends, symbols": {
        "pyarrow": arrow_facts,
        "gapless": gapless_facts,
        "gapless sql": lambda layout: layout.table.sql(FACTS.format(t="this")).to_arrow(),
        "duckdb": lambda layout: duck(FACTS, layout),
        "polars": polars_facts,
    },
}


def same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two answers hold the same rows, whatever their order; floats to within 1e-9 of each other, since sums depend on the order."""
    one, other = plain(left), plain(right)
    return len(one) == len(other) and all(
        near(a, b) for row, like in zip(one, other, strict=True) for a, b in zip(row, like, strict=True)
    )


def plain(table: pa.Table) -> list[tuple[object, ...]]:
    """Rows in one order, by what is no float before what is one."""
    floats = {name for name in table.column_names if pa.types.is_floating(table.schema.field(name).type)}
    names = sorted(table.column_names, key=lambda name: (name in floats, name))
    columns = [
        table[name].to_pylist() if name in floats else [str(v).replace("+00:00", "") for v in table[name].to_pylist()]
        for name in names
    ]
    return sorted(zip(*columns, strict=True))


def near(left: object, right: object) -> bool:
    """Whether two values are equal, or floats that are nearly so."""
    return math.isclose(left, right, rel_tol=1e-9) if isinstance(left, float) and isinstance(right, float) else left == right


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one question cost."""

    wall: float
    cpu: float


def measured(ask: Ask, layout: Layout) -> Took:
    began, cpu = time.perf_counter(), time.process_time()
    ask(layout)
    return Took(wall=time.perf_counter() - began, cpu=time.process_time() - cpu)


def race(asks: dict[str, Ask], layout: Layout, repeats: int) -> dict[str, list[Took]]:
    """Every contender once a round, so that what else the machine does meets all of them; the first round checks answers."""
    answers = {name: ask(layout) for name, ask in asks.items()}
    wrong = [name for name, answer in answers.items() if not same(answer, answers["pyarrow"])]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)} answers differently from pyarrow ({layout.name})")
    rounds = [{name: measured(ask, layout) for name, ask in asks.items()} for _ in range(repeats)]
    return {name: [one[name] for one in rounds] for name in asks}


def report(query: str, layout: Layout, took: dict[str, list[Took]]) -> list[dict[str, object]]:
    print(f"{query}, {layout.name} ({len(layout.files)} files): time x pyarrow, min / median / max; processor x; median ms")
    floor, lines = took["pyarrow"], []
    for name, found in took.items():
        wall = [one.wall / base.wall for one, base in zip(found, floor, strict=True)]
        cpu = statistics.median(one.cpu for one in found) / statistics.median(one.cpu for one in floor)
        median_ms = statistics.median(one.wall for one in found) * 1e3
        print(
            f"  {name:14} {min(wall):6.3f} / {statistics.median(wall):6.3f} / {max(wall):6.3f}   {cpu:6.3f}   {median_ms:8.2f}"
        )
        lines.append(
            {"query": query, "layout": layout.name, "contender": name, "x": sorted(wall), "cpu_x": cpu, "ms": median_ms}
        )
    return lines


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=3_000_000)
    asked.add_argument("--repeats", type=int, default=9)
    asked.add_argument("--json", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            line
            for layout in layouts(options.rows, Path(folder))
            for query, asks in QUERIES.items()
            for line in report(query, layout, race(asks, layout, options.repeats))
        ]
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
