"""One seeded workload in three shapes, each of the same seven columns, in order of arrival.

`metrics`: regular, a row a minute and host, with outages. `ticks`: irregular, instants in microseconds, few symbols with most rows.
`devices`: high cardinality, 20,000 series with a reading every quarter of an hour, jittered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

SHAPES = ("metrics", "ticks", "devices")
MINUTE_US, HOUR_US, DAY_US = 60_000_000, 3_600_000_000, 86_400_000_000
START_US = 1_735_689_600_000_000
"""2025-01-01T00:00Z."""
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("symbol", pa.string()),
        *((name, pa.float64()) for name in ("open", "high", "low", "close")),
        ("volume", pa.int64()),
    ]
)
_HOSTS, _DEVICES = 50, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Rows as they arrive, and what may be asked of them."""

    name: str
    rows: pa.Table

    @property
    def days(self) -> list[int]:
        """Starts, in microseconds, of the days that the rows reach into."""
        last = self.rows["ts"][-1].value
        return list(range(START_US, last + 1, DAY_US))

    def day(self, number: int) -> tuple[str, int, int]:
        """A symbol and its day `[start, end)` in microseconds: others for each number."""
        start = self.days[(3 * number + 1) % len(self.days)]
        return self.rows["symbol"][number * 7 % 50].as_py(), start, start + DAY_US

    def parts(self, count: int) -> list[pa.Table]:
        """The rows in `count` parts of one size, which arrive one after the other."""
        size = self.rows.num_rows // count
        return [self.rows.slice(at * size, size) for at in range(count)]

    def one(self, number: int) -> pa.Table:
        """One row that is there, with another `close` for each number."""
        at = (number * 7_919 + self.rows.num_rows // 2) % self.rows.num_rows
        return self.rows.slice(at, 1).set_column(5, "close", pa.array([1_000.0 + number]))


def make(name: str, rows: int) -> Shape:
    """A shape of exactly `rows` rows, the same on every call."""
    dice = np.random.default_rng(7)
    ts, symbols = {"metrics": _metrics, "ticks": _ticks, "devices": _devices}[name](dice, rows)
    prices = {key: np.round(100 + dice.normal(0, 1, rows).cumsum() * 0.01, 4) for key in ("open", "high", "low", "close")}
    columns = {"ts": pa.array(ts, SCHEMA.field("ts").type), "symbol": pa.array(symbols, pa.string()), **prices}
    return Shape(name=name, rows=pa.table({**columns, "volume": dice.integers(0, 10_000, rows)}, schema=SCHEMA))


def save(shape: Shape, folder: Path) -> None:
    """Put a shape where `load` finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(folder / f"{shape.name}.arrow", SCHEMA) as file:
        file.write_table(shape.rows)


def load(name: str, folder: Path) -> Shape:
    """A shape as `save` left it, in memory that is the caller's own."""
    with pa.OSFile(str(folder / f"{name}.arrow")) as file:
        return Shape(name=name, rows=pa.ipc.open_file(file).read_all().combine_chunks())


def small(writer: str, number: int, rows: int) -> pa.Table:
    """What one of several writers appends: `rows` rows of its own series, a minute each, none twice."""
    at = np.arange(number * rows, (number + 1) * rows)
    prices = dict.fromkeys(("open", "high", "low", "close"), at * 0.5)
    ts = pa.array(START_US + at * MINUTE_US, SCHEMA.field("ts").type)
    return pa.table({"ts": ts, "symbol": [writer] * rows, **prices, "volume": at}, schema=SCHEMA)


def _metrics(dice: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    minutes = rows // _HOSTS + rows // _HOSTS // 5 + 500
    there = np.ones((minutes, _HOSTS), bool)
    for host in range(_HOSTS):
        for start in dice.integers(10, minutes, minutes // 2_000 + 1):
            there[start : start + dice.integers(5, 180), host] = False
    rising, hosts = (found[:rows] for found in np.nonzero(there))
    assert len(rising) == rows
    return START_US + rising * MINUTE_US, np.char.add("host", hosts.astype(str))


def _ticks(dice: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    ts = START_US + np.sort(dice.integers(0, 30 * DAY_US, rows))
    share = 1 / np.arange(1, _HOSTS + 1)
    return ts, np.char.add("SYM", dice.choice(_HOSTS, rows, p=share / share.sum()).astype(str))


def _devices(dice: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    reading, device = np.divmod(np.arange(rows), _DEVICES)
    ts = START_US + reading * 15 * MINUTE_US + dice.integers(0, 5 * MINUTE_US, rows)
    order = np.argsort(ts, kind="stable")
    return ts[order], np.char.add("device", device[order].astype(str))
