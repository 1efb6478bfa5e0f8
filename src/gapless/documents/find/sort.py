"""The order of documents by fields, as MongoDB's `sort` has it. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from gapless.documents.filters.paths import is_array, values_at
from gapless.documents.filters.tree import Path
from gapless.documents.spill.memory import Memory
from gapless.documents.spill.sorter import Sorter
from gapless.documents.values.order import Key, TypeOrder, sort_key
from gapless.documents.values.order_bytes import order_bytes, reversed_bytes
from gapless.errors import InvalidOption, NotSupported

Document = Mapping[str, Any]
Item = TypeVar("Item")
Found = TypeVar("Found", bound=Mapping[str, Any])
Sort = tuple[tuple[Path, bool], ...]
"""Paths, each with whether the greatest comes first."""
_EMPTY: Key = (0,)
"""An array without elements comes before null."""
_NULL: Key = (TypeOrder.NULL,)
_FEW = 1_000
"""So many documents are held as they are."""


def parse_sort(given: object) -> Sort:
    """What pymongo takes: a path, pairs of a path and 1 or -1, or a mapping of these; None for no order. Raises InvalidOption, NotSupported.

    >>> parse_sort([("a.b", -1)])
    ((('a', 'b'), True),)
    """
    if given is None:
        return ()
    pairs: Any = [(given, 1)] if isinstance(given, str) else given.items() if isinstance(given, Mapping) else given
    if not isinstance(pairs, Iterable):
        raise _invalid(given, given)
    found: dict[Path, bool] = {}
    for one in pairs:
        path, way = one if isinstance(one, tuple | list) and len(one) == 2 else (one, 1)
        if isinstance(way, Mapping) and "$meta" in way:
            raise NotSupported(
                "$meta is not supported in a sort", why="There is no full-text index", fix="Sort by a field", feature="$meta"
            )
        whole = not isinstance(way, bool) and isinstance(way, int | float) and way in (1, -1)
        if not isinstance(path, str) or not whole or not all(path.split(".")) or path.startswith("$"):
            raise _invalid(one, given)
        found[tuple(path.split("."))] = way == -1
    return tuple(found.items())


def ordered(items: Iterable[tuple[Item, Found]], by: Sort) -> list[tuple[Item, Found]]:
    """Documents with what belongs to them, in an order; those that are equal in it stay in theirs."""
    return sorted(items, key=lambda one: order_key(one[1], by))


@dataclass(frozen=True, slots=True)
class Descending:
    """A key that comes after those which are greater."""

    key: Key

    def __lt__(self, other: Descending) -> bool:
        return other.key < self.key


def order_key(document: Document, by: Sort) -> Key:
    """What a document is sorted by, of all paths.

    >>> sorted([{"a": 1}, {"a": 3}, {"a": 2}], key=lambda one: order_key(one, parse_sort([("a", -1)])))
    [{'a': 3}, {'a': 2}, {'a': 1}]
    """
    keys = ((place_of(document, path, descending=descending), descending) for path, descending in by)
    return tuple(Descending(key) if descending else key for key, descending in keys)


def sort_bytes(document: Document, by: Sort) -> bytes:
    """What `order_key` says, as bytes that compare alike."""
    keys = ((order_bytes(place_of(document, path, descending=descending)), descending) for path, descending in by)
    return b"".join(reversed_bytes(key) if descending else key for key, descending in keys)


def in_order(documents: Iterable[Found], by: Sort, most: int | None, memory: Memory) -> Iterator[Found]:
    """The first of documents in an order, or all of them; those that are equal in it stay in theirs. Raises StorageFull.

    Memory holds as much as `memory` says, or the first few.
    """
    if most is not None and most <= _FEW:
        yield from heapq.nsmallest(most, documents, key=lambda one: order_key(one, by))
        return
    with Sorter(memory, most) as sorter:
        for one in documents:
            sorter.add(sort_bytes(one, by), one)
        for _, found in sorter:
            yield found


def place_of(document: Document, path: Path, *, descending: bool) -> Key:
    """What a document is sorted by: of an array its least element, or the greatest where that comes first."""
    keys: list[Key] = []
    for value in values_at(document, path, into_arrays=False):
        if is_array(value):
            keys += map(sort_key, value) if value else [_EMPTY]
        else:
            keys.append(sort_key(value))
    if not keys:
        return _NULL
    return max(keys) if descending else min(keys)


def _invalid(one: object, given: object) -> InvalidOption:
    return InvalidOption(
        f"sort={one!r} is no order",
        why="It takes the dotted paths of fields, each with 1 or -1",
        fix='Pass "age", or [("age", -1), ("name", 1)]',
        option="sort",
        value=given,
    )
