"""Expressions and what a server of MongoDB's protocol makes of them: `python -m support.golden_expressions` writes them anew.

Where the server is known to be wrong, the answer is by the rules of MongoDB's manual, and says so.
"""

from __future__ import annotations

import sys
from datetime import datetime
from itertools import combinations_with_replacement
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bson import json_util
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from gapless.documents.values.codec import OPTIONS
from support.mongo_server import serving

PLACE = Path(__file__).resolve().parents[1] / "documents" / "golden" / "expressions.json"
DOCUMENT: dict[str, Any] = {
    "_id": 1, "i": 7, "l": Int64(40), "d": 2.5, "m": Decimal128("1.5"), "neg": -7, "z": 0, "top": 2**31 - 1, "far": Int64(2**63 - 1),
    "s": "Hello, World", "e": "", "u": "naïve €uro", "n": None, "t": True, "f": False,
    "a": [3, 1, 2], "b": [1, 2.0, "x", None, [1], {"q": 1}], "x": [], "w": ["b", "a", "c"],
    "o": {"p": 1, "q": {"r": [1, 2]}}, "docs": [{"k": "a", "v": 1}, {"k": "b", "v": {"x": 2}}, {"k": "c"}, 5],
    "when": datetime(2024, 2, 29, 23, 45, 7, 123000), "then": datetime(2021, 1, 3, 4, 5, 6), "id": ObjectId("65a0" + "5" * 20),
}  # fmt: skip
CASES: list[Any] = []
_NUMBERS = ("$i", "$l", "$d", "$m", "$neg", "$z")

# Paths, variables, documents and arrays.
CASES += [
    "$i", "$o.q.r", "$docs.k", "$docs.v.x", "$a.0", "$none", "$o.none.r", "$$ROOT.i", "$$CURRENT.o.p", "$$REMOVE", "text", 5, None,
    {"k": "$i", "gone": "$none", "deep": {"x": "$d"}}, ["$i", "$none", 3], {}, [], {"$literal": "$i"}, {"$literal": {"$add": [1]}},
    {"$let": {"vars": {"low": 1, "high": "$i"}, "in": {"$add": ["$$low", "$$high"]}}},
    {"$let": {"vars": {"one": "$o"}, "in": "$$one.q.r"}}, {"$let": {"vars": {}, "in": "$$nope"}},
    {"$let": {"vars": {"CURRENT": "$o"}, "in": "$p"}}, {"$nope": 1}, {"$add": [1], "$subtract": [1]},
]  # fmt: skip
# Comparison, truth, choice.
_MIXED = (1, 1.0, Int64(1), Decimal128("1"), "1", True, None, "$none", [1], {"q": 1}, "$when", "$id", "$x", float("nan"))
CASES += [{"$cmp": [one, other]} for one, other in combinations_with_replacement(_MIXED, 2)]
CASES += [{name: [one, 7]} for name in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte") for one in ("$i", "$d", "$s", "$none")]
CASES += [
    *({"$and": [one]} for one in ("$z", "$e", "$x", "$n", "$none", "$t", "$o")), {"$and": []}, {"$or": []}, {"$or": ["$z", "$n", "$e"]},
    {"$and": ["$i", "$z"]}, {"$not": ["$n"]}, {"$not": "$i"}, {"$not": ["$i", "$n"]}, {"$cond": ["$t", 1, 2]}, {"$cond": ["$n", 1, 2]},
    {"$cond": {"if": {"$gt": ["$i", 5]}, "then": "$s", "else": "$none"}}, {"$cond": ["$n", 1, "$none"]}, {"$cond": [1, 2]},
    {"$cond": {"if": 1, "then": 2}}, {"$ifNull": ["$n", "$none", 4]}, {"$ifNull": ["$none", "$n"]}, {"$ifNull": ["$i", 1]}, {"$ifNull": [1]},
    {"$switch": {"branches": [{"case": "$n", "then": 1}, {"case": "$t", "then": 2}], "default": 3}},
    {"$switch": {"branches": [{"case": "$n", "then": 1}], "default": "$d"}}, {"$switch": {"branches": [{"case": "$n", "then": 1}]}},
]  # fmt: skip
# Numbers and their types.
CASES += [
    {name: [one, other]}
    for name in ("$add", "$subtract", "$multiply", "$divide", "$mod", "$pow")
    for one in _NUMBERS
    for other in _NUMBERS
]
CASES += [
    {name: one}
    for name in ("$abs", "$ceil", "$floor", "$round", "$trunc", "$sqrt", "$exp", "$ln", "$log10")
    for one in (*_NUMBERS, "$n", "$s")
]
CASES += [
    {"$add": ["$top", 1]}, {"$multiply": ["$top", 2]}, {"$multiply": ["$far", 2]}, {"$add": ["$when", 1000]}, {"$add": [1000, "$when"]},
    {"$add": ["$when", "$then"]}, {"$subtract": ["$when", "$then"]}, {"$subtract": ["$when", 500]}, {"$subtract": [500, "$when"]},
    {"$add": ["$i", "$n"]}, {"$add": ["$i", "$s"]}, {"$add": []}, {"$add": "$i"}, {"$multiply": []}, {"$add": [0.5, 0.25, 1]},
    {"$round": ["$d", 0]}, {"$round": [2.345, 1]}, {"$round": [1234, -2]}, {"$round": [1250, -2]}, {"$round": [Decimal128("2.345"), 2]},
    {"$trunc": [2.987, 1]}, {"$trunc": [1234, -2]}, {"$trunc": [-2.5]}, {"$round": [1, 101]}, {"$round": [-2.5]}, {"$round": [3.5]},
    {"$log": [100, 10]}, {"$log": [8, 2]}, {"$log": [8, 1]}, {"$pow": [2, 62]}, {"$pow": [2, 40]}, {"$pow": [0, -1]}, {"$pow": [2, -2]},
    {"$mod": [-7, 3]}, {"$mod": [7.5, 2]}, {"$mod": [7, 0]}, {"$divide": [1, 0]}, {"$sqrt": -1}, {"$ln": 0}, {"$sqrt": 16}, {"$abs": Int64(-5)},
    {"$subtract": [1]}, {"$divide": [6, 3]}, {"$ceil": -2.5}, {"$floor": -2.5},
]  # fmt: skip
# Texts.
CASES += [
    {"$concat": ["$s", "!", "$e"]}, {"$concat": ["$s", "$n"]}, {"$concat": ["$s", "$i"]}, {"$toLower": "$s"}, {"$toUpper": "$s"}, {"$toUpper": "$n"},
    {"$toLower": "$i"}, {"$substrCP": ["$u", 6, 3]}, {"$substrCP": ["$u", 6, 99]}, {"$substrCP": ["$none", 0, 2]}, {"$substrCP": ["$u", -1, 2]},
    {"$substrBytes": ["$s", 7, -1]}, {"$substrBytes": ["$u", 3, 1]}, {"$substrBytes": ["$s", 0, 5]}, {"$substr": ["$s", 0, 5]},
    {"$strLenCP": "$u"}, {"$strLenBytes": "$u"}, {"$strLenCP": "$n"}, {"$strLenCP": "$e"}, {"$split": ["$s", ", "]}, {"$split": ["$s", "z"]},
    {"$split": ["$n", ","]}, {"$split": ["$s", ""]}, {"$split": ["a--b-", "-"]}, {"$trim": {"input": "  x y \n"}},
    {"$ltrim": {"input": "xxyx", "chars": "x"}}, {"$rtrim": {"input": "xxyx", "chars": "x"}}, {"$trim": {"input": "$n"}}, {"$trim": {"input": "$i"}},
    {"$indexOfCP": ["$u", "€"]}, {"$indexOfBytes": ["$u", "€"]}, {"$indexOfCP": ["$s", "o"]}, {"$indexOfCP": ["$s", "o", 5]},
    {"$indexOfCP": ["$s", "o", 5, 8]}, {"$indexOfCP": ["$s", "zz"]}, {"$indexOfCP": ["$n", "a"]}, {"$indexOfCP": ["$s", "$n"]},
    {"$indexOfCP": ["$s", "o", 50]}, {"$regexMatch": {"input": "$s", "regex": "^hello", "options": "i"}},
    {"$regexMatch": {"input": "$s", "regex": "^hello"}}, {"$regexMatch": {"input": "$n", "regex": "a"}},
    {"$regexFind": {"input": "$u", "regex": "(.)(uro)"}}, {"$regexFind": {"input": "$s", "regex": "zz"}}, {"$regexFind": {"input": "$n", "regex": "a"}},
    {"$regexFindAll": {"input": "$s", "regex": "(l+)|(o)"}}, {"$regexFindAll": {"input": "$n", "regex": "a"}}, {"$regexMatch": {"input": "$i", "regex": "a"}},
    {"$replaceOne": {"input": "$s", "find": "o", "replacement": "0"}}, {"$replaceAll": {"input": "$s", "find": "o", "replacement": "0"}},
    {"$replaceAll": {"input": "$n", "find": "o", "replacement": "0"}}, {"$replaceAll": {"input": "$s", "find": "$n", "replacement": "0"}},
    {"$replaceOne": {"input": "$i", "find": "o", "replacement": "0"}}, {"$strcasecmp": ["abc", "ABD"]}, {"$strcasecmp": ["$s", "hello, world"]},
    {"$strcasecmp": ["$n", ""]}, {"$strcasecmp": ["b", "A"]},
]  # fmt: skip
# Arrays, sets and documents.
CASES += [
    {"$size": "$a"}, {"$size": "$i"}, {"$size": "$n"}, {"$arrayElemAt": ["$a", 0]}, {"$arrayElemAt": ["$a", -1]}, {"$arrayElemAt": ["$a", 9]},
    {"$arrayElemAt": ["$n", 0]}, {"$arrayElemAt": ["$i", 0]}, {"$arrayElemAt": ["$a", 1.5]}, {"$first": "$a"}, {"$last": "$a"}, {"$first": "$x"},
    {"$first": "$n"}, {"$first": "$i"}, {"$slice": ["$a", 2]}, {"$slice": ["$a", -2]}, {"$slice": ["$a", 1, 1]}, {"$slice": ["$a", -2, 1]},
    {"$slice": ["$a", 1, 0]}, {"$slice": ["$n", 1]}, {"$slice": ["$i", 1]}, {"$slice": ["$a", 0]}, {"$slice": ["$a", -9, 2]},
    {"$concatArrays": ["$a", "$x", [9]]}, {"$concatArrays": ["$a", "$n"]}, {"$concatArrays": ["$a", "$i"]},
    {"$filter": {"input": "$a", "cond": {"$gt": ["$$this", 1]}}}, {"$filter": {"input": "$a", "as": "n", "cond": {"$gt": ["$$n", 1]}, "limit": 1}},
    {"$filter": {"input": "$n", "cond": 1}}, {"$filter": {"input": "$i", "cond": 1}}, {"$filter": {"input": "$docs", "as": "d", "cond": "$$d.v"}},
    {"$map": {"input": "$a", "in": {"$multiply": ["$$this", 2]}}}, {"$map": {"input": "$docs", "as": "d", "in": "$$d.v"}},
    {"$map": {"input": "$n", "in": 1}}, {"$map": {"input": "$s", "in": 1}},
    {"$reduce": {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
    {"$reduce": {"input": "$w", "initialValue": "", "in": {"$concat": ["$$value", "$$this"]}}}, {"$reduce": {"input": "$n", "initialValue": 0, "in": 1}},
    {"$in": [2, "$a"]}, {"$in": [2.0, "$a"]}, {"$in": ["$none", [None]]}, {"$in": [1, "$i"]}, {"$in": [[1], "$b"]}, {"$in": [True, [1]]},
    {"$indexOfArray": ["$a", 2]}, {"$indexOfArray": ["$a", 9]}, {"$indexOfArray": ["$n", 9]}, {"$indexOfArray": ["$a", 3, 1]},
    {"$indexOfArray": ["$a", 1, 0, 1]}, {"$isArray": "$a"}, {"$isArray": ["$a"]}, {"$isArray": "$n"}, {"$range": [0, 5]}, {"$range": [5, 0, -2]},
    {"$range": [0, 5, 0]}, {"$range": [0, 2.5]}, {"$range": [3, 1]}, {"$reverseArray": "$a"}, {"$reverseArray": "$n"}, {"$reverseArray": "$i"},
    {"$zip": {"inputs": ["$a", "$w"]}}, {"$zip": {"inputs": ["$a", ["x"]], "useLongestLength": True}},
    {"$zip": {"inputs": ["$a", ["x"]], "useLongestLength": True, "defaults": [0, "d"]}}, {"$zip": {"inputs": ["$a", "$n"]}},
    {"$sortArray": {"input": "$a", "sortBy": 1}}, {"$sortArray": {"input": "$a", "sortBy": -1}},
    {"$sortArray": {"input": [{"x": 2}, {"x": 1}, {}], "sortBy": {"x": -1}}}, {"$sortArray": {"input": "$n", "sortBy": 1}},
    {"$sortArray": {"input": [{"x": 1, "y": 1}, {"x": 1, "y": 2}], "sortBy": {"x": 1, "y": -1}}},
    {"$arrayToObject": [[["a", 1], ["b", "$i"]]]}, {"$arrayToObject": [[{"k": "a", "v": 1}, {"k": "a", "v": 2}]]}, {"$arrayToObject": "$n"},
    {"$arrayToObject": "$a"}, {"$objectToArray": "$o"}, {"$objectToArray": "$n"}, {"$objectToArray": "$i"}, {"$firstN": {"n": 2, "input": "$a"}},
    {"$lastN": {"n": 2, "input": "$a"}}, {"$maxN": {"n": 2, "input": "$a"}}, {"$minN": {"n": 2, "input": "$a"}}, {"$minN": {"n": 9, "input": "$b"}},
    {"$firstN": {"n": 0, "input": "$a"}}, {"$firstN": {"n": 1, "input": "$i"}},
    {"$setEquals": [[1, 2], [2, 1, 1.0]]}, {"$setEquals": [[1], [2]]}, {"$setIsSubset": [[1], "$a"]}, {"$setIsSubset": [[9], "$a"]},
    {"$setDifference": ["$a", [1]]}, {"$setDifference": ["$a", "$n"]}, {"$setUnion": ["$a", "$n"]}, {"$setUnion": [[1], [1]]},
    {"$setIntersection": ["$a", [2, 9]]}, {"$setIntersection": ["$a", "$i"]}, {"$allElementsTrue": ["$a"]}, {"$allElementsTrue": [[1, 0]]},
    {"$anyElementTrue": [[0, None]]}, {"$anyElementTrue": ["$a"]}, {"$allElementsTrue": ["$x"]}, {"$setEquals": ["$a", "$n"]},
    {"$mergeObjects": ["$o", {"p": 2, "z": 1}]}, {"$mergeObjects": ["$o", "$n"]}, {"$mergeObjects": ["$o", "$i"]}, {"$mergeObjects": "$none"},
    {"$getField": "i"}, {"$getField": {"field": "p", "input": "$o"}}, {"$getField": {"field": "none", "input": "$o"}},
    {"$getField": {"field": "p", "input": "$i"}}, {"$getField": {"field": "p", "input": "$n"}}, {"$setField": {"field": "a.b", "input": "$o", "value": 1}},
    {"$setField": {"field": "p", "input": "$o", "value": "$$REMOVE"}}, {"$setField": {"field": "p", "input": "$n", "value": 1}},
    {"$unsetField": {"field": "p", "input": "$o"}}, {"$setField": {"field": "p", "input": "$i", "value": 1}},
]  # fmt: skip
# Types.
_ALL = ("$i", "$l", "$d", "$m", "$s", "$e", "$n", "$none", "$t", "$a", "$o", "$when", "$id")
CASES += [{"$type": one} for one in _ALL]
CASES += [
    {name: one}
    for name in ("$toInt", "$toLong", "$toDouble", "$toDecimal", "$toString", "$toBool", "$toDate", "$toObjectId")
    for one in _ALL
]
CASES += [
    {"$isNumber": "$i"}, {"$isNumber": "$s"}, {"$toInt": "12"}, {"$toInt": "-12"}, {"$toInt": "1.5"}, {"$toInt": "x"}, {"$toInt": 2.9}, {"$toInt": -2.9},
    {"$toInt": 3e9}, {"$toLong": 3e9}, {"$toDouble": "2.5"}, {"$toDouble": "-1e3"}, {"$toDecimal": "2.50"}, {"$toDate": "2024-01-02T03:04:05Z"},
    {"$toDate": "2024-01-02"}, {"$toDate": Int64(86400000)}, {"$toDate": 1.5e9}, {"$toString": 1.5}, {"$toString": Decimal128("1.50")},
    {"$toObjectId": "5" * 24}, {"$convert": {"input": "$s", "to": "int", "onError": "bad"}}, {"$convert": {"input": "$n", "to": "int", "onNull": "none"}},
    {"$convert": {"input": "7", "to": 16}}, {"$convert": {"input": "7", "to": "nope"}}, {"$convert": {"input": "$d", "to": "string"}},
]  # fmt: skip
# Dates.
_PARTS = (
    "$year", "$month", "$dayOfMonth", "$hour", "$minute", "$second", "$millisecond", "$dayOfWeek", "$dayOfYear", "$isoWeek", "$isoWeekYear",
    "$isoDayOfWeek", "$week",
)  # fmt: skip
CASES += [{name: one} for name in _PARTS for one in ("$when", "$then", {"date": "$when", "timezone": "Asia/Tokyo"})]
CASES += [
    {"$year": "$n"}, {"$year": "$i"}, {"$year": "$id"}, {"$hour": {"date": "$when", "timezone": "+02:30"}}, {"$hour": {"date": "$when", "timezone": "nope"}},
    {"$hour": {"date": "$when", "timezone": "$n"}}, {"$dateToString": {"date": "$when"}}, {"$dateToString": {"date": "$when", "format": "%Y/%m/%d %H:%M:%S.%L"}},
    {"$dateToString": {"date": "$when", "format": "%j %u %V %G %w %U %% %z %Z", "timezone": "America/New_York"}}, {"$dateToString": {"date": "$n", "onNull": "none"}},
    {"$dateToString": {"date": "$n"}}, {"$dateToString": {"date": "$when", "timezone": "Europe/Paris"}}, {"$dateToString": {"date": "$when", "format": "%q"}},
    {"$dateFromString": {"dateString": "2024-02-29T10:00:00Z"}}, {"$dateFromString": {"dateString": "2024-02-29"}},
    {"$dateFromString": {"dateString": "29/02/2024", "format": "%d/%m/%Y"}}, {"$dateFromString": {"dateString": "x"}},
    {"$dateFromString": {"dateString": "x", "onError": "bad"}}, {"$dateFromString": {"dateString": "$n", "onNull": "none"}},
    {"$dateFromString": {"dateString": "2024-02-29T10:00:00", "timezone": "Europe/Paris"}}, {"$dateFromString": {"dateString": "2024-02-30"}},
    *({"$dateTrunc": {"date": "$when", "unit": unit}} for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    {"$dateTrunc": {"date": "$when", "unit": "week", "startOfWeek": "monday"}}, {"$dateTrunc": {"date": "$when", "unit": "hour", "binSize": 5}},
    {"$dateTrunc": {"date": "$when", "unit": "month", "binSize": 5}}, {"$dateTrunc": {"date": "$when", "unit": "day", "timezone": "Asia/Tokyo"}},
    {"$dateTrunc": {"date": "$then", "unit": "day", "binSize": 7}}, {"$dateTrunc": {"date": "$n", "unit": "day"}}, {"$dateTrunc": {"date": "$when", "unit": "nope"}},
    *({"$dateAdd": {"startDate": "$when", "unit": unit, "amount": 1}} for unit in ("year", "quarter", "month", "week", "day", "hour", "millisecond")),
    {"$dateAdd": {"startDate": datetime(2024, 1, 31), "unit": "month", "amount": 1}}, {"$dateSubtract": {"startDate": "$when", "unit": "year", "amount": 1}},
    {"$dateAdd": {"startDate": datetime(2024, 3, 30, 12), "unit": "day", "amount": 1, "timezone": "Europe/Paris"}}, {"$dateAdd": {"startDate": "$n", "unit": "day", "amount": 1}},
    *({"$dateDiff": {"startDate": "$then", "endDate": "$when", "unit": unit}} for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")),
    {"$dateDiff": {"startDate": "$when", "endDate": "$then", "unit": "day"}}, {"$dateDiff": {"startDate": "$then", "endDate": "$n", "unit": "day"}},
    {"$dateDiff": {"startDate": datetime(2021, 1, 3), "endDate": datetime(2021, 1, 4), "unit": "week", "startOfWeek": "monday"}},
    {"$dateToParts": {"date": "$when"}}, {"$dateToParts": {"date": "$when", "iso8601": True}}, {"$dateToParts": {"date": "$when", "timezone": "Asia/Tokyo"}},
    {"$dateFromParts": {"year": 2024}}, {"$dateFromParts": {"year": 2024, "month": 14, "day": -1}}, {"$dateFromParts": {"year": 2024, "hour": 25, "timezone": "Europe/Paris"}},
    {"$dateFromParts": {"isoWeekYear": 2024, "isoWeek": 9, "isoDayOfWeek": 4}}, {"$dateFromParts": {"year": "$n"}}, {"$dateFromParts": {"month": 1}},
]  # fmt: skip
# Bits, bytes, timestamps.
CASES += [
    {name: [one, other]}
    for name in ("$bitAnd", "$bitOr", "$bitXor")
    for one in ("$i", "$l", "$neg", "$n")
    for other in ("$top", "$far", 12)
]
CASES += [
    {"$bitAnd": ["$i", "$d"]}, {"$bitOr": []}, {"$bitXor": ["$i"]}, {"$bitNot": "$i"}, {"$bitNot": "$far"}, {"$bitNot": "$n"}, {"$bitNot": "$d"},
    {"$binarySize": "$u"}, {"$binarySize": b"abc"}, {"$binarySize": "$n"}, {"$binarySize": "$i"}, {"$bsonSize": "$o"}, {"$bsonSize": "$n"},
    {"$bsonSize": "$i"}, {"$tsSecond": Timestamp(7, 3)}, {"$tsIncrement": Timestamp(7, 3)}, {"$tsSecond": "$n"}, {"$tsIncrement": "$i"},
]  # fmt: skip
# Accumulators of one document.
CASES += [
    {name: one}
    for name in ("$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp")
    for one in ("$a", "$b", "$n", "$x", "$i", ["$i", "$d", "$n"], ["$a", 1])
]

MISSING = object()
BY_RULE: list[tuple[Any, Any, str]] = [
    ("$docs.k", ["a", "b", "c"], "of an array on the way its documents count"),
    ("$docs.v.x", [2], "of an array on the way its documents count"),
    ("$a.0", [], "numbers in a path are names of fields"),
    ({"$let": {"vars": {"CURRENT": "$o"}, "in": "$p"}}, 1, "CURRENT can be set, and paths begin there"),
    ({"$pow": ["$z", "$m"]}, Decimal128("0"), "0 to a power above 0 is 0"),
    ({"$first": "$x"}, MISSING, "as $arrayElemAt beyond the end"),
    ({"$in": ["$none", [None]]}, False, "expressions tell null from a missing value"),
    ({"$zip": {"inputs": ["$a", "$n"]}}, None, "null where an array is null"),
    ({"$getField": {"field": "p", "input": "$i"}}, MISSING, "what is no document has no fields"),
    ({"$unsetField": {"field": "p", "input": "$o"}}, {"q": {"r": [1, 2]}}, "$setField with $$REMOVE"),
    ({"$hour": {"date": "$when", "timezone": "$n"}}, None, "null where the zone is null"),
    ({"$dateToString": {"date": "$n", "onNull": "none"}}, "none", "onNull is for a date that is null"),
    ({"$dateToString": {"date": "$when", "timezone": "Europe/Paris"}}, "2024-03-01T00:45:07.123", "Z is of UTC alone"),
]
"""What the server gets wrong: expressions among the cases, what MongoDB's manual makes of them, and why."""


def main() -> None:
    """Ask the server."""
    with TemporaryDirectory() as folder, serving(Path(folder) / "log") as client:
        client.get_database("golden").get_collection("expressions").insert_one(DOCUMENT)
        told = [answer(client, case) for case in CASES]
    lines = ",\n".join(json_util.dumps(one, json_options=json_util.CANONICAL_JSON_OPTIONS) for one in told)
    PLACE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    sys.stdout.write(f"{len(told)} cases, {sum('error' in one for one in told)} of them errors\n")


def answer(client: MongoClient[Any], expression: Any) -> dict[str, Any]:
    """A case with what the server made of it; without a value where that is missing."""
    collection = client.get_database("golden").get_collection("expressions").with_options(codec_options=OPTIONS)
    said = {"expression": expression}
    for known, value, why in BY_RULE:
        if known == expression:
            return {**said, "rule": why, **({} if value is MISSING else {"value": value})}
    try:
        (found,) = collection.aggregate([{"$replaceWith": {"v": expression}}])
    except OperationFailure as error:
        return {**said, "error": error.code}
    return {**said, **({"value": found["v"]} if "v" in found else {})}


if __name__ == "__main__":
    main()
