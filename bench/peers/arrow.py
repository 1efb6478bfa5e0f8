"""The floor: `pyarrow.parquet.write_table`, zstd level 1, one file an append, on one thread and without sync; read back by `pyarrow.dataset`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from contest.contender import Contender
from contest.questions import day_filter, hours, missing


class Arrow(Contender):
    cannot: ClassVar[Mapping[str, str]] = {"open": "plain files have no metadata in common"}
    durability = "nothing: files are left to the page cache"

    def version(self) -> str:
        return str(pa.__version__)

    def create(self, place: Path) -> None:
        place.mkdir()
        self.place, self.number = place, 0

    def open(self, place: Path) -> None:
        self.place, self.number = place, len(list(place.iterdir()))

    def append(self, rows: pa.Table) -> None:
        self.number += 1
        pq.write_table(rows, self._next(), compression="zstd", compression_level=1)

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        return self._files().to_table(filter=day_filter(symbol, start_us, end_us))

    def by_hour(self) -> pa.Table:
        return hours(self._files().to_table(columns=["ts", "symbol", "high", "close", "volume"]))

    def gaps(self) -> pa.Table:
        return missing(self._files().to_table(columns=["ts", "symbol"]))

    def update(self, row: pa.Table) -> None:
        """Read the file that has the row, and write it again in another's place."""
        wanted = (pc.field("symbol") == row["symbol"][0]) & (pc.field("ts") == row["ts"][0])
        name = next(batch for batch in self._files().get_fragments(wanted) if batch.count_rows(filter=wanted)).path
        table = pq.read_table(name)
        there = pc.and_(pc.equal(table["symbol"], row["symbol"][0]), pc.equal(table["ts"], row["ts"][0]))
        close = pc.if_else(there, row["close"][0], table["close"])
        fresh = Path(name).with_suffix(".new")
        pq.write_table(table.set_column(5, "close", close), fresh, compression="zstd", compression_level=1)
        fresh.rename(name)

    def totals(self) -> tuple[int, int]:
        volume = self._files().to_table(columns=["volume"])["volume"]
        return len(volume), pc.sum(volume).as_py()

    def _files(self) -> ds.Dataset:
        return ds.dataset(self.place, format="parquet")

    def _next(self) -> Path:
        return self.place / f"{self.number:05d}-{uuid4().hex[:8]}.parquet"


CONTENDER = Arrow
