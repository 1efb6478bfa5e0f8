"""What updates make of one array: `$push`, `$addToSet`, `$pop`, `$pull`, `$pullAll`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapless.documents.filters.match import holds, value_meets
from gapless.documents.filters.operands import whole
from gapless.documents.filters.parse import has_operators, parse_filter, parse_value_test
from gapless.documents.filters.tree import Condition, Test
from gapless.documents.find.sort import Sort, ordered, parse_sort
from gapless.documents.values.order import sort_key
from gapless.errors import InvalidOption, nearest

_EACH = "$each"
_MODIFIERS = (_EACH, "$position", "$slice", "$sort")


def invalid(operator: str, operand: object, why: str, fix: str) -> InvalidOption:
    """The error for an operand that an update operator does not take."""
    shown = f"{operand!r:.80}"
    return InvalidOption(f"{operator} does not take {shown}", why=why, fix=fix, option="update", value=operand)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """`$push`: elements at a place, then an order, then a cut."""

    elements: tuple[Any, ...]
    position: int | None = None
    by: Sort | bool | None = None
    """The order of documents by fields, or of elements themselves: whether the greatest comes first."""
    keep: int | None = None
    """So many of the first; below 0 of the last."""

    @classmethod
    def of(cls, operand: Any) -> Push:
        """Raises InvalidOption."""
        if not (isinstance(operand, Mapping) and any(str(name).startswith("$") for name in operand) and not _is_ref(operand)):
            return cls(elements=(operand,))
        for name in operand:
            if name not in _MODIFIERS:
                raise invalid("$push", operand, f"{name} is none of its modifiers", nearest(str(name), _MODIFIERS))
        if _EACH not in operand or not isinstance(operand[_EACH], list | tuple):
            raise invalid(
                "$push", operand, "Its modifiers stand beside a $each with a list", 'Pass {"$each": [...], "$slice": 5}'
            )
        position, keep = (_whole(name, operand) for name in ("$position", "$slice"))
        return cls(elements=tuple(operand[_EACH]), position=position, by=_order(operand.get("$sort")), keep=keep)

    def apply(self, array: list[Any]) -> list[Any]:
        """The array as it becomes."""
        at = len(array) if self.position is None else self.position
        at = max(0, len(array) + at) if at < 0 else at
        found = [*array[:at], *self.elements, *array[at:]]
        if isinstance(self.by, bool):
            found.sort(key=sort_key, reverse=self.by)
        elif self.by is not None:
            pairs = ((one, one if isinstance(one, Mapping) else {}) for one in found)
            found = [one for one, _ in ordered(pairs, self.by)]
        if self.keep is not None:
            found = found[: self.keep] if self.keep >= 0 else found[self.keep :]
        return found


def _is_ref(operand: Mapping[str, Any]) -> bool:
    return next(iter(operand)) == "$ref"


def _whole(name: str, operand: Mapping[str, Any]) -> int | None:
    if name not in operand:
        return None
    if (found := whole(operand[name])) is None:
        raise invalid(name, operand[name], "It takes a whole number", "Pass one")
    return found


def _order(given: Any) -> Sort | bool | None:
    if given is None:
        return None
    if isinstance(given, Mapping) and given:
        return parse_sort(given)
    if (way := whole(given)) in (1, -1) and not isinstance(given, bool):
        return way == -1
    raise invalid("$sort", given, "It takes 1 or -1, or fields with these", 'Pass 1, or {"score": -1}')


@dataclass(frozen=True, slots=True)
class AddToSet:
    """`$addToSet`: elements that are not there."""

    elements: tuple[Any, ...]

    @classmethod
    def of(cls, operand: Any) -> AddToSet:
        """Raises InvalidOption."""
        if isinstance(operand, Mapping) and operand and str(next(iter(operand))).startswith("$") and not _is_ref(operand):
            if list(operand) != [_EACH] or not isinstance(operand[_EACH], list | tuple):
                raise invalid("$addToSet", operand, "Its only modifier is $each, with a list", 'Pass {"$each": [...]}')
            return cls(tuple(operand[_EACH]))
        return cls((operand,))

    def apply(self, array: list[Any]) -> list[Any]:
        """The array as it becomes."""
        known, found = {sort_key(one) for one in array}, list(array)
        for one in self.elements:
            if (key := sort_key(one)) not in known:
                known.add(key)
                found.append(one)
        return found


@dataclass(frozen=True, slots=True)
class Pop:
    """`$pop`: without the last element, or the first."""

    first: bool

    @classmethod
    def of(cls, operand: Any) -> Pop:
        """Raises InvalidOption."""
        if isinstance(operand, bool) or whole(operand) not in (1, -1):
            raise invalid("$pop", operand, "It takes 1 for the last element, -1 for the first", "Pass 1 or -1")
        return cls(whole(operand) == -1)

    def apply(self, array: list[Any]) -> list[Any]:
        """The array as it becomes."""
        return array[1:] if self.first else array[:-1]


@dataclass(frozen=True, slots=True)
class Pull:
    """`$pull`: without the elements that match."""

    wanted: Condition | Test
    of_documents: bool

    @classmethod
    def of(cls, operand: Any) -> Pull:
        """Raises InvalidFilter, NotSupported."""
        if isinstance(operand, Mapping) and not has_operators(operand):
            return cls(parse_filter(operand), of_documents=True)
        return cls(parse_value_test(operand), of_documents=False)

    def apply(self, array: list[Any]) -> list[Any]:
        """The array as it becomes."""
        return [one for one in array if not self._matches(one)]

    def _matches(self, element: Any) -> bool:
        if self.of_documents:
            return isinstance(element, Mapping) and holds(self.wanted, element)  # type: ignore[arg-type]  # a condition
        return value_meets(self.wanted, element)  # type: ignore[arg-type]  # a test


@dataclass(frozen=True, slots=True)
class PullAll:
    """`$pullAll`: without the elements that equal one of some."""

    values: frozenset[Any]

    @classmethod
    def of(cls, operand: Any) -> PullAll:
        """Raises InvalidOption."""
        if not isinstance(operand, list | tuple):
            raise invalid("$pullAll", operand, "It takes a list of values", "Pass a list; $pull takes one value, or a filter")
        return cls(frozenset(map(sort_key, operand)))

    def apply(self, array: list[Any]) -> list[Any]:
        """The array as it becomes."""
        return [one for one in array if sort_key(one) not in self.values]


ArrayChange = Push | AddToSet | Pop | Pull | PullAll
