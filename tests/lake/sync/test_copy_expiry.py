"""What a copy has that its newest snapshot took the place of goes when it is asked for, and no reader and no node loses a row by it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import InvalidOption
from gapless.lake.lake import Lake
from gapless.lake.opening import init
from gapless.lake.sync.transfer import push
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from lake.sync.test_interrupted import interrupted

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of duckdb

DAY = 86_400.0


def ids(lake: Lake, table: str = "events") -> list[int]:
    return sorted(lake.table(table).to_arrow().column("id").to_pylist())


def manifests(root: Path, table: str = "events") -> tuple[int, int]:
    """How many runs and snapshots lie there."""
    data = root / "tables" / table / "data"
    return len(list(data.glob("runs/*/*/_manifest.json"))), len(list(data.glob("snapshot=*/_manifest.json")))


def a_day_later(root: Path) -> None:
    """As if all that lies there had lain there for a day."""
    then = time.time() - DAY - 1
    for path in root.rglob("*"):
        os.utime(path, (then, then))


@pytest.fixture
def hub(tmp_path: Path) -> tuple[Lake, Path]:
    """A lake of three runs and two snapshots of which the second has all rows, and the place that it was pushed to each time."""
    one = init(tmp_path / "one", node="one")
    one.create_table("events")
    one.create_table("orders", key=["id"])
    for number in range(3):
        one.run("events", [{"id": number}])
        one.run("orders", [{"id": 0, "v": number}])
        if number != 1:
            one.table("events").compact()
            one.table("orders").compact()
        one.push(tmp_path / "hub")
    return one, tmp_path / "hub"


def test_a_push_removes_what_the_newest_snapshot_has_had_for_a_day(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    one, place = hub
    gl.lake.pull(place, tmp_path / "replica")
    gl.lake.pull(place, tmp_path / "two", writable=True)
    two = gl.lake.open(tmp_path / "two", node="two")
    assert manifests(place) == (1, 2)  # the first run was in a snapshot by the first push
    assert [table.expired for table in one.push(place, expire_s=DAY).tables] == [0, 0]
    a_day_later(place)
    assert [table.expired for table in one.push(place, expire_s=2 * DAY).tables] == [0, 0]
    assert [table.expired for table in one.push(place, expire_s=DAY).tables] == [2, 2]
    assert manifests(place) == (0, 1)
    assert len(list((place / "tables/events").rglob("part-*"))) == 1
    assert [table.expired for table in one.push(place, expire_s=DAY).tables] == [0, 0]
    # All who have what is gone, and all who come.
    assert manifests(tmp_path / "one") == (3, 2)
    two.run("events", [{"id": 7}])
    two.push(place)
    one.pull(place)
    gl.lake.open(tmp_path / "replica").pull(place)
    gl.lake.pull(place, tmp_path / "new")
    assert manifests(place) == (1, 1)
    for root in ("one", "two", "replica", "new"):
        lake = gl.lake.open(tmp_path / root)
        assert (ids(lake), lake.table("orders").to_arrow().to_pylist()) == ([0, 1, 2, 7], [{"id": 0, "v": 2}]), root
        assert [found for found in lake.doctor(deep=True) if found.problem] == []
    assert one.sync_status(place).in_sync


def test_a_replica_removes_it_too_and_keeps_a_snapshot_that_is_wanted(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    one, place = hub
    older = one.table("orders").snapshots()[0].name
    gl.lake.pull(place, tmp_path / "replica", tables=["events"], snapshots={"orders": older})
    replica = gl.lake.open(tmp_path / "replica")
    replica.query("SELECT * FROM events").to_arrow()
    a_day_later(tmp_path / "replica")
    report = replica.pull(place, expire_s=DAY)
    assert {table.table: table.expired for table in report.tables} == {"events": 0, "orders": 0}
    one.run("events", [{"id": 3}])
    one.run("orders", [{"id": 0, "v": 3}])
    one.push(place)
    replica.pull(place)
    for table in ("events", "orders"):
        one.table(table).compact()
    one.push(place)
    replica.pull(place, expire_s=DAY)
    # The newest snapshot has just come: whoever reads by the one before goes on.
    assert manifests(tmp_path / "replica") == (1, 2)
    a_day_later(tmp_path / "replica")
    report = replica.pull(place, expire_s=DAY)
    assert {table.table: table.expired for table in report.tables} == {"events": 2, "orders": 0}
    assert manifests(tmp_path / "replica") == (0, 1)
    assert manifests(tmp_path / "replica", "orders") == (0, 1)
    assert (ids(replica), replica.table("orders").to_arrow().to_pylist()) == ([0, 1, 2, 3], [{"id": 0, "v": 0}])


def test_a_lake_that_runs_write_into_expires_by_itself(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    one, place = hub
    copies: tuple[Callable[[], object], ...] = (
        lambda: one.pull(place, expire_s=DAY),
        lambda: gl.lake.pull(place, tmp_path / "two", writable=True, expire_s=DAY),
        lambda: one.push(place, expire_s=-1),
        lambda: one.push(place, expire_s="1d"),  # type: ignore[arg-type]
    )
    for copy in copies:
        with pytest.raises(InvalidOption):
            copy()


def test_an_expiry_that_ends_at_any_object_loses_no_row(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    one, place = hub
    a_day_later(place)
    at, torn = 0, 0

    def pushed(target: Environment) -> None:
        push(Environment(store=LocalStore(str(tmp_path / "one"))), target, node="one", expire_s=DAY)

    while True:
        at += 1
        copy = tmp_path / f"hub{at}"
        shutil.copytree(place, copy)
        if not interrupted(copy, at, pushed):
            break
        gl.lake.pull(copy, tmp_path / f"pulled{at}")
        found = gl.lake.open(tmp_path / f"pulled{at}")
        assert (ids(found), found.table("orders").to_arrow().to_pylist()) == ([0, 1, 2], [{"id": 0, "v": 2}])
        torn += manifests(copy) not in ((1, 2), (0, 1))
        # The next one finds what is left of it.
        one.push(copy, expire_s=DAY)
        assert manifests(copy) == manifests(copy, "orders") == (0, 1)
    assert torn
    assert at > 10
