"""pylance: Lance datasets, with its own SQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import lance
import pyarrow as pa
from contest.questions import iso
from contest.sql_contender import SqlContender
from contest.workload import SCHEMA


class Lance(SqlContender):
    cannot: ClassVar[Mapping[str, str]] = {"open": "a fragment's metadata have no bounds"}
    durability = "nothing: fragments and manifests are left to the page cache"

    def version(self) -> str:
        return str(lance.__version__)

    def create(self, place: Path) -> None:
        self.place, self.table = place, lance.write_dataset(SCHEMA.empty_table(), place)

    def open(self, place: Path) -> None:
        self.place, self.table = place, lance.dataset(place)

    def append(self, rows: pa.Table) -> None:
        self.table = lance.write_dataset(rows, self.table, mode="append")

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        between = f"ts >= timestamp '{iso(start_us)}' and ts < timestamp '{iso(end_us)}'"
        return self.table.to_table(filter=f"symbol = '{symbol}' and {between}")

    def update(self, row: pa.Table) -> None:
        symbol, ts = row["symbol"][0].as_py(), row["ts"][0].as_py()
        self.table.update(
            {"close": repr(row["close"][0].as_py())},
            where=f"symbol = '{symbol}' and ts = timestamp '{ts:%Y-%m-%d %H:%M:%S.%f}'",
        )

    def ask(self, question: str) -> pa.Table:
        return pa.Table.from_batches(self.table.sql(question.format(table="dataset")).build().to_batch_records())


CONTENDER = Lance
