"""Expressions of documents: their fields by name, and documents as arrays of pairs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.documents.expressions.arrays import array_of
from gapless.documents.expressions.operands import (
    Make,
    Parsing,
    constant_text,
    function,
    null_through,
    read_named,
    wrong_result,
    wrong_value,
)
from gapless.documents.expressions.scope import CURRENT, Evaluate, FieldPath, Scope, is_null
from gapless.documents.values.order import MISSING


def document_of(operator: str, value: Any) -> Mapping[str, Any]:
    """A value that is a document. Raises InvalidValue."""
    if not isinstance(value, Mapping):
        raise wrong_value(operator, value, "a document")
    return value


def _get(operator: str, given: Any, at: Parsing) -> Evaluate:
    by_name = isinstance(given, Mapping) and "field" in given
    operands = read_named(operator, given, ("field",), ("input",)) if by_name else {"field": given}
    name = constant_text(operator, "field", operands["field"])
    source = at.read(operands["input"]) if "input" in operands else FieldPath(CURRENT, ())

    def found(scope: Scope) -> Any:
        value = source(scope)
        if value is None:
            return None
        return value.get(name, MISSING) if isinstance(value, Mapping) else MISSING

    return found


def _set(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("field", "input", "value"))
    name = constant_text(operator, "field", operands["field"])
    return _with(operator, name, at.read(operands["input"]), at.read(operands["value"]))


def _unset(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("field", "input"))
    name = constant_text(operator, "field", operands["field"])
    return _with(operator, name, at.read(operands["input"]), lambda _: MISSING)


def _with(operator: str, name: str, source: Evaluate, value: Evaluate) -> Evaluate:
    def made(scope: Scope) -> Any:
        document = source(scope)
        if is_null(document):
            return None
        found = {**document_of(operator, document), name: value(scope)}
        if found[name] is MISSING:
            del found[name]
        return found

    return made


def _pairs(value: Any) -> list[dict[str, Any]]:
    return [{"k": name, "v": one} for name, one in document_of("$objectToArray", value).items()]


def _from_pairs(value: Any) -> dict[str, Any]:
    operator, found = "$arrayToObject", dict[str, Any]()
    for one in array_of(operator, value):
        if isinstance(one, Mapping):
            if set(one) != {"k", "v"}:
                raise wrong_result(operator, one, "A document in it has the fields k and v")
            name, under = one["k"], one["v"]
        else:
            pair = array_of(operator, one)
            if len(pair) != 2:
                raise wrong_result(operator, one, "An array in it has two elements, a name and a value")
            name, under = pair
        if not isinstance(name, str) or "\0" in name:
            raise wrong_value(operator, name, "a text as a name")
        found[name] = under
    return found


OBJECTS: Mapping[str, Make] = {
    "$getField": _get,
    "$setField": _set,
    "$unsetField": _unset,
    "$objectToArray": function(null_through(_pairs), 1),
    "$arrayToObject": function(null_through(_from_pairs), 1),
}
