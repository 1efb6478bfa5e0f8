"""Every history of two writers on one log, with at most a given number of faults, on the real commit conversation.

A state is what is stored, what is still on the wire, and where each writer stands: its generator, made anew from the answers it
was given, which a fingerprint of its frames tells from others. Orders that lead to equal states are followed once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from gapless.errors import StorageFull, StoreError, StoreUnavailable
from gapless.log.commit import CommitOptions, Committed, Conflict, Unknown, commit
from gapless.log.effects import Concurrently, Conversation, Get, ListNames, Now, Put, PutHint, PutNew, Request, TakeTurn, Wait
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.log.snapshot import advance, load, refresh
from testing.toy_log import FROM_ZERO, TOY, Entry, FromZero, State, Toy, decode

NOW_NS = 5_000_000
PATIENCE = 6
"""Backoffs before the deadline."""
MAX_LIVES = 4
OTHERS_GO = "others go first"
"""What one is told that stands in line: it is true, as `True` is, and told from other answers."""
MOST_LOOKS = 2
"""How often one stands in line in vain, in one life."""


CREATED = {
    TOY: {"log/1": TOY.encode(Entry("create"), 1, 1_000), TOY.hint: b"1\n"},
    FROM_ZERO: {"log/0": FROM_ZERO.encode(Entry("create"), 0, 1_000)},
}
"""What is stored before the first move, by dialect."""
Result = tuple[str, str, int]
"""(operation, "landed" | "known" | "refused" | "full", version)."""


def check_conflict(mine: Entry, _version: int, theirs: Entry) -> Conversation[Compatible[Entry] | Conflicting]:
    yield from ()
    if theirs.operation == mine.operation:
        return Conflicting("operation")
    return Conflicting("overlap") if theirs.covers & mine.covers else Compatible(mine)


def writer(
    name: str,
    appends: tuple[tuple[str, frozenset[int]], ...],
    life: int,
    dialect: Toy | FromZero = TOY,
    *,
    in_turn: bool = False,
) -> Conversation[tuple[Result, ...]]:
    """Open the table and make each append once, sending it again until the answer is clear; with `in_turn` as on a local disk."""
    opened = yield from load(dialect)
    assert opened is not None
    snapshot: Snapshot[State] = opened
    results: tuple[Result, ...] = ()
    for operation, covers in appends:
        send = 0
        while True:
            snapshot = yield from refresh(dialect, snapshot)
            known = [version for version, entry in snapshot.state if entry.operation == operation]
            if known:
                results = (*results, (operation, "known", known[0]))
                break
            clashing = [version for version, entry in snapshot.state if entry.covers & covers]
            if clashing:
                results = (*results, (operation, "refused", clashing[0]))
                break
            send += 1
            entry = Entry(f"{name}/{operation}/{life}/{send}", operation, covers)
            try:
                base = snapshot.version, snapshot.time_ns
                outcome = yield from commit(
                    dialect, *base, entry, check_conflict, options=CommitOptions(verify_base=in_turn, in_turn=in_turn)
                )
            except StorageFull:
                results = (*results, (entry.id, "full", 0))
                continue
            if isinstance(outcome, Committed):
                snapshot = advance(dialect, snapshot, outcome.entries)
                results = (*results, (operation, "landed", outcome.version))
                break
            assert isinstance(outcome, Conflict | Unknown)
    return results


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a writer stands: which life, the answers of this life, and what they make of its generator."""

    life: int
    answers: tuple[Any, ...]
    mark: Any
    request: Request[Any] | None
    """What it asks now; None once it is done."""
    results: tuple[Result, ...] = ()
    """What it was told in this life."""


@dataclass(frozen=True, slots=True)
class World:
    """One state."""

    objects: tuple[tuple[str, bytes], ...]
    flying: tuple[tuple[str, bytes, bool], ...]
    """Puts on the wire: path, bytes, whether only if absent."""
    writers: tuple[Standing, ...]
    faults_left: int

    @property
    def key(self) -> bytes:
        """Equal for states with equal futures: a digest, since millions of them are kept."""
        writers = [(w.life, w.mark, w.results) for w in self.writers]
        return blake2b(repr((self.objects, self.flying, self.faults_left, writers)).encode(), digest_size=16).digest()


@dataclass(slots=True)
class Census:
    """What an exploration met."""

    states: int = 0
    moves: int = 0
    ends: int = 0
    outcomes: dict[tuple[str, ...], int] = field(default_factory=dict)


Program = Callable[[int], Conversation[tuple[Result, ...]]]


def _mark(conversation: Generator[Any, Any, Any]) -> Any:
    """A fingerprint of where a conversation stands: code positions and local values, down the chain of `yield from`."""
    found = []
    inner: Any = conversation
    while inner is not None and getattr(inner, "gi_frame", None) is not None:
        frame = inner.gi_frame
        found.append((frame.f_code.co_name, frame.f_lasti, repr(sorted(frame.f_locals.items(), key=lambda item: item[0]))))
        inner = inner.gi_yieldfrom
    return tuple(found)


def _stand(program: Program, life: int, answers: tuple[Any, ...]) -> Standing:
    """Requests that are made together are answered one after the other: in their order, or the other way round in every second life."""
    conversation = program(life)
    waiting: tuple[Any, ...] = ()
    try:
        request = next(conversation)
        for given in answers:
            answer, waiting = given, (*waiting, given)
            if isinstance(request, Concurrently) and not isinstance(given, StoreError):
                if len(waiting) < len(request.requests):
                    continue
                answer = waiting[::-1] if life % 2 else waiting
            waiting = ()
            request = _answered(conversation, answer)
    except StopIteration as end:
        return Standing(life, answers, ("done",), None, end.value)
    if isinstance(request, Concurrently):
        request = request.requests[:: -1 if life % 2 else 1][len(waiting)]
    return Standing(life, answers, (_mark(conversation), waiting), request)


def _answered(conversation: Generator[Any, Any, Any], answer: Any) -> Request[Any]:
    """What a conversation asks next; a set of no requests is answered at once."""
    request: Request[Any] = conversation.throw(answer) if isinstance(answer, StoreError) else conversation.send(answer)
    while request == Concurrently(()):
        request = conversation.send(())
    return request


class Explorer:
    """Walks through all states that writers can bring about."""

    def __init__(
        self, programs: tuple[Program, ...], check: Callable[[World], None], faults: int, dialect: Toy | FromZero = TOY
    ) -> None:
        self.programs, self.check = programs, check
        self.start = World(tuple(sorted(CREATED[dialect].items())), (), tuple(_stand(p, 0, ()) for p in programs), faults)
        self.census = Census()

    def explore(self) -> Census:
        """Visit every state once; raises AssertionError from the check of one that must not be."""
        seen = {self.start.key}
        left = [self.start]
        while left:
            world = left.pop()
            self.census.states += 1
            self.check(world)
            moves = 0
            for following in self._moves(world):
                moves += 1
                if (key := following.key) not in seen:
                    seen.add(key)
                    left.append(following)
            self.census.moves += moves
            if not moves:
                self.census.ends += 1
                summary = tuple(what for w in world.writers for _, what, _ in w.results)
                self.census.outcomes[summary] = self.census.outcomes.get(summary, 0) + 1
        return self.census

    def _moves(self, world: World) -> Iterator[World]:
        for place, (path, data, if_absent) in enumerate(world.flying):
            flying = world.flying[:place] + world.flying[place + 1 :]
            yield replace(world, objects=_stored(world.objects, path, data, if_absent=if_absent), flying=flying)
        for place, standing in enumerate(world.writers):
            if standing.request is not None:
                yield from self._steps(world, place, standing.request)

    def _steps(self, world: World, place: int, request: Request[Any]) -> Iterator[World]:
        """What may come of one request: its honest answer, and each fault where one is left."""
        worse = replace(world, faults_left=world.faults_left - 1)
        faulty = world.faults_left > 0
        match request:
            case Now() | Wait() | TakeTurn():
                yield from self._own_steps(world, place, request)
                return
            case Get(path):
                yield self._told(world, place, dict(world.objects).get(path))
                if faulty:
                    yield self._told(worse, place, StoreUnavailable("silence", path=path))
            case ListNames(_, after):
                yield self._told(world, place, tuple(path for path, _ in world.objects if path > after))
            case PutHint(path, data):
                yield self._told(_put(world, path, data, if_absent=False), place, None)
                if faulty:
                    yield self._told(worse, place, None)
                    yield self._told(_launch(worse, path, data, if_absent=False), place, None)
                    yield self._killed(_put(worse, path, data, if_absent=False), place)
            case PutNew(path, data):
                absent = path not in dict(world.objects)
                stored = _put(world, path, data, if_absent=True)
                yield self._told(stored, place, Put.DONE if absent else Put.REFUSED)
                if faulty:
                    yield from self._bad_puts(worse, place, path, data)
            case _:
                raise AssertionError(request)
        if faulty:
            yield self._killed(worse, place)

    def _own_steps(self, world: World, place: int, request: Request[Any]) -> Iterator[World]:
        """What may come of a request by which nothing goes to the store."""
        match request:
            case Now():
                yield self._told(world, place, NOW_NS)
            case Wait(attempt):
                yield self._told(world, place, attempt < PATIENCE)
                if world.faults_left > 0:
                    yield self._told(replace(world, faults_left=world.faults_left - 1), place, False)
            case TakeTurn():
                # A turn is a courtesy: it may come at any time, and to several at once.
                yield self._told(world, place, False)
                if world.writers[place].answers.count(OTHERS_GO) < MOST_LOOKS:
                    yield self._told(world, place, OTHERS_GO)

    def _bad_puts(self, worse: World, place: int, path: str, data: bytes) -> Iterator[World]:
        stored = _put(worse, path, data, if_absent=True)
        flying = _launch(worse, path, data, if_absent=True)
        yield self._told(worse, place, Put.NO_ANSWER)
        yield self._told(stored, place, Put.NO_ANSWER)
        yield self._told(flying, place, Put.NO_ANSWER)
        yield self._told(worse, place, Put.REFUSED)
        yield self._told(stored, place, Put.REFUSED)
        yield self._told(worse, place, StorageFull("full", path=path))
        yield self._killed(stored, place)
        yield self._killed(flying, place)

    def _told(self, world: World, place: int, answer: Any) -> World:
        standing = world.writers[place]
        try:
            following = _stand(self.programs[place], standing.life, (*standing.answers, answer))
        except StoreUnavailable:
            return self._killed(world, place)  # it gave up with a typed error, and someone starts it again
        return _with_writer(world, place, following)

    def _killed(self, world: World, place: int) -> World:
        life = world.writers[place].life + 1
        assert life < MAX_LIVES
        return _with_writer(world, place, _stand(self.programs[place], life, ()))


def _with_writer(world: World, place: int, standing: Standing) -> World:
    return replace(world, writers=(*world.writers[:place], standing, *world.writers[place + 1 :]))


def _stored(
    objects: tuple[tuple[str, bytes], ...], path: str, data: bytes, *, if_absent: bool
) -> tuple[tuple[str, bytes], ...]:
    held = dict(objects)
    if not (if_absent and path in held):
        held[path] = data
    return tuple(sorted(held.items()))


def _put(world: World, path: str, data: bytes, *, if_absent: bool) -> World:
    return replace(world, objects=_stored(world.objects, path, data, if_absent=if_absent))


def _launch(world: World, path: str, data: bytes, *, if_absent: bool) -> World:
    return replace(world, flying=tuple(sorted((*world.flying, (path, data, if_absent)))))


def commits_of(world: World) -> list[tuple[Entry, int, int]]:
    """(entry, version, commit time), in order."""
    return sorted(
        (decode(data) for path, data in world.objects if TOY.version_of(path) is not None), key=lambda commit: commit[1]
    )
