"""`Collection.aggregate`: which files it reads, other collections, and what is put into one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.documents.aggregation.parse import parse_pipeline
from gapless.documents.aggregation.stages import Running, run
from gapless.documents.values.codec import decode_document
from gapless.errors import DataError, DuplicateKey, InvalidFilter, InvalidOption, InvalidValue, TableNotFound
from support.golden_pipelines import COLLECTIONS
from support.random_documents import condition, document
from support.random_expressions import expression
from support.random_pipelines import pipeline
from support.typed_values import documents_of

Documents = gl.documents.Collection
Pipeline = list[dict[str, Any]]


@pytest.fixture
def sales(tmp_path: Path) -> Documents:
    found = gl.documents.collection(tmp_path / "sales")
    found.insert_many(COLLECTIONS["sales"])
    gl.documents.collection(tmp_path / "people").insert_many(COLLECTIONS["people"])
    return found


def test_a_pipeline_over_a_collection(sales: Documents) -> None:
    by_item: Pipeline = [
        {"$match": {"price": {"$gte": 5}}},
        {"$group": {"_id": "$item", "n": {"$sum": "$n"}}},
        {"$sort": {"_id": 1}},
    ]
    cursor = sales.aggregate(by_item)
    assert cursor.to_list() == [{"_id": "ink", "n": 6}, {"_id": "pad", "n": 10}, {"_id": "pen", "n": 17}]
    assert list(cursor) == cursor.to_list()


def test_it_reads_the_version_that_was_the_newest_when_it_was_called(sales: Documents) -> None:
    cursor = sales.aggregate([{"$match": {}}, {"$sortByCount": "$item"}, {"$count": "kinds"}])
    counted, looked = sales.aggregate([{"$count": "n"}]), sales.aggregate([{"$lookup": lookup("people")}, {"$unwind": "$who"}])
    sales.insert_one({"_id": 100, "item": "new", "by": "ada"})
    gl.documents.collection(Path(sales.table.url).parent / "people").delete_many({})
    assert cursor.to_list() == [{"kinds": 4}]
    assert counted.to_list() == [{"n": 9}]
    assert len(looked.to_list()) == 6


def lookup(name: str) -> dict[str, Any]:
    return {"from": name, "localField": "by", "foreignField": "_id", "as": "who"}


def test_first_matches_leave_files_out_and_counting_reads_none(sales: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    sales.create_index("price")
    sales.insert_many([{"_id": 1000 + at, "price": 1000 + at} for at in range(10)])
    read: list[Any] = []

    def counted(data: bytes, where: str) -> dict[str, Any]:
        read.append(decode_document(data, where))
        found: dict[str, Any] = read[-1]
        return found

    monkeypatch.setattr("gapless.documents.collections.version.decode_document", counted)
    dear: Pipeline = [{"$match": {"price": {"$gte": 1000}}}, {"$match": {"$expr": {"$lt": ["$price", 1005]}}}, {"$count": "n"}]
    assert sales.aggregate(dear).to_list() == [{"n": 5}]
    assert [one["_id"] for one in read] == list(range(1000, 1010))
    assert sales.aggregate([{"$count": "n"}]).to_list() == [{"n": 19}]
    assert sales.aggregate([{"$group": {"_id": 1, "n": {"$sum": 1}, "m": {"$count": {}}}}]).to_list() == [
        {"_id": 1, "n": 19, "m": 19}
    ]
    assert len(read) == 10
    assert sales.aggregate([{"$group": {"_id": 1, "n": {"$sum": "$n"}}}]).to_list() == [{"_id": 1, "n": 40}]
    assert len(read) == 29


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(one, marks=pytest.mark.soak) for one in range(3, 30))])
def test_what_is_left_out_by_an_index_changes_no_answer(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    collection = gl.documents.collection(tmp_path / "documents")
    collection.create_index("a")
    collection.create_index("b.a")
    for batch in range(4):
        collection.insert_many([document(chance, batch * 20 + at) for at in range(20)])
    documents = collection.find().to_list()
    running = Running(read=lambda *_: iter(()), draw=chance.random)
    some = 0
    for _ in range(60):
        computed = {"$match": {"$expr": expression(chance, 2)}} if chance.random() < 0.4 else {"$match": {}}
        asked: Pipeline = [{"$match": condition(chance, 1)}, computed, *pipeline(chance)]
        try:
            wanted = list(run(parse_pipeline(asked), iter(documents), running))
        except DataError:
            continue
        assert documents_of(collection.aggregate(asked).to_list(), in_order=True) == documents_of(wanted, in_order=True), asked
        some += bool(wanted)
    assert some > 5


def test_find_with_a_limit_gives_the_first_in_the_order(tmp_path: Path) -> None:
    chance = random.Random(5)
    collection = gl.documents.collection(tmp_path / "documents")
    collection.insert_many([document(chance, at) for at in range(80)])
    for by in ([("a", 1)], [("b", -1), ("a", 1)]):
        in_full = collection.find(sort=by).to_list()
        for skip, limit in ((0, 5), (7, 10), (75, 20), (3, 0)):
            part = collection.find(sort=by, skip=skip, limit=limit).to_list()
            assert documents_of(part, in_order=True) == documents_of(
                in_full[skip : skip + limit if limit else None], in_order=True
            )


def test_collections_lie_beside_each_other_or_are_handed_in(sales: Documents) -> None:
    beside = sales.aggregate([{"$lookup": lookup("people")}]).to_list()
    elsewhere = gl.documents.collection("memory://aggregate-people")
    elsewhere.insert_many(COLLECTIONS["people"])
    handed = sales.aggregate([{"$lookup": lookup("them")}], collections={"them": elsewhere}).to_list()
    assert documents_of(beside, in_order=True) == documents_of(handed, in_order=True)
    assert [len(one["who"]) for one in beside] == [1, 1, 1, 1, 1, 1, 0, 0, 0]
    with pytest.raises(TableNotFound):
        sales.aggregate([{"$unionWith": "nobody"}])
    with pytest.raises(InvalidOption, match="beside"):
        sales.aggregate([{"$facet": {"a": [{"$unionWith": "../people"}]}}])


def test_out_puts_what_comes_out_in_place_of_all(sales: Documents) -> None:
    place = Path(sales.table.url).parent / "totals"
    totals: Pipeline = [
        {"$match": {"item": {"$ne": None}}},
        {"$group": {"_id": "$item", "n": {"$sum": "$n"}}},
        {"$out": "totals"},
    ]
    assert sales.aggregate(totals).to_list() == []
    made = gl.documents.collection(place, create=False)
    assert {one["_id"]: one["n"] for one in made.find()} == {"pen": 17, "ink": 6, "pad": 10}
    sales.delete_many({"item": "pad"})
    version = made.table.refresh().version
    sales.aggregate(totals)
    assert {one["_id"]: one["n"] for one in made.find()} == {"pen": 17, "ink": 6}
    assert made.table.refresh().version == version + 1
    sales.aggregate([{"$match": {"item": "none"}}, {"$out": "totals"}])
    assert made.count_documents({}) == 0


def test_merge_puts_documents_beside_those_that_are_there(sales: Documents) -> None:
    people = gl.documents.collection(Path(sales.table.url).parent / "people")
    version = people.version
    spent: dict[str, Any] = {"$group": {"_id": "$by", "spent": {"$sum": "$n"}}}
    sales.aggregate([{"$match": {"by": {"$ne": None}}}, spent, {"$merge": "people"}])
    assert people.find_one({"_id": "ada"}) == {"_id": "ada", "name": "Ada", "age": 36, "knows": ["bob", "cy"], "spent": 17}
    assert people.count_documents({}) == 5
    assert people.version == version + 1


MERGES: list[tuple[Any, Any, dict[Any, Any]]] = [
    ("merge", "insert", {1: {"a": 1, "b": 2}, 2: {"b": 3}}),
    ("replace", "insert", {1: {"b": 2}, 2: {"b": 3}}),
    ("keepExisting", "insert", {1: {"a": 1}, 2: {"b": 3}}),
    ("merge", "discard", {1: {"a": 1, "b": 2}}),
    ([{"$set": {"a": {"$add": ["$a", "$$new.b"]}}}], "discard", {1: {"a": 3}}),
    ("fail", "insert", {1: {"a": 1}}),
    ("merge", "fail", {1: {"a": 1}}),
]


@pytest.mark.parametrize(("matched", "absent", "wanted"), MERGES, ids=lambda one: str(one)[:30])
def test_ways_to_merge(tmp_path: Path, matched: Any, absent: Any, wanted: dict[Any, Any]) -> None:
    source, target = gl.documents.collection(tmp_path / "source"), gl.documents.collection(tmp_path / "target")
    source.insert_many([{"_id": 1.0, "b": 2}, {"_id": 2, "b": 3}])
    target.insert_one({"_id": 1, "a": 1})
    merge: dict[str, Any] = {"$merge": {"into": "target", "whenMatched": matched, "whenNotMatched": absent}}
    if "fail" in (matched, absent):
        with pytest.raises((DuplicateKey, InvalidValue), match="_id"):
            source.aggregate([{"$sort": {"_id": -1}}, merge])
    else:
        source.aggregate([merge])
    found = {one.pop("_id"): one for one in target.find()}
    assert found == wanted
    assert type(next(iter(found))) is int


def test_a_pipeline_may_write_into_what_it_reads(sales: Documents) -> None:
    version = sales.version
    sales.aggregate([{"$match": {"n": {"$gt": 4}}}, {"$project": {"many": "yes"}}, {"$merge": "sales"}])
    assert sales.count_documents({"many": "yes"}) == 4
    assert sales.find_one({"_id": 3}, {"item": 1, "many": 1}) == {"_id": 3, "item": "pen", "many": "yes"}
    sales.aggregate([{"$match": {"many": "yes"}}, {"$project": {"item": 1}}, {"$out": "sales"}])
    assert sales.count_documents({}) == 4
    assert sales.version == version + 2


def test_an_operation_is_made_once(sales: Documents) -> None:
    people = gl.documents.collection(Path(sales.table.url).parent / "people")
    add: Pipeline = [{"$match": {"_id": 1}}, {"$project": {"_id": 0, "item": 1}}, {"$merge": "people"}]
    for _ in range(2):
        sales.aggregate(add, operation_id="once")
    assert people.count_documents({"item": "pen"}) == 1
    sales.aggregate(add, operation_id="twice")
    assert people.count_documents({"item": "pen"}) == 2
    with pytest.raises(InvalidOption, match="makes none"):
        sales.aggregate([{"$count": "n"}], operation_id="x")


def test_an_unknown_stage_or_operator_changes_nothing(sales: Documents) -> None:
    people = gl.documents.collection(Path(sales.table.url).parent / "people")
    version = people.version
    wrong: list[tuple[Pipeline, type[Exception]]] = [
        ([{"$nope": 1}, {"$out": "people"}], InvalidOption),
        ([{"$match": {"a": {"$nope": 1}}}, {"$out": "people"}], InvalidFilter),
        ([{"$set": {"a": {"$nope": 1}}}, {"$merge": "people"}], InvalidFilter),
        ([{"$set": {"a": {"$divide": [1, 0]}}}, {"$merge": "people"}], InvalidValue),
    ]
    for asked, error in wrong:
        with pytest.raises(error):
            sales.aggregate(asked)
    assert people.table.refresh().version == version
    assert people.count_documents({}) == 5
