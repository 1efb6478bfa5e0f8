"""Filters of documents: the cases from the field, the rules that others get wrong, and what is refused by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.regex import Regex

from gapless import documents
from gapless.documents import matches
from gapless.documents.filters import match
from gapless.documents.values.order import sort_key, type_number
from gapless.errors import GaplessError, InvalidFilter, InvalidValue, NotSupported

NAN = float("nan")


def found(filter_: dict[str, Any], documents: Sequence[dict[str, Any]]) -> list[int]:
    """The places of those that match."""
    return [place for place, one in enumerate(documents) if matches(filter_, one)]


def of_values(name: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{name: value} for value in values]


# -- cases -------------------------------------------------------------------------------------------------------------


def test_mon_01_ne_null_does_not_match_a_missing_field() -> None:
    documents: list[dict[str, Any]] = [{"f1": "foo", "f2": "bar"}, {"f1": "baz"}, {"f1": "q", "f2": None}]
    assert found({"f2": {"$ne": None}}, documents) == [0]
    assert found({"f2": {"$ne": "bar"}}, documents) == [1, 2]


def test_mon_02_null_matches_null_and_missing() -> None:
    documents: list[dict[str, Any]] = [{"foo": "bar"}, {"bar": None}, {"a": 5}, {"a": {}}, {"a": {"b": None}}, {"a": {"b": 1}}]
    assert found({"bar": None}, documents) == list(range(6))
    assert found({"bar": {"$eq": None}}, documents) == list(range(6))
    assert found({"a.b": None}, documents) == [0, 1, 2, 3, 4]


def test_mon_06_all_gathers_over_the_documents_of_an_array() -> None:
    documents: list[dict[str, Any]] = [
        {"qty": [{"size": "S", "num": 10}, {"size": "M", "num": 100}, {"size": "L", "num": 100}]},
        {"qty": [{"size": "M", "num": 100}]},
    ]
    assert found({"qty.size": {"$all": ["M", "L"]}}, documents) == [0]
    assert found({"qty": {"$all": [{"$elemMatch": {"size": "M", "num": {"$gt": 50}}}]}}, documents) == [0, 1]
    assert found({"qty": {"$all": []}}, documents) == []


def test_mon_07_size_is_of_arrays_alone() -> None:
    documents: list[dict[str, Any]] = [*of_values("v", [["A"], ["A", "B"], "A", None]), {}, {"v": []}]
    assert found({"v": {"$size": 1}}, documents) == [0]
    assert found({"v": {"$size": 1, "$all": ["A"]}}, documents) == [0]
    assert found({"v": {"$size": 0}}, documents) == [5]


def test_mon_08_null_at_a_path_through_an_array() -> None:
    documents: list[dict[str, Any]] = [{"coders": [{"name": "Kim", "from": {"name": "SK"}}, {"name": "Tanaka"}]}]
    assert found({"coders.from": None}, documents) == [0]
    assert found({"coders.from": {"$ne": None}}, documents) == []
    assert found({"coders.name": "Kim"}, documents) == [0]


def test_mon_09_two_operators_may_be_met_by_different_elements() -> None:
    documents = of_values("a", [[0, 5], [2], [], 2])
    assert found({"a": {"$gt": 1, "$lt": 3}}, documents) == [0, 1, 3]
    assert found({"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, documents) == [1]


def test_mon_10_numbers_in_a_path() -> None:
    documents = of_values("a", [[], ["x"], ["x", "y"], {"1": "k"}, [[1, 2]]])
    assert found({"a.1": {"$exists": True}}, documents) == [2, 3]
    assert found({"a.0": 1}, documents) == []
    assert found({"a.0": [1, 2]}, documents) == [4]


def test_mon_14_patterns() -> None:
    documents = of_values("f", ["abc", ["xab", "abz"], 5, None])
    ab = re.compile("^ab")
    assert found({"f": ab}, documents) == [0, 1]
    assert found({"f": {"$in": [ab, 5]}}, documents) == [0, 1, 2]
    assert found({"f": {"$nin": [ab]}}, documents) == [2, 3]
    assert found({"f": {"$eq": ab}}, documents) == []
    assert found({"f": {"$not": ab}}, documents) == [2, 3]
    assert found({"f": {"$regex": "B", "$options": "i"}}, documents) == [0, 1]
    assert found({"f": {"$eq": ab}}, [{"f": Regex("^ab", "")}]) == [0]


def test_mon_15_an_empty_elem_match_wants_a_document() -> None:
    assert found({"f": {"$elemMatch": {}}}, of_values("f", [[{"x": 1}], [1, 2], [], 5, {"x": 1}])) == [0]


def test_mon_19_large_integers_are_exact() -> None:
    documents = of_values("n", [2**53, 2**53 + 1, float(2**53)])
    assert found({"n": 2**53 + 1}, documents) == [1]
    assert found({"n": {"$gt": 2**53}}, documents) == [1]
    assert found({"n": float(2**53)}, documents) == [0, 2]


# -- rules -------------------------------------------------------------------------------------------------------------

RULES: list[tuple[dict[str, Any], list[Any], list[int]]] = [
    # Of a path through an array only documents count.
    ({"v.b": None}, [[], [4], [{"b": 1}], [{"b": 1}, {}], 5, {}], [3, 4, 5]),
    ({"v.b": {"$exists": False}}, [[], [{}], [{"b": 1}, {}], 5], [0, 1, 3]),
    # Whole, or an element that is it.
    ({"v": ["a", "b"]}, [["a", "b"], ["b", "a"], [["a", "b"], 1], "a"], [0, 2]),
    ({"v": {"x": 1, "y": 2}}, [{"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1}, [{"x": 1, "y": 2}]], [0, 3]),
    # A comparison stays among values of a kind.
    ({"v": 1}, [1, 1.0, Int64(1), Decimal128("1.0"), True, "1"], [0, 1, 2, 3]),
    ({"v": True}, [1, True], [1]),
    ({"v": {"$gt": 1}}, [2, "a", None, True, Decimal128("1.5"), NAN], [0, 4]),
    ({"v": {"$gte": None}}, [None, 0, [None]], [0, 2]),
    ({"v": {"$gte": NAN}}, [NAN, 1, Decimal128("NaN")], [0, 2]),
    ({"v": {"$lt": NAN}}, [NAN, 1], []),
    ({"v": {"$gt": MinKey()}}, [1, "a", MinKey()], [0, 1]),
    ({"v": {"$lt": MaxKey()}}, [1, "a", MaxKey(), float("nan")], [0, 1, 3]),
    ({"v": {"$gte": MinKey()}}, [float("nan"), None], [0, 1]),
    ({"v": {"$gte": MaxKey()}}, [float("nan"), MaxKey()], [1]),
    ({"v": -0.0}, [0, 0.0, -0.0], [0, 1, 2]),
    ({"v": Decimal128("0.1")}, [0.1, Decimal128("0.1")], [1]),
    ({"v": {"$gt": "a"}}, ["b", "é", "A", "a"], [0, 1]),
    ({"v": {"$gt": b"b"}}, [b"a", b"c", b"aa", Binary(b"b", 5)], [1, 2, 3]),
    ({"v": {"$type": "number"}}, [1, "a", [1.5], Decimal128("1")], [0, 2, 3]),
    ({"v": {"$type": "array"}}, [[1], 1, [], [[1]]], [0, 2, 3]),
    ({"v": {"$type": ["long", 2]}}, [1, 2**40, Int64(1), "a"], [1, 2, 3]),
    ({"v": {"$mod": [4.9, -3]}}, [-3, -7, 5, -7.9, "a", Decimal128("-11")], [0, 1, 3, 5]),
    ({"v": {"$in": []}}, [1, None], []),
    ({"v": {"$in": [None]}}, [None, 1], [0]),
    ({"v": {"$nin": [1, [2]]}}, [1, 2, [2], [1, 3], None], [1, 4]),
    ({"v": {"$not": {"$gt": 1}}}, [2, 1, None, "a", [0, 2]], [1, 2, 3]),
    ({"v": {"$elemMatch": {"$elemMatch": {"$gt": 1}}}}, [[[0, 2]], [2], [[0]]], [0]),
    ({"v": {"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}}, [[{"y": 1}], [{"z": 1}], {"y": 1}], [0]),
    ({"v": {"$bitsAllSet": 5}}, [5, 7, 4, 5.0, 5.5, -1, b"\x05"], [0, 1, 3, 5, 6]),
    ({"v": {"$bitsAnyClear": [70]}}, [1, -1, b"a"], [0, 2]),
    ({"v": {"$bitsAllClear": b"\x01"}}, [2, 3, "a"], [0]),
    ({"v": {"$regex": "^b", "$options": "m"}}, ["a\nb", "b", "ab"], [0, 1]),
    ({"v": {"$regex": "a.b"}}, ["a\nb", "a b"], [1]),
    ({"v": {"$regex": re.compile("a.b"), "$options": "s"}}, ["a\nb", "a b"], [0, 1]),
    ({"v": {"$regex": "x b # no", "$options": "ix"}}, ["XB", "x b"], [0]),
    ({"v": {"$regex": "b++c"}}, ["abbc", "ac"], [0]),
    ({"v": datetime(2026, 1, 5, 0, 0, 0, 1999, UTC)}, [datetime(2026, 1, 5, 0, 0, 0, 1000), datetime(2026, 1, 5)], [0]),
    ({"v": {"$comment": "why", "$gt": 1}}, [1, 2], [1]),
    ({"$comment": "why", "v": 1}, [1, 2], [0]),
    ({"$nor": [{"v": 1}, {"v": 2}]}, [1, 2, 3], [2]),
    ({"$or": [{"v": 1}, {"$and": [{"v": {"$gt": 1}}, {"v": {"$lt": 3}}]}]}, [1, 2, 3], [0, 1]),
    ({}, [1, None], [0, 1]),
    ({"v": {"$ref": "c", "$id": 1}}, [{"$ref": "c", "$id": 1}, 1], [0]),
]


@pytest.mark.parametrize(("filter_", "values", "wanted"), RULES, ids=lambda one: str(one)[:60])
def test_what_matches(filter_: dict[str, Any], values: list[Any], wanted: list[int]) -> None:
    assert found(filter_, of_values("v", values)) == wanted


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"a": {"$foo": 1}}, r"\$foo is no operator"),
    ({"a": {"$gtee": 1}}, "gte"),
    ({"$foo": 1}, r"\$foo is no operator"),
    ({"a": {"$gt": 1, "b": 2}}, "b is no operator"),
    ({"a": {"$not": {"$foo": 1}}}, r"\$foo is no operator"),
    ({"a": {"$elemMatch": {"$foo": 1}}}, r"\$foo is no operator"),
    ({"$and": [{"a": {"$foo": 1}}]}, r"\$foo is no operator"),
    ({"$or": []}, "at least one filter"),
    ({"$or": {"a": 1}}, "takes a list"),
    ({"$and": [1]}, "mapping"),
    ({"a": {"$in": 1}}, "takes a list"),
    ({"a": {"$in": [{"$gt": 1}]}}, "no operators"),
    ({"a": {"$not": 5}}, r"\$ne"),
    ({"a": {"$not": {}}}, r"\$not"),
    ({"a": {"$mod": [0, 1]}}, "by 0"),
    ({"a": {"$mod": [NAN, 1]}}, "divisor and a remainder"),
    ({"a": {"$mod": [1]}}, "divisor and a remainder"),
    ({"a": {"$size": -1}}, "from 0"),
    ({"a": {"$size": 1.5}}, "from 0"),
    ({"a": {"$type": "strin"}}, "string"),
    ({"a": {"$type": 99}}, "numbers or by names"),
    ({"a": {"$regex": "("}}, "cannot be read"),
    ({"a": {"$regex": "a", "$options": "q"}}, "'q'"),
    ({"a": {"$options": "i"}}, r"Add a \$regex"),
    ({"a": {"$ne": re.compile("a")}}, r"\$not"),
    ({"a": {"$gt": re.compile("a")}}, r"\$not"),
    ({"a": {"$all": [{"$gt": 1}]}}, r"\$elemMatch"),
    ({"a": {"$bitsAllSet": -1}}, "mask"),
    ({"a": {"$elemMatch": 1}}, "operators or a filter"),
]


@pytest.mark.parametrize(("filter_", "told"), REFUSED, ids=lambda one: str(one)[:60])
def test_what_is_not_understood_is_an_error_before_any_document(filter_: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidFilter, match=told) as caught:
        matches(filter_, {})
    assert caught.value.where


@pytest.mark.parametrize("name", ["$where", "$text", "$jsonSchema"])
def test_what_is_known_and_not_built_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotSupported) as caught:
        matches({name: 1}, {})
    assert caught.value.feature == name


@pytest.mark.parametrize("name", ["$geoWithin", "$near"])
def test_geometry_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotSupported, match="geometry"):
        matches({"a": {name: {}}}, {})


@pytest.mark.parametrize("value", [Decimal("1.5"), {1}, 1 << 63, object()], ids=["decimal", "set", "large", "object"])
def test_what_bson_does_not_have_is_an_error(value: object) -> None:
    with pytest.raises(InvalidValue):
        matches({"a": value}, {"a": 1})
    with pytest.raises(InvalidValue):
        matches({"a": 1}, {"a": value})


def test_a_pattern_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "PATTERN_S", 0.05)
    with pytest.raises(InvalidFilter, match="looked through a text"):
        matches({"a": {"$regex": "^(a|aa|a.)+$"}}, {"a": "a" * 200 + "\n!"})


def test_a_filter_of_many_levels_is_an_error() -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(1000):
        deep = {"$and": [deep]}
    with pytest.raises(GaplessError, match="levels"):
        matches(deep, {})


def test_subclasses_of_integers_are_compared_as_fast() -> None:
    """`value in range(…)` of a subclass goes through all of the range."""
    assert type_number(Int64(2**53 + 1)) == 18
    assert sort_key(Int64(2**62)) == sort_key(2**62)


def test_without_its_libraries_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("gapless.documents.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(documents), "matches", raising=False)  # where an earlier test had it brought in
    monkeypatch.setitem(sys.modules, "bson.decimal128", None)
    with pytest.raises(NotSupported, match="pymongo and regex") as caught:
        documents.matches  # noqa: B018
    assert "gapless[documents]" in caught.value.fix
    with pytest.raises(AttributeError, match="no attribute 'mathces'"):
        documents.mathces  # noqa: B018
