"""A writer that dies at each store call and each system call of an upsert: all of it is there, or nothing of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.table import TimeSeriesTable
from process.test_die_at_every_call import Countdown, DyingStore, _deaths, _die_at_system_call

SCHEMA = pa.schema([("at", pa.int64()), ("x", pa.int64())])
BEFORE = {0: 0, 1: 0, 10: 0, 20: 0}
AFTER = {0: 0, 1: 7, 10: 0, 20: 7, 30: 7}


def rows(values: dict[int, int]) -> pa.Table:
    return pa.table({"at": list(values), "x": list(values.values())}, schema=SCHEMA)


class Scene:
    """Three segments, two of which the upsert writes anew; it also adds a row, and its commit owes a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.origin, self.place = folder / "origin", folder / "table"
        table = gl.create(self.origin, index="at", index_type="int64", bucket=10, properties={"checkpoint_interval": 5})
        for at in ((0, 1), (10,), (20,)):
            table.append(rows({one: BEFORE[one] for one in at}))
        assert table.version == 4

    def prepare(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.origin, self.place)

    def upsert(self, table: TimeSeriesTable) -> gl.ChangeReport:
        return table.upsert(rows({1: 7, 20: 7, 30: 7}), operation_id="victim")

    def verify(self, _number: int = 0) -> None:
        landed = self.check()
        again = self.upsert(gl.open(self.place))
        assert (again.already_applied, again.rows, again.updated_rows) == (landed, 3, 2)
        assert self.check()
        assert gl.open(self.place).delete("x = 7").removed_rows == 3

    def check(self) -> bool:
        """Whether it landed, whole."""
        table = gl.open(self.place)
        found = {row["at"]: row["x"] for row in table.scan().to_arrow().to_pylist()}
        assert found in (BEFORE, AFTER)
        assert table.scan().count() == len(found)
        assert {bucket.start for bucket in table.coverage().buckets()} == {at // 10 * 10 for at in found}
        # Hints may lag behind, and what an interrupted write left is named as such.
        assert [f.what for f in table.verify(deep=True).findings if f.severity == "problem"] == []
        return found == AFTER


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_each_store_call_of_an_upsert(tmp_path: Path, *, after: bool) -> None:
    scene = Scene(tmp_path)
    root = str(scene.place)

    def act(number: int) -> None:
        env = Environment(store=DyingStore(root, Countdown(number), after=after))
        scene.upsert(TimeSeriesTable(env, root, open_table(env, root)))

    assert _deaths(act, scene.prepare, scene.verify) >= 10, (
        "three segments, commit, CURRENT, checkpoint, and the reads before them"
    )


def test_death_at_each_system_call_of_an_upsert(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def act(number: int) -> None:
        _die_at_system_call(number, torn=True)
        scene.upsert(gl.open(scene.place))

    assert _deaths(act, scene.prepare, scene.verify) >= 30
