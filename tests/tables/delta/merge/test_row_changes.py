"""Changes by key with an order, just before whose commit another's comes: they are decided about what that left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.model.operation import SequenceId
from gapless.tables.delta.merge.row_changes import apply_counted_changes, apply_keyed_changes
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.row_changes import CountedChanges, KeyedChanges
from support.delta_tables import made, racing

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("gone", pa.bool_())])
OPERATION = SequenceId("orders/main#1", 1)


def rows(*values: tuple[int | None, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "v": v, "gone": None} for key, v in values], SCHEMA)


def changes(puts: pa.Table, deletes: pa.Table | None = None) -> KeyedChanges:
    gone = (rows() if deletes is None else deletes).select(["id", "v"])
    arrived = np.ones(puts.num_rows + gone.num_rows, dtype=np.int64)
    return KeyedChanges(puts=puts, deletes=gone, key=("id",), order_by=("v",), arrived=arrived)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made(tmp_path / "t", rows((0, 10), (1, 10), (2, 10), (None, 10)))
    return tmp_path / "t"


def told(path: Path) -> list[tuple[Any, Any, Any]]:
    found = gl.delta.open(path).scan().to_arrow().to_pylist()
    return sorted(((row["id"], row["v"], row["gone"]) for row in found), key=str)


REST = [(1, 10, None), (2, 10, None)]
FIRST: list[tuple[Callable[[DeltaTable], Any], list[tuple[Any, Any, Any]], int]] = [
    (lambda t: t.update({"v": 30}, where="id = 0"), [(0, 30, None), *REST], 1),
    (lambda t: t.update({"v": 15}, where="id = 0 OR id IS NULL"), [(0, 20, None), *REST, (None, 15, None)], 1),
    (lambda t: t.delete("id = 0"), [(0, 20, None), *REST], 0),
    (lambda t: t.append(rows((9, 1))), [(0, 20, None), *REST, (9, 1, None)], 0),
    (lambda t: t.overwrite(rows((2, 10), (1, 10))), [(0, 20, None), *REST], 0),
]


@pytest.mark.parametrize("number", range(len(FIRST)))
def test_what_came_first_is_what_the_order_is_held_against(path: Path, number: int) -> None:
    first, expected, late = FIRST[number]
    table = racing(path, lambda: first(gl.delta.open(path)))
    outcome = apply_keyed_changes(table, changes(rows((0, 20)), rows((None, 11))), OPERATION)
    assert (told(path), outcome.tally.skipped_rows) == (sorted(expected, key=str), late)
    again = apply_keyed_changes(gl.delta.open(path), changes(rows((0, 99))), OPERATION)
    assert (again.already, again.tally.skipped_rows) == (True, late)
    assert gl.delta.open(path).verify(deep=True).ok


def test_a_merge_reads_no_file_that_holds_none_of_its_keys(path: Path) -> None:
    """Unless a null comes, which equality matches nowhere."""
    table = racing(path, lambda: gl.delta.open(path).append(rows((70, 1), (80, 2))))
    before = table.version
    apply_keyed_changes(table, changes(rows((0, 20)), rows((1, 10))), OPERATION)
    assert table.version == before + 2
    # The append lies beside what was read, so that the merge was made once.
    assert gl.delta.open(path).history(1)[0].metrics.get("numUpdatedRows") == 1
    assert told(path) == sorted([(0, 20, None), (2, 10, None), (70, 1, None), (80, 2, None), (None, 10, None)], key=str)


def test_equal_rows_are_counted_whatever_comes_first(path: Path) -> None:
    gl.delta.open(path).append(rows((0, 10), (0, 10), (5, 1)))
    table = racing(path, lambda: gl.delta.open(path).delete("id = 1"))
    counted = CountedChanges(added=rows((1, 11)), removed=rows((0, 10), (0, 10), (1, 10), (None, 10)))
    outcome = apply_counted_changes(table, counted, OPERATION)
    expected = [(0, 10, None), (1, 11, None), (2, 10, None), (5, 1, None)]
    assert (told(path), outcome.tally.skipped_rows) == (expected, 1)
    assert gl.delta.open(path).verify(deep=True).ok
