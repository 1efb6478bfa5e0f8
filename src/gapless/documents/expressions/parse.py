"""Expressions as users write them, read into functions. Pure.

An operator that is not known is an error wherever it stands, before any document is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gapless.documents.expressions.accumulated import ACCUMULATED
from gapless.documents.expressions.arithmetic import ARITHMETIC
from gapless.documents.expressions.arrays import ARRAYS
from gapless.documents.expressions.bits import BITS
from gapless.documents.expressions.conditions import CONDITIONS
from gapless.documents.expressions.convert import CONVERSIONS
from gapless.documents.expressions.date_parts import DATE_PARTS
from gapless.documents.expressions.date_steps import DATE_STEPS
from gapless.documents.expressions.date_texts import DATE_TEXTS
from gapless.documents.expressions.elements import ELEMENTS
from gapless.documents.expressions.objects import OBJECTS
from gapless.documents.expressions.operands import Make, Parsing, wrong_call
from gapless.documents.expressions.patterns import PATTERNS
from gapless.documents.expressions.scope import CURRENT, ROOT, Constant, Evaluate, FieldPath, Scope
from gapless.documents.expressions.sets import SETS
from gapless.documents.expressions.strings import STRINGS
from gapless.documents.values.order import MISSING, sort_key
from gapless.errors import InvalidFilter, NotSupported, nearest

_DEEPEST = 180
"""Levels of nesting; BSON itself has 200 at most."""


def parse_expression(given: Any, *, now: datetime | None = None, names: frozenset[str] = frozenset()) -> Evaluate:
    """The function that an expression is.

    Args:
        given: As MongoDB takes it: `"$a.b"`, `"$$ROOT"`, `{"$add": ["$a", 1]}`, a document or an array of expressions, or a value.
        now: What `$$NOW` is; without it there is none.
        names: The variables that its scopes have beside `ROOT` and `CURRENT`.

    Raises InvalidFilter for an operator or a variable that is not known, and operands that an operator does not take; NotSupported for what
    MongoDB has and this release has not; InvalidValue.

    >>> from gapless.documents.expressions.scope import scope_of
    >>> parse_expression({"$multiply": ["$price", 2]})(scope_of({"price": 4}))
    8
    """
    return _read(given, Parsing(reader=_read, now=now, names=names))


def parse_path(given: object) -> FieldPath | None:
    """The path that `"$a.b"` names; None for other expressions. Raises InvalidFilter."""
    if not isinstance(given, str) or not given.startswith("$") or given.startswith("$$"):
        return None
    found = _path(given, Parsing(reader=_read))
    assert isinstance(found, FieldPath)
    return found


def _read(given: Any, at: Parsing) -> Evaluate:
    if at.depth > _DEEPEST:
        raise wrong_call("an expression", "one so deep", f"It has more than {_DEEPEST} levels", "Say it with fewer levels")
    if isinstance(given, str) and given.startswith("$"):
        return _path(given, at)
    if isinstance(given, Mapping):
        return _operator_or_object(given, at)
    if isinstance(given, list | tuple):
        return _array([at.read(one) for one in given])
    sort_key(given)
    return Constant(given)


def _path(given: str, at: Parsing) -> Evaluate:
    variable, *path = given[2:].split(".") if given.startswith("$$") else [CURRENT, *given[1:].split(".")]
    if not all(path) or not variable:
        raise wrong_call("a path", given, "A part of it has no name", "Name each part: '$a.b'")
    if variable in (ROOT, CURRENT) or variable in at.names:
        return FieldPath(variable, tuple(path))
    if variable == "REMOVE" and not path:
        return Constant(MISSING)
    if variable == "NOW" and at.now is not None:
        return FieldPath(variable, tuple(path)) if path else Constant(at.now)
    if variable in _VARIABLES_NOT_BUILT:
        raise NotSupported(
            f"$${variable} is not supported",
            why=_VARIABLES_NOT_BUILT[variable],
            fix="Pass the value itself",
            feature=f"$${variable}",
        )
    known = [f"$${one}" for one in (ROOT, CURRENT, "REMOVE", "NOW", *at.names)]
    raise InvalidFilter(
        f"$${variable} is no variable", why=f"Here are {', '.join(known)}", fix=nearest(f"$${variable}", known), where=given
    )


_VARIABLES_NOT_BUILT: Mapping[str, str] = {
    "NOW": "A pure function has no clock",
    "CLUSTER_TIME": "There is no cluster",
    "SEARCH_META": "There is no full-text index",
    "USER_ROLES": "There are no users",
    "JS_SCOPE": "It runs JavaScript",
    "IS_MR": "It runs JavaScript",
}


def _operator_or_object(given: Mapping[Any, Any], at: Parsing) -> Evaluate:
    operator = next((name for name in given if isinstance(name, str) and name.startswith("$")), None)
    if operator is None:
        return _object(given, at)
    if len(given) > 1:
        raise wrong_call(
            "an expression", dict(given), f"{operator} stands beside other names", "Give each operator a document of its own"
        )
    make = OPERATORS.get(operator)
    if make is None:
        raise unknown_expression(operator)
    return make(operator, given[operator], at)


def unknown_expression(operator: str) -> InvalidFilter | NotSupported:
    """The error for an operator that there is not."""
    if operator in _NOT_BUILT:
        return NotSupported(
            f"{operator} is not supported in expressions",
            why=_NOT_BUILT[operator],
            fix="Use others, which docs/howto/documents.md lists, or compute it after reading",
            feature=operator,
        )
    return InvalidFilter(
        f"{operator} is no expression",
        why="MongoDB has no operator of that name; no document was looked at",
        fix=nearest(operator, OPERATORS),
        where=operator,
    )


def _object(given: Mapping[Any, Any], at: Parsing) -> Evaluate:
    for name in given:
        if not isinstance(name, str) or "." in name:
            raise wrong_call(
                "an expression", name, "Fields of a document are called by texts without a dot", "Nest documents instead"
            )
    fields = {name: at.read(one) for name, one in given.items()}
    if all(isinstance(one, Constant) and one.value is not MISSING for one in fields.values()):
        return Constant({name: one.value for name, one in fields.items() if isinstance(one, Constant)})

    def made(scope: Scope) -> dict[str, Any]:
        found = ((name, one(scope)) for name, one in fields.items())
        return {name: value for name, value in found if value is not MISSING}

    return made


def _array(elements: list[Evaluate]) -> Evaluate:
    if all(isinstance(one, Constant) for one in elements):
        return Constant([None if one.value is MISSING else one.value for one in elements if isinstance(one, Constant)])

    def made(scope: Scope) -> list[Any]:
        found = (one(scope) for one in elements)
        return [None if value is MISSING else value for value in found]

    return made


OPERATORS: Mapping[str, Make] = {
    **CONDITIONS,
    **ARITHMETIC,
    **STRINGS,
    **PATTERNS,
    **ARRAYS,
    **ELEMENTS,
    **SETS,
    **OBJECTS,
    **CONVERSIONS,
    **DATE_PARTS,
    **DATE_STEPS,
    **DATE_TEXTS,
    **BITS,
    **ACCUMULATED,
}
_NOT_BUILT: Mapping[str, str] = {
    **dict.fromkeys(("$function", "$accumulator", "$where"), "It runs JavaScript"),
    **dict.fromkeys(("$rand", "$sampleRate"), "The same pipeline would find other documents each time"),
    "$meta": "There is no full-text index",
    **dict.fromkeys(
        (
            "$sin", "$cos", "$tan", "$asin", "$acos", "$atan", "$atan2", "$sinh", "$cosh", "$tanh", "$asinh", "$acosh", "$atanh",
            "$degreesToRadians", "$radiansToDegrees", "$sigmoid",
            "$toHashedIndexKey", "$toUUID", "$toArray", "$toObject", "$median", "$percentile",
            "$createObjectId", "$subtype", "$encStrStartsWith",
        ),
        "It is not built",
    ),
}  # fmt: skip
