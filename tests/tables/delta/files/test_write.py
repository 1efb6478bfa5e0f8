"""Rows on their way into data files: split by partition, described for the log, under the names that files have."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import from_arrow
from gapless.formats.delta.schema.column_mapping import assign
from gapless.tables.delta.files.data_file import DataFile, StoredColumns
from gapless.tables.delta.files.write import split

KEYS = st.one_of(st.none(), st.sampled_from(["a", "b", "", "é"]))
NUMBERS = st.one_of(st.none(), st.integers(-2, 2))


@given(st.lists(st.tuples(KEYS, NUMBERS), max_size=40))
def test_a_batch_splits_into_its_partitions_in_order(keys: list[tuple[str | None, int | None]]) -> None:
    batch = pa.record_batch({
        "p": pa.array([p for p, _ in keys], pa.string()), "q": pa.array([q for _, q in keys], pa.int64()), "v": range(len(keys)),
    })  # fmt: skip
    found = {tuple(one.as_py() for one in key): rows.column("v").to_pylist() for key, rows in split(batch, ["p", "q"])}
    expected: dict[tuple[str | None, int | None], list[int]] = {}
    for number, key in enumerate(keys):
        expected.setdefault(key, []).append(number)
    assert found == expected
    whole = list(split(batch, []))
    assert [rows.num_rows for _, rows in whole] == ([len(keys)] if keys else [])


def test_nan_is_one_partition_and_zeros_keep_their_signs() -> None:
    batch = pa.record_batch({"p": [math.nan, 0.0, -0.0, math.nan], "v": [1, 2, 3, 4]})
    found = [rows.column("v").to_pylist() for _, rows in split(batch, ["p"])]
    assert [1, 4] in found
    assert sum(map(len, found)) == 4


def file_of(
    schema: pa.Schema, rows: list[dict[str, Any]], mode: str = "none", **settings: Any
) -> tuple[pa.Table, dict[str, Any]]:
    """What one file holds, and what the log says of it."""
    mapped, _ = assign(from_arrow(schema), mode, 0, iter([f"col-{n}" for n in range(99)]).__next__)
    columns = StoredColumns.of(mapped, (), Settings(column_mapping=mode, **settings))
    file = DataFile(columns)
    file.add(pa.Table.from_pylist(rows, schema))
    encoded = file.finish(None)
    stored = pq.ParquetFile(pa.BufferReader(b"".join(encoded.pieces))).read()
    assert encoded.rows == stored.num_rows == len(rows)
    found: dict[str, Any] = json.loads(encoded.stats)
    return stored, found


def test_stat_05_delta_a_column_of_nulls_has_no_bounds() -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    _, found = file_of(schema, [{"x": 1, "y": None}, {"x": 2, "y": None}, {"x": None, "y": None}])
    assert found == {"numRecords": 3, "minValues": {"x": 1}, "maxValues": {"x": 2}, "nullCount": {"x": 1, "y": 3}}


def test_nested_fields_count_the_nulls_of_what_they_lie_in() -> None:
    schema = pa.schema(
        [("s", pa.struct([("x", pa.int64()), ("t", pa.struct([("y", pa.string())]))])), ("l", pa.list_(pa.int64()))]
    )
    _, found = file_of(
        schema, [{"s": {"x": 1, "t": {"y": "b"}}, "l": [5]}, {"s": None, "l": None}, {"s": {"x": None, "t": None}, "l": []}]
    )
    assert found["nullCount"] == {"s": {"x": 2, "t": {"y": 2}}, "l": 1}
    assert found["minValues"] == {"s": {"x": 1, "t": {"y": "b"}}}


def test_a_file_has_physical_names_at_every_depth_and_statistics_too() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner)), ("plain", pa.int64())])
    rows: list[dict[str, Any]] = [
        {"s": {"x": 1}, "l": [{"x": 2}, None], "m": [("k", {"x": 3})], "plain": 4},
        {"s": None, "l": None, "m": None, "plain": None},
    ]
    stored, found = file_of(schema, rows, "name")
    assert all(name.startswith("col-") for name in stored.column_names)
    top = stored.schema.names
    (x,) = stored.schema.field(0).type.names
    assert x.startswith("col-")
    assert [list(row.values()) for row in stored.column(top[0]).drop_null().to_pylist()] == [[1]]
    assert stored.column(top[3]).to_pylist() == [4, None]
    assert found["minValues"] == {top[0]: {x: 1}, top[3]: 4}
    ids = [field.metadata[b"PARQUET:field_id"] for field in stored.schema]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("number", [0, 1, 3, -1])
def test_only_the_first_columns_have_statistics(number: int) -> None:
    schema = pa.schema([(f"c{n}", pa.int64()) for n in range(4)])
    _, found = file_of(schema, [{f"c{n}": n for n in range(4)}], indexed_columns=number)
    assert list(found["nullCount"]) == [f"c{n}" for n in range(4 if number < 0 else number)]


def test_a_column_without_a_type_is_in_no_file() -> None:
    stored, found = file_of(pa.schema([("x", pa.int64()), ("v", pa.null())]), [{"x": 1, "v": None}])
    assert stored.column_names == ["x"]
    assert "v" not in found["nullCount"]
