"""Collections: documents come back as they went in, each _id once, and what is not understood changes nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bson
import deltalake
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

import gapless as gl
from gapless.documents import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from gapless.documents.collections.collection import Collection
from gapless.documents.collections.steps import Insert, Outcome, View
from gapless.documents.values.codec import OPTIONS
from gapless.errors import (
    DuplicateKey,
    InvalidFilter,
    InvalidOption,
    InvalidValue,
    NotSupported,
    TableNotFound,
    UnsupportedTable,
)
from support.random_documents import any_value


@pytest.fixture
def people(tmp_path: Path) -> Collection:
    """Three of them."""
    made = gl.documents.collection(tmp_path / "people")
    made.insert_many([{"_id": 1, "name": "Ada", "age": 36, "t": [1, 2]}, {"_id": 2, "name": "Alan"}, {"_id": 3, "age": None}])
    return made


def ids(found: object) -> list[Any]:
    return sorted(one["_id"] for one in found)  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_documents_of_any_types_come_back_equal(count: int, tmp_path: Path) -> None:
    seed = random.Random(7)
    given = [{"_id": at, **{name: any_value(seed) for name in ("a", "b c", "é")}} for at in range(count)]
    wanted = {one["_id"]: bson.encode(one, codec_options=OPTIONS) for one in given}
    made = gl.documents.collection(tmp_path / "all")
    made.insert_many(given[: count // 2])
    made.insert_many([*given[count // 2 :], {"late": 1, "_id": "late"}])
    again = gl.documents.collection(tmp_path / "all", create=False)
    found = {one["_id"]: bson.encode(one, codec_options=OPTIONS) for one in again.find()}
    assert again.find_one({"late": {"$exists": True}}) == {"_id": "late", "late": 1}
    assert found.pop("late")
    assert found == wanted
    # An independent reader finds the same bytes.
    rows = deltalake.DeltaTable(tmp_path / "all").to_pyarrow_table()
    assert set(rows["document"].to_pylist()) >= set(wanted.values())
    assert rows.column_names == ["_id", "document"]


def test_each_change_says_what_it_did(people: Collection) -> None:
    added: dict[str, Any] = {"name": "Grace"}
    made = people.insert_one(added)
    assert isinstance(made.inserted_id, ObjectId)
    assert (added["_id"], made.acknowledged) == (made.inserted_id, True)
    one = people.replace_one({"_id": 1}, {"name": "Ada L."})
    assert (one.matched_count, one.modified_count, one.upserted_id) == (1, 1, None)
    assert people.find_one({"_id": 1}) == {"_id": 1, "name": "Ada L."}
    before = people.version
    same = people.update_one({"_id": 1}, {"$set": {"name": "Ada L."}})
    assert (same.matched_count, same.modified_count, people.version) == (1, 0, before)
    typed = people.update_one({"_id": 2}, {"$set": {"n": 1}}), people.update_one({"_id": 2}, {"$set": {"n": 1.0}})
    assert [one.modified_count for one in typed] == [1, 1]
    many = people.update_many({}, {"$inc": {"n": 1}})
    assert (many.matched_count, many.modified_count, people.version) == (4, 4, before + 3)
    none = people.update_one({"name": "?"}, {"$set": {"a": 1}})
    assert (none.matched_count, none.modified_count, none.did_upsert) == (0, 0, False)
    new = people.update_one({"name": "new", "a.b": 1}, {"$set": {"c": 1}, "$setOnInsert": {"d": 2}}, upsert=True)
    assert (new.matched_count, new.modified_count, new.did_upsert) == (0, 0, True)
    wanted = {"_id": new.upserted_id, "name": "new", "a": {"b": 1}, "c": 1, "d": 2}
    assert people.find_one({"_id": new.upserted_id}) == wanted
    put = people.replace_one({"_id": 77, "x": 1}, {"y": 1}, upsert=True)
    assert (put.upserted_id, people.find_one({"_id": 77})) == (77, {"_id": 77, "y": 1})
    assert people.delete_one({"n": {"$exists": True}}).deleted_count == 1
    assert people.delete_many({"n": {"$exists": True}}).deleted_count == 3
    assert people.delete_many({"n": {"$exists": True}}).deleted_count == 0
    assert people.count_documents({}) == people.estimated_document_count() == 2


def test_what_is_found(people: Collection) -> None:
    assert ids(people.find()) == [1, 2, 3]
    assert ids(people.find({"age": None})) == [2, 3]
    assert [one["_id"] for one in people.find(sort=[("_id", -1)]).skip(1).limit(1)] == [2]
    assert people.find_one({"t": 2}, {"t.$": 1}) == {"_id": 1, "t": [2]}
    assert people.find_one({"_id": 9}) is None
    assert people.find(projection=["name"], sort="_id").to_list()[2] == {"_id": 3}
    assert people.distinct("t") == [1, 2]
    assert people.distinct("age", {"_id": {"$gt": 1}}) == [None]
    assert (people.count_documents({"_id": {"$lt": 3}}), people.count_documents({}, skip=1, limit=1)) == (2, 1)
    cursor = people.find({"_id": {"$in": [1, 2]}})
    people.delete_many({})
    assert ids(cursor) == [1, 2]
    assert people.find().to_list() == []


def test_one_is_found_and_changed(people: Collection) -> None:
    by_age = [("_id", -1)]
    assert people.find_one_and_update({}, {"$set": {"n": 5}}, sort=by_age) == {"_id": 3, "age": None}
    assert people.find_one_and_update({"_id": 3}, {"$inc": {"n": 1}}, {"n": 1}, return_document=True) == {"_id": 3, "n": 6}
    assert people.find_one_and_replace({"_id": 3}, {"z": 1}, return_document=True) == {"_id": 3, "z": 1}
    assert people.find_one_and_replace({"_id": 4}, {"z": 1}, upsert=True) is None
    assert people.find_one_and_delete({}, sort=by_age) == {"_id": 4, "z": 1}
    assert people.find_one_and_delete({"_id": 4}) is None
    assert ids(people.find()) == [1, 2, 3]


def test_a_bulk_is_one_commit_whose_parts_see_those_before_them(people: Collection) -> None:
    before = people.version
    done = people.bulk_write(
        [
            InsertOne({"_id": 10, "n": 1}),
            UpdateMany({"_id": {"$gte": 3}}, {"$inc": {"n": 1}}),
            UpdateOne({"_id": 10}, {"$inc": {"n": 1}}),
            DeleteOne({"_id": 1}),
            InsertOne({"_id": 1, "fresh": True}),
            ReplaceOne({"_id": 50}, {"r": 1}, upsert=True),
            DeleteMany({"name": "Alan"}),
        ]
    )
    assert people.version == before + 1
    assert (done.inserted_count, done.matched_count, done.modified_count, done.deleted_count) == (2, 3, 3, 2)
    assert (done.upserted_ids, done.upserted_count) == ({5: 50}, 1)
    wanted = [{"_id": 1, "fresh": True}, {"_id": 3, "age": None, "n": 1}, {"_id": 10, "n": 3}, {"_id": 50, "r": 1}]
    assert people.find(sort="_id").to_list() == wanted
    with pytest.raises(DuplicateKey):
        people.bulk_write([DeleteMany({}), InsertOne({"_id": 5}), InsertOne({"_id": 5.0})])
    with pytest.raises(InvalidOption, match="none of them"):
        people.bulk_write([{"_id": 5}])  # type: ignore[list-item]
    assert people.find(sort="_id").to_list() == wanted


def test_an_operation_is_made_once_wherever_it_is_sent_again(people: Collection) -> None:
    other = gl.documents.collection(people.table.url)
    first = people.insert_one({"a": 1}, operation_id="insert")
    again = other.insert_one({"a": 1}, operation_id="insert")
    assert (first.already_applied, again.already_applied, again.inserted_id) == (False, True, first.inserted_id)
    for made in (people, other):
        told = made.update_many({"_id": {"$in": [1, 2]}}, {"$inc": {"n": 1}}, operation_id=("app", 1))
        assert (told.matched_count, told.modified_count) == (2, 2)
    assert people.find_one({"_id": 2}) == {"_id": 2, "name": "Alan", "n": 1}
    gone = [made.delete_many({"a": 1}, operation_id="gone").deleted_count for made in (people, other)]
    assert gone == [1, 1]


UNKNOWN: list[Callable[[Collection], object]] = [
    lambda one: one.find({"a": {"$foo": 1}}),
    lambda one: one.find_one({"a": {"$foo": 1}}),
    lambda one: one.count_documents({"$foo": 1}),
    lambda one: one.distinct("a", {"a": {"$not": {"$foo": 1}}}),
    lambda one: one.delete_one({"a": {"$foo": 1}}),
    lambda one: one.delete_many({"$or": [{}, {"a": {"$foo": 1}}]}),
    lambda one: one.replace_one({"a": {"$foo": 1}}, {}),
    lambda one: one.replace_one({}, {"$foo": 1}),
    lambda one: one.update_many({"a": {"$foo": 1}}, {"$set": {"a": 1}}),
    lambda one: one.update_many({}, {"$set": {"a": 1}, "$foo": {"b": 1}}),
    lambda one: one.update_many({}, {"$pull": {"t": {"$foo": 1}}}),
    lambda one: one.update_many({}, {"$push": {"t": {"$each": [1], "$foo": 1}}}),
    lambda one: one.update_many({}, {"$set": {"t.$[e]": 1}}, array_filters=[{"e": {"$foo": 1}}]),
    lambda one: one.find_one_and_delete({}, {"a": {"$foo": 1}}),
    lambda one: one.find_one_and_update({}, {"$foo": {"a": 1}}),
    lambda one: one.bulk_write([DeleteMany({}), UpdateOne({}, {"$foo": {"a": 1}})]),
]


@pytest.mark.parametrize("call", UNKNOWN, ids=range(len(UNKNOWN)))
def test_an_unknown_operator_is_an_error_that_changes_nothing(call: Callable[[Collection], object], people: Collection) -> None:
    before, held = people.version, people.find(sort="_id").to_list()
    with pytest.raises((InvalidFilter, InvalidOption, NotSupported), match=r"\$foo"):
        call(people)
    assert gl.documents.collection(people.table.url).version == before
    assert people.find(sort="_id").to_list() == held


def test_what_cannot_be_stored_is_an_error_that_names_it(people: Collection) -> None:
    for given, told in (
        ({"_id": [1]}, "array"),
        ({"a": object()}, "object"),
        ({"a": 1 << 64}, "64"),
        ({"a\0": 1}, "null"),
        ({1: 2}, "document 0"),
        ({"a": "x" * (16 << 20)}, "bytes"),
    ):
        with pytest.raises(InvalidValue, match=told):
            people.insert_many([given])  # type: ignore[list-item]
    with pytest.raises(InvalidOption):
        people.insert_many([])
    for update in ({"$set": {"_id": 9}}, {"$unset": {"_id": 1}}, {"$inc": {"name": 1}}, {"$push": {"age": 1}}):
        with pytest.raises(InvalidValue, match="nothing was changed"):
            people.update_one({"_id": 1}, update)
    with pytest.raises(InvalidValue, match="_id 1 cannot become 2"):
        people.replace_one({"_id": 1}, {"_id": 2})
    assert people.version == 1


def test_other_tables_are_no_collections(tmp_path: Path) -> None:
    gl.delta.create(tmp_path / "plain")
    with pytest.raises(UnsupportedTable, match="no collection"):
        gl.documents.collection(tmp_path / "plain")
    with pytest.raises(TableNotFound):
        gl.documents.collection(tmp_path / "none", create=False)


# -- one _id, one document ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "same", [[1, 1.0, Int64(1), Decimal128("1.00")], ["a"], [ObjectId("5" * 24)], [{"a": 1}, {"a": 1.0}], [None]]
)
def test_an_id_names_one_document(same: list[Any], tmp_path: Path) -> None:
    made = gl.documents.collection(tmp_path / "made")
    made.insert_many([{"_id": same[0]}, {"_id": True}, {"_id": "1"}, {"_id": {"a": True}}, {"_id": 1.5}])
    for one in same:
        with pytest.raises(DuplicateKey) as caught:
            made.insert_one({"_id": one})
        assert caught.value.keys == ((one,),)
        assert ids_of_type(made.find({"_id": one})) == [type(same[0])]
    with pytest.raises(DuplicateKey):
        made.insert_many([{"_id": "new"}, {"_id": "new"}])
    assert made.version == 1


def ids_of_type(found: Any) -> list[type]:
    return [type(one["_id"]) for one in found]


class Meddled(Insert):
    """An insert before whose commit another one comes."""

    other: Callable[[], object]
    done = False

    def apply(self, view: View) -> Outcome:
        outcome = super().apply(view)
        if not Meddled.done:
            Meddled.done = True
            Meddled.other()
        return outcome


def test_an_insert_that_lost_the_race_for_its_id_is_told_so(people: Collection) -> None:
    other = gl.documents.collection(people.table.url)
    Meddled.other, Meddled.done = staticmethod(lambda: other.insert_one({"_id": 5, "by": "other"})), False
    step = Meddled(ids=[5], data=[bson.encode({"_id": 5, "by": "us"})])
    with pytest.raises(DuplicateKey) as caught:
        people._change([step], None)
    assert caught.value.keys == ((5,),)
    assert people.find({"_id": 5}).to_list() == [{"_id": 5, "by": "other"}]


RACER = """
import sys, gapless as gl
from gapless.errors import DuplicateKey
made, won = gl.documents.collection(sys.argv[1]), []
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    try:
        made.insert_one({"_id": number, "by": sys.argv[2]})
        won.append(number)
    except DuplicateKey as error:
        assert error.keys == ((number,),)
    made.update_one({"_id": "sum"}, {"$inc": {"n": 1}}, upsert=True)
print(won)
"""


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.soak)])
def test_of_two_processes_one_gets_each_id_and_no_increment_is_lost(count: int, tmp_path: Path) -> None:
    path = str(tmp_path / "raced")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, path, name, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("a", "b")
    ]
    for one in racers:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in racers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    answers = [one.communicate(timeout=300)[0] for one in racers]
    assert [one.returncode for one in racers] == [0, 0]
    won = [list(map(int, answer.strip("[]\n").split(", "))) if answer != "[]\n" else [] for answer in answers]
    assert sorted(won[0] + won[1]) == list(range(count))
    made = gl.documents.collection(path, create=False)
    by = {one["_id"]: one["by"] for one in made.find({"_id": {"$type": "number"}})}
    assert by == {number: name for name, numbers in zip("ab", won, strict=True) for number in numbers}
    assert made.find({"_id": "sum"}).to_list() == [{"_id": "sum", "n": 2 * count}]
