"""Columns that a sink's table lacks: refused, added or widened by policy, before the first row, and never dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import sink
from gapless.connect.sinks.evolution import AddColumn, WidenColumn, plan_evolution
from gapless.errors import InvalidChange, InvalidOption, InvalidValue, SchemaMismatch
from support.pipelines import KINDS, SCHEMA, made, opened, rows

MODES = ("append", "upsert", "overwrite", "cdc")
WIDER = SCHEMA.append(pa.field("note", pa.string()))


def sent(kind: str, place: Path, batch: pa.Table, mode: str = "append", **options: Any) -> int:
    """Rows as one checkpoint, finalized; the table's version."""
    if mode in ("upsert", "cdc"):
        options["key"] = ["id"]
    mine = sink(f"{kind}:{place}", pipeline="orders", name=mode, mode=mode, **options)
    mine.initialize(batch.schema)
    mine.write(batch)
    return mine.finalize(mine.prepare(1)).version


def noted(first: int, count: int, mode: str) -> pa.Table:
    batch = rows(first, count).append_column("note", pa.array([f"n{n}" for n in range(first, first + count)]))
    return batch.append_column("_change_type", pa.array(["insert"] * count)) if mode == "cdc" else batch


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_the_table_lacks_is_added_with_null_in_the_rows_before(kind: str, mode: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place).append(rows(0, 2))
    sent(kind, place, noted(2, 2, mode), mode, schema_evolution="add")
    found = opened(kind, place).scan().to_arrow().sort_by("v")
    assert found.schema.field("note").type == pa.string()
    notes = dict(zip(found["v"].to_pylist(), found["note"].to_pylist(), strict=True))
    assert notes == ({2: "n2", 3: "n3"} if mode == "overwrite" else {0: None, 1: None, 2: "n2", 3: "n3"})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_the_table_lacks_is_refused_where_nothing_is_said(kind: str, mode: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    before = made(kind, place).version
    with pytest.raises(SchemaMismatch, match="note"):
        sent(kind, place, noted(2, 2, mode), mode)
    assert opened(kind, place).version == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_initialize_was_not_told_is_refused_and_not_dropped(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="orders", name="main", schema_evolution="widen")
    mine.initialize(SCHEMA)
    with pytest.raises(SchemaMismatch, match="note: was not told"):
        mine.write(noted(0, 1, "append"))
    assert mine.write(rows(0, 1)) == 1


def narrow(kind: str, place: Path, **options: Any) -> Any:
    """A table whose v is an int16."""
    schema = SCHEMA.set(2, pa.field("v", pa.int16()))
    if kind == "delta":
        return gl.delta.create(place, schema, **options)
    return gl.create(place, index="ts", bucket="1h", schema=schema)


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_that_is_too_narrow_is_widened_by_that_policy_alone(kind: str, tmp_path: Path) -> None:
    place, big = tmp_path / "t", rows(5, 1).set_column(2, SCHEMA.field(2), pa.array([2**40]))
    table = narrow(kind, place, properties={"delta.enableTypeWidening": True})
    table.append(rows(0, 1).set_column(2, "v", pa.array([0], pa.int16())))
    for policy in ("refuse", "add"):
        with pytest.raises((SchemaMismatch, InvalidValue)):
            sent(kind, place, big, schema_evolution=policy)
    sent(kind, place, big, schema_evolution="widen")
    found = opened(kind, place).scan().to_arrow()
    assert found.schema.field("v").type == pa.int64()
    assert sorted(found["v"].to_pylist()) == [0, 2**40]


def test_a_delta_table_whose_types_may_not_be_widened_says_how_it_may(tmp_path: Path) -> None:
    narrow("delta", tmp_path / "t")
    mine = sink(f"delta:{tmp_path / 't'}", pipeline="orders", name="main", schema_evolution="widen")
    with pytest.raises(InvalidChange, match="enableTypeWidening"):
        mine.initialize(SCHEMA)


@pytest.mark.parametrize("kind", KINDS)
def test_two_sinks_that_add_one_column_both_go_on(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    sinks = [sink(f"{kind}:{place}", pipeline="p", name=name, schema_evolution="add") for name in ("a", "b")]
    for number, one in enumerate(sinks):
        one.initialize(WIDER)
        one.write(noted(number, 1, "append"))
    for one in sinks:
        one.finalize(one.prepare(1))
    assert sorted(opened(kind, place).scan().to_arrow()["note"].to_pylist()) == ["n0", "n1"]


def test_a_policy_that_is_not_known_or_means_nothing_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no option of mode"):
        sink("delta:t", pipeline="p", name="n", mode="delete", key="id", schema_evolution="add")
    with pytest.raises(InvalidOption, match="Did you mean 'widen'"):
        sink("delta:t", pipeline="p", name="n", schema_evolution="widn")


def test_fields_of_structs_and_what_lists_and_maps_hold_evolve_too() -> None:
    table = pa.schema([("a", pa.struct([("x", pa.int32())])), ("l", pa.list_(pa.struct([("y", pa.int8())])))])
    came = pa.schema(
        [("a", pa.struct([("x", pa.int64()), ("z", pa.string())])), ("l", pa.list_(pa.struct([("w", pa.bool_())])))]
    )
    added = [AddColumn(("a", "z"), pa.string()), AddColumn(("l", "element", "w"), pa.bool_())]
    assert plan_evolution(table, came, "add") == added
    widened = WidenColumn(("a", "x"), pa.int64(), by_value=False)
    assert plan_evolution(table, came, "widen") == [widened, *added]
    assert plan_evolution(table, came, "refuse") == []
    assert plan_evolution(pa.schema([]), came, "widen") == []


@pytest.mark.parametrize(
    ("table", "came", "wider"),
    [
        (pa.int8(), pa.uint8(), pa.int16()),
        (pa.int64(), pa.int8(), None),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.int64(), pa.uint64(), None),
        (pa.int64(), pa.string(), None),
        (pa.string(), pa.large_string(), None),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    ],
)
def test_type_12_the_narrowest_type_that_holds_both(table: pa.DataType, came: pa.DataType, wider: pa.DataType | None) -> None:
    steps = plan_evolution(pa.schema([("x", table)]), pa.schema([("x", came)]), "widen")
    assert [one.type for one in steps] == ([] if wider is None else [wider])


def test_names_of_delta_columns_match_in_any_case_and_keys_keep_their_types() -> None:
    table, came = pa.schema([("Fare", pa.int32())]), pa.schema([("fare", pa.int64())])
    assert plan_evolution(table, came, "widen", any_case=True)[0].path == ("Fare",)
    assert plan_evolution(table, came, "add") == [AddColumn(("fare",), pa.int64())]
    assert plan_evolution(came, pa.schema([("fare", pa.float64())]), "widen", fixed=("fare",)) == []
