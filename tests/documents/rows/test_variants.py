"""Filters on paths of shredded variants: the rows that match, out of fewer row groups."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.files.read import row_group_batches
from support.hand_made import Hand, column, lay

SHAPES = {
    "STRUCT(a BIGINT)": 1, "STRUCT(a BIGINT, b STRUCT(c BIGINT, d VARCHAR))": 1, "STRUCT(b STRUCT(d VARCHAR))": 1,
    "STRUCT(a BOOLEAN, b STRUCT(c DOUBLE), c BIGINT[])": 0, "": 0,
}  # fmt: skip
"""Columns that variants are shredded into, and how many of the filters open fewer row groups at least."""
PATHS = ["v.a", "v.a", "v.b.c", "v.b.c", "v.b.d", "v.b.d", "v.c", "v.b", "v", "v.a.x", "v.0"]
OPERANDS: list[Any] = [None, 0, 1, 5, 7.5, -3, 2**40, "", "k5", "k7", True, False, [], [1], {"c": 1}]


def document(chance: random.Random, near: int, *, odd: bool) -> Any:
    if odd and chance.random() < 0.1:
        return chance.choice([1, "x", [{"a": 5, "b": {"c": 7}}], [1, 2], {"a": [1, {"c": 5}]}, {"b": [{"c": 1}]}, {}])
    found: dict[str, Any] = {}
    if not odd or chance.random() < 0.9:
        found["a"] = near + chance.randrange(2) if not odd or chance.random() < 0.8 else chance.choice(["k5", 1.5, True, None])
    if not odd or chance.random() < 0.9:
        found["b"] = {"c": near, "d": f"k{near}"} if not odd or chance.random() < 0.8 else {"c": f"k{near}"}
    if odd and chance.random() < 0.2:
        found["c"] = chance.choice([near, [near], "x"])
    return found


def literal(value: Any) -> str:
    """A variant in DuckDB's SQL; of a number in JSON it would make an unsigned one, which lies in no BIGINT."""
    match value:
        case dict() if value:
            return "{" + ", ".join(f"'{name}': {literal(one)}" for name, one in value.items()) + "}::VARIANT"
        case list() if value:
            return f"[{', '.join(map(literal, value))}]::VARIANT"
        case int() if not isinstance(value, bool):
            return f"{value}::BIGINT::VARIANT"
        case float():
            return f"{value}::DOUBLE::VARIANT"
    return f"'{json.dumps(value)}'::JSON::VARIANT" if value is not None else "NULL::VARIANT"


def table_of(root: Path, given: list[Any], shape: str, group: int) -> Any:
    """A table of the documents as DuckDB shreds them, in row groups as small as asked; SQL nulls where one is `...`."""
    path = root / "rows.parquet"
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE t (n BIGINT, v VARIANT)")
        for at, one in enumerate(given):
            engine.execute(f"INSERT INTO t VALUES ({at}, {'NULL' if one is ... else literal(one)})")
        shredding = f", SHREDDING {{v: '{shape}'}}" if shape else ""
        engine.execute(f"COPY (SELECT * FROM t ORDER BY n) TO '{path}' (FORMAT parquet{shredding})")
    file = Hand(path="a.parquet", rows=pq.read_table(path), options={"row_group_size": group})
    return lay(root / "t", [column("n", "long"), column("v", "variant")], [file], features=["variantType"])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the row groups that are read, as they are."""
    numbers: list[int] = []
    read = row_group_batches.read_row_group_batches

    def counting(store: Any, pieces: Any, **options: Any) -> Any:
        def noted() -> Any:
            for piece in pieces:
                numbers.extend(piece.numbers)
                yield piece

        return read(store, noted(), **options)

    monkeypatch.setattr("gapless.tables.delta.files.reading.read_row_group_batches", counting)
    return numbers


def asked(chance: random.Random) -> dict[str, Any]:
    path, operand = chance.choice(PATHS), chance.choice(OPERANDS)
    operator = chance.choice(
        ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$exists", "$type", "$not", "$regex", "$size", "$mod"]
    )
    given: dict[str, Any] = {
        "$in": {"$in": [operand, chance.choice(OPERANDS)]},
        "$exists": {"$exists": bool(operand)},
        "$type": {"$type": chance.choice(["int", "long", "number", "string", "null", "bool", "array"])},
        "$not": {"$not": {chance.choice(["$gt", "$lte"]): operand}},
        "$regex": {"$regex": chance.choice(["^k5", "7$"])},
        "$size": {"$size": 1},
        "$mod": {"$mod": [2, 1]},
    }
    found = {path: given.get(operator, {operator: operand})}
    return found if chance.random() < 0.7 else {chance.choice(["$and", "$or", "$nor"]): [found, asked(chance)]}


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 20))])
def test_what_matches_is_found_in_fewer_row_groups(tmp_path: Path, opened: list[int], shape: str, seed: int) -> None:
    chance = random.Random(f"{shape} {seed}")
    given = [... if chance.random() < 0.05 else document(chance, at // 4, odd=at % 24 < 12) for at in range(48)]
    table = table_of(tmp_path, given, shape, 4)
    known = [{"n": at, "v": None if one is ... else one} for at, one in enumerate(given)]
    fewer = 0
    for _ in range(80):
        filter_ = asked(chance)
        opened.clear()
        found = table.query(filter_, columns=["n"])["n"].to_pylist()
        assert found == [one["n"] for one in known if gl.documents.matches(filter_, one)], filter_
        assert {at // 4 for at in found} <= set(opened)
        fewer += len(opened) < 12
    assert fewer >= SHAPES[shape]


def test_a_filter_on_a_path_opens_one_row_group_of_many(tmp_path: Path, opened: list[int]) -> None:
    given = [{"a": at, "b": {"c": at * 10, "d": f"k{at:03}"}, "more": "x" * at} for at in range(100)]
    table = table_of(tmp_path, given, "STRUCT(a BIGINT, b STRUCT(c BIGINT, d VARCHAR))", 10)
    for filter_, groups in (
        ({"v.a": 42}, [4]), ({"v.b.c": {"$gte": 980}}, [9]), ({"v.b.d": {"$regex": "^k03"}}, [3]), ({"v.a": "x"}, []), ({"v.a": {"$lt": 12}}, [0, 1]),
        ({"v.a": {"$ne": 42}}, list(range(10))), ({"v.more": "x"}, list(range(10))), ({"$or": [{"v.a": 5}, {"v.b.c": 950}]}, [0, 9]),
    ):  # fmt: skip
        opened.clear()
        found = table.query(filter_)["n"].to_pylist()
        assert found == [at for at, one in enumerate(given) if gl.documents.matches(filter_, {"v": one})], filter_
        assert sorted(opened) == groups, filter_
