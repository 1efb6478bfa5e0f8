"""Filters of MongoDB's on the columns of Delta tables: the rows of a scan whose documents match, one by one."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId

import gapless as gl
from gapless.documents.filters.parse import parse_filter
from gapless.documents.rows.predicate import row_predicate
from gapless.documents.rows.query import RowQuery
from gapless.errors import InvalidFilter, InvalidOption, NotSupported, UnknownColumn, UnsupportedType
from gapless.tables.delta.read.view import scan_condition
from gapless.tables.delta.table import DeltaTable
from support.delta_tables import LAYOUTS

UTC = dt.UTC
NAN = float("nan")
MOMENT = dt.datetime(2026, 1, 5, 12, tzinfo=UTC)
US = dt.timedelta(microseconds=1)
ITEM = pa.struct([("k", pa.string()), ("n", pa.int32())])
SCHEMA = pa.schema(
    [
        ("row", pa.int64()), ("i", pa.int64()), ("j", pa.int32()), ("f", pa.float64()), ("g", pa.float32()), ("c", pa.decimal128(20, 2)),
        ("t", pa.string()), ("b", pa.bool_()), ("y", pa.binary()), ("d", pa.date32()), ("z", pa.timestamp("us", tz="UTC")),
        ("w", pa.timestamp("us")), ("s", pa.struct([("x", pa.float64()), ("t", pa.string()), ("u", pa.struct([("i", pa.int64())]))])),
        ("l", pa.list_(pa.int64())), ("o", pa.list_(ITEM)), ("m", pa.map_(pa.string(), pa.int64())), ("p", pa.string()),
    ]
)  # fmt: skip
NUMBERS: list[Any] = [0, 1, 2, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
FLOATS: list[Any] = [0.0, -0.0, 1.0, 1.5, -1.0, NAN, math.inf, -math.inf, 2.0**53, 1e300, 5e-324, 0.1]
SINGLES: list[Any] = [0.0, -0.0, 1.0, 1.5, NAN, math.inf, 16777216.0, 3.4028234663852886e38, 0.10000000149011612]
DECIMALS: list[Any] = [Decimal("0.00"), Decimal("1.00"), Decimal("1.50"), Decimal("-1.01"), Decimal("999999999999999999.99")]
TEXTS: list[Any] = ["", "a", "ab", "b", "A", "é", "\U0001f600", "a" * 70, "a" * 70 + "b"]
BYTES: list[Any] = [b"", b"a", b"ab", b"\xff"]
DATES: list[Any] = [dt.date(2026, 1, 5), dt.date(2026, 1, 6), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]
TIMES: list[Any] = [
    MOMENT,
    MOMENT + US,
    MOMENT + 999 * US,
    MOMENT + 1000 * US,
    MOMENT - US,
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(9999, 1, 1, tzinfo=UTC),
]
VALUES: dict[str, list[Any]] = {
    "i": NUMBERS, "j": [0, 1, 2, -(2**31), 2**31 - 1], "f": FLOATS, "g": SINGLES, "c": DECIMALS, "t": TEXTS, "b": [True, False], "y": BYTES,
    "d": DATES, "z": TIMES, "w": [one.replace(tzinfo=None) for one in TIMES], "p": ["a", "b"],
}  # fmt: skip
OPERANDS: list[Any] = [
    None, *NUMBERS, *FLOATS, True, False, *TEXTS, *BYTES, *TIMES, MOMENT.replace(tzinfo=None), dt.datetime(2026, 1, 5), dt.datetime(2026, 1, 6, 0, 0, 0, 1000),
    Decimal128("1"), Decimal128("1.5"), Decimal128("0.1"), Decimal128("1.005"), Decimal128("NaN"), Decimal128("Infinity"), Decimal128("-1E+40"), Decimal128("9007199254740993.5"),
    ObjectId("5" * 24), MinKey(), MaxKey(), [], [1], [1, 2], {}, {"k": "a", "n": 1}, {"x": 1.5}, 2**31, 1e19, 16777217,
]  # fmt: skip
PATHS = [
    *VALUES, "s.x", "s.t", "s.u.i", "s", "s.u", "l", "l.0", "l.1", "o", "o.k", "o.n", "o.0", "o.0.k", "m", "m.a", "m.b",
]  # fmt: skip


def cell(chance: random.Random, name: str) -> Any:
    if chance.random() < 0.2:
        return None
    match name:
        case "s":
            inner = None if chance.random() < 0.2 else {"i": cell(chance, "i")}
            return {"x": cell(chance, "f"), "t": cell(chance, "t"), "u": inner}
        case "l":
            return [cell(chance, "i") for _ in range(chance.randrange(4))]
        case "o":
            return [
                None if chance.random() < 0.1 else {"k": cell(chance, "t"), "n": cell(chance, "j")}
                for _ in range(chance.randrange(3))
            ]
        case "m":
            return [(key, cell(chance, "i")) for key in chance.sample("ab", chance.randrange(3))]
    return chance.choice(VALUES[name])


def rows(chance: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    """Rows, those of one call near each other in some columns, so that files can be told apart by their statistics."""
    names = [name for name in SCHEMA.names if name != "row"]
    few = {name: [cell(chance, name) for _ in range(2)] for name in names if chance.random() < 0.5}
    return [
        {"row": first + at, **{name: chance.choice(few[name]) if name in few else cell(chance, name) for name in names}}
        for at in range(count)
    ]


def told(value: Any, type_: pa.DataType) -> Any:
    """A value as a document has it, by the rules of the page, and not by the code under test."""
    if value is None:
        return None
    if pa.types.is_int64(type_):
        return Int64(value)
    if pa.types.is_decimal(type_):
        return Decimal128(value)
    if pa.types.is_date32(type_):
        return dt.datetime(value.year, value.month, value.day)  # as pymongo has it
    if pa.types.is_struct(type_):
        return {one.name: told(value[one.name], one.type) for one in type_}
    if pa.types.is_map(type_):
        return {key: told(item, type_.item_type) for key, item in value}
    if pa.types.is_list(type_):
        return [told(one, type_.value_type) for one in value]
    return value


def documents(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{one.name: told(row[one.name], one.type) for one in SCHEMA} for row in given]


def asked(chance: random.Random, depth: int = 2) -> Any:
    """What is asked of a field."""
    operand = chance.choice(OPERANDS)
    match chance.randrange(14 if depth else 10):
        case 0:
            return operand
        case 1 | 2 | 3:
            return {chance.choice(["$gt", "$gte", "$lt", "$lte"]): operand}
        case 4:
            low, high = chance.choice(OPERANDS), operand
            return {"$gte": low, "$lt": high}
        case 5:
            return {chance.choice(["$eq", "$ne"]): operand}
        case 6:
            return {chance.choice(["$in", "$nin", "$all"]): [chance.choice(OPERANDS) for _ in range(chance.randrange(4))]}
        case 7:
            return {"$regex": chance.choice(["^a", "^A", "b$", "", "^ab", "a+"]), "$options": chance.choice(["", "i"])}
        case 8:
            return {"$exists": chance.choice([True, False])}
        case 9:
            return chance.choice([{"$type": chance.choice(["int", "long", "double", "number", "string", "null", "date", "array", "object", "bool", "decimal", "binData"])}, {"$size": chance.randrange(3)}, {"$mod": [2, chance.randrange(2)]}, {"$bitsAnySet": 3}])  # fmt: skip
        case 10 | 11:
            inner = asked(chance, depth - 1)
            return {
                "$not": inner if isinstance(inner, dict) and inner and next(iter(inner)).startswith("$") else {"$eq": operand}
            }
        case 12:
            return {
                "$elemMatch": chance.choice([{"$gte": 1}, {"k": chance.choice(TEXTS)}, {"n": {"$gt": 0}, "k": {"$ne": None}}])
            }
        case _:
            return re.compile(chance.choice(["^a", "B"]), re.IGNORECASE if chance.random() < 0.5 else 0)


def condition(chance: random.Random, depth: int = 2) -> dict[str, Any]:
    if depth and chance.random() < 0.3:
        return {chance.choice(["$and", "$or", "$nor"]): [condition(chance, depth - 1) for _ in range(chance.randrange(1, 3))]}
    # An $elemMatch by fields names columns of `o` alone.
    found = {path: asked(chance) for path in chance.sample(PATHS, chance.choice([1, 1, 2]))}
    return {path: one for path, one in found.items() if path == "o" or "$elemMatch" not in str(one) or "'k'" not in str(one)}


def made(
    path: Path, chance: random.Random, properties: Mapping[str, str], partition_by: tuple[str, ...]
) -> tuple[DeltaTable, list[Any]]:
    table, given = DeltaTable.create(path, SCHEMA, properties=properties, partition_by=partition_by), list[Any]()
    for _ in range(5):
        some = rows(chance, len(given), chance.randint(1, 12))
        table.append(pa.Table.from_pylist(some, SCHEMA))
        given += some
    table.delete("row in (3, 11)")
    return table, [one for one in given if one["row"] not in (3, 11)]


@pytest.mark.parametrize("way", ["copies", "vectors", "mapped by p"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 30))])
def test_a_query_gives_the_rows_whose_documents_match(tmp_path: Path, way: str, seed: int) -> None:
    chance = random.Random(f"{way} {seed}")
    layout, _, by = way.partition(" by ")
    table, given = made(tmp_path / "t", chance, LAYOUTS[layout], (by,) if by else ())
    order = {number: at for at, number in enumerate(table.scan(columns=["row"]).to_arrow()["row"].to_pylist())}
    known = documents(given)
    seen = dict.fromkeys(("exact", "looked at again", "found", "pruned"), 0)
    for _ in range(250):
        filter_ = condition(chance)
        wanted = [row["row"] for row, one in zip(given, known, strict=True) if gl.documents.matches(filter_, one)]
        found = table.query(filter_, columns=["row"]).column("row").to_pylist()
        assert found == sorted(wanted, key=order.__getitem__), filter_
        query = RowQuery.parse(filter_, table.schema, ["row"])
        seen["exact" if query.again is None else "looked at again"] += 1
        seen["found"] += 0 < len(found) < len(given)
        seen["pruned"] += len(scan_condition(table, query.pushed, ("row",)).rows().files()) < len(table.files())
    assert min(seen.values()) > 20, seen


@pytest.mark.parametrize("name", list(VALUES))
def test_each_type_against_each_operand(tmp_path: Path, name: str) -> None:
    """Each value a file by itself, so that statistics alone decide, and all in one, where rows are filtered."""
    type_ = SCHEMA.field(name).type
    values = [*VALUES[name], None]
    one_file, files = (
        DeltaTable.create(tmp_path / kind, pa.schema([("row", pa.int64()), (name, type_)])) for kind in ("one", "many")
    )
    one_file.append(pa.table({"row": range(len(values)), name: pa.array(values, type_)}))
    for at, value in enumerate(values):
        files.append(pa.table({"row": [at], name: pa.array([value], type_)}))
    known = [{"row": at, name: told(value, type_)} for at, value in enumerate(values)]
    operators = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]
    for operand in OPERANDS if name in ("f", "i") else [*OPERANDS[::2], *VALUES[name][:2]]:
        plain = told(operand, type_) if type(operand) in (Decimal, dt.date) else operand
        for operator in operators:
            filter_ = {name: {operator: plain}}
            wanted = [one["row"] for one in known if gl.documents.matches(filter_, one)]
            assert one_file.query(filter_)["row"].to_pylist() == wanted, filter_
            assert files.query(filter_)["row"].to_pylist() == wanted, filter_


def test_numbers_of_all_digits_are_compared(tmp_path: Path) -> None:
    """Decimals of 38 digits, where BSON's have 34."""
    big, above, below = (Decimal(12345678901234567890123456789012345678 + step) for step in (0, 1, -1))
    table = DeltaTable.create(tmp_path / "t", pa.schema([("c", pa.decimal128(38, 0)), ("l", pa.list_(pa.decimal128(38, 0)))]))
    table.append(pa.table({"c": [big, above, below], "l": [[big], [above], None]}, table.schema))
    near = Decimal128("1234567890123456789012345678901235E+4")
    assert [row["c"] for row in table.query({"c": {"$lt": near}}).to_pylist()] == [big, above, below]
    assert table.query({"c": {"$gt": near}}).num_rows == table.query({"l": {"$gt": near}}).num_rows == 0
    assert table.query({"l": {"$lt": near}}).num_rows == 2
    assert table.query({"l": {"$mod": [2, 0]}}).num_rows == 0, "a remainder is of 64 bits"


def test_variants_are_what_they_hold(tmp_path: Path) -> None:
    variant = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
    schema = pa.schema([("n", pa.int64()), pa.field("v", variant, metadata={b"delta.type": b"variant"})])
    table = DeltaTable.create(tmp_path / "t", schema)
    dictionary = b"\x01\x01\x00\x01a"
    values = [b"\x02\x01\x00\x00\x02\x0c\x07", b"\x0c\x07", b"\x05a", b"\x00", b"\x0c\x09"]  # {"a": 7}, 7, "a", null, 9
    column = [*({"metadata": dictionary, "value": one} for one in values), None]
    table.append(pa.Table.from_pylist([{"n": at, "v": one} for at, one in enumerate(column)], schema))
    for filter_, wanted in (
        ({"v.a": 7}, [0]),
        ({"v": {"$gte": 7}}, [1, 4]),
        ({"v": "a"}, [2]),
        ({"v": None}, [3, 5]),
        ({"v.a.b": {"$exists": True}}, []),
    ):
        assert table.query(filter_, columns=["n"])["n"].to_pylist() == wanted, filter_


@pytest.fixture
def people(tmp_path: Path) -> DeltaTable:
    table = DeltaTable.create(
        tmp_path / "t",
        pa.schema(
            [
                ("id", pa.int64()),
                ("age", pa.int64()),
                ("odd", pa.map_(pa.int64(), pa.string())),
                ("s", ITEM),
                ("l", pa.list_(ITEM)),
            ]
        ),
    )
    for first in range(0, 40, 10):
        table.append({"id": range(first, first + 10), "age": range(first, first + 10)})
    return table


@pytest.mark.parametrize(
    ("filter_", "error", "says"),
    [
        ({"age": {"$gtee": 30}}, InvalidFilter, r"\$gtee is no operator.*\$gte"),
        ({"age": 1, "$or": [{"id": {"$gt": 1, "$lower": 2}}]}, InvalidFilter, r"\$lower"),
        ({"l": {"$elemMatch": {"k": {"$near": 1}}}}, NotSupported, r"\$near"),
        ({"$where": "1"}, NotSupported, r"\$where"),
        ({"agee": 1}, UnknownColumn, "'agee'.*'age'"),
        ({"Age": 1}, UnknownColumn, "'Age'"),
        ({"$nor": [{"s.kk": 1}]}, UnknownColumn, "'s.kk'.*'k'"),
        ({"age.x": 1}, UnknownColumn, "'age.x'"),
        ({"l.x": 1}, UnknownColumn, "'l.x'"),
        ({"l.0.x": 1}, UnknownColumn, "'l.0.x'"),
        ({"l": {"$not": {"$elemMatch": {"nn": 1}}}}, UnknownColumn, "'l.nn'.*'n'"),
        ({"odd": 1}, UnsupportedType, "'odd'"),
        ({"odd.1": 1}, UnsupportedType, "'odd'"),
    ],
)
def test_what_is_refused_reads_nothing(
    people: DeltaTable, tmp_path: Path, filter_: Any, error: type[Exception], says: str
) -> None:
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    with pytest.raises(error, match=says):
        people.query(filter_)


@pytest.mark.parametrize(
    ("options", "named"), [({"limit": 0}, "limit"), ({"limit": True}, "limit"), ({"columns": "age"}, "columns")]
)
def test_options_that_mean_nothing(people: DeltaTable, options: Any, named: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        people.query({}, **options)
    assert caught.value.option == named


def test_a_limit_ends_the_reading(people: DeltaTable, tmp_path: Path) -> None:
    last = people.files()[-1].path
    (tmp_path / "t" / last).unlink()
    assert people.query({"age": {"$gte": 5}}, limit=7)["id"].to_pylist() == list(range(5, 12))
    assert people.query({"age": {"$mod": [2, 0]}}, limit=7, columns=["id"])["id"].to_pylist() == list(range(0, 14, 2))


def test_files_are_left_out_by_their_statistics(people: DeltaTable, tmp_path: Path) -> None:
    for file in people.files()[:-1]:
        (tmp_path / "t" / file.path).unlink()
    assert people.query({"age": {"$gte": 30}}).num_rows == 10
    assert people.query({"age": {"$gte": 30, "$mod": [2, 0]}}).num_rows == 5
    assert people.query({"age": "thirty"}).num_rows == 0
    assert people.query({"$or": [{"age": 31}, {"id": {"$gt": 35}}]}).num_rows == 5


def test_columns_come_in_their_order_and_types(people: DeltaTable) -> None:
    found = people.query({"age": {"$mod": [40, 0]}}, columns=["age", "id"])
    assert found.schema == people.scan(columns=["age", "id"]).to_arrow().schema
    assert found.num_rows == 1
    assert people.query({"age": -1}).schema == people.scan().to_arrow().schema
    assert people.at(1).query({}).num_rows == 10
    assert gl.documents.query(people, {}).equals(people.scan().to_arrow())


def test_expressions_compare_columns_of_a_row(people: DeltaTable) -> None:
    people.update({"age": "id - 5"}, where="id >= 38")
    assert people.query({"$expr": {"$lt": ["$age", "$id"]}}, columns=["id"])["id"].to_pylist() == [38, 39]
    assert people.query({"$expr": {"$lt": ["$age", "$id"]}, "id": {"$gt": 38}}, columns=["id"]).num_rows == 1
    assert people.query({"$nor": [{"$expr": {"$eq": ["$age", "$id"]}}]}).num_rows == 2


def test_what_is_no_delta_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="list is not queried"):
        gl.documents.query([], {})  # type: ignore[arg-type]


def test_a_translation_that_is_exact_needs_no_second_look() -> None:
    schema = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.int64()))])
    for filter_, exact in (
        ({"a": {"$gte": 30, "$lt": 40}}, True),
        ({"a": {"$not": {"$in": [1, None]}}}, True),
        ({"l": 1}, False),
        ({"a": {"$mod": [2, 0]}}, False),
        ({"$nor": [{"a": 1}, {"l": 1}]}, False),
    ):
        assert row_predicate(parse_filter(filter_), schema).exact is exact, filter_
