"""Writers and a log that is cleaned behind their backs: a free place is no proof that nothing was there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gapless.errors import AccessDenied, CorruptTable, LogWarning, StoreUnavailable
from gapless.log.commit import CLEANED, Committed, Conflict, Outcome, Unknown, commit
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting
from gapless.log.snapshot import load
from gapless.model.instant import NS_PER
from gapless.model.protocols import WRITER_HORIZON_NS
from gapless.runtime.environment import Environment
from gapless.testing.simulation.timeline import START_NS
from gapless.testing.store.stores import DictStore
from testing.toy_log import TOY, Entry

HOUR_NS = 3600 * NS_PER["s"]
DAY_NS = 24 * HOUR_NS


def nothing() -> None:
    """Nothing happens."""


@dataclass
class World:
    """A log of three commits an hour apart, a clock, and what happens just before and just after a put of a commit takes effect."""

    ns: int = START_NS
    store: DictStore = field(default_factory=DictStore)
    before_put: Callable[[], None] = nothing
    after_put: Callable[[], None] = nothing
    read: list[str] = field(default_factory=list)
    denied: str = ""

    def __post_init__(self) -> None:
        for version in (1, 2, 3):
            self.land(version, f"c{version}", START_NS + version * HOUR_NS)
        self.ns = START_NS + 3 * HOUR_NS

    def land(self, version: int, name: str, time_ns: int) -> None:
        self.store.put(TOY.path_of(version), TOY.encode(Entry(name), version, time_ns), mode="overwrite")

    def clean(self, *versions: int) -> None:
        for version in versions:
            self.store.delete(TOY.path_of(version))

    def names(self) -> list[int]:
        return sorted(v for path in self.store.objects if (v := TOY.version_of(path)) is not None)

    def commit(self, base: int) -> Outcome[Entry]:
        """Try to land after version `base`, as a handle does that saw nothing newer."""
        return Environment(store=_Store(self), clock=_Clock(self)).drive(
            commit(TOY, base, START_NS + base * HOUR_NS, Entry("mine"), check_conflict)
        )


def check_conflict(mine: Entry, _version: int, _theirs: Entry) -> Conversation[Compatible[Entry] | Conflicting]:
    yield from ()
    return Compatible(mine)


class _Clock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now_ns(self) -> int:
        return self._world.ns

    def monotonic(self) -> float:
        return self._world.ns / 1e9

    def sleep(self, seconds: float) -> None:
        self._world.ns += int(seconds * 1e9)


class _Store(DictStore):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world, self.objects = world, world.store.objects

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self._world.read.append(path)
        if path == self._world.denied:
            raise AccessDenied("no", path=path)
        return super().get(path, start, length)

    def put(self, path: str, data: bytes | memoryview, **named: Any) -> None:
        if TOY.version_of(path) is None:
            return
        self._world.before_put()
        super().put(path, data, **named)
        self._world.after_put()


@pytest.fixture
def world() -> World:
    return World()


def test_a_fresh_writer_asks_nothing_more(world: World) -> None:
    """It costs one look at the clock, and no request."""
    assert isinstance(world.commit(3), Committed)
    assert world.read == []


@pytest.mark.parametrize("hours", [13, 24 * 400, -13])
def test_a_handle_of_yesterday_commits_where_nothing_was_cleaned(world: World, hours: int) -> None:
    world.ns += hours * HOUR_NS
    outcome = world.commit(3)
    assert isinstance(outcome, Committed)
    assert outcome.version == 4
    assert set(world.read) == {TOY.path_of(3)}


def test_a_handle_of_yesterday_steps_over_what_was_committed_since(world: World) -> None:
    world.land(4, "theirs", world.ns + HOUR_NS)
    world.ns += 2 * DAY_NS
    outcome = world.commit(3)
    assert isinstance(outcome, Committed)
    assert [(version, entry.id) for version, entry, _ in outcome.entries] == [(4, "theirs"), (5, "mine")]


def test_where_the_log_was_cleaned_past_its_base_it_writes_nothing(world: World) -> None:
    world.ns += 2 * DAY_NS
    world.clean(1, 2, 3)
    world.land(9, "newest", world.ns)
    assert world.commit(3) == Conflict(4, Conflicting(CLEANED))
    assert world.names() == [9]


def test_cleaned_while_it_reads_on(world: World) -> None:
    """Commits 4 and 5 were there; 5 went before it was read."""
    world.land(4, "four", world.ns + HOUR_NS)
    world.land(5, "five", world.ns + 2 * HOUR_NS)
    world.ns += 2 * DAY_NS
    done: list[int] = []

    def clean() -> None:
        if not done:
            done.append(1)
            world.clean(1, 2, 3, 5)

    world.before_put = clean
    assert world.commit(3) == Conflict(4, Conflicting(CLEANED))
    assert 5 not in world.names()


def test_cleaned_between_its_look_and_its_put(world: World) -> None:
    """The place was taken and its commit cleaned: what lands there now is no commit, and is not called one."""
    world.land(4, "four", world.ns + HOUR_NS)
    world.ns += 2 * DAY_NS
    world.before_put = lambda: world.clean(1, 2, 3, 4)
    assert world.commit(3) == Unknown(4)


@pytest.mark.parametrize("cleaned", [True, False])
def test_a_put_that_takes_longer_than_the_horizon(world: World, cleaned: bool) -> None:
    """A laptop sleeps for two days in the middle of its put; meanwhile others commit, and clean the log."""

    def sleep() -> None:
        world.ns += 2 * WRITER_HORIZON_NS
        if cleaned:
            world.clean(1, 2, 3)

    world.before_put = sleep
    outcome = world.commit(3)
    assert outcome == Unknown(4) if cleaned else isinstance(outcome, Committed)


def test_a_first_commit_that_takes_so_long_is_not_sure_of_itself(world: World) -> None:
    world.clean(1, 2, 3)

    def sleep() -> None:
        world.ns += 2 * WRITER_HORIZON_NS

    world.after_put = sleep
    assert world.commit(0) == Unknown(1)


def test_what_another_late_writer_left_below_the_floor_is_no_commit(world: World) -> None:
    """Its file stands where commit 3 was, with another time: the log was cleaned past it all the same."""
    world.ns += 2 * DAY_NS
    world.clean(1, 2)
    world.land(3, "left behind", world.ns - HOUR_NS)
    world.land(9, "newest", world.ns)
    assert world.commit(3) == Conflict(4, Conflicting(CLEANED))


def test_a_store_that_fails_after_a_lost_answer_does_not_make_it_a_refusal(world: World) -> None:
    """The first put is still on its way; then the store refuses the look at the commit before."""
    world.ns += 2 * DAY_NS
    env = Environment(store=_Store(world), clock=_Clock(world))

    def fail() -> None:
        world.denied = TOY.path_of(3)
        raise StoreUnavailable("no answer", path="")

    world.before_put = fail
    assert env.drive(commit(TOY, 3, START_NS + 3 * HOUR_NS, Entry("mine"), check_conflict)) == Unknown(4)


@pytest.mark.parametrize("after_the_put", [True, False])
def test_a_store_that_fails_in_a_look_before_anything_was_tried_is_an_error(world: World, after_the_put: bool) -> None:
    world.ns += 2 * DAY_NS

    def deny() -> None:
        world.denied = TOY.path_of(3)

    if after_the_put:
        world.after_put = deny
        assert world.commit(3) == Unknown(4)
    else:
        deny()
        with pytest.raises(AccessDenied):
            world.commit(3)
        assert world.names() == [1, 2, 3]


def test_a_lost_answer_and_then_a_long_sleep_is_unknown(world: World) -> None:
    """It may have landed while the log was whole, and have been cleaned with the rest."""
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        world.ns += DAY_NS // 2 - HOUR_NS // 60
        if len(tries) == 1:
            world.ns += HOUR_NS
            world.clean(1, 2, 3)
            raise StoreUnavailable("no answer", path="")

    world.before_put = fail
    env = Environment(store=_Store(world), clock=_Clock(world), deadline_s=1e6)
    assert env.drive(commit(TOY, 3, START_NS + 3 * HOUR_NS, Entry("mine"), check_conflict)) == Unknown(4)
    assert len(tries) == 1


def test_a_cleaned_log_whose_checkpoint_is_damaged_is_refused_and_not_searched_for_ever(world: World) -> None:
    world.clean(1, 2)
    world.store.put("log/2.checkpoint", b"")
    with pytest.warns(LogWarning, match="torn"), pytest.raises(CorruptTable, match="version 1 is lost"):
        Environment(store=world.store).drive(load(TOY))
