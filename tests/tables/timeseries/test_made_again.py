"""A handle whose table was removed, or removed and made again, beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CorruptTable
from gapless.tables.delta.table import DeltaTable
from support.clocked_table import HOUR_NS, NOON_NS, Clocked, SetClock, rows_at


def make(root: Path, appends: int) -> gl.TimeSeriesTable:
    table = gl.create(root, index="n", index_type="int64", bucket=1)
    for number in range(appends):
        table.append({"n": [number]})
    return table


@pytest.mark.parametrize("appends", [0, 1, 5, 6, 9, 70])
def test_a_handle_of_the_table_before_writes_nothing_into_the_one_after(tmp_path: Path, appends: int) -> None:
    before = make(tmp_path / "t", 5)
    shutil.rmtree(tmp_path / "t")
    after = make(tmp_path / "t", appends)
    for change in (lambda: before.append({"n": [9]}), lambda: before.upsert({"n": [9]}), lambda: before.drop_before(2)):
        with pytest.raises(CorruptTable, match="version 6 is "):
            change()
    assert gl.open(tmp_path / "t").version == after.version
    assert {path.name for path in (tmp_path / "t" / "data").glob("*.parquet")} == {
        Path(segment.path).name for segment in after.segments()
    }


def test_a_handle_of_a_table_that_is_gone_makes_no_log_of_its_own(tmp_path: Path) -> None:
    before = make(tmp_path / "t", 2)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(CorruptTable):
        before.append({"n": [9]})
    assert not list((tmp_path / "t").rglob("*.json"))


@pytest.mark.parametrize("appends", [6, 9])
def test_a_handle_of_the_table_before_reads_nothing_of_the_one_after(tmp_path: Path, appends: int) -> None:
    before = make(tmp_path / "t", 5)
    shutil.rmtree(tmp_path / "t")
    make(tmp_path / "t", appends)
    with pytest.raises(CorruptTable, match=r"version 6 is not the commit that was read.*another was made in its place"):
        before.refresh()


@pytest.mark.parametrize("appends", [0, 1, 5, 6, 9])
def test_nor_where_the_store_has_no_turns(appends: int) -> None:
    world = Clocked()
    for hour in range(5):
        world.table.append(rows_at(hour))
    before, after = world.table, Clocked(SetClock(NOON_NS + HOUR_NS))
    for hour in range(appends):
        after.table.append(rows_at(hour))
    world.store.objects = after.store.objects
    for change in (lambda: before.append(rows_at(9)), lambda: before.upsert(rows_at(2))):
        with pytest.raises(CorruptTable, match="version 6 is "):
            change()
    assert world.open().version == appends + 1
    assert world.open().scan().count() == appends


@pytest.mark.parametrize("appends", [5, 9])
def test_nor_does_one_of_a_delta_table(tmp_path: Path, appends: int) -> None:
    def made(count: int) -> DeltaTable:
        table = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64())]))
        for number in range(count):
            table.append({"n": [number]})
        return table

    before = made(5)
    shutil.rmtree(tmp_path / "t")
    after = made(appends)
    with pytest.raises(CorruptTable, match="version 5 is not the commit that was read"):
        before.append({"n": [9]})
    assert gl.delta.open(tmp_path / "t").version == after.version
