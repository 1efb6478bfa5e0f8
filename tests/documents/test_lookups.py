"""A `find` by equality looks up where values lie: the same answers as by reading all, and few rows read."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

import gapless as gl
from gapless.documents.collections import lookups
from gapless.documents.collections.collection import Collection
from gapless.documents.filters.match import holds
from gapless.documents.filters.parse import parse_filter
from gapless.errors import InvalidOption
from support.random_documents import document, value
from support.typed_values import typed

VALUES: list[Any] = [
    0, -0.0, 1, 1.0, Int64(1), 1.5, Decimal128("1.5"), Decimal128("0.1"), 0.1, Int64(2**53 + 1), 2.0**53, float("nan"), float("inf"), "", "a",
    "a\0", "é", datetime(2026, 1, 1), datetime(1500, 1, 1), True, None, b"a", ObjectId("5" * 24), [1, "a"], {"a": 1}, [],
]  # fmt: skip


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are looked up, too."""
    monkeypatch.setattr(lookups, "_FEW_ROWS", 0)


def made_of(place: Path, chance: random.Random, **options: Any) -> Collection:
    made = gl.documents.collection(place, **options)
    made.create_index([("a", 1), ("b.a", 1)])
    for batch in range(4):
        made.insert_many([{**document(chance, batch * 40 + at), "n": at} for at in range(40)])
    made.insert_many([{"_id": 1000 + at, "a": one, "b": {"a": one}} for at, one in enumerate(VALUES)])
    return made


@pytest.mark.parametrize("vectors", [False, True])
def test_what_is_looked_up_is_what_matches(always: None, vectors: bool, tmp_path: Path) -> None:
    chance = random.Random(5)
    made = made_of(tmp_path / "made", chance, properties={"delta.enableDeletionVectors": vectors})
    for turn in range(3):
        documents = made.find().to_list()
        for _ in range(60):
            path = chance.choice(["a", "b.a", "_id"])
            asked = [chance.choice(VALUES) if path != "_id" else chance.randrange(1030) for _ in range(chance.randrange(1, 4))]
            asked += [value(chance)] if path == "a" else []
            filter_: dict[str, Any] = chance.choice(
                [
                    {path: {"$eq": asked[0]}},
                    {path: {"$in": asked}},
                    {path: {"$in": asked, "$ne": 1}},
                    {path: {"$eq": asked[0]}, "n": {"$lt": 20}},
                ]
            )
            wanted = [one for one in documents if holds(parse_filter(filter_), one)]
            assert typed(made.find(filter_).to_list()) == typed(wanted), filter_
            assert made.count_documents(filter_) == len(wanted), filter_
        # Files change: what was remembered of others is not asked.
        made.update_many({"_id": {"$mod": [7, turn]}}, {"$set": {"a": chance.choice(VALUES)}})
        made.delete_many({"_id": {"$mod": [11, turn]}})
    assert made._lookups._known


def test_few_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = gl.documents.collection(tmp_path / "made")
    made.create_index("u")
    for start in range(0, 30_000, 10_000):
        made.insert_many({"_id": at, "u": at * 7919 % 30_000} for at in range(start, start + 10_000))
    assert len(made.find({"u": 5}).to_list()) == 1
    built: list[str] = []
    read = lookups._read

    def noted(reader: Any, file: Any, column: str) -> Any:
        built.append(file.key)
        return read(reader, file, column)

    monkeypatch.setattr(lookups, "_read", noted)
    for at in range(0, 30_000, 997):
        assert made.find({"u": at * 7919 % 30_000}).to_list() == [{"_id": at, "u": at * 7919 % 30_000}]
    assert made.find({"u": "x"}).to_list() == []
    assert not built
    made.update_one({"_id": 15_000}, {"$set": {"u": -1}})
    assert [one["_id"] for one in made.find({"u": -1})] == [15_000]
    # Of the file that the update wrote, alone.
    assert len(built) == 1


def test_what_memory_does_not_hold_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = gl.documents.collection(tmp_path / "made", memory_limit=1_000_000)
    made.create_index("u")
    made.insert_many({"_id": at, "u": at % 100} for at in range(40_000))
    assert len(made.find({"u": 5}).to_list()) == 400
    assert made._lookups._known
    made.insert_many({"_id": at, "u": at % 100} for at in range(40_000, 70_000))
    monkeypatch.setattr(lookups, "_read", None)
    assert len(made.find({"u": 6}).to_list()) == 700


def test_the_files_that_were_asked_last_are_remembered(always: None, tmp_path: Path) -> None:
    made = gl.documents.collection(tmp_path / "made", memory_limit=1_000_000)
    for path in ("a", "b", "c"):
        made.create_index(path)
    made.insert_many({"_id": at, "a": at, "b": at, "c": at} for at in range(30_000))
    for path in ("a", "b", "c", "a"):
        assert made.find_one({path: 77}) == {"_id": 77, "a": 77, "b": 77, "c": 77}
        assert made._lookups._bytes <= 1_000_000
    assert [column for _, column in made._lookups._known] == ["by_c", "by_a"]


def test_threads_share_what_is_remembered(tmp_path: Path) -> None:
    made = gl.documents.collection(tmp_path / "made")
    made.create_index("u")
    made.insert_many({"_id": at, "u": f"u{at}"} for at in range(10_000))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: made.find_one({"u": f"u{at}"}), range(0, 10_000, 100)))
    assert found == [{"_id": at, "u": f"u{at}"} for at in range(0, 10_000, 100)]


def test_row_groups_are_small_and_any_delta_table_may_have_such(tmp_path: Path) -> None:
    made = gl.documents.collection(tmp_path / "made")
    made.insert_many({"_id": at} for at in range(10_000))
    (file,) = (tmp_path / "made").glob("*.parquet")
    groups = pq.ParquetFile(file).metadata
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [2000] * 5
    plain = gl.delta.create(tmp_path / "plain", pa.schema([("x", pa.int64())]), properties={"gapless.RowGroupRows": 100})
    assert plain.properties["gapless.rowGroupRows"] == "100"
    plain.append(pa.table({"x": range(1000)}))
    (other,) = (tmp_path / "plain").glob("*.parquet")
    assert pq.ParquetFile(other).metadata.num_row_groups == 10
    with pytest.raises(InvalidOption, match="rowGroupRows"):
        gl.delta.create(tmp_path / "wrong", properties={"gapless.rowGroupRows": 0})
