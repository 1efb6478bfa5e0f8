"""The rules that stores of documents get wrong, each by itself, over a collection with its indexes as well as by the matcher.

They are those by which ten others were scored (27 of filters, 2 of sorts, 4 of projections, 12 of updates, 8 of pipelines; the best had 51 of 53).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex

import gapless as gl
from gapless.documents.collections.collection import Collection
from gapless.errors import CallError, DuplicateKey, InvalidFilter, InvalidOption, InvalidValue

NAN = float("nan")
NOTHING = object()


@pytest.fixture
def made(tmp_path: Path) -> Collection:
    """One whose paths are indexed."""
    found = gl.documents.collection(tmp_path / "rules")
    found.create_index([("v", 1), ("a", 1), ("a.b", 1)])
    return found


def of(values: list[Any]) -> list[dict[str, Any]]:
    return [{} if one is NOTHING else {"v": one} for one in values]


FILTERS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[int]]] = {
    "null at a path": (
        {"a.b": None},
        [{}, {"a": 5}, {"a": {}}, {"a": {"b": None}}, {"a": [{"b": 1}, {}]}, {"a": {"b": 1}}, {"a": []}, {"a": [4]}],
        [0, 1, 2, 3, 4],
    ),
    "missing at a path through arrays": (
        {"a.b": {"$exists": False}}, [{"a": []}, {"a": [{}]}, {"a": [{"b": 1}, {}]}, {}, {"a": {"b": None}}], [0, 1, 3]
    ),
    "an array, whole or as an element": ({"v": ["a", "b"]}, of([["a", "b"], [["a", "b"], 1], ["b", "a"], "a"]), [0, 1]),
    "an array in an array": ({"v": [1, 2]}, of([[[1, 2]], [1, 2], [1, 2, 3]]), [0, 1]),
    "operators met by different elements": ({"v": {"$gt": 1, "$lt": 3}}, of([[0, 5], [2], 2, [], [5]]), [0, 1, 2]),
    "one element meets them": ({"v": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, of([[0, 5], [2], 2]), [1]),
    "a number in a path": (
        {"a.1": 5}, [{"a": [0, 5]}, {"a": {"1": 5}}, {"a": [{"1": 5}]}, {"a": [5]}, {"a": [[0, 5]]}], [0, 1, 2]
    ),
    "the order of fields": ({"v": {"x": 1, "y": 2}}, of([{"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1}]), [0]),
    "1 is a number of any type": ({"v": 1}, of([1, 1.0, Int64(1), Decimal128("1.0"), True, "1"]), [0, 1, 2, 3]),
    "true is a boolean": ({"v": True}, of([True, 1, 1.0]), [0]),
    "not equal takes the rest": ({"v": {"$ne": 1}}, of([NOTHING, None, "a", [1, 2], [2], 1.0]), [0, 1, 2, 4]),
    "not in takes the rest": ({"v": {"$nin": [1, None]}}, of([NOTHING, None, "a", [1, 2], 2]), [2, 4]),
    "not takes the rest": ({"v": {"$not": {"$gt": 1}}}, of([NOTHING, None, "a", [0, 2], 1, 2]), [0, 1, 2, 4]),
    "patterns and null in a list": ({"v": {"$in": [Regex("^ab"), 5, None]}}, of(["abc", "xab", 5.0, None, NOTHING, ["x", "ab"], 6]), [0, 2, 3, 4, 5]),
    "a pattern as a value": ({"v": {"$eq": Regex("^a")}}, of(["a", Regex("^a"), Regex("^a", "i")]), [1]),
    "numbers by type, in arrays": ({"v": {"$type": "number"}}, of([1, 1.5, Decimal128("1"), ["a", 1], "1", True, None]), [0, 1, 2, 3]),
    "arrays by type": ({"v": {"$type": "array"}}, of([[], [1], [[1]], 1]), [0, 1, 2]),
    "the size of the array itself": ({"v": {"$size": 2}}, of([[1, 2], [[1, 2]], [[1], [2]], "ab", 2]), [0, 2]),
    "all of nothing": ({"v": {"$all": []}}, of([[], [1], 1]), []),
    "all over a path": (
        {"a.b": {"$all": [1, 2]}}, [{"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}]}, {"a": {"b": [1, 2]}}], [0, 2]
    ),
    "a remainder has the sign of the number": ({"v": {"$mod": [4.9, -3]}}, of([-7, 7, -3.9, 1, "a", Int64(-7)]), [0, 2, 5]),
    "what an expression takes for true": (
        {"$expr": "$v"}, of([False, 0, 0.0, None, NOTHING, "", [], {}, NAN, 1, Int64(0), Decimal128("0")]), [5, 6, 7, 8, 9]
    ),
    "comparisons stay in one type": ({"v": {"$gt": 1}}, of([2, "a", None, True, [3], {}, datetime(2026, 1, 1), 1.5]), [0, 4, 7]),
    "at least null": ({"v": {"$gte": None}}, of([None, NOTHING, 0, "a", []]), [0, 1]),
    "at least NaN": ({"v": {"$gte": NAN}}, of([NAN, Decimal128("NaN"), 0, float("inf")]), [0, 1]),
    "longs are exact": ({"v": Int64(2**53 + 1)}, of([Int64(2**53 + 1), 2.0**53, Int64(2**53), Decimal128(str(2**53 + 1))]), [0, 3]),
    "a dot meets no end of a line": ({"v": {"$regex": "a.b++"}}, of(["a\nb", "axbb", "xaxb", "A b", ["a b"]]), [1, 2, 4]),
    "expressions compare across types": ({"$expr": {"$gt": ["$v", 10]}}, of(["a", 11, 10, None, [], NAN]), [0, 1, 4]),
}  # fmt: skip


@pytest.mark.parametrize("rule", FILTERS)
def test_filters(rule: str, made: Collection) -> None:
    filter_, documents, wanted = FILTERS[rule]
    assert [at for at, one in enumerate(documents) if gl.documents.matches(filter_, one)] == wanted
    made.insert_many([{"_id": at, **one} for at, one in enumerate(documents)])
    assert [one["_id"] for one in made.find(filter_)] == wanted
    assert made.count_documents(filter_) == len(wanted)
    assert [one["_id"] for one in made.aggregate([{"$match": filter_}])] == wanted
    assert made.delete_many(filter_).deleted_count == len(wanted)


@pytest.mark.parametrize(
    "filter_",
    [{"$or": []}, {"v": {"$foo": 1}}, {"$foo": 1}, {"v": {"$mod": [0, 1]}}, {"v": {"$mod": [NAN, 1]}}, {"v": {"$mod": [1]}}],
    ids=str,
)
def test_filters_that_are_none(filter_: dict[str, Any], made: Collection) -> None:
    made.insert_one({"_id": 1, "v": 1})
    for call in (made.find_one, made.delete_many, lambda given: made.update_many(given, {"$set": {"v": 2}})):
        with pytest.raises(InvalidFilter):
            call(filter_)
    assert made.find().to_list() == [{"_id": 1, "v": 1}]


def test_sorts(made: Collection) -> None:
    values = [3, NOTHING, [5, -1], "a", None, [], True, Decimal128("2.5"), {"x": 1}, datetime(2026, 1, 1), b"b"]
    made.insert_many([{"_id": at, **one} for at, one in enumerate(of(values))])
    assert [one["_id"] for one in made.find(sort=[("v", 1), ("_id", 1)])] == [5, 1, 4, 2, 7, 0, 3, 8, 10, 6, 9]
    assert [one["_id"] for one in made.find(sort=[("v", -1), ("_id", 1)])] == [9, 6, 10, 8, 3, 2, 0, 7, 1, 4, 5]


def test_projections(made: Collection) -> None:
    made.insert_one({"_id": 1, "a": [{"x": 1, "y": 2}, {"y": 3}, 7, {"x": 4}], "b": 5})
    for mixed in ({"a": 1, "b": 0}, {"a": 0, "b": 1}):
        with pytest.raises(InvalidOption):
            made.find_one({}, mixed)
    assert made.find_one({}, {"a": {"$slice": -1}}) == {"_id": 1, "a": [{"x": 4}], "b": 5}
    assert made.find_one({}, {"a": {"$elemMatch": {"x": {"$gt": 1}}}}) == {"_id": 1, "a": [{"x": 4}]}
    assert made.find_one({}, {"a": {"$elemMatch": {"x": 9}}}) == {"_id": 1}
    assert made.find_one({}, {"a.x": 1, "_id": 0}) == {"a": [{"x": 1}, {}, {"x": 4}]}


UPDATES: dict[str, tuple[dict[str, Any], Any, dict[str, Any] | type[Exception]]] = {
    "an int that is too small becomes a long": ({"v": 2**31 - 1}, {"$inc": {"v": 1}}, {"v": 2**31}),
    "a long that is too small": ({"v": Int64(2**63 - 1)}, {"$inc": {"v": 1}}, InvalidValue),
    "a text is not added to": ({"v": "a"}, {"$inc": {"v": 1}}, InvalidValue),
    "unset of an element": ({"a": [1, 2, 3]}, {"$unset": {"a.1": 1}}, {"a": [1, None, 3]}),
    "set beyond the end": ({"a": [1]}, {"$set": {"a.3": 4}}, {"a": [1, None, None, 4]}),
    "set into a scalar": ({"v": 1}, {"$set": {"v.x": 4}}, InvalidValue),
    "push: place, order, slice": (
        {"a": [5, 1]}, {"$push": {"a": {"$each": [3, 9], "$position": 0, "$sort": -1, "$slice": 3}}}, {"a": [9, 5, 3]}
    ),
    "push onto what is no array": ({"a": 1}, {"$push": {"a": 1}}, InvalidValue),
    "pull by a filter": ({"a": [{"x": 1, "y": 2}, {"x": 2}, 1]}, {"$pull": {"a": {"x": 1}}}, {"a": [{"x": 2}, 1]}),
    "pull by an operator": ({"a": [1, 5, 7]}, {"$pull": {"a": {"$gte": 5}}}, {"a": [1]}),
    "pull exact values": ({"a": [1, 1.0, "1", True]}, {"$pullAll": {"a": [1]}}, {"a": ["1", True]}),
    "all elements": ({"a": [1, 2]}, {"$inc": {"a.$[]": 10}}, {"a": [11, 12]}),
    "a path and one below it": ({"a": {}}, {"$set": {"a": 1, "a.b": 2}}, CallError),
    "the least by type": ({"v": "a"}, {"$min": {"v": 5}}, {"v": 5}),
    "the greatest by type": ({"v": "a"}, {"$max": {"v": 5}}, {"v": "a"}),
    "rename through an array": ({"a": [{"x": 1}]}, {"$rename": {"a.x": "y"}}, InvalidValue),
    "rename of what a scalar has not": ({"v": 1}, {"$rename": {"v.x": "y"}}, InvalidValue),
    "rename of nothing": ({"v": {"x": 1}}, {"$rename": {"v.y": "z", "w.y": "q"}}, {"v": {"x": 1}}),
    "the id stays": ({"v": 1}, {"$set": {"_id": 9}}, InvalidValue),
    "the same id is no change": ({"v": 1}, {"$set": {"_id": 1}}, {"v": 1}),
    "no operator is known by halves": ({"v": 1}, {"$set": {"v": 2}, "$foo": {"v": 1}}, CallError),
}  # fmt: skip


@pytest.mark.parametrize("rule", UPDATES)
def test_updates(rule: str, made: Collection) -> None:
    document, update, wanted = UPDATES[rule]
    made.insert_one({"_id": 1, **document})
    version = made.version
    if isinstance(wanted, dict):
        made.update_one({"_id": 1}, update)
        assert made.find_one() == {"_id": 1, **wanted}
        return
    with pytest.raises(wanted):
        made.update_one({"_id": 1}, update)
    assert (made.version, made.find_one()) == (version, {"_id": 1, **document})


def test_updates_are_counted_and_placed(made: Collection) -> None:
    made.insert_one({"v": 1, "a": [{"x": 1}, {"x": 5}], "_id": 1})
    assert next(iter(made.find_one() or {})) == "_id"
    same, typed = made.update_one({}, {"$set": {"v": 1}}), made.update_one({}, {"$set": {"v": 1.0}})
    assert [(one.matched_count, one.modified_count) for one in (same, typed)] == [(1, 0), (1, 1)]
    assert type((made.find_one() or {})["v"]) is float
    made.update_one({"a.x": 5}, {"$set": {"a.$.hit": True}})
    made.update_one({}, {"$set": {"a.$[e].low": True}}, array_filters=[{"e.x": {"$lt": 3}}])
    assert (made.find_one() or {})["a"] == [{"x": 1, "low": True}, {"x": 5, "hit": True}]
    with pytest.raises(InvalidValue):
        made.update_one({"v": 1}, {"$set": {"a.$.x": 1}})
    with pytest.raises(CallError):
        made.update_one({}, {"$set": {"v": 1}}, array_filters=[{"e.x": 1}])
    for number in (1.0, Int64(1), Decimal128("1")):
        with pytest.raises(DuplicateKey):
            made.insert_one({"_id": number})
    made.insert_one({"_id": True})
    for wrong in ([1], Regex("a")):
        with pytest.raises(InvalidValue):
            made.insert_one({"_id": wrong})


def test_upserts_are_seeded_by_what_the_filter_says_that_is_equal(made: Collection) -> None:
    asked = {
        "x": 1, "y.z": {"$eq": 2}, "$and": [{"w": 3}, {"n": {"$gt": 5}}], "$or": [{"o": 4}], "t": {"$all": [6]}, "i": {"$in": [7]}
    }  # fmt: skip
    made.update_one(asked, {"$set": {"s": 1}}, upsert=True)
    found = made.find_one({}, {"_id": 0})
    assert found == {"x": 1, "y": {"z": 2}, "w": 3, "o": 4, "t": 6, "i": 7, "s": 1}
    assert made.update_one({"_id": 9, "v": {"$lt": 1}}, {"$inc": {"v": 1}}, upsert=True).upserted_id == 9


def test_groups(made: Collection) -> None:
    values = [1, 1.0, Int64(1), "1", True, None, NOTHING, [1], Decimal128("1.0")]
    made.insert_many([{"_id": at, "n": at, **one} for at, one in enumerate(of(values))])
    found = made.aggregate([{"$group": {"_id": "$v", "n": {"$sum": 1}, "of": {"$push": "$_id"}}}]).to_list()
    assert [one["of"] for one in found] == [[0, 1, 2, 8], [3], [4], [5, 6], [7]]
    (one,) = made.aggregate([{"$group": {"_id": None, "sum": {"$sum": "$v"}, "avg": {"$avg": "$v"}, "none": {"$avg": "$z"}}}])
    assert (one["sum"], one["avg"], one["none"]) == (Decimal128("4.0"), Decimal128("1.0"), None)
    first = made.aggregate([{"$sort": {"_id": -1}}, {"$group": {"_id": None, "a": {"$first": "$v"}, "z": {"$last": "$v"}}}])
    assert first.to_list() == [{"_id": None, "a": Decimal128("1.0"), "z": 1}]


def test_unwinds(made: Collection) -> None:
    made.insert_many([{"_id": at, **one} for at, one in enumerate(of([[1, 2], 3, [], None, NOTHING]))])
    unwound: dict[str, Any] = {"path": "$v", "includeArrayIndex": "at"}
    found = made.aggregate([{"$unwind": unwound}]).to_list()
    assert found == [{"_id": 0, "v": 1, "at": 0}, {"_id": 0, "v": 2, "at": 1}, {"_id": 1, "v": 3, "at": None}]
    kept = made.aggregate([{"$unwind": {**unwound, "preserveNullAndEmptyArrays": True}}]).to_list()[3:]
    assert kept == [{"_id": 2, "at": None}, {"_id": 3, "v": None, "at": None}, {"_id": 4, "at": None}]


def test_pipelines_of_others(made: Collection, tmp_path: Path) -> None:
    other = gl.documents.collection(tmp_path / "others")
    other.insert_many([{"_id": 1, "k": None}, {"_id": 2}, {"_id": 3, "k": [5, 6]}, {"_id": 4, "k": 5}])
    made.insert_many([{"_id": at, **one} for at, one in enumerate(of([5, None, NOTHING, [6, 7]]))])
    joined = {"$lookup": {"from": "o", "localField": "v", "foreignField": "k", "as": "x"}}
    found = made.aggregate([joined], collections={"o": other}).to_list()
    assert [[each["_id"] for each in one["x"]] for one in found] == [[3, 4], [1, 2], [1, 2], [3]]
    facets = {"$facet": {"n": [{"$count": "n"}], "none": [{"$match": {"v": "?"}}, {"$count": "n"}]}}
    assert made.aggregate([facets]).to_list() == [{"n": [{"n": 4}], "none": []}]
    buckets = {"$bucket": {"groupBy": "$_id", "boundaries": [0, 2, 3], "default": "more"}}
    assert made.aggregate([buckets]).to_list() == [{"_id": 0, "count": 2}, {"_id": 2, "count": 1}, {"_id": "more", "count": 1}]

    def total(given: Any) -> Any:
        (one,) = made.aggregate([{"$limit": 1}, {"$project": {"_id": 0, "t": given}}])
        return one["t"]

    assert total({"$add": [2**31 - 1, 1]}) == 2**31
    assert type(total({"$add": [2**31 - 1, 1]})) is Int64
    assert total({"$cond": [[], "yes", "no"]}) == "yes"
