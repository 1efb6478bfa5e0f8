"""What changes of a Delta table's properties and constraints make of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gapless.dialects.delta.column_mapping import FEED_COLUMNS
from gapless.dialects.delta.in_commit_time import ENABLEMENT_TIME, ENABLEMENT_VERSION, opened
from gapless.dialects.delta.properties import (
    CONSTRAINT,
    Settings,
    check_property_name,
    constraints_of,
    parse_properties,
    stored,
)
from gapless.errors import InvalidOption, nearest
from gapless.table.delta.alter_plan import MAPPING, mapped
from gapless.table.delta.shape import Shape, refuse_change


def set_properties(shape: Shape, given: Mapping[str, object]) -> Shape:
    """Set properties, with all that they bring. Raises InvalidOption, NotSupported, InvalidChange."""
    parsed = parse_properties(given)
    kept = stored(parsed)
    mode = kept.pop(MAPPING, None)
    shape = shape.with_properties(shape.metadata.configuration, parsed)
    if mode is not None:
        shape = _turn_mapping(shape, mode)
    if Settings.of(kept).change_data_feed:
        for name in {name.lower(): name for name in shape.schema.names}.keys() & set(FEED_COLUMNS):
            refuse_change((name,), "has the name of a column of the change feed", "Rename it first")
    return _timed(shape, shape.with_properties({**shape.metadata.configuration, **kept}))


def unset_properties(shape: Shape, names: Iterable[str]) -> Shape:
    """Take properties away, so that their defaults hold. Raises InvalidOption for one that is not set, InvalidChange."""
    configuration = dict(shape.metadata.configuration)
    for name in names:
        known = name if name in configuration else check_property_name(name)
        if known.startswith(CONSTRAINT):
            fix = f"Use table.alter.drop_constraint({known.removeprefix(CONSTRAINT)!r})"
            raise InvalidOption(f"property {name!r} is a constraint", fix=fix, option=name, value=None)
        if known == MAPPING and shape.is_mapped:
            _turn_mapping(shape, "none")
        if configuration.pop(known, None) is None:
            raise InvalidOption(
                f"property {name!r} is not set", fix=nearest(name, shape.metadata.configuration), option=name, value=None
            )
    return _timed(shape, shape.with_properties(configuration))


def _turn_mapping(shape: Shape, mode: str) -> Shape:
    """Names of their own for files, which may be brought in and not taken away. Raises InvalidChange."""
    now = shape.settings.column_mapping
    if mode == now:
        return shape
    if (now, mode) != ("none", "name"):
        raise InvalidOption(
            f"{MAPPING} cannot change from {now!r} to {mode!r}",
            why="The files that are there are read by it",
            fix=f'It may change from "none" to "name"; a new table may have {MAPPING}="id" from the start',
            option=MAPPING, value=mode,
        )  # fmt: skip
    on = shape.with_properties({**shape.metadata.configuration, MAPPING: mode})
    return mapped(on, shape.schema, mode, None)


def _timed(before: Shape, after: Shape) -> Shape:
    """The same, with the two properties that say since when commits tell their time."""
    if before.settings.in_commit_timestamps == after.settings.in_commit_timestamps:
        return after
    if after.settings.in_commit_timestamps:
        return replace(after, metadata=opened(after.metadata))
    kept = {k: v for k, v in after.metadata.configuration.items() if k not in (ENABLEMENT_VERSION, ENABLEMENT_TIME)}
    return replace(after, metadata=replace(after.metadata, configuration=kept))


def add_constraint(shape: Shape, name: str, expression: str) -> Shape:
    """Require a condition of every row, in Spark's SQL; that the rows which are there satisfy it is for the caller to see.

    Raises InvalidOption where the name is taken, or there is none.
    """
    made = parse_properties({f"{CONSTRAINT}{name}": expression}, constraints=True)
    known = {one.lower(): text for one, text in constraints_of(shape.metadata.configuration).items()}
    if name.lower() in known:
        if known[name.lower()] == expression:
            return shape
        raise InvalidOption(
            f"there is a constraint {name!r} already: {known[name.lower()]}",
            fix="Choose another name, or drop it first",
            option="name", value=name,
        )  # fmt: skip
    return shape.with_properties({**shape.metadata.configuration, **made})


def drop_constraint(shape: Shape, name: str) -> Shape:
    """Require a condition no more. Raises InvalidOption where there is none of that name."""
    key = next((key for key in shape.metadata.configuration if key.lower() == f"{CONSTRAINT}{name}".lower()), None)
    if key is None:
        known: Sequence[str] = tuple(constraints_of(shape.metadata.configuration))
        fix = nearest(name, known) if known else "The table has none"
        raise InvalidOption(f"there is no constraint {name!r}", fix=fix, option="name", value=name)
    return shape.with_properties({one: text for one, text in shape.metadata.configuration.items() if one != key})
