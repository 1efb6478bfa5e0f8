"""The driver: requests answered from a store and a clock, within a deadline."""

from __future__ import annotations

import itertools
from typing import TypeVar

import pytest

from gapless.errors import AccessDenied, ObjectExists, StoreUnavailable
from gapless.log.effects import Conversation, Get, ListNames, Now, Put, PutHint, PutNew, Request, Wait, perform
from gapless.runtime.environment import Environment, RandomIds, SystemClock
from gapless.store.memory import MemoryStore
from support.faulty_store import CountingIds, FaultyStore, PatientClock, unavailable

T = TypeVar("T")
_counter = itertools.count()


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore(f"driver-{next(_counter)}"))


def env_of(store: FaultyStore, deadline_s: float = 10.0) -> tuple[Environment, PatientClock]:
    clock = PatientClock()
    return Environment(store=store, clock=clock, ids=CountingIds(), deadline_s=deadline_s), clock


def one(request: Request[T]) -> Conversation[T]:
    return (yield from perform(request))


def test_what_a_put_learns(store: FaultyStore) -> None:
    env, _ = env_of(store)
    assert env.drive(one(PutNew("a", b"1"))) is Put.DONE
    assert env.drive(one(PutNew("a", b"2"))) is Put.REFUSED
    assert store.get("a") == b"1"
    store.before_put = unavailable
    assert env.drive(one(PutNew("b", b"1"))) is Put.NO_ANSWER


def test_an_error_of_the_store_is_thrown_into_the_conversation(store: FaultyStore) -> None:
    env, _ = env_of(store)

    def deny(path: str) -> None:
        raise AccessDenied("no", path=path)

    store.before_put = deny

    def conversation() -> Conversation[str]:
        try:
            yield from perform(PutNew("a", b""))
        except AccessDenied as error:
            return error.path
        return "landed"

    assert env.drive(conversation()) == "a"
    with pytest.raises(AccessDenied):
        env.drive(one(PutNew("a", b"")))


def test_a_hint_may_fail(store: FaultyStore) -> None:
    env, _ = env_of(store)
    store.before_put = unavailable
    assert env.drive(one(PutHint("CURRENT", b"1"))) is None
    store.before_put = lambda _path: None
    env.drive(one(PutHint("CURRENT", b"1")))
    env.drive(one(PutHint("CURRENT", b"2")))
    assert store.get("CURRENT") == b"2"


def test_a_read_is_tried_again_until_the_deadline(store: FaultyStore) -> None:
    env, clock = env_of(store)
    store.inner.put("a", b"x")
    left = [3]

    def flaky(path: str) -> None:
        left[0] -= 1
        if left[0] >= 0:
            unavailable(path)

    store.before_get = flaky
    assert env.drive(one(Get("a"))) == b"x"
    assert len(clock.slept) == 3
    assert env.drive(one(Get("none"))) is None
    store.before_get = unavailable
    with pytest.raises(StoreUnavailable):
        env.drive(one(Get("a")))
    assert sum(clock.slept) == pytest.approx(10.0, abs=1.0)


def test_waits_grow_and_end_at_the_deadline(store: FaultyStore) -> None:
    env, clock = env_of(store, deadline_s=5.0)

    def patience() -> Conversation[int]:
        for attempt in itertools.count(1):
            if not (yield from perform(Wait(attempt))):
                return attempt
        raise AssertionError

    tries = env.drive(patience())
    assert tries > 5
    assert clock.slept[0] < 0.02
    assert max(clock.slept) <= 1.0
    assert sum(clock.slept) == pytest.approx(5.0)
    assert clock.slept[:5] == sorted(clock.slept[:5])


def test_names_and_time(store: FaultyStore) -> None:
    env, clock = env_of(store)
    for path in ("log/b", "log/a", "logs/c", "log/deep/d"):
        store.inner.put(path, b"")
    assert env.drive(one(ListNames("log")))[:2] == ("log/a", "log/b")
    assert env.drive(one(Now())) == clock.now_ns()


def test_a_value_that_is_no_request_is_a_fault_of_ours(store: FaultyStore) -> None:
    env, _ = env_of(store)
    with pytest.raises(AssertionError):
        env.drive(one(Request[object]()))


def test_the_real_clock_and_ids() -> None:
    clock, ids = SystemClock(), RandomIds()
    before = clock.now_ns(), clock.monotonic()
    clock.sleep(0.001)
    assert (clock.now_ns() >= before[0], clock.monotonic() > before[1]) == (True, True)
    assert len({ids.uuid() for _ in range(100)}) == 100
    assert all(0 <= ids.jitter() < 1 for _ in range(100))
    assert issubclass(ObjectExists, Exception)
