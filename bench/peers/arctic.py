"""ArcticDB on LMDB: one frame of all symbols, indexed by time; pandas answers what its query builder cannot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import arcticdb
import pandas as pd
import pyarrow as pa
from contest.contender import Contender
from contest.questions import hours, missing
from contest.workload import SCHEMA

_WRITERS = "writers"
"""The table of several processes: an index only grows, so there each writer has a frame of its own."""


class Arctic(Contender):
    cannot: ClassVar[Mapping[str, str]] = {"open": "its index describes its own segments and is made by writing them"}
    durability = "LMDB syncs each commit"

    def version(self) -> str:
        return str(arcticdb.__version__)

    def stage(self, rows: pa.Table) -> pd.DataFrame:
        return rows.to_pandas().set_index("ts")

    def create(self, place: Path) -> None:
        place.mkdir()
        self._connect(place).create_library("b")
        self.open(place)
        if place.name != _WRITERS:
            self.library.write("t", self.stage(SCHEMA.empty_table()))

    def open(self, place: Path) -> None:
        self.place, self.library = place, self._connect(place)["b"]

    def append(self, rows: pd.DataFrame) -> None:
        self.library.append(rows["symbol"].iloc[0] if self.place.name == _WRITERS else "t", rows)

    def day(self, symbol: str, start_us: int, end_us: int) -> pd.DataFrame:
        asked = arcticdb.QueryBuilder()
        between = (pd.Timestamp(start_us, unit="us", tz="UTC"), pd.Timestamp(end_us - 1, unit="us", tz="UTC"))
        return self.library.read("t", date_range=between, query_builder=asked[asked["symbol"] == symbol]).data

    def by_hour(self) -> pa.Table:
        return hours(self._columns("symbol", "high", "close", "volume"))

    def gaps(self) -> pa.Table:
        return missing(self._columns("symbol"))

    def update(self, row: pa.Table) -> None:
        """Take the rows of that instant, change the one, put them back: an update has a range of the index as its key."""
        ts, symbol = row["ts"][0].as_py(), row["symbol"][0].as_py()
        rows = self.library.read("t", date_range=(ts, ts)).data
        rows.loc[rows["symbol"] == symbol, "close"] = row["close"][0].as_py()
        self.library.update("t", rows)

    def totals(self) -> tuple[int, int]:
        found = [self.library.read(name, columns=["volume"]).data["volume"] for name in self.library.list_symbols()]
        return sum(map(len, found)), sum(int(each.sum()) for each in found)

    def as_arrow(self, found: Any) -> pa.Table:
        return found if isinstance(found, pa.Table) else _arrow(found)

    def close(self) -> None:
        if hasattr(self, "library"):
            del self.library

    def _columns(self, *names: str) -> pa.Table:
        return _arrow(self.library.read("t", columns=list(names)).data)

    @staticmethod
    def _connect(place: Path) -> Any:
        return arcticdb.Arctic(f"lmdb://{place}")


def _arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame.reset_index(), preserve_index=False)


CONTENDER = Arctic
