"""Random operands of expressions and stages, of which many are wrong: what is given is to be answered or refused, never to crash."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

from gapless.documents.aggregation.parse import STAGES
from gapless.documents.expressions.parse import OPERATORS
from support.random_documents import value

_NAMES = (
    "input", "in", "as", "cond", "vars", "branches", "to", "date", "timezone", "unit", "amount", "startDate", "endDate", "format", "dateString",
    "n", "sortBy", "output", "regex", "find", "replacement", "field", "value", "inputs", "initialValue", "year", "path", "_id", "from",
    "localField", "foreignField", "let", "pipeline", "size", "groupBy", "boundaries", "buckets", "into", "window", "documents", "k", "v", "a",
)  # fmt: skip
_OPERANDS: dict[str, tuple[str, ...]] = {
    "$cond": ("if", "then", "else"), "$filter": ("input", "cond"), "$map": ("input", "in"), "$reduce": ("input", "initialValue", "in"),
    "$convert": ("input", "to"), "$dateToString": ("date", "format", "timezone"), "$dateFromString": ("dateString", "format"),
    "$dateTrunc": ("date", "unit", "binSize"), "$dateAdd": ("startDate", "unit", "amount"), "$dateDiff": ("startDate", "endDate", "unit"),
    "$dateFromParts": ("year", "month", "day", "hour"), "$dateToParts": ("date", "iso8601"), "$regexFindAll": ("input", "regex"),
    "$replaceAll": ("input", "find", "replacement"), "$trim": ("input", "chars"), "$sortArray": ("input", "sortBy"),
    "$zip": ("inputs", "useLongestLength", "defaults"), "$maxN": ("n", "input"), "$setField": ("field", "input", "value"),
    "$unwind": ("path", "includeArrayIndex"), "$group": ("_id", "a", "b"), "$bucket": ("groupBy", "boundaries", "default", "output"),
    "$bucketAuto": ("groupBy", "buckets", "output"), "$lookup": ("from", "as", "localField", "foreignField"),
    "$graphLookup": ("from", "startWith", "connectFromField", "connectToField", "as"), "$setWindowFields": ("sortBy", "output", "partitionBy"),
    "$merge": ("into", "whenMatched", "let"), "$facet": ("a", "b"), "$project": ("a", "b"), "$set": ("a", "b.c"),
}  # fmt: skip
_LIKELY: tuple[Any, ...] = (
    "$a", "$b", {"$ifNull": ["$a", 1]}, "2020-01-01T00:00:00Z", datetime(2020, 2, 29, 1, 2, 3), 5, 2, -3, 0, "day", "month", "UTC",
    "Europe/Paris", "%Y-%m-%d", "abc", [1, 2, 3], {"a": 1}, None, 1.5, "int", True, "x", "$$NOW", "$", "", "unbounded", 10**9, 1e308,
    {"$sum": "$a"}, {"x": {"$push": "$b"}}, datetime(1, 1, 1), datetime(9999, 12, 31),
)  # fmt: skip


def operator(seed: random.Random) -> dict[str, Any]:
    """An expression."""
    return _called(seed, seed.choice(list(OPERATORS)))


def stage(seed: random.Random) -> dict[str, Any]:
    """A stage."""
    return _called(seed, seed.choice(list(STAGES)))


def _called(seed: random.Random, name: str) -> dict[str, Any]:
    names = _OPERANDS.get(name)
    if names is not None and seed.random() < 0.8:
        return {name: {one: _operand(seed) for one in names}}
    if seed.random() < 0.6:
        return {name: [_operand(seed) for _ in range(seed.randrange(1, 4))]}
    return {name: anything(seed)}


def _operand(seed: random.Random) -> Any:
    return seed.choice(_LIKELY) if seed.random() < 0.75 else anything(seed, 2)


def anything(seed: random.Random, depth: int = 3) -> Any:
    """Whatever could be written."""
    shape = seed.random()
    if depth and shape < 0.3:
        return {seed.choice(list(OPERATORS)): anything(seed, depth - 1)}
    if depth and shape < 0.5:
        return [anything(seed, depth - 1) for _ in range(seed.randrange(4))]
    if depth and shape < 0.65:
        return {seed.choice(_NAMES): anything(seed, depth - 1) for _ in range(seed.randrange(4))}
    return seed.choice(_LIKELY) if shape < 0.8 else value(seed, 1)
