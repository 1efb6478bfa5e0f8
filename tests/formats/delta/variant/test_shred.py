"""Variants that we shred: they come back as they were, and lie where DuckDB puts them."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidValue, UnsupportedType
from gapless.formats.delta.variant.decode import decode_variant
from gapless.formats.delta.variant.shredded import put_together
from support.hand_made import Hand, column, lay

PATHS = {"a": pa.int64(), "b.c": pa.string(), "b.d": pa.float64(), "e": pa.bool_()}
SHAPE = "STRUCT(a BIGINT, b STRUCT(c VARCHAR, d DOUBLE), e BOOLEAN)"


def value(chance: random.Random, depth: int = 2) -> Any:
    if depth and chance.random() < 0.6:
        return {name: value(chance, depth - 1) for name in chance.sample("abcdef", chance.randint(1, 4))}
    if depth and chance.random() < 0.1:
        return [value(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    return chance.choice([0, 1, 2**40, 1.5, "", "x", True, False, 7])


def literal(given: Any) -> str:
    match given:
        case dict():
            return "{" + ", ".join(f"'{name}': {literal(one)}" for name, one in given.items()) + "}::VARIANT"
        case list():
            return f"[{', '.join(map(literal, given))}]::VARIANT"
        case bool() | str():
            return f"'{json.dumps(given)}'::JSON::VARIANT"
    return f"{given}::{'BIGINT' if isinstance(given, int) else 'DOUBLE'}::VARIANT"


def told(part: dict[str, Any] | None, metadata: bytes) -> Any:
    """The columns of a part, with what `value` holds in Python."""
    if part is None:
        return None
    found = part["value"] and decode_variant(metadata, part["value"])
    typed = part["typed_value"]
    if isinstance(typed, dict):
        typed = {name: told(one, metadata) for name, one in sorted(typed.items())}
    return found, typed


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 20))])
def test_columns_hold_what_those_of_duckdb_do(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    given = [value(chance) for _ in range(60)]
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE t (n BIGINT, v VARIANT)")
        for at, one in enumerate(given):
            engine.execute(f"INSERT INTO t VALUES ({at}, {literal(one)})")
        engine.execute(
            f"COPY (SELECT v FROM t ORDER BY n) TO '{tmp_path / 'v.parquet'}' (FORMAT parquet, SHREDDING {{v: '{SHAPE}'}})"
        )
    theirs = pq.read_table(tmp_path / "v.parquet")["v"].to_pylist()
    ours = gl.delta.shred_variant(given, PATHS)
    for one, other, wanted in zip(ours.to_pylist(), theirs, given, strict=True):
        assert told(one, one["metadata"]) == told(other, other["metadata"]), wanted
    back = put_together(ours, "p").to_pylist()
    assert [decode_variant(one["metadata"], one["value"]) for one in back] == given


def test_a_table_of_shredded_variants(tmp_path: Path) -> None:
    given = [None, *({"a": at, "b": {"c": f"k{at}"}, "z": [at]} for at in range(30)), {"a": "x"}, 5]
    rows = pa.table({"n": pa.array(range(len(given))), "v": gl.delta.shred_variant(given, PATHS)})
    file = Hand(path="a.parquet", rows=rows, options={"row_group_size": 5})
    table = lay(tmp_path, [column("n", "long"), column("v", "variant")], [file], features=["variantType", "variantShredding"])
    assert [row["v"] for row in table.scan().to_pylist()] == given
    assert table.query({"v.a": {"$gte": 28}, "v.z": 29})["n"].to_pylist() == [30]


@pytest.mark.parametrize(
    ("type_", "inside", "outside"),
    [
        (pa.int8(), -128, 128), (pa.int64(), 2**63 - 1, 2**63), (pa.int64(), 1, True), (pa.int64(), 1, 1.0), (pa.bool_(), True, 1), (pa.float64(), 1.0, 1),
        (pa.string(), "a", b"a"), (pa.binary(), b"a", "a"), (pa.decimal128(5, 2), Decimal("1.50"), Decimal("1.5")), (pa.decimal128(5, 2), Decimal("-999.99"), Decimal("9999.99")),
        (pa.date32(), dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)), (pa.timestamp("us"), dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (pa.timestamp("us", tz="UTC"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1)), (pa.string(), "a", None),
    ],
    ids=str,
)  # fmt: skip
def test_a_column_takes_what_loses_nothing(type_: pa.DataType, inside: Any, outside: Any) -> None:
    found = gl.delta.shred_variant([{"a": inside}, {"a": outside}, {}], {"a": type_})
    parts = [row["typed_value"]["a"] for row in found.to_pylist()]
    assert [(part["value"] is None, part["typed_value"] is None) for part in parts] == [
        (True, False),
        (False, True),
        (True, True),
    ]
    back = [decode_variant(one["metadata"], one["value"]) for one in put_together(found, "p").to_pylist()]
    assert repr(back) == repr(
        [{"a": inside}, {"a": Decimal(outside) if type(outside) is int and outside > 2**62 else outside}, {}]
    )


@pytest.mark.parametrize(
    ("paths", "error"),
    [
        ({}, InvalidOption), ({"a": pa.int64(), "a.b": pa.int64()}, InvalidOption), ({"a.b": pa.int64(), "a": pa.int64()}, InvalidOption),
        ({"a..b": pa.int64()}, InvalidOption), ({"a": pa.list_(pa.int64())}, UnsupportedType), ({"a": pa.timestamp("ns")}, UnsupportedType),
    ],
)  # fmt: skip
def test_paths_that_cannot_be(paths: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        gl.delta.shred_variant([{"a": 1}], paths)


def test_values_that_cannot_be() -> None:
    with pytest.raises(InvalidValue):
        gl.delta.shred_variant([{"a": object()}], {"b": pa.int64()})
