"""chdb: ClickHouse within the process, a MergeTree ordered by symbol and time."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from chdb import session
from contest.contender import Contender
from contest.questions import TOTALS, iso

_COLUMNS = "ts DateTime64(6, 'UTC'), symbol LowCardinality(String), open Float64, high Float64, low Float64, close Float64, volume Int64"
_BY_HOUR = (
    "select symbol, toDateTime64(toStartOfHour(ts), 6, 'UTC') as hour, count() as rows, max(high) as highest, avg(close) as mean, sum(volume) as total "
    "from {table} group by symbol, hour"
)
_GAPS = (
    'select symbol, start + interval 1 minute as start, "end" from (select symbol, minute as "end", lagInFrame(minute) over '
    "(partition by symbol order by minute rows between unbounded preceding and unbounded following) as start, "
    "row_number() over (partition by symbol order by minute) as number from (select distinct symbol, toDateTime64(toStartOfMinute(ts), 6, 'UTC') as minute "
    'from {table})) where number > 1 and "end" > start + interval 1 minute'
)


class ClickHouse(Contender):
    cannot: ClassVar[Mapping[str, str]] = {
        "open": "its metadata are the parts themselves",
        "writers": "one process at a time may have a session",
    }
    durability = "nothing: parts are left to the page cache (fsync_after_insert is 0)"

    def version(self) -> str:
        return f"{version('chdb')} (ClickHouse {version('chdb-core')})"

    def create(self, place: Path) -> None:
        self.open(place)
        self._run("create database b engine = Atomic")
        self._run(f"create table b.t ({_COLUMNS}) engine = MergeTree order by (symbol, ts)")

    def open(self, place: Path) -> None:
        self.close()
        self.place, self.session = place, session.Session(str(place))

    def append(self, rows: pa.Table) -> None:  # noqa: ARG002  # ClickHouse finds it by its name
        self._run("insert into b.t select * from Python(rows)")

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        return self._ask(
            f"select * from {{table}} where symbol = '{symbol}' and ts >= '{iso(start_us)}' and ts < '{iso(end_us)}'"
        )

    def by_hour(self) -> pa.Table:
        return self._ask(_BY_HOUR).rename_columns(["symbol", "hour", "rows", "high", "close", "volume"])

    def gaps(self) -> pa.Table:
        return self._ask(_GAPS)

    def update(self, row: pa.Table) -> None:
        value = row.to_pylist()[0]
        self._run(
            f"alter table b.t update close = {value['close']!r} where symbol = '{value['symbol']}' and ts = '{value['ts']:%Y-%m-%d %H:%M:%S.%f}' "
            "settings mutations_sync = 1"
        )

    def totals(self) -> tuple[int, int]:
        row = self._ask(TOTALS).to_pylist()[0]
        return row["rows"], row["volume"]

    def close(self) -> None:
        if hasattr(self, "session"):
            self.session.close()
            del self.session

    def _run(self, statement: str) -> None:
        self.session.query(statement)

    def _ask(self, question: str) -> pa.Table:
        return self.session.query(question.format(table="b.t"), "ArrowTable")


CONTENDER = ClickHouse
