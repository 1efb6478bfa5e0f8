"""Updates: operators read into values before any document is looked at, and what they make of one. Pure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bson.int64 import Int64
from bson.timestamp import Timestamp

from gapless.documents.aggregation.changes import changed, check_changes
from gapless.documents.aggregation.parse import parse_pipeline
from gapless.documents.aggregation.stages import Stages
from gapless.documents.filters.positions import matched_place
from gapless.documents.filters.tree import Condition, Path
from gapless.documents.updates.arrays import AddToSet, ArrayChange, Pop, Pull, PullAll, Push, invalid
from gapless.documents.updates.fields import not_viable, remove_at, value_at, write_at, wrong_type
from gapless.documents.updates.positions import EVERY, ArrayFilters, Elements, parse_array_filters
from gapless.documents.values.dates import date_of_ns
from gapless.documents.values.numbers import add, is_number, multiply, whole_number
from gapless.documents.values.order import MISSING, sort_key
from gapless.errors import InvalidOption, nearest
from gapless.model.instant import NS_PER

Document = dict[str, Any]
Act = Callable[[Document, Path], None]
"""Changes a document in place, at a path without positional parts."""
OPERATORS = (
    "$set", "$unset", "$inc", "$mul", "$min", "$max", "$rename", "$currentDate", "$setOnInsert", "$push", "$addToSet", "$pop", "$pull",
    "$pullAll", "$bit",
)  # fmt: skip
_ARRAYS: Mapping[str, Callable[[Any], ArrayChange]] = {
    "$push": Push.of,
    "$addToSet": AddToSet.of,
    "$pop": Pop.of,
    "$pull": Pull.of,
    "$pullAll": PullAll.of,
}
_MAKES_ARRAYS = ("$push", "$addToSet")
_BITS: Mapping[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One operator on one path."""

    path: Path
    act: Act
    on_insert: bool = False
    """Whether it is made to new documents alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An update that was read."""

    parts: tuple[Part, ...]
    """In the order of their paths, as MongoDB makes them."""
    filters: ArrayFilters

    def apply(self, document: Document, condition: Condition | None = None) -> Document:
        """What becomes of a document that a condition found; None for one that is new. The one that is given may be altered.

        Raises InvalidValue where an operator does not take what the document holds.
        """
        place = None if condition is None else matched_place(condition, document)
        elements = Elements(place, self.filters)
        for part in self.parts:
            if part.on_insert and condition is not None:
                continue
            for path in elements.expand(document, part.path):
                part.act(document, path)
        return document


@dataclass(frozen=True, slots=True)
class PipelineUpdate:
    """An update by a pipeline that was read."""

    stages: Stages

    def apply(self, document: Document, condition: Condition | None = None) -> Document:  # noqa: ARG002  # as `Update`
        """See `Update`."""
        return changed(self.stages, document)


def parse_update(given: object, array_filters: object = None, *, now_ns: int = 0) -> Update | PipelineUpdate:
    """What pymongo's `update_one` takes: operators, each with paths and operands, or a pipeline.

    `now_ns` (since 1970 UTC) is what `$currentDate` and `$$NOW` are. Raises InvalidOption for what is unknown or does not fit, InvalidFilter
    of `$pull`, `array_filters` and expressions, NotSupported, InvalidValue for what BSON does not have.
    """
    if isinstance(given, list | tuple):
        return _pipeline(given, array_filters, now_ns)
    if not isinstance(given, Mapping) or not given:
        raise invalid(
            "an update", given, "It is a mapping of operators", 'Pass {"$set": {"a": 1}}; replace_one takes documents'
        )
    parts: list[Part] = []
    for operator, operands in given.items():
        if operator not in OPERATORS:
            why = f"There are {', '.join(OPERATORS)}; no document was changed"
            raise InvalidOption(
                f"{operator} is no update operator",
                why=why,
                fix=nearest(str(operator), OPERATORS),
                option="update",
                value=given,
            )
        if not isinstance(operands, Mapping):
            raise invalid(
                operator, operands, "It takes fields with what is to become of them", f'Pass {{"{operator}": {{"a": …}}}}'
            )
        for name, operand in operands.items():
            path = _path(operator, name)
            parts += _renaming(path, operand) if operator == "$rename" else [_part(operator, path, operand, now_ns)]
    _check_apart([one.path for one in parts])
    filters = parse_array_filters(array_filters, [one.path for one in parts])
    return Update(parts=tuple(sorted(parts, key=lambda one: one.path)), filters=filters)


def _pipeline(given: object, array_filters: object, now_ns: int) -> PipelineUpdate:
    stages = parse_pipeline(given, now=date_of_ns(now_ns))
    if not stages:
        raise invalid("an update", given, "A pipeline has at least one stage", 'Pass [{"$set": {"a": 1}}]')
    if array_filters is not None:
        raise invalid("array_filters", array_filters, "They are of operators, and this is a pipeline", "Use $map and $cond")
    return PipelineUpdate(check_changes("an update", stages))


def _path(operator: str, name: object) -> Path:
    path = tuple(name.split(".")) if isinstance(name, str) else ()
    if not path or not all(path) or path[0].startswith("$"):
        raise invalid(operator, name, "Fields are called by dotted paths, without empty parts", "Pass the path of a field")
    for part in path:
        if part.startswith("$") and part not in ("$", EVERY) and not (part.startswith("$[") and part.endswith("]")):
            raise invalid(operator, name, f"{part} is no name of a field", "Positional parts are $, $[] and $[id]")
    if path.count("$") > 1:
        raise invalid(operator, name, "A path has one $ at most", "Use $[] or array_filters for the others")
    return path


def _check_apart(paths: list[Path]) -> None:
    known: set[Path] = set()
    above: set[Path] = set()
    for path in paths:
        begins = [path[:end] for end in range(1, len(path))]
        if path in known or path in above or not known.isdisjoint(begins):
            raise InvalidOption(
                f"the update changes {'.'.join(path)!r} twice",
                why="Which came first would decide what it becomes; no document was changed",
                fix="Change each field by one operator, and not one below it as well",
                option="update",
                value=".".join(path),
            )
        known.add(path)
        above.update(begins)


def _part(operator: str, path: Path, operand: Any, now_ns: int) -> Part:
    if operator in _ARRAYS:
        return Part(path=path, act=_array(operator, _ARRAYS[operator](operand)))
    match operator:
        case "$set" | "$setOnInsert":
            sort_key(operand)
            return Part(path=path, act=_written(operand), on_insert=operator == "$setOnInsert")
        case "$unset":
            return Part(path=path, act=remove_at)
        case "$inc" | "$mul":
            if not is_number(operand):
                raise invalid(operator, operand, "It takes a number", "Pass one")
            return Part(path=path, act=_arithmetic(operator, operand))
        case "$min" | "$max":
            sort_key(operand)
            return Part(path=path, act=_bounded(operand, greatest=operator == "$max"))
        case "$currentDate":
            return Part(path=path, act=_written(_moment(operand, now_ns)))
        case _:
            return Part(path=path, act=_bitwise(operand))


def _written(operand: Any) -> Act:
    # Of several places each has a value of its own.
    return lambda document, path: write_at(document, path, copy.deepcopy(operand))


def _arithmetic(operator: str, operand: Any) -> Act:
    def act(document: Document, path: Path) -> None:
        value = value_at(document, path)
        if value is MISSING:
            write_at(document, path, operand if operator == "$inc" else multiply(operand, 0))
        elif not is_number(value):
            raise wrong_type(operator, path, value, "numbers")
        else:
            write_at(document, path, add(value, operand) if operator == "$inc" else multiply(value, operand))

    return act


def _bounded(operand: Any, *, greatest: bool) -> Act:
    wanted = sort_key(operand)

    def act(document: Document, path: Path) -> None:
        value = value_at(document, path)
        if value is MISSING or (sort_key(value) < wanted if greatest else sort_key(value) > wanted):
            write_at(document, path, copy.deepcopy(operand))

    return act


def _moment(operand: Any, now_ns: int) -> datetime | Timestamp:
    kind = operand.get("$type") if isinstance(operand, Mapping) and list(operand) == ["$type"] else operand
    if kind is True or kind is False or kind == "date":
        return datetime.fromtimestamp(now_ns // NS_PER["ms"] / 1_000, UTC).replace(tzinfo=None)
    if kind == "timestamp":
        return Timestamp(now_ns // NS_PER["s"], 1)
    raise invalid("$currentDate", operand, "It takes true, or a type", 'Pass True, {"$type": "date"} or {"$type": "timestamp"}')


def _array(operator: str, change: ArrayChange) -> Act:
    def act(document: Document, path: Path) -> None:
        value = value_at(document, path)
        if value is MISSING and operator not in _MAKES_ARRAYS:
            return
        if value is not MISSING and not isinstance(value, list):
            raise wrong_type(operator, path, value, "arrays")
        write_at(document, path, change.apply([] if value is MISSING else value))

    return act


def _bitwise(operand: Any) -> Act:
    steps = list(operand.items()) if isinstance(operand, Mapping) else []
    if not steps or not all(name in _BITS and _is_whole(mask) for name, mask in steps):
        raise invalid("$bit", operand, "It takes and, or, xor with whole numbers", 'Pass {"or": 4}')

    def act(document: Document, path: Path) -> None:
        value = value_at(document, path)
        if value is not MISSING and not _is_whole(value):
            raise wrong_type("$bit", path, value, "whole numbers")
        found: Any = 0 if value is MISSING else value
        for name, mask in steps:
            found = whole_number(_BITS[name](int(found), int(mask)), found, mask)
        write_at(document, path, found)

    return act


def _is_whole(value: object) -> bool:
    return isinstance(value, int | Int64) and not isinstance(value, bool)


def _has_part(value: Any, part: str) -> bool:
    """Whether a value can have such a part: a document any, an array those with numbers."""
    return isinstance(value, Mapping) or (isinstance(value, list) and part.isdecimal())


def _renaming(path: Path, operand: Any) -> Iterator[Part]:
    """Both ends of a `$rename`, each at its own path; the value is taken where it was and put where it goes."""
    target = _path("$rename", operand)
    if any(part.startswith("$") for part in (*path, *target)):
        raise invalid("$rename", operand, "Elements of arrays have no names", "Name fields of documents")

    def act(document: Document, source: Path) -> None:
        value = value_at(document, source)
        if value is MISSING:
            for end in range(1, len(source)):
                below = value_at(document, source[:end])
                if below is not MISSING and not _has_part(below, source[end]):
                    raise not_viable(source, below, f"{'.'.join(source[:end])!r} has no fields")
            return
        for one in (source, target):
            for end in range(1, len(one)):
                if isinstance(array := value_at(document, one[:end]), list):
                    raise not_viable(one, array, f"{'.'.join(one[:end])!r} is an array, whose elements have no names")
        remove_at(document, source)
        write_at(document, target, value)

    yield Part(path=path, act=act)
    # The other end is named too, so that nothing else changes it.
    yield Part(path=target, act=lambda *_: None)
