"""Scenarios drawn from a seed: the actors of a simulated history, their tasks, and the faults of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from gapless.model.properties import OVERLAP_POLICIES
from gapless.testing.simulation.tasks import (
    BUCKET_WIDTH,
    Appending,
    AppendTogether,
    Care,
    Deleting,
    Intent,
    Maintain,
    Open,
    OperationName,
    Pause,
    PauseUntil,
    Read,
    ReadOld,
    Refresh,
    Replacing,
    RestoreEarlier,
    Row,
    Submit,
    Task,
    Upserting,
    is_change,
    may_be_resent,
)
from gapless.testing.store.stores import Faults

TOGETHER_CHANCE = 0.15
"""Of how many appends come with others, for a group commit."""
HOUR_S = 3_600
DAY_S = 24 * HOUR_S
_SPOTS = 3
"""Of how many index values in a bucket rows lie, so that keys meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a seed decides beforehand."""

    actors: dict[str, list[Task]]
    faults: Faults
    outage_s: tuple[float, float] | None
    """When the network is down, in simulated seconds from the start; None for never."""
    deadline_s: float
    kill_chance: float
    """How likely it is that one life of an actor ends early."""
    stall_chance: float
    """How likely it is that an actor hangs for a while or for days in one life, somewhere in the middle of what it does."""
    stalls_s: tuple[float, ...]
    """For how long it may hang."""
    typed: bool
    """Whether the table is made with its schema, or adopts it from the first append."""
    properties: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Author:
    """Draws the tasks of one actor."""

    random: Random
    name: str
    lane: int
    """Its own buckets are those from ten times the next number."""
    numbers: Iterator[int]
    """Of rows: none is given twice."""
    theme: str = ""
    """What the run is about; nothing for appends and reads alone."""

    def tasks(self) -> list[Task]:
        """Mostly appends for a writer, mostly reads for a reader; in an eventful run half of it is something else."""
        eventful = bool(self.theme)
        appends = self.random.choice((0.2, 0.7, 0.9))
        naming = self.random.choice(("stream", "job", "none"))
        tasks: list[Task] = []
        for turn in range(self.random.choice((2, 3, 4)) + eventful):
            operation = {"stream": (f"app-{self.name}", turn), "job": f"job-{self.name}-{turn}", "none": None}[naming]
            if eventful and self.random.random() < 0.5:
                tasks.append(self.event(operation))
            elif self.random.random() < appends:
                tasks.append(self.append(operation))
            else:
                tasks.append(self.look())
        return tasks if self.random.random() < 0.5 else [*tasks, Read(self.random.choice((0.0, 0.05)))]

    def look(self) -> Task:
        """Something that changes nothing."""
        random = self.random
        return random.choice((Open(), Refresh(), Read(0.0), Read(random.random() / 5), Pause(random.random() / 5)))

    def append(self, operation: OperationName) -> Task:
        """An append, in some cases with others at the same moment."""
        together = self.random.random() < TOGETHER_CHANCE
        intent = self.appending(operation, replaces=bool(self.theme) and not together)
        if not together:
            return Submit(intent)
        app = operation[0] if isinstance(operation, tuple) else operation
        names: list[OperationName] = [
            None if app is None else (f"{app}-{extra}", operation[1]) if isinstance(operation, tuple) else f"{app}-{extra}"
            for extra in (1, 2)
        ]
        others = (self.appending(name) for name in names[: self.random.choice((1, 2))])
        return AppendTogether((intent, *others))

    def appending(self, operation: OperationName, *, replaces: bool = False) -> Appending:
        """An append of up to three rows; one that replaces others goes alone."""
        policies = OVERLAP_POLICIES if replaces else [policy for policy in OVERLAP_POLICIES if policy != "replace"]
        rows = self.rows(self.random.choice((0, 1, 1, 2, 2, 3)) if operation else self.random.choice((1, 1, 2, 3)))
        return Appending(rows=rows, on_overlap=self.random.choice(policies), operation_id=operation)

    def rows(self, count: int, start: int | None = None, entity: str | None = None) -> tuple[Row, ...]:
        """New rows, in buckets of the actor's own or in some that all share; or in the bucket from `start`, of one entity."""
        rows = []
        for _ in range(count):
            begin = self.bucket() * BUCKET_WIDTH if start is None else start
            rows.append((begin + self.random.randrange(_SPOTS), entity or self.random.choice("xy"), next(self.numbers)))
        return tuple(rows)

    def bucket(self) -> int:
        """One of the actor's own buckets, or one that all share."""
        chance, shared = (0.8, 2) if self.theme == "corrections" else (0.35, 4)
        return (
            self.random.randrange(shared) if self.random.random() < chance else 10 * (self.lane + 1) + self.random.randrange(8)
        )

    def event(self, operation: OperationName) -> Task:
        """What happens to rows after they were appended."""
        kind = self.random.choices(*zip(*_THEMES[self.theme].items(), strict=True))[0]
        match kind:
            case "upsert" | "delete" | "replace" | "drop":
                return Submit(self.correction(kind, operation))
            case "restore":
                return RestoreEarlier(self.random.choice((1, 1, 2, 3)))
            case "old":
                return ReadOld(self.random.choice((1, 2, 3)), self.random.choice((0.0, 0.1)))
            case "add_column":
                return Maintain(kind, next(self.numbers))
        return Maintain(kind, self.random.choice(_AMOUNTS[kind]))

    def correction(self, kind: str, operation: OperationName) -> Intent:
        """A change of rows that are there, most of it where all actors write."""
        random = self.random
        start = (random.randrange(4) if random.random() < 0.6 else self.bucket()) * BUCKET_WIDTH
        entity = random.choice((None, None, "x", "y"))
        if kind == "upsert":
            rows = self.rows(random.choice((1, 1, 2))) + self.rows(random.choice((0, 1, 2)), start)
            return Upserting(rows=rows, operation_id=operation)
        end = start + random.choice((1, BUCKET_WIDTH, BUCKET_WIDTH, 3 * BUCKET_WIDTH))
        if kind == "replace":
            rows = self.rows(random.choice((0, 1, 2)), start, entity) if end > start + 1 else ()
            return Replacing(start=start, end=end, rows=rows, entity=entity, operation_id=operation)
        if kind == "drop":
            return Deleting(start=-(10**9), end=random.choice((1, 10, 15, 20)), by_age=True)
        below = random.choice((None, None, random.randrange(1, 30)))
        return Deleting(start=start, end=end, entity=entity, below=below, operation_id=operation)


_CORRECTIONS = {"upsert": 6, "delete": 4, "replace": 3, "drop": 1, "restore": 1, "old": 1, "compact": 3, "add_column": 1}
_RETENTION = {"vacuum": 6, "expire": 3, "tag": 5, "untag": 1, "restore": 3, "old": 3, "upsert": 3, "delete": 2, "compact": 2}
_THEMES: dict[str, dict[Any, int]] = {"corrections": _CORRECTIONS, "retention": _RETENTION, "all": _CORRECTIONS | _RETENTION}
"""What an eventful run is about, and how often each event comes in it."""
_AMOUNTS: dict[Care, tuple[int, ...]] = {
    "compact": (0,),
    "vacuum": (0, 0, 0, HOUR_S, 7 * DAY_S),
    "expire": (1, 1, 2, 3, -1, -2),
    "tag": (0, 1, 2, 3),
    "untag": (0, 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the histories of one kind of table are about."""

    author: type[Author]
    themes: Mapping[str, Mapping[Any, int]]
    """What an eventful run is about, and how often each event comes in it."""
    close: Callable[[Random, list[Any], dict[str, list[Task]], PauseUntil], None]
    """Gives everyone something to do in the last morning, when all handles lag behind."""
    properties: Callable[[Random], dict[str, Any]]
    """Of the table."""
    eventful: float
    """How likely it is that more than appends and reads are in a run."""
    stalls_s: tuple[float, ...]


def draw_scenario(random: Random, script: Script | None = None) -> Scenario:
    """A small table, three or four actors with a few tasks each, and the faults of the store; by the script of time-series tables without one."""
    script = script or _SCRIPT
    names = ["ann", "bob", "cy", "dee"][: random.choice((3, 3, 4))]
    numbers = iter(range(1, 1_000_000))
    theme = random.choice(tuple(script.themes)) if random.random() < script.eventful else ""
    authors = [script.author(random, name, lane, numbers, theme) for lane, name in enumerate(names)]
    actors = {author.name: author.tasks() for author in authors}
    if random.random() < 0.3:  # twins do the same work, as an orchestrator that starts a job a second time
        actors[names[-1]] = [task for task in actors[names[0]] if not is_change(task) or may_be_resent(task)]
    if theme:
        actors = _with_nights(random, script, authors, actors)
    chance = random.choice((0.0, 0.01, 0.04, 0.1))
    faults = Faults.even(chance)
    down_s = random.random() * 0.3
    return Scenario(
        actors=actors,
        faults=replace(faults, late_s=random.choice((0.05, 0.3, 3.0)), denied=chance / 2 if theme else faults.denied),
        outage_s=(down_s, down_s + random.random() * 2) if random.random() < 0.2 else None,
        deadline_s=random.choice((0.2, 2.0, 60.0)),
        kill_chance=random.choice((0.0, 0.3, 0.7)),
        stall_chance=random.choice((0.0, 0.5, 0.5)) if theme else 0.0,
        stalls_s=script.stalls_s,
        typed=random.random() < 0.7,
        properties=script.properties(random),
    )


def _with_nights(random: Random, script: Script, authors: list[Author], actors: dict[str, list[Task]]) -> dict[str, list[Task]]:
    """The same work over one to three days or weeks, so that files grow old enough to be vacuumed."""
    days = random.choice((2, 9))
    nights = [days * DAY_S * night for night in range(1, random.choice((1, 2, 2, 3)))]
    spread: dict[str, list[Task]] = {}
    for name, tasks in actors.items():
        cuts = sorted(random.randrange(len(tasks) + 1) for _ in nights)
        parts = [tasks[start:end] for start, end in zip((0, *cuts), (*cuts, None), strict=True)]
        spread[name] = [
            *parts[0],
            *(task for night, part in zip(nights, parts[1:], strict=True) for task in (PauseUntil(night), *part)),
        ]
    script.close(random, authors, spread, PauseUntil(days * DAY_S * (len(nights) + 1)))
    return spread


def _close(random: Random, authors: list[Any], actors: dict[str, list[Task]], night: PauseUntil) -> None:
    """Give everyone something to do in the last morning, when all handles lag behind."""
    first, second, *others = random.sample(authors, len(authors))
    if first.theme == "retention":
        # One frees all it can, and one vacuums while the others write.
        actors[first.name] += [
            night,
            Maintain("compact", 0),
            Maintain("expire", random.choice((1, -1, 2))),
            Maintain("vacuum", 0),
        ]
        actors[second.name] += [night, Maintain("vacuum", 0), Maintain("vacuum", 0)]
        for author in others:
            actors[author.name] += [night, author.append(None), author.append(None)]
    elif first.theme == "corrections":
        # One deletes what the others have seen and send again.
        actors[first.name] += [night, Submit(Deleting(start=0, end=random.choice((1, 2)) * BUCKET_WIDTH))]
        for author in (second, *others):
            rows = author.rows(1, 0) + author.rows(1)
            intent = Appending(rows=rows, on_overlap=random.choice(("skip", "skip", "reject", "replace")))
            actors[author.name] += [night, Pause(random.random() / 2), Submit(intent)]


_SCRIPT = Script(
    author=Author,
    themes=_THEMES,
    close=_close,
    properties=lambda random: {"codec": "none", "checkpoint_interval": random.choice((0, 2, 3, 5))},
    eventful=0.3,
    stalls_s=(0.5, 2 * DAY_S, 9 * DAY_S),
)
