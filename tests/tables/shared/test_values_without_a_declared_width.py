"""Numbers whose type nobody declared, Python's, JSON's and pandas', come into columns of every width that hold them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import FillStopped, InvalidValue, SchemaMismatch, UnreadableInput
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

Table = TimeSeriesTable | DeltaTable
Make = Callable[[pa.DataType], Table]
T0 = datetime(2026, 1, 5)
MAP = pa.map_(pa.string(), pa.int32())
DEEP = pa.struct([("x", pa.int16()), ("m", pa.map_(pa.int32(), pa.list_(pa.float32())))])


def series(type_: pa.DataType) -> TimeSeriesTable:
    schema = pa.schema([("ts", pa.timestamp("us")), ("a", type_)])
    return gl.create(f"memory://{uuid4()}", index="ts", bucket="1h", schema=schema)


def delta(type_: pa.DataType, **properties: str) -> DeltaTable:
    schema = pa.schema([("ts", pa.timestamp("us")), ("a", type_)])
    return gl.delta.create(f"memory://{uuid4()}", schema, properties=properties)


@pytest.fixture(params=[series, delta], ids=["series", "delta"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a table whose column `a` has a type."""
    made: Make = request.param
    return made


def rows(*values: object) -> list[dict[str, object]]:
    return [{"ts": T0 + timedelta(hours=at), "a": value} for at, value in enumerate(values)]


def values(table: Table) -> list[object]:
    return list(table.scan(columns=["a"]).to_arrow()["a"].to_pylist())


TAKEN: list[tuple[pa.DataType, list[object], list[object]]] = [
    (pa.int8(), [1, None, -128], [1, None, -128]),
    (pa.int16(), [1, 32_767], [1, 32_767]),
    (pa.int32(), [1, 2**31 - 1], [1, 2**31 - 1]),
    (pa.int64(), [1.0, None, 3.0], [1, None, 3]),
    (pa.float32(), [0.5, 1, None], [0.5, 1.0, None]),
    (pa.float64(), [5, 2**54], [5.0, float(2**54)]),
    (pa.decimal128(9, 2), [1, None], [Decimal("1.00"), None]),
    (pa.decimal128(9, 2), [0.5, 0.1], [Decimal("0.50"), Decimal("0.10")]),
    (pa.decimal128(38, 0), [2**70, 1], [Decimal(2**70), Decimal(1)]),
    (pa.decimal128(9, 2), [Decimal("1.5000")], [Decimal("1.50")]),
    (pa.list_(pa.int32()), [[1, 2], None, []], [[1, 2], None, []]),
    (pa.list_(pa.float64()), [[1, 2.5]], [[1.0, 2.5]]),
    (pa.struct([("x", pa.int16()), ("y", pa.float32())]), [{"x": 1, "y": 2}, None], [{"x": 1, "y": 2.0}, None]),
    (MAP, [{"k": 1}, [("q", 2)], {}, None], [[("k", 1)], [("q", 2)], [], None]),
    (DEEP, [{"x": 1, "m": {7: [1, 2.5]}}, {"x": 2}], [{"x": 1, "m": [(7, [1.0, 2.5])]}, {"x": 2, "m": None}]),
]
REFUSED: list[tuple[pa.DataType, list[object], object]] = [
    (pa.int8(), [1, 300], 300),
    (pa.int32(), [1, 2**31], 2**31),
    (pa.int64(), [1.0, 7.8], 7.8),
    (pa.int64(), [1.0, float("nan")], None),
    (pa.float32(), [0.1, 1e300], 1e300),
    (pa.float32(), [1, 2**24 + 1], 2**24 + 1),
    (pa.float64(), [1, 2**53 + 1], 2**53 + 1),
    (pa.decimal128(9, 2), [1, 10**7], 10**7),
    (pa.decimal128(9, 2), [0.5, 0.125], 0.125),
    (pa.list_(pa.int32()), [[1], [1, 2**40]], 2**40),
    (MAP, [{"k": 1}, {"k": 2**40}], 2**40),
]


@pytest.mark.parametrize(("type_", "given", "stored"), TAKEN, ids=lambda one: str(one)[:40])
def test_t2_25_plain_values_are_taken_where_the_column_holds_them(
    make: Make, type_: pa.DataType, given: list[object], stored: list[object]
) -> None:
    table = make(type_)
    assert table.append(rows(*given)).rows == len(given)
    assert values(table) == stored
    assert table.scan().to_arrow().schema.field("a").type.equals(type_)
    columns = make(type_)
    columns.append({"ts": [row["ts"] for row in rows(*given)], "a": given})
    assert values(columns) == stored


@pytest.mark.parametrize(("type_", "given", "value"), REFUSED, ids=lambda one: str(one)[:40])
def test_t2_25_a_value_that_the_column_does_not_hold_is_refused_by_row(
    make: Make, type_: pa.DataType, given: list[object], value: object
) -> None:
    table = make(type_)
    version = table.version
    with pytest.raises(InvalidValue, match=r"'a' cannot keep the value .* of row 1") as refused:
        table.append(rows(*given))
    assert (refused.value.facts["column"], refused.value.facts["row"]) == ("a", 1)
    assert value is None or refused.value.facts["value"] == value
    assert table.refresh().version == version


def test_t2_25_rows_are_counted_over_the_whole_input(make: Make) -> None:
    many = [{"ts": T0 + timedelta(minutes=at), "a": 1} for at in range(25_000)]
    many[21_000]["a"] = 2**40
    with pytest.raises(InvalidValue, match="of row 21000") as refused:
        make(pa.int32()).append(many)
    assert refused.value.facts["row"] == 21_000
    many[21_000]["a"] = 2
    assert make(pa.int32()).append(many).rows == 25_000


def test_t2_25_a_boolean_is_no_number_and_a_text_neither(make: Make) -> None:
    for type_ in (pa.int32(), pa.float64(), pa.decimal128(9, 2)):
        for value in (True, "1", b"1", T0):
            with pytest.raises(SchemaMismatch, match=r"a: .* in the table"):
                make(type_).append(rows(value))
    with pytest.raises(UnreadableInput):
        make(pa.int32()).append(rows(True, 2))
    with pytest.raises(SchemaMismatch):
        make(pa.bool_()).append(rows(1))


def test_t2_25_what_was_declared_stays_what_it_is(make: Make) -> None:
    declared = pa.Table.from_pylist(rows(1))
    arrow = declared  # noqa: F841  # DuckDB finds it by its name
    inputs = [
        declared,
        declared.to_batches(),
        declared.to_reader(),
        pl.DataFrame(declared),
        duckdb.sql("select * from arrow"),
        declared.to_pandas(types_mapper=pd.ArrowDtype),
        {"ts": [T0], "a": pa.array([1])},
        {"ts": [T0], "a": pl.Series([1])},
    ]
    for given in inputs:
        with pytest.raises(SchemaMismatch, match="int32 does not hold every int64"):
            make(pa.int32()).append(given)


def test_t2_25_numbers_of_pandas_and_numpy_are_taken_where_they_are_held_exactly(make: Make) -> None:
    def frame(*given: object, dtype: Any = None) -> pd.DataFrame:
        return pd.DataFrame({"ts": [row["ts"] for row in rows(*given)], "a": pd.Series(list(given), dtype=dtype)})

    cases: list[tuple[pa.DataType, object, list[object]]] = [
        (pa.int32(), frame(1, 2), [1, 2]),
        (pa.int32(), frame(1, None), [1, None]),
        (pa.int16(), frame(1, None, dtype="Int64"), [1, None]),
        (pa.int8(), frame(1, None, dtype=object), [1, None]),
        (pa.float32(), frame(0.5, 2), [0.5, 2.0]),
        (pa.decimal128(9, 2), frame(1, 2), [Decimal("1.00"), Decimal("2.00")]),
        (pa.int32(), {"ts": [T0], "a": np.array([7])}, [7]),
        (pa.int32(), {"ts": [T0], "a": pd.Series([7])}, [7]),
        (pa.float32(), frame(0.1, dtype=object), [np.float32(0.1)]),
    ]
    for type_, given, stored in cases:
        table = make(type_)
        table.append(given)
        assert values(table) == stored
    wrong: list[tuple[pa.DataType, object, int]] = [
        (pa.int32(), frame(1, 2**40), 1),
        (pa.int32(), frame(1.0, None, 2.5), 2),
        (pa.float32(), frame(0.5, 0.1), 1),
        (pa.float32(), {"ts": [T0], "a": np.array([0.1])}, 0),
    ]
    for type_, given, row in wrong:
        with pytest.raises(InvalidValue, match=f"of row {row}"):
            make(type_).append(given)


def lines(path: Path, *given: object) -> Path:
    path.write_text("".join(json.dumps({**row, "ts": str(row["ts"])}) + "\n" for row in rows(*given)))
    return path


def test_t2_24_json_numbers_of_one_file_and_the_next(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append_file(lines(tmp_path / "a.jsonl", 1.5))
    table.append_file(lines(tmp_path / "b.jsonl", 2), on_overlap="allow")
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [1.5, 2.0]
    other = gl.create(tmp_path / "o", index="ts", bucket="1h")
    other.append_file(tmp_path / "b.jsonl")
    with pytest.raises(InvalidValue, match=r"a\.jsonl: column 'a' cannot keep the value 1\.5 of row 0"):
        other.append_file(tmp_path / "a.jsonl", on_overlap="allow")
    other.append_file(lines(tmp_path / "c.jsonl", 3.0), on_overlap="allow")
    assert sorted(other.scan().to_arrow()["a"].to_pylist()) == [2, 3]


@pytest.mark.parametrize(
    ("type_", "given", "stored"), [one for one in TAKEN if one[1][0] not in (2**70, Decimal("1.5000"))], ids=str
)
def test_t2_24_json_numbers_have_no_width(
    make: Make, tmp_path: Path, type_: pa.DataType, given: list[object], stored: list[object]
) -> None:
    if type_ == MAP:
        given = [{"k": 1}, {"q": 2}, {}, None]
    if type_ == DEEP:
        type_ = pa.struct([("x", pa.int16()), ("m", pa.map_(pa.string(), pa.float32()))])
        given, stored = [{"x": 1, "m": {"k": 2}}], [{"x": 1, "m": [("k", 2.0)]}]
    table = make(type_)
    table.append_file(lines(tmp_path / "a.jsonl", *given))
    assert values(table) == stored


@pytest.mark.parametrize(("type_", "given", "value"), [one for one in REFUSED if one[2] is not None], ids=str)
def test_t2_24_a_json_number_that_does_not_fit_is_refused_by_row(
    make: Make, tmp_path: Path, type_: pa.DataType, given: list[object], value: object
) -> None:
    with pytest.raises(InvalidValue, match="row 1") as refused:
        make(type_).append_file(lines(tmp_path / "a.jsonl", *given))
    assert refused.value.facts["row"] == 1
    assert str(refused.value.facts["value"]) == str(value)


@pytest.mark.parametrize(("type_", "given", "stored"), TAKEN, ids=lambda one: str(one)[:40])
def test_t2_25_corrections_and_merges_agree_with_an_append(
    type_: pa.DataType, given: list[object], stored: list[object]
) -> None:
    upserted, replaced, filled = series(type_), series(type_), series(type_)
    upserted.upsert(rows(*given))
    replaced.replace((None, None), rows(*given))
    filled.fill(lambda *_: rows(*given), T0, T0 + timedelta(hours=len(given)))
    overwritten, merged, updated = delta(type_), delta(type_), delta(type_)
    overwritten.overwrite(rows(*given))
    merged.merge(rows(*given), on="t.ts = s.ts").when_not_matched_insert_all().execute()
    updated.append([{"ts": row["ts"]} for row in rows(*given)])
    updated.merge(rows(*given), on="t.ts = s.ts").when_matched_update_all().execute()
    for table in (upserted, replaced, filled, overwritten, merged, updated):
        assert values(table) == stored


@pytest.mark.parametrize(("type_", "given", "value"), REFUSED, ids=lambda one: str(one)[:40])
def test_t2_25_corrections_and_merges_refuse_as_an_append(type_: pa.DataType, given: list[object], value: object) -> None:
    table, other = series(type_), delta(type_)
    other.append([{"ts": T0 + timedelta(hours=1)}])
    acts: list[Callable[[], object]] = [
        lambda: table.upsert(rows(*given)),
        lambda: table.replace((None, None), rows(*given)),
        lambda: table.append(rows(*given), on_overlap="replace"),
        lambda: other.overwrite(rows(*given)),
        lambda: other.merge(rows(*given), on="false").when_not_matched_insert_all().execute(),
        lambda: other.merge(rows(*given), on="t.ts = s.ts").when_matched_update_all().execute(),
        lambda: other.merge(rows(*given), on="false").when_not_matched_insert({"a": "s.a"}).execute(),
    ]
    for act in acts:
        with pytest.raises(InvalidValue, match="of row 1") as refused:
            act()
        assert value is None or refused.value.facts["value"] == value
    with pytest.raises(FillStopped, match="of row 1"):
        table.fill(lambda *_: rows(*given), T0, T0 + timedelta(hours=2))
    assert (values(table), values(other)) == ([], [None])


def test_t2_25_a_value_of_a_merge_that_no_clause_assigns_is_not_judged() -> None:
    table = delta(pa.int32())
    table.append(rows(1))
    assert table.merge(rows(2**40), on="t.a = s.a").when_matched_update_all().execute().rows == 0


@pytest.mark.parametrize(("type_", "given", "stored"), [one for one in TAKEN if one[0] != DEEP], ids=lambda one: str(one)[:40])
def test_t2_25_values_of_an_update_are_judged_alike(type_: pa.DataType, given: list[object], stored: list[object]) -> None:
    table = delta(type_)
    table.append([{"ts": T0}])
    if given[0] != 2**70:
        table.update({"a": given[0]})
        assert values(table) == stored[:1]


def test_t2_25_integer_indexes_and_entities_too() -> None:
    schema = pa.schema([("n", pa.uint64()), ("site", pa.int16()), ("v", pa.float32())])
    table = gl.create(f"memory://{uuid4()}", index="n", index_type="uint64", bucket=10, entity=["site"], schema=schema)
    table.append([{"n": 1, "site": 2, "v": 3}])
    table.append(pd.DataFrame({"n": [11], "site": [2], "v": [1.5]}))
    table.upsert([{"n": 1, "site": 2, "v": 4}])
    assert table.scan().to_arrow().to_pylist() == [{"n": 1, "site": 2, "v": 4.0}, {"n": 11, "site": 2, "v": 1.5}]
    with pytest.raises(InvalidValue, match="'n' cannot keep the value -1 of row 0"):
        table.append([{"n": -1, "site": 2, "v": 3}])


def test_t2_25_columns_of_a_delta_table_are_found_in_any_case() -> None:
    table = gl.delta.create(f"memory://{uuid4()}", pa.schema([("Amount", pa.int32()), ("Tags", MAP)]))
    table.append([{"amount": 1, "TAGS": {"k": 2}}])
    assert table.scan().to_arrow().to_pylist() == [{"Amount": 1, "Tags": [("k", 2)]}]


def test_t2_25_schema_evolution_infers_new_columns_and_judges_those_that_are_there() -> None:
    table = delta(pa.int32())
    table.append([{"ts": T0, "a": 1, "new": 2}], schema_mode="merge")
    assert table.schema.field("a").type == pa.int32()
    assert table.schema.field("new").type == pa.int64()
    with pytest.raises(InvalidValue, match="of row 0"):
        table.append([{"ts": T0, "a": 2**40, "newer": 1}], schema_mode="merge")
    struct = delta(pa.struct([("x", pa.int16())]))
    struct.append(rows({"x": 1, "y": 2}), schema_mode="merge")
    assert struct.schema.field("a").type == pa.struct([("x", pa.int16()), ("y", pa.int64())])


def test_t2_25_a_type_is_widened_only_for_a_value_that_needs_it() -> None:
    table = delta(pa.int32(), **{"delta.enableTypeWidening": "true"})
    table.append(rows(1), schema_mode="merge")
    assert table.schema.field("a").type == pa.int32()
    table.append(rows(2, 2**40), schema_mode="merge")
    assert table.schema.field("a").type == pa.int64()
    assert sorted(values(table), key=str) == [1, 2**40, 2]
    merged = delta(pa.int32(), **{"delta.enableTypeWidening": "true"})
    merged.merge(rows(5), on="false", schema_mode="merge").when_not_matched_insert_all().execute()
    assert merged.schema.field("a").type == pa.int32()


def test_t2_25_the_first_rows_of_a_table_are_inferred_as_ever() -> None:
    first = gl.create(f"memory://{uuid4()}", index="ts", bucket="1h")
    first.append(rows(1))
    assert first.scan().to_arrow().schema.field("a").type == pa.int64()
    bare = gl.delta.create(f"memory://{uuid4()}")
    bare.append(rows(1.5))
    assert bare.schema.field("a").type == pa.float64()
    bare.append(rows(2))
    assert values(bare) == [1.5, 2.0]


def test_t2_25_a_handle_that_knows_an_older_type_judges_by_the_newest(tmp_path: Path) -> None:
    properties = {"delta.enableTypeWidening": "true"}
    old = gl.delta.create(tmp_path / "t", pa.schema([("a", pa.int32()), ("d", pa.decimal128(5, 2))]), properties=properties)
    newer = gl.delta.open(tmp_path / "t")
    newer.alter.widen("a", pa.int64())
    newer.alter.widen("d", pa.decimal128(9, 2))
    old.append([{"a": 2**40, "d": 100_000}])
    assert newer.refresh().scan().to_arrow().to_pylist() == [{"a": 2**40, "d": Decimal("100000.00")}]
