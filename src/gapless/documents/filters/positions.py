"""Which element of an array a filter found, for `a.$`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.documents.filters.match import element_meets, holds, value_meets
from gapless.documents.filters.paths import is_array
from gapless.documents.filters.tree import All, At, Condition, Contains, Each, ElementIs, ElementMatches, Path, Some, Test


def matched_place(condition: Condition, document: Mapping[str, Any]) -> int | None:
    """The place in the first array that a condition goes through of the first element that meets it; None where it goes through none.

    Where conditions go through several arrays, the first that has an answer counts.
    """
    match condition:
        case All(conditions):
            return next((place for one in conditions if (place := matched_place(one, document)) is not None), None)
        case Some(conditions):
            met = (one for one in conditions if holds(one, document))
            return next((place for one in met if (place := matched_place(one, document)) is not None), None)
        case At(path, test):
            return _place_at(test, document, path)
    return None


def _place_at(test: Test, value: Any, path: Path) -> int | None:
    if isinstance(test, Each | Contains):
        return next((place for one in test.tests if (place := _place_at(one, value, path)) is not None), None)
    while path and isinstance(value, Mapping):
        value, path = value.get(path[0]), path[1:]
    if not is_array(value):
        return None
    if path and path[0].isdigit() and int(path[0]) < len(value):
        return int(path[0])
    for place, one in enumerate(value):
        if path:
            met = isinstance(one, Mapping) and holds(At(path, test), one)
        elif isinstance(test, ElementIs | ElementMatches):
            met = element_meets(test, one)
        else:
            met = value_meets(test, one)
        if met:
            return place
    return None
