"""Values of BSON's as tests compare them: by type and value."""

from __future__ import annotations

from typing import Any

from gapless.documents.values.order import MISSING, sort_key, type_number


def typed(found: Any) -> tuple[Any, ...]:
    """A value with the types of all in it: what two that are the same have in common."""
    if isinstance(found, dict):
        return ("document", *((name, typed(one)) for name, one in found.items()))
    if isinstance(found, list):
        return ("array", *map(typed, found))
    return ("missing",) if found is MISSING else (type_number(found), sort_key(found))


def documents_of(found: list[dict[str, Any]], *, in_order: bool) -> list[Any]:
    """Documents by types and values, their fields by name; sorted where they have no order."""
    rows = [sorted(typed(one)[1:], key=lambda field: field[0]) for one in found]
    return rows if in_order else sorted(rows, key=repr)
