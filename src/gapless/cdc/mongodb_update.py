"""The document that an update of MongoDB's change stream left, from the one before it. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from gapless.cdc.json_values import Json


def updated(before: Mapping[str, Any] | None, description: Mapping[str, Any] | None) -> dict[str, Json] | None:
    """The document after `updateDescription` (updatedFields, removedFields, truncatedArrays); None where that cannot be told."""
    if before is None or description is None or description.get("disambiguatedPaths"):
        return None
    found: dict[str, Json] = copy.deepcopy(dict(before))
    try:
        for cut in description.get("truncatedArrays") or ():
            holder, name = _at(found, cut["field"])
            del holder[name][int(cut["newSize"]) :]
        for path, value in (description.get("updatedFields") or {}).items():
            holder, name = _at(found, path)
            if isinstance(holder, list) and name == len(holder):
                holder.append(value)
            else:
                holder[name] = value
        for path in description.get("removedFields") or ():
            holder, name = _at(found, path)
            del holder[name]
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    return found


def _at(document: Json, path: str) -> tuple[Json, str | int]:
    """What holds the last part of a dotted path, and that part: a place where it holds by places."""
    *above, last = path.split(".")
    for part in above:
        document = document[int(part) if isinstance(document, list) else part]
    return document, int(last) if isinstance(document, list) else last
