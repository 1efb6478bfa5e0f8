"""What a collection's columns tell of a filter: nothing that matches is left out, and less is read."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

import gapless as gl
from gapless.documents.collections.change import DocumentChange
from gapless.documents.collections.collection import Collection
from gapless.documents.collections.indexing import IndexCreation
from gapless.documents.collections.storage import SCHEMA, Index, columns_of, rows_of
from gapless.documents.filters.match import holds
from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.prune import EVERYTHING, filter_to_predicate
from gapless.documents.values.codec import encode_document
from gapless.documents.values.identity import id_text
from gapless.errors import InvalidOption, NotSupported
from gapless.predicate.expression import to_expression
from support.random_documents import condition, document

PATHS = ("a", "b", "a.b", "b.a")
INDEXES = [Index(name=path, keys=((path, 1),), columns=(f"by_{path.replace('.', '_')}",)) for path in PATHS]
COLUMNS = columns_of(INDEXES)
IDS: tuple[Any, ...] = (
    0, 1, 1.5, -2.5, 2**40, Int64(-(2**63)), 1e300, Decimal128("7.25"), float("nan"), float("-inf"), "", "a", "ab", "b\U0010ffff", None, True,
    ObjectId("5" * 24), ObjectId("6" * 24), datetime(2026, 1, 1, tzinfo=UTC), b"ab", {"x": 1},
)  # fmt: skip


def rows(documents: list[dict[str, Any]]) -> pa.Table:
    return rows_of([id_text(one["_id"]) for one in documents], documents, [encode_document(one) for one in documents], INDEXES)


def kept(filter_: dict[str, Any], table: pa.Table) -> set[str]:
    predicate = filter_to_predicate(filter_, COLUMNS)
    found = table if predicate == EVERYTHING else table.filter(to_expression(predicate, table.schema))
    return set(found.column("_id").to_pylist())


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 60))])
def test_pruned_and_matched_again_is_all_that_matches(seed: int) -> None:
    chance = random.Random(seed)
    documents = [document(chance, number) for number in range(150)]
    table, some = rows(documents), 0
    for _ in range(300):
        filter_ = condition(chance)
        found = kept(filter_, table)
        matching = {id_text(one["_id"]) for one in documents if holds(parse_filter(filter_), one)}
        assert matching <= found, filter_
        some += len(found) < len(documents)
    assert some > 60


@pytest.mark.parametrize("operator", ["$eq", "$gt", "$gte", "$lt", "$lte", "$in"])
def test_an_id_is_found_by_its_text(operator: str) -> None:
    documents = [{"_id": one} for one in IDS]
    table = rows(documents)
    for one in IDS:
        filter_ = {"_id": {operator: [one, "ab"] if operator == "$in" else one}}
        matching = {id_text(each["_id"]) for each in documents if holds(parse_filter(filter_), each)}
        assert matching <= kept(filter_, table), filter_
    assert len(kept({"_id": 1}, table)) == 1


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Five files: one of the documents that the index found, four of ten that came later."""
    made = gl.documents.collection(tmp_path_factory.mktemp("prune") / "made")
    for first in range(0, 100, 10):
        if first == 60:
            assert made.create_index([("n", 1), ("d.t", -1)]) == "n_1_d.t_-1"
        made.insert_many([{"_id": one, "n": one, "d": {"t": f"t{one:03}"}, "k": one} for one in range(first, first + 10)])
    return made


def files_read(made: Collection, filter_: dict[str, Any]) -> int:
    """The files that a find opens."""
    read = made.explain(filter_)
    assert read["files"] == len(made.table.scan().files())
    return int(read["files_read"])


def test_a_find_by_an_indexed_path_opens_the_files_that_can_match(indexed: Collection) -> None:
    for filter_, files in (
        ({"n": 5}, 1), ({"n": 65.0}, 1), ({"n": {"$gte": 95}}, 1), ({"d.t": "t003"}, 1), ({"d.t": {"$regex": "^t00"}}, 1), ({"_id": 33}, 1),
        ({"_id": {"$lt": 10}}, 1), ({"n": {"$in": [1, 99]}}, 2), ({"n": "x"}, 0), ({"n": {"$size": 1}}, 0), ({"$or": [{"n": 1}, {"n": 2}]}, 1),
        ({"k": 5}, 5), ({"n": None}, 5), ({"n": {"$ne": 5}}, 5), ({"n": {"$exists": False}}, 5), ({"n": {"$not": {"$gt": 5}}}, 5),
    ):  # fmt: skip
        assert files_read(indexed, filter_) == files, filter_
        assert {one["_id"] for one in indexed.find(filter_)} == {
            one["_id"] for one in indexed.find() if holds(parse_filter(filter_), one)
        }
    assert files_read(indexed, {"n": 5}) < files_read(indexed, {"k": 5})


def test_what_changes_stays_found(tmp_path: Path) -> None:
    made = gl.documents.collection(tmp_path / "made")
    made.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": [7]}])
    made.create_index("n")
    made.update_one({"_id": 1}, {"$set": {"n": 50}})
    made.insert_one({"_id": 3, "n": "x"})
    made.replace_one({"_id": 3}, {"n": 2**53 + 1})
    for filter_, wanted in (
        ({"n": 50}, [1]), ({"n": 1}, []), ({"n": 7}, [2]), ({"n": 2**53 + 1}, [3]), ({"n": 2**53}, []), ({"n": {"$gt": 2**53}}, [3]),
    ):  # fmt: skip
        assert [one["_id"] for one in made.find(filter_)] == wanted, filter_
    assert gl.documents.collection(tmp_path / "made").delete_many({"n": {"$gt": 10}}).deleted_count == 2


def test_indexes_are_listed_and_made_once(tmp_path: Path) -> None:
    made = gl.documents.collection(tmp_path / "made")
    assert made.create_index("a.b") == made.create_index([("a.b", 1)]) == "a.b_1"
    assert made.create_index({"A_b": -1, "a.b": 1}, name="both") == "both"
    assert made.create_index("_id") == "_id_"
    version = made.version
    assert list(made.list_indexes()) == [
        {"v": 2, "key": {"_id": 1}, "name": "_id_"},
        {"v": 2, "key": {"a.b": 1}, "name": "a.b_1"},
        {"v": 2, "key": {"A_b": -1, "a.b": 1}, "name": "both"},
    ]
    assert made.table.schema.names == [*SCHEMA.names, "by_a_b", "by_A_b_2"]
    for name in ("unique", "sparse", "expireAfterSeconds"):
        options: dict[str, Any] = {name: True}
        with pytest.raises(NotSupported, match=name):
            made.create_index("z", **options)
    for keys in (5, [], [("a", 2)], "a..b", [("a", "text")], "$a"):
        with pytest.raises(InvalidOption):
            made.create_index(keys)
    with pytest.raises(InvalidOption, match="both"):
        made.create_index("z", name="both")
    assert made.version == version


def test_an_index_and_documents_that_come_meanwhile_know_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, other = (gl.documents.collection(tmp_path / "made") for _ in range(2))
    made.insert_one({"_id": 1, "n": 1})
    meanwhile: list[Callable[[], object]] = [lambda: other.insert_one({"_id": 2, "n": 2})]

    def meddled(decide: Callable[..., Any]) -> Callable[..., Any]:
        def decided(change: object, before: object) -> Any:
            plan = decide(change, before)
            if meanwhile:
                meanwhile.pop()()
            return plan

        return decided

    # An insert comes before the commit of the index, which then has its document, too.
    with monkeypatch.context() as patch:
        patch.setattr(IndexCreation, "decide", meddled(IndexCreation.decide))
        made.create_index("n")
    assert [one["_id"] for one in made.find({"n": {"$in": [1, 2]}}, sort="_id")] == [1, 2]
    assert made.explain({"n": 3})["files_read"] == 0
    # And an index before that of an insert, which then says what lies there.
    meanwhile.append(lambda: other.create_index("m"))
    with monkeypatch.context() as patch:
        patch.setattr(DocumentChange, "decide", meddled(DocumentChange.decide))
        made.insert_one({"_id": 3, "m": "x"})
    assert not meanwhile
    assert [one["_id"] for one in other.find({"m": "x"})] == [3]
    assert [one["name"] for one in made.list_indexes()] == ["_id_", "n_1", "m_1"]
