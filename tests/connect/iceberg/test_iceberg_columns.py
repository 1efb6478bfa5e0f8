"""An Iceberg table whose columns or partitions change between prepare and finalize, or before the first row: one line a change.

Whatever comes of it, no file of what was refused is named by the table, and none is left after the abort.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, LongType, StringType

import gapless as gl
from gapless.errors import GaplessError, InvalidChange, SchemaMismatch, UnsupportedType
from support import iceberg_tables

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("text", pa.string()), ("s", pa.struct([("x", pa.int64())]))])
ROWS = pa.table(
    {"id": [1, 2, 3], "n": [10, 20, 30], "text": ["a", None, "c"], "s": [{"x": 5}, None, {"x": None}]}, schema=SCHEMA
)
OLD = pa.table({"id": [3], "n": [0], "text": ["old"], "s": [{"x": 0}]}, schema=SCHEMA)


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table with one row, which a sink made."""
    made(str(tmp_path / "t"), "append", create={}).initialize(SCHEMA)
    iceberg_tables.Handle(str(tmp_path / "t"), None).append(OLD)
    return str(tmp_path / "t")


def made(place: str, mode: str, **options: Any) -> gl.connect.Sink:
    key = {} if mode in ("append", "overwrite") else {"key": "id"}
    return gl.connect.sink(f"iceberg:{place}", pipeline="orders", mode=mode, **{**key, **options})


def table(place: str) -> Any:
    return iceberg_tables.Handle(place, None).table


def rows(place: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(place).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: repr(sorted(row.items(), key=lambda item: item[0])))


def change(place: str, act: Callable[[Any], object], **options: Any) -> None:
    with table(place).update_schema(**options) as update:
        act(update)


def parted(place: str) -> None:
    with table(place).update_spec() as update:
        update.add_field("id", BucketTransform(2), "id_bucket")


def required(place: str) -> None:
    change(place, lambda update: update.add_column("must", LongType(), required=True), allow_incompatible_changes=True)


Case = tuple[Callable[[str], None], Callable[[dict[str, Any]], dict[str, Any]]]


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: {new if name == old else name: value for name, value in row.items()}


def renamed_and_again(place: str) -> None:
    change(place, lambda update: update.rename_column("text", "label"))
    change(place, lambda update: update.add_column("text", DoubleType()))


TAKEN: dict[str, Case] = {
    "rename": (lambda place: change(place, lambda update: update.rename_column("text", "label")), renamed("text", "label")),
    "rename the key": (lambda place: change(place, lambda update: update.rename_column("id", "key")), renamed("id", "key")),
    "rename, and give the name again": (renamed_and_again, lambda row: renamed("text", "label")(row) | {"text": None}),
    "rename a field": (
        lambda place: change(place, lambda update: update.rename_column("s.x", "y")),
        lambda row: row | {"s": None if row["s"] is None else {"y": row["s"]["x"]}},
    ),
    "add": (
        lambda place: change(place, lambda update: update.add_column("more", StringType())),
        lambda row: row | {"more": None},
    ),
    "widen": (lambda place: change(place, lambda update: update.update_column("n", LongType())), lambda row: row),
    "move": (lambda place: change(place, lambda update: update.move_first("text")), lambda row: row),
    "other partitions": (parted, lambda row: row),
}


def dropped(place: str, column: str, *more: Callable[[Any], object]) -> None:
    for act in (*more[:1], lambda update: update.delete_column(column), *more[1:]):
        change(place, act)


REFUSED: dict[str, Callable[[str], None]] = {
    "drop": lambda place: dropped(place, "text"),
    "drop, and give the name again": lambda place: dropped(
        place, "text", lambda update: update, lambda update: update.add_column("text", StringType())
    ),
    "drop a field": lambda place: dropped(place, "s.x", lambda update: update.add_column(("s", "z"), LongType())),
    "a column that may not be null": required,
}


@pytest.mark.parametrize("mode", ["append", "upsert", "cdc", "overwrite"])
@pytest.mark.parametrize("name", TAKEN)
def test_a_change_that_is_followed(place: str, mode: str, name: str) -> None:
    act, wanted = TAKEN[name]
    sink = made(place, mode)
    given = ROWS if mode != "cdc" else ROWS.append_column("_change_type", [["insert"] * 3])
    sink.initialize(given.schema)
    sink.write(given)
    prepared = sink.prepare(1)
    act(place)
    assert not sink.finalize(prepared).already_committed
    kept = OLD.to_pylist() if mode == "append" else []
    assert rows(place) == sorted(
        map(wanted, [*kept, *ROWS.to_pylist()]), key=lambda row: repr(sorted(row.items(), key=lambda item: item[0]))
    )
    assert made(place, mode).pending() == []
    assert {str(path) for path in (Path(place) / "_prepared").rglob("*.*")} == set()


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_refuses_what_was_prepared(place: str, mode: str, name: str) -> None:
    before = files(place)
    sink = made(place, mode)
    sink.initialize(SCHEMA)
    sink.write(ROWS)
    prepared = sink.prepare(1)
    REFUSED[name](place)
    snapshots = len(table(place).snapshots())
    for _ in range(2):
        with pytest.raises(SchemaMismatch):
            sink.finalize(prepared)
    assert len(table(place).snapshots()) == snapshots
    assert sink.abort(prepared)
    assert files(place) == before
    assert [task.file.record_count for task in table(place).scan().plan_files()] == [1]


def files(place: str) -> set[str]:
    """All that lies beside the metadata."""
    found = {str(path.relative_to(place)) for path in Path(place).rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("metadata/")}


Wanted = type[GaplessError] | str
BEFORE: list[tuple[str, pa.DataType, str, Wanted]] = [
    ("more", pa.string(), "refuse", SchemaMismatch),
    ("more", pa.string(), "add", "string"),
    ("more", pa.list_(pa.int32()), "add", "list"),
    ("more", pa.uint64(), "add", UnsupportedType),
    ("n", pa.int64(), "refuse", SchemaMismatch),
    ("n", pa.int64(), "add", SchemaMismatch),
    ("n", pa.int64(), "widen", "long"),
    ("n", pa.float64(), "widen", InvalidChange),
    ("n", pa.string(), "widen", SchemaMismatch),
    ("id", pa.string(), "widen", SchemaMismatch),
    ("id", pa.int32(), "widen", "long"),
    ("text", pa.int64(), "widen", SchemaMismatch),
]


@pytest.mark.parametrize(("name", "type_", "policy", "wanted"), BEFORE, ids=lambda one: str(getattr(one, "__name__", one)))
def test_rows_of_other_columns(place: str, name: str, type_: pa.DataType, policy: str, wanted: Wanted) -> None:
    before, versions = files(place), len(list(Path(place).glob("metadata/v*.json")))
    sink = made(place, "append", schema_evolution=policy)
    fields = {field.name: field.type for field in SCHEMA} | {name: type_}
    schema = pa.schema(list(fields.items()))
    if not isinstance(wanted, str):
        with pytest.raises(wanted):
            sink.initialize(schema)
        assert files(place) == before
        assert len(list(Path(place).glob("metadata/v*.json"))) == versions
        return
    sink.initialize(schema)
    sink.write(pa.table({one: pa.nulls(1, type_) for one, type_ in fields.items()}, schema=schema))
    sink.finalize(sink.prepare(1))
    assert str(table(place).schema().find_type(name)).startswith(wanted)
    assert table(place).scan().to_arrow().num_rows == 2


def test_columns_that_came_meanwhile_keep_the_values_of_the_replaced_row(place: str) -> None:
    sink = made(place, "upsert")
    sink.initialize(SCHEMA)
    sink.write(ROWS)
    prepared = sink.prepare(1)
    change(place, lambda update: update.add_column("note", StringType()))
    iceberg_tables.Handle(place, None).append(pa.table({"id": pa.array([1], pa.int64()), "note": ["kept"]}))
    sink.finalize(prepared)
    assert [(row["id"], row["n"], row["note"]) for row in rows(place)] == [(1, 10, "kept"), (2, 20, None), (3, 30, None)]
