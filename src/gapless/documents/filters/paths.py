"""What lies at a dotted path of a document, through arrays, as MongoDB's queries look at it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gapless.documents.filters.tree import Path
from gapless.documents.values.order import MISSING


def is_array(value: object) -> bool:
    """Whether a value is an array of BSON's."""
    return isinstance(value, list | tuple)


def values_at(document: Mapping[str, Any] | Sequence[Any], path: Path, *, into_arrays: bool) -> Iterator[Any]:
    """What lies at a path, MISSING where a document on the way lacks the next field, or has a scalar there.

    An array on the way is gone through: of its elements documents count, and what lies at the number that the path may have there. With
    `into_arrays` the elements of an array at the end come too, before the array; not so where the path names its place in an outer one.

    >>> list(values_at({"a": [{"b": [1, 2]}, {}, 5]}, ("a", "b"), into_arrays=True))
    [1, 2, [1, 2], <Missing.MISSING: 'missing'>]
    """
    if is_array(document):
        yield from _in_array(document, path, into_arrays=into_arrays)  # type: ignore[arg-type]  # an array
        return
    assert isinstance(document, Mapping)
    name, rest = path[0], path[1:]
    value = document.get(name, MISSING)
    if not rest:
        if into_arrays and is_array(value):
            yield from value
        yield value
    elif is_array(value):
        yield from _in_array(value, rest, into_arrays=into_arrays)
    elif isinstance(value, Mapping):
        yield from values_at(value, rest, into_arrays=into_arrays)
    else:
        yield MISSING


def _in_array(array: Sequence[Any], path: Path, *, into_arrays: bool) -> Iterator[Any]:
    name, rest = path[0], path[1:]
    for place, element in enumerate(array):
        if isinstance(element, Mapping):
            yield from values_at(element, path, into_arrays=into_arrays)
        if name != str(place):
            continue
        if not rest:
            yield element
        elif isinstance(element, Mapping):
            yield from values_at(element, rest, into_arrays=into_arrays)
        elif is_array(element):
            yield from _in_array(element, rest, into_arrays=into_arrays)
