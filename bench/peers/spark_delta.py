"""Delta Lake on Spark, a session in local mode as `bench/spark.py` has it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from contest.contender import Contender
from contest.questions import BY_HOUR, TOTALS, iso
from spark_contenders import session

_COLUMNS = "ts timestamp, symbol string, open double, high double, low double, close double, volume bigint"
_GAPS = (
    "select symbol, before + interval 1 minute as start, minute as end from (select symbol, minute, lag(minute) over "
    "(partition by symbol order by minute) as before from (select symbol, date_trunc('minute', ts) as minute from {table}) as minutes) "
    "as pairs where minute > before + interval 1 minute"
)


class SparkDelta(Contender):
    durability = "nothing: files and commits are left to the page cache"
    cannot: ClassVar[Mapping[str, str]] = {
        "writers": "eight sessions are eight JVMs, which two cores do not hold",
        "open": "a JVM's start is not what is asked for",
    }

    def __init__(self) -> None:
        self._kept = tempfile.TemporaryDirectory(prefix="peers-spark", ignore_cleanup_errors=True)
        self.folder = Path(self._kept.name)
        self.spark, there = session(self.folder, peers=True)
        if not there:
            raise RuntimeError("Delta's jars cannot be had")
        self.spark.conf.set("spark.sql.session.timeZone", "UTC")
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")

    def version(self) -> str:
        return f"Spark {self.spark.version}"

    def stage(self, rows: pa.Table) -> Any:
        """A DataFrame over a Parquet file."""
        file = self.folder / f"{uuid4()}.parquet"
        pq.write_table(rows, file, compression="zstd", compression_level=1)
        return self.spark.read.schema(_COLUMNS).parquet(str(file))

    def create(self, place: Path) -> None:
        self.spark.sql(f"create table delta.`{place}` ({_COLUMNS}) using delta")
        self.open(place)

    def open(self, place: Path) -> None:
        self.place = place

    def append(self, rows: Any) -> None:
        rows.write.format("delta").mode("append").save(str(self.place))

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        start, end = (f"timestamp '{iso(us)}'" for us in (start_us, end_us))
        return self._ask(f"select * from {{table}} where symbol = '{symbol}' and ts >= {start} and ts < {end}")

    def by_hour(self) -> pa.Table:
        return self._ask(BY_HOUR)

    def gaps(self) -> pa.Table:
        return self._ask(_GAPS)

    def update(self, row: pa.Table) -> None:
        value = row.to_pylist()[0]
        self.spark.sql(
            f"update {self._name} set close = {value['close']!r}D where symbol = '{value['symbol']}' and ts = timestamp '{value['ts']:%Y-%m-%d %H:%M:%S.%f}'"
        )

    def totals(self) -> tuple[int, int]:
        row = self._ask(TOTALS).to_pylist()[0]
        return row["rows"], row["volume"]

    @property
    def _name(self) -> str:
        return f"delta.`{self.place}`"

    def _ask(self, question: str) -> pa.Table:
        return self.spark.sql(question.format(table=self._name)).toArrow()


CONTENDER = SparkDelta
