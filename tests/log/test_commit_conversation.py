"""The commit conversation over a log that races, loses requests, loses answers and refuses with nothing there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gapless.errors import AccessDenied, StoreError, StoreUnavailable
from gapless.log.commit import CommitOptions, Committed, Conflict, Outcome, Unknown, commit
from gapless.log.effects import Conversation, Drive, Get, Now, Put, PutHint, PutNew, Request, TakeTurn, Wait
from gapless.log.format import Compatible, Conflicting, Snapshot, StoredCheckpoint
from testing.toy_log import Plain


@dataclass(frozen=True)
class Entry:
    id: str
    adds: frozenset[int] = frozenset()


class Toy(Plain[Entry]):
    """A dialect of two fields; its state is the list of ids."""

    folder = "log"
    hint = "log/CURRENT"
    last_checkpoint = "log/_last_checkpoint"

    def path_of(self, version: int) -> str:
        return f"log/{version}"

    def version_of(self, path: str) -> int | None:
        name = path.removeprefix("log/")
        return int(name) if name.isdigit() else None

    def encode(self, entry: Entry, version: int, time_ns: int) -> bytes:
        return json.dumps([entry.id, sorted(entry.adds), version, time_ns]).encode()

    def decode(self, data: bytes, version: int) -> tuple[Entry, int]:
        name, adds, at, time_ns = json.loads(data)
        assert at == version
        return Entry(name, frozenset(adds)), time_ns

    def encode_checkpoint(self, snapshot: Snapshot[tuple[str, ...]]) -> bytes:
        return json.dumps([snapshot.version, snapshot.time_ns, snapshot.state]).encode()

    def assemble(self, pieces: Sequence[bytes], stored: StoredCheckpoint, drive: Drive) -> Snapshot[tuple[str, ...]]:
        del drive
        at, time_ns, state = json.loads(pieces[0])
        assert at == stored.version
        return Snapshot(at, time_ns, tuple(state))

    def time_of(self, data: bytes, version: int) -> int:
        return self.decode(data, version)[1]

    def has_commit_time(self, data: bytes, time_ns: int) -> bool:
        return False

    def id_of(self, entry: Entry) -> str:
        return entry.id

    def replay(self, state: tuple[str, ...] | None, entries: Iterable[tuple[int, Entry, int]]) -> tuple[str, ...]:
        return (*(state or ()), *(entry.id for _, entry, _ in entries))


TOY = Toy()


@dataclass
class World:
    """Answers requests from a dict; `faults` are taken one a put, in order."""

    objects: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    patience: int = 3
    now_ns: int = 5_000
    blind: bool = False
    waits: int = 0
    before_put: Callable[[int], None] = lambda _put: None
    puts: int = 0
    first_go: list[Callable[[], None]] = field(default_factory=list)
    """What others do, who go first in line."""
    asked: list[Request[Any]] = field(default_factory=list)

    def land(self, version: int, entry: Entry, time_ns: int = 1_000) -> None:
        self.objects[TOY.path_of(version)] = TOY.encode(entry, version, time_ns)

    def answer(self, request: Request[Any]) -> object:
        self.asked.append(request)
        match request:
            case TakeTurn():
                others = bool(self.first_go)
                if others:
                    self.first_go.pop(0)()
                return others
            case PutNew(path, data):
                return self._put(path, data)
            case Get(path):
                if self.blind and path != TOY.hint:
                    raise StoreUnavailable("no answer", path=path)
                return self.objects.get(path)
            case PutHint(path, data):
                self.objects[path] = data
                return None
            case Wait():
                self.waits += 1
                return self.waits < self.patience
            case Now():
                return self.now_ns
        raise AssertionError(request)

    def _put(self, path: str, data: bytes) -> Put:
        self.before_put(self.puts)
        self.puts += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "request lost":
            return Put.NO_ANSWER
        if fault == "denied":
            raise AccessDenied("no", path=path)
        if fault == "refused with nothing there" or path in self.objects:
            return Put.REFUSED
        self.objects[path] = data
        return Put.NO_ANSWER if fault == "answer lost" else Put.DONE

    def drive(self, conversation: Conversation[Outcome[Entry]]) -> Outcome[Entry]:
        try:
            request = next(conversation)
            while True:
                try:
                    reply = self.answer(request)
                except StoreError as error:
                    request = conversation.throw(error)
                else:
                    request = conversation.send(reply)
        except StopIteration as end:
            outcome: Outcome[Entry] = end.value
            return outcome


def check_conflict(mine: Entry, _version: int, theirs: Entry) -> Conversation[Compatible[Entry] | Conflicting]:
    yield from ()
    both = mine.adds & theirs.adds
    return Conflicting("overlap", sorted(both)) if both else Compatible(mine)


def run(world: World, base: int, entry: Entry, base_time_ns: int = 0) -> Outcome[Entry]:
    return world.drive(commit(TOY, base, base_time_ns, entry, check_conflict))


def test_the_first_put_is_the_commit_and_the_hint_follows() -> None:
    world = World()
    outcome = run(world, 0, Entry("mine"))
    assert outcome == Committed(1, ((1, Entry("mine"), 5_000),))
    assert world.objects[TOY.hint] == b"1\n"


def test_a_lost_race_without_a_clash_lands_behind_all_that_came_first() -> None:
    world = World()
    for version in (1, 2, 3):
        world.land(version, Entry(f"other-{version}", frozenset({version})))
    outcome = run(world, 0, Entry("mine", frozenset({9})))
    assert isinstance(outcome, Committed)
    assert outcome.version == 4
    assert [entry.id for _, entry, _ in outcome.entries] == ["other-1", "other-2", "other-3", "mine"]
    assert world.puts == 2, "it reads on to the newest commit instead of putting below it"


def test_every_commit_that_came_first_is_judged() -> None:
    world = World()
    world.land(1, Entry("a", frozenset({1})))
    world.land(2, Entry("b", frozenset({2})))
    assert run(world, 0, Entry("mine", frozenset({2}))) == Conflict(2, Conflicting("overlap", [2]))
    assert "log/3" not in world.objects


@pytest.mark.parametrize("fault", ["answer lost", "request lost", "refused with nothing there"])
def test_log_01_lost_reply_is_one_commit(fault: str) -> None:
    world = World(faults=[fault])
    outcome = run(world, 0, Entry("mine"))
    assert isinstance(outcome, Committed)
    assert outcome.version == 1
    assert [path for path in world.objects if path != TOY.hint] == ["log/1"]


def test_a_lost_reply_found_after_a_rival_is_ours_all_the_same() -> None:
    """The put landed, its answer was lost; by the time we look, others have built on it."""
    world = World(faults=["answer lost"])
    outcome = run(world, 0, Entry("mine"))
    world.land(2, Entry("other"))
    again = run(world, 0, Entry("mine"))
    assert isinstance(outcome, Committed)
    assert isinstance(again, Committed)
    assert again.version == outcome.version == 1


def test_log_02_no_answer_until_the_deadline_is_unknown() -> None:
    assert run(World(faults=["request lost"] * 9), 0, Entry("mine")) == Unknown(1)


def test_log_02_a_log_that_cannot_be_read_back_is_unknown_and_not_an_error() -> None:
    world = World(faults=["answer lost"], blind=True)
    assert run(world, 0, Entry("mine")) == Unknown(1)
    assert "log/1" in world.objects


def test_log_02_a_put_that_failed_whole_says_nothing_of_the_one_before_it() -> None:
    """The first put may still land, so its files must stay."""
    assert run(World(faults=["request lost", "denied", "denied"]), 0, Entry("mine")) == Unknown(1)
    with pytest.raises(AccessDenied):
        run(World(faults=["denied"]), 0, Entry("mine"))
    world = World(faults=["answer lost", "denied"])
    assert isinstance(run(world, 0, Entry("mine")), Committed)


def test_a_retry_stays_at_its_version_until_that_is_decided() -> None:
    """Ours may still be in flight at version 1: trying 2 could land it twice."""
    world = World(faults=["request lost"])
    world.before_put = lambda put: world.land(1, Entry("rival", frozenset({1}))) if put == 1 else None
    outcome = run(world, 0, Entry("mine", frozenset({2})))
    assert isinstance(outcome, Committed)
    assert outcome.version == 2
    assert sorted(path for path in world.objects if path != TOY.hint) == ["log/1", "log/2"]


def test_losing_every_race_ends_at_the_deadline_as_a_conflict() -> None:
    world = World(patience=4)
    world.before_put = lambda put: world.land(put + 1, Entry(f"rival-{put}"))
    outcome = run(world, 0, Entry("mine"))
    assert isinstance(outcome, Conflict)
    assert "deadline" in outcome.cause.reason


def test_commit_times_never_run_backward() -> None:
    world = World(now_ns=2_000)
    world.land(1, Entry("from the future"), time_ns=900_000_000)
    outcome = run(world, 0, Entry("mine"))
    assert isinstance(outcome, Committed)
    times = [time_ns for _, _, time_ns in outcome.entries]
    assert times == [900_000_000, 900_001_000]


def test_a_base_time_ahead_of_the_clock_is_kept_ahead_of() -> None:
    outcome = run(World(now_ns=2_000), 0, Entry("mine"), base_time_ns=7_000)
    assert isinstance(outcome, Committed)
    assert outcome.entries[0][2] == 8_000


# Standing in line


def in_line(world: World, base: int, entry: Entry, base_time_ns: int = 0, *, verify_base: bool = True) -> Outcome[Entry]:
    return world.drive(
        commit(TOY, base, base_time_ns, entry, check_conflict, options=CommitOptions(verify_base=verify_base, in_turn=True))
    )


def test_whose_turn_comes_at_once_does_what_it_does_without_turns() -> None:
    world = World()
    world.land(1, Entry("base"), 100)
    assert isinstance(in_line(world, 1, Entry("a"), 100), Committed)
    kinds = [type(one) for one in world.asked]
    assert kinds == [TakeTurn, Now, Get, PutNew, PutHint]


def test_what_others_commit_meanwhile_is_read_before_the_turn_comes() -> None:
    world = World()
    world.land(1, Entry("base"), 100)
    others = [Entry(f"other {number}", frozenset({number})) for number in range(3)]
    world.first_go = [lambda n=n: world.land(2 + n, others[n], 1_000 + n) for n in range(3)]  # type: ignore[misc]
    outcome = in_line(world, 1, Entry("a", frozenset({9})), 100)
    assert isinstance(outcome, Committed)
    assert outcome.version == 5
    assert [(version, entry.id) for version, entry, _ in outcome.entries] == [
        (2, "other 0"), (3, "other 1"), (4, "other 2"), (5, "a"),
    ]  # fmt: skip
    assert world.puts == 1, "nothing is put where others came first"


def test_what_was_committed_last_before_the_turn_is_read_too() -> None:
    world = World()
    world.land(1, Entry("base"), 100)
    world.first_go = [lambda: None]
    answer = world.answer

    def answering(request: Request[Any]) -> object:
        found = answer(request)
        if isinstance(request, TakeTurn) and not found:
            world.land(2, Entry("other"), 1_000)
        return found

    world.answer = answering  # type: ignore[method-assign]
    outcome = in_line(world, 1, Entry("a"), 100)
    assert isinstance(outcome, Committed)
    assert (outcome.version, world.puts) == (3, 1)


def test_a_clash_met_in_line_ends_it_with_nothing_put() -> None:
    world = World()
    world.land(1, Entry("base"), 100)
    world.first_go = [lambda: world.land(2, Entry("other", frozenset({9})), 1_000), lambda: pytest.fail("it went on waiting")]
    outcome = in_line(world, 1, Entry("a", frozenset({9})), 100)
    assert outcome == Conflict(2, Conflicting("overlap", [9]))
    assert world.puts == 0


def test_in_line_nothing_of_another_table_is_read() -> None:
    """The table was removed and made again meanwhile: what lies behind our version is no commit after ours."""
    world = World()
    world.land(1, Entry("another table"), 777)
    world.first_go = [lambda: world.land(2, Entry("its second"), 1_000)]
    outcome = in_line(world, 1, Entry("a"), 100)
    assert isinstance(outcome, Conflict)
    assert world.puts == 0


def test_a_log_that_does_not_answer_in_line_is_an_error_and_nothing_is_put() -> None:
    world = World(blind=True)
    world.first_go = [lambda: None]
    with pytest.raises(StoreUnavailable):
        in_line(world, 1, Entry("a"), 100)
    assert world.puts == 0


def test_a_table_that_is_being_made_by_another_is_met_in_line() -> None:
    world = World()
    world.first_go = [lambda: world.land(1, Entry("other", frozenset({1})))]
    assert in_line(world, 0, Entry("a", frozenset({1}))) == Conflict(1, Conflicting("overlap", [1]))
