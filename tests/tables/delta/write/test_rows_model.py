"""Random changes of a Delta table against a plain list of rows, in every way in which row changes are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted, counted_table
from support.delta_tables import replayed, rows_of

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("v", pa.float64()),
        ("money", pa.decimal128(20, 2)),
        ("tags", pa.list_(pa.string())),
    ]
)
DAYS = ["a", "b c", "é/ü %=", None]
LAYOUTS = {
    "copies": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "copies and feed": {"delta.enableChangeDataFeed": "true"},
    "vectors and feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "mapped, vectors and feed": {
        "delta.columnMapping.mode": "name",
        "delta.enableDeletionVectors": "true",
        "delta.enableChangeDataFeed": "true",
    },
}

ids = st.one_of(st.none(), st.integers(0, 8))
rows = st.fixed_dictionaries(
    {
        "id": ids,
        "day": st.sampled_from(DAYS),
        "v": st.sampled_from([None, math.nan, -0.0, 0.0, 1.5, -2.25, math.inf]),
        "money": st.sampled_from([None, Decimal("0.01"), Decimal("123456789012345678.99")]),
        "tags": st.sampled_from([None, [], ["x", None]]),
    }
)
Truth = Callable[[Row], bool | None]


@dataclass(frozen=True)
class Where:
    """A condition in SQL, and what it says of a row: true, false or null."""

    sql: str
    of: Truth = field(repr=False)


def _above(value: float | None, limit: float) -> bool | None:
    """NaN is above every number."""
    return None if value is None else math.isnan(value) or value > limit


def _either(sql: str, of: Truth) -> list[Where]:
    return [Where(sql, of), Where(f"NOT ({sql})", lambda row: None if of(row) is None else not of(row))]


def _both(one: Where, other: Where) -> Where:
    def of(row: Row) -> bool | None:
        truths = (one.of(row), other.of(row))
        return False if False in truths else None if None in truths else True

    return Where(f"({one.sql}) AND ({other.sql})", of)


def on_id(number: int) -> st.SearchStrategy[Where]:
    return st.sampled_from(
        [
            *_either(f"id = {number}", lambda row: None if row["id"] is None else row["id"] == number),
            *_either(f"id > {number}", lambda row: None if row["id"] is None else row["id"] > number),
        ]
    )


single = st.one_of(
    st.integers(0, 8).flatmap(on_id),
    st.sampled_from(_either("v > 0", lambda row: _above(row["v"], 0))),
    st.sampled_from(_either("day = 'é/ü %='", lambda row: None if row["day"] is None else row["day"] == DAYS[2])),
    st.sampled_from(_either("day IS NULL", lambda row: row["day"] is None)),
    st.just(Where("true", lambda row: True)),
)
wheres = st.one_of(single, st.builds(_both, single, single))

ASSIGNED: list[tuple[dict[str, Any], Callable[[Row], Row]]] = [
    ({"v": "v + 1"}, lambda row: row | {"v": None if row["v"] is None else row["v"] + 1}),
    ({"id": "id + 1"}, lambda row: row | {"id": None if row["id"] is None else row["id"] + 1}),
    ({"day": "'b c'"}, lambda row: row | {"day": "b c"}),
    ({"day": None, "money": Decimal("7.00")}, lambda row: row | {"day": None, "money": Decimal("7.00")}),
    ({"tags": "[day, NULL]"}, lambda row: row | {"tags": [row["day"], None]}),
    ({"v": "v", "money": "money"}, lambda row: row),
]


@dataclass
class Model:
    """A table, and what its rows should be."""

    table: DeltaTable
    held: list[Row] = field(default_factory=list)

    def append(self, new: list[Row]) -> None:
        self.table.append(as_table(new))
        self.held += new

    def delete(self, where: Where) -> None:
        kept = [row for row in self.held if where.of(row) is not True]
        assert self.table.delete(where.sql).removed_rows == len(self.held) - len(kept)
        self.held = kept

    def update(self, where: Where, assigned: int) -> None:
        values, of = ASSIGNED[assigned]
        after = [of(row) if where.of(row) is True else row for row in self.held]
        changed = sum(counted([one]) != counted([other]) for one, other in zip(self.held, after, strict=True))
        assert self.table.update(values, where=where.sql).updated_rows == changed
        self.held = after

    def overwrite(self, new: list[Row], where: Where | None) -> None:
        if where is None:
            self.table.overwrite(as_table(new))
            self.held = list(new)
            return
        fit = [row for row in new if where.of(row) is True]
        self.table.overwrite(as_table(fit), where=where.sql)
        self.held = [row for row in self.held if where.of(row) is not True] + fit

    def merge(self, new: list[Row], where: Where, *, by_source: bool) -> None:
        source = {row["id"]: row for row in new if row["id"] is not None}
        nulls = [row for row in new if row["id"] is None]
        merge = self.table.merge(as_table([*source.values(), *nulls]), "t.id = s.id")
        merge = merge.when_matched_delete(where="s.day IS NULL").when_matched_update_all(where="s.v IS NULL OR s.v > 0")
        merge = merge.when_not_matched_insert_all(where="s.day IS NOT NULL OR s.id IS NULL")
        if by_source:
            # Names of the target alone need no alias.
            merge = merge.when_not_matched_by_source_delete(where=where.sql)
        merge.execute()
        known = {row["id"] for row in self.held}
        kept = [self._merged(row, source, where, by_source=by_source) for row in self.held]
        fresh = [row for row in source.values() if row["id"] not in known and row["day"] is not None]
        self.held = [row for row in kept if row is not None] + fresh + nulls

    @staticmethod
    def _merged(row: Row, source: dict[int, Row], where: Where, *, by_source: bool) -> Row | None:
        new = source.get(row["id"])
        if new is None:
            return None if by_source and where.of(row) is True else row
        if new["day"] is None:
            return None
        return new if new["v"] is None or _above(new["v"], 0) else row

    def dedup(self) -> None:
        keys = [repr((row["id"], row["day"])) for row in self.held]
        assert self.table.dedup(["id", "day"]).removed_rows == len(keys) - len(set(keys))
        # Which one stays is told elsewhere; here the table says so.
        left = self.table.scan().to_arrow().to_pylist()
        assert sorted(repr((row["id"], row["day"])) for row in left) == sorted(set(keys))
        assert not counted(left) - counted(self.held)
        self.held = left


def as_table(new: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(new, SCHEMA)


some_rows = st.lists(rows, max_size=5)
changes = st.one_of(
    st.tuples(st.just("append"), st.tuples(some_rows)),
    st.tuples(st.just("delete"), st.tuples(wheres)),
    st.tuples(st.just("update"), st.tuples(wheres, st.integers(0, len(ASSIGNED) - 1))),
    st.tuples(st.just("overwrite"), st.tuples(some_rows, st.one_of(st.none(), wheres))),
    st.tuples(st.just("merge"), st.tuples(some_rows, wheres)),
    st.tuples(st.just("replace by merge"), st.tuples(some_rows, wheres)),
    st.tuples(st.just("dedup"), st.just(())),
)


def make(model: Model, change: str, arguments: tuple[Any, ...]) -> None:
    match change:
        case "merge":
            model.merge(*arguments, by_source=False)
        case "replace by merge":
            model.merge(*arguments, by_source=True)
        case _:
            getattr(model, change)(*arguments)


def check_changes(path: Path, layout: str, parts: list[str], steps: list[tuple[str, tuple[Any, ...]]]) -> None:
    model = Model(DeltaTable.create(path, SCHEMA, partition_by=parts, properties=LAYOUTS[layout]))
    for change, arguments in steps:
        make(model, change, arguments)
        assert rows_of(model.table) == counted(model.held), change
        assert model.table.count() == len(model.held)
    reopened = DeltaTable.open(path)
    assert rows_of(reopened) == counted(model.held)
    if "feed" in layout:
        assert replayed(reopened) == counted(model.held)
    if layout.startswith("copies"):
        assert counted_table(deltalake.DeltaTable(path).to_pyarrow_table()) == counted(model.held)


steps = st.lists(changes, min_size=2, max_size=6).map(lambda found: [("append", ([],)), *found])
first = st.lists(rows, min_size=2, max_size=8)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(start=first, steps=steps, parts=st.sampled_from([[], ["day"], ["day", "id"]]))
@settings(max_examples=6)
def test_random_changes(layout: str, start: list[Row], steps: list[tuple[str, tuple[Any, ...]]], parts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        check_changes(Path(folder) / "t", layout, parts, [("append", (start,)), *steps])


@pytest.mark.soak
@pytest.mark.parametrize("layout", LAYOUTS)
@given(start=first, steps=steps, parts=st.sampled_from([[], ["day"], ["day", "id"]]))
@settings(max_examples=200)
def test_many_random_changes(layout: str, start: list[Row], steps: list[tuple[str, tuple[Any, ...]]], parts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        check_changes(Path(folder) / "t", layout, parts, [("append", (start,)), *steps])
