"""What bench/spark.py reads and writes: ticks as 20 files and as a table with as many segments, 2,000 small files, and DuckDB's answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl

FILES, SYMBOLS, SMALL_FILES, SMALL_ROWS = 20, 50, 2_000, 500
SYMBOL = "SYM7"
START = datetime(2026, 1, 5, tzinfo=UTC)
COLUMNS = "ts timestamp, symbol string, open double, high double, low double, close double, volume bigint"


@dataclass(frozen=True)
class Case:
    """One question: Spark's way to ask a frame, and SQL for who is asked first."""

    name: str
    ask: Callable[[Any], Any]
    """A DataFrame in, a DataFrame of the answer out."""
    sql: str
    columns: tuple[str, ...]
    late: bool = False
    """Only the last 5 % of the time, and one symbol."""


CASES = (
    Case(
        "full scan, 7 aggregates",
        lambda frame: frame.selectExpr(
            "max(ts)", "max(symbol)", "max(open)", "max(high)", "min(low)", "max(close)", "sum(volume)"
        ),
        "select max(ts), max(symbol), max(open), max(high), min(low), max(close), sum(volume) from t",
        ("ts", "symbol", "open", "high", "low", "close", "volume"),
    ),
    Case(
        "group by, 3 columns",
        lambda frame: (
            frame.groupBy("symbol")
            .agg({"high": "max", "volume": "sum"})
            .orderBy("symbol")
            .selectExpr("symbol", "`max(high)`", "`sum(volume)`")
        ),
        "select symbol, max(high), sum(volume) from t group by symbol order by symbol",
        ("symbol", "high", "volume"),
    ),
    Case("one column", lambda frame: frame.selectExpr("sum(volume)"), "select sum(volume) from t", ("volume",)),
    Case(
        "last 5 % and one symbol",
        lambda frame: frame.selectExpr("count(*)", "sum(volume)"),
        "select count(*), sum(volume) from t where ts >= ? and symbol = ?",
        ("ts", "symbol", "volume"),
        late=True,
    ),
)


@dataclass(frozen=True)
class Ticks:
    """The same rows twice: as they arrived, and as a table."""

    arrived: tuple[Path, ...]
    """Plain Parquet files, in order of time; symbols alternate."""
    table: gl.TimeSeriesTable
    segments: tuple[Path, ...]
    cut: datetime
    """Where the last 5 % begin."""

    def answer(self, case: Case) -> list[tuple[Any, ...]]:
        """DuckDB's, from the files that arrived."""
        with duckdb.connect() as connection:
            connection.execute("set timezone = 'UTC'")
            connection.read_parquet([str(path) for path in self.arrived]).create_view("t")
            found = connection.execute(case.sql, [self.cut, SYMBOL] if case.late else []).fetchall()
        return [normal(row) for row in found]


def normal(row: Any) -> tuple[Any, ...]:
    """An answer's row as plain values: times without a zone, in UTC."""
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def make_ticks(folder: Path, rows: int, files: int) -> Ticks:
    """Write `rows` rows as `files` files and as a table of as many segments."""
    arrived, per_file = folder / "arrived", rows // files
    arrived.mkdir(parents=True)
    table = gl.create(folder / "table", index="ts", entity=["symbol"], bucket="1m")
    step_us = 1_000_000
    for number in range(files):
        part = _ticks(number * per_file, per_file, step_us)
        pq.write_table(part, arrived / f"{number:05d}.parquet", compression="zstd", compression_level=1)
        table.append(part, on_overlap="allow")
    return Ticks(
        arrived=tuple(sorted(arrived.iterdir())),
        table=table,
        segments=tuple(folder / "table" / segment.path for segment in table.segments()),
        cut=START + timedelta(microseconds=int(per_file * files * 0.95) // SYMBOLS * step_us),
    )


def _ticks(first: int, rows: int, step_us: int) -> pa.Table:
    dice = np.random.default_rng(first)
    at = np.arange(first, first + rows)
    prices = {name: np.round(100 + dice.normal(0, 1, rows).cumsum() * 0.01, 4) for name in ("open", "high", "low", "close")}
    return pa.table(
        {
            "ts": pa.array(int(START.timestamp() * 1e6) + at // SYMBOLS * step_us, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", (at % SYMBOLS).astype(str))),
            **prices,
            "volume": dice.integers(0, 10_000, rows),
        }
    )
