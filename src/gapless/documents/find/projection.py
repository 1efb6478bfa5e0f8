"""Which fields of documents are given, as MongoDB's projections have it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gapless.documents.expressions.parse import parse_expression
from gapless.documents.expressions.scope import NO_VARIABLES, Evaluate, Scope, is_true, scope_of
from gapless.documents.filters.match import element_meets
from gapless.documents.filters.operands import whole
from gapless.documents.filters.parse import parse_element_test
from gapless.documents.filters.paths import is_array
from gapless.documents.filters.positions import matched_place
from gapless.documents.filters.tree import Condition, ElementIs, ElementMatches, Path
from gapless.documents.find.fields import Document, Fields, computed, excluded, included, wrong_projection
from gapless.documents.values.codec import ID
from gapless.documents.values.numbers import is_number

Shape = Callable[[Document], Document]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A projection that was read."""

    includes: bool
    """Whether the fields named are those that are given, or those that are not."""
    fields: Fields
    slices: tuple[tuple[Path, int, int | None], ...] = ()
    """Arrays that are cut: where to begin (below 0 from the end), and how many elements."""
    matched: tuple[tuple[str, ElementIs | ElementMatches], ...] = ()
    """Arrays of which the first element that meets a test is given."""
    positional: Path | None = None
    """The array of which the element that the filter found is given."""

    def apply(self, document: Document, condition: Condition | None = None, variables: Scope = NO_VARIABLES) -> Document:
        """What is given of a document that a condition found; `variables` are those of expressions.

        Raises InvalidOption where `a.$` has no element, InvalidValue where an expression has no answer.
        """
        found: Document = included(document, self.fields) if self.includes else excluded(document, self.fields)
        if self.fields.computes:
            found = computed(found, self.fields, scope_of(document, variables))
        for path, start, count in self.slices:
            _each(found, path, lambda array, start=start, count=count: _cut(array, start, count))  # type: ignore[misc]
        for name, test in self.matched:
            found.pop(name, None)
            array = document.get(name)
            hit = next((one for one in array if element_meets(test, one)), _NONE) if is_array(array) else _NONE  # type: ignore[union-attr]
            if hit is not _NONE:
                found[name] = [hit]
        if self.positional is not None:
            place = None if condition is None else matched_place(condition, document)
            _each(found, self.positional, lambda array: [] if not array else [array[_checked(place, array)]])
        return found


_NONE = object()


def parse_projection(
    given: object, *, now: datetime | None = None, names: frozenset[str] = frozenset(), finds: bool = True
) -> Projection | None:
    """What pymongo takes: names, or a mapping of paths to 1, 0, an expression, `$slice` or `$elemMatch`; None for whole documents.

    Args:
        given: The projection.
        now: See `parse_expression`, as for `names`.
        names: The variables of expressions.
        finds: Whether it is that of `find`: `$slice`, `$elemMatch` and `a.$` are of arrays then, and not expressions.

    Raises InvalidOption, InvalidFilter, NotSupported.
    """
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Mapping | Iterable):
        raise wrong_projection(given, given, "It is no mapping, and no list of names", 'Pass {"name": 1}')
    named: Mapping[Any, Any] = given if isinstance(given, Mapping) else dict.fromkeys(given, 1) or {ID: 1}
    if not named:
        return None
    parts = _Parts()
    for path, value in flattened(named, (), given):
        if isinstance(value, bool) or is_number(value):
            parts.plain.append((path, is_true(value)))
        elif finds and _is_of_arrays(value):
            parts.of_arrays.append((path, *next(iter(value.items()))))
        else:
            if "$" in path:
                raise wrong_projection(".".join(path), given, "$ is of an array that is given", "Say 1, or leave out the $")
            parts.expressions.append((path, parse_expression(value, now=now, names=names)))
    if not finds and any("$" in path for path, _ in parts.plain):
        raise wrong_projection("$", given, "$ is of an array that find found", "Use $filter")
    return _projection(parts, given)


@dataclass(slots=True)
class _Parts:
    """What a projection says, by its kinds."""

    plain: list[tuple[Path, bool]] = field(default_factory=list)
    of_arrays: list[tuple[Path, str, Any]] = field(default_factory=list)
    expressions: list[tuple[Path, Evaluate]] = field(default_factory=list)


def _is_of_arrays(value: Any) -> bool:
    """Whether it is a `$slice` or an `$elemMatch` of what is found, and no expression."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    ((name, operand),) = value.items()
    expression = isinstance(operand, list | tuple) and len(operand) > 0 and not is_number(operand[0])
    return name == "$elemMatch" or (name == "$slice" and not expression)


def flattened(given: Mapping[Any, Any], above: Path, whole_: object, *, empty: bool = False) -> Iterable[tuple[Path, Any]]:
    """The paths that a mapping names, those of mappings in it too, with what is said of each; `empty` ones are values or no projection.

    Raises InvalidOption.
    """
    for name, value in given.items():
        if not isinstance(name, str) or not all(name.split(".")) or name.startswith("$"):
            raise wrong_projection(name, whole_, "Fields are called by dotted paths", "Pass the path of a field")
        path = (*above, *name.split("."))
        if isinstance(value, Mapping) and not any(isinstance(one, str) and one.startswith("$") for one in value):
            if value:
                yield from flattened(value, path, whole_, empty=empty)
            elif empty:
                yield path, value
            else:
                raise wrong_projection(name, whole_, "An empty mapping says nothing", "Pass 1 or 0")
        else:
            yield path, value


def _projection(parts: _Parts, given: object) -> Projection:
    others = [(path, way) for path, way in parts.plain if path != (ID,)]
    of_id = next((way for path, way in parts.plain if path == (ID,)), None)
    matched = [(path, value) for path, name, value in parts.of_arrays if name == "$elemMatch"]
    if (deep := next((path for path, _ in matched if len(path) > 1), None)) is not None:
        raise wrong_projection(".".join(deep), given, "$elemMatch is of top-level fields", "Name a top-level field")
    slices = [(path, *_slice(value, given)) for path, name, value in parts.of_arrays if name == "$slice"]
    if len({way for _, way in others}) > 1:
        raise wrong_projection(
            "both 1 and 0", given, "It names fields to give and others to leave out, which only _id may", "Use one of them"
        )
    includes = others[0][1] if others else bool(matched or parts.expressions) or (bool(of_id) and not slices)
    if parts.expressions and not includes:
        raise wrong_projection("an expression with 0", given, "It gives nothing but what is named", "Name the fields to give")
    if matched and not includes and others:
        raise wrong_projection(
            "$elemMatch with 0", given, "An $elemMatch gives nothing but what is named", "Name the fields to give"
        )
    found = [path for path, _ in others if path[-1] == "$"]
    if len(found) > 1 or (found and not includes):
        raise wrong_projection(
            ".".join(found[0]), given, "One array may be cut to the element found, and is given then", "Name one"
        )
    positional = found[0][:-1] if found else None
    fields = _fields([path for path, _ in others], given)
    if includes:
        for path, expression in parts.expressions:
            fields.add(path, expression, given)
        for path in [path for path, *_ in slices] + [path for path, _ in matched]:
            fields.add(path, None, given)
        if of_id is not False:
            fields.below.setdefault(ID, None)
    elif of_id is False:
        fields.add((ID,), None, given)
    tests = tuple((path[0], parse_element_test(value)) for path, value in matched)
    return Projection(includes=includes, fields=fields, slices=tuple(slices), matched=tests, positional=positional)


def _fields(named: Iterable[Path], given: object) -> Fields:
    fields = Fields()
    for one in named:
        path = one[:-1] if one[-1] == "$" else one
        if "$" in path or not path:
            raise wrong_projection(".".join(path), given, "$ comes last in a path", "End the path with the array and $")
        fields.add(path, None, given)
    return fields


def _slice(value: Any, given: object) -> tuple[int, int | None]:
    count = whole(value)
    if count is not None:
        return (0, count) if count >= 0 else (count, None)
    pair = [whole(one) for one in value] if isinstance(value, list | tuple) and len(value) == 2 else []
    if len(pair) == 2 and pair[0] is not None and pair[1] is not None and pair[1] > 0:
        return pair[0], pair[1]
    raise wrong_projection(
        f"$slice: {value!r}", given, "It takes a number, or a start and a number above 0", 'Pass {"$slice": [10, 5]}'
    )


def _cut(array: list[Any], start: int, count: int | None) -> list[Any]:
    begin = max(0, len(array) + start) if start < 0 else start
    return array[begin:] if count is None else array[begin : begin + count]


def _each(document: Any, path: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the arrays at a path, in place."""
    if is_array(document):
        for one in document:
            _each(one, path, change)
        return
    if not isinstance(document, dict) or path[0] not in document:
        return
    if len(path) > 1:
        _each(document[path[0]], path[1:], change)
    elif is_array(document[path[0]]):
        document[path[0]] = change(document[path[0]])


def _checked(place: int | None, array: list[Any]) -> int:
    if place is None or place >= len(array):
        raise wrong_projection("$", None, "The filter found no element of the array", "Ask for the array in the filter")
    return place
