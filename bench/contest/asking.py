"""Acts that ask what an append left, change a row of it, or open a table of many segments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from contest.act import Act
from contest.answers import digest
from contest.workload import DAY_US, START_US


class Question(Act):
    """A question to a table that an append left, with a handle opened anew each time."""

    case = "bulk"

    @property
    def place(self) -> Path:
        return self.task.place(self.case)

    def before(self) -> None:
        self.contender.close()
        self.contender.open(self.place)

    def after(self) -> dict[str, Any]:
        return {"answer": digest(self.contender.as_arrow(self.found))}


class Day(Question):
    def prepare(self) -> None:
        self.days = [self.shape.day(number) for number in range(64)]

    def act(self) -> Any:
        return self.contender.day(*self.days[self.number])


class DayOfMany(Day):
    case = "forty"


class ByHour(Question):
    def act(self) -> Any:
        return self.contender.by_hour()


class Gaps(Question):
    def act(self) -> Any:
        return self.contender.gaps()


class Update(Question):
    """One row of the table of many appends takes another value."""

    case = "forty"

    def prepare(self) -> None:
        self.rows = [self.shape.one(number) for number in range(64)]

    def before(self) -> None:
        super().before()
        os.sync()

    def act(self) -> None:
        self.contender.update(self.rows[self.number])

    def after(self) -> dict[str, Any]:
        row = self.rows[self.number].to_pylist()[0]
        start = self.rows[self.number]["ts"][0].value // DAY_US * DAY_US
        self.contender.open(self.place)
        return {"answer": digest(self.contender.as_arrow(self.contender.day(row["symbol"], start, start + DAY_US)))}


class Segments(Act):
    """Of a table of so many segments, of which only the metadata are there."""

    @property
    def place(self) -> Path:
        return self.task.place(f"segments{self.task.appends}")


class Synthesize(Segments):
    """Make the metadata."""

    def act(self) -> None:
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self.contender.synthesize(self.place, self.task.appends)

    def after(self) -> dict[str, Any]:
        return {"answer": None}


class Open(Segments):
    """Open the table, and ask which of its segments may hold a symbol's day."""

    def act(self) -> list[str]:
        self.contender.open(self.place)
        start = START_US + 40 * DAY_US
        return self.contender.prune("host7", start, start + DAY_US)

    def after(self) -> dict[str, Any]:
        return {"answer": sorted(path.rpartition("/")[2] for path in self.found)}
