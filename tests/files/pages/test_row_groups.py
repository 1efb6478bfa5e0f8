"""Row-group statistics of Parquet files."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.errors import InvalidOption
from gapless.files.pages import footer as row_groups
from gapless.files.pages.footer import row_group_stats
from gapless.model.stats import ColumnStats
from gapless.predicate.prune import may_match
from gapless.predicate.where import parse_where


def footer(table: pa.Table, **options: object) -> pq.FileMetaData:
    """The footer of a table as a Parquet file in memory."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    sink.seek(0)
    return pq.read_metadata(sink)


TABLE = pa.table(
    {
        "ns": pa.array([1, None], pa.timestamp("ns", "UTC")), "s": pa.array([-1, 2], pa.timestamp("s")), "u8": pa.array([0, 255], pa.uint8()),
        "u": pa.array([0, 2**64 - 1], pa.uint64()), "d": pa.array([Decimal("-2.50"), Decimal("1.10")], pa.decimal128(30, 2)),
        "text": ["a", "é"], "f": [-0.0, 1.5], "day": pa.array([date(1969, 12, 31), date(1970, 1, 2)]), "ms": pa.array([1, 3], pa.int32()).cast(pa.time32("ms")),
        "b": [False, True], "a.b": [1, 2], "n": pa.array([{"b": 1}, {"b": 5}]), "l": pa.array([[1], [2]]), "h": pa.array([1, 2], pa.float16()),
        "none": pa.nulls(2), "bin": [b"\x00", b"\xff"], "nulls": pa.nulls(2, pa.int64()),
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ns", ColumnStats(min=1, max=1, nulls=1)), ("s", ColumnStats(min=-(10**9), max=2 * 10**9, nulls=0)), ("u8", ColumnStats(min=0, max=255, nulls=0)),
        ("u", ColumnStats(min=0, max=2**64 - 1, nulls=0)), ("d", ColumnStats(min=Decimal("-2.50"), max=Decimal("1.10"), nulls=0)),
        ("text", ColumnStats(min="a", max="é", nulls=0)), ("f", ColumnStats(min=-0.0, max=1.5, nulls=0)), ("day", ColumnStats(min=-1, max=1, nulls=0)),
        ("ms", ColumnStats(min=1_000_000, max=3_000_000, nulls=0)), ("b", ColumnStats(min=False, max=True, nulls=0)), ("a.b", ColumnStats(min=1, max=2, nulls=0)),
        ("n", None), ("n.b", None), ("l", None), ("h", ColumnStats(nulls=0)), ("none", None), ("bin", ColumnStats(min=b"\x00", max=b"\xff", nulls=0)),
        ("nulls", ColumnStats(nulls=2)), ("absent", None),
    ],
)  # fmt: skip
def test_each_type_comes_in_its_own_order(name: str, expected: ColumnStats | None) -> None:
    assert row_group_stats(footer(TABLE), 0, TABLE.schema)(name) == expected


def test_stat_01_the_last_microsecond_is_in_the_bound() -> None:
    table = pa.table({"ts": pa.array([datetime(2023, 3, 29, 23, 59, 59, 807126, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    stats = row_group_stats(footer(table), 0, table.schema)
    for where, kept in {"ts = '2023-03-29T23:59:59.807126Z'": True, "ts > '2023-03-29T23:59:59.807126Z'": False}.items():
        assert may_match(parse_where(where, table.schema), stats, table.schema, rows=1) is kept


def test_stat_05_row_groups_of_nulls() -> None:
    table = pa.table({"x": pa.array([1, 2, None, None], pa.int64())})
    metadata = footer(table, row_group_size=2)
    for where, kept in {"x = 2": [True, False], "x IS NULL": [False, True]}.items():
        predicate = parse_where(where, table.schema)
        groups = [row_group_stats(metadata, n, table.schema) for n in range(2)]
        assert [may_match(predicate, stats, table.schema, rows=2) for stats in groups] == kept


def test_stat_06_no_statistics_keep_the_row_group() -> None:
    table = pa.table({"x": [1, 2]})
    stats = row_group_stats(footer(table, write_statistics=False), 0, table.schema)
    assert stats("x") in (None, ColumnStats())
    assert may_match(parse_where("x > 5", table.schema), stats, table.schema, rows=2)


def test_stat_10_a_bound_that_cuts_a_character_is_left_out() -> None:
    binary = pa.table({"s": pa.array([b"a", b"a\xe2"])})
    stats = row_group_stats(footer(binary), 0, pa.schema([("s", pa.string())]))
    assert stats("s") == ColumnStats(min="a", max=None, nulls=0)
    schema = pa.schema([("s", pa.string())])
    assert may_match(parse_where("s > 'b'", schema), stats, schema, rows=2)
    assert not may_match(parse_where("s < 'Z'", schema), stats, schema, rows=2)


def test_bounds_of_another_kind_than_the_schema_declares_are_left_out() -> None:
    stats = row_group_stats(footer(pa.table({"x": [1, 2]})), 0, pa.schema([("x", pa.string())]))
    assert stats("x") == ColumnStats(nulls=0)


def test_a_nan_bound_is_none() -> None:
    leaf = SimpleNamespace(logical_type=SimpleNamespace(type="NONE", to_json=lambda: "{}"), physical_type="DOUBLE")
    assert row_groups._bound(leaf, {}, float("nan"), "number") is None


def test_a_row_group_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidOption, match="row group 1 of 1"):
        row_group_stats(footer(TABLE), 1, TABLE.schema)
