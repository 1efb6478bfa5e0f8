"""`char(n)` and `varchar(n)` of Spark's Delta tables: what every write of ours does about texts that are too long or too short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import GaplessError, InvalidValue, UnsupportedTable
from gapless.formats.delta.schema.char_varchar import CHAR_VARCHAR, TextLength, TextLengths
from gapless.model.convert import Misfit
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.text_lengths import sized
from support.delta_tables import ordered


def declared(name: str, type_: pa.DataType, text: str) -> pa.Field:
    return pa.field(name, type_, metadata={CHAR_VARCHAR: text})


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        declared("c", pa.string(), "char(5)"),
        declared("v", pa.string(), "varchar(3)"),
    ]
)
NESTED = pa.schema(
    [
        pa.field("id", pa.int64()),
        declared("s", pa.struct([("x", pa.string()), ("n", pa.int64())]), "struct<x:char(2),n:bigint>"),
        declared("a", pa.list_(pa.string()), "array<varchar(2)>"),
        declared("m", pa.map_(pa.string(), pa.string()), "map<char(2),varchar(3)>"),
    ]
)


def table_of(path: Path, schema: pa.Schema = SCHEMA, **named: Any) -> DeltaTable:
    return DeltaTable.create(path, schema, **named)


def refused(act: Callable[[], object]) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        act()
    return caught.value


WRITES: dict[str, Callable[[DeltaTable, dict[str, Any]], object]] = {
    "append": lambda table, row: table.append([row]),
    "overwrite": lambda table, row: table.overwrite([row]),
    "overwrite a part": lambda table, row: table.overwrite([row], where=f"id = {row['id']}"),
    "merge, insert": lambda table, row: table.merge(pa.Table.from_pylist([row]), "t.id = s.id + 100", source_alias="s", target_alias="t")
    .when_not_matched_insert_all().execute(),
    "merge, update": lambda table, row: table.merge(pa.Table.from_pylist([row]), "t.id = 1", source_alias="s", target_alias="t")
    .when_matched_update({"c": "s.c", "v": "s.v"}).execute(),
    "update": lambda table, row: table.update({"c": f"'{row['c']}'", "v": f"'{row['v']}'"}, where="id = 1"),
}  # fmt: skip


@pytest.mark.parametrize("way", WRITES)
def test_every_write_pads_a_char_and_leaves_a_varchar(tmp_path: Path, way: str) -> None:
    table = table_of(tmp_path / "t")
    table.append([{"id": 1, "c": None, "v": None}])
    WRITES[way](table, {"id": 2, "c": "éa", "v": "éü"})
    texts = [(row["c"], row["v"]) for row in ordered(table) if row["c"] is not None]
    assert texts == [("éa   ", "éü")]


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize(
    ("column", "value", "size"), [("c", "sixsix", "char(5)"), ("v", "four", "varchar(3)"), ("v", "ab  ", "varchar(3)")]
)
def test_every_write_refuses_a_text_that_is_too_long(tmp_path: Path, way: str, column: str, value: str, size: str) -> None:
    table = table_of(tmp_path / "t")
    table.append([{"id": 1, "c": "one", "v": "1"}])
    before, version = ordered(table), table.version
    error = refused(lambda: WRITES[way](table, {"id": 2, "c": "x", "v": "y"} | {column: value}))
    assert (error.column, error.row, error.value) == (column, 0, value)
    assert f"{size} holds {size[-2]} characters, and it has {len(value)}" in str(error)
    table.refresh()
    assert (ordered(table), table.version) == (before, version)


def test_the_row_that_is_named_counts_over_the_whole_input(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    batches = [pa.RecordBatch.from_pylist([{"id": n, "v": text}]) for n, text in enumerate(["a", "b", "cccc"])]
    assert refused(lambda: table.append(pa.RecordBatchReader.from_batches(batches[0].schema, batches))).row == 2


def test_texts_within_values_have_their_lengths_too(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", NESTED)
    rows: list[dict[str, Any]] = [
        {"id": 0, "s": {"x": "a", "n": 1}, "a": ["b", None, "bb"], "m": {"k": "vvv"}},
        {"id": 1, "s": None, "a": None, "m": None},
        {"id": 2, "s": {"x": None, "n": 2}, "a": [], "m": {}},
    ]
    table.append(pa.Table.from_pylist(rows, NESTED))
    assert ordered(table) == [
        {"id": 0, "s": {"x": "a ", "n": 1}, "a": ["b", None, "bb"], "m": [("k ", "vvv")]},
        {"id": 1, "s": None, "a": None, "m": None},
        {"id": 2, "s": {"x": None, "n": 2}, "a": [], "m": []},
    ]
    wrongs: dict[str, Any] = {"s": {"x": "abc"}, "a": ["b", "bbb"], "m": {"key": "v"}}
    for name, wrong in wrongs.items():
        bad = pa.Table.from_pylist([rows[1], rows[2] | {name: wrong}], NESTED)
        error = refused(lambda bad=bad: table.append(bad))  # type: ignore[misc]
        assert (error.column, error.row) == (name, 1)
    assert table.count() == 3


def test_what_lies_behind_nulls_is_not_looked_at() -> None:
    limit = TextLengths(own=TextLength("char", 2))
    texts = pa.array(["long text", "a", "longer"])
    struct = pa.StructArray.from_arrays([texts], ["x"], mask=pa.array([True, False, True]))
    assert sized(struct, TextLengths(below={"x": limit})).to_pylist() == [None, {"x": "a "}, None]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts, mask=pa.array([True, False, True]))
    assert sized(lists, TextLengths(below={"element": limit})).to_pylist() == [None, ["a "], None]
    assert sized(lists.slice(1, 1), TextLengths(below={"element": limit})).to_pylist() == [["a "]]
    maps = pa.MapArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), texts, pa.array([1, 2, 3]), mask=pa.array([True, False, True])
    )
    for start in range(4):
        found = sized(maps.slice(start), TextLengths(below={"key": limit}))
        found.validate(full=True)
        assert found.to_pylist() == [None, [("a ", 2)], None][start:]


def test_the_row_of_a_text_in_a_list_is_the_lists() -> None:
    lists = pa.array([["a"], [], None, ["b", "ccc"]])
    with pytest.raises(Misfit, match="in its values: varchar") as caught:
        sized(lists, TextLengths(below={"element": TextLengths(own=TextLength("varchar", 2))}))
    assert caught.value.row == 3


def test_a_partition_column_is_padded_and_its_rows_are_found(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", partition_by=["c"])
    table.append([{"id": 1, "c": "ab", "v": "x"}, {"id": 2, "c": "ab   ", "v": "x"}, {"id": 3, "c": "", "v": "x"}])
    assert [row["c"] for row in ordered(table)] == ["ab   ", "ab   ", "     "]
    assert len(list((tmp_path / "t").glob("c=*"))) == 2


def test_rows_of_others_stay_as_they_are_where_no_one_changes_them(tmp_path: Path) -> None:
    """A compaction and a delete write rows anew, and judge none."""
    plain = pa.schema([field.remove_metadata() for field in SCHEMA])
    table = table_of(tmp_path / "t", plain)
    table.append([{"id": 1, "c": "short", "v": "far too long"}])
    table.append([{"id": 2, "c": "s", "v": "ok"}])
    table = declare_later(tmp_path / "t", "v", "varchar(3)")
    table.compact()
    table.delete("id = 2")
    assert ordered(table) == [{"id": 1, "c": "short", "v": "far too long"}]
    assert refused(lambda: table.update({"c": "'x'"}, where="id = 1")).column == "v"


def declare_later(path: Path, column: str, type_: str) -> DeltaTable:
    """The table once Spark's metadata stand in its first commit: rows may be there that were written without."""
    log = path / "_delta_log" / "00000000000000000000.json"
    text = log.read_text()
    said = f'\\"name\\":\\"{column}\\",\\"type\\":\\"string\\",\\"nullable\\":true,\\"metadata\\":{{'
    assert said in text
    log.write_text(text.replace(said, f'{said}\\"{CHAR_VARCHAR}\\":\\"{type_}\\"'))
    return DeltaTable.open(path)


@pytest.mark.parametrize("key", ["ab", "ab ", "ab   "])
def test_a_merge_finds_a_char_however_many_spaces_a_file_has(tmp_path: Path, key: str) -> None:
    """delta-spark writes none, this release all: a merge that is sent again must find the rows of either."""
    plain = pa.schema([field.remove_metadata() for field in SCHEMA])
    table_of(tmp_path / "t", plain).append([{"id": 1, "c": "ab", "v": "x"}, {"id": 2, "c": "abc", "v": "y"}])
    table = declare_later(tmp_path / "t", "c", "char(5)")
    for time in range(2):
        source = pa.table({"key": pa.array([key, "cd"]), "v": [str(time), "n"]})
        merge = table.merge(source, "t.c = s.key", source_alias="s", target_alias="t")
        merge.when_matched_update({"v": "s.v"}).when_not_matched_insert({"id": "9", "c": "s.key", "v": "s.v"}).execute()
        found = [(row["id"], row["c"].rstrip(), row["v"]) for row in ordered(table)]
        assert found == [(1, "ab", str(time)), (2, "abc", "y"), (9, "cd", "n")]


def test_a_declared_type_that_cannot_be_read_stops_writes_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", pa.schema([pa.field("id", pa.int64()), declared("c", pa.string(), "char(many)")]))
    for write in (table.append, table.overwrite):
        with pytest.raises(UnsupportedTable, match=r"char\(many\)"):
            write([{"id": 1}])
    assert table.count() == 0


def test_columns_keep_their_lengths_when_others_are_added(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    table.append([{"id": 1, "c": "a", "v": "b", "more": 1}], schema_mode="merge")
    assert isinstance(refused(lambda: table.append([{"id": 1, "v": "long"}])), GaplessError)
    table.overwrite([{"id": 1, "v": "long"}], schema_mode="overwrite")
    assert ordered(table) == [{"id": 1, "v": "long"}]
