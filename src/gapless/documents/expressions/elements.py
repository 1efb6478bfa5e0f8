"""Expressions that go through the elements of an array: `$filter`, `$map` and `$reduce`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from gapless.documents.expressions.arrays import array_of, count_of
from gapless.documents.expressions.conditions import check_name
from gapless.documents.expressions.operands import Make, Parsing, read_named
from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null, is_true
from gapless.documents.values.order import MISSING

_THIS, _VALUE = "this", "value"


def _filter(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("input", "cond"), ("as", "limit"))
    name = check_name(operator, operands.get("as", _THIS))
    source, test = at.read(operands["input"]), at.knowing(name).read(operands["cond"])
    limit = at.read(operands["limit"]) if "limit" in operands else Constant(None)

    def kept(scope: Scope) -> Any:
        array = source(scope)
        if is_null(array):
            return None
        most = limit(scope)
        found = (one for one in array_of(operator, array) if is_true(test({**scope, name: one})))
        return list(found if is_null(most) else islice(found, count_of(operator, most)))

    return kept


def _map(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("input", "in"), ("as",))
    name = check_name(operator, operands.get("as", _THIS))
    source, made = at.read(operands["input"]), at.knowing(name).read(operands["in"])

    def mapped(scope: Scope) -> Any:
        array = source(scope)
        if is_null(array):
            return None
        found: Iterator[Any] = (made({**scope, name: one}) for one in array_of(operator, array))
        return [None if one is MISSING else one for one in found]

    return mapped


def _reduce(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("input", "initialValue", "in"))
    source, initial = at.read(operands["input"]), at.read(operands["initialValue"])
    made = at.knowing(_THIS, _VALUE).read(operands["in"])

    def reduced(scope: Scope) -> Any:
        array = source(scope)
        if is_null(array):
            return None
        value = initial(scope)
        for one in array_of(operator, array):
            value = made({**scope, _THIS: one, _VALUE: value})
        return value

    return reduced


ELEMENTS: Mapping[str, Make] = {"$filter": _filter, "$map": _map, "$reduce": _reduce}
