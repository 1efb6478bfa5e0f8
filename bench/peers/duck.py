"""DuckDB: a database file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import duckdb
import pyarrow as pa
from contest.questions import instant
from contest.sql_contender import SqlContender

_COLUMNS = "ts timestamptz, symbol varchar, open double, high double, low double, close double, volume bigint"


class Duck(SqlContender):
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

    def update(self, row: pa.Table) -> None:
        values = row.to_pylist()[0]
        asked = "update t set close = ? where symbol = ? and ts = ?"
        self.connection.execute(asked, [values["close"], values["symbol"], values["ts"]])

    def size(self) -> int:
        self.connection.execute("checkpoint")
        return super().size()

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()

    def ask(self, question: str) -> pa.Table:
        return self.connection.sql(question.format(table="t")).to_arrow_table()


CONTENDER = Duck
