"""Trying again: waits against their rule, and every way in which it ends, by a clock that only waits move."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

import gapless as gl
from gapless.errors import AccessDenied, CommitOutcomeUnknown, InvalidOption, StoreUnavailable
from support.faulty_store import PatientClock


@dataclass
class Draws:
    """Jitter from a list, the last of it again and again."""

    shares: list[float] = field(default_factory=lambda: [0.5])

    def uuid(self) -> str:
        raise AssertionError

    def jitter(self) -> float:
        return self.shares.pop(0) if len(self.shares) > 1 else self.shares[0]


@dataclass
class Failing:
    """An act that fails so many times, and then gives its number of calls."""

    times: int
    error: Callable[[], Exception] = lambda: StoreUnavailable("no answer", path="x")
    clock: PatientClock | None = None
    takes_s: float = 0
    calls: int = 0
    began: list[float] = field(default_factory=list)

    def __call__(self) -> int:
        self.calls += 1
        if self.clock is not None:
            self.began.append(self.clock.monotonic() - 1_700_000_000)
            self.clock.now_s += self.takes_s
        if self.calls <= self.times:
            raise self.error()
        return self.calls


def waited(clock: PatientClock, act: Failing) -> list[float]:
    """The seconds between the tries, the act's own not among them."""
    return [round(b - a - act.takes_s, 6) for a, b in zip(act.began, act.began[1:], strict=False)]


def test_a_result_comes_without_a_wait() -> None:
    clock = PatientClock()
    assert gl.retry(Failing(0), clock=clock) == 1
    assert clock.slept == []


def test_waits_are_shares_of_ceilings_that_double() -> None:
    clock, shares = PatientClock(), [0.5, 0.25, 0.999, 0.0, 0.75, 0.5]
    act = Failing(6, clock=clock)
    given = gl.retry(act, backoff=gl.Backoff(first_s=1, longest_s=8), deadline=None, clock=clock, ids=Draws(list(shares)))
    assert given == 7
    assert waited(clock, act) == pytest.approx([share * top for share, top in zip(shares, [1, 2, 4, 8, 8, 8], strict=True)])


def test_jitter_is_drawn_over_the_whole_wait() -> None:
    """By the system's own draws: of many first waits some are short and some long, and none exceeds the ceiling."""
    firsts = []
    for _ in range(200):
        clock = PatientClock()
        act = Failing(1, clock=clock)
        gl.retry(act, backoff=gl.Backoff(first_s=1), clock=clock)
        firsts += waited(clock, act)
    assert 0 <= min(firsts) < 0.1
    assert 0.9 < max(firsts) <= 1


def test_the_deadline_gets_one_last_try() -> None:
    clock = PatientClock()
    act = Failing(99, clock=clock, takes_s=2)
    with pytest.raises(StoreUnavailable) as caught:
        gl.retry(act, deadline="10s", backoff=gl.Backoff(first_s=6, longest_s=6), clock=clock, ids=Draws())
    assert act.began == [0, 5, 10]
    assert caught.value.__notes__ == ["gapless.retry: 3 tries; the deadline has passed"]


@pytest.mark.parametrize("seed", range(20))
def test_no_try_begins_after_the_deadline(seed: int) -> None:
    draw = Random(seed)
    clock, limit = PatientClock(), draw.choice([0, 1, 7])
    act = Failing(draw.randint(0, 50), clock=clock, takes_s=draw.choice([0.01, 0.5, 3]))
    try:
        given = gl.retry(
            act,
            deadline=f"{limit}s",
            attempts=draw.choice([None, 3, 100]),
            backoff=gl.Backoff(first_s=0.1),
            clock=clock,
            ids=Draws([draw.random() for _ in range(60)]),
        )
    except StoreUnavailable:
        assert act.calls <= act.times
    else:
        assert given == act.times + 1
    assert all(began <= limit + 1e-6 for began in act.began)


def test_attempts_are_counted() -> None:
    act = Failing(99)
    with pytest.raises(StoreUnavailable) as caught:
        gl.retry(act, attempts=4, clock=PatientClock())
    assert act.calls == 4
    assert caught.value.__notes__ == ["gapless.retry: 4 tries; attempts=4"]


@pytest.mark.parametrize(
    ("error", "errors", "again"),
    [
        (lambda: StoreUnavailable("x", path="x"), None, True),
        (lambda: gl.CommitConflict("x", version=1, reason="x"), None, True),
        (ConnectionResetError, None, True),
        (lambda: CommitOutcomeUnknown("x", version=1, commit_id="x"), None, False),
        (lambda: AccessDenied("x", path="x"), None, False),
        (lambda: InvalidOption("x", option="x", value=1), None, False),
        (lambda: OSError("disk"), None, False),
        (lambda: KeyError("x"), KeyError, True),
        (lambda: StoreUnavailable("x", path="x"), KeyError, False),
        (lambda: KeyError("x"), (ValueError, LookupError), True),
        (lambda: KeyError("x"), lambda error: error.args == ("x",), True),
        (lambda: KeyError("y"), lambda error: error.args == ("x",), False),
    ],
    ids=["no answer", "conflict", "connection", "unknown outcome", "denied", "call", "disk", "class", "not the class", "classes", "asked", "no"],
)  # fmt: skip
def test_which_errors_are_tried_again(error: Callable[[], Exception], errors: Any, again: bool) -> None:
    act = Failing(2, error)
    given = {} if errors is None else {"errors": errors}
    if again:
        assert gl.retry(act, clock=PatientClock(), **given) == 3
        return
    with pytest.raises(type(error())) as caught:
        gl.retry(act, clock=PatientClock(), **given)
    assert act.calls == 1
    assert not getattr(caught.value, "__notes__", [])


@dataclass
class CancelledAt(PatientClock):
    """A clock at whose moment someone cancels."""

    cancel: threading.Event = field(default_factory=threading.Event)
    at_s: float = 0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.now_s - 1_700_000_000 >= self.at_s:
            self.cancel.set()


def test_a_wait_ends_soon_after_it_is_cancelled() -> None:
    clock = CancelledAt(at_s=100)
    act = Failing(99, clock=clock)
    with pytest.raises(StoreUnavailable) as caught:
        gl.retry(
            act, deadline=None, backoff=gl.Backoff(first_s=600, longest_s=600), cancel=clock.cancel, clock=clock, ids=Draws()
        )
    assert act.calls == 1
    assert clock.now_s - 1_700_000_000 == pytest.approx(100, abs=0.11)
    assert caught.value.__notes__ == ["gapless.retry: 1 try; cancelled"]


def test_what_is_cancelled_before_is_tried_once() -> None:
    cancel = threading.Event()
    cancel.set()
    assert gl.retry(Failing(0), cancel=cancel, clock=PatientClock()) == 1
    act = Failing(1)
    with pytest.raises(StoreUnavailable):
        gl.retry(act, cancel=cancel, clock=PatientClock())
    assert act.calls == 1


def test_an_interrupt_is_no_failure() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gl.retry(interrupted, errors=lambda _error: True, clock=PatientClock())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"attempts": 0}, "attempts"),
        ({"deadline": "soon"}, "deadline"),
        ({"deadline": 60}, "deadline"),
    ],
    ids=["no tries", "no length", "no unit"],
)
def test_arguments_that_mean_nothing(options: dict[str, Any], named: str) -> None:
    act = Failing(0)
    with pytest.raises(InvalidOption) as caught:
        gl.retry(act, **options)
    assert caught.value.option == named
    assert act.calls == 0


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_waits_that_are_none(value: float) -> None:
    with pytest.raises(InvalidOption):
        gl.Backoff(first_s=value)
