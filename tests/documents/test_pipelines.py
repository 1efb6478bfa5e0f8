"""Pipelines: what a server of MongoDB's protocol made of them (`support/golden_pipelines.py`), and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from bson import json_util
from bson.decimal128 import Decimal128

from gapless.documents.aggregation.parse import STAGES, parse_pipeline
from gapless.documents.aggregation.rows import Sorted
from gapless.documents.aggregation.stages import Running, run
from gapless.documents.expressions.parse import parse_expression
from gapless.documents.expressions.scope import is_true, scope_of
from gapless.documents.filters.match import holds
from gapless.documents.filters.tree import Condition
from gapless.documents.values.codec import decode_document, encode_document
from gapless.documents.values.order import MISSING
from gapless.errors import CallError, DataError, InvalidFilter, InvalidOption, InvalidValue, NotSupported
from support.golden_pipelines import COLLECTIONS, PLACE, ordered
from support.random_documents import document
from support.random_pipelines import pipeline as random_pipeline
from support.typed_values import documents_of, typed

GOLDEN: list[dict[str, Any]] = json_util.loads(
    PLACE.read_text(encoding="utf-8"),
    json_options=json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, tz_aware=False, uuid_representation=4),
)
STORED = {name: [decode_document(encode_document(one)) for one in found] for name, found in COLLECTIONS.items()}


def read(name: str, condition: Condition) -> Iterator[dict[str, Any]]:
    return (one for one in STORED[name] if holds(condition, one))


AT = Running(read=read, draw=random.Random(1).random)


def made(pipeline: Any, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(run(parse_pipeline(pipeline), iter(documents), AT))


def test_pipelines_make_what_the_server_makes() -> None:
    wrong = []
    for case in GOLDEN:
        try:
            ours: Any = made(case["pipeline"], STORED[case["collection"]])
        except (CallError, DataError):
            ours = None
        theirs = case.get("found")
        in_order = ordered(case["pipeline"])
        if (ours is None) != (theirs is None) or documents_of(ours or [], in_order=in_order) != documents_of(
            theirs or [], in_order=in_order
        ):
            wrong.append((case["collection"], case["pipeline"], ours, theirs))
    assert not wrong


def test_no_pipeline_changes_the_documents_that_go_in() -> None:
    before = typed([STORED[name] for name in STORED])
    for case in GOLDEN:
        if "error" not in case:
            made(case["pipeline"], STORED[case["collection"]])
    assert typed([STORED[name] for name in STORED]) == before


def test_there_are_many_cases_of_all_stages() -> None:
    assert len(GOLDEN) >= 120
    assert sum("rule" in one for one in GOLDEN) < 20
    used = {name for one in GOLDEN for stage in one["pipeline"] for name in stage}
    assert set(STAGES) - {"$sample", "$merge"} <= used


# -- what the server cannot be asked -----------------------------------------------------------------------------------

TYPES: list[dict[str, Any]] = [
    {"v": 1},
    {"v": 1.0},
    {"v": Decimal128("1")},
    {"v": "1"},
    {"v": True},
    {"v": None},
    {},
    {"v": []},
]


def test_keys_of_groups_are_told_apart_by_type_and_value() -> None:
    found = made([{"$group": {"_id": "$v", "n": {"$sum": 1}}}], TYPES)
    assert [(one["_id"], one["n"]) for one in found] == [(1, 3), ("1", 1), (True, 1), (None, 2), ([], 1)]
    assert [type(one["_id"]) for one in found][:3] == [int, str, bool]
    in_documents = made([{"$group": {"_id": {"v": "$v"}, "n": {"$sum": 1}}}], TYPES)
    assert [one["n"] for one in in_documents] == [3, 1, 1, 1, 1, 1]


def test_a_sort_before_a_limit_keeps_as_many_as_are_asked() -> None:
    stages = parse_pipeline([{"$sort": {"v": 1}}, {"$skip": 2}, {"$limit": 3}, {"$limit": 1}])
    assert isinstance(stages[0], Sorted)
    assert stages[0].most == 5
    chance = random.Random(5)
    rows = [{"_id": at, "v": chance.randrange(10)} for at in range(200)]
    for way in (1, -1):
        by = {"$sort": {"v": way}}
        assert made([by, {"$skip": 3}, {"$limit": 20}], rows) == made([by], rows)[3:23]
    assert parse_pipeline([{"$sort": {"v": 1}}, {"$match": {}}, {"$limit": 1}])[0] == Sorted(by=((("v",), False),))


def test_a_sample_has_each_document_as_often() -> None:
    rows = [{"_id": at} for at in range(20)]
    stages = parse_pipeline([{"$sample": {"size": 5}}])
    seen = [0] * 20
    chance = random.Random(7)
    for _ in range(2000):
        found = list(run(stages, iter(rows), Running(read=read, draw=chance.random)))
        assert len({one["_id"] for one in found}) == 5
        for one in found:
            seen[one["_id"]] += 1
    assert min(seen) > 400
    assert max(seen) < 600
    assert len(made([{"$sample": {"size": 50}}], rows)) == 20


def test_documents_stream_through_stages_that_hold_none() -> None:
    taken = 0

    def many() -> Iterator[dict[str, Any]]:
        nonlocal taken
        for at in range(1_000_000):
            taken += 1
            yield {"_id": at, "t": [1, 2]}

    stages = parse_pipeline(
        [{"$match": {"_id": {"$gte": 3}}}, {"$unwind": "$t"}, {"$set": {"x": 1}}, {"$unset": "t"}, {"$limit": 4}]
    )
    assert len(list(run(stages, many(), AT))) == 4
    assert taken < 10


def test_a_window_of_a_range_is_that_of_brute_force() -> None:
    chance = random.Random(11)
    rows = [
        {"_id": at, "x": chance.choice([chance.randrange(20), chance.random() * 20]), "v": chance.randrange(9)}
        for at in range(80)
    ]
    for low, high in ((-2, 3), ("unbounded", 0), (0.5, "unbounded"), ("current", "current")):
        window = {"$sum": "$v", "window": {"range": [low, high]}}
        for one in made([{"$setWindowFields": {"sortBy": {"x": 1}, "output": {"s": window}}}], rows):
            least = -1e9 if low == "unbounded" else one["x"] + (0 if low == "current" else low)
            most = 1e9 if high == "unbounded" else one["x"] + (0 if high == "current" else high)
            assert one["s"] == sum(each["v"] for each in rows if least <= each["x"] <= most)


def test_windows_of_documents_are_those_of_brute_force() -> None:
    chance = random.Random(12)
    rows = [{"_id": at, "v": chance.randrange(9)} for at in range(30)]
    ends: list[Any] = ["unbounded", "current", -3, -1, 2, 5]
    for low in ends:
        for high in ends:
            fields = {
                "p": {"$push": "$v", "window": {"documents": [low, high]}},
                "s": {"$max": "$v", "window": {"documents": [low, high]}},
            }
            for at, one in enumerate(made([{"$setWindowFields": {"sortBy": {"_id": 1}, "output": fields}}], rows)):
                first = 0 if low == "unbounded" else max(0, at + (0 if low == "current" else low))
                last = 29 if high == "unbounded" else at + (0 if high == "current" else high)
                wanted = [each["v"] for each in rows[first : max(0, last + 1)]]
                assert (one["p"], one["s"]) == (wanted, max(wanted, default=None)), (low, high, at)


def test_a_running_total_takes_one_step_a_document() -> None:
    rows = [{"_id": at} for at in range(20_000)]
    total = {"$sum": 1, "window": {"documents": ["unbounded", "current"]}}
    found = made([{"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"s": total}}}], rows)
    assert [one["s"] for one in found] == list(range(1, 20_001))


def test_buckets_divide_as_evenly_as_equal_values_let_them() -> None:
    rows = [{"v": one} for one in (1, 1, 1, 1, 2, 3, 4, 5)]
    found = made([{"$bucketAuto": {"groupBy": "$v", "buckets": 4}}], rows)
    assert found == [
        {"_id": {"min": 1, "max": 2}, "count": 4},
        {"_id": {"min": 2, "max": 4}, "count": 2},
        {"_id": {"min": 4, "max": 5}, "count": 2},
    ]


@pytest.mark.parametrize("local", ["a", "b", "a.b"])
@pytest.mark.parametrize("foreign", ["b", "a.b"])
def test_a_lookup_is_the_filter_of_each_document(local: str, foreign: str) -> None:
    chance = random.Random(3)
    ours = [decode_document(encode_document(document(chance, at))) for at in range(60)]
    theirs = [decode_document(encode_document(document(chance, at))) for at in range(60)]
    STORED["theirs"] = theirs
    joined = made([{"$lookup": {"from": "theirs", "localField": local, "foreignField": foreign, "as": "hits"}}], ours)
    some = 0
    for one, found in zip(ours, joined, strict=True):
        values = looked_for(one, local.split(".")) or [None]
        wanted = [each for each in theirs if any(holds_equal(each, foreign, value) for value in values)]
        assert typed(found["hits"]) == typed(wanted), one
        some += 0 < len(wanted) < 60
    assert some > 20


def looked_for(value: Any, path: list[str]) -> list[Any]:
    """Values at a path, of arrays their elements; without numbers in paths, which none of the documents' arrays is asked for."""
    if not path:
        return value if isinstance(value, list) else [value]
    if isinstance(value, list):
        return [found for one in value if isinstance(one, dict) for found in looked_for(one, path)]
    return looked_for(value[path[0]], path[1:]) if isinstance(value, dict) and path[0] in value else []


def holds_equal(one: dict[str, Any], path: str, value: Any) -> bool:
    (matched,) = parse_pipeline([{"$match": {path: {"$eq": value}}}])
    return bool(list(matched.run(iter([one]), AT)))


@pytest.mark.parametrize(
    "asked",
    [
        {"$eq": ["$b", "$$a"]},
        {"$eq": ["$$a", "$b"]},
        {"$and": [{"$gt": ["$_id", 20]}, {"$eq": ["$b.a", "$$a"]}]},
        {"$or": [{"$eq": ["$b", "$$a"]}, {"$gt": ["$_id", 55]}]},
        {"$not": [{"$eq": ["$b", "$$a"]}]},
        {"$eq": ["$b", 1]},
    ],
    ids=str,
)
def test_a_lookup_by_an_expression_asks_each_document_for_each(asked: Any) -> None:
    chance = random.Random(3)
    ours = [decode_document(encode_document(document(chance, at))) for at in range(60)]
    STORED["theirs"] = [decode_document(encode_document(document(chance, at))) for at in range(60)]
    joined = made(
        [{"$lookup": {"from": "theirs", "let": {"a": "$a"}, "pipeline": [{"$match": {"$expr": asked}}], "as": "hits"}}], ours
    )
    some = 0
    for one, found in zip(ours, joined, strict=True):
        evaluate = parse_expression(asked, names=frozenset({"a"}))
        variables = {"a": one.get("a", MISSING)}
        wanted = [each for each in STORED["theirs"] if is_true(evaluate(scope_of(each, variables)))]
        assert typed(found["hits"]) == typed(wanted), one
        some += len(wanted) > 0
    assert some > 10


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Any, str]] = [
    ({"$match": {}}, "list of stages"),
    ([{}], "mapping of its name"),
    ([{"$match": {}, "$limit": 1}], "mapping of its name"),
    ([{"$limti": 1}], r"Did you mean '\$limit'"),
    ([{"match": {}}], r"Did you mean '\$match'"),
    ([{"$limit": 0}], "from 1"),
    ([{"$skip": -1}], "from 0"),
    ([{"$skip": 1.5}], "whole"),
    ([{"$count": "$n"}], "text without a dot"),
    ([{"$sort": {}}], "mapping of paths"),
    ([{"$sort": {"a": 2}}], "no order"),
    ([{"$project": {}}], "names fields"),
    ([{"$project": {"a.$": 1}}], r"\$filter"),
    ([{"$addFields": {"a": 1, "a.b": 2}}], "below it"),
    ([{"$unset": []}], "list of them"),
    ([{"$unset": ["$a"]}], r"without a \$"),
    ([{"$unwind": "a"}], r"with a \$"),
    ([{"$unwind": {"path": "$a", "keep": 1}}], "includeArrayIndex"),
    ([{"$group": {"n": {"$sum": 1}}}], "_id"),
    ([{"$group": {"_id": 1, "a.b": {"$sum": 1}}}], "without a dot"),
    ([{"$replaceRoot": {"root": 1}}], "newRoot"),
    ([{"$sample": {"size": 0}}], "from 1"),
    ([{"$bucket": {"groupBy": "$a", "boundaries": [1]}}], "two values"),
    ([{"$bucket": {"groupBy": "$a", "boundaries": [1, "a"]}}], "one type"),
    ([{"$bucket": {"groupBy": "$a", "boundaries": [1, 5], "default": 3}}], "within"),
    ([{"$lookup": {"from": "x", "as": "y"}}], "localField"),
    ([{"$lookup": {"from": "x", "as": "y", "localField": "a"}}], "localField"),
    ([{"$lookup": {"from": "x", "as": "y", "localField": "a", "foreignField": "b", "let": {}}}], "let"),
    ([{"$lookup": {"from": "x", "as": "y", "pipeline": [{"$out": "z"}]}}], "outermost"),
    ([{"$unionWith": {"coll": 5}}], "name"),
    ([{"$facet": {}}], "names to pipelines"),
    ([{"$facet": {"a": [{"$facet": {"b": []}}]}}], "itself"),
    ([{"$out": "x"}, {"$limit": 1}], "last stage"),
    ([{"$merge": {"into": "x", "whenMatched": "replac"}}], "Did you mean 'replace'"),
    ([{"$merge": {"into": "x", "whenMatched": [{"$limit": 1}]}}], "one document"),
    ([{"$setWindowFields": {"output": {"r": {"$rank": {}}}}}], "sortBy"),
    ([{"$setWindowFields": {"output": {"r": {"$sum": 1, "window": {"documents": [0]}}}}}], "two ends"),
    ([{"$setWindowFields": {"sortBy": {"a": -1}, "output": {"r": {"$sum": 1, "window": {"range": [0, 1]}}}}}], "upwards"),
]


@pytest.mark.parametrize(("pipeline", "told"), REFUSED, ids=lambda one: str(one)[:50])
def test_what_a_pipeline_does_not_take(pipeline: Any, told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        parse_pipeline(pipeline)


def test_an_unknown_stage_and_accumulator_are_told_by_attributes() -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_pipeline([{"$match": {}}, {"$grup": {}}])
    assert (caught.value.option, caught.value.value) == ("pipeline", "$grup")
    with pytest.raises(InvalidFilter, match=r"Did you mean '\$sum'") as other:
        parse_pipeline([{"$group": {"_id": 1, "n": {"$summ": 1}}}])
    assert other.value.where == "$summ"
    with pytest.raises(InvalidFilter, match="expression of one document"):
        parse_pipeline([{"$group": {"_id": 1, "n": {"$concat": ["a"]}}}])


@pytest.mark.parametrize(
    ("stage", "feature"),
    [
        ({"$geoNear": {}}, "$geoNear"),
        ({"$densify": {}}, "$densify"),
        ({"$group": {"_id": 1, "n": {"$accumulator": {}}}}, "$accumulator"),
        ({"$group": {"_id": 1, "n": {"$median": {}}}}, "$median"),
        ({"$bucketAuto": {"groupBy": 1, "buckets": 1, "granularity": "R5"}}, "$bucketAuto granularity"),
        ({"$merge": {"into": "x", "on": "a"}}, "$merge on"),
        ({"$out": {"db": "a", "coll": "b"}}, "$out db"),
        ({"$setWindowFields": {"sortBy": {"a": 1}, "output": {"d": {"$derivative": {}}}}}, "$derivative"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_mongodb_has_and_we_have_not_is_refused_by_name(stage: Any, feature: str) -> None:
    with pytest.raises(NotSupported) as caught:
        parse_pipeline([stage])
    assert caught.value.feature == feature


def test_what_a_stage_has_no_answer_to_is_an_error() -> None:
    for pipeline, documents, told in (
        ([{"$replaceWith": "$a"}], [{"a": 1}], "document"),
        ([{"$bucket": {"groupBy": "$a", "boundaries": [0, 1]}}], [{"a": 5}], "no bucket"),
        ([{"$redact": "$a"}], [{"a": "KEEP"}], "KEEP"),
        ([{"$group": {"_id": 1, "n": {"$firstN": {"n": 0, "input": "$a"}}}}], [{"a": 1}], "from 1"),
        ([{"$setWindowFields": {"partitionBy": "$a", "output": {"n": {"$sum": 1}}}}], [{"a": [1]}], "array"),
    ):
        with pytest.raises(InvalidValue, match=told):
            made(pipeline, documents)


def test_now_is_that_of_the_call() -> None:
    at = datetime(2024, 1, 1)
    stages = parse_pipeline([{"$project": {"late": "$$NOW"}}], now=at)
    assert list(run(stages, iter([{"_id": 1}]), AT)) == [{"_id": 1, "late": at}]


def test_random_pipelines_have_some_answers() -> None:
    chance = random.Random(4)
    documents = [document(chance, at) for at in range(60)]
    assert sum(bool(made(random_pipeline(chance), documents)) for _ in range(40)) > 20
