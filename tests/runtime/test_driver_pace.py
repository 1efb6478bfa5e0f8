"""How long the driver backs off: little after a lost race, which another won; more and more where the store does not answer."""

from __future__ import annotations

import uuid

import pytest

from gapless.errors import ObjectExists
from gapless.log.effects import Conversation, Get, Put, PutNew, Wait, perform
from gapless.runtime.environment import Environment
from gapless.store.memory import MemoryStore
from support.faulty_store import CountingIds, FaultyStore, PatientClock, unavailable

TRIES = 12


def waits(store: FaultyStore, clock: PatientClock) -> list[float]:
    """The seconds slept before each of TRIES puts of one object, each looked up after its put."""
    env = Environment(store=store, clock=clock, ids=CountingIds(), deadline_s=1e6)

    def conversation() -> Conversation[None]:
        for attempt in range(1, TRIES + 1):
            assert (yield from perform(PutNew("v", b"mine"))) is not Put.DONE
            yield from perform(Get("v"))
            yield from perform(Get("v + 1"))
            yield from perform(Wait(attempt))

    env.drive(conversation())
    return clock.slept


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore(uuid.uuid4().hex))


def test_after_a_lost_race(store: FaultyStore) -> None:
    store.put("v", b"theirs")
    assert max(waits(store, PatientClock())) <= 0.02, "the others commit meanwhile; who sleeps long, starves"


def test_after_a_lost_race_in_a_slow_store(store: FaultyStore) -> None:
    clock = PatientClock()
    store.put("v", b"theirs")
    store.before_put = lambda _path: clock.sleep(0.1)
    slept = waits(store, clock)[1::2]
    assert max(slept) == pytest.approx(0.2, rel=0.01)


def refuse(path: str) -> None:
    raise ObjectExists(f"{path} exists", path=path)


@pytest.mark.parametrize("before_put", [unavailable, refuse], ids=["no answer", "refused, though nothing is there"])
def test_where_the_store_is_troubled(store: FaultyStore, before_put: object) -> None:
    store.before_put = before_put  # type: ignore[assignment]  # one of two acts
    slept = waits(store, PatientClock())
    assert slept == sorted(slept)
    assert slept[-1] == pytest.approx(1.0, rel=0.01)
