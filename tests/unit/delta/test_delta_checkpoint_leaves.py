"""Which leaves of a checkpoint are read: what is left out is what says nothing."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.dialects.delta import checkpoint_leaves
from gapless.dialects.delta.checkpoint_leaves import wanted_leaves

TEXTS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct([("storageType", pa.string()), ("offset", pa.int32())])
ADD = pa.struct(
    [("path", pa.string()), ("tags", TEXTS), ("size", pa.int64()), ("deletionVector", VECTOR), ("stats", pa.string())]
)
SCHEMA = pa.schema([("add", ADD), ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])), ("other", pa.int64())])
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


@given(st.lists(rows, max_size=8))
def test_what_is_left_out_is_null_in_every_row(found: list[dict[str, Any]]) -> None:
    file = written(found)
    read = file.read(columns=wanted_leaves(file.metadata, UNREAD)).to_pylist()
    whole = file.read(columns=["add", "txn"])
    asked = [{name: filled(row.get(name), SCHEMA.field(name).type) for name in UNREAD} for row in read]
    assert asked == whole.to_pylist()


def test_a_struct_that_no_row_has_costs_one_leaf_and_others_keep_their_maps() -> None:
    file = written([{"add": {"path": "a", "tags": [], "size": 1}}])
    assert wanted_leaves(file.metadata, UNREAD) == [
        "add.path",
        "add.tags.key_value.key",
        "add.tags.key_value.value",
        "add.size",
        "add.deletionVector.storageType",
        "txn.appId",
    ]


def test_a_leaf_that_one_row_group_has_is_read() -> None:
    nothing = {"add": {"path": "a"}}
    file = written([nothing] * 3 + [{"add": {"path": "b", "deletionVector": {"storageType": "u"}}}])
    assert file.metadata.num_row_groups == 2
    assert "add.deletionVector.storageType" in wanted_leaves(file.metadata, UNREAD)
    assert "add.deletionVector.offset" not in wanted_leaves(file.metadata, UNREAD)


def test_without_statistics_all_is_read_but_for_what_is_not_wanted() -> None:
    file = written([{"add": {"path": "a"}}], write_statistics=False)
    found = wanted_leaves(file.metadata, {"add": ("stats", "tags")})
    assert found == ["add.path", "add.size", "add.deletionVector.storageType", "add.deletionVector.offset"]


@pytest.mark.parametrize(
    ("told", "null"),
    [
        ({"has_null_count": True, "null_count": 5, "has_min_max": False}, True),
        ({"has_null_count": True, "null_count": 4, "has_min_max": False}, False),
        ({"has_null_count": True, "null_count": 5, "has_min_max": True}, False),
        ({"has_null_count": False, "null_count": 5, "has_min_max": False}, False),
        (None, False),
    ],
)
def test_a_chunk_is_null_only_where_its_statistics_agree_that_it_is(told: dict[str, Any] | None, null: bool) -> None:
    statistics = None if told is None else SimpleNamespace(**told)
    assert checkpoint_leaves._is_null(SimpleNamespace(statistics=statistics, num_values=5)) is null
