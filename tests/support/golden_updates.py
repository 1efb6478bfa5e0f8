"""Updates and what a server of MongoDB's protocol makes of them: `python -m support.golden_updates` writes them anew.

What the server is known to get wrong is not among them: unknown modifiers, an array as `_id`, `$bit` of 64 bits (it answers with 32), and
`$[]` of what is not there (it does nothing, where MongoDB has an error).
"""

from __future__ import annotations

import sys
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

PLACE = Path(__file__).resolve().parents[1] / "documents" / "golden" / "updates.json"
Case = tuple[dict[str, Any] | None, dict[str, Any], Any, list[Any] | None]
"""A document (None: none, so that one is added), a filter, an update, filters of elements."""

ONE: dict[str, Any] = {"_id": 1}
CASES: list[Case] = []


def of(document: dict[str, Any], *updates: dict[str, Any], found_by: dict[str, Any] | None = None) -> None:
    """Updates of one document."""
    CASES.extend(({**ONE, **document}, found_by or ONE, update, None) for update in updates)


of({"a": 1, "b": {"c": 2}, "t": [1, 2]},
   {"$set": {"a": 2}}, {"$set": {"a": 1}}, {"$set": {"a": 1.0}}, {"$set": {"b.c": 3}}, {"$set": {"b.d.e": 3}}, {"$set": {"t.0": 9}},
   {"$set": {"t.4": 9}}, {"$set": {"a.x": 1}}, {"$set": {"t.x": 1}}, {"$set": {"b": 5}}, {"$set": {"z": [1, {"q": None}]}},
   {"$unset": {"a": ""}}, {"$unset": {"b.c": 1}}, {"$unset": {"t.1": 1}}, {"$unset": {"q": 1}}, {"$unset": {"a.x": 1}},
   {"$set": {"a": 3}, "$unset": {"t": 1}}, {"$set": {}}, {"$set": {"_id": 1}}, {"$set": {"_id": 2}})  # fmt: skip
of({"n": 5, "l": Int64(7), "d": 1.5, "m": Decimal128("2.5"), "s": "x", "top": 2**31 - 1, "far": Int64(2**63 - 1), "none": None},
   *({operator: {name: by}} for operator in ("$inc", "$mul") for name in ("n", "l", "d", "m", "new", "top")
     for by in (2, Int64(3), 0.5, Decimal128("1.1"))),
   {"$inc": {"s": 1}}, {"$inc": {"none": 1}}, {"$inc": {"far": 1}}, {"$mul": {"far": 2}}, {"$inc": {"n": 0}}, {"$inc": {"n": 0.0}},
   {"$inc": {"n": "a"}}, {"$mul": {"s": 2}}, {"$inc": {"n": -5}})  # fmt: skip
of({"a": 5, "s": "m", "n": None, "l": [1]},
   *({operator: {name: value}} for operator in ("$min", "$max") for name in ("a", "s", "n", "l", "new")
     for value in (3, 5.0, 9, "z", None, [0], True)))  # fmt: skip
of({"a": 1, "b": {"c": 2}, "t": [{"x": 1}], "z": 3},
   {"$rename": {"a": "q"}}, {"$rename": {"b.c": "c"}}, {"$rename": {"a": "b.d"}}, {"$rename": {"none": "q"}}, {"$rename": {"a": "z"}},
   {"$rename": {"t.0.x": "q"}}, {"$rename": {"a": "t.0.y"}}, {"$rename": {"a": "z.k"}})  # fmt: skip
of({"t": [3, 1, 2], "d": [{"x": 2, "y": 1}, {"x": 1, "y": 1}, {"y": 0}], "s": 1, "e": []},
   {"$push": {"t": 4}}, {"$push": {"t": [4]}}, {"$push": {"new": 4}}, {"$push": {"s": 4}}, {"$push": {"t": {"$each": [4, 5]}}},
   {"$push": {"t": {"$each": [4, 5], "$position": 1}}}, {"$push": {"t": {"$each": [4], "$position": -1}}},
   {"$push": {"t": {"$each": [4], "$position": 99}}}, {"$push": {"t": {"$each": [0], "$sort": 1}}},
   {"$push": {"t": {"$each": [0], "$sort": -1, "$slice": 2}}}, {"$push": {"t": {"$each": [], "$slice": -2}}},
   {"$push": {"t": {"$each": [9], "$slice": 0}}}, {"$push": {"d": {"$each": [{"x": 0}], "$sort": {"x": 1}}}},
   {"$push": {"d": {"$each": [{"x": 5, "y": 1}], "$sort": {"y": -1, "x": 1}, "$slice": 3}}},
   {"$push": {"e": {"a": 1}}}, {"$addToSet": {"t": 3}}, {"$addToSet": {"t": 3.0}}, {"$addToSet": {"t": 7}},
   {"$addToSet": {"t": {"$each": [1, 8, 8]}}}, {"$addToSet": {"new": [1]}}, {"$addToSet": {"s": 1}}, {"$addToSet": {"d": {"x": 1, "y": 1}}},
   {"$addToSet": {"d": {"y": 1, "x": 1}}}, {"$pop": {"t": 1}}, {"$pop": {"t": -1}}, {"$pop": {"e": 1}}, {"$pop": {"none": 1}}, {"$pop": {"s": 1}},
   {"$pull": {"t": 3}}, {"$pull": {"t": {"$gte": 2}}}, {"$pull": {"t": {"$in": [1, 2]}}}, {"$pull": {"d": {"x": 1}}},
   {"$pull": {"d": {"x": {"$gte": 1}, "y": 1}}}, {"$pull": {"d": {"y": {"$ne": 1}}}}, {"$pull": {"none": 1}}, {"$pull": {"s": 1}},
   {"$pullAll": {"t": [1, 3.0]}}, {"$pullAll": {"d": [{"y": 0}]}}, {"$pullAll": {"t": []}})  # fmt: skip
of({"n": 12, "l": Int64(5), "s": "x"},
   {"$bit": {"n": {"and": 10}}}, {"$bit": {"n": {"or": 3}}}, {"$bit": {"n": {"xor": 5}}},
   {"$bit": {"new": {"or": 4}}}, {"$bit": {"s": {"or": 4}}}, {"$bit": {"n": {"or": 3, "and": 7}}})  # fmt: skip
CASES += [
    ({"_id": 1, "t": [1, 5, 8], "d": [{"x": 1, "g": [1, 2]}, {"x": 5, "g": [5]}, {"x": 9, "g": []}]}, filter_, update, filters)
    for filter_, update, filters in (
        ({"t": {"$gte": 5}}, {"$set": {"t.$": 0}}, None),
        ({"d.x": 5}, {"$set": {"d.$.x": 6}}, None),
        ({"d": {"$elemMatch": {"x": {"$gt": 5}}}}, {"$inc": {"d.$.x": 1}}, None),
        ({"_id": 1}, {"$set": {"t.$": 0}}, None),
        ({"_id": 1}, {"$inc": {"t.$[]": 1}}, None),
        ({"_id": 1}, {"$inc": {"d.$[].x": 1}}, None),
        ({"_id": 1}, {"$push": {"d.$[].g": 7}}, None),
        ({"_id": 1}, {"$inc": {"t.$[e]": 10}}, [{"e": {"$gte": 5}}]),
        ({"_id": 1}, {"$set": {"d.$[e].x": 0}}, [{"e.x": {"$gte": 5}}]),
        ({"_id": 1}, {"$set": {"d.$[e].g.$[f]": 0}}, [{"e.x": {"$lt": 9}}, {"f": {"$gt": 1}}]),
        ({"_id": 1}, {"$set": {"t.$[e]": 0}}, [{"e": 99}]),
        ({"_id": 1}, {"$set": {"t.$[e]": 0}}, None),
        ({"_id": 1}, {"$set": {"t.0": 0}}, [{"e": 1}]),
        ({"_id": 1}, {"$unset": {"d.$[e].x": 1}}, [{"$or": [{"e.x": 1}, {"e.x": 9}]}]),
    )
]
CASES += [
    (None, filter_, update, None)
    for filter_, update in (
        ({"_id": 5}, {"$set": {"a": 1}}),
        ({"_id": 5, "a": 1, "b.c": 2}, {"$inc": {"n": 2}}),
        ({"_id": 5, "a": {"$gt": 1}}, {"$set": {"b": 1}}),
        ({"$and": [{"_id": 5}, {"a": {"$eq": 3}}]}, {"$set": {"b": 1}}),
        ({"$or": [{"_id": 5}]}, {"$set": {"b": 1}}),
        ({"_id": 5, "a": {"$all": [3]}}, {"$set": {"b": 1}}),
        ({"_id": 5, "a": 1}, {"$setOnInsert": {"b": 1}}),
        ({"_id": 5, "a": 1}, {"$inc": {"a": 1}}),
        ({"_id": 5, "t": [1]}, {"$push": {"t": 2}}),
        ({"_id": 5}, {"$min": {"a": 3}, "$mul": {"b": 2}}),
        ({"a": 1}, {"$set": {"_id": 5}}),
        ({"_id": 5, "a.b": 1, "a.c": 2}, {"$set": {"z": 1}}),
        ({"_id": 5, "a": 1}, {"$unset": {"a": 1}}),
    )
]

CASES += [
    ({"_id": 1, "a": 5, "b": {"c": 2, "d": 3}, "t": [1, 2, 3], "s": "x"}, ONE, update, None)
    for update in (
        [{"$set": {"sum": {"$add": ["$a", "$b.c"]}}}],
        [{"$addFields": {"b.e": "$a"}}, {"$unset": "a"}],
        [{"$set": {"a": 5}}],
        [{"$set": {"a": 5.0}}],
        [{"$set": {"t": {"$map": {"input": "$t", "in": {"$multiply": ["$$this", 2]}}}}}],
        [{"$project": {"a": 1}}],
        [{"$project": {"b.c": 0, "t": 0}}],
        [{"$replaceRoot": {"newRoot": "$b"}}],
        [{"$replaceWith": {"_id": 1, "was": "$a"}}],
        [{"$set": {"s": "$$REMOVE"}}],
        [{"$set": {"_id": 2}}],
        [{"$set": {"a": {"$divide": ["$a", 0]}}}],
        [{"$set": {"a": {"$nope": 1}}}],
        [{"$match": {"a": 5}}],
        [{"$set": {"n": {"$cond": [{"$gt": ["$a", 3]}, "many", "few"]}}}, {"$set": {"n": {"$concat": ["$n", "!"]}}}],
    )
]


def main() -> None:
    """Ask the server."""
    with TemporaryDirectory() as folder, serving(Path(folder) / "log") as client:
        told = [answer(client, number, case) for number, case in enumerate(CASES)]
    PLACE.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json_util.dumps(one, json_options=json_util.CANONICAL_JSON_OPTIONS) for one in told)
    PLACE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    sys.stdout.write(f"{len(told)} cases, {sum('error' in one for one in told)} of them errors\n")


def answer(client: MongoClient[Any], number: int, case: Case) -> dict[str, Any]:
    """A case with what the server made of it."""
    document, filter_, update, filters = case
    collection = client.get_database("golden").get_collection(f"c{number}").with_options(codec_options=OPTIONS)
    if document is not None:
        collection.insert_one(document)
    said: dict[str, Any] = {"document": document, "filter": filter_, "update": update, "array_filters": filters}
    try:
        done = collection.update_one(filter_, update, upsert=document is None, array_filters=filters)
    except OperationFailure as error:
        return {**said, "error": error.code}
    return {**said, "matched": done.matched_count, "modified": done.modified_count, "after": collection.find_one({})}


if __name__ == "__main__":
    main()
