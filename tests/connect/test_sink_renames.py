"""Columns that are renamed between prepare and finalize: rows go where their column went, and names that another column has now mislead nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import sink
from gapless.errors import SchemaMismatch
from support.pipelines import KINDS, SCHEMA, opened, rows

NESTED = SCHEMA.append(pa.field("s", pa.struct([("x", pa.int64()), ("y", pa.string())])))


class Table:
    """A table of either kind whose columns can be renamed, by one spelling."""

    def __init__(self, kind: str, place: Path, schema: pa.Schema) -> None:
        self.kind, self.place = kind, place
        if kind == "delta":
            gl.delta.create(place, schema, properties={"delta.columnMapping.mode": "name"})
        else:
            gl.create(place, index="ts", bucket="1h", schema=schema)

    def rename(self, name: str, new: str) -> None:
        table = opened(self.kind, self.place)
        (table.alter if self.kind == "delta" else table).rename_column(name, new)

    def drop(self, name: str) -> None:
        table = opened(self.kind, self.place)
        (table.alter if self.kind == "delta" else table).drop_column(name)

    def add(self, name: str) -> None:
        table = opened(self.kind, self.place)
        (table.alter if self.kind == "delta" else table).add_column(name, pa.int64())

    def sink(self, **options: Any) -> Any:
        return sink(f"{self.kind}:{self.place}", pipeline="orders", name="main", **options)

    def rows(self) -> list[dict[str, Any]]:
        table = opened(self.kind, self.place)
        assert table.verify(deep=True).ok
        found: list[dict[str, Any]] = table.scan().to_arrow().sort_by("ts").drop_columns(["ts"]).to_pylist()
        return found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def prepared(table: Table, batch: pa.Table, **options: Any) -> Any:
    mine = table.sink(**options)
    mine.initialize(batch.schema)
    mine.write(batch)
    return mine.prepare(1)


def test_rows_go_into_the_column_by_its_new_name(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    done = prepared(table, rows(0, 2))
    table.rename("v", "value")
    table.sink().finalize(done)
    assert table.rows() == [{"id": 0, "value": 0}, {"id": 1, "value": 1}]


def test_a_name_that_another_column_took_misleads_nobody(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    done = prepared(table, rows(5, 1, 3))
    table.rename("v", "old")
    table.rename("id", "v")
    table.add("id")
    table.sink().finalize(done)
    assert table.rows() == [{"v": 2, "old": 5, "id": None}]


def test_fields_of_structs_are_found_too(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", NESTED)
    done = prepared(table, rows(0, 1).append_column(NESTED.field("s"), pa.array([{"x": 7, "y": "a"}], NESTED.field("s").type)))
    table.rename("s.x", "z")
    table.rename("s", "t")
    table.sink().finalize(done)
    assert table.rows() == [{"id": 0, "v": 0, "t": {"z": 7, "y": "a"}}]


def test_a_column_that_was_dropped_is_told_and_nothing_is_lost_silently(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    done = prepared(table, rows(0, 1))
    table.drop("v")
    with pytest.raises(SchemaMismatch, match=r"checkpoint 1 of orders/main#1.*v: not in the table.*abort"):
        table.sink().finalize(done)
    assert table.sink().pending() == [done]
    assert table.rows() == []


@pytest.mark.parametrize(("column", "mode"), [("v", "upsert"), ("id", "upsert"), ("v", "overwrite"), ("id", "delete")])
def test_a_change_that_waits_for_its_columns_names_says_so(kind: str, column: str, mode: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 1))
    options: dict[str, Any] = {} if mode == "overwrite" else {"key": ["id"]}
    done = prepared(table, rows(0, 1).select(["id"]) if mode == "delete" else rows(5, 1), mode=mode, **options)
    table.rename(column, "other")
    with pytest.raises(SchemaMismatch, match=r"checkpoint 1 of orders/main#1.*Give the columns the names back"):
        table.sink(mode=mode, **options).finalize(done)
    table.rename("other", column)
    table.sink(mode=mode, **options).finalize(done)
    assert table.rows() == ([] if mode == "delete" else [{"id": 0, "v": 5}])


def test_columns_that_were_added_or_widened_meanwhile_change_nothing(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    done = prepared(table, rows(0, 1))
    table.add("more")
    table.rename("more", "w")
    table.sink().finalize(done)
    assert table.rows() == [{"id": 0, "v": 0, "w": None}]
