"""The questions, as SQL for engines that speak it and as pyarrow for those that only scan."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from contest.workload import MINUTE_US

BY_HOUR = (
    "select symbol, date_trunc('hour', ts) as hour, count(*) as rows, max(high) as high, avg(close) as close, "
    "cast(sum(volume) as bigint) as volume from {table} group by symbol, date_trunc('hour', ts)"
)
GAPS = (
    "select symbol, before + interval '1 minute' as start, minute as \"end\" from (select symbol, minute, lag(minute) over "
    "(partition by symbol order by minute) as before from (select symbol, date_trunc('minute', ts) as minute from {table}) as minutes) "
    "as pairs where minute > before + interval '1 minute'"
)
TOTALS = "select count(*) as rows, cast(sum(volume) as bigint) as volume from {table}"


def instant(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)


def iso(us: int) -> str:
    """As `2025-01-01 00:00:00`, in UTC."""
    return f"{instant(us):%Y-%m-%d %H:%M:%S}"


def day_filter(symbol: str, start_us: int, end_us: int) -> pc.Expression:
    ends = [pa.scalar(us, pa.timestamp("us", "UTC")) for us in (start_us, end_us)]
    return (pc.field("symbol") == symbol) & (pc.field("ts") >= ends[0]) & (pc.field("ts") < ends[1])


def hours(rows: pa.Table) -> pa.Table:
    """`BY_HOUR` of columns `ts, symbol, high, close, volume`."""
    table = rows.append_column("hour", pc.floor_temporal(rows["ts"], unit="hour"))
    found = table.group_by(["symbol", "hour"]).aggregate(
        [([], "count_all"), ("high", "max"), ("close", "mean"), ("volume", "sum")]
    )
    return found.rename_columns(
        {"count_all": "rows", "high_max": "high", "close_mean": "close", "volume_sum": "volume"}
        | {name: name for name in ("symbol", "hour")}
    )


def missing(rows: pa.Table) -> pa.Table:
    """`GAPS` of columns `ts, symbol`."""
    symbols = rows["symbol"].combine_chunks().dictionary_encode()
    if isinstance(symbols, pa.ChunkedArray):
        symbols = symbols.combine_chunks()
    codes = symbols.indices.to_numpy()
    minutes = rows["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // MINUTE_US
    order = np.lexsort((minutes, codes))
    codes, minutes = codes[order], minutes[order]
    at = np.flatnonzero((codes[1:] == codes[:-1]) & (minutes[1:] > minutes[:-1] + 1))
    start, end = (pa.array(values * MINUTE_US, pa.timestamp("us", "UTC")) for values in (minutes[at] + 1, minutes[at + 1]))
    return pa.table({"symbol": symbols.dictionary.take(pa.array(codes[at])), "start": start, "end": end})
