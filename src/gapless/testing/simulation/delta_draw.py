"""Scenarios of Delta tables drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from gapless.testing.simulation.draw import DAY_S, HOUR_S, Author, Scenario, Script, draw_scenario
from gapless.testing.simulation.tasks import (
    BUCKET_WIDTH,
    Appending,
    Care,
    Deleting,
    Intent,
    Maintain,
    Merging,
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
    Updating,
)

RETENTION_S, LOG_RETENTION_S = 24 * HOUR_S, 72 * HOUR_S
"""Of removed files and of log entries."""
_BACK = (1, 2, 3, 5, 7)
"""How many versions: a vacuum makes two by itself."""


@dataclass(frozen=True, slots=True)
class DeltaAuthor(Author):
    """Draws the tasks of one actor on a Delta table."""

    def append(self, operation: OperationName) -> Task:
        """An append, which goes alone."""
        return Submit(self.appending(operation))

    def appending(self, operation: OperationName, *, replaces: bool = False) -> Appending:  # noqa: ARG002  # its like's
        """An append of up to three rows, whatever is there; of more in one file where vectors are to delete some of them."""
        rows = self.rows(*self._many() if self.theme == "vectors" else (self.random.choice((1, 1, 2, 3)),))
        return Appending(rows=rows, on_overlap="allow", operation_id=operation)

    def _many(self) -> tuple[int, int, str]:
        """How many, in which bucket, and of which entity."""
        return self.random.choice((4, 6, 8)), self.random.randrange(2) * BUCKET_WIDTH, self.random.choice("xy")

    def event(self, operation: OperationName) -> Task:
        """What happens to rows after they were appended."""
        kind = self.random.choices(*zip(*_THEMES[self.theme].items(), strict=True))[0]
        match kind:
            case "merge" | "update" | "delete" | "overwrite":
                return Submit(self.correction(kind, operation))
            case "restore":
                return RestoreEarlier(self.random.choice(_BACK))
            case "old":
                return ReadOld(self.random.choice(_BACK), self.random.choice((0.0, 0.1)))
        return Maintain(kind, self.random.choice(_AMOUNTS[kind]))

    def correction(self, kind: str, operation: OperationName) -> Intent:
        """A change of rows that are there, most of it where all actors write."""
        random = self.random
        start = (random.randrange(4) if random.random() < 0.6 else self.bucket()) * BUCKET_WIDTH
        end = start + random.choice((1, BUCKET_WIDTH, BUCKET_WIDTH, 3 * BUCKET_WIDTH))
        if self.theme == "vectors":  # where its rows lie, and seldom all of a file
            start = random.randrange(2) * BUCKET_WIDTH + random.randrange(2)
            end = start + random.choice((1, 1, 2))
        entity = random.choice((None, None, "x", "y"))
        match kind:
            case "merge":
                rows = self.rows(random.choice((1, 1, 2))) + self.rows(random.choice((0, 1, 2)), start)
                return Merging(rows=_one_a_key(rows), operation_id=operation)
            case "update":
                return Updating(start=start, end=end, mark=next(self.numbers), entity=entity, operation_id=operation)
            case "overwrite":
                rows = self.rows(random.choice((0, 1, 2)), start, entity) if end > start + 1 else ()
                return Replacing(start=start, end=end, rows=rows, entity=entity, operation_id=operation)
        below = random.choice((None, None, random.randrange(1, 30)))
        return Deleting(start=start, end=end, entity=entity, below=below, operation_id=operation)


def _one_a_key(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    return tuple({row[:2]: row for row in rows}.values())


_CORRECTIONS = {
    "merge": 6,
    "delete": 4,
    "update": 3,
    "overwrite": 3,
    "restore": 1,
    "old": 1,
    "compact": 3,
    "zorder": 1,
    "checkpoint": 1,
}
_RETENTION = {
    "vacuum": 6,
    "clean_log": 3,
    "checkpoint": 2,
    "restore": 3,
    "old": 3,
    "merge": 3,
    "delete": 2,
    "compact": 2,
    "zorder": 1,
}
_VECTORS = {"delete": 4, "update": 3, "merge": 3, "vacuum": 2, "restore": 1, "old": 1, "checkpoint": 1}
"""Nothing that writes files anew by itself: vectors live on, and grow."""
_THEMES: dict[str, dict[Any, int]] = {
    "corrections": _CORRECTIONS,
    "retention": _RETENTION,
    "vectors": _VECTORS,
    "all": _CORRECTIONS | _RETENTION,
}
_AMOUNTS: dict[Care, tuple[int, ...]] = {
    "compact": (0,),
    "zorder": (0,),
    "checkpoint": (0,),
    "clean_log": (0,),
    "vacuum": (RETENTION_S, RETENTION_S, 3 * RETENTION_S),
}


def _close(random: Random, authors: list[Any], actors: dict[str, list[Task]], night: PauseUntil) -> None:
    """Give everyone something to do in the last morning, when all handles lag behind."""
    first, second, *others = random.sample(authors, len(authors))
    if first.theme == "retention":
        actors[first.name] += [night, Maintain("compact", 0), Maintain("clean_log", 0), Maintain("vacuum", RETENTION_S)]
        actors[second.name] += [night, Maintain("vacuum", RETENTION_S), Maintain("clean_log", 0)]
        for author in others:
            late = [
                Pause(2 * random.random()),
                Refresh(),
                RestoreEarlier(random.choice(_BACK)),
                ReadOld(random.choice(_BACK), 0.0),
            ]
            early = [author.append(None), author.append(None)]
            actors[author.name] += [night, *random.choice((late, early))]
    elif first.theme == "corrections":
        actors[first.name] += [night, Submit(Deleting(start=0, end=random.choice((1, 2)) * BUCKET_WIDTH))]
        for author in (second, *others):
            work = author.correction(random.choice(("merge", "delete", "overwrite")), None)
            actors[author.name] += [night, Pause(random.random() / 2), Submit(work)]
    elif first.theme == "vectors":
        # Vectors of the first day are live when one vacuums, before or while others make more of them.
        for author in (first, second):
            actors[author.name][:0] = [author.append(None), *(Submit(author.correction("delete", None)) for _ in range(2))]
        actors[first.name] += [night, Maintain("vacuum", RETENTION_S), Maintain("vacuum", RETENTION_S)]
        for author in (second, *others):
            work = author.correction(random.choice(("delete", "delete", "update", "merge")), None)
            actors[author.name] += [night, Pause(random.random() / 2), Submit(work), Read(0.0)]


def _properties(random: Random) -> dict[str, Any]:
    v2 = random.random() < 0.3
    return {
        "delta.checkpointInterval": random.choice((2, 3, 5, 100)),
        "delta.checkpointPolicy": "v2" if v2 else "classic",
        "delta.enableDeletionVectors": random.random() < 0.6,
        "delta.enableChangeDataFeed": random.random() < 0.3,
        "delta.enableInCommitTimestamps": random.random() < 0.3,
        "delta.isolationLevel": random.choice(("WriteSerializable", "WriteSerializable", "Serializable")),
        "delta.deletedFileRetentionDuration": f"interval {RETENTION_S // HOUR_S} hours",
        "delta.logRetentionDuration": f"interval {LOG_RETENTION_S // HOUR_S} hours",
    }


_SCRIPT = Script(
    author=DeltaAuthor,
    themes=_THEMES,
    close=_close,
    properties=_properties,
    eventful=0.6,
    stalls_s=(0.5, 6.0 * HOUR_S, 2.0 * DAY_S, 9.0 * DAY_S),
)


def draw(random: Random, _seed: int) -> Scenario:
    """A small table, three or four actors with a few tasks each, and the faults of the store. `typed`: whether the table has partitions."""
    return draw_scenario(random, _SCRIPT)
