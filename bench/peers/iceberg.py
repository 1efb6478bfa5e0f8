"""pyiceberg with an SQLite catalog; it scans, and pyarrow answers the rest."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg
from contest.contender import Contender
from contest.questions import hours, instant, missing
from contest.synthetic import BYTES, DAYS, ROWS, Piece, batched, pieces
from contest.workload import SCHEMA
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

_MOST = 10_000


class Iceberg(Contender):
    durability = "the catalog's row is synced, the files and metadata that it names are not"

    def version(self) -> str:
        return str(pyiceberg.__version__)

    def create(self, place: Path) -> None:
        place.mkdir()
        catalog = self._catalog(place)
        catalog.create_namespace("b")
        self.place, self.table = place, catalog.create_table("b.t", schema=SCHEMA)

    def open(self, place: Path) -> None:
        self.place, self.table = place, self._catalog(place).load_table("b.t")

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        return self.table.scan(row_filter=_day(symbol, start_us, end_us)).to_arrow()

    def by_hour(self) -> pa.Table:
        return hours(self._columns("ts", "symbol", "high", "close", "volume"))

    def gaps(self) -> pa.Table:
        return missing(self._columns("ts", "symbol"))

    def update(self, row: pa.Table) -> None:
        self.table.upsert(row, join_cols=["symbol", "ts"])

    def totals(self) -> tuple[int, int]:
        volume = self._columns("volume")["volume"]
        return len(volume), pc.sum(volume).as_py()

    def synthesize(self, place: Path, count: int) -> None:
        """A snapshot for each day, by its own fast append."""
        if count > _MOST:
            raise RuntimeError(f"making manifests of more than {_MOST:,} files takes it minutes")
        self.create(place)
        for chunk in batched(pieces(count), count // DAYS):
            with self.table.transaction() as transaction, transaction.update_snapshot().fast_append() as fresh:
                for piece in chunk:
                    fresh.append_data_file(_file(piece, place))

    def prune(self, symbol: str, start_us: int, end_us: int) -> list[str]:
        return [task.file.file_path for task in self.table.scan(row_filter=_day(symbol, start_us, end_us)).plan_files()]

    def _columns(self, *names: str) -> pa.Table:
        return self.table.scan(selected_fields=names).to_arrow()

    @staticmethod
    def _catalog(place: Path) -> SqlCatalog:
        return SqlCatalog("bench", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")


def _day(symbol: str, start_us: int, end_us: int) -> BooleanExpression:
    start, end = (instant(us).isoformat() for us in (start_us, end_us))
    return And(EqualTo("symbol", symbol), GreaterThanOrEqual("ts", start), LessThan("ts", end))


def _file(piece: Piece, place: Path) -> DataFile:
    name = piece.symbol.encode()
    return DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=f"file://{place}/{piece.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=ROWS,
        file_size_in_bytes=BYTES,
        lower_bounds={1: struct.pack("<q", piece.first_us), 2: name},
        upper_bounds={1: struct.pack("<q", piece.last_us), 2: name},
    )


CONTENDER = Iceberg
