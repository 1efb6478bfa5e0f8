"""Zone maps: a row group that may be passed over holds no row which matches, whoever wrote the file."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

import gapless as gl
from gapless.errors import (
    InvalidFilter,
    InvalidOption,
    InvalidValue,
    ObjectNotFound,
    SchemaMismatch,
    UnknownColumn,
    UnreadableInput,
)
from gapless.files.parquet.zone import zone_of

NAN = float("nan")
MOMENT = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
US = dt.timedelta(microseconds=1)
LONG = "x" * 64
SCHEMA = pa.schema(
    [
        ("row", pa.int64()), ("i", pa.int64()), ("f", pa.float64()), ("t", pa.string()), ("y", pa.binary()), ("b", pa.bool_()),
        ("c", pa.decimal128(20, 2)), ("z", pa.timestamp("us", tz="UTC")), ("d", pa.date32()), ("s", pa.struct([("f", pa.float64()), ("t", pa.string())])),
        ("l", pa.list_(pa.int64())),
    ]
)  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "f": [0.0, -0.0, NAN, 1.5, math.inf, -math.inf, 2.0**53],
    "t": [
        "",
        "a",
        "b",
        LONG,
        LONG + "a",
        LONG + "b",
        LONG + "\U0010ffff",
        LONG[:-1] + "\U0010ffff" * 3,
        "\U0010ffff" * 70,
        "é",
    ],
    "y": [b"", b"a", b"\xff" * 70, b"a" * 64 + b"\xff", b"a" * 65],
    "b": [True, False],
    "c": [Decimal("0.00"), Decimal("-1.50"), Decimal("999999999999999999.99")],
    "z": [MOMENT, MOMENT + US, MOMENT - US, dt.datetime(9999, 1, 1, tzinfo=dt.UTC), dt.datetime(1900, 1, 1, tzinfo=dt.UTC)],
    "d": [dt.date(2026, 1, 5), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
}
SQL = {
    "i": ["0", "1", "9007199254740993", "9223372036854775807", "1.5"],
    "f": ["0", "-0.0", "'NaN'::DOUBLE", "1.5", "1e300"],
    "t": ["''", "'a'", f"'{LONG}'", f"'{LONG}b'", "'é'"],
    "c": ["0", "-1.5", "-1.499", "999999999999999999.98"],
    "z": ["'2026-01-05T00:00:00Z'::TIMESTAMPTZ", "'2026-01-05T00:00:00.000001Z'::TIMESTAMPTZ"],
    "d": ["DATE '2026-01-05'", "DATE '2500-01-01'"],
    "s.f": ["0", "1.5"],
    "s.t": ["'a'", f"'{LONG}'"],
}


def cell(chance: random.Random, name: str) -> Any:
    if chance.random() < 0.2:
        return None
    if name == "s":
        return {"f": cell(chance, "f"), "t": cell(chance, "t")}
    return [cell(chance, "i")] if name == "l" else chance.choice(VALUES[name])


def rows(chance: random.Random, count: int) -> list[dict[str, Any]]:
    names = [name for name in SCHEMA.names if name != "row"]
    held = {name: [cell(chance, name) for _ in range(2)] for name in names}
    found = []
    for at in range(count):
        if chance.random() < 0.3:
            held = {name: [cell(chance, name) for _ in range(2)] for name in names}
        found.append({"row": at, **{name: chance.choice(held[name]) for name in names}})
    return found


def told(value: Any) -> Any:
    """A value as a document has it."""
    match value:
        case bool():
            return value
        case int():
            return Int64(value)
        case Decimal():
            return Decimal128(value)
        case dict():
            return {name: told(one) for name, one in value.items()}
        case list():
            return [told(one) for one in value]
        case dt.date() if not isinstance(value, dt.datetime):
            return dt.datetime(value.year, value.month, value.day)
    return value


def filter_of(chance: random.Random) -> dict[str, Any]:
    path = chance.choice(["i", "f", "t", "y", "b", "c", "z", "d", "s.f", "s.t", "l"])
    kind = {"s.f": "f", "s.t": "t", "l": "i"}.get(path, path)
    operand = told(chance.choice(VALUES[chance.choice(list(VALUES)) if chance.random() < 0.1 else kind]))
    operator = chance.choice(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$not", "$regex"])
    match operator:
        case "$in" | "$nin":
            return {path: {operator: [operand, None] if chance.random() < 0.3 else [operand]}}
        case "$not":
            return {path: {"$not": {chance.choice(["$gt", "$lte"]): operand}}}
        case "$regex":
            return {path: {"$regex": chance.choice(["^a", "^x", "b$"])}}
    found = {path: {operator: operand}}
    return found if chance.random() < 0.7 else {chance.choice(["$or", "$and", "$nor"]): [found, filter_of(chance)]}


def written(path: Path, given: list[dict[str, Any]], group: int, chance: random.Random) -> tuple[gl.parquet.Zone, ...]:
    """A file of these rows, which come in pieces that are cut anywhere."""
    table = pa.Table.from_pylist(given, SCHEMA)
    with gl.parquet.Writer(path, SCHEMA, row_group_rows=group, codec=chance.choice(["zstd", "fastest", "none"])) as writer:
        at = 0
        while at < len(given):
            size = chance.randint(1, 5)
            writer.write(table.slice(at, size))
            at += size
    return writer.zones


def by_pyarrow(path: Path, given: list[dict[str, Any]], group: int, _chance: random.Random) -> None:
    pq.write_table(pa.Table.from_pylist(given, SCHEMA), path, row_group_size=group, version="1.0" if group % 2 else "2.6")


def rows_by_duckdb(given: list[dict[str, Any]], column: str, where: str) -> set[int]:
    with duckdb.connect() as engine:
        engine.register("given", pa.Table.from_pylist(given, SCHEMA).select(["row", column]))
        return {row for (row,) in engine.execute(f"SELECT row FROM given WHERE {where}").fetchall()}


@pytest.mark.parametrize("writer", ["ours", "ours, by the footer", "pyarrow"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 30))])
def test_what_is_skipped_holds_no_row_that_matches(tmp_path: Path, writer: str, seed: int) -> None:
    chance = random.Random(f"{writer} {seed}")
    skipped = dict.fromkeys(("filters", "sql"), 0)
    for number in range(6):
        group, given, path = chance.choice([1, 2, 3]), rows(chance, 24), tmp_path / f"{number}.parquet"
        if writer == "pyarrow":
            by_pyarrow(path, given, group, chance)
        else:
            zones = written(path, given, group, chance)
        if writer != "ours":
            zones = gl.parquet.read_zones(path)
        assert [zone.rows for zone in zones] == [len(given[at : at + group]) for at in range(0, len(given), group)]
        documents = [{name: told(value) for name, value in one.items()} for one in given]
        for _ in range(60):
            filter_ = filter_of(chance)
            for at, zone in enumerate(zones):
                if gl.parquet.can_skip(filter_, zone):
                    skipped["filters"] += 1
                    assert not any(gl.documents.matches(filter_, one) for one in documents[at * group : (at + 1) * group]), (
                        filter_,
                        zone,
                    )
        for _ in range(20):
            path_, operator = chance.choice(list(SQL)), chance.choice(["=", "<>", "<", "<=", ">", ">="])
            where = f"{path_} {operator} {chance.choice(SQL[path_])}"
            where = f"{path_} IS {chance.choice(['', 'NOT '])}NULL" if chance.random() < 0.1 else where
            kept = rows_by_duckdb(given, path_.partition(".")[0], where)
            for at, zone in enumerate(zones):
                if gl.parquet.can_skip(where, zone):
                    skipped["sql"] += 1
                    assert not kept & set(range(at * group, (at + 1) * group)), (where, zone)
    assert min(skipped.values()) > 100, skipped


def test_a_file_is_read_by_others_as_it_was_given(tmp_path: Path) -> None:
    chance = random.Random(5)
    given = rows(chance, 50)
    zones = written(tmp_path / "a.parquet", given, 7, chance)
    wanted = pa.Table.from_pylist(given, SCHEMA)
    found = pq.ParquetFile(tmp_path / "a.parquet")
    assert found.metadata.num_row_groups == len(zones) == 8
    assert str(found.read().to_pylist()) == str(wanted.to_pylist())
    with duckdb.connect() as engine:
        assert engine.execute(f"SELECT count(*), sum(row) FROM '{tmp_path / 'a.parquet'}'").fetchall() == [(50, 49 * 25)]


def test_bounds_of_cut_texts_hold() -> None:
    texts = [LONG + "b", LONG[:-1] + "\U0010ffff" * 2, "\U0010ffff" * 65]
    for text in texts:
        (stats,) = zone_of(pa.table({"t": [text]})).columns.values()
        assert isinstance(stats.min, str)
        assert len(stats.min) == 64
        assert stats.min <= text
        assert stats.max is None or (isinstance(stats.max, str) and len(stats.max) <= 64 and stats.max >= text)
    assert zone_of(pa.table({"t": texts[2:]})).columns[("t",)].max is None


def test_nothing_is_there_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a.parquet"
    rows_ = pa.table({"a": [1, 2, 3]})
    with gl.parquet.Writer(path, rows_.schema, row_group_rows=1) as writer:
        writer.write(rows_)
        assert not path.exists()
    assert pq.read_table(path).equals(rows_)
    with pytest.raises(SchemaMismatch), gl.parquet.Writer(path, rows_.schema, row_group_rows=1) as writer:
        writer.write(pa.table({"b": [1]}))
    assert pq.read_table(path).equals(rows_), "what was there stays"
    assert [one.name for one in path.parent.iterdir()] == ["a.parquet"]
    with gl.parquet.Writer(path, rows_.schema) as writer:
        writer.write(rows_.slice(2))
    assert pq.read_table(path)["a"].to_pylist() == [3]


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_a_file_without_rows(tmp_path: Path, place: str) -> None:
    path = f"memory://{tmp_path.name}/none.parquet" if place == "memory" else str(tmp_path / "none.parquet")
    with gl.parquet.Writer(path, SCHEMA) as writer:
        writer.write(SCHEMA.empty_table())
    writer.close()
    assert writer.zones == gl.parquet.read_zones(path) == ()


def test_a_bucket_holds_one_too(s3_options: tuple[str, dict[str, str]]) -> None:
    url, options = s3_options
    with gl.parquet.Writer(
        f"{url}/a.parquet", pa.schema({"a": pa.int64()}), row_group_rows=2, storage_options=options
    ) as writer:
        writer.write(pa.table({"a": [1, 2, 3]}))
    zones = gl.parquet.read_zones(f"{url}/a.parquet", options)
    assert [gl.parquet.can_skip({"a": {"$gt": 2}}, zone) for zone in zones] == [True, False]


def test_rows_are_converted_without_loss(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int16(), nullable=False), ("t", pa.string())])
    with gl.parquet.Writer(tmp_path / "a.parquet", schema) as writer:
        writer.write(pa.table({"t": pa.array(["x"]).dictionary_encode(), "a": pa.array([1], pa.int64())}))
        writer.write(pa.record_batch({"a": [2], "t": [None]}, schema))
        for given, error, says in (
            (pa.table({"a": [1 << 20], "t": ["x"]}), InvalidValue, "row 2"),
            (pa.table({"a": pa.array([None], pa.int16()), "t": ["x"]}), InvalidValue, "null in row 2"),
            (pa.table({"a": [1]}), SchemaMismatch, "t: missing"),
            (pa.table({"a": [1], "t": ["x"], "u": [1]}), SchemaMismatch, "u: not a column"),
            (pa.table({"a": ["x"], "t": ["x"]}), SchemaMismatch, "a: int16"),
            ([{"a": 1, "t": "x"}], InvalidOption, "Arrow stream"),
        ):
            with pytest.raises(error, match=says):
                writer.write(given)
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"a": 1, "t": "x"}, {"a": 2, "t": None}]
    with pytest.raises(InvalidOption, match="closed"):
        writer.write(pa.table({"a": [1], "t": ["x"]}))


@pytest.mark.parametrize("options", [{"row_group_rows": 0}, {"row_group_rows": True}, {"codec": "zip"}])
def test_options_that_mean_nothing(tmp_path: Path, options: Any) -> None:
    with pytest.raises(InvalidOption):
        gl.parquet.Writer(tmp_path / "a.parquet", SCHEMA, **options)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_asked_or_read(tmp_path: Path) -> None:
    zone = zone_of(pa.table({"a": [1], "l": [[1]]}))
    for filter_, error in (
        ({"b": 1}, UnknownColumn),
        ("b = 1", UnknownColumn),
        ({"a": {"$gtt": 1}}, InvalidFilter),
        ("a >", InvalidFilter),
    ):
        with pytest.raises(error):
            gl.parquet.can_skip(filter_, zone)
    assert not gl.parquet.can_skip({"l": 5}, zone), "of lists nothing is known"
    with pytest.raises(ObjectNotFound):
        gl.parquet.read_zones(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("no parquet at all")
    with pytest.raises(UnreadableInput, match=r"b\.parquet"):
        gl.parquet.read_zones(tmp_path / "b.parquet")
