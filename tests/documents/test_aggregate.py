"""`Collection.aggregate`: which files it reads, other collections, and what is put into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.documents.collections.change import DocumentFiles
from gapless.errors import DuplicateKey, InvalidFilter, InvalidOption, InvalidValue, TableNotFound
from support.golden_pipelines import COLLECTIONS
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
    read: list[int] = []
    documents = DocumentFiles.documents

    def counted(files: DocumentFiles, condition: Any) -> Any:
        yield from documents(files, condition)
        read.append(len(files.read))

    monkeypatch.setattr(DocumentFiles, "documents", counted)
    dear: Pipeline = [{"$match": {"price": {"$gte": 1000}}}, {"$match": {"$expr": {"$lt": ["$price", 1005]}}}, {"$count": "n"}]
    assert sales.aggregate(dear).to_list() == [{"n": 5}]
    assert read == [1]
    assert sales.aggregate([{"$count": "n"}]).to_list() == [{"n": 19}]
    assert sales.aggregate([{"$group": {"_id": 1, "n": {"$sum": 1}, "m": {"$count": {}}}}]).to_list() == [
        {"_id": 1, "n": 19, "m": 19}
    ]
    assert read == [1]
    assert sales.aggregate([{"$group": {"_id": 1, "n": {"$sum": "$n"}}}]).to_list() == [{"_id": 1, "n": 40}]
    assert read == [1, 2]


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
    for pipeline, error in wrong:
        with pytest.raises(error):
            sales.aggregate(pipeline)
    assert people.table.refresh().version == version
    assert people.count_documents({}) == 5
