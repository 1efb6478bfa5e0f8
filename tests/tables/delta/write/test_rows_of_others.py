"""Rows changed in tables that delta-spark and deltalake wrote, one for each feature."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import InvalidValue, UnsupportedTable
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted_table
from support.delta_tables import rows_of

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "delta"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/expected.json"))
APART = {"spark_identity", "spark_generated_by_hash"}
"""Their first column cannot be given other values here; see below."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in APART])
def test_one_row_is_updated_and_another_deleted(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    shutil.copytree(FIXTURES / name / "table", path)
    table = DeltaTable.open(path)
    before = table.scan().to_arrow()
    column = next(field.name for field in before.schema if pa.types.is_integer(field.type))
    values = before.column(column).to_pylist()
    known = [value for value in values if value is not None]
    first, last = known[0], known[-1]
    gone = f'"{column}" = {last}'
    free = next(number for number in range(1, 100) if number not in values)
    merge = table.merge({column: [free, first]}, f't."{column}" = s."{column}"')
    assert merge.when_matched_update({column: free}).execute().updated_rows == values.count(first)
    assert table.delete(gone).removed_rows == (0 if first == last else values.count(last))
    assert table.dedup().removed_rows == 0
    at, field = before.schema.get_field_index(column), before.schema.field(column)
    after = before.set_column(at, field, pa.array([free if one == first else one for one in values], field.type))
    keep = pa.array([one == first or one != last for one in values])
    generated = [
        field.name for field in table._snapshot.state.metadata.schema if "delta.generationExpression" in field.metadata
    ]
    kept = after.filter(keep).drop_columns(generated)
    assert counted_table(table.scan(columns=kept.column_names).to_arrow()) == counted_table(kept)
    assert rows_of(DeltaTable.open(path)) == rows_of(table)


def opened(tmp_path: Path, name: str) -> DeltaTable:
    shutil.copytree(FIXTURES / name / "table", tmp_path / name)
    return DeltaTable.open(tmp_path / name)


def test_what_a_generated_column_needs_is_refused_naming_it_alone_and_the_rest_is_done(tmp_path: Path) -> None:
    """`h` is hash(id), which Spark alone computes; `n` is id + 1."""
    table = opened(tmp_path, "spark_generated_by_hash")
    before = {row["id"]: row for row in table.scan().to_pylist()}
    needs: list[Callable[[], Any]] = [
        lambda: table.append([{"id": 9, "v": "z", "p": "x"}]),
        lambda: table.append(pa.table({"id": [9], "h": pa.array([1], pa.int32()), "v": ["z"], "p": ["x"]})),
        lambda: table.update({"id": "id + 1"}),
        lambda: table.update({"h": 5}),
        lambda: table.merge([{"id": 9, "v": "z", "p": "x"}], on="t.id = s.id").when_not_matched_insert_all().execute(),
        lambda: table.overwrite([{"id": 9, "v": "z", "p": "x"}], where="id = 9"),
    ]
    for need in needs:
        with pytest.raises(UnsupportedTable, match=r"h.*hash\(id\).*cannot be computed here") as refused:
            need()
        assert "id + 1" not in str(refused.value)
    assert table.version == 2
    assert table.update({"v": "'w'"}, where="id = 1").updated_rows == 1
    merge = table.merge([{"id": 2, "v": "m"}], on="t.id = s.id")
    assert merge.when_matched_update({"v": "s.v"}).execute().updated_rows == 1
    table.compact()
    table.zorder(["id"])
    assert table.delete("id = 2").removed_rows == 1
    assert table.delete("p = 'y'").removed_rows == 1
    table.checkpoint()
    assert table.vacuum().dry_run
    table.alter.add_column("more", "string")
    assert table.scan().to_pylist() == [{**before[1], "v": "w", "more": None}]
    table.restore(2)
    assert {row["id"]: row for row in table.scan().to_pylist()} == before


def test_an_always_counted_column_keeps_its_values_and_takes_none(tmp_path: Path) -> None:
    table = opened(tmp_path, "spark_identity")
    refused: list[Callable[[], Any]] = [
        lambda: table.append([{"v": "z"}]),
        lambda: table.append([{"id": 99, "v": "z"}]),
        lambda: table.update({"id": 99}),
        lambda: table.merge([{"id": 99, "v": "z"}], on="t.id = s.id").when_not_matched_insert_all().execute(),
    ]
    for write in refused:
        with pytest.raises(UnsupportedTable, match=r"'id' is .*(IDENTITY|identity column)"):
            write()
    schema = (tmp_path / "spark_identity" / "_delta_log" / f"{2:020}.json").read_text()
    assert table.update({"v": "'w'"}, where="id = 10").updated_rows == 1
    assert table.delete("id = 15").removed_rows == 1
    table.compact()
    table.checkpoint()
    assert table.vacuum().dry_run
    assert sorted((row["id"], row["v"]) for row in table.scan().to_pylist()) == [(10, "w"), (20, "c")]
    mark = table._snapshot.state.metadata.schema.fields[0].metadata["delta.identity.highWaterMark"]
    assert mark == 20
    assert f'highWaterMark\\":{mark}' in schema


def test_a_column_that_is_counted_by_default_takes_values_and_is_not_counted(tmp_path: Path) -> None:
    table = opened(tmp_path, "spark_identity_by_default")
    with pytest.raises(UnsupportedTable, match="'id' is an identity column, whose values this release does not count"):
        table.append([{"v": "z"}])
    assert table.append([{"id": 7, "v": "z"}]).rows == 1
    assert table.update({"id": "id + 1000"}, where="id = 7").updated_rows == 1
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2, 100, 1007]
    assert table._snapshot.state.metadata.schema.fields[0].metadata["delta.identity.highWaterMark"] == 2


def test_texts_of_spark_are_generated_as_spark_does(tmp_path: Path) -> None:
    table = opened(tmp_path, "spark_generated_texts")
    (first,) = (row for row in table.scan().to_pylist() if row["id"] == 1)
    table.append([{"id": 3, "name": first["name"], "at": first["at"]}])
    (ours,) = (row for row in table.scan().to_pylist() if row["id"] == 3)
    assert {**ours, "id": 1} == first
    assert first["up"] == "ABSS"
    with pytest.raises(InvalidValue, match="row 0 breaks the generated column 'up'"):
        table.append([{"id": 4, "name": "a", "up": "b"}])
