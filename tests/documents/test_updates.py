"""Updates: what a server of MongoDB's protocol made of them (`support/golden_updates.py`), and what is refused."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import bson
import pytest
from bson import json_util
from bson.timestamp import Timestamp

import gapless as gl
from gapless.documents.collections.requests import Circumstances, UpdateOne
from gapless.documents.filters.match import holds
from gapless.documents.updates.update import parse_update
from gapless.documents.values.codec import OPTIONS, decode_document, encode_document
from gapless.errors import CallError, DataError, InvalidFilter, InvalidOption, InvalidValue
from support.golden_updates import PLACE

GOLDEN: list[dict[str, Any]] = json_util.loads(
    PLACE.read_text(encoding="utf-8"),
    json_options=json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, tz_aware=False, uuid_representation=4),
)


def made(case: dict[str, Any]) -> dict[str, Any] | None:
    """What we make of the document; None for what is refused."""
    try:
        step = UpdateOne(case["filter"], case["update"], case["document"] is None, case["array_filters"]).step(
            Circumstances(0, iter(range(100, 200)))
        )
        if case["document"] is None:
            assert step.upsert is not None
            return step.upsert()
        document = copy.deepcopy(case["document"])
        assert holds(step.condition, document)
        after = step.change(document)
        return after if after.get("_id") == 1 else None
    except (CallError, DataError):
        return None


@pytest.mark.parametrize("case", GOLDEN, ids=lambda one: f"{one['filter']} {one['update']}"[:80])
def test_an_update_makes_what_the_server_makes(case: dict[str, Any]) -> None:
    ours = made(case)
    if "error" in case:
        assert ours is None, ours
        return
    assert ours is not None
    after = decode_document(encode_document(ours))
    wanted = case["after"]
    # New fields come in the order of their names, as the manual says; the server has them in the order in which they are written.
    assert bson.encode(by_name(after), codec_options=OPTIONS) == bson.encode(by_name(wanted), codec_options=OPTIONS)
    if case["document"] is not None:
        assert case["modified"] == int(encode_document(after) != encode_document(case["document"]))


def by_name(document: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(document.items()))


def test_there_are_many_cases() -> None:
    assert len(GOLDEN) >= 200


def test_new_fields_come_in_the_order_of_their_names() -> None:
    assert list(parse_update({"$set": {"b": 1, "a": 2}, "$inc": {"aa": 1}}).apply({"_id": 1}, None)) == ["_id", "a", "aa", "b"]


def test_the_date_is_that_of_the_call() -> None:
    update = parse_update(
        {"$currentDate": {"a": True, "b": {"$type": "timestamp"}, "c": {"$type": "date"}}}, now_ns=1_700_000_000_123_456_789
    )
    at = datetime(2023, 11, 14, 22, 13, 20, 123_000)
    assert update.apply({}, None) == {"a": at, "b": Timestamp(1_700_000_000, 1), "c": at}


REFUSED: list[tuple[Any, Any, str]] = [
    ({"$foo": {"a": 1}}, None, r"\$foo is no update operator"),
    ({"$sett": {"a": 1}}, None, r"\$set"),
    ({"a": 1}, None, "a is no update operator"),
    ({}, None, "mapping of operators"),
    ({"$set": 5}, None, "takes fields"),
    ({"$set": {"a": 1, "a.b": 2}}, None, "twice"),
    ({"$set": {"a.b": 1}, "$inc": {"a": 2}}, None, "twice"),
    ({"$rename": {"a": "b"}, "$set": {"b": 1}}, None, "twice"),
    ({"$rename": {"a": "a"}}, None, "twice"),
    ({"$rename": {"a": 5}}, None, "dotted"),
    ({"$rename": {"a.$[]": "b"}}, None, "no names"),
    ({"$set": {"a..b": 1}}, None, "dotted"),
    ({"$set": {"$a": 1}}, None, "dotted"),
    ({"$set": {"a.$x": 1}}, None, "positional|Positional"),
    ({"$set": {"a.$.b.$": 1}}, None, "one"),
    ({"$push": {"a": {"$each": 1}}}, None, "each"),
    ({"$push": {"a": {"$each": [1], "$foo": 1}}}, None, r"\$foo"),
    ({"$push": {"a": {"$slice": 1}}}, None, "each"),
    ({"$push": {"a": {"$each": [], "$sort": 2}}}, None, "1 or -1"),
    ({"$push": {"a": {"$each": [], "$slice": "x"}}}, None, "whole"),
    ({"$addToSet": {"a": {"$each": [1], "$slice": 1}}}, None, "only modifier"),
    ({"$pop": {"a": 2}}, None, "-1"),
    ({"$pullAll": {"a": 1}}, None, "list"),
    ({"$bit": {"a": {"nand": 1}}}, None, "xor"),
    ({"$inc": {"a": True}}, None, "number"),
    ({"$currentDate": {"a": {"$type": "day"}}}, None, "date"),
    ({"$set": {"a.$[e]": 1}}, [{"e": 1}, {"e": 2}], "array_filters"),
    ({"$set": {"a.$[e]": 1}}, [{"E": 1}], "array_filters"),
    ({"$set": {"a.$[e]": 1}}, {"e": 1}, "array_filters"),
    ({"$set": {"a.$[e]": 1}}, [{"e": 1}, {"f": 1}], "f"),
]


@pytest.mark.parametrize(("update", "filters", "told"), REFUSED, ids=lambda one: str(one)[:50])
def test_what_an_update_does_not_take(update: Any, filters: Any, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        parse_update(update, filters)


def test_a_pipeline_computes_what_a_document_becomes() -> None:
    people = gl.documents.collection("memory://updates-by-pipelines")
    people.insert_many([{"_id": 1, "a": 1, "b": {"c": 2}}, {"_id": 2, "a": 5}])
    done = people.update_many(
        {}, [{"$set": {"sum": {"$add": ["$a", {"$ifNull": ["$b.c", 0]}]}, "at": "$$NOW"}}, {"$unset": "b"}]
    )
    assert (done.matched_count, done.modified_count) == (2, 2)
    assert [(one["_id"], one["a"], one["sum"], sorted(one)) for one in people.find()] == [
        (1, 1, 3, ["_id", "a", "at", "sum"]),
        (2, 5, 5, ["_id", "a", "at", "sum"]),
    ]
    people.update_one({"_id": 2}, [{"$replaceWith": {"was": "$a"}}])
    assert people.find_one({"_id": 2}) == {"_id": 2, "was": 5}
    assert people.update_one({"_id": 2}, [{"$set": {"was": 5}}]).modified_count == 0
    people.update_one({"_id": 3, "n": 4}, [{"$set": {"n": {"$add": ["$n", 1]}}}], upsert=True)
    assert people.find_one({"_id": 3}) == {"_id": 3, "n": 5}
    with pytest.raises(InvalidValue, match="_id"):
        people.update_one({"_id": 3}, [{"$set": {"_id": 4}}])


@pytest.mark.parametrize(
    ("update", "filters", "error"),
    [
        ([], None, InvalidOption),
        ([{"$match": {}}], None, InvalidOption),
        ([{"$sett": {"a": 1}}], None, InvalidOption),
        ([{"$set": {"a": {"$addd": [1]}}}], None, InvalidFilter),
        ([{"$set": {"a": 1}}], [{"e": 1}], InvalidOption),
    ],
    ids=str,
)
def test_what_an_update_by_a_pipeline_does_not_take(update: Any, filters: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_update(update, filters)


def test_a_filter_that_says_two_values_seeds_nothing() -> None:
    with pytest.raises(InvalidOption, match="twice"):
        UpdateOne({"a": 1, "$and": [{"a": 2}]}, {"$set": {"b": 1}}, upsert=True).step(Circumstances(0, iter([1])))
