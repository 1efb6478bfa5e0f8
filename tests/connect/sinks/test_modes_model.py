"""Random events in random checkpoints, against a dict: tables of every kind, with and without an order."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import sink
from support.copies import copied
from support.pipelines import SCHEMA, START
from support.targets import TARGETS

CHANGES = pa.schema([*SCHEMA, ("part", pa.string()), ("price", pa.float64()), ("_change_type", pa.string())])
ORDERS = ((), ("v", "part"), ("price", "v"))
PRICES = (-math.inf, -0.5, -0.0, 0.0, 5e-324, math.nan)
KINDS_OF_CHANGE = ("insert", "update_postimage", "delete", "update_preimage")


def event(seed: random.Random, keys: tuple[int | None, ...]) -> dict[str, Any]:
    hour, key = seed.randrange(30), seed.choice(keys)
    return {
        "ts": START + timedelta(hours=hour),
        "id": key,
        "v": seed.randrange(4),
        "part": seed.choice("ab"),
        "price": seed.choice(PRICES),
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
    """NaN equals itself and is above every number."""
    return tuple((row[name] != row[name], 0 if row[name] != row[name] else row[name]) for name in order)


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "price": repr(row["price"])}


def prepared_place(kind: str, place: str, schema: pa.Schema, seed: int) -> dict[str, Any]:
    """Make the table of a kind there, or say what its sink makes it of."""
    if kind == "delta":
        gl.delta.create(place, schema, properties={"delta.enableDeletionVectors": str(seed % 2 == 0).lower()})
    elif kind == "timeseries":
        gl.create(place, index="ts", bucket="1h", schema=schema)
    elif kind == "iceberg":
        return {"create": {"partition_by": ("", "bucket(2, id)", "part")[seed % 3]}} if seed % 3 else {"create": {}}
    else:
        # hudi-rs reads no table that is ordered by several columns.
        return {"create": {"record_key": ["id"], "order_by": []}}
    return {}


@pytest.mark.parametrize("order", ORDERS, ids=["as they come", "by order", "by floats"])
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 40))])
def test_a_table_is_what_the_changes_make_of_a_dict(kind: str, order: tuple[str, ...], seed: int, tmp_path: Path) -> None:
    chance, schema = random.Random(seed), CHANGES.remove(5)
    place = str(tmp_path / "t")
    options = prepared_place(kind, place, schema, seed) | ({"order_by": list(order)} if order else {})
    # A Hudi row has each part of its key.
    keys = (0, 1, 2, 3) if kind == "hudi" else (None, 0, 1, 2, 3)
    mine = sink(f"{kind}:{place}", pipeline="p", name="s", mode="cdc", key="id", spill_bytes=200, **options)
    mine.initialize(CHANGES)
    held: dict[Any, Any] = {}
    for number in range(1, 9):
        events = [event(chance, keys) for _ in range(chance.randrange(1, 12))]
        for begin in range(0, len(events), 3):
            mine.write(pa.Table.from_pylist(events[begin : begin + 3], CHANGES))
        assert mine.finalize(mine.prepare(number)).late_rows == applied(held, events, order)
        found = TARGETS[kind].rows(copied(place, None, tmp_path / "copy"))
        expected = [{name: row[name] for name in schema.names} for row in held.values()]
        assert sorted(map(comparable, found), key=str) == sorted(map(comparable, expected), key=str)
    assert TARGETS[kind].open(place, None).verify(deep=True).ok
