"""Documents that take the place of others, and those that are added where none matches. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gapless.documents.filters.parse import has_operators
from gapless.documents.filters.tree import Path
from gapless.documents.updates.fields import value_at, write_at
from gapless.documents.values.codec import ID
from gapless.documents.values.order import MISSING, TypeOrder, order_of
from gapless.errors import InvalidOption

Document = dict[str, Any]


def check_replacement(given: object) -> Mapping[str, Any]:
    """A document that may take the place of another. Raises InvalidOption."""
    if not isinstance(given, Mapping):
        what, why = f"a {type(given).__name__} cannot take the place of a document", "It is no mapping"
    elif (name := next((one for one in given if isinstance(one, str) and one.startswith("$")), None)) is not None:
        what, why = f"a replacement with {name} is refused", "Operators change documents; a replacement is a whole one"
    else:
        return given
    raise InvalidOption(what, why=why, fix="Pass a document, or call update_one", option="replacement", value=given)


def replaced(document: Document, replacement: Mapping[str, Any]) -> Document:
    """The replacement, with the `_id` of the document where it says none."""
    return {ID: replacement.get(ID, document[ID]), **{name: value for name, value in replacement.items() if name != ID}}


def seeds(filter: Mapping[str, Any]) -> Document:  # noqa: A002  # as pymongo calls it
    """What a filter says that a document must equal: the fields of one that is added since none matched. Raises InvalidOption.

    >>> seeds({"a.b": 1, "c": {"$gt": 2}, "$and": [{"d": {"$eq": 3}}]})
    {'a': {'b': 1}, 'd': 3}
    """
    found: Document = {}
    for path, value in _equalities(filter):
        above = (value_at(found, path[:end]) for end in range(1, len(path)))
        if value_at(found, path) is not MISSING or not all(one is MISSING or isinstance(one, dict) for one in above):
            raise InvalidOption(
                f"the filter says twice what {'.'.join(path)!r} is",
                why="A document that is to be added where none matches needs one value for it",
                fix="Say it once, or do without upsert",
                option="filter",
                value=filter,
            )
        write_at(found, path, value)
    return found


def _equalities(given: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for name, asked in given.items():
        if name == "$and" or (name == "$or" and len(asked) == 1):
            for one in asked:
                yield from _equalities(one)
        elif not name.startswith("$"):
            path = tuple(name.split("."))
            if not has_operators(asked):
                if order_of(asked) is not TypeOrder.REGEX:
                    yield path, asked
            elif "$eq" in asked:
                yield path, asked["$eq"]
            elif (one := _only(asked)) is not MISSING:
                yield path, one


def _only(asked: Mapping[str, Any]) -> Any:
    """The one value of an `$all` or an `$in`."""
    for name in ("$all", "$in"):
        values = asked.get(name, ())
        if len(values) == 1 and not has_operators(values[0]) and order_of(values[0]) is not TypeOrder.REGEX:
            return values[0]
    return MISSING
