"""Expressions that compare, join truths and choose. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.documents.expressions.operands import Make, Parsing, function, read_named, wrong_call, wrong_result
from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null, is_true, value_key
from gapless.documents.values.order import Key


def _compared(answer: Callable[[Key, Key], Any]) -> Make:
    return function(lambda one, other: answer(value_key(one), value_key(other)), 2)


def _all(operator: str, given: Any, at: Parsing) -> Evaluate:  # noqa: ARG001  # as every `Make`
    parts = _parts(given, at)
    return lambda scope: all(is_true(one(scope)) for one in parts)


def _any(operator: str, given: Any, at: Parsing) -> Evaluate:  # noqa: ARG001  # as every `Make`
    parts = _parts(given, at)
    return lambda scope: any(is_true(one(scope)) for one in parts)


def _parts(given: Any, at: Parsing) -> list[Evaluate]:
    return [at.read(one) for one in (given if isinstance(given, list | tuple) else [given])]


def _cond(operator: str, given: Any, at: Parsing) -> Evaluate:
    if isinstance(given, Mapping):
        operands = read_named(operator, given, ("if", "then", "else"))
        given = [operands["if"], operands["then"], operands["else"]]
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise wrong_call(operator, given, "It takes three operands", "Pass [condition, then, else], or if, then and else")
    test, then, otherwise = (at.read(one) for one in given)
    return lambda scope: then(scope) if is_true(test(scope)) else otherwise(scope)


def _if_null(operator: str, given: Any, at: Parsing) -> Evaluate:
    if not isinstance(given, list | tuple) or len(given) < 2:
        raise wrong_call(operator, given, "It takes at least two operands", "Pass [expression, what stands for null]")
    parts = _parts(given, at)

    def found(scope: Scope) -> Any:
        value: Any = None
        for one in parts:
            value = one(scope)
            if not is_null(value):
                break
        return value

    return found


def _switch(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("branches",), ("default",))
    branches = operands["branches"]
    if not isinstance(branches, list | tuple) or not branches:
        raise wrong_call(operator, given, "branches is a list of at least one", "Pass [{'case': …, 'then': …}]")
    cases = []
    for one in branches:
        named = read_named(operator, one, ("case", "then"))
        cases.append((at.read(named["case"]), at.read(named["then"])))
    default = at.read(operands["default"]) if "default" in operands else None

    def chosen(scope: Scope) -> Any:
        for test, then in cases:
            if is_true(test(scope)):
                return then(scope)
        if default is None:
            raise wrong_result(operator, scope["CURRENT"], "No case is true, and there is no default")
        return default(scope)

    return chosen


def _let(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("vars", "in"))
    variables = parse_variables(operator, operands["vars"], at)
    inner = at.knowing(*variables).read(operands["in"])
    return lambda scope: inner({**scope, **{name: one(scope) for name, one in variables.items()}})


def parse_variables(operator: str, given: Any, at: Parsing) -> dict[str, Evaluate]:
    """The expressions of new variables, by their names. Raises InvalidFilter."""
    if not isinstance(given, Mapping):
        raise wrong_call(operator, given, "Variables are a mapping of names to expressions", "Pass {'name': expression}")
    for name in given:
        check_name(operator, name)
    return {name: at.read(one) for name, one in given.items()}


def check_name(operator: str, name: object) -> str:
    """The name of a new variable. Raises InvalidFilter."""
    if name == "CURRENT":
        return "CURRENT"
    plain = isinstance(name, str) and name and (name[0].islower() or ord(name[0]) > 127)
    if not plain or not all(one.isalnum() or one == "_" or ord(one) > 127 for one in str(name)):
        raise wrong_call(operator, name, "Variables begin with a small letter", "Use letters, digits and _")
    return str(name)


CONDITIONS: Mapping[str, Make] = {
    "$cmp": _compared(lambda one, other: (one > other) - (one < other)),
    "$eq": _compared(lambda one, other: one == other),
    "$ne": _compared(lambda one, other: one != other),
    "$gt": _compared(lambda one, other: one > other),
    "$gte": _compared(lambda one, other: one >= other),
    "$lt": _compared(lambda one, other: one < other),
    "$lte": _compared(lambda one, other: one <= other),
    "$and": _all,
    "$or": _any,
    "$not": function(lambda value: not is_true(value), 1),
    "$cond": _cond,
    "$ifNull": _if_null,
    "$switch": _switch,
    "$let": _let,
    "$literal": lambda operator, given, at: Constant(given),  # noqa: ARG005  # as every `Make`
}
