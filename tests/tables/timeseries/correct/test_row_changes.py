"""Changes by key with an order, just before whose commit another's comes: they are decided about what that left."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.model.operation import SequenceId
from gapless.tables.shared.row_changes import CountedChanges, KeyedChanges
from gapless.tables.timeseries.correct.row_changes import apply_counted_changes, apply_keyed_changes
from support.faulty_store import is_commit, once, open_faulty, unavailable

T0 = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), nullable=False), ("id", pa.int64()), ("v", pa.int64())])
OPERATION = SequenceId("orders/main#1", 1)
_counter = itertools.count()


def rows(*values: tuple[int, int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"ts": T0 + timedelta(hours=hour), "id": key, "v": v} for hour, key, v in values], SCHEMA)


def changes(puts: pa.Table, deletes: pa.Table | None = None) -> KeyedChanges:
    gone = (rows() if deletes is None else deletes).select(["id", "v"])
    arrived = np.ones(puts.num_rows + gone.num_rows, dtype=np.int64)
    return KeyedChanges(puts=puts, deletes=gone, key=("id",), order_by=("v",), arrived=arrived)


@pytest.fixture
def place() -> str:
    place = f"memory://row-changes-{next(_counter)}"
    gl.create(place, index="ts", bucket="1h", schema=SCHEMA).append(rows((0, 0, 10), (1, 1, 10), (2, 2, 10)))
    return place


def told(place: str) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in gl.open(place).scan().to_arrow().to_pylist())


FIRST: list[tuple[Callable[[gl.TimeSeriesTable], Any], list[tuple[int, int]], int]] = [
    (lambda t: t.upsert(rows((5, 0, 30)), key="id"), [(0, 30), (2, 20)], 1),
    (lambda t: t.upsert(rows((0, 0, 15), (1, 1, 12)), key="id"), [(0, 20), (1, 12), (2, 20)], 1),
    (lambda t: t.delete("id = 0"), [(0, 20), (2, 20)], 0),
    (lambda t: t.append(rows((0, 9, 1)), on_overlap="allow"), [(0, 20), (2, 20), (9, 1)], 0),
    (lambda t: t.compact(), [(0, 20), (2, 20)], 0),
]


@pytest.mark.parametrize("number", range(len(FIRST)))
def test_what_came_first_is_what_the_order_is_held_against(place: str, number: int) -> None:
    first, expected, late = FIRST[number]
    table, store = open_faulty(place)
    store.before_put = once(lambda: first(gl.open(place)), is_commit)
    outcome = apply_keyed_changes(table, changes(rows((3, 0, 20), (4, 2, 20)), rows((0, 1, 11))), "merge", OPERATION)
    assert (told(place), outcome.tally.skipped_rows) == (expected, late)
    assert gl.open(place).verify(deep=True).ok
    again = apply_keyed_changes(gl.open(place), changes(rows((3, 0, 99))), "merge", OPERATION)
    assert (again.already, again.tally.skipped_rows, told(place)) == (True, late, expected)


def test_an_answer_that_is_lost_applies_them_once(place: str) -> None:
    table, store = open_faulty(place)
    store.after_put = once(lambda: unavailable("the answer"), is_commit)
    outcome = apply_keyed_changes(table, changes(rows((3, 0, 20)), rows((2, 2, 9))), "merge", OPERATION)
    assert (told(place), outcome.tally.skipped_rows) == ([(0, 20), (1, 10), (2, 10)], 1)


def test_a_late_row_beside_a_rival_for_its_key(place: str) -> None:
    """The row that made it late goes just before the commit: then it is not late any more."""
    table, store = open_faulty(place)
    store.before_put = once(lambda: gl.open(place).delete("id = 2"), is_commit)
    apply_keyed_changes(table, changes(rows((3, 0, 20), (4, 2, 5))), "upsert", OPERATION)
    assert told(place) == [(0, 20), (1, 10), (2, 5)]


def test_equal_rows_are_counted_whatever_comes_first(place: str) -> None:
    gl.open(place).append(rows((0, 0, 10), (0, 0, 10)), on_overlap="allow")
    table, store = open_faulty(place)
    store.before_put = once(lambda: gl.open(place).delete("id = 1"), is_commit)
    counted = CountedChanges(added=rows((1, 1, 11)), removed=rows((0, 0, 10), (0, 0, 10), (1, 1, 10)))
    outcome = apply_counted_changes(table, counted, OPERATION)
    assert (told(place), outcome.tally.skipped_rows) == ([(0, 10), (1, 11), (2, 10)], 1)
    assert gl.open(place).verify(deep=True).ok
