"""Two writers, two appends each: every order of their log calls, with every single fault, on the real commit conversation."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gapless.log.commit import commit
from gapless.log.effects import Conversation
from gapless.log.format import Compatible
from testing import small_model
from testing.small_model import Explorer, World, commits_of, writer
from testing.toy_log import FROM_ZERO, TOY, Entry, FromZero, Toy

DISJOINT = (
    (("a1", frozenset({1})), ("a2", frozenset({2}))),
    (("b1", frozenset({3})), ("b2", frozenset({4}))),
)
OVERLAPPING = (
    (("a1", frozenset({1})), ("a2", frozenset({2}))),
    (("b1", frozenset({2})), ("b2", frozenset({4}))),
)
TWINS = (DISJOINT[0], DISJOINT[0])
WORKS = {"disjoint": DISJOINT, "overlapping": OVERLAPPING, "twins": TWINS}
LONG_BUT_OVERLAPPING = ["overlapping", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("disjoint", "twins"))]
Work = tuple[tuple[tuple[str, frozenset[int]], ...], ...]


def check(world: World, dialect: Toy | FromZero = TOY) -> None:
    """What must be true in every state."""
    commits = commits_of(world)
    assert [version for _, version, _ in commits] == list(range(dialect.first, dialect.first + len(commits))), "a gap"
    times = [time_ns for _, _, time_ns in commits]
    assert times == sorted(set(times)), "a time that does not rise"
    hinted = {int(data) for path, data in world.objects if path == dialect.hint}
    assert all(hint <= len(commits) for hint in hinted), "a hint that leads"
    assert len(world.objects) == len(commits) + (dialect.hint is not None)
    operations = [entry.operation for entry, _, _ in commits]
    assert len(set(operations)) == len(operations), f"done twice: {operations}"
    covered = [bucket for entry, _, _ in commits for bucket in entry.covers]
    assert len(set(covered)) == len(covered), f"covered twice: {operations}"
    for standing in world.writers:
        check_results(standing.results, {entry.operation: version for entry, version, _ in commits}, commits)


def check_results(results: tuple[Any, ...], landed: dict[str, int], commits: list[tuple[Entry, int, int]]) -> None:
    """What a writer was told, against the log."""
    for name, what, version in results:
        if what in ("landed", "known"):
            assert landed.get(name) == version, f"{name} was told {version}"
        elif what == "refused":
            assert name not in landed, f"{name} was refused"
        else:
            assert name not in {entry.id for entry, _, _ in commits}, f"{name} found no space, and landed"


def explore(work: Work, faults: int, dialect: Toy | FromZero = TOY, *, in_turn: bool = False) -> Any:
    programs = tuple(
        partial(writer, name, appends, dialect=dialect, in_turn=in_turn) for name, appends in zip("AB", work, strict=True)
    )
    explorer = Explorer(programs, partial(check, dialect=dialect), faults, dialect)
    begun = time.process_time()
    census = explorer.explore()
    seconds = time.process_time() - begun
    told = len(census.outcomes)
    print(
        f"\n{census.states} states, {census.moves} moves, {census.ends} ends, {told} outcomes, {faults} fault(s), {seconds:.1f} s of CPU"
    )
    return census


@pytest.mark.parametrize("kind", LONG_BUT_OVERLAPPING)
@pytest.mark.parametrize(
    "dialect", [pytest.param(TOY, id="from 1", marks=pytest.mark.long), pytest.param(FROM_ZERO, id="from 0")]
)
def test_every_order_with_every_single_fault(kind: str, dialect: Toy | FromZero) -> None:
    census = explore(WORKS[kind], 1, dialect)
    assert census.states > 10_000
    told = {what for outcome in census.outcomes for what in outcome}
    assert (
        told
        == {
            "disjoint": {"landed", "known", "full"},
            "overlapping": {"landed", "known", "refused", "full"},
            "twins": {"landed", "known", "full"},
        }[kind]
    )


@pytest.mark.parametrize("kind", WORKS)
def test_every_order_of_writers_that_stand_in_line(kind: str) -> None:
    census = explore(WORKS[kind], 0, in_turn=True)
    assert census.states > 2_000
    told = {what for outcome in census.outcomes for what in outcome}
    assert told == {"disjoint": {"landed"}, "overlapping": {"landed", "refused"}, "twins": {"landed", "known"}}[kind]


@pytest.mark.soak
@pytest.mark.parametrize("kind", WORKS)
def test_every_order_with_every_single_fault_in_line(kind: str) -> None:
    explore(WORKS[kind], 1, in_turn=True)


@pytest.mark.soak
@pytest.mark.parametrize("kind", WORKS)
def test_every_order_with_every_two_faults(kind: str) -> None:
    explore(WORKS[kind], faults=2)


def blind(mine: Entry, _version: int, _theirs: Entry) -> Conversation[Compatible[Entry]]:
    yield from ()
    return Compatible(mine)


@pytest.mark.parametrize(
    ("work", "name", "broken"),
    [
        pytest.param(OVERLAPPING, "check_conflict", blind, id="a judge that looks at nothing"),
        pytest.param(DISJOINT, "commit", None, id="a put that takes refusal for success"),
    ],
)
def test_a_planted_bug_is_met(
    monkeypatch: pytest.MonkeyPatch, work: Work, name: str, broken: Callable[..., Any] | None
) -> None:
    from gapless.log.effects import Put
    from testing.broken_talk import twisted

    honest = commit

    def believing(*arguments: Any, **said: Any) -> Conversation[Any]:
        return twisted(honest(*arguments, **said), lambda _request, reply: Put.DONE if reply is Put.REFUSED else reply)

    monkeypatch.setattr(small_model, name, broken or believing)
    with pytest.raises(AssertionError):
        explore(work, faults=0)
