"""Shredded variants, as DuckDB writes them: put together they are the values that were given."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.delta.variant.decode import decode_variant
from gapless.formats.delta.variant.encode import encode_variant
from gapless.formats.delta.variant.shredded import Misplaced, is_shredded, put_together

SHAPES = [
    "", "STRUCT(a BIGINT)", "STRUCT(a VARCHAR, b STRUCT(a BIGINT, c VARCHAR))", "STRUCT(a DOUBLE, b BIGINT[])", "BIGINT", "VARCHAR[]",
    "STRUCT(b STRUCT(a STRUCT(c BOOLEAN)), c STRUCT(a BIGINT)[])",
]  # fmt: skip


def value(chance: random.Random, depth: int = 3) -> Any:
    if depth and chance.random() < 0.5:
        names = chance.sample("abcd", chance.randrange(4))
        return {name: value(chance, depth - 1) for name in names}
    if depth and chance.random() < 0.3:
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return chance.choice([None, True, False, 0, 1, 2**40, -5, 1.5, "", "x", "é" * 40])


def by_duckdb(path: Path, given: list[Any], shape: str) -> pa.ChunkedArray:
    """The column as DuckDB shreds it; SQL nulls where a value is `...`."""
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE t (n BIGINT, v VARIANT)")
        for at, one in enumerate(given):
            text = None if one is ... else json.dumps(one)
            engine.execute("INSERT INTO t VALUES (?, ?::JSON::VARIANT)", [at, text])
        shredding = f", SHREDDING {{v: '{shape}'}}" if shape else ""
        engine.execute(f"COPY (SELECT v FROM t ORDER BY n) TO '{path}' (FORMAT parquet{shredding})")
    return pq.read_table(path)["v"]


def whole(column: pa.ChunkedArray) -> list[Any]:
    assert is_shredded(column.type)
    found = [one for chunk in column.chunks for one in put_together(chunk, "p").to_pylist()]
    return [... if one is None else decode_variant(one["metadata"], one["value"]) for one in found]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 20))])
def test_what_duckdb_shreds(tmp_path: Path, shape: str, seed: int) -> None:
    chance = random.Random(f"{shape} {seed}")
    given: list[Any] = [... if chance.random() < 0.1 else value(chance) for _ in range(60)]
    # Of a null in JSON DuckDB makes a null of SQL.
    given = [... if one is None else one for one in given]
    if not shape:
        given = [{"a": at, "b": [at], "c": {"d": "x"}} for at in range(20)]
    assert whole(by_duckdb(tmp_path / "v.parquet", given, shape)) == given


def shredded(typed: pa.Array, values: list[bytes | None], metadata: bytes = b"\x11\x02\x00\x01\x02ab") -> pa.StructArray:
    arrays = [pa.array([metadata] * len(values), pa.binary()), pa.array(values, pa.binary()), typed]
    return pa.StructArray.from_arrays(arrays, ["metadata", "value", "typed_value"])


def told(array: pa.StructArray) -> list[Any]:
    return [decode_variant(one["metadata"], one["value"]) for one in put_together(array, "p").to_pylist()]


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        (pa.int8(), -5), (pa.int16(), 300), (pa.int32(), 70_000), (pa.float32(), 1.5), (pa.float64(), -2.5), (pa.bool_(), True), (pa.string(), "é" * 70),
        (pa.binary(), b"\x00"), (pa.decimal128(38, 3), "12345678901234567890123456789012345.678"), (pa.decimal128(5, 2), "-1.50"),
    ],
    ids=str,
)  # fmt: skip
def test_each_type_of_a_column(type_: pa.DataType, given: Any) -> None:
    typed = pa.array([given]).cast(type_) if pa.types.is_decimal(type_) else pa.array([given], type_)
    assert told(shredded(typed, [None])) == [typed[0].as_py()]


def test_times_of_columns_are_those_of_values() -> None:
    for type_ in (pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        typed = pa.array([20_000], pa.int32() if pa.types.is_date32(type_) else pa.int64()).cast(type_)
        one = typed[0].as_py()
        assert told(shredded(typed, [None])) == [one]
        assert put_together(shredded(typed, [None]), "p").field("value")[0].as_py() == encode_variant(one)[1]


def test_a_missing_value_is_a_null_and_a_null_stays_one() -> None:
    array = shredded(pa.array([None, 1, None], pa.int64()), [None, None, b"\x09ab"])
    assert told(array) == [None, 1, "ab"]
    nulls = pa.StructArray.from_arrays(
        [array.field(name) for name in range(3)], ["metadata", "value", "typed_value"], mask=pa.array([False, True, False])
    )
    assert [one is None for one in put_together(nulls, "p").to_pylist()] == [False, True, False]
    assert told(array.slice(1, 1)) == [1], "a slice of a column"


def test_parts_that_do_not_fit_together() -> None:
    with pytest.raises(Misplaced, match="two columns"):
        put_together(shredded(pa.array([1], pa.int64()), [b"\x0c\x05"]), "p")
    fields = pa.array(
        [{"a": {"value": None, "typed_value": 1}}],
        pa.struct([("a", pa.struct([("value", pa.binary()), ("typed_value", pa.int64())]))]),
    )
    assert told(shredded(fields, [None])) == [{"a": 1}]
    left = encode_variant({"b": 7, "a": 1})[1]
    with pytest.raises(Misplaced, match="two columns"):
        put_together(shredded(fields, [left]), "p")
    with pytest.raises(Misplaced, match="not in the metadata"):
        put_together(shredded(fields, [None], b"\x11\x00\x00"), "p")
    with pytest.raises(CorruptTable, match="no object"):
        put_together(shredded(fields, [b"\x0c\x05"]), "p")
    with pytest.raises(UnsupportedTable, match=r"data file p .* duration"):
        put_together(shredded(pa.array([1], pa.duration("s")), [None]), "p")
