"""timeseries-table-format 0.9.0: the format that ours is a superset of."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import timeseries_table_format as ttf
from contest.questions import iso
from contest.sql_contender import SqlContender
from contest.synthetic import batched, commit, pieces
from contest.workload import small


class Ttf(SqlContender):
    durability = "segment, coverage, commit and CURRENT are synced"

    def version(self) -> str:
        return version("timeseries-table-format")

    def create(self, place: Path) -> None:
        # A bucket takes one append's rows of a symbol: those of irregular rows get one that no two of them share.
        width = "1m" if "metrics" in place.name or place.name == "writers" or place.name.startswith("segments") else "1s"
        self.table = ttf.TimeSeriesTable.create(
            table_root=str(place), index_column="ts", index_type="timestamp", index_granularity=width, entity_columns=["symbol"]
        )
        self.place = place

    def open(self, place: Path) -> None:
        self.place, self.table = place, ttf.TimeSeriesTable.open(str(place))

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        between = f"ts >= timestamp '{iso(start_us)}Z' and ts < timestamp '{iso(end_us)}Z'"
        return self.ask(f"select * from {{table}} where symbol = '{symbol}' and {between}")

    def update(self, row: pa.Table) -> None:
        self.table.update_rows(row.select(["ts", "symbol", "close"]), columns=["close"], expected_version=self.table.version())

    def synthesize(self, place: Path, count: int) -> None:
        """Commits by hand from the third on."""
        self.create(place)
        self.append(small("first", 0, 1))
        log, version = place / "_timeseries_log", 2
        for version, chunk in enumerate(batched(pieces(count), -(-count // 97)), 3):
            (log / f"{version:010d}.json").write_bytes(commit(version, chunk))
        (log / "CURRENT").write_text(f"{version}\n")

    def prune(self, symbol: str, start_us: int, end_us: int) -> list[str]:
        """The files that its plan for a query names."""
        between = f"ts >= timestamp '{iso(start_us)}Z' and ts < timestamp '{iso(end_us)}Z'"
        plan = self.ask(f"explain select volume from {{table}} where symbol = '{symbol}' and {between}")
        return re.findall(r"data/[^\s,\]]+\.parquet", plan["plan"][-1].as_py())

    def ask(self, question: str) -> pa.Table:
        session = ttf.Session()
        session.register_tstable("t", str(self.place))
        return session.sql(question.format(table="t"))


CONTENDER = Ttf
