"""A random life of two nodes, the place that both push to, and a replica, each compared with a model after every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

import gapless as gl
from gapless.errors import SyncConflict
from gapless.lake.lake import Lake
from support.lake_catalogs import new_lake


@dataclass
class Model:
    """What one place has: rows of `events`, and of `orders` the value of each run by key."""

    events: set[int] = field(default_factory=set)
    orders: dict[tuple[int, str], int] = field(default_factory=dict)

    def take(self, other: Model, tables: set[str]) -> None:
        if "events" in tables:
            self.events |= other.events
        if "orders" in tables:
            self.orders |= other.orders

    @property
    def newest(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for (key, _), value in sorted(self.orders.items(), key=lambda item: item[0][1]):
            found[key] = value
        return found


class World:
    """Everything, and its model."""

    def __init__(self, root: Path, random: Random) -> None:
        self.root, self.random = root, random
        one = new_lake(root / "one", node="one")
        one.create_table("events")
        one.create_table("orders", key=["id"])
        one.run("events", [{"id": 0}])
        run = one.run("orders", [{"id": 0, "v": 0}]).run
        one.push(root / "hub")
        gl.lake.pull(root / "hub", root / "two", writable=True)
        gl.lake.pull(root / "hub", root / "replica")
        first = Model(events={0}, orders={(0, run): 0})
        self.models = {name: Model(set(first.events), dict(first.orders)) for name in ("one", "two", "hub", "replica")}
        self.lakes = {"one": one, "two": gl.lake.open(root / "two", node="two"), "replica": gl.lake.open(root / "replica")}
        self.next, self.conflicts = 1, 0

    def step(self) -> str:
        name = self.random.choice(("one", "two"))
        lake, model = self.lakes[name], self.models[name]
        table = self.random.choice(("events", "orders"))
        act = self.random.choice(
            ("run", "run", "compact", "add", "expire", "push", "push", "pull", "pull", "replicate", "expire copies")
        )
        if act == "run":
            self.write(lake, model, table)
        elif act in ("compact", "add"):
            lake.table(table).compact(incremental=act == "add")
        elif act == "expire":
            lake.table(table).expire(keep_s=-1)
        elif act == "push":
            self.models["hub"].take(model, self.done(lambda: lake.push(self.root / "hub")))
        elif act == "pull":
            model.take(self.models["hub"], self.done(lambda: lake.pull(self.root / "hub")))
        elif act == "expire copies":
            # What the newest snapshot of a copy has goes at once: nobody reads it now.
            self.models["hub"].take(model, self.done(lambda: lake.push(self.root / "hub", expire_s=0)))
            replica = self.lakes["replica"]
            self.models["replica"].take(self.models["hub"], self.done(lambda: replica.pull(self.root / "hub", expire_s=0)))
        else:
            self.models["replica"].take(self.models["hub"], self.done(lambda: self.lakes["replica"].pull(self.root / "hub")))
        return f"{name}: {act} {table}"

    def write(self, lake: Lake, model: Model, table: str) -> None:
        number, self.next = self.next, self.next + 1
        if table == "events":
            lake.run("events", [{"id": number}])
            model.events.add(number)
        else:
            key = self.random.randrange(4)
            model.orders[key, lake.run("orders", [{"id": key, "v": number}]).run] = number

    def done(self, copy: object) -> set[str]:
        """The tables that came over; of the others it is said why not."""
        try:
            copy()  # type: ignore[operator]
        except SyncConflict as conflict:
            kinds = {one.kind for one in conflict.report.conflicts}  # type: ignore[attr-defined]
            assert kinds == {"snapshots"}
            self.conflicts += 1
            return {"events", "orders"} - set(conflict.tables)
        return {"events", "orders"}

    def check(self) -> None:
        for name, lake in self.lakes.items():
            model = self.models[name]
            events = sorted(lake.table("events").to_arrow().column("id").to_pylist())
            assert events == sorted(model.events), name
            assert {row["id"]: row["v"] for row in lake.table("orders").to_arrow().to_pylist()} == model.newest, name


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 16), *(pytest.param(seed, 120, marks=pytest.mark.soak) for seed in range(2, 22))]
)
def test_a_random_life_of_two_nodes_and_a_replica(tmp_path: Path, seed: int, steps: int) -> None:
    world, told = World(tmp_path, Random(seed)), list[str]()
    for _ in range(steps):
        told.append(world.step())
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(f"after {told}") from error
    gl.lake.pull(tmp_path / "hub", tmp_path / "last")
    world.lakes["last"], world.models["last"] = gl.lake.open(tmp_path / "last"), world.models["hub"]
    world.check()
