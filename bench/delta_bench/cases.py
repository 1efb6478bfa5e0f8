"""What is measured: each case makes its tables once, and is then played by both sides in turn, round by round."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from delta_bench.logs import FILE_ROWS, SCHEMA, rows, write_log, write_many_files
from delta_bench.sides import SIDES, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the result."""

    name: str
    goal: float
    """How many times deltalake's time it may take."""
    play: Callable[[Side, Path, int], float]
    """One turn of a side in the case's folder; gives seconds. The number is the round's."""
    make: Callable[[Path], None] = lambda _folder: None
    """What both sides find there; not measured."""
    heavy: bool = False
    """Whether it takes fewer rounds."""


def clock(act: Callable[[], Any]) -> float:
    """Seconds that an act takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _fresh(side: Side, folder: Path, turn: int) -> Path:
    place = folder / f"{side.name.split()[0]}-{turn}"
    shutil.rmtree(place, ignore_errors=True)
    return place


# -- writing -----------------------------------------------------------------------------------------------------------


def _bulk(count: int) -> Case:
    data = rows(count)

    def play(side: Side, folder: Path, turn: int) -> float:
        place = _fresh(side, folder, turn)
        side.create(place, SCHEMA)
        table = side.open(place)
        seconds = clock(lambda: side.append(table, data))
        assert side.count(side.open(place)) == count
        shutil.rmtree(place)
        return seconds

    return Case(name=f"bulk append of {count:,} rows", goal=1.2, play=play)


def _small(count: int) -> Case:
    parts = [rows(100, number * 100) for number in range(count)]

    def play(side: Side, folder: Path, turn: int) -> float:
        place = _fresh(side, folder, turn)
        side.create(place, SCHEMA)
        table = side.open(place)
        seconds = clock(lambda: [side.append(table, part) for part in parts])
        assert side.count(side.open(place)) == count * 100
        shutil.rmtree(place)
        return seconds

    return Case(name=f"{count:,} appends of 100 rows", goal=1.2, play=play, heavy=True)


def _merge(count: int) -> Case:
    changed = rows(count // 200, count // 2, seed=1)
    inserted = rows(count // 200, count, seed=2)
    source = pa.concat_tables([changed, inserted])

    def make(folder: Path) -> None:
        for side in SIDES:
            place = folder / f"base-{side.name.split()[0]}"
            side.create(place, SCHEMA)
            table = side.open(place)
            for start in range(0, count, count // 10):
                side.append(table, rows(count // 10, start))

    def play(side: Side, folder: Path, turn: int) -> float:
        place = _fresh(side, folder, turn)
        shutil.copytree(folder / f"base-{side.name.split()[0]}", place)
        table = side.open(place)
        seconds = clock(lambda: side.merge(table, source))
        assert side.count(side.open(place)) == count + inserted.num_rows
        shutil.rmtree(place)
        return seconds

    return Case(name=f"merge of 1 % into {count:,} rows", goal=1.2, play=play, make=make, heavy=True)


def _scattered_merge(count: int) -> Case:
    ids = np.random.default_rng(3).choice(count, count // 100, replace=False)
    source = rows(count, 0, seed=4).take(pa.array(np.sort(ids)))
    whole = _merge(count)

    def play(side: Side, folder: Path, turn: int) -> float:
        place = _fresh(side, folder, turn)
        shutil.copytree(folder / f"base-{side.name.split()[0]}", place)
        table = side.open(place)
        seconds = clock(lambda: side.merge(table, source))
        assert side.count(side.open(place)) == count
        shutil.rmtree(place)
        return seconds

    return Case(name=f"merge of 1 %, in all files, into {count:,} rows", goal=1.2, play=play, make=whole.make, heavy=True)


def _delete(count: int) -> Case:
    def play(side: Side, folder: Path, turn: int) -> float:
        place = _fresh(side, folder, turn)
        shutil.copytree(folder / f"base-{side.name.split()[0]}", place)
        table = side.open(place)
        seconds = clock(lambda: side.delete(table, "id % 100 = 7"))
        assert side.count(side.open(place)) == count - count // 100
        shutil.rmtree(place)
        return seconds

    return Case(
        name=f"delete of 1 %, in all files, of {count:,} rows", goal=1.2, play=play, make=_merge(count).make, heavy=True
    )


def _optimize(files: int) -> Case:
    def make(folder: Path) -> None:
        write_many_files(folder / "base", files)

    def play(side: Side, folder: Path, turn: int) -> float:
        place = _fresh(side, folder, turn)
        shutil.copytree(folder / "base", place)
        table = side.open(place)
        seconds = clock(lambda: side.optimize(table))
        assert len(side.plan(side.open(place), 0, 10**9)) < 10
        assert side.count(side.open(place)) == files * FILE_ROWS
        shutil.rmtree(place)
        return seconds

    return Case(name=f"optimize of {files:,} files", goal=1.2, play=play, make=make, heavy=True)


# -- opening and reading -----------------------------------------------------------------------------------------------


def _open(commits: int, *, checkpoint: bool) -> Case:
    def make(folder: Path) -> None:
        write_log(folder / "table", commits, checkpoint=checkpoint)

    def play(side: Side, folder: Path, _turn: int) -> float:
        times = 10 if commits < 1_000 else 1
        return clock(lambda: [side.open(folder / "table") for _ in range(times)]) / times

    goal = 1.0 if commits >= 1_000 else 1.2
    return Case(
        name=f"open {commits:,} commits, {'with a' if checkpoint else 'no'} checkpoint", goal=goal, play=play, make=make
    )


def _open_long(commits: int, each: int) -> Case:
    """A log without a checkpoint whose commits have many files."""

    def make(folder: Path) -> None:
        write_log(folder / "table", commits, checkpoint=False, each=each)

    def play(side: Side, folder: Path, _turn: int) -> float:
        return clock(lambda: side.open(folder / "table"))

    return Case(name=f"open {commits:,} commits of {each:,} files, no checkpoint", goal=1.0, play=play, make=make)


def _first_read(files: int) -> Case:
    """The first question to a table without a checkpoint."""
    row = files // 2 * FILE_ROWS + 50

    def make(folder: Path) -> None:
        write_many_files(folder / "table", files, checkpoint=False)

    def play(side: Side, folder: Path, _turn: int) -> float:
        return clock(lambda: side.read(side.open(folder / "table"), row, row + 1))

    return Case(name=f"open and read a point of {files:,} files, no checkpoint", goal=1.0, play=play, make=make)


def _commit_after(commits: int) -> Case:
    """A small append to a table of so many files, by a handle that is open."""
    part = rows(10)

    def make(folder: Path) -> None:
        for side in SIDES:
            write_log(folder / side.name.split()[0], commits, checkpoint=True)

    def play(side: Side, folder: Path, _turn: int) -> float:
        table = side.open(folder / side.name.split()[0])
        side.append(table, part)
        return clock(lambda: [side.append(table, part) for _ in range(5)]) / 5

    return Case(name=f"append of 10 rows to {commits:,} files", goal=1.2, play=play, make=make)


def _scans(files: int) -> Iterator[Case]:
    def make(folder: Path) -> None:
        if not (folder / "table").exists():
            write_many_files(folder / "table", files)

    middle = files // 2 * FILE_ROWS
    for name, low, high in (("a point", middle + 50, middle + 51), ("a range, 10 files", middle, middle + 10 * FILE_ROWS)):

        def plan(side: Side, folder: Path, _turn: int, low: int = low, high: int = high) -> float:
            table = side.open(folder / "table")
            assert len(side.plan(table, low, high)) == -(-(high - low) // FILE_ROWS)
            return clock(lambda: [side.plan(table, low, high) for _ in range(5)]) / 5

        def first(side: Side, folder: Path, _turn: int, low: int = low, high: int = high) -> float:
            table = side.open(folder / "table")
            return clock(lambda: side.plan(table, low, high))

        def opened(side: Side, folder: Path, _turn: int, low: int = low, high: int = high) -> float:
            return clock(lambda: side.plan(side.open(folder / "table"), low, high))

        def read(side: Side, folder: Path, _turn: int, low: int = low, high: int = high) -> float:
            table = side.open(folder / "table")
            assert side.read(table, low, high).num_rows == high - low
            return clock(lambda: [side.read(table, low, high) for _ in range(5)]) / 5

        def whole(side: Side, folder: Path, _turn: int, low: int = low, high: int = high) -> float:
            return clock(lambda: side.read(side.open(folder / "table"), low, high))

        yield Case(name=f"open, and plan {name} of {files:,} files", goal=1.0, play=opened, make=make)
        yield Case(name=f"plan {name} of {files:,} files, first time", goal=1.0, play=first, make=make)
        yield Case(name=f"plan {name} of {files:,} files, again", goal=1.0, play=plan, make=make)
        yield Case(name=f"read {name} of {files:,} files", goal=1.2, play=read, make=make)
        yield Case(name=f"open and read {name} of {files:,} files", goal=1.2, play=whole, make=make)


def _full(files: int) -> Case:
    def make(folder: Path) -> None:
        write_many_files(folder / "table", files)

    def play(side: Side, folder: Path, _turn: int) -> float:
        table = side.open(folder / "table")
        return clock(lambda: side.read(table, 0, 10**9))

    return Case(name=f"read all of {files:,} files", goal=1.2, play=play, make=make, heavy=True)


def cases(*, quick: bool) -> list[Case]:
    """All, in order; fewer rows and files where it is to be quick."""
    share = 10 if quick else 1
    opens = [
        _open(commits, checkpoint=checkpoint)
        for commits in (10, 1_000 // share, 10_000 // share)
        for checkpoint in (False, True)
    ]
    return [
        *opens,
        _open_long(1, 10_000 // share),
        _open_long(100, 100 // share),
        _first_read(10_000 // share),
        *_scans(10_000 // share),
        _full(1_000 // share),
        _commit_after(10_000 // share),
        _bulk(2_000_000 // share),
        _small(1_000 // share),
        _merge(5_000_000 // share),
        _scattered_merge(5_000_000 // share),
        _delete(5_000_000 // share),
        _optimize(1_000 // share),
    ]
