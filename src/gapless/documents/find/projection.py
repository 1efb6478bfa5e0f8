"""Which fields of documents are given, as MongoDB's projections have it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.documents.filters.match import element_meets
from gapless.documents.filters.operands import whole
from gapless.documents.filters.parse import parse_element_test
from gapless.documents.filters.paths import is_array
from gapless.documents.filters.positions import matched_place
from gapless.documents.filters.tree import Condition, ElementIs, ElementMatches, Path
from gapless.documents.values.codec import ID
from gapless.errors import InvalidOption, NotSupported

Document = dict[str, Any]
Shape = Callable[[Document], Document]
_COMPUTED = ("$slice", "$elemMatch")


@dataclass(slots=True)
class _Tree:
    """Fields that are named, by their names; None below a field for all of it."""

    below: dict[str, _Tree | None] = field(default_factory=dict)

    def add(self, path: Path, given: object) -> None:
        """Raises InvalidOption where one path leads through another."""
        at, *rest = path
        if at in self.below and (self.below[at] is None or not rest):
            raise _invalid(".".join(path), given, "It names a field, and one below it or the same again", "Name one of them")
        if not rest:
            self.below[at] = None
            return
        known = self.below.setdefault(at, _Tree())
        assert known is not None
        known.add(tuple(rest), given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A projection that was read."""

    includes: bool
    """Whether the fields named are those that are given, or those that are not."""
    fields: _Tree
    slices: tuple[tuple[Path, int, int | None], ...] = ()
    """Arrays that are cut: where to begin (below 0 from the end), and how many elements."""
    matched: tuple[tuple[str, ElementIs | ElementMatches], ...] = ()
    """Arrays of which the first element that meets a test is given."""
    positional: Path | None = None
    """The array of which the element that the filter found is given."""

    def apply(self, document: Document, condition: Condition | None = None) -> Document:
        """What is given of a document that a condition found. Raises InvalidOption where `a.$` has no element."""
        found = _included(document, self.fields) if self.includes else _excluded(document, self.fields)
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


def parse_projection(given: object) -> Projection | None:
    """What pymongo takes: names, or a mapping of paths to 1, 0, `$slice` or `$elemMatch`; None for whole documents.

    Raises InvalidOption, InvalidFilter, NotSupported for expressions.
    """
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Mapping | Iterable):
        raise _invalid(given, given, "It is no mapping, and no list of names", 'Pass {"name": 1}')
    named: Mapping[Any, Any] = given if isinstance(given, Mapping) else dict.fromkeys(given, 1) or {ID: 1}
    if not named:
        return None
    plain: list[tuple[Path, bool]] = []
    computed: list[tuple[Path, str, Any]] = []
    for path, value in _flattened(named, (), given):
        if isinstance(value, Mapping):
            computed.append((path, *next(iter(value.items()))))
        else:
            plain.append((path, bool(value)))
    return _projection(plain, computed, given)


def _flattened(given: Mapping[Any, Any], above: Path, whole_: object) -> Iterable[tuple[Path, Any]]:
    for name, value in given.items():
        if not isinstance(name, str) or not all(name.split(".")) or name.startswith("$"):
            raise _invalid(name, whole_, "Fields are called by dotted paths", "Pass the path of a field")
        path = (*above, *name.split("."))
        if isinstance(value, Mapping):
            first = next(iter(value), "")
            if isinstance(first, str) and first.startswith("$"):
                if first not in _COMPUTED or len(value) > 1:
                    raise _expression(first)
                yield path, value
            elif value:
                yield from _flattened(value, path, whole_)
            else:
                raise _invalid(name, whole_, "An empty mapping says nothing", "Pass 1 or 0")
        elif isinstance(value, bool) or whole(value) is not None or isinstance(value, float):
            yield path, value
        else:
            raise _expression(value)


def _expression(found: object) -> NotSupported:
    return NotSupported(
        f"{found!r} is not supported in a projection",
        why="Expressions are not built yet",
        fix="Use 1, 0, $slice and $elemMatch",
        feature=found if isinstance(found, str) and found.startswith("$") else "expressions in projections",
    )


def _projection(plain: list[tuple[Path, bool]], computed: list[tuple[Path, str, Any]], given: object) -> Projection:
    others = [(path, way) for path, way in plain if path != (ID,)]
    of_id = next((way for path, way in plain if path == (ID,)), None)
    matched = [(path, value) for path, name, value in computed if name == "$elemMatch"]
    slices = [(path, *_slice(value, given)) for path, name, value in computed if name == "$slice"]
    if len({way for _, way in others}) > 1:
        raise _invalid(
            "both 1 and 0", given, "It names fields to give and others to leave out, which only _id may", "Use one of them"
        )
    includes = others[0][1] if others else bool(matched) or (bool(of_id) and not slices)
    if matched and not includes and others:
        raise _invalid("$elemMatch with 0", given, "An $elemMatch gives nothing but what is named", "Name the fields to give")
    tree = _Tree()
    found = [path for path, _ in others if path[-1] == "$"]
    if len(found) > 1 or (found and not includes):
        raise _invalid(".".join(found[0]), given, "One array may be cut to the element found, and is given then", "Name one")
    positional = found[0][:-1] if found else None
    for path, _ in others:
        _add(tree, path[:-1] if path[-1] == "$" else path, given)
    for path, *_ in slices:
        if includes:
            tree.add(path, given)
    if includes:
        for path, _ in matched:
            if len(path) > 1:
                raise _invalid(".".join(path), given, "$elemMatch is of top-level fields", "Name a top-level field")
            tree.add(path, given)
        if of_id is not False:
            tree.below.setdefault(ID, None)
    elif of_id is False:
        tree.add((ID,), given)
    tests = tuple((path[0], parse_element_test(value)) for path, value in matched)
    return Projection(includes=includes, fields=tree, slices=tuple(slices), matched=tests, positional=positional)


def _add(tree: _Tree, path: Path, given: object) -> None:
    if "$" in path or not path:
        raise _invalid(".".join(path), given, "$ comes last in a path", "End the path with the array and $")
    tree.add(path, given)


def _slice(value: Any, given: object) -> tuple[int, int | None]:
    count = whole(value)
    if count is not None:
        return (0, count) if count >= 0 else (count, None)
    pair = [whole(one) for one in value] if isinstance(value, list | tuple) and len(value) == 2 else []
    if len(pair) == 2 and pair[0] is not None and pair[1] is not None and pair[1] > 0:
        return pair[0], pair[1]
    raise _invalid(
        f"$slice: {value!r}", given, "It takes a number, or a start and a number above 0", 'Pass {"$slice": [10, 5]}'
    )


def _cut(array: list[Any], start: int, count: int | None) -> list[Any]:
    begin = max(0, len(array) + start) if start < 0 else start
    return array[begin:] if count is None else array[begin : begin + count]


def _included(document: Mapping[str, Any], tree: _Tree) -> Document:
    found = {}
    for name, value in document.items():
        if name not in tree.below:
            continue
        below = tree.below[name]
        if below is None:
            found[name] = value
        elif isinstance(value, Mapping):
            found[name] = _included(value, below)
        elif is_array(value):
            found[name] = _included_elements(value, below)
    return found


def _included_elements(array: Iterable[Any], tree: _Tree) -> list[Any]:
    found: list[Any] = []
    for one in array:
        if isinstance(one, Mapping):
            found.append(_included(one, tree))
        elif is_array(one):
            found.append(_included_elements(one, tree))
    return found


def _excluded(value: Any, tree: _Tree) -> Any:
    if is_array(value):
        return [_excluded(one, tree) for one in value]
    if not isinstance(value, Mapping):
        return value
    found = {}
    for name, one in value.items():
        below = tree.below.get(name, _NONE)
        if below is _NONE:
            found[name] = one
        elif isinstance(below, _Tree):
            found[name] = _excluded(one, below)
    return found


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
        raise _invalid("$", None, "The filter found no element of the array", "Ask for the array in the filter")
    return place


def _invalid(what: object, given: object, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"{what} cannot be in a projection", why=why, fix=fix, option="projection", value=given)
