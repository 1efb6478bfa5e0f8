"""What an expression is evaluated in, and what it takes for true, null and equal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gapless.documents.values.order import MISSING, Key, sort_key

Path = tuple[str, ...]
Scope = Mapping[str, Any]
"""Variables by their names: `ROOT`, `CURRENT`, and those of `$let` and its like."""
Evaluate = Callable[[Scope], Any]
"""An expression that was parsed; MISSING where nothing lies at a path. It raises InvalidValue for values that it does not take."""
ROOT, CURRENT = "ROOT", "CURRENT"
NO_VARIABLES: Scope = {}
_FALSE = (sort_key(0),)
_MISSING: Key = (0,)


def scope_of(document: Any, variables: Scope = NO_VARIABLES) -> Scope:
    """The variables of one document."""
    return {**variables, ROOT: document, CURRENT: document}


def value_key(value: Any) -> Key:
    """What expressions tell values apart and sort them by: a missing one comes before null."""
    return _MISSING if value is MISSING else sort_key(value)


def is_null(value: Any) -> bool:
    """Whether a value is null or missing."""
    return value is None or value is MISSING


def is_true(value: Any) -> bool:
    """Whether a value counts as true: all do but false, null, a missing value and a number that is 0.

    >>> is_true(""), is_true([]), is_true(0.0), is_true(float("nan"))
    (True, True, False, True)
    """
    if value is True or value is False:
        return bool(value)
    return not is_null(value) and sort_key(value) not in _FALSE


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same for every document."""

    value: Any

    def __call__(self, scope: Scope) -> Any:  # noqa: ARG002  # as every expression
        """See `Evaluate`."""
        return self.value


@dataclass(frozen=True, slots=True)
class FieldPath:
    """What lies at a path below a variable; of arrays on the way, what lies there in their documents."""

    variable: str
    path: Path

    def __call__(self, scope: Scope) -> Any:
        """See `Evaluate`."""
        value = scope[self.variable]
        for depth, name in enumerate(self.path):
            # What is neither a plain document nor the last is rare.
            if type(value) is not dict:
                return at_path(value, self.path[depth:])
            value = value.get(name, MISSING)
        return value


def at_path(value: Any, path: Path) -> Any:
    """What lies at a path; numbers in it are names of fields.

    >>> at_path({"a": [{"b": 1}, {}, 5, {"b": [2]}]}, ("a", "b"))
    [1, [2]]
    """
    for depth, name in enumerate(path):
        if isinstance(value, Mapping):
            value = value.get(name, MISSING)
        elif isinstance(value, list | tuple):
            rest = path[depth:]
            found = (at_path(one, rest) for one in value if isinstance(one, Mapping))
            return [one for one in found if one is not MISSING]
        else:
            return MISSING
    return value
