"""deltalake (delta-rs), with its own engine for SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from contest.questions import instant, iso
from contest.sql_contender import SqlContender
from contest.synthetic import BYTES, ROWS, Piece, pieces
from contest.workload import SCHEMA


class Delta(SqlContender):
    durability = "nothing: files and commits are left to the page cache"

    def version(self) -> str:
        return str(deltalake.__version__)

    def create(self, place: Path) -> None:
        deltalake.DeltaTable.create(str(place), SCHEMA)
        self.open(place)

    def open(self, place: Path) -> None:
        self.place, self.table = place, deltalake.DeltaTable(str(place))

    def append(self, rows: pa.Table) -> None:
        deltalake.write_deltalake(self.table, rows, mode="append")

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        between = f"ts >= {_micros(start_us)} and ts < {_micros(end_us)}"
        return self.ask(f"select * from {{table}} where symbol = '{symbol}' and {between}")

    def update(self, row: pa.Table) -> None:
        symbol, ts = row["symbol"][0].as_py(), row["ts"][0].value
        self.table.update(
            new_values={"close": row["close"][0].as_py()}, predicate=f"symbol = '{symbol}' and ts = {_micros(ts)}"
        )

    def synthesize(self, place: Path, count: int) -> None:
        """A checkpoint by hand, which also is commit 1."""
        self.create(place)
        log = place / "_delta_log"
        first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
        (log / f"{1:020d}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')
        pq.write_table(_checkpoint(first, count), log / f"{1:020d}.checkpoint.parquet")
        (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": count + 2}))

    def prune(self, symbol: str, start_us: int, end_us: int) -> list[str]:
        adds = pa.table(self.table.get_add_actions(flatten=True))
        kept = (pc.field("min.symbol") <= symbol) & (pc.field("max.symbol") >= symbol)
        kept &= (pc.field("min.ts") < instant(end_us)) & (pc.field("max.ts") >= instant(start_us))
        return list(adds.filter(kept)["path"].to_pylist())

    def ask(self, question: str) -> pa.Table:
        return pa.table(deltalake.QueryBuilder().register("t", self.table).execute(question.format(table="t")).read_all())


def _micros(us: int) -> str:
    """A literal in the column's own unit: delta-rs compares no others when it prunes."""
    return f"arrow_cast('{instant(us).isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _checkpoint(first: list[dict[str, Any]], count: int) -> pa.Table:
    """The first commit's protocol and metadata, and a file for each piece."""
    about = {key: value for line in first for key, value in line.items() if key in ("protocol", "metaData")}
    protocol = {key: about["protocol"][key] for key in ("minReaderVersion", "minWriterVersion")}
    meta = {"id": about["metaData"]["id"], "format": {"provider": "parquet", "options": []}}
    meta |= {"schemaString": about["metaData"]["schemaString"], "partitionColumns": [], "configuration": [], "createdTime": 0}
    adds = [_add(piece) for piece in pieces(count)]
    columns: dict[str, list[Any]] = {"protocol": [protocol, None], "metaData": [None, meta], "add": [None, None, *adds]}
    missing = [None] * count
    return pa.table(
        [pa.array(columns[name] + (missing if name != "add" else []), kind) for name, kind in _CHECKPOINT],
        list(dict(_CHECKPOINT)),
    )


def _add(piece: Piece) -> dict[str, Any]:
    ends = {key: {"ts": f"{iso(us).replace(' ', 'T')}Z", "symbol": piece.symbol} for key, us in _ends(piece)}
    stats = json.dumps({"numRecords": ROWS, **ends, "nullCount": {"ts": 0, "symbol": 0}}, separators=(",", ":"))
    about = {"path": piece.path, "partitionValues": [], "size": BYTES, "modificationTime": 0, "dataChange": True}
    return about | {"stats": stats}


def _ends(piece: Piece) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("minValues", piece.first_us), ("maxValues", piece.last_us)


_MAP = pa.map_(pa.string(), pa.string())
_CHECKPOINT = [
    ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
    (
        "metaData",
        pa.struct(
            [
                ("id", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("configuration", _MAP),
                ("createdTime", pa.int64()),
            ]
        ),
    ),
    (
        "add",
        pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", _MAP),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("stats", pa.string()),
            ]
        ),
    ),
]
CONTENDER = Delta
