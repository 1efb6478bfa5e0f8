"""A writer that dies at each store call and each system call of an operation in turn; what follows needs no help."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import CoverageOverlap, TableNotFound
from gapless.model.protocols import ObjectInfo, PutMode
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.store.case import in_child
from process.ledger import Append, Place, check, make_table, open_at, rows_of

_DEAD = 77
_MOST_CALLS = 400
_WRITING = ("open", "write", "writev", "fsync", "link", "replace", "unlink", "mkdir", "close")
"""The system calls by which a local store changes a disk."""


class Countdown:
    """Ends the process at tick number `left`."""

    def __init__(self, left: int) -> None:
        self.left = left

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(_DEAD)


class DyingStore(LocalStore):
    """A local store that dies before a call takes effect or, with `after`, when it has."""

    def __init__(self, root: str, countdown: Countdown, *, after: bool) -> None:
        super().__init__(root)
        self._before: Callable[[], None] = (lambda: None) if after else countdown.tick
        self._after: Callable[[], None] = countdown.tick if after else (lambda: None)

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        found: bytes = self._around(lambda: super(DyingStore, self).get(path, start, length))
        return found

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        self._around(lambda: super(DyingStore, self).put(path, data, mode=mode, durable=durable))

    def put_deferred(self, path: str, *pieces: bytes | memoryview) -> None:
        self._around(lambda: super(DyingStore, self).put_deferred(path, *pieces))

    def put_after(self, path: str, data: bytes | memoryview, after: Iterable[str]) -> None:
        self._around(lambda: super(DyingStore, self).put_after(path, data, after))

    def head(self, path: str) -> ObjectInfo:
        found: ObjectInfo = self._around(lambda: super(DyingStore, self).head(path))
        return found

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        found: Iterator[ObjectInfo] = self._around(lambda: super(DyingStore, self).list(prefix, after))
        return found

    def delete(self, path: str) -> None:
        self._around(lambda: super(DyingStore, self).delete(path))

    def _around(self, call: Callable[[], Any]) -> Any:
        self._before()
        try:
            return call()
        finally:
            self._after()


def _die_at_system_call(number: int, *, torn: bool) -> None:
    """From now on this process dies before its `number`-th changing system call, or with half of a write done."""
    countdown = Countdown(number)

    def dying(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if torn and real in writes and countdown.left == 1:
            data = b"".join(args[1]) if real is writes[1] else args[1]
            writes[0](args[0], data[: len(data) // 2])
        countdown.tick()
        return real(*args, **named)

    writes = os.write, os.writev
    for name in _WRITING:
        real = getattr(os, name)
        setattr(os, name, lambda *args, _real=real, **named: dying(_real, *args, **named))


def _deaths(act: Callable[[int], None], prepare: Callable[[], None], verify: Callable[[int], None]) -> int:
    """Run `act(k)` in a child for k = 1, 2, … until it ends without dying; the number of deaths."""
    for number in range(1, _MOST_CALLS):
        prepare()
        status = in_child(lambda number=number: act(number))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        assert status in (0, _DEAD << 8), f"call {number}: wait status {status}; the child's traceback is on stderr"
        verify(number)
        if status == 0:
            return number - 1
    raise AssertionError("it never ends")


class Scene:
    """A table with two appends, copied anew for each death, of which the third append is the victim."""

    def __init__(self, folder: Path) -> None:
        self.origin = folder / "origin"
        self.place: Place = str(folder / "table"), {}
        table = make_table((str(self.origin), {}), checkpoint_interval=2)
        self.there: list[Append] = [("w", 0), ("w", 1)]
        self.victim: Append = ("w", 2)
        for append in self.there:
            table.append(rows_of(append), operation_id=append)
        assert (table.version + 1) % 2 == 0, "the victim's commit owes a checkpoint"

    def prepare(self) -> None:
        shutil.rmtree(self.place[0], ignore_errors=True)
        shutil.copytree(self.origin, self.place[0])

    def verify(self, _number: int = 0) -> None:
        """All or nothing of the victim; sent again, it is there once; the next append works."""
        landed = self.victim in check(self.place, self.there, {self.victim}).present
        table = open_at(self.place)
        assert table.append(rows_of(self.victim), operation_id=self.victim).already_applied is landed
        table.append(rows_of(("w", 3)), operation_id=("w", 3))
        check(self.place, [*self.there, self.victim, ("w", 3)])

    def append(self, table: TimeSeriesTable) -> None:
        table.append(rows_of(self.victim), operation_id=self.victim)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_each_store_call_of_an_append(tmp_path: Path, *, after: bool) -> None:
    scene = Scene(tmp_path)
    root = scene.place[0]

    def act(number: int) -> None:
        env = Environment(store=DyingStore(root, Countdown(number), after=after))
        scene.append(TimeSeriesTable(env, root, open_table(env, root)))

    deaths = _deaths(act, scene.prepare, scene.verify)
    assert deaths >= 8, "segment, commit, CURRENT, checkpoint and its hint, and the reads before them"


@pytest.mark.parametrize("torn", [False, True], ids=["before", "half a write"])
def test_death_at_each_system_call_of_an_append(tmp_path: Path, *, torn: bool) -> None:
    scene = Scene(tmp_path)

    def act(number: int) -> None:
        _die_at_system_call(number, torn=torn)
        scene.append(open_at(scene.place))

    assert _deaths(act, scene.prepare, scene.verify) >= 25


@pytest.mark.parametrize("torn", [False, True], ids=["before", "half a write"])
def test_death_at_each_system_call_of_create(tmp_path: Path, *, torn: bool) -> None:
    place: Place = str(tmp_path / "table"), {}

    def act(number: int) -> None:
        _die_at_system_call(number, torn=torn)
        make_table(place, checkpoint_interval=1)

    def verify(_number: int) -> None:
        try:
            table = open_at(place)
        except TableNotFound:
            table = make_table(place)
        table.append(rows_of(("w", 0)), operation_id=("w", 0))
        check(place, [("w", 0)])

    deaths = _deaths(act, lambda: shutil.rmtree(place[0], ignore_errors=True), verify)
    assert deaths >= 10


def test_death_at_each_system_call_of_an_append_that_takes_back(tmp_path: Path) -> None:
    """An append that is refused at its commit removes its segment; dying there leaves at most an orphan."""
    scene = Scene(tmp_path)

    def act(number: int) -> None:
        table = open_at(scene.place)
        open_at(scene.place).append(rows_of(("w", 3)), operation_id=("w", 3))
        _die_at_system_call(number, torn=False)
        with pytest.raises(CoverageOverlap):
            table.append(rows_of(("w", 3)))

    def verify(_number: int) -> None:
        check(scene.place, [*scene.there, ("w", 3)])
        open_at(scene.place).append(rows_of(scene.victim))
        check(scene.place, [*scene.there, ("w", 3), scene.victim])

    assert _deaths(act, scene.prepare, verify) >= 8
