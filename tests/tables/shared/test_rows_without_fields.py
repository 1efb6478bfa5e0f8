"""Rows without any field, as `[{}, {}]`: as many come out as went in, on every way in and out, or they are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from inspect import signature
from pathlib import Path
from uuid import uuid4

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import FillStopped, InvalidValue, NotSupported, NullKey, SchemaMismatch
from gapless.files.ingest.batches import rows_without_columns
from gapless.model.properties import OnOverlap
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.inputs.rows import as_batches
from gapless.tables.timeseries.table import TimeSeriesTable
from support.delta_tables import racing

ROWS = 3
BARE = next(rows_without_columns(ROWS))
NULLABLE = pa.schema([("a", pa.int64()), ("b", pa.string())])
DEFAULT = {b"CURRENT_DEFAULT": b"7"}


HAS_HEIGHT = "height" in signature(pl.DataFrame.__init__).parameters
"""Whether frames of this Polars may have rows without columns: 1.17 has none."""
needs_height = pytest.mark.skipif(not HAS_HEIGHT, reason="frames of this Polars have no rows without columns")
POLICIES: tuple[OnOverlap, ...] = ("reject", "skip", "replace", "allow")


class Stream:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(pa.schema([]), [BARE]).__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return BARE.__arrow_c_array__(requested_schema)


def generated() -> Iterator[dict[str, object]]:
    return ({} for _ in range(ROWS))


def stored() -> object:
    """A scan of no columns."""
    table = gl.delta.create(f"memory://stored-{uuid4()}", NULLABLE)
    table.append([{"a": 1}] * ROWS)
    return table.scan(columns=[])


INPUTS: dict[str, Callable[[], object]] = {
    "dicts": lambda: [{}] * ROWS,
    "generator": generated,
    "pandas": lambda: pd.DataFrame(index=range(ROWS)),
    **(
        {"polars": lambda: pl.DataFrame(height=ROWS), "polars lazy": lambda: pl.DataFrame(height=ROWS).lazy()}
        if HAS_HEIGHT
        else {}
    ),
    "table": lambda: pa.Table.from_batches([BARE]),
    "table with metadata": lambda: pa.table({"x": [0] * ROWS}).replace_schema_metadata({"k": "v"}).select([]),
    "batch": lambda: BARE,
    "batches": lambda: [BARE.slice(1), BARE.slice(0, 1)],
    "reader": lambda: pa.RecordBatchReader.from_batches(pa.schema([]), [BARE]),
    "scanner": lambda: ds.dataset(pa.table({"x": [0] * ROWS})).scanner(columns=[]),
    "stream": Stream,
    "array": Array,
    "scan": stored,
}
NONE: dict[str, Callable[[], object]] = {
    "dicts": list,
    "columns": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "reader": lambda: pa.RecordBatchReader.from_batches(pa.schema([]), []),
    "table": lambda: pa.table({}),
}


def nullable() -> DeltaTable:
    return gl.delta.create(f"memory://nullable-{uuid4()}", NULLABLE)


def series(**options: object) -> TimeSeriesTable:
    table = gl.create(f"memory://series-{uuid4()}", index="ts", bucket="1h", **options)  # type: ignore[arg-type]
    table.append([{"ts": datetime(2026, 1, 5), "v": 1}])
    return table


def no_rows_of(rows: int) -> list[dict[str, object]]:
    return [{"a": None, "b": None}] * rows


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
def test_t2_27_rows_without_fields_are_kept(given: Callable[[], object]) -> None:
    table = nullable()
    assert table.append(given()).rows == ROWS
    assert table.scan().to_arrow().to_pylist() == no_rows_of(ROWS)
    report = table.overwrite(given())
    assert (report.rows, report.removed_rows, table.scan().count()) == (ROWS, ROWS, ROWS)


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
def test_t2_27_a_merge_counts_rows_without_fields(given: Callable[[], object]) -> None:
    table = nullable()
    assert table.merge(given(), on="false").when_not_matched_insert_all().execute().inserted_rows == ROWS
    assert table.scan().to_arrow().to_pylist() == no_rows_of(ROWS)
    some = table.merge(given(), on="false").when_not_matched_insert({"a": 1}, where="true").execute()
    assert (some.inserted_rows, table.scan(where="a = 1").count()) == (ROWS, ROWS)


def test_t2_27_a_row_without_fields_changes_no_row_that_it_matches() -> None:
    table = nullable()
    table.append([{"a": 1, "b": "x"}])
    assert table.merge([{}], on="true").when_matched_update_all().execute().rows == 0
    assert table.scan().to_arrow().to_pylist() == [{"a": 1, "b": "x"}]
    assert table.merge([{}], on="true").when_matched_delete().execute().deleted_rows == 1


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
def test_t2_27_a_series_refuses_rows_without_fields_by_row(given: Callable[[], object]) -> None:
    table = series()
    before = table.version
    for policy in POLICIES:
        with pytest.raises(NullKey, match="'ts' is null in row 0") as refused:
            table.append(given(), on_overlap=policy)
        assert (refused.value.facts["column"], refused.value.facts["row"]) == ("ts", 0)
    with pytest.raises(NullKey, match="in row 0"):
        table.upsert(given())
    with pytest.raises(NullKey, match="in row 0"):
        table.replace((None, None), given())
    with pytest.raises(FillStopped, match="'ts' is null in row 0"):
        table.fill(lambda *_: given(), datetime(2026, 1, 6), datetime(2026, 1, 7))
    with pytest.raises(NullKey, match="in row 0"):
        gl.create(f"memory://fresh-{uuid4()}", index="ts", bucket="1h").append(given())
    assert (table.refresh().version, table.scan().count()) == (before, 1)


@pytest.mark.parametrize("given", NONE.values(), ids=NONE)
def test_no_rows_and_no_columns_are_nothing(given: Callable[[], object]) -> None:
    delta, other = nullable(), series()
    version = other.version
    assert delta.append(given()).version == 0
    assert delta.merge(given(), on="false").when_not_matched_insert_all().execute().version == 0
    assert other.append(given()).version == other.upsert(given()).version == version
    assert other.fill(lambda *_: given(), datetime(2026, 1, 6), datetime(2026, 1, 7)).rows == 0


def test_t2_27_json_lines_without_fields(tmp_path: Path) -> None:
    (tmp_path / "bare.jsonl").write_text("{}\n\n{}\n")
    (tmp_path / "some.jsonl").write_text('{}\n{"a": 1}\n')
    table, told = nullable(), list[tuple[int, int | None]]()
    assert table.append_file(tmp_path / "bare.jsonl", progress=lambda *seen: told.append(seen)).rows == 2
    assert told == [(2, 2)]
    assert table.append_file([tmp_path / "bare.jsonl", tmp_path / "some.jsonl"]).rows == 4
    assert sorted(table.scan(columns=["a"]).to_arrow()["a"].to_pylist(), key=str) == [1, *[None] * 5]
    with pytest.raises(NullKey, match=r"bare\.jsonl: the index column 'ts' is null in row 0"):
        series().append_file(tmp_path / "bare.jsonl")


def test_t2_27_a_chunk_of_json_lines_without_fields_before_others(tmp_path: Path) -> None:
    (tmp_path / "late.jsonl").write_text("{}\n" * 10_000 + '{"a": 1}\n')
    table = nullable()
    assert table.append_file(tmp_path / "late.jsonl").rows == 10_001
    assert (table.scan().count(), table.scan(where="a = 1").count()) == (10_001, 1)
    assert table.append([*[{}] * 10_000, {"a": 2}]).rows == 10_001


@needs_height
def test_t2_27_parquet_files_without_columns(tmp_path: Path) -> None:
    path = tmp_path / "bare.parquet"
    pl.DataFrame(height=ROWS).write_parquet(path)
    if pq.read_metadata(path).num_rows != ROWS:
        pytest.skip("this Polars writes no rows without columns")
    table = nullable()
    assert table.append_file(path).rows == ROWS
    assert table.scan().to_arrow().to_pylist() == no_rows_of(ROWS)
    with pytest.raises(NullKey, match=r"bare\.parquet: the index column 'ts' is null in row 0"):
        series().append_file(path)


def test_t2_27_many_rows_without_fields_are_filled_in_by_parts() -> None:
    assert [batch.num_rows for batch in as_batches(pa.table({"x": range(150_000)}).select([]))] == [65_536, 65_536, 18_928]
    table = nullable()
    assert table.append(pa.table({"x": range(150_000)}).select([])).rows == 150_000 == table.scan().count()


def test_t2_27_rows_without_fields_take_defaults() -> None:
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.int64(), metadata=DEFAULT)])
    table = gl.delta.create(f"memory://default-{uuid4()}", schema)
    table.append([{}, {}])
    table.merge([{}], on="false").when_not_matched_insert_all().execute()
    assert table.scan().to_arrow().to_pylist() == [{"a": None, "b": 7}] * 3


def test_t2_27_rows_without_fields_are_refused_where_a_column_is_never_null() -> None:
    table = gl.delta.create(
        f"memory://strict-{uuid4()}", pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.int64())])
    )
    inputs: list[list[dict[str, object]]] = [[{}, {}], [{"b": 1}]]
    for given in inputs:
        with pytest.raises(SchemaMismatch, match="a: missing, and it may not be null"):
            table.append(given)
    with pytest.raises(InvalidValue, match="column 'a' is null in row 0"):
        table.append([{}, {"a": 1}])
    with pytest.raises((InvalidValue, SchemaMismatch), match="a"):
        table.merge([{}], on="false").when_not_matched_insert_all().execute()
    assert table.version == 0


def test_t2_27_rows_without_fields_have_no_place_in_a_table_without_columns() -> None:
    bare, table = gl.delta.create(f"memory://bare-{uuid4()}", pa.schema([])), nullable()
    table.append([{"a": 1}])
    with pytest.raises(SchemaMismatch, match="neither they nor the table have a column"):
        bare.append([{}, {}])
    with pytest.raises(SchemaMismatch, match="neither they nor the table have a column"):
        table.overwrite([{}, {}], schema_mode="overwrite")
    assert (bare.version, table.scan().count()) == (0, 1)


def test_t2_27_rows_without_fields_are_kept_by_partition_and_where() -> None:
    table = gl.delta.create(f"memory://parted-{uuid4()}", NULLABLE, partition_by=["b"])
    table.append([{"a": 1, "b": "x"}])
    assert table.append([{}, {}]).rows == 2
    assert table.overwrite([{}], partitions="dynamic").removed_rows == 2
    assert table.overwrite([{}, {}], where="b is null").removed_rows == 1
    assert table.scan(where="b is null").count() == 2
    assert table.dedup().removed_rows == 1
    assert table.scan().to_arrow().sort_by("a").to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": None}]


def test_t2_27_rows_without_fields_are_kept_by_an_append_that_is_decided_again(tmp_path: Path) -> None:
    first = gl.delta.create(tmp_path / "t", NULLABLE)
    slow = racing(tmp_path / "t", lambda: first.alter.add_column("c", pa.int32()))
    assert slow.append([{}, {}]).rows == 2
    assert first.refresh().scan().to_arrow().to_pylist() == [{"a": None, "b": None, "c": None}] * 2


@pytest.mark.parametrize("where", [None, "v >= 1"])
@pytest.mark.parametrize("kind", ["series", "delta"])
def test_t2_27_a_scan_of_no_columns_has_its_rows(kind: str, where: str | None) -> None:
    rows = [{"ts": datetime(2026, 1, 5, hour), "v": hour} for hour in range(4)]
    table = (
        series()
        if kind == "series"
        else gl.delta.create(f"memory://out-{uuid4()}", pa.schema([("ts", pa.timestamp("us")), ("v", pa.int64())]))
    )
    table.append(rows, **({"on_overlap": "allow"} if kind == "series" else {}))  # type: ignore[arg-type]
    count = table.scan(where=where).to_arrow().num_rows
    found = table.scan(columns=[], where=where)
    assert count >= 3
    assert [
        found.count(),
        sum(batch.num_rows for batch in found.to_batches()),
        found.to_arrow().num_rows,
        len(found.to_pandas()),
        pa.table(found).num_rows,
    ] == [count] * 5
    assert table.sql("select count(*) as n from this").to_arrow().to_pylist() == [{"n": table.scan().count()}]
    with pytest.raises(NotSupported, match="DuckDB cannot hold rows without columns"):
        found.to_duckdb()


@needs_height
def test_t2_27_a_scan_of_no_columns_has_its_height_in_polars() -> None:
    assert series().scan(columns=[]).to_polars().height == 1
