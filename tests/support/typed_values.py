"""Values of BSON's as tests compare them: by type and value."""

from __future__ import annotations

from typing import Any

from gapless.documents.values.order import MISSING, sort_key, type_number


def typed(found: Any) -> Any:
    """A value with the types of all in it: what two that are the same have in common."""
    if isinstance(found, dict):
        return [(name, typed(one)) for name, one in found.items()]
    if isinstance(found, list):
        return [typed(one) for one in found]
    return ("missing",) if found is MISSING else (type_number(found), sort_key(found))
