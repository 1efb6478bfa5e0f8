"""Which leaves of a checkpoint are read: what is left out says nothing, whatever its statistics say."""

from __future__ import annotations

import io
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.delta.checkpoint.reading import read_actions

TEXTS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct([("storageType", pa.string()), ("offset", pa.int32())])
ADD = pa.struct(
    [("path", pa.string()), ("tags", TEXTS), ("size", pa.int64()), ("deletionVector", VECTOR), ("stats", pa.string())]
)
SCHEMA = pa.schema([("add", ADD), ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])), ("other", pa.int64())])
LEAVES = [
    "add.path",
    "add.tags.key_value.key",
    "add.tags.key_value.value",
    "add.size",
    "add.deletionVector.storageType",
    "add.deletionVector.offset",
    "add.stats",
    "txn.appId",
    "txn.version",
]
UNREAD: dict[str, tuple[str, ...]] = {"add": (), "txn": ()}

texts = st.none() | st.sampled_from(["", "a", "b"])
adds = st.fixed_dictionaries(
    {
        "path": texts,
        "tags": st.none() | st.dictionaries(st.sampled_from("kl"), texts, max_size=2).map(lambda found: list(found.items())),
        "size": st.none() | st.integers(0, 3),
        "deletionVector": st.none() | st.fixed_dictionaries({"storageType": texts, "offset": st.none() | st.just(1)}),
        "stats": texts,
    }
)
txns = st.fixed_dictionaries({"appId": texts, "version": st.none() | st.integers(0, 2)})
rows = st.fixed_dictionaries({"add": st.none() | adds, "txn": st.none() | txns, "other": st.none()})


def written(found: list[dict[str, Any]], **options: Any) -> pq.ParquetFile:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(found, schema=SCHEMA), sink, row_group_size=3, **options)
    return pq.ParquetFile(io.BytesIO(sink.getvalue()))


def filled(value: Any, type_: pa.DataType) -> Any:
    """A struct that lacks fields, with them as nulls."""
    if value is None or not pa.types.is_struct(type_):
        return value
    return {one.name: filled(value.get(one.name), one.type) for one in type_}


class Told:
    """A Parquet file whose footer says of these leaves that they are null; keeps what was read of it."""

    def __init__(self, file: pq.ParquetFile, null: Collection[str] | None = None) -> None:
        self._file, self._null = file, null
        self.reads: list[list[str]] = []

    @property
    def metadata(self) -> Any:
        return self if self._null is not None else self._file.metadata

    def read(self, columns: list[str], *, use_threads: bool) -> pa.Table:
        self.reads.append(columns)
        return self._file.read(columns=columns, use_threads=use_threads)

    schema = property(lambda self: self._file.metadata.schema)
    num_row_groups = 1

    def row_group(self, _number: int) -> Any:
        return self

    def column(self, at: int) -> Any:
        said = SimpleNamespace(has_null_count=True, null_count=5 if self.schema.column(at).path in (self._null or ()) else 0)
        return SimpleNamespace(statistics=said, num_values=5)


def completed(table: pa.Table) -> list[dict[str, Any]]:
    return [{name: filled(row.get(name), SCHEMA.field(name).type) for name in UNREAD} for row in table.to_pylist()]


@given(st.lists(rows, max_size=8))
def test_what_is_left_out_is_null_in_every_row(found: list[dict[str, Any]]) -> None:
    file = written(found)
    assert completed(read_actions(file, UNREAD)) == file.read(columns=["add", "txn"]).to_pylist()


@given(st.lists(rows, max_size=8), st.sets(st.sampled_from(LEAVES)))
def test_statistics_that_are_wrong_hide_nothing(found: list[dict[str, Any]], null: set[str]) -> None:
    file = written(found)
    assert completed(read_actions(Told(file, null), UNREAD)) == file.read(columns=["add", "txn"]).to_pylist()


def test_a_struct_that_no_row_has_costs_one_leaf_and_others_all_of_theirs() -> None:
    file = Told(written([{"add": {"path": "a", "tags": []}}]))
    read_actions(file, UNREAD)
    assert file.reads == [
        [
            "add.path",
            "add.tags.key_value.key",
            "add.tags.key_value.value",
            "add.size",
            "add.deletionVector.storageType",
            "add.stats",
            "txn.appId",
        ]
    ]


def test_of_an_action_that_no_row_has_no_map_is_read() -> None:
    file = Told(written([{"txn": {"appId": "a", "version": 1}}]))
    read_actions(file, UNREAD)
    assert file.reads == [["add.path", "txn.appId", "txn.version"]]


def test_where_statistics_deny_what_is_there_all_is_read() -> None:
    """A deletion vector that was not seen would bring deleted rows back."""
    rows = [{"add": {"path": "a", "deletionVector": {"storageType": "u", "offset": 7}}}]
    file = Told(written(rows), {"add.deletionVector.storageType", "add.deletionVector.offset"})
    assert completed(read_actions(file, UNREAD))[0]["add"]["deletionVector"] == {"storageType": "u", "offset": 7}
    assert [len(columns) for columns in file.reads] == [8, 9]


def test_a_leaf_that_one_row_group_has_is_read() -> None:
    nothing = {"add": {"path": "a"}}
    file = written([nothing] * 3 + [{"add": {"path": "b", "deletionVector": {"storageType": "u"}}}])
    assert file.metadata.num_row_groups == 2
    told = Told(file)
    read_actions(told, UNREAD)
    (read,) = told.reads
    assert "add.deletionVector.offset" in read


def test_without_statistics_all_is_read_but_for_what_is_not_wanted() -> None:
    file = Told(written([{"add": {"path": "a"}}], write_statistics=False))
    read_actions(file, {"add": ("stats", "tags")})
    assert file.reads == [["add.path", "add.size", "add.deletionVector.storageType", "add.deletionVector.offset"]]


def test_a_field_whose_name_has_a_dot_is_no_struct() -> None:
    rows = pa.array([{"path": "a", "x.y": None}], pa.struct([("path", pa.string()), ("x.y", pa.int64())]))
    sink = io.BytesIO()
    pq.write_table(pa.table({"add": rows}), sink)
    assert read_actions(pq.ParquetFile(io.BytesIO(sink.getvalue())), UNREAD).to_pylist() == [
        {"add": {"path": "a", "x.y": None}}
    ]
