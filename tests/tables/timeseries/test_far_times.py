"""Times at the ends of their units, infinite ones as DuckDB gives them, and NaT: kept whole or refused by row, on every path."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.cli.app import run
from gapless.errors import CoverageOverlap, InvalidValue, NullKey
from gapless.model.index import FixedWidth, IndexSpec
from gapless.model.instant import NS_PER, Unit, format_instant
from gapless.tables.timeseries.read.values import parse_index_value, presenter

TOP = 2**63 - 1
YEAR_10000_S = 253_402_300_800
ENDS: list[tuple[Unit, int]] = [
    *[(unit, value) for unit in ("us", "ns") for value in (TOP, -TOP, -TOP - 1)],
    *[(unit, YEAR_10000_S * (NS_PER["s"] // NS_PER[unit])) for unit in ("s", "ms", "us")],
    *[(unit, TOP // (NS_PER[unit] // NS_PER["us"])) for unit in ("s", "ms")],
    *[(unit, -TOP // (NS_PER[unit] // NS_PER["us"]) + 1) for unit in ("s", "ms")],
]  # fmt: skip


def times(unit: str, zone: str | None, *counts: int | None) -> pa.Table:
    stamps = pa.array(counts, pa.int64()).cast(pa.timestamp(unit, zone))
    return pa.table({"ts": stamps, "v": list(range(len(counts)))})


@pytest.mark.parametrize("bucket", ["1h", "1mo"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(("unit", "value"), ENDS)
def test_the_ends_of_every_unit_are_kept_whole_on_every_path(
    tmp_path: Path, unit: Unit, value: int, zone: str | None, bucket: str
) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket=bucket)
    table.append(times(unit, zone, 0, value))
    rows = table.scan().to_arrow()
    assert sorted(rows["ts"].cast(pa.int64()).to_pylist()) == sorted([0, value])
    ns = value * NS_PER[unit]
    bounds = table.bounds()
    assert bounds is not None
    assert [
        parse_index_value(bound, table.index, table.schema, name="x") if zone is None else _ns(bound) for bound in bounds
    ] == sorted([0, ns])
    coverage = table.coverage()
    assert len(coverage.buckets()) == 2
    assert len(coverage.gaps()) == 1
    edges = [_ns(edge) for bucket_ in coverage.buckets() for edge in (bucket_.start, bucket_.end)]
    assert edges == sorted(edges)
    assert edges[0] <= min(0, ns)
    assert edges[-1] > max(0, ns)
    assert coverage.last_full_window() is not None
    assert repr(coverage)
    with pytest.raises(CoverageOverlap) as caught:
        table.append(times(unit, zone, value))
    start, end = _ns(caught.value.start), _ns(caught.value.end)
    assert start <= ns < end
    assert format_instant(start, "Z" if zone else "") in str(caught.value)
    assert table.upsert(times(unit, zone, value)).rows == 1
    table.compact()
    assert table.verify(deep=True).ok
    assert table.count() == 2


def _ns(value: Any) -> int:
    """What a presented time says, in ns."""
    if isinstance(value, np.datetime64):
        unit, size = np.datetime_data(value.dtype)
        assert not np.isnat(value)
        scale = NS_PER[unit]  # type: ignore[index] # a unit of time
        return int(int(value.astype(np.int64)) * size * scale)
    zoned = value if value.tzinfo else value.replace(tzinfo=UTC)
    delta = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return int((delta.days * 86_400 + delta.seconds) * NS_PER["s"] + delta.microseconds * 1000)


@pytest.mark.parametrize(("unit", "value"), ENDS)
def test_the_command_line_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: Unit, value: int) -> None:
    path = str(tmp_path / "t")
    gl.create(path, index="ts", bucket="1h").append(times(unit, "UTC", 0, value))
    shown = format_instant(value * NS_PER[unit])
    said = {}
    for command in (["scan"], ["coverage"], ["gaps"], ["info"], ["info", "--json"], ["gaps", "--json"], ["history"]):
        code = run([command[0], path, *command[1:]])
        said[" ".join(command)] = capsys.readouterr().out
        assert code in (0, 3), command
    assert shown in said["scan"]
    assert shown in json.dumps(json.loads(said["info --json"]), ensure_ascii=False)


@pytest.mark.parametrize(("unit", "value"), [("s", TOP), ("s", -TOP), ("ms", TOP), ("ms", -TOP)])
def test_what_files_cannot_hold_is_refused_by_row(tmp_path: Path, unit: Unit, value: int) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    with pytest.raises(InvalidValue, match="does not hold it exactly") as caught:
        table.append(times(unit, None, 0, value))
    assert (caught.value.column, caught.value.row) == ("ts", 1)
    assert format_instant(value * NS_PER[unit], "") in str(caught.value)


@pytest.mark.parametrize("bucket", ["1d", "1mo"])
@pytest.mark.parametrize("value", [TOP, -TOP, -TOP - 1, YEAR_10000_S * 10**6])
def test_a_time_without_a_local_day_is_refused_by_column_and_row(tmp_path: Path, value: int, bucket: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket=bucket, timezone="Europe/Berlin")
    with pytest.raises(InvalidValue, match="has no local day in Europe/Berlin") as caught:
        table.append(times("us", "UTC", 0, 1, value, 2))
    assert (caught.value.column, caught.value.row) == ("ts", 2)
    assert "column 'ts' in row 2" in str(caught.value)
    assert table.version == 1


def test_the_row_of_a_time_without_a_local_day_counts_over_batches(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1d", timezone="Europe/Berlin")
    batches = [*times("us", "UTC", 5, 4).to_batches(), *times("us", "UTC", 3, TOP).to_batches()]
    with pytest.raises(InvalidValue) as caught:
        table.append(iter(batches))
    assert caught.value.row == 3


@pytest.mark.parametrize(
    "value", ["timestamp 'infinity'", "timestamptz 'infinity'", "timestamp '-infinity'", "timestamp_ns 'infinity'"]
)
def test_duckdb_s_infinity_is_infinity_again(tmp_path: Path, value: str) -> None:
    relation = duckdb.sql(
        f"select {value} as ts, {value} as w union all select {value.split(maxsplit=1)[0]} '2026-01-05', null"
    )
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(relation)
    back = table.scan().to_arrow()  # noqa: F841 - DuckDB reads it by its name
    found = duckdb.execute("select isinf(ts), isinf(w) from back order by 1").fetchall()
    assert found == [(False, None), (True, True)]
    assert table.sql("select count(*) as n from t where isinf(ts)").to_arrow()["n"].to_pylist() == [1]


@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_infinite_dates_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    relation = duckdb.sql(f"select timestamp '2026-01-05' as ts, date '{value}' as d")
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(relation)
    back = table.scan(where="d is not null").to_arrow()  # noqa: F841 - DuckDB reads it by its name
    assert duckdb.execute("select isinf(d) from back").fetchall() == [(True,)]
    assert run(["scan", str(tmp_path / "t")]) == 0
    assert capsys.readouterr().err == ""


def test_nat_is_a_null(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    with pytest.raises(NullKey) as caught:
        table.append({"ts": np.array(["2026-01-05", "NaT"], "datetime64[us]")})
    assert caught.value.row == 1


@pytest.mark.parametrize("ns", [-(2**63), -(2**63) + 1, 2**63 - 1, -(2**63) * 1000, (2**63 - 1) * 1000, (2**63 - 1) * 10**9])
def test_what_no_datetime_holds_is_shown_exactly(ns: int) -> None:
    index = IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(3600 * 10**9))
    assert _ns(presenter(index, None)(ns)) == ns


def test_the_end_of_the_last_bucket_is_shown_to_the_millisecond_where_no_unit_holds_it() -> None:
    index = IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(1_000))
    assert _ns(presenter(index, None)(2**63 * 1_000)) == 2**63 * 1_000 // 10**6 * 10**6
