"""Acts that append: a shape at once or in parts, many small appends, one of several writers."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from contest.act import Act
from contest.workload import small

_WARM = 0.1
"""How much of a stream of appends warms up."""


class Append(Act):
    """The whole shape in `appends` parts into a new table, which stays for the questions."""

    def prepare(self) -> None:
        parts = self.shape.parts(self.task.appends)
        self.parts = [self.contender.stage(part) for part in parts]

    def before(self) -> None:
        place = self.task.place(self.task.case)
        self.contender.close()
        self.contender.remove(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        self.contender.create(place)
        os.sync()

    def act(self) -> None:
        for part in self.parts:
            self.contender.append(part)

    def after(self) -> dict[str, Any]:
        self.contender.open(self.task.place(self.task.case))
        return {"answer": list(self.contender.totals()), "bytes": self.contender.size()}


@dataclass
class Stream(Act):
    """Many small appends one by one, as many as fit into the time."""

    took: list[float] = field(default_factory=list)

    def prepare(self) -> None:
        rows = self.shape.rows
        size = self.task.rows
        self.parts = [self.contender.stage(rows.slice(at * size, size)) for at in range(self.task.appends)]

    before = Append.before

    def act(self) -> None:
        self.took.clear()
        share = 1 if self.number else _WARM
        began = time.perf_counter()
        for part in self.parts[: round(len(self.parts) * share)]:
            start = time.perf_counter()
            if start - began > self.task.seconds * share:
                break
            self.contender.append(part)
            self.took.append(time.perf_counter() - start)

    def after(self) -> dict[str, Any]:
        self.contender.open(self.task.place(self.task.case))
        rows = self.contender.totals()[0]
        tenth = max(1, len(self.took) // 10)
        return {
            "answer": rows == len(self.took) * self.task.rows,
            "appends": len(self.took),
            "bytes": self.contender.size(),
            "seconds": sum(self.took) / len(self.took),
            "p50": statistics.median(self.took),
            "first": statistics.median(self.took[:tenth]),
            "last": statistics.median(self.took[-tenth:]),
        }


class Write(Act):
    """One of several processes that append to one table, without a retry of its own; after an error it opens the table again."""

    def prepare(self) -> None:
        self.parts = [
            self.contender.stage(small(self.task.writer, number, self.task.rows)) for number in range(self.task.appends)
        ]

    def before(self) -> None:
        # An engine that one process at a time may have does not open; its appends then fail, and are counted.
        with suppress(Exception):
            self.contender.open(self.task.place("writers"))

    def act(self) -> dict[str, Any]:
        done: list[int] = []
        errors: Counter[str] = Counter()
        end = time.monotonic() + self.task.seconds
        for at, part in enumerate(self.parts):
            if time.monotonic() > end:
                break
            try:
                self.contender.append(part)
            except Exception as error:
                errors[f"{type(error).__name__}: {str(error).strip()[:100]}"] += 1
                self.before()
            else:
                done.append(at)
        volume = sum(sum(range(at * self.task.rows, (at + 1) * self.task.rows)) for at in done)
        return {"done": len(done), "volume": volume, "errors": dict(errors.most_common(3)), "failed": errors.total()}

    def after(self) -> dict[str, Any]:
        self.contender.close()
        return dict(self.found)


class Audit(Act):
    """Makes a new table of the writers in an even round; says what is in it in the odd one that follows."""

    def act(self) -> None:
        place = self.task.place("writers")
        if self.number % 2 == 0:
            self.contender.close()
            self.contender.remove(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            self.contender.create(place)
            self.contender.append(self.contender.stage(small("first", 0, 1)))
        else:
            self.contender.open(place)

    def after(self) -> dict[str, Any]:
        totals = self.contender.totals()
        self.contender.close()
        return {"answer": list(totals)}
