"""Tables as each kind of write of ours leaves them, with the rows that are meant to be there, told in plain Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl
from gapless.documents.values.codec import encode_document

Row = dict[str, Any]
Scene = Callable[..., list[Row]]
SCENES: dict[str, Scene] = {}

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("v", pa.string()), ("n", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("p", pa.string())]
)
PLACES = ["é/ü", "100%", "a b", "a=b", None, "💡", "x:y", "%2F", "plain"]
"""Partition values that paths must not lose."""


def scene(make: Scene) -> Scene:
    """Keep it by its name."""
    SCENES[make.__name__] = make
    return make


def rows(*ids: int, v: str = "v") -> list[Row]:
    """Rows with these ids, each in the partition that belongs to it."""
    return [
        {
            "id": number,
            "v": None if number % 5 == 4 else f"{v}{number}",
            "n": number / 4,
            "at": NOON + dt.timedelta(minutes=number, microseconds=number),
            "p": PLACES[number % len(PLACES)],
        }
        for number in ids
    ]


def table_of(given: list[Row]) -> pa.Table:
    """Rows as they are handed to a table."""
    return pa.Table.from_pylist(given, schema=SCHEMA)


def _made(path: str, given: list[Row], *, partitioned: bool = True, **properties: object) -> Any:
    table = gl.delta.create(
        path,
        SCHEMA,
        partition_by=["p"] if partitioned else [],
        properties={name.replace("_", "."): value for name, value in properties.items()},
    )
    table.append(table_of(given))
    return table


def _among(step: int, end: int) -> str:
    return f"id in ({', '.join(map(str, range(0, end, step)))})"


@scene
def append(path: str) -> list[Row]:
    _made(path, rows(*range(12))).append(table_of(rows(*range(12, 20))))
    return rows(*range(20))


@scene
def append_unpartitioned(path: str) -> list[Row]:
    _made(path, rows(*range(12)), partitioned=False).append(table_of(rows(*range(12, 20))))
    return rows(*range(20))


@scene
def adopted(path: str) -> list[Row]:
    table = _made(path, rows(*range(12)))
    for number, place in enumerate(PLACES):
        folder = (
            Path(f"{path}-files-{number}") / f"p={'__HIVE_DEFAULT_PARTITION__' if place is None else quote(place, safe='')}"
        )
        folder.mkdir(parents=True)
        given = [row for row in rows(*range(12, 30)) if row["p"] == place]
        pq.write_table(table_of(given).drop_columns("p"), folder / "a.parquet")
        table.append_file(folder / "a.parquet", adopt="copy")
    return rows(*range(30))


@scene
def adopted_unpartitioned(path: str) -> list[Row]:
    table = _made(path, rows(*range(12)), partitioned=False)
    for number in range(2):
        pq.write_table(table_of(rows(*range(12 + number, 20, 2))), f"{path}-{number}.parquet")
    table.append_file([f"{path}-{number}.parquet" for number in range(2)], adopt="link")
    return rows(*range(20))


@scene
def overwrite_all(path: str) -> list[Row]:
    _made(path, rows(*range(12))).overwrite(table_of(rows(3, 30)))
    return rows(3, 30)


@scene
def overwrite_where(path: str) -> list[Row]:
    table = _made(path, rows(*range(18)))
    table.overwrite(table_of(rows(3, 4, v="w")), where="id >= 3 and id < 7")
    return [*rows(0, 1, 2), *rows(3, 4, v="w"), *rows(*range(7, 18))]


@scene
def overwrite_partitions(path: str) -> list[Row]:
    table = _made(path, rows(*range(18)))
    table.overwrite(table_of(rows(0, 4, v="w")), partitions="dynamic")
    return [*(row for row in rows(*range(18)) if row["p"] not in ("é/ü", None)), *rows(0, 4, v="w")]


@scene
def delete_rows(path: str) -> list[Row]:
    _made(path, rows(*range(20))).delete(f"{_among(3, 20)} or v is null")
    return [row for row in rows(*range(20)) if row["id"] % 3 and row["v"] is not None]


@scene
def delete_partition(path: str) -> list[Row]:
    _made(path, rows(*range(20))).delete("p = 'é/ü' or p = '100%'")
    return [row for row in rows(*range(20)) if row["p"] not in ("é/ü", "100%")]


@scene
def update_rows(path: str) -> list[Row]:
    _made(path, rows(*range(20))).update({"n": "n + 1", "v": "'u'"}, where="id < 5")
    return [row | ({"n": row["n"] + 1, "v": "u"} if row["id"] < 5 else {}) for row in rows(*range(20))]


@scene
def update_moves_partitions(path: str) -> list[Row]:
    _made(path, rows(*range(20))).update({"p": "'a = b/c'"}, where="id < 5")
    return [row | ({"p": "a = b/c"} if row["id"] < 5 else {}) for row in rows(*range(20))]


def _merge(table: Any, given: list[Row]) -> None:
    table.merge(table_of(given), on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()


@scene
def merge_rows(path: str) -> list[Row]:
    _merge(_made(path, rows(*range(20))), rows(3, 7, 40, 41, v="m"))
    return [*(row for row in rows(*range(20)) if row["id"] not in (3, 7)), *rows(3, 7, 40, 41, v="m")]


@scene
def vectors(path: str) -> list[Row]:
    table = _made(path, rows(*range(30)), partitioned=False, delta_enableDeletionVectors=True)
    table.delete(_among(7, 30))
    table.delete(_among(11, 30))
    _merge(table, rows(1, 50, v="m"))
    return [*(r for r in rows(*range(30)) if r["id"] % 7 and r["id"] % 11 and r["id"] != 1), *rows(1, 50, v="m")]


@scene
def vectors_in_partitions(path: str) -> list[Row]:
    table = _made(path, rows(*range(30)), delta_enableDeletionVectors=True)
    table.delete(_among(7, 30))
    table.update({"v": "'u'"}, where="id = 9")
    return [row | ({"v": "u"} if row["id"] == 9 else {}) for row in rows(*range(30)) if row["id"] % 7]


@scene
def compact(path: str) -> list[Row]:
    table = _made(path, rows(*range(10)))
    for start in range(10, 40, 10):
        table.append(table_of(rows(*range(start, start + 10))))
    table.compact()
    return rows(*range(40))


@scene
def compact_purges_vectors(path: str) -> list[Row]:
    table = _made(path, rows(*range(20)), partitioned=False, delta_enableDeletionVectors=True)
    table.delete(_among(4, 20))
    table.append(table_of(rows(30)))
    table.compact()
    return rows(*(number for number in (*range(20), 30) if number % 4 or number > 19))


@scene
def zorder(path: str) -> list[Row]:
    table = _made(path, rows(*range(30)), partitioned=False)
    table.append(table_of(rows(*range(30, 60))))
    table.zorder(["id", "at"])
    return rows(*range(60))


@scene
def hilbert(path: str) -> list[Row]:
    table = _made(path, rows(*range(30)))
    table.append(table_of(rows(*range(30, 60))))
    table.zorder(["id", "n"], curve="hilbert")
    return rows(*range(60))


@scene
def added_column(path: str) -> list[Row]:
    table = _made(path, rows(*range(5)))
    table.alter.add_column("extra", pa.int32())
    table.append(
        pa.Table.from_pylist([row | {"extra": 7} for row in rows(5)], schema=SCHEMA.append(pa.field("extra", pa.int32())))
    )
    return [*(row | {"extra": None} for row in rows(*range(5))), *(row | {"extra": 7} for row in rows(5))]


@scene
def mapped_columns(path: str) -> list[Row]:
    """Renamed, dropped, and with names that Parquet files could not have."""
    table = _made(path, rows(*range(9)), delta_columnMapping_mode="name")
    table.alter.rename_column("v", "the v, of {it}")
    table.alter.rename_column("p", "p=art")
    table.alter.drop_column("n")
    table.delete("id = 3")
    return [
        {"id": row["id"], "the v, of {it}": row["v"], "at": row["at"], "p=art": row["p"]}
        for row in rows(*range(9))
        if row["id"] != 3
    ]


@scene
def mapped_by_id(path: str) -> list[Row]:
    table = _made(path, rows(*range(9)), partitioned=False, delta_columnMapping_mode="id")
    table.alter.rename_column("v", "w")
    table.update({"w": "'u'"}, where="id = 3")
    return [
        {("w" if n == "v" else n): ("u" if n == "v" and row["id"] == 3 else x) for n, x in row.items()}
        for row in rows(*range(9))
    ]


@scene
def widened(path: str) -> list[Row]:
    schema = pa.schema([("id", pa.int32()), ("f", pa.float32())])
    table = gl.delta.create(path, schema, properties={"delta.enableTypeWidening": True})
    table.append(pa.table({"id": [1, 2], "f": [0.5, None]}, schema=schema))
    table.alter.widen("id", pa.int64())
    table.alter.widen("f", pa.float64())
    table.append(pa.table({"id": [2**40], "f": [1e300]}, schema=pa.schema([("id", pa.int64()), ("f", pa.float64())])))
    return [{"id": 1, "f": 0.5}, {"id": 2, "f": None}, {"id": 2**40, "f": 1e300}]


@scene
def restored(path: str) -> list[Row]:
    table = _made(path, rows(*range(12)))
    table.delete("id < 6")
    table.append(table_of(rows(20)))
    table.restore(version=1)
    return rows(*range(12))


@scene
def checkpointed(path: str) -> list[Row]:
    table = _made(path, rows(*range(12)), delta_checkpointInterval=2)
    for number in range(12, 18):
        table.append(table_of(rows(number)))
    table.delete("id = 2")
    table.checkpoint()
    table.append(table_of(rows(30)))
    return rows(*(number for number in (*range(18), 30) if number != 2))


@scene
def checkpointed_v2(path: str) -> list[Row]:
    table = _made(path, rows(*range(12)), delta_checkpointPolicy="v2", delta_checkpointInterval=2)
    for number in range(12, 18):
        table.append(table_of(rows(number)))
    table.delete("id = 2")
    table.checkpoint()
    table.append(table_of(rows(30)))
    return rows(*(number for number in (*range(18), 30) if number != 2))


@scene
def change_feed(path: str, *, partitioned: bool = True) -> list[Row]:
    table = _made(path, rows(*range(12)), partitioned=partitioned, delta_enableChangeDataFeed=True)
    table.update({"v": "'u'"}, where="id = 1")
    table.delete("id = 2")
    _merge(table, rows(3, 40, v="m"))
    return [
        *(row | ({"v": "u"} if row["id"] == 1 else {}) for row in rows(*range(12)) if row["id"] not in (2, 3)),
        *rows(3, 40, v="m"),
    ]


@scene
def change_feed_unpartitioned(path: str) -> list[Row]:
    return change_feed(path, partitioned=False)


@scene
def in_commit_times(path: str) -> list[Row]:
    table = _made(path, rows(*range(12)), delta_enableInCommitTimestamps=True)
    table.delete("id = 2")
    return [row for row in rows(*range(12)) if row["id"] != 2]


@scene
def constrained(path: str) -> list[Row]:
    table = _made(path, rows(*range(12)))
    table.alter.add_constraint("not_negative", "id >= 0")
    table.append(table_of(rows(12)))
    return rows(*range(13))


TYPES = pa.schema(
    [
        ("b", pa.bool_()), ("i1", pa.int8()), ("i2", pa.int16()), ("i4", pa.int32()), ("i8", pa.int64()), ("f", pa.float32()),
        ("d", pa.float64()), ("s", pa.string()), ("x", pa.binary()), ("dt", pa.date32()), ("ts", pa.timestamp("us", "UTC")),
        ("dec", pa.decimal128(38, 10)), ("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.float64())),
        ("st", pa.struct([("q", pa.struct([("r", pa.string())]))])),
    ]
)  # fmt: skip
TYPE_ROWS: list[Row] = [
    {
        "b": True, "i1": -128, "i2": -32768, "i4": 2**31 - 1, "i8": -(2**63), "f": -0.0, "d": float("inf"), "s": "é💡", "x": b"\0\xff",
        "dt": dt.date(1582, 10, 4), "ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), "dec": Decimal("1.0000000001"),
        "a": [1, None], "m": [("k", 1.5)], "st": {"q": {"r": "deep"}},
    },
    dict.fromkeys(TYPES.names) | {"s": "", "x": b"", "a": [], "m": [], "st": {"q": {"r": None}}},
    dict.fromkeys(TYPES.names),
]  # fmt: skip


@scene
def types(path: str) -> list[Row]:
    gl.delta.create(path, TYPES).append(pa.Table.from_pylist(TYPE_ROWS, schema=TYPES))
    return TYPE_ROWS


@scene
def partitions_of_all_types(path: str) -> list[Row]:
    schema = pa.schema(
        [("id", pa.int64()), *((name, TYPES.field(name).type) for name in ("b", "i4", "i8", "d", "dt", "ts", "dec"))]
    )
    given: list[Row] = [
        {"id": 1, "b": True, "i4": -1, "i8": 2**63 - 1, "d": 1.5, "dt": dt.date(2026, 1, 1), "ts": NOON + dt.timedelta(microseconds=123456),
         "dec": Decimal("12.3400000000")},
        {"id": 2} | dict.fromkeys(schema.names[1:]),
        {"id": 3, "b": False, "i4": 0, "i8": -1, "d": -2.25, "dt": dt.date(1600, 2, 29), "ts": dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
         "dec": Decimal("-0.0010000000")},
    ]  # fmt: skip
    gl.delta.create(path, schema, partition_by=schema.names[1:]).append(pa.Table.from_pylist(given, schema=schema))
    return given


@scene
def documents(path: str) -> list[Row]:
    made = gl.documents.collection(path)
    made.insert_many([{"_id": 1, "n": 5, "d": {"t": "x"}}, {"_id": "a", "n": [1]}])
    made.create_index([("n", 1), ("d.t", 1)])
    made.insert_one({"_id": 2.5, "d": {"t": NOON}})
    made.update_one({"_id": "a"}, {"$set": {"d": None, "n": 2**40}})
    nothing = {"number": None, "kind": None, "text": None, "date": None, "other": None}
    return [
        {"_id": text, "document": encode_document(one), "by_n": nothing | n, "by_d_t": nothing | t}
        for text, one, n, t in (
            ("n:2:8000000000000001", {"_id": 1, "n": 5, "d": {"t": "x"}}, {"number": 5.0, "kind": 16}, {"text": "x"}),
            ("s:a", {"_id": "a", "n": 2**40, "d": None}, {"number": 2.0**40, "kind": 18}, {}),
            ("n:2:8000000000000002+5/2", {"_id": 2.5, "d": {"t": NOON}}, {}, {"date": NOON}),
        )
    ]
