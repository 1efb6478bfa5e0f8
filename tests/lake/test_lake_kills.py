"""A writer of runs that dies: at each call that changes the store, before it and after it, and by SIGKILL at five points of a run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gapless.errors import GaplessError
from gapless.lake import Page
from gapless.lake.catalog.catalog import LEASE_S
from gapless.lake.lake import Lake
from gapless.lake.opening import open_lake
from gapless.runtime.environment import Environment, SystemClock
from gapless.store.local.store import LocalStore
from gapless.testing.simulation.timeline import Timeline
from gapless.testing.store.case import in_child
from gapless.testing.store.stores import Faults, Killed, SimStore
from lake.conftest import Over
from support.dying_store import DyingStore, Life
from support.lake_catalogs import catalog_of, new_lake, wipe_catalog

pytestmark = pytest.mark.usefixtures("backend")
PAGES = 4


def pages(token: Any) -> Iterator[Page]:
    for number in range(token or 0, PAGES):
        row: dict[str, object] = {"id": number, "new": number} if number >= 2 else {"id": number}
        yield Page([row], number + 1)


class DyingChanges(DyingStore):
    """Conditional replaces count as calls too."""

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        return self.life.call(lambda: self.inner.put_if_match(path, data, etag), changes=True)  # type: ignore[attr-defined,no-any-return]


def dying(root: Path, life: Life) -> Lake:
    store = DyingChanges(LocalStore(str(root)), life)
    return Lake(Environment(store=store), catalog_of(root))


class Later(SystemClock):
    """A clock by which the lease of whoever died is over."""

    def now_ns(self) -> int:
        return super().now_ns() + int((LEASE_S + 1) * 1e9)


def after_the_lease(root: Path) -> Lake:
    return Lake(Environment(store=LocalStore(str(root)), clock=Later()), catalog_of(root))


def is_whole_or_absent(root: Path) -> None:
    """The run is there with all its rows or not at all, its cursor with it; the next run brings what is missing; the catalog is that of the manifests."""
    lake = open_lake(root)
    found = lake.table("t").manifests()
    assert [one.rows for one in found] in ([], [PAGES])
    assert lake.table("t").cursor() == (PAGES if found else None)
    after_the_lease(root).run("t", pages, cursor="opaque")
    assert lake.query("SELECT id, new FROM t ORDER BY id").to_arrow().to_pylist() == [
        {"id": number, "new": number if number >= 2 else None} for number in range(PAGES)
    ]
    before = catalog_of(root).content()
    wipe_catalog(root)
    open_lake(root)
    assert catalog_of(root).content() == before


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)], ids=["before", "after"])
def test_run_08_a_death_at_each_change_of_the_store(tmp_path: Path, after: bool) -> None:
    deaths = 0
    while True:
        root = tmp_path / str(deaths)
        new_lake(root).create_table("t")
        life = Life(dies_at=deaths + 1, after=after)
        try:
            dying(root, life).run("t", pages, cursor="opaque")
        except Killed:
            deaths += 1
            is_whole_or_absent(root)
            continue
        break
    # Two versions of the columns with a copy each, two files, a manifest, a view.
    assert deaths >= 7


POINTS = {
    "before the first page": "gapless.lake.run.read_page",
    "with files stored": "gapless.lake.run.Committer",
    "before the manifest": "gapless.lake.commits.create_once",
    "with the manifest, before the catalog": "gapless.lake.commits.record_manifest",
    "before the view": "gapless.lake.lake.LakeTable.write_view",
}


@pytest.mark.parametrize("point", POINTS)
def test_run_08_sigkill_at_a_point_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    root = tmp_path / "lake"
    new_lake(root).create_table("t")

    def victim() -> None:
        monkeypatch.setattr(POINTS[point], lambda *_args, **_named: os.kill(os.getpid(), signal.SIGKILL))
        open_lake(root).run("t", pages, cursor="opaque")

    assert in_child(victim) == signal.SIGKILL
    there = len(open_lake(root).table("t").manifests())
    assert there == (point in ("with the manifest, before the catalog", "before the view"))
    is_whole_or_absent(root)


class Waits:
    """A simulated clock."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now_ns(self) -> int:
        return self._timeline.now_ns

    def monotonic(self) -> float:
        return self._timeline.now_ns / 1e9

    def sleep(self, seconds: float) -> None:
        self._timeline.pause(seconds)


@pytest.mark.parametrize("seed", range(12))
def test_lost_replies_lose_and_double_nothing(over: Over, tmp_path: Path, seed: int) -> None:
    """A store that answers wrongly or not at all, and a writer that runs until it is told that all is there."""
    root = tmp_path / "lake"
    new_lake(root).create_table("t")
    timeline = Timeline()
    store = SimStore(LocalStore(str(root)), random=Random(seed), timeline=timeline, faults=Faults.even(0.05))
    writer = over(store, clock=Waits(timeline), deadline_s=60.0)
    for _ in range(100):
        try:
            if writer.run("t", pages, cursor="opaque").cursor == PAGES:
                break
        except (GaplessError, OSError):
            timeline.pause(5)  # what is late happens
    else:
        raise AssertionError(store.trace[-20:])
    timeline.pause(1000)
    lake = open_lake(root)
    rows = lake.query("SELECT id FROM t ORDER BY id").to_arrow().column("id").to_pylist()
    assert rows == list(range(PAGES)), [one[1:] for one in store.trace]
