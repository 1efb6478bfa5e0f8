"""A writer of a Delta table that dies at each store call and each system call of a change; what follows needs no help."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import TableNotFound
from gapless.runtime.environment import Environment
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.table import DeltaTable
from process.delta_ledger import check_delta, make_delta, open_delta
from process.ledger import Append, Place, rows_of
from process.test_die_at_every_call import Countdown, DyingStore, _deaths, _die_at_system_call


class Scene:
    """A table with two appends, copied anew for each death, of which the third append is the victim."""

    def __init__(self, folder: Path) -> None:
        self.origin = folder / "origin"
        self.place: Place = str(folder / "table"), {}
        table = make_delta((str(self.origin), {}), checkpointInterval=3)
        self.there: list[Append] = [("w", 0), ("w", 1)]
        self.victim: Append = ("w", 2)
        for append in self.there:
            table.append(rows_of(append), operation_id=append)
        assert (table.version + 1) % 3 == 0, "the victim's commit owes a checkpoint"

    def prepare(self) -> None:
        shutil.rmtree(self.place[0], ignore_errors=True)
        shutil.copytree(self.origin, self.place[0])

    def verify(self, _number: int = 0) -> None:
        """All or nothing of the victim; sent again, it is there once; the next append works."""
        landed = self.victim in check_delta(self.place, self.there, {self.victim}).present
        table = open_delta(self.place)
        assert table.append(rows_of(self.victim), operation_id=self.victim).already_applied is landed
        table.append(rows_of(("w", 3)), operation_id=("w", 3))
        check_delta(self.place, [*self.there, self.victim, ("w", 3)])

    def append(self, table: Any) -> None:
        table.append(rows_of(self.victim), operation_id=self.victim)


def _dying(root: str, number: int, *, after: bool) -> DeltaTable:
    env = Environment(store=DyingStore(root, Countdown(number), after=after))
    return DeltaTable(env, "table", open_table(env, root))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_death_at_each_store_call_of_a_delta_append(tmp_path: Path, *, after: bool) -> None:
    scene = Scene(tmp_path)
    deaths = _deaths(lambda number: scene.append(_dying(scene.place[0], number, after=after)), scene.prepare, scene.verify)
    assert deaths >= 6, "data file, commit, checkpoint and its hint, and the reads before them"


@pytest.mark.parametrize("torn", [False, True], ids=["before", "half a write"])
def test_death_at_each_system_call_of_a_delta_append(tmp_path: Path, *, torn: bool) -> None:
    scene = Scene(tmp_path)

    def act(number: int) -> None:
        _die_at_system_call(number, torn=torn)
        scene.append(open_delta(scene.place))

    assert _deaths(act, scene.prepare, scene.verify) >= 15


def test_death_at_each_system_call_of_creating_a_delta_table(tmp_path: Path) -> None:
    place: Place = str(tmp_path / "table"), {}

    def act(number: int) -> None:
        _die_at_system_call(number, torn=False)
        make_delta(place)

    def verify(_number: int) -> None:
        try:
            table = open_delta(place)
        except TableNotFound:
            table = make_delta(place)
        table.append(rows_of(("w", 0)), operation_id=("w", 0))
        check_delta(place, [("w", 0)])

    assert _deaths(act, lambda: shutil.rmtree(place[0], ignore_errors=True), verify) >= 4


class Changing:
    """A table of three files; the victim touches two of them and, once it landed, leaves these rows."""

    def __init__(
        self, folder: Path, change: Callable[[Any], object], after: dict[int, int], properties: dict[str, object]
    ) -> None:
        self.origin, self.place, self.change, self.after = folder / "origin", folder / "table", change, after
        self.before = dict.fromkeys(range(30), 0)
        table = make_delta((str(self.origin), {}), checkpointInterval=4, **properties)
        for start in (0, 10, 20):
            table.overwrite(_rows(range(start, start + 10)), where=f"at >= {start} and at < {start + 10}")

    def prepare(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.origin, self.place)

    def verify(self, _number: int = 0) -> None:
        landed = self.check()
        again = gl.delta.open(self.place)
        if not landed:
            self.change(again)
        assert self.check()
        gl.delta.open(self.place).append(_rows([99]))

    def check(self) -> bool:
        """Whether it landed, whole."""
        table = gl.delta.open(self.place)
        found = {row["at"]: row["value"] for row in table.scan().to_arrow().to_pylist()}
        assert found in (self.before, self.after)
        assert table.count() == len(found)
        return found == self.after


def _rows(at: Any, value: int = 0) -> Any:
    import pyarrow as pa

    from process.ledger import SCHEMA

    keys = list(at)
    return pa.table({"at": keys, "writer": ["w"] * len(keys), "value": [value] * len(keys)}, schema=SCHEMA)


def _merge(table: Any) -> object:
    merge = table.merge(_rows([5, 15, 40], 7), on="t.at = s.at")
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


_LEFT = {at: 0 for at in range(30) if at not in (5, 15)}
_CHANGES: dict[str, tuple[Callable[[Any], object], dict[int, int], dict[str, object]]] = {
    "merge": (_merge, dict.fromkeys(range(30), 0) | {5: 7, 15: 7, 40: 7}, {}),
    "delete": (lambda table: table.delete("at = 5 or at = 15"), _LEFT, {}),
    "delete by vectors": (lambda table: table.delete("at = 5 or at = 15"), _LEFT, {"enableDeletionVectors": True}),
    "delete with a feed": (lambda table: table.delete("at = 5 or at = 15"), _LEFT, {"enableChangeDataFeed": True}),
}


@pytest.mark.parametrize("kind", _CHANGES)
def test_death_at_each_store_call_of_a_delta_change(tmp_path: Path, kind: str) -> None:
    change, after, properties = _CHANGES[kind]
    scene = Changing(tmp_path, change, after, properties)

    def act(number: int) -> None:
        scene.change(_dying(str(scene.place), number, after=bool(number % 2)))

    assert _deaths(act, scene.prepare, scene.verify) >= 6


def test_death_at_each_store_call_of_care(tmp_path: Path) -> None:
    """Compaction, a checkpoint and vacuum change no row, wherever they end."""
    scene = Changing(tmp_path, lambda table: table.compact(), dict.fromkeys(range(30), 0), {})

    def act(number: int) -> None:
        table = _dying(str(scene.place), number, after=bool(number % 2))
        table.compact()
        table.checkpoint()

    assert _deaths(act, scene.prepare, scene.verify) >= 8
