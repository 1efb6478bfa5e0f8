"""Order and projection: the case from the field, and the answers of a server of MongoDB's protocol."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from pymongo import MongoClient

from gapless.documents.filters.match import holds
from gapless.documents.filters.parse import parse_filter
from gapless.documents.find.projection import parse_projection
from gapless.documents.find.sort import ordered, parse_sort, place_of
from gapless.documents.values.codec import OPTIONS, decode_document, encode_document
from gapless.errors import InvalidFilter, InvalidOption, NotSupported
from support.random_documents import document

SORTS: tuple[Any, ...] = ("a", [("a", -1)], [("b", 1), ("a", -1)], "a.b", [("b.a", -1)], [("a", 1), ("b.a", 1)])
PROJECTIONS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {"a": 1}),
    ({}, {"a": 0}),
    ({}, {"_id": 1}),
    ({}, {"a.b": 1, "b.a": True}),
    ({}, {"a": {"b": 1}}),
    ({}, {"a.b": 0}),
    ({}, {"a": {"$slice": 1}}),
    ({}, {"a": {"$slice": -2}, "b": 1}),
    ({}, {"a": {"$slice": [1, 2]}, "b": 0}),
    ({}, {"a": {"$slice": [-2, 1]}}),
    ({}, {"a": {"$elemMatch": {"$gt": 0}}}),
    ({}, {"a": {"$elemMatch": {"b": {"$exists": True}}}, "b": 1}),
)


def test_mon_18_null_missing_and_arrays_in_a_sort() -> None:
    values: list[Any] = [3, None, 0, "missing", None, "a", True, [5, -1], []]
    given = [(at, {} if value == "missing" else {"v": value}) for at, value in enumerate(values)]
    assert [at for at, _ in ordered(given, parse_sort("v"))] == [8, 1, 3, 4, 7, 2, 0, 5, 6]
    assert [at for at, _ in ordered(given, parse_sort([("v", -1)]))] == [6, 5, 7, 0, 2, 1, 3, 4, 8]


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 30))])
def test_order_and_fields_are_the_servers(seed: int, mongo: MongoClient[Any]) -> None:
    chance = random.Random(seed)
    collection = mongo.get_database("found").get_collection(f"of_seed_{seed}").with_options(codec_options=OPTIONS)
    collection.insert_many([document(chance, number) for number in range(150)])
    documents = {one["_id"]: one for one in collection.find({})}
    for sort in SORTS:
        by = parse_sort(sort)
        theirs = [documents[one["_id"]] for one in collection.find({}, {"_id": 1}).sort(sort)]
        for one, other in pairwise(theirs):
            for path, descending in by:
                before, after = (place_of(each, path, descending=descending) for each in (one, other))
                assert before >= after if descending else before <= after, (sort, one, other)
                if before != after:
                    break
    for filter_, projection in PROJECTIONS:
        condition, shape = parse_filter(filter_), parse_projection(projection)
        assert shape is not None
        wanted = {one["_id"]: one for one in documents.values() if holds(condition, one)}
        found = list(collection.find(filter_, projection))
        assert {one["_id"] for one in found} == set(wanted)
        for one in found:
            ours = shape.apply(decode_document(encode_document(wanted[one["_id"]])), condition)
            assert in_names_order(ours) == in_names_order(one), (projection, wanted[one["_id"]])


def in_names_order(document_: dict[str, Any]) -> bytes:
    """Where the array of an `$elemMatch` stands the server does not do as MongoDB's manual says: behind the other fields."""
    return bson.encode(dict(sorted(document_.items())), codec_options=OPTIONS)


def test_what_a_projection_gives_without_an_id() -> None:
    given = {"_id": 1, "a": [{"x": 1, "y": 2}, 5, {"y": 3}, [{"x": 4}]], "b": Decimal128("1")}
    for projection, wanted in (
        ({"_id": 0, "b": 1}, {"b": Decimal128("1")}),
        ({"_id": 0}, {"a": given["a"], "b": Decimal128("1")}),
        ({"a.x": 1, "_id": 0}, {"a": [{"x": 1}, {}, [{"x": 4}]]}),
        ({"a.x": 0, "b": 0, "_id": 0}, {"a": [{"y": 2}, 5, {"y": 3}, [{}]]}),
        ([], {"_id": 1}),
    ):
        shape = parse_projection(projection)
        assert shape is not None
        assert shape.apply(decode_document(encode_document(given))) == wanted


REFUSED: list[tuple[Any, str]] = [
    ({"a": 1, "b": 0}, "both 1 and 0"),
    ({"a": 1, "a.b": 1}, "below it"),
    ({"a.b": 1, "a": 1}, "below it"),
    ({"a..b": 1}, "dotted"),
    ({"a": {"$slice": "x"}}, "slice"),
    ({"a.$.b": 1}, "last"),
    ({"a.$": 1, "b.$": 1}, "One array"),
    ("a", "list of names"),
    ({"a": {}}, "empty"),
    ({"a": "$b", "c": 0}, "expression with 0"),
    ({"a": "$b", "a.c": 1}, "below it"),
    ({"a.$": "$b"}, "array"),
]


@pytest.mark.parametrize(("projection", "told"), REFUSED, ids=lambda one: str(one)[:40])
def test_what_a_projection_does_not_take(projection: Any, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        parse_projection(projection)


@pytest.mark.parametrize("sort", [5, [("a", 2)], [("a", True)], [("$a", 1)], [("a..b", 1)], {"a": "up"}])
def test_what_a_sort_does_not_take(sort: Any) -> None:
    with pytest.raises(InvalidOption, match="no order"):
        parse_sort(sort)


def test_expressions_give_computed_fields() -> None:
    given = {"_id": 1, "a": 2, "b": {"c": 3}, "t": [{"x": 1}, {}]}
    for projection, wanted in (
        ({"d": {"$add": ["$a", "$b.c"]}}, {"_id": 1, "d": 5}),
        ({"_id": 0, "a": 1, "b.d": "$a"}, {"a": 2, "b": {"d": 2}}),
        ({"_id": 0, "t.y": "$a"}, {"t": [{"y": 2}, {"y": 2}]}),
        ({"_id": 0, "t": {"x": 1, "y": "$a"}}, {"t": [{"x": 1, "y": 2}, {"y": 2}]}),
        ({"_id": 0, "t": {"$slice": ["$t", -1]}}, {"t": [{}]}),
        ({"_id": 0, "a": "text", "n": {"$literal": 1}}, {"a": "text", "n": 1}),
        ({"_id": 0, "a": 1, "gone": "$$REMOVE"}, {"a": 2}),
        ({"_id": "$a"}, {"_id": 2}),
    ):
        shape = parse_projection(projection)
        assert shape is not None
        assert shape.apply(given) == wanted, projection


def test_what_is_not_built_is_refused_by_name() -> None:
    for projection in ({"a": {"$meta": "textScore"}}, {"a": {"$add": [1, {"$function": {}}]}}):
        with pytest.raises(NotSupported, match=r"\$meta|\$function"):
            parse_projection(projection)
    with pytest.raises(NotSupported, match=r"\$meta"):
        parse_sort([("a", {"$meta": "textScore"})])
    with pytest.raises(InvalidFilter, match=r"\$addd .*\$add'") as caught:
        parse_projection({"a": {"$addd": [1]}})
    assert caught.value.where == "$addd"
