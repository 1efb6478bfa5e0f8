"""DuckDB: a database file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import duckdb
import pyarrow as pa
from contest.contender import Contender
from contest.questions import BY_HOUR, GAPS, TOTALS, instant

_COLUMNS = "ts timestamptz, symbol varchar, open double, high double, low double, close double, volume bigint"


class Duck(Contender):
    cannot: ClassVar[Mapping[str, str]] = {
        "open": "its metadata describe its own blocks and are made by writing them",
        "writers": "one process at a time may have a database open",
    }
    durability = "each commit's log record is synced"

    def version(self) -> str:
        return str(duckdb.__version__)

    def create(self, place: Path) -> None:
        place.mkdir()
        self.open(place)
        self.connection.execute(f"create table t ({_COLUMNS})")

    def open(self, place: Path) -> None:
        self.close()
        self.place = place
        self.connection = duckdb.connect(str(place / "duck.db"))
        self.connection.execute("set TimeZone = 'UTC'")

    def append(self, rows: pa.Table) -> None:
        self.connection.register("rows", rows)
        self.connection.execute("insert into t select * from rows")

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        asked = "select * from t where symbol = ? and ts >= ? and ts < ?"
        return self.connection.sql(asked, params=[symbol, instant(start_us), instant(end_us)]).to_arrow_table()

    def by_hour(self) -> pa.Table:
        return self._sql(BY_HOUR)

    def gaps(self) -> pa.Table:
        return self._sql(GAPS)

    def update(self, row: pa.Table) -> None:
        values = row.to_pylist()[0]
        asked = "update t set close = ? where symbol = ? and ts = ?"
        self.connection.execute(asked, [values["close"], values["symbol"], values["ts"]])

    def totals(self) -> tuple[int, int]:
        row = self._sql(TOTALS).to_pylist()[0]
        return row["rows"], int(row["volume"])

    def size(self) -> int:
        self.connection.execute("checkpoint")
        return super().size()

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()

    def _sql(self, question: str) -> pa.Table:
        return self.connection.sql(question.format(table="t")).to_arrow_table()


CONTENDER = Duck
