"""Columns that are renamed between prepare and finalize: rows go where their column went, and names that another column has now mislead nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import sink
from gapless.errors import SchemaMismatch
from gapless.runtime.committer import Committer
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


CHANGED = [("v", "upsert"), ("id", "upsert"), ("v", "overwrite"), ("id", "delete"), ("id", "cdc"), ("v", "cdc")]


def change_of(mode: str) -> tuple[dict[str, Any], pa.Table]:
    """Options of a sink, and the change of the row with id 0, of which `v` becomes 5."""
    options: dict[str, Any] = {"mode": mode} if mode == "overwrite" else {"mode": mode, "key": ["id"]}
    batch = rows(0, 1).select(["id"]) if mode == "delete" else rows(5, 1).set_column(0, SCHEMA.field(0), rows(0, 1)["ts"])
    return options, batch.append_column("_change_type", pa.array(["insert"])) if mode == "cdc" else batch


@pytest.mark.parametrize(("column", "mode"), CHANGED)
def test_a_change_follows_columns_that_were_renamed(kind: str, column: str, mode: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 1))
    options, batch = change_of(mode)
    done = prepared(table, batch, **options)
    table.rename(column, "other")
    assert table.sink(**options).finalize(done).late_rows == 0
    name = {column: "other"}
    assert table.rows() == ([] if mode == "delete" else [{name.get("id", "id"): 0, name.get("v", "v"): 5}])


@pytest.mark.parametrize("mode", ["upsert", "overwrite", "cdc"])
def test_a_change_goes_into_the_column_that_lost_its_name_to_another(kind: str, mode: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA.append(pa.field("z", pa.int64())))
    opened(kind, table.place).append(rows(0, 1).append_column("z", pa.array([7])))
    options, batch = change_of(mode)
    done = prepared(table, batch.append_column("z", pa.array([8])), **options)
    table.rename("v", "q")
    table.rename("z", "v")
    table.sink(**options).finalize(done)
    assert table.rows() == [{"id": 0, "q": 5, "v": 8}]


def test_keys_and_their_order_follow_their_columns_too(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 3))
    options = {"mode": "upsert", "key": "id", "order_by": "v"}
    done = prepared(table, rows(6, 1), **options)  # id 1
    table.rename("id", "w")
    table.rename("v", "id")
    table.rename("w", "v")
    assert table.sink(**options).finalize(done).late_rows == 0
    assert sorted((one["v"], one["id"]) for one in table.rows()) == [(0, 0), (1, 6), (2, 2)]


@pytest.mark.parametrize("mode", ["upsert", "overwrite", "cdc", "delete"])
def test_a_column_that_was_dropped_and_added_again_is_another_one(kind: str, mode: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 1))
    options, batch = change_of(mode)
    column = "id" if mode == "delete" else "v"
    done = prepared(table, batch, **options)
    table.drop(column)
    table.add(column)
    before = opened(kind, table.place).version
    with pytest.raises(SchemaMismatch, match=rf"checkpoint 1 of orders/main#1.*{column}.* not in the table any more") as caught:
        table.sink(**options).finalize(done)
    assert any(column in one for one in caught.value.differences)
    assert opened(kind, table.place).version == before
    mine = table.sink(**options)
    assert mine.pending() == [done]
    mine.initialize(batch.schema)
    assert mine.abort(done)
    assert mine.pending() == []


def test_a_new_column_of_the_rows_never_meets_one_that_took_its_name(tmp_path: Path) -> None:
    table = Table("delta", tmp_path / "t", SCHEMA)
    opened("delta", table.place).append(rows(0, 1))
    options = {"mode": "upsert", "key": "id", "schema_mode": "merge"}
    done = prepared(table, rows(5, 1).append_column("new", pa.array([9])).drop_columns(["v"]), **options)
    table.rename("v", "new")
    with pytest.raises(SchemaMismatch, match="new: is a column of that name which was called otherwise"):
        table.sink(**options).finalize(done)
    assert table.rows() == [{"id": 0, "new": 0}]


@pytest.mark.parametrize("mode", ["upsert", "overwrite", "cdc"])
def test_fields_of_structs_follow_in_changes_too(kind: str, mode: str, tmp_path: Path) -> None:
    listed = NESTED.append(pa.field("l", pa.list_(pa.struct([("x", pa.int64())]))))
    table = Table(kind, tmp_path / "t", listed)
    options, batch = change_of(mode)
    batch = batch.append_column(listed.field("s"), pa.array([{"x": 7, "y": "a"}], listed.field("s").type))
    batch = batch.append_column(listed.field("l"), pa.array([[{"x": 1}, {"x": 2}]], listed.field("l").type))
    done = prepared(table, batch, **options)
    table.rename("s.x", "z")
    table.rename("s.y", "x")
    table.rename("s", "t")
    table.rename("l.element.x", "w")
    table.sink(**options).finalize(done)
    assert table.rows() == [{"id": 0, "v": 5, "t": {"z": 7, "x": "a"}, "l": [{"w": 1}, {"w": 2}]}]


def test_a_condition_follows_its_columns(tmp_path: Path) -> None:
    table = Table("delta", tmp_path / "t", SCHEMA)
    opened("delta", table.place).append(rows(0, 3))
    options = {"mode": "overwrite", "where": "V < 2 and abs(id) >= 0"}
    done = prepared(table, rows(0, 1), **options)
    table.rename("id", "w")
    table.rename("v", "id")
    table.rename("w", "v")
    table.sink(**options).finalize(done)
    assert table.rows() == [{"v": 0, "id": 0}, {"v": 2, "id": 2}]


def test_a_condition_on_a_field_with_another_name_is_refused(tmp_path: Path) -> None:
    table = Table("delta", tmp_path / "t", NESTED)
    options = {"mode": "overwrite", "where": "s.x = 7"}
    batch = rows(0, 1).append_column(NESTED.field("s"), pa.array([{"x": 7, "y": "a"}], NESTED.field("s").type))
    done = prepared(table, batch, **options)
    table.rename("s.x", "z")
    with pytest.raises(SchemaMismatch, match="where 's' has a field 'x', which is called 'z' now"):
        table.sink(**options).finalize(done)
    table.rename("s.z", "x")
    table.sink(**options).finalize(done)
    assert table.rows() == [{"id": 0, "v": 0, "s": {"x": 7, "y": "a"}}]


@pytest.mark.parametrize("mode", ["upsert", "delete", "cdc", "overwrite"])
def test_names_exchanged_while_a_commit_is_under_way_mislead_nobody(
    kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 3))
    options, batch = change_of(mode)
    done = prepared(table, batch, **options)
    mine, honest, left = table.sink(**options), Committer.commit, [True]

    def commit(self: Any, snapshot: Any, proposal: Any) -> Any:
        if left and (left.pop() or True):
            table.rename("v", "w")
            table.rename("id", "v")
            table.rename("w", "id")
        return honest(self, snapshot, proposal)

    mine.pending()
    monkeypatch.setattr(Committer, "commit", commit)
    mine.finalize(done)
    found = sorted((one["v"], one["id"]) for one in table.rows())
    expected = {"delete": [(1, 1), (2, 2)], "overwrite": [(0, 5)]}
    assert found == expected.get(mode, [(0, 5), (1, 1), (2, 2)])


@pytest.mark.parametrize("column", ["id", "v"])
@pytest.mark.parametrize("mode", ["upsert", "delete", "cdc", "overwrite"])
def test_a_column_renamed_while_a_commit_is_under_way_is_followed(
    kind: str, mode: str, column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 3))
    options, batch = change_of(mode)
    done = prepared(table, batch, **options)
    honest, left = Committer.commit, [True]

    def commit(self: Any, snapshot: Any, proposal: Any) -> Any:
        if left and (left.pop() or True):
            table.rename(column, "w")
        return honest(self, snapshot, proposal)

    mine = table.sink(**options)
    mine.pending()
    monkeypatch.setattr(Committer, "commit", commit)
    mine.finalize(done)
    id_, v = ("w", "v") if column == "id" else ("id", "w")
    found = sorted((one[id_], one[v]) for one in table.rows())
    expected = {"delete": [(1, 1), (2, 2)], "overwrite": [(0, 5)]}
    assert found == expected.get(mode, [(0, 5), (1, 1), (2, 2)])
    log = opened(kind, table.place)
    named = {one.path for version in range(1, log.version + 1) for one in files_of(kind, table.place, version)}
    assert {str(path.relative_to(table.place)) for path in table.place.rglob("*.parquet") if "_log" not in str(path)} <= named


def files_of(kind: str, place: Path, version: int) -> list[Any]:
    table = opened(kind, place).at(version=version)
    return list(table.files() if kind == "delta" else table.segments())


def test_documents_that_say_nothing_of_columns_go_by_names(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 1))
    options, batch = change_of("upsert")
    done = prepared(table, batch, **options)
    older = replace(done, staged={"checksums": done.staged["checksums"]})
    table.rename("v", "other")
    with pytest.raises(SchemaMismatch, match=r"checkpoint 1 of orders/main#1.*Give the columns the names back"):
        table.sink(**options).finalize(older)
    table.rename("other", "v")
    table.sink(**options).finalize(older)
    assert table.rows() == [{"id": 0, "v": 5}]


def test_columns_that_were_added_or_widened_meanwhile_change_nothing(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    done = prepared(table, rows(0, 1))
    table.add("more")
    table.rename("more", "w")
    table.sink().finalize(done)
    assert table.rows() == [{"id": 0, "v": 0, "w": None}]


def test_a_column_that_was_dropped_is_back_after_a_restore(kind: str, tmp_path: Path) -> None:
    table = Table(kind, tmp_path / "t", SCHEMA)
    opened(kind, table.place).append(rows(0, 1))
    options, batch = change_of("upsert")
    done = prepared(table, batch, **options)
    version = opened(kind, table.place).version
    table.drop("v")
    with pytest.raises(SchemaMismatch, match="v: not in the table any more"):
        table.sink(**options).finalize(done)
    opened(kind, table.place).restore(version)
    table.sink(**options).finalize(done)
    assert table.rows() == [{"id": 0, "v": 5}]
