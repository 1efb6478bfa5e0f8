"""How many round trips opening, time travel, refreshing and history wait for, one after the other, where the store is far."""

from __future__ import annotations

import threading
from math import ceil
from typing import Any

import pytest

import gapless as gl
from gapless.formats.timeseries.actions import AddSegment, Commit
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.effects import Concurrently, Conversation, Delete, Get, ListNames, PutHint, PutNew
from gapless.log.format import Snapshot
from gapless.log.snapshot import advance, load, refresh, write_checkpoint
from gapless.log.versions import read_back
from gapless.model.protocols import Capabilities
from gapless.model.segment import Bounds, InlineCoverage, Segment
from gapless.runtime.environment import TOGETHER, Environment
from gapless.testing.store.stores import OuterStore
from support.clocked_table import Clocked

INTERVAL, NEWEST = 100, 1_099


@pytest.fixture(scope="module")
def world() -> Clocked:
    """A log of 1,099 commits with a checkpoint at each hundredth."""
    world = Clocked()
    env, snapshot = world.env(), world.table._snapshot
    for version in range(2, NEWEST + 1):
        first = version * 3_600 * 10**9
        segment = Segment(
            path=f"data/{version}", rows=1, size=1, bounds=Bounds(first=first, last=first), identity=(), coverage=InlineCoverage(b"")
        )  # fmt: skip
        entry = Commit(id=f"c{version}", operation="append", actions=(AddSegment(segment),))
        time_ns = snapshot.time_ns + 1_000
        env.store.put(TIME_SERIES.path_of(version), TIME_SERIES.encode(entry, version, time_ns))
        snapshot = advance(TIME_SERIES, snapshot, [(version, entry, time_ns)])
        if version % INTERVAL == 0:
            env.drive(write_checkpoint(TIME_SERIES, snapshot))
    env.store.put(TIME_SERIES.hint, b"%d\n" % NEWEST, mode="overwrite")
    return world


def rounds(world: Clocked, conversation: Conversation[Any]) -> tuple[Any, int]:
    """What a conversation returns, and the round trips it waits for, one after the other."""
    waited = 0

    def counted() -> Conversation[Any]:
        nonlocal waited
        answer = None
        while True:
            try:
                request = conversation.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(request, Concurrently):
                waited += ceil(len(request.requests) / TOGETHER)
            waited += isinstance(request, Get | ListNames | PutNew | PutHint | Delete)
            answer = yield request

    return world.env().drive(counted()), waited


@pytest.mark.parametrize("newest", [1_000, 1_001, 1_050, 1_099])
def test_opening_waits_for_two_round_trips(world: Clocked, newest: int) -> None:
    clean = Clocked()
    clean.store.objects = {
        path: entry
        for path, entry in world.store.objects.items()
        if (TIME_SERIES.version_of(path) or TIME_SERIES.checkpoint_of(path) or 0) <= newest
    }
    clean.store.put(TIME_SERIES.hint, b"%d\n" % newest, mode="overwrite")
    found, waited = rounds(clean, load(TIME_SERIES))
    assert (found.version, len(found.state.live)) == (newest, newest - 1)
    assert waited == 2


@pytest.mark.parametrize(("hint", "most"), [(b"1080\n", 5), (b"", 5), (b"1000\n", 5)])
def test_a_hint_that_lags_costs_another(world: Clocked, hint: bytes, most: int) -> None:
    """1,099 commits, of which 99 come after the checkpoint: more than go together at once."""
    lagging = Clocked()
    lagging.store.objects = dict(world.store.objects)
    lagging.store.put(TIME_SERIES.hint, hint, mode="overwrite")
    found, waited = rounds(lagging, load(TIME_SERIES))
    assert found.version == NEWEST
    assert waited <= most


def test_an_older_version_a_refresh_and_history_read_many_commits_at_once(world: Clocked) -> None:
    then, waited = rounds(world, load(TIME_SERIES, 350))
    assert (then.version, len(then.state.live)) == (350, 349)
    assert waited <= 4
    start, _ = rounds(world, load(TIME_SERIES, 1_040))
    newest, waited = rounds(world, refresh(TIME_SERIES, start))
    assert isinstance(newest, Snapshot)
    assert newest.version == NEWEST
    assert waited <= 9
    entries, waited = rounds(world, read_back(TIME_SERIES, NEWEST, 128))
    assert [version for version, _, _ in entries] == list(range(NEWEST - 127, NEWEST + 1))
    assert waited == ceil(128 / TOGETHER)


class FarStore(OuterStore):
    """Says that it is far, and answers reads of commits only once eight of them wait."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.gate = threading.Barrier(8)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(put_if_absent=True, durable=True, survives_fork=True, concurrent=True)

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if TIME_SERIES.version_of(path) is not None:
            self.gate.wait(timeout=30)
        return super().get(path, start, length)


def test_a_far_store_is_asked_for_several_objects_at_once(world: Clocked) -> None:
    """Alone, the first would wait for ever."""
    env = Environment(store=FarStore(world.store))
    asked = Concurrently(tuple(Get(TIME_SERIES.path_of(version)) for version in range(1, 17)))

    def conversation() -> Conversation[tuple[bytes | None, ...]]:
        found: tuple[bytes | None, ...] = yield asked
        return found

    assert env.drive(conversation()) == tuple(world.store.get(get.path) for get in asked.requests if isinstance(get, Get))


def test_an_error_of_one_of_several_requests_reaches_the_caller(world: Clocked) -> None:
    class Denied(FarStore):
        def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            if path == TIME_SERIES.path_of(7):
                raise gl.errors.AccessDenied("denied", path=path)
            return self.inner.get(path, start, length)

    with pytest.raises(gl.errors.AccessDenied):
        Environment(store=Denied(world.store)).drive(read_back(TIME_SERIES, 10))
