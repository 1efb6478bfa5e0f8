"""Identities of columns: names of files and names of now, through every kind of nesting."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import SchemaMismatch, UnknownColumn
from gapless.model.column_ids import AS_NAMED, PLAIN, ColumnIds, change_field, find_field
from gapless.model.convert import convert
from gapless.model.fit import fit, to_declared
from gapless.model.index import IndexSpec, parse_bucket
from gapless.model.schema import adopt_schema, reconcile, stored_schema

INDEX = IndexSpec(column="k", type="int64", bucket=parse_bucket(1, "int64"))
INNER = pa.struct([("a", pa.int64()), ("b", pa.int64())])
SCHEMA = adopt_schema(
    pa.schema([("k", pa.int64()), ("x", pa.int64()), ("s", INNER), ("l", pa.list_(INNER)), ("m", pa.map_(pa.string(), INNER))]),
    INDEX,
)
IDS = ColumnIds(
    stored={("x",): "y", ("s",): "t", ("s", "a"): "b", ("s", "b"): "a", ("l", "element", "a"): "z", ("m", "value", "b"): "b~2"},
    defaults={("x",): 7, ("l", "element", "b"): 8, ("m", "value", "b"): 9},
    former={("x",): ("v", "y")},
    retired={(): frozenset({"w"})},
)


def test_files_hold_stored_names_at_every_depth() -> None:
    stored = stored_schema(SCHEMA, IDS)
    assert stored.names == ["k", "y", "t", "l", "m"]
    assert [field.name for field in stored.field("t").type] == ["b", "a"]
    assert [field.name for field in stored.field("l").type.value_type] == ["z", "b"]
    assert [field.name for field in stored.field("m").type.item_type] == ["a", "b~2"]
    assert IDS.physical_schema(SCHEMA).names == stored.names
    assert stored_schema(SCHEMA, PLAIN) == stored_schema(SCHEMA)


ROWS: list[dict[str, Any]] = [
    {"k": 1, "x": 2, "s": {"a": 3, "b": 4}, "l": [{"a": 5, "b": 6}, None], "m": [("q", {"a": 7, "b": 8})]},
    {"k": 2, "x": None, "s": None, "l": None, "m": None},
    {"k": 3, "x": 4, "s": {"a": None, "b": 1}, "l": [], "m": [("q", None), ("r", {"a": 1, "b": None})]},
]


def test_rows_go_into_a_file_and_back() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
    there = fit(batch, SCHEMA, INDEX, 0, IDS)
    assert there.schema == stored_schema(SCHEMA, IDS)
    assert there.to_pylist()[0] == {
        "k": 1, "y": 2, "t": {"b": 3, "a": 4}, "l": [{"z": 5, "b": 6}, None], "m": [("q", {"a": 7, "b~2": 8})],
    }  # fmt: skip
    back = to_declared(there, SCHEMA, ids=IDS)
    assert back.to_pylist() == ROWS
    assert back.schema.equals(SCHEMA, check_metadata=True)
    assert to_declared(pa.Table.from_batches([there]), SCHEMA, ids=IDS).to_pylist() == ROWS


def test_what_an_input_or_a_file_lacks_has_its_default_and_their_nulls_stay() -> None:
    one = pa.struct([("a", pa.int64())])
    arrays = [
        pa.array([1]),
        pa.array([[{"a": 1}, None]], pa.list_(one)),
        pa.array([[("q", {"a": 1}), ("r", None)]], pa.map_(pa.string(), one)),
    ]
    lacking = pa.RecordBatch.from_arrays(arrays, names=["k", "l", "m"])
    expected = {"k": 1, "x": 7, "s": None, "l": [{"a": 1, "b": 8}, None], "m": [("q", {"a": 1, "b": 9}), ("r", None)]}
    there = fit(lacking, SCHEMA, INDEX, 0, IDS)
    assert to_declared(there, SCHEMA, ids=IDS).to_pylist() == [expected]
    old = pa.table({"k": [1], "l": [[{"z": 1}, None]], "m": arrays[2]})
    assert to_declared(old, SCHEMA, ids=IDS).to_pylist() == [expected]


def test_a_column_is_not_read_from_another_that_has_its_name() -> None:
    """ "y" is x under its stored name; the column "x" of the file was dropped or renamed away, as "a" of s."""
    file = pa.table({"k": [1], "x": [99], "t": [{"a": 1, "b": 2}], "s": [{"a": 98, "b": 98}]})
    (row,) = to_declared(file, SCHEMA, ids=IDS).to_pylist()
    assert (row["x"], row["s"]) == (7, {"a": 2, "b": 1})


def test_what_a_file_says_is_told_by_the_names_of_now() -> None:
    said = {"k": 1, "y": 2, "x": 3, "t": 4, "s": 5, "w": 6}
    assert IDS.named(said) == {"k": 1, "x": 2, "s": 4, "w": 6}, "x and s of the file are other columns"
    assert IDS.named({"x": 3, "s": 5}) == {}
    assert PLAIN.named(said) == said


def test_swapped_names_are_told_apart() -> None:
    swapped = ColumnIds(stored={("a",): "b", ("b",): "a"})
    assert swapped.named({"a": 1, "b": 2, "c": 3}) == {"b": 1, "a": 2, "c": 3}
    assert swapped.named({"a": 1}) == {"b": 1}


def test_an_input_under_an_earlier_name_is_told_what_became_of_it() -> None:

    with pytest.raises(SchemaMismatch) as refusal:
        reconcile(
            SCHEMA,
            pa.schema([("k", pa.int64()), ("v", pa.int64()), ("y", pa.int64()), ("w", pa.int64()), ("xx", pa.int64())]),
            INDEX,
            IDS,
        )
    assert refusal.value.differences == (
        "v: not in the table: it is called 'x' now", "y: not in the table: it is called 'x' now",
        "w: not in the table: it was dropped", "xx: not in the table. Did you mean 'x'?",
    )  # fmt: skip


def test_a_name_that_two_columns_had_names_both() -> None:
    twice = ColumnIds(former={("b",): ("a",), ("c",): ("z", "a"), ("s", "d"): ("a",)})
    assert twice.was("a") == "it is called 'b' or 'c' now"
    assert twice.was("a", ("s",)) == "it is called 'd' now"
    assert twice.was("b") is None


def test_paths_move_and_go_with_all_that_is_nested() -> None:
    moved = IDS.moved(("l",), ("r",))
    assert moved.stored[("r", "element", "a")] == "z"
    assert moved.defaults[("r", "element", "b")] == 8
    assert ("l", "element", "a") not in moved.stored
    assert moved.moved(("r",), ("l",)) == IDS
    gone = IDS.without(("s",))
    assert set(gone.stored) == {("x",), ("l", "element", "a"), ("m", "value", "b")}
    assert gone.retired == IDS.retired


def test_fields_are_found_and_changed_by_path() -> None:
    assert find_field(SCHEMA, ("m", "value", "b")).type == pa.int64()
    assert find_field(SCHEMA, ()).type.num_fields == 5
    changed = change_field(SCHEMA, ("l", "element", "b"), lambda field: field.with_name("c"))
    assert changed.field("l").type == pa.list_(pa.struct([("a", pa.int64()), ("c", pa.int64())]))
    assert [field for field in changed if field.name != "l"] == [field for field in SCHEMA if field.name != "l"]
    with pytest.raises(UnknownColumn) as unknown:
        find_field(SCHEMA, ("l", "b"))
    assert (unknown.value.column, unknown.value.columns) == ("l.b", ("element",))


def test_nothing_said_is_nothing_done() -> None:
    assert not PLAIN
    assert not AS_NAMED
    assert bool(IDS)
    array = pa.array([{"a": 1, "b": 2}], INNER)
    assert convert(array, INNER) is array
