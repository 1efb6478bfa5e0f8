"""PostgreSQL with a btree on (symbol, ts); rows go in by COPY."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pyarrow as pa
import pyarrow.csv as pc
from contest.contender import Contender
from contest.questions import BY_HOUR, GAPS, TOTALS, instant
from contest.server import SOCKET

_COLUMNS = "ts timestamptz, symbol text, open double precision, high double precision, low double precision, close double precision, volume bigint"
Rows = tuple[list[str], list[tuple[Any, ...]]]


class Postgres(Contender):
    cannot: ClassVar[Mapping[str, str]] = {"open": "a heap has no files to prune"}
    durability = "each commit's log record is synced"

    def version(self) -> str:
        with self._connect() as connection:
            return str(connection.info.parameter_status("server_version"))

    def create(self, place: Path) -> None:
        self.open(place)
        self.connection.execute(f"create table {self.name} ({_COLUMNS})")
        self.connection.execute(f"create index on {self.name} (symbol, ts)")

    def open(self, place: Path) -> None:
        self.close()
        self.place, self.name = place, f'"{place.name}"'
        self.connection = self._connect()

    def append(self, rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pc.write_csv(rows, sink, pc.WriteOptions(include_header=False))
        with self.connection.cursor() as cursor, cursor.copy(f"copy {self.name} from stdin (format csv)") as copy:
            copy.write(memoryview(sink.getvalue()))

    def day(self, symbol: str, start_us: int, end_us: int) -> Rows:
        asked = f"select * from {self.name} where symbol = %s and ts >= %s and ts < %s"
        return self._ask(asked, (symbol, instant(start_us), instant(end_us)))

    def by_hour(self) -> Rows:
        return self._ask(BY_HOUR.format(table=self.name))

    def gaps(self) -> Rows:
        return self._ask(GAPS.format(table=self.name))

    def update(self, row: pa.Table) -> None:
        value = row.to_pylist()[0]
        asked = f"update {self.name} set close = %s where symbol = %s and ts = %s"
        self.connection.execute(asked, (value["close"], value["symbol"], value["ts"]))

    def totals(self) -> tuple[int, int]:
        # As a nightly vacuum would leave it for the next questions.
        self.connection.execute(f"vacuum analyze {self.name}")
        rows, volume = self._ask(TOTALS.format(table=self.name))[1][0]
        return rows, int(volume)

    def as_arrow(self, found: Any) -> pa.Table:
        names, rows = found
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])

    def size(self) -> int:
        return int(self._ask("select pg_total_relation_size(%s)", (self.name,))[1][0][0])

    def remove(self, place: Path) -> None:
        with self._connect() as connection:
            connection.execute(f'drop table if exists "{place.name}"')

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()

    def servers(self) -> list[int]:
        # Those that serve a connection, among them what they fork later, are below the server's first process.
        return [int(Path(os.environ[SOCKET], "data", "postmaster.pid").read_text().split()[0])]

    def _ask(self, question: str, values: tuple[object, ...] = ()) -> Rows:
        with self.connection.cursor() as cursor:
            cursor.execute(question, values or None)
            return [column.name for column in cursor.description or ()], cursor.fetchall()

    @staticmethod
    def _connect() -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(host=os.environ[SOCKET], user="bench", dbname="postgres", autocommit=True)


CONTENDER = Postgres
