"""How a sink makes its table and lays out its files: partitions and properties, sizes on disk, staging by size and age."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import sink
from gapless.errors import InvalidOption
from gapless.runtime.environment import Environment
from support.pipelines import KINDS, SCHEMA, made, opened, rows

MIB = 1 << 20


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def many(count: int, first: int = 0) -> pa.Table:
    """Rows a second apart, of which no value tells another: about as large on disk as in memory, but for their times."""
    draw = np.random.default_rng(first)
    stamps = pa.array(np.arange(first, first + count) * 1_000_000).cast(pa.timestamp("us")).cast(SCHEMA.field("ts").type)
    columns = [stamps, *(pa.array(draw.integers(0, 2**62, count)) for _ in range(2))]
    return pa.table(columns, schema=SCHEMA)


def sizes(kind: str, place: Path) -> list[int]:
    """Bytes of the table's data files on disk, in the order of their names."""
    table = opened(kind, place)
    found = sorted(Path(place).rglob("*.parquet"))
    files = [path.stat().st_size for path in found if not {"_delta_log", "_timeseries_log", "_log_parts"} & set(path.parts)]
    assert table.verify().ok
    return files


def test_files_have_the_size_on_disk_that_was_asked_for(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", target_bytes=MIB)
    mine.initialize(SCHEMA)
    count = 400_000
    for first in range(0, count, 50_000):
        mine.write(many(50_000, first))
    mine.finalize(mine.prepare(1))
    found = sorted(sizes(kind, place))
    assert opened(kind, place).scan().count() == count
    assert len(found) >= 4
    # All but the last, which holds what is left; a file of a Delta table ends with the row group that reaches the size.
    assert all(0.6 * MIB <= size <= (1.6 if kind == "timeseries" else 2) * MIB for size in found[1:]), found


def test_rows_that_shrink_make_files_of_that_size_too(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", target_bytes=MIB // 4)
    mine.initialize(SCHEMA)
    batch = many(400_000)
    narrow = pa.array(np.random.default_rng(1).integers(0, 200, 400_000))
    mine.write(batch.set_column(1, SCHEMA.field(1), narrow).set_column(2, SCHEMA.field(2), narrow))
    mine.finalize(mine.prepare(1))
    found = sorted(sizes(kind, place))
    assert len(found) >= 2
    assert all(0.5 * MIB / 4 <= size <= 2 * MIB / 4 for size in found[1:]), found


def test_few_rows_make_one_file(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="p", name="n")
    mine.initialize(SCHEMA)
    for first in range(0, 50_000, 10_000):
        mine.write(many(10_000, first))
    prepared = mine.prepare(1)
    assert len(prepared.data_files) == 1
    mine.finalize(prepared)


class HandClock:
    """The machine's clock, but for what it is moved on."""

    def __init__(self) -> None:
        self.inner = Environment(store=None).clock  # type: ignore[arg-type]  # only its clock is wanted
        self.ahead_s = 0.0

    def now_ns(self) -> int:
        return self.inner.now_ns() + int(self.ahead_s * 1e9)

    def monotonic(self) -> float:
        return self.inner.monotonic() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        self.ahead_s += seconds


@pytest.mark.parametrize("wait", [600, "10 minutes"])
def test_rows_that_waited_are_staged_as_the_next_ones_come(
    kind: str, wait: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, clock = tmp_path / "t", HandClock()
    made(kind, place)
    module = f"gapless.tables.{kind}.table"
    opening = __import__(module, fromlist=["open_environment"]).open_environment
    monkeypatch.setattr(f"{module}.open_environment", lambda *at: Environment(store=opening(*at).store, clock=clock))
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", spill_seconds=wait)
    mine.initialize(SCHEMA)

    def staged() -> int:
        return len([path for path in place.rglob("*.parquet") if "_log" not in str(path.relative_to(place))])

    mine.write(rows(0, 1))
    clock.sleep(599)
    mine.write(rows(1, 1))
    assert staged() == 0
    clock.sleep(2)
    mine.write(rows(2, 1))
    assert staged() == 1
    clock.sleep(599)
    mine.write(rows(3, 1))
    assert staged() == 1
    prepared = mine.prepare(1)
    assert (len(prepared.data_files), prepared.records_written) == (2, 4)
    mine.finalize(prepared)


@pytest.mark.parametrize("wait", [0, -1, "0", "10 parsecs", True, float("nan")])
def test_no_time_to_wait_is_refused(wait: object) -> None:
    with pytest.raises(InvalidOption, match="spill_seconds"):
        sink("delta:t", pipeline="p", name="n", spill_seconds=wait)


def test_a_delta_table_is_made_with_partitions_and_properties(tmp_path: Path) -> None:
    place = tmp_path / "t"
    create: dict[str, Any] = {
        "partition_by": ["id"],
        "properties": {"delta.enableChangeDataFeed": True, "owner": "desk 7"},
        "description": "made by a sink",
    }
    mine = sink(f"delta:{place}", pipeline="p", name="n", create=create)
    mine.initialize(SCHEMA)
    mine.write(rows(0, 6, 3))
    prepared = mine.prepare(1)
    assert sorted({path.split("/")[0] for path in prepared.data_files}) == ["id=0", "id=1", "id=2"]
    mine.finalize(prepared)
    table = gl.delta.open(place)
    assert tuple(table.partition_by) == ("id",)
    assert table.properties["owner"] == "desk 7"
    assert table.scan(where="id = 1").to_arrow()["v"].to_pylist() == [1, 4]


def test_a_time_series_table_is_made_with_entities_and_properties(tmp_path: Path) -> None:
    place = tmp_path / "t"
    create = {"index": "ts", "bucket": "1h", "entity": ["id"], "properties": {"unique": True, "codec": "smallest"}}
    mine = sink(f"timeseries:{place}", pipeline="p", name="n", create=create)
    mine.initialize(SCHEMA)
    mine.write(rows(0, 6, 3))
    mine.finalize(mine.prepare(1))
    table = gl.open(place)
    assert (table.entity, table.properties.unique, table.properties.codec) == (("id",), True, "smallest")
    assert table.scan().count() == 6
