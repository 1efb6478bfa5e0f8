"""Adopting files against other writers, lost answers and sudden death: nothing is lost, doubled or copied twice."""

from __future__ import annotations

import datetime as dt
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import CommitConflict, CommitOutcomeUnknown, CoverageOverlap, DuplicateKey, LogWarning, UnreadableInput
from gapless.model.instant import NS_PER_DAY
from gapless.model.protocols import PutMode
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from gapless.tables.timeseries.lifecycle import open_table
from gapless.testing.store.case import in_child
from support.clocked_table import NOON_NS, SetClock
from support.faulty_store import FaultyStore, is_commit, objects, once, open_faulty, unavailable

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
_counter = itertools.count()


def rows(*hours: int, x: float = 0.0) -> pa.Table:
    times = pa.array([START + dt.timedelta(hours=hour) for hour in hours], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "symbol": ["A"] * len(hours), "x": [x + hour for hour in hours]})


@dataclass
class World:
    """A table with hour 0 covered, and a file with hours 1 and 2 on its way into it."""

    place: str
    file: Path
    table: gl.TimeSeriesTable
    store: FaultyStore

    def meanwhile(self, act: Callable[[gl.TimeSeriesTable], object]) -> None:
        """Another handle does something right before the next commit."""
        self.store.before_put = once(lambda: act(gl.open(self.place)), is_commit)

    def values(self) -> list[float]:
        found: list[float] = gl.open(self.place).scan().to_arrow().column(2).to_pylist()
        return found

    def check_whole(self) -> None:
        """Every file that the log names is there, and no other."""
        table = gl.open(self.place)
        stored = {path for path in objects(self.place) if path.startswith("data/")}
        assert stored >= {segment.path for segment in table.segments()}
        assert table.verify(deep=True).findings == ()


@pytest.fixture
def world(tmp_path: Path) -> World:
    place = f"memory://adopt-races-{next(_counter)}"
    gl.create(place, index="ts", entity="symbol", bucket="1h").append(rows(0))
    pq.write_table(rows(1, 2), tmp_path / "in.parquet")
    return World(place, tmp_path / "in.parquet", *open_faulty(place))


def data_puts(world: World) -> int:
    return sum(path.startswith("data/") for path in world.store.puts)


def test_a_lost_race_copies_nothing_again(world: World) -> None:
    world.meanwhile(lambda other: other.append(rows(5)))
    report = world.table.append_file(world.file, adopt="move")
    assert (report.version, report.rows, data_puts(world)) == (4, 2, 1)
    assert not world.file.exists()
    assert world.values() == [0, 1, 2, 5]
    world.check_whole()


def test_what_took_the_place_of_a_moved_file_stays(world: World) -> None:
    world.meanwhile(lambda _other: pq.write_table(rows(7, 8, 9), world.file))
    with pytest.warns(LogWarning, match=r"could not be removed: .*changed while it was read"):
        report = world.table.append_file(world.file, adopt="move")
    assert report.rows == 2
    assert world.values() == [0, 1, 2]
    assert pq.read_table(world.file).num_rows == 3


def test_a_rival_in_its_buckets_is_told_and_the_file_stays(world: World) -> None:
    world.meanwhile(lambda other: other.append(rows(2, x=100.0)))
    with pytest.raises(CoverageOverlap, match="Version 3"):
        world.table.append_file(world.file, adopt="move")
    assert world.file.exists()
    assert world.values() == [0, 102]
    world.check_whole()


def test_a_rival_that_came_and_went_is_no_hindrance(world: World) -> None:
    def come_and_go(other: gl.TimeSeriesTable) -> None:
        other.append(rows(2, x=100.0))
        other.delete(where="x > 100")

    world.meanwhile(come_and_go)
    assert world.table.append_file(world.file, adopt="copy").version == 5
    assert data_puts(world) == 1
    assert world.values() == [0, 1, 2]


def test_skip_is_judged_again(world: World) -> None:
    world.meanwhile(lambda other: other.append(rows(1, 2, x=100.0)))
    report = world.table.append_file(world.file, adopt="move", on_overlap="skip", operation_id="again")
    assert (report.rows, report.skipped_rows, report.skipped_buckets) == (0, 2, 2)
    assert world.file.exists(), "what was left out stays where it is"
    assert world.values() == [0, 101, 102]
    world.check_whole()


def test_a_table_that_became_unique_meanwhile(world: World) -> None:
    def demand(other: gl.TimeSeriesTable) -> None:
        other.set_properties({"unique": True})
        other.append(rows(1, x=100.0))

    world.meanwhile(demand)
    with pytest.raises((DuplicateKey, CommitConflict)):
        world.table.append_file(world.file, adopt="move", on_overlap="allow")
    assert world.file.exists()
    assert world.values() == [0, 101]
    world.check_whole()


def test_a_column_renamed_meanwhile_keeps_its_values(world: World) -> None:
    world.meanwhile(lambda other: other.rename_column("x", "y"))
    world.table.append_file(world.file, adopt="copy")
    assert gl.open(world.place).scan(columns=["y"]).to_arrow()["y"].to_pylist() == [0, 1, 2]
    world.check_whole()


def test_replace_is_made_anew_with_the_same_file(world: World) -> None:
    gl.open(world.place).append(rows(2, 3, x=100.0))
    world.meanwhile(lambda other: other.append(rows(1, 4, x=200.0)))
    report = world.table.append_file(world.file, adopt="move", on_overlap="replace")
    assert (report.rows, report.removed_rows, report.replaced_buckets) == (2, 2, 2)
    assert world.values() == [0, 1, 2, 103, 204]
    assert not world.file.exists()
    world.check_whole()


def test_an_unknown_outcome_removes_nothing(world: World) -> None:
    world.store.before_put = lambda path: unavailable(path) if is_commit(path) else None
    held = objects(world.place)
    with pytest.raises(CommitOutcomeUnknown):
        world.table.append_file(world.file, adopt="move")
    assert world.file.exists()
    assert len([path for path in objects(world.place) if path not in held and path.startswith("data/")]) == 1


@pytest.mark.parametrize("way", ["copy", "link", "move"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, way: Any) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")
    pq.write_table(rows(1, 2), tmp_path / "in.parquet")

    def rewrite(_done: int, _total: int | None) -> None:
        pq.write_table(rows(7, 8, 9, 10), tmp_path / "in.parquet")

    with pytest.raises(UnreadableInput, match=str(tmp_path)):
        table.append_file([tmp_path / "in.parquet", *second(tmp_path)], adopt=way, progress=rewrite)
    assert gl.open(table.url).version == 1
    assert list((tmp_path / "t" / "data").iterdir()) == []
    assert pq.read_table(tmp_path / "in.parquet").num_rows == 4


def second(folder: Path) -> list[Path]:
    """A file that is read after the first one was written anew, and is it by another name."""
    os.link(folder / "in.parquet", folder / "other.parquet")
    return [folder / "other.parquet"]


class DyingStore(LocalStore):
    """Ends the process at the put of a commit, before it or after it."""

    after = False

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        if is_commit(path) and not self.after:
            os._exit(77)
        super().put(path, data, mode=mode, durable=durable)
        if is_commit(path):
            os._exit(78)


class DyingLater(DyingStore):
    after = True


@pytest.mark.parametrize("way", ["copy", "link", "move"])
@pytest.mark.parametrize("store", [DyingStore, DyingLater])
def test_killed_at_the_commit_nothing_is_lost(tmp_path: Path, way: Any, store: type[DyingStore]) -> None:
    root = str(tmp_path / "t")
    gl.create(root, index="ts", entity="symbol", bucket="1h").append(rows(0))
    pq.write_table(rows(1, 2), tmp_path / "in.parquet")

    def adopt() -> None:
        env = Environment(store=store(root))
        gl.TimeSeriesTable(env, root, open_table(env, root)).append_file(tmp_path / "in.parquet", adopt=way)

    assert os.waitstatus_to_exitcode(in_child(adopt)) in (77, 78)
    assert pq.read_table(tmp_path / "in.parquet").num_rows == 2, "the file is where it was"
    table = gl.open(root)
    landed = store.after
    assert table.scan().count() == (3 if landed else 1)
    # An orphan, or a hint that lags: what a note says harms no one.
    assert {finding.severity for finding in table.verify(deep=True).findings} <= {"note"}
    if landed:
        with pytest.raises(CoverageOverlap):
            table.append_file(tmp_path / "in.parquet", adopt=way)
    else:
        table.append_file(tmp_path / "in.parquet", adopt="copy")
    # Days later, what the killed one left goes, and no other name of its file does.
    env = Environment(store=LocalStore(root), clock=SetClock(NOON_NS + 365_000 * NS_PER_DAY // 365))
    later = gl.TimeSeriesTable(env, root, open_table(env, root))
    later.vacuum(dt.timedelta(0), dry_run=False)
    assert len(list((tmp_path / "t" / "data").iterdir())) == 2
    assert pq.read_table(tmp_path / "in.parquet").num_rows == 2
    assert gl.open(root).scan().count() == 3
