"""Expressions that take arrays for sets: what is equal counts once, and order does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.documents.expressions.arrays import array_of
from gapless.documents.expressions.operands import Make, function, null_through
from gapless.documents.expressions.scope import is_true
from gapless.documents.values.order import Key, sort_key


def _distinct(operator: str, value: Any) -> dict[Key, Any]:
    found: dict[Key, Any] = {}
    for one in array_of(operator, value):
        found.setdefault(sort_key(one), one)
    return found


def _union(*arrays: Any) -> list[Any]:
    found: dict[Key, Any] = {}
    for one in arrays:
        found = {**_distinct("$setUnion", one), **found}
    return [found[key] for key in sorted(found)]


def _intersection(*arrays: Any) -> list[Any]:
    if not arrays:
        return []
    first, *others = (_distinct("$setIntersection", one) for one in arrays)
    return [first[key] for key in sorted(first) if all(key in one for one in others)]


def _difference(one: Any, other: Any) -> list[Any]:
    without = _distinct("$setDifference", other)
    return [value for key, value in _distinct("$setDifference", one).items() if key not in without]


def _equals(*arrays: Any) -> bool:
    first, *others = (_distinct("$setEquals", one).keys() for one in arrays)
    return all(first == one for one in others)


SETS: Mapping[str, Make] = {
    "$setUnion": function(null_through(_union), 0, None),
    "$setIntersection": function(null_through(_intersection), 0, None),
    "$setDifference": function(null_through(_difference), 2),
    "$setEquals": function(_equals, 2, None),
    "$setIsSubset": function(
        lambda one, other: _distinct("$setIsSubset", one).keys() <= _distinct("$setIsSubset", other).keys(), 2
    ),
    "$allElementsTrue": function(lambda value: all(map(is_true, array_of("$allElementsTrue", value))), 1),
    "$anyElementTrue": function(lambda value: any(map(is_true, array_of("$anyElementTrue", value))), 1),
}
