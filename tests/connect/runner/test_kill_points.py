"""Kill -9, or a lost reply, right after each thing that a pipeline stores: whoever reads the table then, each row is there once.

A further format joins by a line in `support.targets`, a further mode by one in `MODES` here, a further store by one in `PLACES`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gapless.connect import CheckpointStore
from gapless.errors import GaplessError, StoreUnavailable
from gapless.store.open import open_store
from gapless.testing.connect.rows import sorted_rows
from support.copies import copied
from support.faulty_store import PatientClock
from support.killed_pipelines import KillServer, Pipeline, kill_server
from support.moved_clock import MONTH_S, MovedClock, clock
from support.pipelines import rows
from support.store_points import HUDI_POINTS, POINTS, Point, Watch, watched
from support.targets import TARGETS, Rows, Storage

__all__ = ["clock", "kill_server"]


def append_only(feed: Any) -> None:
    """12 rows in 3 commits, of 5 ids."""
    for first in (0, 4, 8):
        feed.append(rows(first, 4))


def corrected(feed: Any) -> None:
    """Rows that come, change, and go."""
    feed.append(rows(0, 6))
    feed.delete("v IN (1, 4)")
    feed.append(rows(6, 3))
    feed.upsert(rows(2, 2).set_column(2, "v", [[102, 103]]), key=["ts"])
    feed.delete("v = 103")
    feed.append(rows(9, 3))


def last_of_each_id(feed: Rows) -> Rows:
    return list({row["id"]: row for row in sorted(feed, key=lambda row: row["v"])}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """What a sink of a mode is given, and what a table has of it in the end."""

    sink: Mapping[str, Any]
    source: Mapping[str, Any]
    feed: Callable[[Any], None]
    wanted: Callable[[Rows], Rows]
    """Of the rows that the feed has in the end."""


MODES = {
    "append": Mode(sink={}, source={}, feed=append_only, wanted=lambda feed: feed),
    "upsert": Mode(sink={"key": ["id"]}, source={}, feed=append_only, wanted=last_of_each_id),
    "cdc": Mode(sink={"key": ["ts"]}, source={"on_change": "tell"}, feed=corrected, wanted=lambda feed: feed),
}
PLACES = ("disk", pytest.param("s3", marks=pytest.mark.soak))


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Storage]:
    return request.getfixturevalue("s3_options") if request.param == "s3" else (str(tmp_path / "place"), None)


@pytest.fixture(params=["append", pytest.param("upsert", marks=pytest.mark.soak), "cdc"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=TARGETS)
def pipeline(request: pytest.FixtureRequest, place: tuple[str, Storage], mode: str) -> Pipeline:
    """With its feed, and an empty table for its rows."""
    (location, storage), made = place, MODES[mode]
    feed = TARGETS["timeseries"].make(f"{location}/feed", storage)
    made.feed(feed)
    TARGETS[request.param].make(f"{location}/sink", storage)
    return Pipeline(
        place=location,
        storage=storage,
        kind=request.param,
        mode=mode,
        options={**made.sink, "spill_bytes": 1},
        reading=made.source,
    )


def assert_all_is_there_once(pipeline: Pipeline, clock: MovedClock, onto: Path) -> None:
    """Rows and sums are the feed's, as a stranger reads both; and after the sweep no file lies there that the log does not name."""
    target, where = TARGETS[pipeline.kind], f"{pipeline.place}/sink"
    feed = TARGETS["timeseries"].rows(copied(f"{pipeline.place}/feed", pipeline.storage, onto))
    wanted = MODES[pipeline.mode].wanted(feed)
    found = target.rows(copied(where, pipeline.storage, onto))
    assert sorted_rows(found) == sorted_rows(wanted)
    assert sum(row["v"] for row in found) == sum(row["v"] for row in wanted)
    decided = CheckpointStore(f"{pipeline.place}/checkpoints", storage_options=pipeline.storage).recover()
    assert decided.finished
    assert not decided.unfinished
    clock.ahead_s = MONTH_S
    table = target.open(where, pipeline.storage)
    assert table.verify(deep=True).ok
    target.sweep(table)
    copy = copied(where, pipeline.storage, onto)
    left = {info.path for info in open_store(where, pipeline.storage).list() if not info.path.startswith(f"{target.log}/")}
    assert left == target.files(copy)
    assert sorted_rows(target.rows(copy)) == sorted_rows(wanted)


def lost_and_run_again(pipeline: Pipeline, point: Point, nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run it, losing the answer at a point; and again where it gave up."""
    lost: list[str] = []

    def lose(path: str) -> None:
        lost.append(path)
        raise StoreUnavailable(f"no answer for {path}", path=path)

    with monkeypatch.context() as patched:
        kind = type(open_store(f"{pipeline.place}/sink", pipeline.storage))
        watched(kind, Watch(point, nth, lose), patched.setattr)
        try:
            pipeline.run(clock=PatientClock())
        except GaplessError:
            pipeline.run()
    assert len(lost) == 1


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("point", POINTS)
def test_log_15_killed_at_a_point_and_run_again_each_row_is_there_once(
    pipeline: Pipeline, point: str, nth: int, kill_server: KillServer, clock: MovedClock, tmp_path: Path
) -> None:
    assert kill_server.run(pipeline, point=point, nth=nth) == -signal.SIGKILL
    assert kill_server.run(pipeline) == 0
    assert_all_is_there_once(pipeline, clock, tmp_path / "copy")


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("pipeline", ["hudi"], indirect=True)
@pytest.mark.parametrize("point", HUDI_POINTS)
def test_killed_within_the_commit_of_a_hudi_table_and_run_again_each_row_is_there_once(
    pipeline: Pipeline, point: str, nth: int, kill_server: KillServer, clock: MovedClock, tmp_path: Path
) -> None:
    if point == "lock file" and pipeline.storage is not None:
        pytest.skip("a bucket has no lock file")
    assert kill_server.run(pipeline, point=point, nth=nth) == -signal.SIGKILL
    assert kill_server.run(pipeline) == 0
    assert_all_is_there_once(pipeline, clock, tmp_path / "copy")


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("pipeline", ["hudi"], indirect=True)
@pytest.mark.parametrize("point", HUDI_POINTS)
def test_a_reply_that_is_lost_within_the_commit_of_a_hudi_table(
    pipeline: Pipeline, point: str, nth: int, clock: MovedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if point == "lock file" and pipeline.storage is not None:
        pytest.skip("a bucket has no lock file")
    lost_and_run_again(pipeline, HUDI_POINTS[point], nth, monkeypatch)
    assert_all_is_there_once(pipeline, clock, tmp_path / "copy")


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("point", POINTS)
def test_a_reply_that_is_lost_at_a_point_loses_and_doubles_nothing(
    pipeline: Pipeline, point: str, nth: int, clock: MovedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_and_run_again(pipeline, POINTS[point], nth, monkeypatch)
    assert_all_is_there_once(pipeline, clock, tmp_path / "copy")
