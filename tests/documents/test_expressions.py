"""Expressions: what a server of MongoDB's protocol made of them (`support/golden_expressions.py`), and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from bson import json_util
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64

import gapless as gl
from gapless.documents.expressions.parse import OPERATORS, parse_expression, parse_path
from gapless.documents.expressions.scope import FieldPath, scope_of
from gapless.documents.filters.match import holds, matches
from gapless.documents.filters.parse import parse_filter
from gapless.documents.values.codec import decode_document, encode_document
from gapless.documents.values.order import MISSING, type_number
from gapless.errors import CallError, DataError, InvalidFilter, InvalidValue, NotSupported
from support.golden_expressions import DOCUMENT, PLACE
from support.typed_values import typed

GOLDEN: list[dict[str, Any]] = json_util.loads(
    PLACE.read_text(encoding="utf-8"),
    json_options=json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL, tz_aware=False, uuid_representation=4),
)
STORED = decode_document(encode_document(DOCUMENT))


def value(expression: Any, document: dict[str, Any] | None = None) -> Any:
    return parse_expression(expression)(scope_of(STORED if document is None else document))


def test_expressions_make_what_the_server_makes() -> None:
    wrong = []
    for case in GOLDEN:
        ours: Any
        try:
            ours = typed(value(case["expression"]))
        except (CallError, DataError):
            ours = "an error"
        theirs = "an error" if "error" in case else typed(case.get("value", MISSING))
        if ours != theirs:
            wrong.append((case["expression"], ours, theirs))
    assert not wrong


def test_there_are_many_cases_of_all_operators() -> None:
    assert len(GOLDEN) >= 900
    assert sum("rule" in one for one in GOLDEN) < 20
    used = {name for one in GOLDEN for name in operators(one["expression"])}
    assert set(OPERATORS) <= used, set(OPERATORS) - used


def operators(expression: Any) -> set[str]:
    if isinstance(expression, list):
        return {name for one in expression for name in operators(one)}
    if not isinstance(expression, dict):
        return set()
    return {name for name in expression if name.startswith("$")} | operators(list(expression.values()))


# -- what the server cannot be asked -----------------------------------------------------------------------------------


def test_whole_numbers_go_from_32_bits_to_64_and_then_to_doubles() -> None:
    for expression, number, wanted in (
        ({"$add": [2**31 - 1, 1]}, 18, 2**31),
        ({"$add": [1, 1]}, 16, 2),
        ({"$add": [Int64(1), 1]}, 18, 2),
        ({"$add": [Int64(2**63 - 1), 1]}, 1, 2.0**63),
        ({"$multiply": [2**31 - 1, 2]}, 18, 2**32 - 2),
        ({"$multiply": [Int64(2**62), 2]}, 1, 2.0**63),
        ({"$subtract": [-(2**31), 1]}, 18, -(2**31) - 1),
        ({"$abs": -(2**31)}, 18, 2**31),
        ({"$sum": [[2**31 - 1, 1]]}, 18, 2**31),
        ({"$pow": [3, 40]}, 1, 3.0**40),
        ({"$pow": [-1, -3]}, 16, -1),
    ):
        found = value(expression)
        assert (type_number(found), found) == (number, wanted), expression


def test_sums_of_doubles_lose_nothing_on_the_way() -> None:
    assert value({"$sum": [[0.1] * 10]}) == 1.0
    assert value({"$sum": [[1e16, 1.0, -1e16]]}) == 1.0
    assert value({"$add": [0.1, Decimal128("0.9")]}).to_decimal() != 1
    assert value({"$sum": [[float("inf"), 1]]}) == float("inf")


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity", "-0", "9.9E+6144", "1E-6176"])
def test_every_decimal_has_an_answer_or_an_error(number: str) -> None:
    for operator in (
        "$abs",
        "$ceil",
        "$floor",
        "$round",
        "$trunc",
        "$sqrt",
        "$exp",
        "$ln",
        "$log10",
        "$toInt",
        "$toDouble",
        "$toString",
    ):
        try:
            value({operator: "$v"}, {"v": Decimal128(number)})
        except InvalidValue:
            assert number not in ("NaN", "sNaN") or operator == "$toInt"
    for operator in ("$add", "$subtract", "$multiply", "$divide", "$mod", "$pow", "$log"):
        for other in (Decimal128("NaN"), Decimal128("2"), 0, -1, 2.5, Int64(3)):
            for pair in ([other, "$v"], ["$v", other]):
                try:
                    assert type_number(value({operator: pair}, {"v": Decimal128(number)})) == 19
                except InvalidValue:
                    assert operator in ("$divide", "$mod", "$pow", "$log")
    assert type_number(value({"$sum": [["$v", 1]]}, {"v": Decimal128(number)})) == 19


def test_missing_comes_before_null() -> None:
    assert value({"$lt": ["$none", None]}) is True
    assert value({"$eq": ["$none", None]}) is False
    assert value({"$eq": ["$none", "$other"]}) is True
    assert value({"$in": [None, [None]]}) is True


@pytest.mark.parametrize(
    ("day", "zone", "local"),
    [
        (datetime(2024, 3, 31, 0, 59), "Europe/Paris", (1, 59)),
        (datetime(2024, 3, 31, 1, 0), "Europe/Paris", (3, 0)),
        (datetime(2024, 10, 27, 0, 59), "Europe/Paris", (2, 59)),
        (datetime(2024, 10, 27, 1, 0), "Europe/Paris", (2, 0)),
        (datetime(2024, 6, 1), "-0330", (20, 30)),
    ],
)
def test_hours_are_those_of_the_zone(day: datetime, zone: str, local: tuple[int, int]) -> None:
    at = {"date": "$d", "timezone": zone}
    assert (value({"$hour": at}, {"d": day}), value({"$minute": at}, {"d": day})) == local


def test_a_day_later_is_the_same_time_on_the_clock_and_24_hours_are_not() -> None:
    day = datetime(2024, 3, 30, 12)
    for unit, amount, wanted in (("day", 1, 23), ("hour", 24, 24)):
        added = {"$dateAdd": {"startDate": "$d", "unit": unit, "amount": amount, "timezone": "Europe/Paris"}}
        assert value(added, {"d": day}) == day + timedelta(hours=wanted)


def test_months_end_with_their_last_day() -> None:
    for start, amount, wanted in (
        (datetime(2024, 1, 31), 1, datetime(2024, 2, 29)),
        (datetime(2024, 1, 31), 13, datetime(2025, 2, 28)),
        (datetime(2024, 3, 31), -1, datetime(2024, 2, 29)),
    ):
        assert value({"$dateAdd": {"startDate": "$d", "unit": "month", "amount": amount}}, {"d": start}) == wanted


def test_all_days_of_some_years_have_the_parts_that_python_tells() -> None:
    day = datetime(2019, 12, 25, 7)
    while day < datetime(2021, 1, 10):
        year, week, weekday = day.isocalendar()
        told = value(dict.fromkeys((), "$d") or {"$dateToParts": {"date": "$d", "iso8601": True}}, {"d": day})
        assert (told["isoWeekYear"], told["isoWeek"], told["isoDayOfWeek"]) == (year, week, weekday)
        assert value({"$week": "$d"}, {"d": day}) == int(f"{day:%U}")
        assert value({"$dayOfYear": "$d"}, {"d": day}) == int(f"{day:%j}")
        assert value({"$dateFromParts": {"isoWeekYear": year, "isoWeek": week, "isoDayOfWeek": weekday, "hour": 7}}) == day
        day += timedelta(days=1)


def test_a_date_beyond_the_calendar_is_an_error_and_kept_where_no_calendar_is_asked() -> None:
    far = {"d": DatetimeMS(2**60)}
    with pytest.raises(InvalidValue, match="1 to 9999"):
        value({"$year": "$d"}, far)
    assert value({"$add": ["$d", 1]}, far) == DatetimeMS(2**60 + 1)
    assert value({"$subtract": ["$d", "$d"]}, far) == 0


# -- in filters --------------------------------------------------------------------------------------------------------


def test_expr_compares_fields_of_one_document() -> None:
    assert matches({"$expr": {"$gt": ["$spent", "$budget"]}}, {"spent": 5, "budget": 3})
    assert not matches({"$expr": {"$gt": ["$spent", "$budget"]}, "spent": 5}, {"spent": 5, "budget": 7})
    assert matches({"$or": [{"a": 1}, {"$expr": {"$eq": ["$a", 2]}}]}, {"a": 2})
    assert matches({"$nor": [{"$expr": "$none"}]}, {})


def test_mon_21_what_is_true_in_an_expression() -> None:
    true: list[Any] = ["", [], {}, float("nan"), 1, True, "a", datetime(1970, 1, 1)]
    false: list[Any] = [0, 0.0, -0.0, Int64(0), Decimal128("0.00"), None, False]
    given = [({"v": one}, True) for one in true] + [({"v": one}, False) for one in false] + [({}, False)]
    for document, wanted in given:
        assert matches({"$expr": "$v"}, document) is wanted, document
        assert value({"$cond": ["$v", "yes", "no"]}, document) == ("yes" if wanted else "no"), document
        assert value({"$and": ["$v", True]}, document) is wanted, document
        assert value({"$not": ["$v"]}, document) is not wanted, document


def test_expr_leaves_no_file_out() -> None:
    assert gl.documents.filter_to_predicate(
        {"$expr": {"$eq": ["$a", 1]}}, {("a",): "by_a"}
    ) == gl.documents.filter_to_predicate({}, {})
    found = gl.documents.filter_to_predicate({"a": 5, "$expr": {"$eq": ["$a", 1]}}, {("a",): "by_a"})
    assert found == gl.documents.filter_to_predicate({"a": 5}, {("a",): "by_a"})


def test_expr_stands_where_a_document_is_asked() -> None:
    with pytest.raises(InvalidFilter, match="element"):
        parse_filter({"a": {"$elemMatch": {"$expr": 1, "b": 1}}})


def test_an_unknown_expression_in_a_delete_deletes_nothing() -> None:
    people = gl.documents.collection("memory://expressions-unknown")
    people.insert_one({"_id": 1})
    version = people.version
    with pytest.raises(InvalidFilter, match=r"\$grater"):
        people.delete_many({"$expr": {"$grater": ["$a", 1]}})
    assert people.count_documents({}) == 1
    assert people.table.refresh().version == version


def test_now_is_that_of_the_call() -> None:
    people = gl.documents.collection("memory://expressions-now")
    people.insert_one({"_id": 1, "at": datetime(2020, 1, 1)})
    assert people.count_documents({"$expr": {"$lt": ["$at", "$$NOW"]}}) == 1
    assert people.find_one({}, {"_id": 0, "late": {"$gt": ["$$NOW", "$at"]}}) == {"late": True}
    at = datetime(2024, 1, 1)
    assert holds(parse_filter({"$expr": {"$eq": ["$$NOW", at]}}, now=at), {})
    with pytest.raises(NotSupported, match="clock"):
        matches({"$expr": "$$NOW"}, {})


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Any, str]] = [
    ({"$grater": [1, 2]}, r"Did you mean '\$"),
    ({"a": {"$nope": 1}}, r"\$nope"),
    ({"$gt": [1]}, "2 operands"),
    ({"$gt": [1, 2], "b": 1}, "beside"),
    ({"a": 1, "$gt": [1, 2]}, "beside"),
    ({"a.b": 1}, "dot"),
    ("$a..b", "no name"),
    ("$", "no name"),
    ("$$", "no name"),
    ("$$unknown", "no variable"),
    ({"$let": {"vars": {"X": 1}, "in": 1}}, "small letter"),
    ({"$let": {"vars": {"x": 1}}}, "in is not there"),
    ({"$map": {"input": [1], "inn": 1}}, "Did you mean 'in'"),
    ({"$cond": [1, 2]}, "three"),
    ({"$switch": {"branches": []}}, "at least one"),
    ({"$convert": {"input": 1, "to": "integer"}}, "converts to"),
    ({"$zip": {"inputs": []}}, "list of arrays"),
    ({"$zip": {"inputs": [[1]], "defaults": [0]}}, "useLongestLength"),
    ({"$sortArray": {"input": [1], "sortBy": 2}}, "up or down"),
    ({"$regexMatch": {"input": "a", "regex": "("}}, "cannot be read"),
    ({"$regexMatch": {"input": "a", "regex": "a", "options": "q"}}, "options"),
    ({"$getField": {"field": "$a", "input": {}}}, "same for all"),
]


@pytest.mark.parametrize(("expression", "told"), REFUSED, ids=lambda one: str(one)[:40])
def test_what_an_expression_does_not_take(expression: Any, told: str) -> None:
    with pytest.raises(InvalidFilter, match=told):
        parse_expression(expression)


@pytest.mark.parametrize("name", ["$function", "$rand", "$meta", "$sin", "$toUUID", "$percentile"])
def test_what_mongodb_has_and_we_have_not_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotSupported) as caught:
        parse_expression({"$add": [1, {name: 1}]})
    assert caught.value.feature == name


@pytest.mark.parametrize(
    ("expression", "document"),
    [
        ({"$regexMatch": {"input": "a", "regex": "$r"}}, {"r": "("}),
        ({"$convert": {"input": "1", "to": "$t"}}, {"t": "integer"}),
        ({"$dateToString": {"date": "$d", "format": "$f"}}, {"d": datetime(2024, 1, 1), "f": "%q"}),
        ({"$hour": {"date": "$d", "timezone": "$z"}}, {"d": datetime(2024, 1, 1), "z": "nowhere"}),
    ],
    ids=str,
)
def test_what_a_document_says_wrong_is_an_error_of_data(expression: Any, document: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        value(expression, document)


def test_an_error_names_the_operator_and_the_value() -> None:
    with pytest.raises(InvalidValue, match=r"\$add does not take 'x'.*string.*number") as caught:
        value({"$add": ["$v", 1]}, {"v": "x"})
    assert (caught.value.column, caught.value.value) == ("$add", "x")


def test_nesting_has_an_end() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = {"$abs": deep}
    with pytest.raises(InvalidFilter, match="levels"):
        parse_expression(deep)


def test_a_path_is_known_as_one() -> None:
    assert parse_path("$a.b") == FieldPath("CURRENT", ("a", "b"))
    assert parse_path("$$ROOT") is None
    assert parse_path({"$abs": 1}) is None
