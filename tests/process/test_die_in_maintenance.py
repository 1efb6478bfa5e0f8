"""Vacuum and expiry that die at each store call in turn: no live file goes, and the next call finishes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import gapless as gl
from gapless.formats.timeseries.actions import RemoveSegment
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.timeseries.care.expire import expire_versions, parse_expiry
from gapless.tables.timeseries.care.vacuum import vacuum_table
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable
from process.ledger import Append, Place, audit, make_table, open_at, rows_of
from process.test_die_at_every_call import Countdown, DyingStore, _deaths
from support.clocked_table import commit_actions

ORPHAN = "12345678-1234-4234-8234-123456789abc-0_0-0-0_20200101000000000.parquet"
TORN = ".0123456789abcdef.tmp"
Work = Callable[[TimeSeriesTable], object]


class Scene:
    """Four appends; of the first only expired versions hold it, of the second only a tagged one; and what a crash left."""

    def __init__(self, folder: Path) -> None:
        self.origin = folder / "origin"
        self.place: Place = (str(folder / "table"), {})
        table = make_table((str(self.origin), {}), checkpoint_interval=4)
        appends: list[Append] = [("w", number) for number in range(4)]
        for append in appends:
            table.append(rows_of(append), operation_id=append)
        first, second, *_ = (segment.path for segment in table.segments())
        commit_actions(table, RemoveSegment(first))
        table.refresh().tag("kept", table.version)
        commit_actions(table.refresh(), RemoveSegment(second))
        table.refresh()
        for name in (ORPHAN, TORN):
            (self.origin / "data" / name).write_bytes(b"torn")
            os.utime(self.origin / "data" / name, (0, 0))
        self.tagged, self.present, self.refuse = table.tags["kept"], set(appends[2:]), {first, f"data/{ORPHAN}"}
        self.needed = {segment.path for segment in table.segments()} | {second}

    def expired(self) -> Scene:
        """With all old versions expired."""
        open_at((str(self.origin), {})).expire(keep_versions=1)
        return self

    def prepare(self) -> None:
        shutil.rmtree(self.place[0], ignore_errors=True)
        shutil.copytree(self.origin, self.place[0])

    def data(self) -> set[str]:
        return {info.path for info in open_store(self.place[0]).list("data")}

    def check(self) -> TimeSeriesTable:
        """The table opens, verifies, holds its rows, and the tagged version its own."""
        assert gl.verify(self.place[0]).problems == ()
        table = open_at(self.place)
        assert {(w, at // 10) for w, at in _keys(table)} == self.present
        assert len(_keys(table.at(tag="kept"))) == 30
        assert self.needed <= self.data()
        return table


def _keys(table: TableView) -> set[tuple[str, int]]:
    rows = table.scan().to_arrow()
    return set(zip(rows.column("writer").to_pylist(), rows.column("at").to_pylist(), strict=True))


def vacuum(table: TimeSeriesTable) -> object:
    return vacuum_table(table._committer, older_than=timedelta(0), dry_run=False, horizon_ns=0)


def expire(table: TimeSeriesTable) -> object:
    return expire_versions(table._committer, parse_expiry(2, None), clean_log=True, horizon_ns=0)


def by_store_call(scene: Scene, work: Work, *, after: bool) -> Callable[[int], None]:
    def act(number: int) -> None:
        root = scene.place[0]
        env = Environment(store=DyingStore(root, Countdown(number), after=after))
        work(TimeSeriesTable(env, root, open_table(env, root)))

    return act


def after_a_vacuum(scene: Scene) -> Callable[[int], None]:
    def verify(_number: int) -> None:
        vacuum(scene.check())
        assert scene.data() == scene.needed
        assert not (Path(scene.place[0]) / "data" / TORN).exists()
        scene.check()

    return verify


def after_an_expiry(scene: Scene) -> Callable[[int], None]:
    def verify(_number: int) -> None:
        table = scene.check()
        expire(table)
        table.append(rows_of(("w", 9)))
        scene.present.add(("w", 9))
        scene.check()
        scene.present.remove(("w", 9))
        log = Path(scene.place[0]) / "_timeseries_log"
        kept = sorted(int(path.name[:10]) for path in log.glob("*.json"))
        assert kept == list(range(kept[0], table.version + 1)), "from the floor on, without a gap"
        assert kept[0] > scene.tagged
        assert (log / f"{scene.tagged:010d}.checkpoint.parquet").exists()

    return verify


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_each_store_call_of_a_vacuum(tmp_path: Path, *, after: bool) -> None:
    scene = Scene(tmp_path).expired()
    deaths = _deaths(by_store_call(scene, vacuum, after=after), scene.prepare, after_a_vacuum(scene))
    assert deaths >= 12, "listings, the log, the commit, CURRENT, and three deletes"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_each_store_call_of_an_expiry_that_cleans_the_log(tmp_path: Path, *, after: bool) -> None:
    scene = Scene(tmp_path)
    deaths = _deaths(by_store_call(scene, expire, after=after), scene.prepare, after_an_expiry(scene))
    assert deaths >= 30, "the log, each commit's time, two checkpoints and one for the tag, and seven deletes"


def test_the_audit_of_the_process_tests_knows_such_a_table(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    place: Place = (str(scene.origin), {})
    assert audit(place).present == scene.present
