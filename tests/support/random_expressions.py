"""Random expressions over the documents of `random_documents`, of which most have a value.

What the server that they are tried on is known to get wrong is not among them: paths through arrays with other values than documents,
a missing value in `$in`, `$$ROOT.a` where it is missing, a list below `$not`, `True` where 1 is looked for in `$indexOfArray`, `NaN` in `$sortArray`, a `$switch` or a `$cond` that
is missing, and missing values as elements of an array.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from support.random_documents import SCALARS, value

PATHS = ("$a", "$b", "$_id", "$none")


def expression(seed: random.Random, depth: int = 3) -> Any:
    """An expression of any type."""
    if depth == 0 or seed.random() < 0.15:
        return seed.choice(PATHS) if seed.random() < 0.7 else {"$literal": value(seed, 1)}
    return seed.choice(_KINDS)(seed, depth - 1)


def number(seed: random.Random, depth: int) -> Any:
    """One whose value is a number, or null."""
    if depth == 0 or seed.random() < 0.2:
        path = seed.choice(PATHS)
        return {"$cond": [{"$isNumber": path}, path, seed.choice([0, 1, 2.5, -3, None])]}
    return seed.choice(_NUMBERS)(seed, depth - 1)


def array(seed: random.Random, depth: int) -> Any:
    """One whose value is an array."""
    path = seed.choice(PATHS)
    plain = {"$cond": [{"$isArray": [path]}, path, [seed.choice(SCALARS) for _ in range(seed.randrange(3))]]}
    if depth == 0 or seed.random() < 0.3:
        return plain
    return seed.choice(_ARRAYS)(seed, depth - 1)


def _no_list(given: Any) -> Any:
    return "$a" if isinstance(given, list) else given


def _present(elements: list[Any]) -> list[Any]:
    return [{"$ifNull": [one, None]} for one in elements]


def _pair(seed: random.Random, depth: int) -> list[Any]:
    return [expression(seed, depth), expression(seed, depth)]


def _numbers(seed: random.Random, depth: int) -> list[Any]:
    return [number(seed, depth), number(seed, depth)]


def _switch(seed: random.Random, depth: int) -> Any:
    branches = [{"case": expression(seed, depth), "then": expression(seed, depth)} for _ in range(seed.randrange(1, 3))]
    return {"$ifNull": [{"$switch": {"branches": branches, "default": expression(seed, depth)}}, 0]}


def _let(seed: random.Random, depth: int) -> Any:
    return {"$let": {"vars": {"one": expression(seed, depth)}, "in": _present(["$$one", expression(seed, depth)])}}


_KINDS: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda seed, depth: {seed.choice(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp"]): _pair(seed, depth)},
    lambda seed, depth: {seed.choice(["$and", "$or"]): _pair(seed, depth)},
    lambda seed, depth: {"$not": [_no_list(expression(seed, depth))]},
    lambda seed, depth: {"$cond": [expression(seed, depth), *_pair(seed, depth)]},
    lambda seed, depth: {"$ifNull": _pair(seed, depth)},
    lambda seed, depth: {"$isNumber": [expression(seed, depth)]},
    lambda seed, depth: {"$isArray": [expression(seed, depth)]},
    lambda seed, _: {"$type": [seed.choice(PATHS)]},
    lambda seed, depth: {"k": expression(seed, depth), "l": expression(seed, depth)},
    lambda seed, depth: _present(_pair(seed, depth)),
    _switch,
    _let,
    number,
    number,
    array,
    array,
    lambda seed, depth: {seed.choice(["$min", "$max"]): _pair(seed, depth)},
    lambda seed, depth: {"$toBool": [expression(seed, depth)]},
    lambda seed, depth: {"$convert": {"input": number(seed, depth), "to": "int", "onError": "bad", "onNull": "none"}},
)
_NUMBERS: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda seed, depth: {seed.choice(["$add", "$subtract", "$multiply"]): _numbers(seed, depth)},
    lambda seed, depth: {seed.choice(["$abs", "$ceil", "$floor"]): [number(seed, depth)]},
    lambda seed, depth: {"$divide": [number(seed, depth), seed.choice([1, 2, 0.5])]},
    lambda seed, depth: {"$size": [array(seed, depth)]},
    lambda seed, depth: {"$cmp": _pair(seed, depth)},
    lambda seed, depth: {"$strLenCP": {"$toString": {"$ifNull": [{"$size": [array(seed, depth)]}, 0]}}},
    lambda seed, depth: {seed.choice(["$sum", "$avg"]): [array(seed, depth)]},
)
_ARRAYS: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda seed, depth: {"$concatArrays": [array(seed, depth), array(seed, depth)]},
    lambda seed, depth: {"$reverseArray": [array(seed, depth)]},
    lambda seed, depth: {"$filter": {"input": array(seed, depth), "cond": {"$gt": ["$$this", expression(seed, depth)]}}},
    lambda seed, depth: {"$map": {"input": array(seed, depth), "as": "x", "in": _present(["$$x", expression(seed, depth)])}},
    lambda seed, depth: {"$slice": [array(seed, depth), seed.choice([-2, 1, 2])]},
    lambda seed, depth: {"$setDifference": [array(seed, depth), array(seed, depth)]},
    lambda seed, depth: {"$range": [0, {"$size": [array(seed, depth)]}]},
)
