"""One table, on which writers of several makes take turns; and the plainest model of it, a dict of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import gapless as gl
from interop.delta.engines import Ask, EngineError, counted
from interop.delta.scenes import PLACES, SCHEMA, Row, rows, table_of

Turn = tuple[str, str, int]
"""(who, what, which rows: a number from which they follow)."""
KINDS = ("append", "delete", "update", "merge", "overwrite", "optimize", "checkpoint", "move")

_NULLS = 'Found unmasked nulls for non-nullable StructArray field "value"'
"""deltalake 1.3.3 says in its checkpoints that no partition value of a tombstone is null, and then finds nulls: some it cannot write."""


class Ours:
    """gapless, asked as the other engines are."""

    name = "gapless"

    def do(self, what: str, given: pa.Table | None = None, *, path: str, **named: Any) -> Any:
        """Act `what` on the table."""
        table = gl.delta.open(path)
        acts: dict[str, Callable[[], Any]] = {
            "append": lambda: table.append(given),
            "delete": lambda: table.delete(named["where"]),
            "update": lambda: table.update(named["values"], where=named["where"]),
            "merge": lambda: (
                table.merge(given, on=named["on"]).when_matched_update_all().when_not_matched_insert_all().execute()
            ),
            "overwrite": lambda: table.overwrite(given, where=named["where"]),
            "optimize": table.compact,
            "checkpoint": table.checkpoint,
        }
        return acts[what]()

    def read(self, path: str) -> pa.Table:
        """All rows."""
        return gl.delta.open(path).scan().to_arrow()


@dataclass(slots=True)
class Game:
    """A table and what should be in it."""

    path: str
    ask: Ask
    partitioned: bool = True
    held: dict[int, Row] = field(default_factory=dict)
    _next: int = 0

    def begin(self, by: str) -> None:
        """Someone makes it, with its first rows."""
        first = rows(*range(len(PLACES)))
        partition_by = ["p"] if self.partitioned else []
        if by == "gapless":
            gl.delta.create(self.path, SCHEMA, partition_by=partition_by).append(table_of(first))
        else:
            self.ask(by).do("create", table_of(first), path=self.path, partition_by=partition_by, configuration={})
        self._keep(first)

    def play(self, turn: Turn) -> None:
        """One turn, of which the model hears too."""
        who, what, number = turn
        player: Any = Ours() if who == "gapless" else self.ask(who)
        below = number % max(1, self._next)
        match what:
            case "append":
                given = rows(*range(self._next, self._next + 1 + number % 4))
                player.do("append", table_of(given), path=self.path)
                self._keep(given)
            case "delete":
                player.do("delete", path=self.path, where=f"id >= {below} and id < {below + 3}")
                self.held = {n: row for n, row in self.held.items() if not below <= n < below + 3}
            case "update" | "move":
                values: Row = {"v": f"u{number}"} if what == "update" else {"p": PLACES[number % 4]}
                ((name, value),) = values.items()
                player.do("update", path=self.path, values={name: f"'{value}'"}, where=f"id = {below}")
                self.held |= {n: row | values for n, row in self.held.items() if n == below}
            case "merge":
                given = rows(below, self._next, v="m")
                player.do("merge", table_of(given), path=self.path, on="t.id = s.id")
                self._keep(given)
            case "overwrite":
                given = rows(below, v="o")
                player.do("overwrite", table_of(given), path=self.path, where=f"id = {below}")
                self._keep(given)
            case "checkpoint" if who == "deltalake-1.3.3":
                try:
                    player.do(what, path=self.path)
                except EngineError as error:
                    if _NULLS not in str(error):
                        raise
            case _:
                player.do(what, path=self.path)

    def check(self, readers: tuple[str, ...]) -> None:
        """Everyone reads what the model holds; so do we, and by version."""
        wanted = counted(list(self.held.values()))
        for reader in ("gapless", *readers):
            player: Any = Ours() if reader == "gapless" else self.ask(reader)
            assert counted(player.read(self.path)) == wanted, reader

    def _keep(self, given: list[Row]) -> None:
        self.held |= {row["id"]: row for row in given}
        self._next = max(self.held, default=-1) + 1


def remove_paths_match(path: str) -> bool:
    """Whether every file that the log removes had been added under the very same text."""
    added: set[str] = set()
    for entry in sorted((Path(path) / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                added.add(action["add"]["path"])
            elif "remove" in action and action["remove"]["path"] not in added:
                return False
    return True
