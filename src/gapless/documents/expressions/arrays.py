"""Expressions of whole arrays: their size, elements by place, parts and order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any

from gapless.documents.expressions.operands import (
    Given,
    Make,
    Parsing,
    function,
    named,
    null_through,
    read_named,
    wrong_call,
    wrong_result,
    wrong_value,
)
from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null, value_key
from gapless.documents.filters.operands import whole
from gapless.documents.filters.paths import is_array
from gapless.documents.find.sort import order_key, parse_sort
from gapless.documents.values.order import MISSING, sort_key

_LONGEST = 1 << 24
"""Elements of an array that `$range` makes at most: no document holds as many."""
_INT32 = 1 << 31


def array_of(operator: str, value: Any) -> Sequence[Any]:
    """A value that is an array. Raises InvalidValue."""
    if not is_array(value):
        raise wrong_value(operator, value, "an array")
    found: Sequence[Any] = value
    return found


def whole_of(operator: str, value: Any) -> int:
    """A value that is a whole number of 32 bits. Raises InvalidValue."""
    found = whole(value)
    if found is None or not -_INT32 <= found < _INT32:
        raise wrong_value(operator, value, "a whole number of 32 bits")
    return found


def _element_at(array: Any, place: Any) -> Any:
    found, at = array_of("$arrayElemAt", array), whole_of("$arrayElemAt", place)
    return found[at] if -len(found) <= at < len(found) else MISSING


def _end(operator: str, at: int) -> Callable[[Any], Any]:
    def found(array: Any) -> Any:
        elements = array_of(operator, array)
        return elements[at] if elements else MISSING

    return found


def _slice(array: Any, *places: Any) -> Any:
    if is_null(array) or any(map(is_null, places)):
        return None
    found = list(array_of("$slice", array))
    if len(places) == 1:
        count = whole_of("$slice", places[0])
        return found[:count] if count >= 0 else found[count:]
    start, count = (whole_of("$slice", one) for one in places)
    if count <= 0:
        raise wrong_result("$slice", count, "With a start it takes at least one element")
    begin = max(0, len(found) + start) if start < 0 else start
    return found[begin : begin + count]


def _concat(*arrays: Any) -> Any:
    found: list[Any] = []
    for one in arrays:
        if is_null(one):
            return None
        found += array_of("$concatArrays", one)
    return found


def _is_in(value: Any, array: Any) -> bool:
    wanted = value_key(value)
    return any(sort_key(one) == wanted for one in array_of("$in", array))


def _index(array: Any, value: Any, start: Any = 0, end: Any = None) -> Any:
    if is_null(array):
        return None
    found, wanted = array_of("$indexOfArray", array), value_key(value)
    first, last = whole_of("$indexOfArray", start), len(found) if end is None else whole_of("$indexOfArray", end)
    if first < 0 or last < 0:
        raise wrong_result("$indexOfArray", [first, last], "Places are at least 0")
    return next((at for at in range(first, min(last, len(found))) if sort_key(found[at]) == wanted), -1)


def _range(start: Any, end: Any, step: Any = 1) -> list[int]:
    first, last, by = (whole_of("$range", one) for one in (start, end, step))
    if by == 0:
        raise wrong_result("$range", by, "A step of 0 comes to no end")
    found = range(first, last, by)
    if len(found) > _LONGEST:
        raise wrong_result("$range", [first, last, by], f"An array has {_LONGEST} elements at most")
    return list(found)


def _zip(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("inputs",), ("useLongestLength", "defaults"))
    longest = operands.get("useLongestLength", False)
    if not isinstance(operands["inputs"], list | tuple) or not operands["inputs"] or not isinstance(longest, bool):
        raise wrong_call(operator, given, "inputs is a list of arrays, useLongestLength true or false", "Pass both so")
    if "defaults" in operands and not longest:
        raise wrong_call(operator, given, "defaults stand where useLongestLength is true", "Say so, or leave them out")
    inputs = [at.read(one) for one in operands["inputs"]]
    defaults = at.read(operands["defaults"]) if "defaults" in operands else Constant([None] * len(inputs))

    def zipped(scope: Scope) -> Any:
        arrays = [one(scope) for one in inputs]
        if any(map(is_null, arrays)):
            return None
        found = [array_of(operator, one) for one in arrays]
        if not longest:
            return [list(one) for one in zip(*found, strict=False)]
        fill = array_of(operator, defaults(scope))
        if len(fill) != len(found):
            raise wrong_result(operator, fill, "There is one default for each array")
        rows = zip_longest(*found, fillvalue=MISSING)
        return [[fill[at] if one is MISSING else one for at, one in enumerate(row)] for row in rows]

    return zipped


def _sorted(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("input", "sortBy"))
    source, by = at.read(operands["input"]), operands["sortBy"]
    if isinstance(by, Mapping):
        order = parse_sort(by)

        def in_order(array: Sequence[Any]) -> list[Any]:
            return sorted(array, key=lambda one: order_key(one if isinstance(one, Mapping) else {}, order))

    elif (way := whole(by)) in (1, -1):

        def in_order(array: Sequence[Any]) -> list[Any]:
            return sorted(array, key=sort_key, reverse=way == -1)

    else:
        raise wrong_call(operator, by, "It is sorted by fields, each up or down, or as it is", "Pass {'a': 1}, 1 or -1")
    return _of_array(operator, source, in_order)


def _of_array(operator: str, source: Evaluate, made: Callable[[Sequence[Any]], Any]) -> Evaluate:
    def found(scope: Scope) -> Any:
        value = source(scope)
        return None if is_null(value) else made(array_of(operator, value))

    return found


def count_of(operator: str, value: Any) -> int:
    """How many elements `$firstN` and its like take. Raises InvalidValue."""
    found = whole(value)
    if found is None or found <= 0:
        raise wrong_value(operator, value, "a whole number from 1")
    return found


def _some(operator: str, taken: Callable[[Sequence[Any], int], list[Any]]) -> Make:
    def made(given: Given) -> list[Any]:
        return taken(array_of(operator, given["input"]), count_of(operator, given["n"]))

    return named(made, ("input", "n"))


def _extreme(array: Sequence[Any], count: int, *, greatest: bool) -> list[Any]:
    found = sorted((one for one in array if one is not None), key=sort_key, reverse=greatest)
    return list(islice(found, count))


ARRAYS: Mapping[str, Make] = {
    "$size": function(lambda value: len(array_of("$size", value)), 1),
    "$isArray": function(is_array, 1),
    "$arrayElemAt": function(null_through(_element_at), 2),
    "$first": function(null_through(_end("$first", 0)), 1),
    "$last": function(null_through(_end("$last", -1)), 1),
    "$slice": function(_slice, 2, 3),
    "$concatArrays": function(_concat, 0, None),
    "$in": function(_is_in, 2),
    "$indexOfArray": function(_index, 2, 4),
    "$range": function(_range, 2, 3),
    "$reverseArray": function(null_through(lambda value: list(reversed(array_of("$reverseArray", value)))), 1),
    "$zip": _zip,
    "$sortArray": _sorted,
    "$firstN": _some("$firstN", lambda array, count: list(array[:count])),
    "$lastN": _some("$lastN", lambda array, count: list(array[-count:])),
    "$maxN": _some("$maxN", lambda array, count: _extreme(array, count, greatest=True)),
    "$minN": _some("$minN", lambda array, count: _extreme(array, count, greatest=False)),
}
