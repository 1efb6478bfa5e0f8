"""Pipelines and what a server of MongoDB's protocol makes of them: `python -m support.golden_pipelines` writes them anew.

Where the server is known to be wrong, the answer is by the rules of MongoDB's manual, and says so. Documents come in any order where no stage
orders them, so that answers are compared without it.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bson import json_util
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from gapless.documents.values.codec import OPTIONS
from support.mongo_server import serving

PLACE = Path(__file__).resolve().parents[1] / "documents" / "golden" / "pipelines.json"
COLLECTIONS: dict[str, list[dict[str, Any]]] = {
    "sales": [
        {"_id": 1, "item": "pen", "price": 10, "n": 2, "at": datetime(2024, 1, 1, 8), "tags": ["a", "b"], "by": "ada", "size": {"h": 1, "w": 2}},
        {"_id": 2, "item": "ink", "price": 20, "n": 1, "at": datetime(2024, 1, 1, 9), "tags": ["b"], "by": "bob", "size": {"h": 3, "w": 1}},
        {"_id": 3, "item": "pen", "price": 5, "n": 10, "at": datetime(2024, 1, 15, 9), "tags": [], "by": "ada"},
        {"_id": 4, "item": "pad", "price": 5.5, "n": 10, "at": datetime(2024, 2, 4, 11, 21), "tags": ["c", "a"], "by": "cy", "size": {"h": 2}},
        {"_id": 5, "item": "pen", "price": 10, "n": 5, "at": datetime(2024, 2, 4, 21, 23), "by": "bob", "notes": None},
        {"_id": 6, "item": "ink", "price": Decimal128("7.25"), "n": 5, "at": datetime(2024, 3, 15, 12), "tags": ["a"], "by": "ada"},
        {"_id": 7, "item": "pad", "price": Int64(8), "n": None, "at": datetime(2024, 3, 15, 18), "tags": "a", "by": None},
        {"_id": 8, "item": None, "price": 1, "n": 3, "at": datetime(2024, 4, 1), "tags": ["b", "b"], "lines": [{"k": "x", "q": 1}, {"k": "y", "q": 2}]},
        {"_id": 9, "price": 2, "n": 4, "at": datetime(2024, 4, 2), "lines": [{"k": "x", "q": 5}, {"q": 7}, 3]},
    ],
    "people": [
        {"_id": "ada", "name": "Ada", "age": 36, "knows": ["bob", "cy"]},
        {"_id": "bob", "name": "Bob", "boss": "ada", "age": 41},
        {"_id": "cy", "name": "Cy", "boss": "bob", "age": None},
        {"_id": "di", "name": "Di", "boss": "cy"},
        {"_id": "ed", "name": "Ed", "boss": "ed", "knows": []},
    ],
    "mixed": [
        {"_id": 1, "v": 1}, {"_id": 2, "v": 1.0}, {"_id": 3, "v": Int64(1)}, {"_id": 4, "v": "1"}, {"_id": 5, "v": True}, {"_id": 6, "v": None},
        {"_id": 7}, {"_id": 8, "v": [1]}, {"_id": 9, "v": {"q": 1}}, {"_id": 10, "v": 2}, {"_id": 11, "v": Decimal128("2.0")}, {"_id": 12, "v": []},
    ],
    "series": [{"_id": one, "k": "xyz"[one % 3], "t": datetime(2024, 1, 1 + one), "v": one * one % 7} for one in range(10)],
    "none": [],
}  # fmt: skip
Case = tuple[str, list[dict[str, Any]]]
CASES: list[Case] = []


def of(name: str, *pipelines: list[dict[str, Any]]) -> None:
    """Pipelines over one collection."""
    CASES.extend((name, one) for one in pipelines)


BY_ID: dict[str, Any] = {"$sort": {"_id": 1}}
# One document at a time.
of("sales",
   [{"$match": {"item": "pen"}}], [{"$match": {"n": {"$gte": 5}}}, {"$match": {"tags": "a"}}], [{"$match": {"$expr": {"$gt": ["$price", "$n"]}}}],
   [{"$project": {"item": 1}}], [{"$project": {"_id": 0, "size.h": 1}}], [{"$project": {"tags": 0, "at": 0, "lines": 0}}],
   [{"$project": {"total": {"$multiply": ["$price", "$n"]}}}], [{"$match": {"_id": 2}}, {"$project": {"size": {"h": 1, "area": {"$add": ["$size.h", "$size.w"]}}}}],
   [{"$project": {"lines.k": 1}}], [{"$match": {"_id": 9}}, {"$project": {"lines.q": 0, "at": 0}}], [{"$project": {"x": "$none", "y": "$item"}}], [{"$project": {"a": 1, "b": 0}}],
   [{"$project": {}}], [{"$match": {"_id": 9}}, {"$addFields": {"lines.z": "$n"}}, {"$project": {"lines": 1}}],
   [{"$addFields": {"total": {"$multiply": ["$price", 2]}, "size.d": 9}}], [{"$set": {"item": "$$REMOVE", "size.h": 0}}], [{"$match": {"_id": 1}}, {"$set": {"size": {"h": 0}}}, {"$project": {"size": 1}}],
   [{"$addFields": {"price": {"$toString": "$price"}}}, {"$project": {"price": 1}}], [{"$unset": "tags"}], [{"$unset": ["tags", "size.h"]}], [{"$match": {"_id": 9}}, {"$unset": ["lines.k", "at"]}],
   [{"$match": {"size": {"$exists": True}}}, {"$replaceRoot": {"newRoot": "$size"}}], [{"$replaceRoot": {"newRoot": "$size"}}],
   [{"$replaceWith": {"k": "$item", "when": {"$month": "$at"}}}], [{"$replaceWith": {"$mergeObjects": [{"h": 0}, "$size", {"of": "$_id"}]}}],
   [{"$unwind": "$tags"}], [{"$unwind": {"path": "$tags", "preserveNullAndEmptyArrays": True}}],
   [{"$match": {"_id": {"$in": [4, 7]}}}, {"$unwind": {"path": "$tags", "includeArrayIndex": "place"}}, {"$project": {"tags": 1, "place": 1}}],
   [{"$match": {"_id": {"$lte": 3}}}, {"$unwind": {"path": "$tags", "includeArrayIndex": "size.place", "preserveNullAndEmptyArrays": True}}, {"$project": {"size": 1, "tags": 1}}],
   [{"$unwind": "$lines"}, {"$project": {"lines": 1}}], [{"$unwind": "$notes"}], [{"$unwind": {"path": "$notes", "preserveNullAndEmptyArrays": True}}, {"$project": {"notes": 1}}],
   [{"$unwind": "$size.h"}], [{"$unwind": "tags"}],
   [{"$redact": {"$cond": [{"$eq": ["$item", "pen"]}, "$$KEEP", "$$PRUNE"]}}],
   [{"$redact": {"$cond": [{"$gt": [{"$ifNull": ["$h", 0]}, 1]}, "$$PRUNE", "$$DESCEND"]}}])  # fmt: skip
# Which, and in what order.
of("sales",
   [{"$sort": {"price": 1, "_id": -1}}, {"$project": {"price": 1}}], [{"$sort": {"n": -1, "_id": 1}}, {"$project": {"n": 1}}],
   [{"$sort": {"tags": 1, "_id": 1}}, {"$project": {"tags": 1}}], [{"$sort": {"size.h": -1, "_id": 1}}, {"$limit": 3}, {"$project": {"size": 1}}],
   [BY_ID, {"$skip": 2}, {"$limit": 3}, {"$project": {"item": 1}}], [BY_ID, {"$limit": 5}, {"$skip": 3}, {"$project": {"item": 1}}], [{"$limit": 0}],
   [{"$skip": 100}], [{"$count": "n"}], [{"$match": {"item": "pen"}}, {"$count": "pens"}], [{"$match": {"item": "none"}}, {"$count": "n"}],
   [{"$count": "a.b"}], [{"$sort": {"price": 2}}])  # fmt: skip
of("mixed", [{"$sort": {"v": 1, "_id": 1}}], [{"$sort": {"v": -1, "_id": 1}}], [{"$sort": {"v": 1, "_id": 1}}, {"$limit": 4}])
of("none", [{"$count": "n"}], [{"$group": {"_id": None, "n": {"$sum": 1}}}], [{"$facet": {"a": [{"$count": "n"}]}}])
# Groups.
of("sales",
   [{"$group": {"_id": "$item", "n": {"$sum": 1}}}], [{"$group": {"_id": None, "n": {"$sum": "$n"}, "all": {"$sum": 1}}}],
   [{"$group": {"_id": "$item", "total": {"$sum": {"$multiply": ["$price", "$n"]}}, "mean": {"$avg": "$n"}}}],
   [{"$group": {"_id": "$item", "least": {"$min": "$price"}, "most": {"$max": "$price"}}}], [{"$group": {"_id": None, "p": {"$sum": "$price"}}}],
   [BY_ID, {"$group": {"_id": "$item", "first": {"$first": "$n"}, "last": {"$last": "$by"}}}], [BY_ID, {"$group": {"_id": "$by", "items": {"$push": "$item"}}}],
   [BY_ID, {"$group": {"_id": "$item", "notes": {"$push": "$notes"}, "first": {"$first": "$notes"}}}],
   [{"$match": {"by": {"$type": "string"}}}, {"$group": {"_id": "$item", "by": {"$addToSet": "$by"}}}, {"$project": {"by": {"$sortArray": {"input": "$by", "sortBy": 1}}}}],
   [{"$group": {"_id": {"m": {"$month": "$at"}, "y": {"$year": "$at"}}, "n": {"$count": {}}}}], [{"$group": {"_id": {"item": "$item"}, "n": {"$sum": 1}}}],
   [{"$group": {"_id": "$item", "dev": {"$stdDevPop": "$n"}, "sample": {"$stdDevSamp": "$n"}}}], [{"$group": {"_id": "$none", "n": {"$sum": "$item"}, "m": {"$avg": "$item"}}}],
   [BY_ID, {"$match": {"size": {"$exists": True}}}, {"$group": {"_id": None, "all": {"$mergeObjects": "$size"}}}],
   [BY_ID, {"$group": {"_id": "$item", "f": {"$firstN": {"input": "$n", "n": 2}}, "l": {"$lastN": {"input": "$n", "n": 2}}}}],
   [{"$group": {"_id": None, "lo": {"$minN": {"input": "$n", "n": 3}}, "hi": {"$maxN": {"input": "$n", "n": 3}}}}],
   [{"$group": {"_id": "$item", "t": {"$top": {"sortBy": {"at": -1}, "output": ["$_id", "$n"]}}, "b": {"$bottom": {"sortBy": {"at": -1}, "output": "$_id"}}}}],
   [{"$group": {"_id": None, "t": {"$topN": {"n": 2, "sortBy": {"at": -1}, "output": "$_id"}}, "b": {"$bottomN": {"n": 2, "sortBy": {"at": -1}, "output": "$_id"}}}}],
   [{"$group": {"_id": "$item"}}, {"$count": "kinds"}], [{"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}, {"$sort": {"n": -1, "_id": 1}}],
   [{"$sortByCount": {"$type": "$tags"}}, {"$sort": {"count": -1, "_id": 1}}], [{"$group": {"n": {"$sum": 1}}}], [{"$group": {"_id": 1, "n": {"$summ": 1}}}],
   [{"$group": {"_id": 1, "a.b": {"$sum": 1}}}], [{"$group": {"_id": 1, "n": 5}}], [{"$group": {"_id": "$item", "n": {"$sum": ["$n", "$price"]}}}])  # fmt: skip
of("mixed",
   [{"$group": {"_id": "$v", "n": {"$sum": 1}}}, {"$project": {"_id": {"$type": "$_id"}, "n": 1}}],
   [{"$group": {"_id": {"v": "$v"}, "n": {"$sum": 1}}}, {"$project": {"_id": 0, "n": 1, "t": {"$type": "$_id.v"}}}],
   [{"$group": {"_id": None, "s": {"$sum": "$v"}, "m": {"$avg": "$v"}, "lo": {"$min": "$v"}, "hi": {"$max": "$v"}}}], [{"$sortByCount": "$v"}, {"$limit": 1}, {"$project": {"count": 1}}])  # fmt: skip
# Ranges.
of("sales",
   [{"$bucket": {"groupBy": "$price", "boundaries": [0, 5, 10, 50]}}], [{"$bucket": {"groupBy": "$price", "boundaries": [0, 8], "default": "other"}}],
   [{"$bucket": {"groupBy": "$n", "boundaries": [0, 5, 50], "default": -1, "output": {"n": {"$sum": 1}, "ids": {"$push": "$_id"}}}}],
   [{"$bucket": {"groupBy": "$price", "boundaries": [0, 8]}}], [{"$bucket": {"groupBy": "$price", "boundaries": [8, 0]}}], [{"$bucket": {"groupBy": "$price", "boundaries": [0]}}],
   [{"$bucketAuto": {"groupBy": "$_id", "buckets": 3}}], [{"$bucketAuto": {"groupBy": "$_id", "buckets": 20}}],
   [{"$bucketAuto": {"groupBy": "$_id", "buckets": 2, "output": {"n": {"$sum": 1}, "total": {"$sum": "$n"}}}}])  # fmt: skip
# Other collections.
of("sales",
   [{"$lookup": {"from": "people", "localField": "by", "foreignField": "_id", "as": "who"}}, {"$project": {"who": 1}}],
   [{"$lookup": {"from": "people", "localField": "by", "foreignField": "age", "as": "who"}}, {"$project": {"who._id": 1}}],
   [{"$lookup": {"from": "none", "localField": "by", "foreignField": "_id", "as": "who"}}, {"$project": {"who": 1}}],
   [{"$lookup": {"from": "people", "localField": "by", "foreignField": "_id", "as": "a.who"}}, {"$project": {"a": 1}}, BY_ID],
   [{"$lookup": {"from": "people", "let": {"by": "$by"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$by"]}}}, {"$project": {"name": 1, "_id": 0}}], "as": "who"}}, {"$project": {"who": 1}}],
   [{"$lookup": {"from": "people", "let": {"n": "$n"}, "pipeline": [{"$match": {"boss": {"$exists": True}}}, {"$match": {"$expr": {"$gt": ["$$n", 4]}}}, {"$count": "k"}], "as": "who"}}, {"$project": {"who": 1}}],
   [{"$lookup": {"from": "people", "pipeline": [BY_ID, {"$limit": 1}], "as": "who"}}, {"$limit": 2}, {"$project": {"who": 1}}],
   [{"$lookup": {"from": "people", "localField": "by", "foreignField": "_id", "let": {"n": "$n"}, "pipeline": [{"$set": {"n": "$$n"}}, {"$project": {"n": 1}}], "as": "who"}}, {"$project": {"who": 1}}],
   [{"$lookup": {"from": "people", "localField": "by", "as": "who"}}], [{"$lookup": {"from": "people", "pipeline": [{"$nope": 1}], "as": "who"}}],
   [{"$project": {"item": 1}}, {"$unionWith": "people"}], [{"$unionWith": {"coll": "people", "pipeline": [{"$match": {"age": {"$gt": 0}}}, {"$project": {"name": 1}}]}}, {"$count": "n"}],
   [{"$facet": {"pens": [{"$match": {"item": "pen"}}, {"$count": "n"}], "top": [{"$sort": {"price": -1, "_id": 1}}, {"$limit": 2}, {"$project": {"price": 1}}], "all": [{"$group": {"_id": None, "n": {"$sum": "$n"}}}]}}],
   [{"$facet": {"a": [{"$facet": {"b": []}}]}}], [{"$facet": {"a": [{"$out": "x"}]}}], [{"$nope": 1}], [{"$out": "x"}, {"$match": {}}])  # fmt: skip
of("people",
   [{"$lookup": {"from": "people", "localField": "knows", "foreignField": "_id", "as": "friends"}}, {"$project": {"friends._id": 1}}],
   [{"$lookup": {"from": "people", "localField": "_id", "foreignField": "knows", "as": "fans"}}, {"$project": {"fans._id": 1}}],
   [{"$lookup": {"from": "people", "localField": "boss", "foreignField": "boss", "as": "same"}}, {"$project": {"same": {"$size": "$same"}}}],
   [{"$graphLookup": {"from": "people", "startWith": "$boss", "connectFromField": "boss", "connectToField": "_id", "as": "line"}}, {"$project": {"line": {"$size": "$line"}}}],
   [{"$match": {"_id": "di"}}, {"$graphLookup": {"from": "people", "startWith": "$boss", "connectFromField": "boss", "connectToField": "_id", "as": "line", "depthField": "d"}},
    {"$unwind": "$line"}, {"$project": {"_id": "$line._id", "d": "$line.d"}}],
   [{"$match": {"_id": "di"}}, {"$graphLookup": {"from": "people", "startWith": "$boss", "connectFromField": "boss", "connectToField": "_id", "as": "line", "maxDepth": 1}}, {"$project": {"n": {"$size": "$line"}}}],
   [{"$match": {"_id": "ada"}}, {"$graphLookup": {"from": "people", "startWith": "$knows", "connectFromField": "boss", "connectToField": "_id", "as": "line",
     "restrictSearchWithMatch": {"_id": {"$ne": "ada"}}}}, {"$unwind": "$line"}, {"$replaceWith": {"_id": "$line._id"}}])  # fmt: skip
# Windows.
_ALL_BEFORE = {"documents": ["unbounded", "current"]}
_FIELDS: tuple[dict[str, Any], ...] = (
       {"$sum": "$v", "window": _ALL_BEFORE}, {"$avg": "$v", "window": {"documents": [-1, 1]}}, {"$max": "$v"}, {"$push": "$v", "window": {"documents": [-1, 0]}},
       {"$documentNumber": {}}, {"$shift": {"output": "$v", "by": -1, "default": -1}}, {"$count": {}, "window": {"documents": [0, "unbounded"]}},
       {"$sum": "$v", "window": {"range": [-3, 0], "unit": "day"}}, {"$first": "$v", "window": {"documents": [-2, -1]}})  # fmt: skip
for _field in _FIELDS:
    of(
        "series",
        [{"$setWindowFields": {"partitionBy": "$k", "sortBy": {"t": 1}, "output": {"o": _field}}}, {"$project": {"o": 1}}],
    )
of("series",
   [{"$setWindowFields": {"sortBy": {"v": 1}, "output": {"r": {"$rank": {}}, "d": {"$denseRank": {}}}}}, {"$project": {"r": 1, "d": 1}}],
   [{"$setWindowFields": {"sortBy": {"v": 1}, "output": {"s": {"$sum": "$v", "window": {"range": [-1, 1]}}}}}, {"$project": {"s": 1}}],
   [{"$setWindowFields": {"partitionBy": {"$gt": ["$v", 2]}, "output": {"n": {"$sum": 1}}}}, {"$project": {"n": 1}}])  # fmt: skip
# Several at once.
of("sales",
   [{"$match": {"price": {"$gte": 2}}}, {"$unwind": "$tags"}, {"$group": {"_id": {"tag": "$tags", "item": "$item"}, "n": {"$sum": "$n"}}}, {"$group": {"_id": "$_id.tag", "items": {"$sum": 1}, "n": {"$sum": "$n"}}}, {"$sort": {"n": -1, "_id": 1}}],
   [{"$set": {"month": {"$dateTrunc": {"date": "$at", "unit": "month"}}}}, {"$group": {"_id": "$month", "sales": {"$sum": {"$multiply": ["$price", {"$ifNull": ["$n", 0]}]}}}}, BY_ID],
   [{"$project": {"lines": {"$filter": {"input": {"$ifNull": ["$lines", []]}, "as": "l", "cond": {"$gt": ["$$l.q", 1]}}}}}, {"$match": {"lines.0": {"$exists": True}}}],
   [{"$lookup": {"from": "people", "localField": "by", "foreignField": "_id", "as": "who"}}, {"$unwind": "$who"}, {"$group": {"_id": "$who.name", "n": {"$sum": "$n"}}}, BY_ID],
   [{"$group": {"_id": "$item", "n": {"$sum": "$n"}}}, {"$match": {"n": {"$gt": 5}}}, {"$sort": {"n": -1}}, {"$limit": 1}])  # fmt: skip

_DOWN: dict[str, Any] = {
    "from": "people",
    "startWith": "$boss",
    "connectFromField": "boss",
    "connectToField": "_id",
    "as": "line",
    "depthField": "d",
}
_BUT: dict[str, Any] = {
    "from": "people",
    "startWith": "$knows",
    "connectFromField": "boss",
    "connectToField": "_id",
    "as": "line",
    "restrictSearchWithMatch": {"_id": {"$ne": "ada"}},
}
_MANY: list[dict[str, Any]] = [
    {"$match": {"boss": {"$exists": True}}},
    {"$match": {"$expr": {"$gt": ["$$n", 4]}}},
    {"$count": "k"},
]
BY_RULE: list[tuple[Case, list[dict[str, Any]] | None, str]] = [
    (("sales", [{"$match": {"_id": 2}}, {"$project": {"size": {"h": 1, "area": {"$add": ["$size.h", "$size.w"]}}}}]),
     [{"_id": 2, "size": {"h": 3, "area": 4}}], "1 in a document in a projection is a field to give"),
    (("sales", [{"$match": {"_id": 9}}, {"$project": {"lines.q": 0, "at": 0}}]),
     [{"_id": 9, "price": 2, "n": 4, "lines": [{"k": "x"}, {}, 3]}], "fields are left out in the elements of arrays"),
    (("sales", [{"$match": {"_id": 9}}, {"$addFields": {"lines.z": "$n"}}, {"$project": {"lines": 1}}]),
     [{"_id": 9, "lines": [{"k": "x", "q": 5, "z": 4}, {"q": 7, "z": 4}, {"z": 4}]}], "fields are added to the elements of arrays"),
    (("sales", [{"$match": {"_id": 1}}, {"$set": {"size": {"h": 0}}}, {"$project": {"size": 1}}]),
     [{"_id": 1, "size": {"h": 0, "w": 2}}], "a document in $set says paths, as 'size.h' does"),
    (("sales", [{"$match": {"_id": 9}}, {"$unset": ["lines.k", "at"]}]),
     [{"_id": 9, "price": 2, "n": 4, "lines": [{"q": 5}, {"q": 7}, 3]}], "fields are left out in the elements of arrays"),
    (("sales", [{"$match": {"_id": {"$in": [4, 7]}}}, {"$unwind": {"path": "$tags", "includeArrayIndex": "place"}}, {"$project": {"tags": 1, "place": 1}}]),
     [{"_id": 4, "tags": "c", "place": Int64(0)}, {"_id": 4, "tags": "a", "place": Int64(1)}, {"_id": 7, "tags": "a", "place": None}], "places are of 64 bits"),
    (("sales", [{"$match": {"_id": {"$lte": 3}}}, {"$unwind": {"path": "$tags", "includeArrayIndex": "size.place", "preserveNullAndEmptyArrays": True}},
      {"$project": {"size": 1, "tags": 1}}]),
     [{"_id": 1, "tags": "a", "size": {"h": 1, "w": 2, "place": Int64(0)}}, {"_id": 1, "tags": "b", "size": {"h": 1, "w": 2, "place": Int64(1)}},
      {"_id": 2, "tags": "b", "size": {"h": 3, "w": 1, "place": Int64(0)}}, {"_id": 3, "size": {"place": None}}], "includeArrayIndex is a path"),
    (("sales", [{"$match": {"item": "none"}}, {"$count": "n"}]), [], "$count of no documents is no document"),
    (("none", [{"$count": "n"}]), [], "$count of no documents is no document"),
    (("none", [{"$facet": {"a": [{"$count": "n"}]}}]), [{"a": []}], "$count of no documents is no document"),
    (("sales", [{"$group": {"_id": 1, "a.b": {"$sum": 1}}}]), None, "names in $group have no dot"),
    (("sales", [{"$bucket": {"groupBy": "$n", "boundaries": [0, 5, 50], "default": -1, "output": {"n": {"$sum": 1}, "ids": {"$push": "$_id"}}}}]),
     [{"_id": -1, "n": 1, "ids": [7]}, {"_id": 0, "n": 4, "ids": [1, 2, 8, 9]}, {"_id": 5, "n": 4, "ids": [3, 4, 5, 6]}], "buckets are sorted by _id"),
    (("sales", [{"$lookup": {"from": "people", "let": {"n": "$n"}, "pipeline": _MANY, "as": "who"}}, {"$project": {"who": 1}}]),
     [{"_id": one, "who": [{"k": 4}] if one in (3, 4, 5, 6) else []} for one in range(1, 10)], "four have a boss"),
    (("sales", [{"$facet": {"a": [{"$out": "x"}]}}]), None, "$out is the last stage of all"),
    (("people", [{"$match": {"_id": "di"}}, {"$graphLookup": _DOWN}, {"$unwind": "$line"}, {"$project": {"_id": "$line._id", "d": "$line.d"}}]),
     [{"_id": "cy", "d": Int64(0)}, {"_id": "bob", "d": Int64(1)}, {"_id": "ada", "d": Int64(2)}], "depths are of 64 bits"),
    (("people", [{"$match": {"_id": "ada"}}, {"$graphLookup": _BUT}, {"$unwind": "$line"}, {"$replaceWith": {"_id": "$line._id"}}]),
     [{"_id": "bob"}, {"_id": "cy"}], "what the filter leaves out is not reached"),
]  # fmt: skip
"""What the server gets wrong: cases, what MongoDB's manual makes of them (None for an error), and why."""


def main() -> None:
    """Ask the server."""
    with TemporaryDirectory() as folder, serving(Path(folder) / "log") as client:
        database = client.get_database("golden")
        for name, documents in COLLECTIONS.items():
            database.create_collection(name)
            if documents:
                database.get_collection(name).insert_many(documents)
        told = [answer(client, case) for case in CASES]
    lines = ",\n".join(json_util.dumps(one, json_options=json_util.CANONICAL_JSON_OPTIONS) for one in told)
    PLACE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    assert sum("rule" in one for one in told) == len(BY_RULE)
    sys.stdout.write(f"{len(told)} cases, {sum('error' in one for one in told)} of them errors\n")


def ordered(pipeline: list[dict[str, Any]]) -> bool:
    """Whether documents come out in an order that a stage says."""
    names = [name for one in pipeline for name in one]
    last = max((at for at, name in enumerate(names) if name in _ORDERING), default=None)
    return last is not None and not set(names[last:]) & {"$group", "$unionWith", "$setWindowFields"}


_ORDERING = ("$sort", "$bucket", "$bucketAuto")


def answer(client: MongoClient[Any], case: Case) -> dict[str, Any]:
    """A case with what the server made of it."""
    name, pipeline = case
    collection = client.get_database("golden").get_collection(name).with_options(codec_options=OPTIONS)
    said: dict[str, Any] = {"collection": name, "pipeline": pipeline}
    for known, found, why in BY_RULE:
        if known == case:
            return {**said, "rule": why, **({"error": 0} if found is None else {"found": found})}
    try:
        return {**said, "found": list(collection.aggregate(pipeline))}
    except OperationFailure as error:
        return {**said, "error": error.code}


if __name__ == "__main__":
    main()
