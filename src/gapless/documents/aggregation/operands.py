"""Operands of stages, read and checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.documents.aggregation.stages import wrong_stage
from gapless.documents.expressions.operands import checked_names
from gapless.documents.filters.operands import whole
from gapless.documents.filters.tree import Path
from gapless.documents.values.order import MISSING
from gapless.errors import NotSupported


def named(stage: str, given: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """A mapping of options. Raises InvalidOption where one is not known, or one is not there."""
    return checked_names(wrong_stage, stage, given, required, optional)


def count(stage: str, given: Any, least: int) -> int:
    """A number of documents. Raises InvalidOption."""
    found = whole(given)
    if found is None or found < least:
        raise wrong_stage(stage, given, f"It takes a whole number from {least} on", f"Pass {{{stage!r}: 10}}")
    return found


def field_name(stage: str, given: Any) -> str:
    """The name of a field at the top. Raises InvalidOption."""
    if not isinstance(given, str) or not given or given.startswith("$") or "." in given or "\0" in given:
        raise wrong_stage(
            stage, given, "A field is called by a text without a dot, which does not begin with $", "Pass 'total'"
        )
    return given


def path(stage: str, given: Any) -> Path:
    """A dotted path, without a $. Raises InvalidOption."""
    if not isinstance(given, str) or given.startswith("$") or not all(given.split(".")):
        raise wrong_stage(stage, given, "It is a dotted path without a $", "Pass 'a.b'")
    return tuple(given.split("."))


def collection_name(stage: str, given: Any) -> str:
    """The name of another collection. Raises InvalidOption, NotSupported for one of another database."""
    if isinstance(given, Mapping) and "db" in given:
        raise NotSupported(
            f"{stage} of another database is not supported",
            why="Collections are called by names, and lie beside each other or are handed in",
            fix="Pass aggregate(…, collections={'name': collection}), and the name",
            feature=f"{stage} db",
        )
    if not isinstance(given, str) or not given:
        raise wrong_stage(stage, given, "A collection is called by its name", "Pass 'orders'")
    return given


def with_at(document: Mapping[str, Any], at: Path, value: Any) -> dict[str, Any]:
    """A document with another value at a path, MISSING for none; documents on the way are made."""
    name, rest = at[0], at[1:]
    found = dict(document)
    if rest:
        below = found.get(name)
        value = with_at(below if isinstance(below, Mapping) else {}, rest, value)
    if value is MISSING:
        found.pop(name, None)
    else:
        found[name] = value
    return found


def plain_at(document: Mapping[str, Any], at: Path) -> Any:
    """What lies at a path, not through arrays; MISSING where nothing does."""
    value: Any = document
    for name in at:
        value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    return value
