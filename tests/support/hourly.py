"""Hourly rows of a few series, as several tests of tables use them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("x", pa.float64())])


def hours(*which: int, sym: str = "A", x: float | None = 0.0) -> pa.Table:
    """One row of a series for each of these hours after `START`."""
    times = [START + timedelta(hours=at) for at in which]
    return pa.table({"ts": times, "sym": [sym] * len(times), "x": [x] * len(times)}, schema=SCHEMA)
