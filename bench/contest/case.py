"""The cases of a run: what is done, over which rows, how often, and what it is held against."""

from __future__ import annotations

from dataclasses import dataclass, replace

from contest.registry import FLOOR, SYNCED
from contest.workload import SHAPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One block of the report."""

    act: str
    title: str
    shape: str = "metrics"
    floor: str = FLOOR
    """The contender that ratios are to, in the same round."""
    rate: bool = False
    """Whether the ratio is of rates (more is better) and not of times (less is better)."""
    needs: str = ""
    """The case that leaves the table that is asked."""
    repeats: int = 5
    appends: int = 1
    rows: int = 0
    seconds: float = 0
    """After which a stream of appends ends."""
    cap: float = 25
    """Seconds after which a contender sits further rounds out."""
    patience: float = 300
    """Seconds that a turn may take."""

    @property
    def name(self) -> str:
        """What the case is called in JSON and by `--only`."""
        if self.act == "open":
            return f"open_{self.appends}"
        return self.act if self.shape in ("", "metrics") else f"{self.act}_{self.shape}"


def cases(rows: int, *, quick: bool) -> list[Case]:
    """All cases, in the order in which they are run: those that leave tables first."""
    found = [*_writes(rows), *_reads(), *_others()]
    return [_quicker(case) for case in found] if quick else found


def _writes(rows: int) -> list[Case]:
    bulk = [
        Case(
            act="bulk",
            shape=shape,
            rate=True,
            title=f"bulk append of {rows:,} rows, {shape}",
            repeats=5 if shape == "metrics" else 2,
        )
        for shape in SHAPES
    ]
    forty = Case(act="forty", rate=True, appends=40, title=f"40 appends of {rows // 40:,} rows", repeats=3)
    tiny = Case(
        act="tiny",
        rate=True,
        floor=SYNCED,
        appends=2_000,
        rows=100,
        seconds=8,
        repeats=2,
        title="appends of 100 rows one by one, by mean append",
    )
    return [*bulk, forty, tiny]


def _reads() -> list[Case]:
    days = [Case(act="day", shape=shape, needs="bulk", repeats=9, title=f"one symbol's day, {shape}") for shape in SHAPES]
    return [
        *days,
        Case(act="day_forty", needs="forty", repeats=9, title="one symbol's day, of a table of 40 appends"),
        Case(act="by_hour", needs="bulk", repeats=7, title="aggregate of all symbols by hour"),
        Case(act="gaps", needs="bulk", repeats=7, title="every gap of every symbol"),
    ]


def _others() -> list[Case]:
    return [
        Case(act="update", needs="forty", repeats=5, patience=60, title="update of one row, of a table of 40 appends"),
        Case(
            act="writers",
            shape="",
            floor=SYNCED,
            rate=True,
            appends=600,
            rows=10,
            seconds=3,
            repeats=3,
            title="8 processes append 10 rows at a time to one table, by commits a second",
        ),
        *(
            Case(
                act="open",
                shape="",
                appends=count,
                repeats=3,
                floor="deltalake",
                title=f"cold open and prune, {count:,} segments",
            )
            for count in (10_000, 100_000, 1_000_000)
        ),
    ]


def _quicker(case: Case) -> Case:
    """The same with fewer rounds and less time, which shows no more than that all of it runs."""
    quick = replace(case, repeats=min(case.repeats, 2), cap=8, seconds=min(case.seconds, 2))
    return replace(quick, appends=200) if case.act == "tiny" else quick
