"""Random events in random checkpoints, against a dict: both kinds of tables, with and without an order."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import sink
from support.pipelines import KINDS, SCHEMA, START, opened

CHANGES = pa.schema([*SCHEMA, ("part", pa.string()), ("_change_type", pa.string())])
ORDER = ("v", "part")
KINDS_OF_CHANGE = ("insert", "update_postimage", "delete", "update_preimage")


def event(seed: random.Random) -> dict[str, Any]:
    hour, key = seed.randrange(30), seed.choice([None, 0, 1, 2, 3])
    return {
        "ts": START + timedelta(hours=hour),
        "id": key,
        "v": seed.randrange(4),
        "part": seed.choice("ab"),
        "_change_type": seed.choices(KINDS_OF_CHANGE, (4, 4, 2, 1))[0],
    }


def applied(held: dict[Any, Any], events: list[dict[str, Any]], order: tuple[str, ...]) -> int:
    """Apply a checkpoint to rows by key, as the documentation says it; how many were late."""
    late = 0
    for key in {one["id"] for one in events}:
        mine = [one for one in events if one["id"] == key]
        mine = [one for at, one in enumerate(mine) if one["_change_type"] != "update_preimage" or at == len(mine) - 1]
        stands: dict[str, Any] | None = None
        counted = 0
        for one in mine:
            if stands is not None and place(one, order) < place(stands, order):
                late += 1
            else:
                stands = one
                counted += 1
        assert stands is not None
        if order and key in held and place(stands, order) < place(held[key], order):
            late += counted
        elif stands["_change_type"] in ("insert", "update_postimage"):
            held[key] = stands
        else:
            held.pop(key, None)
    return late


def place(row: dict[str, Any], order: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in order)


@pytest.mark.parametrize("order", [(), ORDER], ids=["as they come", "by order"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 40))])
def test_a_table_is_what_the_changes_make_of_a_dict(kind: str, order: tuple[str, ...], seed: int, tmp_path: Path) -> None:
    chance, schema = random.Random(seed), CHANGES.remove(4)
    if kind == "delta":
        gl.delta.create(tmp_path / "t", schema, properties={"delta.enableDeletionVectors": str(seed % 2 == 0).lower()})
    else:
        gl.create(tmp_path / "t", index="ts", bucket="1h", schema=schema)
    options: dict[str, Any] = {"order_by": list(order)} if order else {}
    mine = sink(f"{kind}:{tmp_path / 't'}", pipeline="p", name="s", mode="cdc", key="id", spill_bytes=200, **options)
    mine.initialize(CHANGES)
    held: dict[Any, Any] = {}
    for number in range(1, 9):
        events = [event(chance) for _ in range(chance.randrange(1, 12))]
        for begin in range(0, len(events), 3):
            mine.write(pa.Table.from_pylist(events[begin : begin + 3], CHANGES))
        assert mine.finalize(mine.prepare(number)).late_rows == applied(held, events, order)
        found = opened(kind, tmp_path / "t").scan(columns=schema.names).to_arrow().to_pylist()
        expected = [{name: row[name] for name in schema.names} for row in held.values()]
        assert sorted(found, key=str) == sorted(expected, key=str)
    assert opened(kind, tmp_path / "t").verify(deep=True).ok
