"""Fields of documents by a tree of their names: given, left out or computed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.documents.expressions.scope import Evaluate, Scope
from gapless.documents.filters.paths import is_array
from gapless.documents.filters.tree import Path
from gapless.documents.values.order import MISSING
from gapless.errors import InvalidOption

Document = dict[str, Any]


@dataclass(slots=True)
class Fields:
    """Fields that are named, by their names: those below one, None for all of it, or the expression that it becomes."""

    below: dict[str, Fields | Evaluate | None] = field(default_factory=dict)
    computes: bool = False
    """Whether an expression is in it."""

    def add(self, path: Path, leaf: Evaluate | None, given: object) -> None:
        """Name a field. Raises InvalidOption where one path leads through another."""
        at, *rest = path
        self.computes = self.computes or leaf is not None
        known = self.below.get(at)
        if at in self.below and not (rest and isinstance(known, Fields)):
            raise wrong_projection(
                ".".join(path), given, "It names a field, and one below it or the same again", "Name one of them"
            )
        if not rest:
            self.below[at] = leaf
            return
        if not isinstance(known, Fields):
            known = self.below[at] = Fields()
        known.add(tuple(rest), leaf, given)


def included(document: Mapping[str, Any], fields: Fields) -> Document:
    """What a document has of some fields; those that are computed are left out."""
    found: Document = {}
    for name, value in document.items():
        below = fields.below.get(name, _NOT_NAMED)
        if below is None:
            found[name] = value
        elif not isinstance(below, Fields):
            continue
        elif isinstance(value, Mapping):
            found[name] = included(value, below)
        elif is_array(value):
            found[name] = _included_elements(value, below)
    return found


def _included_elements(array: Iterable[Any], fields: Fields) -> list[Any]:
    found: list[Any] = []
    for one in array:
        if isinstance(one, Mapping):
            found.append(included(one, fields))
        elif is_array(one):
            found.append(_included_elements(one, fields))
    return found


def excluded(value: Any, fields: Fields) -> Any:
    """A value without some fields, in all elements of arrays."""
    if is_array(value):
        return [excluded(one, fields) for one in value]
    if not isinstance(value, Mapping):
        return value
    found = {}
    for name, one in value.items():
        below = fields.below.get(name, _NOT_NAMED)
        if below is _NOT_NAMED:
            found[name] = one
        elif isinstance(below, Fields):
            found[name] = excluded(one, below)
    return found


def computed(value: Any, fields: Fields, scope: Scope) -> Any:
    """A value with the fields that are computed, in all elements of arrays; what has no fields becomes a document."""
    if is_array(value):
        return [computed(one, fields, scope) for one in value]
    found = dict(value) if isinstance(value, Mapping) else {}
    for name, below in fields.below.items():
        if below is None:
            continue
        if not isinstance(below, Fields):
            made = below(scope)
        elif below.computes:
            made = computed(found.get(name, MISSING), below, scope)
        else:
            continue
        if made is MISSING:
            found.pop(name, None)
        else:
            found[name] = made
    return found


def wrong_projection(what: object, given: object, why: str, fix: str) -> InvalidOption:
    """The error for fields that cannot be asked for so."""
    return InvalidOption(f"{what} cannot be in a projection", why=why, fix=fix, option="projection", value=given)


def _nothing(scope: Scope) -> Any:  # noqa: ARG001  # as every expression
    return MISSING


_NOT_NAMED: Evaluate = _nothing
