"""Values at concrete paths of one document: read, written and removed as updates do it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.documents.filters.tree import Path
from gapless.documents.values.order import MISSING
from gapless.errors import InvalidValue

_LONGEST = 1_500_000
"""Elements by which an array may grow to reach a place, as MongoDB has it."""


def value_at(document: Any, path: Path) -> Any:
    """What lies there; numbers are places in arrays. MISSING where nothing does."""
    value = document
    for name in path:
        if isinstance(value, Mapping):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


def write_at(document: Any, path: Path, value: Any) -> None:
    """Put a value there; documents on the way are made, arrays are filled up with null. Raises InvalidValue where a scalar is in the way."""
    at = document
    for depth, name in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(at, dict):
            at[name] = value if last else at.get(name, MISSING)
            if at[name] is MISSING:
                at[name] = {}
            at = at[name]
        elif isinstance(at, list) and name.isdigit():
            place = int(name)
            if place - len(at) > _LONGEST:
                raise not_viable(path, at, "An array does not grow by so many elements at once")
            fresh = place >= len(at)
            at.extend([None] * (place + 1 - len(at)))
            if last:
                at[place] = value
            elif fresh:
                at[place] = {}
            at = at[place]
        else:
            raise not_viable(
                path, at, f"{'.'.join(path[:depth])!r} is neither a document nor an array that has a field {name!r}"
            )


def remove_at(document: Any, path: Path) -> None:
    """Take away what lies there; an element of an array becomes null."""
    holder = value_at(document, path[:-1])
    name = path[-1]
    if isinstance(holder, dict):
        holder.pop(name, None)
    elif isinstance(holder, list) and name.isdigit() and int(name) < len(holder):
        holder[int(name)] = None


def not_viable(path: Path, value: object, why: str) -> InvalidValue:
    """The error for a document that has no such place."""
    text = ".".join(path)
    return InvalidValue(
        f"there is no place {text!r} in a document to be changed",
        why=f"{why}; nothing was changed",
        fix="Set the field itself, or leave out the document in the filter",
        column=text,
        row=0,
        value=value,
    )


def wrong_type(operator: str, path: Path, value: object, wanted: str) -> InvalidValue:
    """The error for a value that an operator does not work on."""
    text = ".".join(path)
    return InvalidValue(
        f"{operator} does not take {text!r} of a document, which is {value!r:.80}",
        why=f"It works on {wanted}; nothing was changed",
        fix=f"Leave such documents out in the filter, or $set {text!r} first",
        column=text,
        row=0,
        value=value,
    )
