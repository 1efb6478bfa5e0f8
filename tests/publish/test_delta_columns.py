"""Columns of tables that are published as Delta: types that older files hold, what field metadata says, and which have statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, NotSupported, UnsupportedType
from gapless.publish.delta.publisher import DeltaPublisher
from support.clocked_table import NOON_NS

HOUR_US = 3_600_000_000


def rows(hour: int, **columns: pa.Array) -> pa.Table:
    """A row an hour from `hour` on, with these columns."""
    count = len(next(iter(columns.values())))
    times = pa.array([NOON_NS // 1_000 + (hour + n) * HOUR_US for n in range(count)], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, **columns})


def created(path: Path, **properties: object) -> gl.TimeSeriesTable:
    return gl.create(path / "t", index="ts", bucket="1h", properties={"publish": ["delta"], **properties})


def described(table: gl.TimeSeriesTable) -> Any:
    """The newest metadata of the Delta table, and that it is that of the newest version."""
    (publication,) = table.publish()
    assert publication.behind == 0
    found = DeltaPublisher(table._env)._newest()
    assert found is not None
    return found.state.metadata


def type_changes(table: gl.TimeSeriesTable, name: str) -> list[dict[str, str]]:
    return list(described(table).schema.field(name).metadata.get("delta.typeChanges", ()))


def test_widenings_of_before_it_was_published_are_told(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[])
    old = {"i": pa.array([1, 2], pa.int16()), "s": [{"x": 1.5}, None]}
    table.append(rows(0, **old, f=pa.array([1.5, 2.5], pa.float32())))
    table.widen_column("i", "int32")
    table.append(rows(5, i=pa.array([2**20], pa.int32()), f=pa.array([0.5], pa.float32()), s=[{"x": 0.1}]))
    table.widen_column("i", "int64")
    table.widen_column("f", "float64")
    table.rename_column("i", "n")
    table.set_properties({"publish": ["delta"]})
    told = [(change["fromType"], change["toType"]) for change in type_changes(table, "n")]
    assert told == [("short", "long"), ("integer", "long")]
    assert type_changes(table, "f") == [{"fromType": "float", "toType": "double"}]
    assert type_changes(table, "s") == []
    assert described(table).configuration["delta.enableTypeWidening"] == "true"
    table.compact()
    assert len(type_changes(table, "n")) == 2, "files of older versions hold it"


def test_a_widening_of_before_that_delta_lacks_is_refused_with_the_remedy(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[])
    table.append(rows(0, i=pa.array([1, 2], pa.int16())))
    table.widen_column("i", "float32")
    with pytest.raises(UnsupportedType, match=r"'i' cannot become float .* no step from short to float.* --rewrite") as error:
        table.set_properties({"publish": ["delta"]})
    assert (error.value.column, table.refresh().version) == ("i", 3)


def test_what_is_in_lists_and_maps_is_widened(tmp_path: Path) -> None:
    table = created(tmp_path)
    map_type = pa.map_(pa.string(), pa.int32())
    item = pa.struct([("x", pa.int16())])
    table.append(
        rows(
            0,
            l=pa.array([[1], None], pa.list_(pa.int32())),
            m=pa.array([[("k", 1)], None], map_type),
            d=pa.array([[{"x": 1}], None], pa.list_(item)),
        )
    )
    table.widen_column("l.element", "int64")
    table.widen_column("m.value", "float64")
    table.widen_column("d.element.x", "int32")
    assert type_changes(table, "l") == [{"fromType": "integer", "toType": "long", "fieldPath": "element"}]
    assert type_changes(table, "m") == [{"fromType": "integer", "toType": "double", "fieldPath": "value"}]
    (inner,) = described(table).schema.field("d").type.element.fields
    assert inner.metadata["delta.typeChanges"] == [{"fromType": "short", "toType": "integer"}]


def test_a_restore_from_one_branch_of_types_to_another_is_published(tmp_path: Path) -> None:
    table = created(tmp_path)
    table.append(rows(0, i=pa.array([1, 2], pa.int32())))
    first = table.version
    table.widen_column("i", "float64")
    table.append(rows(5, i=pa.array([0.5])))
    second = table.version
    table.restore(first)
    table.widen_column("i", "int64")
    table.append(rows(9, i=pa.array([2**40])))
    third = table.version
    table.restore(second)
    assert [change["toType"] for change in type_changes(table, "i")] == ["double"]
    table.restore(third)
    assert ("integer", "long") in [(change["fromType"], change["toType"]) for change in type_changes(table, "i")]
    assert gl.delta.open(tmp_path / "t").scan().to_arrow()["i"].to_pylist() == [1, 2, 2**40]


def test_a_restore_that_brings_back_what_delta_lacks_is_refused_beforehand(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[])
    table.append(rows(0, i=pa.array([1, 2], pa.int16())))
    narrow = table.version
    table.widen_column("i", "float32")
    wide = table.version
    table.restore(narrow)
    table.set_properties({"publish": ["delta"]})
    before = table.version
    with pytest.raises(UnsupportedType, match="no step from short to float"):
        table.restore(wide)
    assert table.refresh().version == before


def test_a_restore_brings_files_back_that_were_never_described(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[])
    table.append(rows(0, i=pa.array([1, 2], pa.int16())))
    table.widen_column("i", "int64")
    widened = table.version
    table.delete("true")
    table.append(rows(5, i=pa.array([3])))
    table.set_properties({"publish": ["delta"]})
    assert type_changes(table, "i") == []
    table.restore(widened)
    assert type_changes(table, "i") == [{"fromType": "short", "toType": "long"}]


def test_field_metadata_of_other_writers_is_not_published(tmp_path: Path) -> None:
    odd = {"delta.generationExpression": "1", "CURRENT_DEFAULT": "7", "delta.type": "variant", "comment": "what it is"}
    nested = pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
    fields = [
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("v", nested, metadata=odd),
        pa.field("l", pa.list_(pa.field("element", pa.int64(), metadata={"delta.identity.start": "1"}))),
    ]
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", schema=pa.schema(fields), properties={"publish": ["delta"]})
    schema = described(table).schema
    assert [dict(field.metadata) for field in schema] == [{}, {"comment": "what it is"}, {}]
    assert type(schema.field("v").type).__name__ == "StructType"


def stats_columns(table: gl.TimeSeriesTable) -> str | None:
    found: str | None = described(table).configuration.get("delta.dataSkippingStatsColumns")
    return found


def test_columns_without_bounds_in_a_file_are_taken_out_of_the_statistics(tmp_path: Path) -> None:
    table = created(tmp_path)
    fine = {"x": pa.array([1.0, 2.0]), "s": ["a", "b"], "b": pa.array([b"a", b"b"]), "i": [1, 2]}
    table.append(rows(0, **fine))
    assert stats_columns(table) is None
    table.append(rows(5, x=pa.array([None, None], pa.float64()), s=["a", None], b=pa.array([None, b"b"]), i=[1, None]))
    assert stats_columns(table) is None, "what is null in all rows needs no bounds"
    table.append(rows(10, **{**fine, "x": pa.array([1.0, float("nan")])}))
    assert stats_columns(table) == "ts,s,i"
    table.rename_column("s", "text of it")
    assert stats_columns(table) == "ts,i"
    table.add_column("late", "int64")
    assert stats_columns(table) == "ts,i", "files of before say nothing of it"
    version = described(table)
    stats = [json.loads(file.stats or "") for file in DeltaPublisher(table._env)._newest().state.files.values()]  # type: ignore[union-attr]
    assert all({"ts", "i"} <= one["minValues"].keys() == one["maxValues"].keys() for one in stats)
    assert version.configuration["delta.columnMapping.mode"] == "name"


def test_it_begins_anew_with_the_columns_that_have_bounds(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[])
    table.append(rows(0, x=pa.array([1.0, float("nan")]), i=[1, 2]))
    table.set_properties({"publish": ["delta"]})
    assert stats_columns(table) == "ts,i"
    table.delete("true")
    table.append(rows(0, x=pa.array([1.0, 2.0]), i=[1, 2]))
    assert stats_columns(table) is None, "no file is left that lacks one"


def test_a_rewrite_makes_what_could_not_be_published_so(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[], inline_bytes=100_000)
    table.append(rows(0, i=pa.array([1, 2], pa.int16()), f=pa.array([1, 2], pa.int16())))
    table.compact()
    table.append(rows(5, i=pa.array([3], pa.int16()), f=pa.array([3], pa.int16())))
    table.widen_column("i", "int64")
    table.append(rows(9, i=[2**40], f=pa.array([4], pa.int16())))
    with pytest.raises(NotSupported, match="2 appends lie in the log") as inlined:
        table.set_properties({"publish": ["delta"], "inline_bytes": 0})
    assert "rewrite=True" in inlined.value.fix
    before = table.scan().to_arrow()
    first = table.segments()[0].path
    table.set_properties({"publish": ["delta"], "inline_bytes": 0}, rewrite=True)
    assert first in {segment.path for segment in table.segments()}, "a widening that Delta has is no reason to write it again"
    assert type_changes(table, "i") == [{"fromType": "short", "toType": "long"}]
    assert gl.delta.open(tmp_path / "t").scan().to_arrow().sort_by("ts").to_pylist() == before.sort_by("ts").to_pylist()


def test_a_rewrite_takes_a_step_that_delta_lacks(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[])
    table.append(rows(0, i=pa.array([1, 2], pa.int16())))
    table.widen_column("i", "float32")
    table.append(rows(5, i=pa.array([0.5], pa.float32())))
    kept = table.segments()[1].path
    table.set_properties({"publish": ["delta"]}, rewrite=True)
    assert [kept in segment.path for segment in table.segments()].count(True) == 1
    assert type_changes(table, "i") == []
    assert gl.delta.open(tmp_path / "t").scan().to_arrow().sort_by("ts")["i"].to_pylist() == [1, 2, 0.5]
    version = table.version
    table.set_properties({"publish": ["delta"]}, rewrite=True)
    assert table.version == version


def test_a_rewrite_does_not_begin_where_nothing_helps(tmp_path: Path) -> None:
    table = created(tmp_path, publish=[], inline_bytes=100_000)
    table.append(rows(0, t=pa.array([1], pa.time64("us"))))
    with pytest.raises(UnsupportedType, match="'t' of type time64"):
        table.set_properties({"publish": ["delta"], "inline_bytes": 0}, rewrite=True)
    assert table.refresh().version == 2


@pytest.mark.parametrize("first", [{"publish": ["delta"]}, {"inline_bytes": 1000}])
def test_rows_in_the_log_and_publishing_exclude_each_other(tmp_path: Path, first: dict[str, object]) -> None:
    other = {"inline_bytes": 1000} if "publish" in first else {"publish": ["delta"]}
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=first)
    with pytest.raises(InvalidOption, match="exclude each other"):
        table.set_properties(other)
    with pytest.raises(InvalidOption, match="exclude each other"):
        gl.create(tmp_path / "u", index="ts", bucket="1h", properties={**first, **other})
