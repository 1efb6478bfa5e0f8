"""Changes of a Delta table's columns, properties and constraints, as the metadata after them. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gapless.errors import InvalidOption, nearest
from gapless.formats.delta.actions import DomainMetadata, Metadata
from gapless.formats.delta.commit_codec import ENABLEMENT_TIME, ENABLEMENT_VERSION, opened
from gapless.formats.delta.properties import (
    CONSTRAINT,
    INTERNAL,
    Settings,
    check_property_name,
    constraints_of,
    parse_properties,
    stored,
)
from gapless.formats.delta.publishing import OWN_PROPERTIES, check_together
from gapless.formats.delta.schema import changes, column_mapping
from gapless.formats.delta.schema.arrow_types import VOID
from gapless.formats.delta.schema.column_mapping import FEED_COLUMNS
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType, StructField, StructType, every_field
from gapless.formats.delta.variant.declared import SHREDDING, check_shredded
from gapless.tables.delta.alter.commit import Path, TableDefinition, refuse_change
from gapless.tables.delta.expressions.sql import parsed

GENERATION = "delta.generationExpression"
INVARIANT = "delta.invariants"
_STATS = "delta.dataSkippingStatsColumns"
_CLUSTERING = "delta.clustering"


def uses_of(metadata: Metadata, path: Path) -> Iterator[tuple[str, str]]:
    """What speaks of a column in SQL, and how to end that: constraints, generated columns, invariants."""
    for name, expression in constraints_of(metadata.configuration).items():
        if speaks_of(expression, path):
            yield f"the constraint {name!r}", f"First table.alter.drop_constraint({name!r})"
    for field in every_field(metadata.schema):
        for what, expression in _expressions(field.metadata):
            if speaks_of(expression, path):
                yield f"the {what} of column {field.name!r}", "Make a new table without it"


def names_of(metadata: Metadata, domains: Mapping[str, DomainMetadata], path: Path) -> Iterator[tuple[str, str]]:
    """What lists a column by its name, and how to end that: the columns with statistics, those that rows are clustered by."""
    for column in Settings.of(metadata.configuration).stats_columns or ():
        if _meet(_lowered(column), _lowered(path)):
            yield f"the property {_STATS}", f"First table.alter.unset_properties([{_STATS!r}])"
    for name, _ in Settings.of(metadata.configuration).shredded:
        if _meet(_lowered((name,)), _lowered(path)):
            yield f"the property {SHREDDING}{name}", f"First table.alter.unset_properties([{SHREDDING + name!r}])"
    clustering = domains.get(_CLUSTERING)
    physical = tuple(field.physical_name for field in _along(metadata.schema, path))
    for listed in json.loads(clustering.configuration).get("clusteringColumns", ()) if clustering else ():
        if _meet(tuple(listed), physical):
            yield "the clustering of the table", "First end that with the tool that set it"


def speaks_of(expression: str, path: Path) -> bool:
    """Whether an expression of a table names a column, a struct around it, or a field within it; names may have any case."""
    return any(_meet(_lowered(named), _lowered(path)) for named in columns_of(expression))


@lru_cache(256)
def columns_of(expression: str) -> frozenset[Path]:
    """The columns that an expression in Spark's SQL names, as paths. Raises InvalidQuery for what is none."""
    from sqlglot import exp

    found = parsed(expression, "spark").find_all(exp.Column, exp.Dot)
    return frozenset(_path_of(one) for one in found)


def spark_sql(expression: str) -> str:
    """An expression of standard SQL as Spark has it. Raises InvalidQuery for what is none.

    >>> spark_sql('"unit price" > 0')
    '`unit price` > 0'
    """
    return str(parsed(expression).sql(dialect="spark"))


def _path_of(node: Any) -> Path:
    """The names of a column, or of a field of one, from the top down: `a.b.c` is parsed as a table's, a database's and so on."""
    from sqlglot import exp

    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts)
    return (*_path_of(node.this), node.expression.name) if isinstance(node.this, exp.Column | exp.Dot) else ()


def _meet(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return shorter > 0 and one[:shorter] == other[:shorter]


def _lowered(path: Path) -> Path:
    return tuple(step.lower() for step in path)


def _expressions(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if (generated := metadata.get(GENERATION)) is not None:
        yield "generation expression", str(generated)
    if (invariant := metadata.get(INVARIANT)) is not None:
        yield "invariant", str(json.loads(invariant)["expression"]["expression"])


def _along(schema: StructType, path: Path) -> Iterator[StructField]:
    """The fields on the way to a path, as far as it leads through structs alone."""
    type_: DeltaType = schema
    for step in path:
        field = type_.field(step) if isinstance(type_, StructType) else None
        if field is None:
            return
        yield field
        type_ = field.type


MAPPING = "delta.columnMapping.mode"
_MAX_ID = "delta.columnMapping.maxColumnId"
_WIDENING = "delta.enableTypeWidening"


def add_column(
    shape: TableDefinition, path: Path, field: StructField, after: str | None, new_name: Callable[[], str]
) -> TableDefinition:
    """Add a column, or a field to a struct; `new_name` makes physical names. Raises InvalidChange, UnknownColumn."""
    if not field.nullable and not shape.is_empty:
        refuse_change(
            path,
            "cannot be added without nulls: the rows that are there have no value of it",
            "Add it with nullable=True and fill it by table.update(…)",
        )
    if path[-1].lower() in FEED_COLUMNS and shape.settings.change_data_feed:
        refuse_change(path, "has the name of a column of the change feed", "Choose another name")
    return mapped(shape, changes.add(shape.schema, path[:-1], field, after), shape.settings.column_mapping, new_name)


def mapped(shape: TableDefinition, schema: StructType, mode: str, new_name: Callable[[], str] | None) -> TableDefinition:
    """The shape with these columns, each with what column mapping wants it to have."""
    column_mapping.check_names(schema, mapped=mode != "none")
    if mode == "none":
        return shape.with_schema(schema)
    given, highest = column_mapping.assign(schema, mode, shape.settings.max_column_id, new_name)
    grown = shape.with_schema(given)
    return grown.with_properties({**grown.metadata.configuration, _MAX_ID: str(highest)})


def rename_column(shape: TableDefinition, path: Path, new: str) -> TableDefinition:
    """Give a column or nested field another name. Raises InvalidChange, UnknownColumn."""
    field = changes.find_field(shape.schema, path)
    if new == field.name:
        return shape
    _check_mapped(shape, path, "renamed")
    _check_unused(shape, path, "renamed", named=True)
    if new.lower() in FEED_COLUMNS and shape.settings.change_data_feed:
        refuse_change(path, f"cannot be called {new!r}: that is a column of the change feed", "Choose another name")
    schema = changes.rename(shape.schema, path, new)
    column_mapping.check_names(schema, mapped=True)
    renamed = shape.with_schema(schema)
    if len(path) > 1:
        return renamed
    partitions = tuple(new if name == path[0] else name for name in shape.metadata.partition_by)
    return replace(renamed, metadata=replace(renamed.metadata, partition_by=partitions))


def drop_column(shape: TableDefinition, path: Path) -> TableDefinition:
    """Take a column or nested field away. Raises InvalidChange, UnknownColumn."""
    changes.find_field(shape.schema, path)
    if path[0] in shape.metadata.partition_by:
        refuse_change(path, "cannot be dropped: the table is partitioned by it", "Make a new table without it")
    _check_mapped(shape, path, "dropped")
    _check_unused(shape, path, "dropped", named=True)
    schema = changes.drop(shape.schema, path)
    if not set(schema.names) - set(shape.metadata.partition_by):
        refuse_change(path, "cannot be dropped: it is the last one", "Add another column first")
    return shape.with_schema(schema)


def widen_column(shape: TableDefinition, path: Path, type_: DeltaType) -> TableDefinition:
    """Give a column or nested field a type that holds every value of its own. Raises InvalidChange, UnknownColumn."""
    before = changes.type_at(shape.schema, path)
    if before == type_:
        return shape
    _check_unused(shape, path, "widened")
    if before != VOID and not shape.settings.type_widening:
        refuse_change(
            path,
            "cannot be widened: the table has type widening off",
            f'First table.alter.set_properties({{"{_WIDENING}": True}}), which shuts readers out that do not know it',
        )
    if path[0] in shape.metadata.partition_by and before == PrimitiveType("date"):
        refuse_change(path, "cannot be widened: its partition values are written as dates", "Add another column")
    return shape.with_schema(changes.widen(shape.schema, path, type_))


def comment_column(shape: TableDefinition, path: Path, comment: str | None) -> TableDefinition:
    """Set what a column or nested field is said to be; None takes that away. Raises UnknownColumn."""
    return shape.with_schema(changes.change_field(shape.schema, path, lambda field: field.with_metadata(comment=comment)))


def set_default(shape: TableDefinition, path: Path, expression: str | None) -> TableDefinition:
    """Set the SQL, as Spark speaks it, of what rows get that are written without a column. Raises InvalidChange, UnknownColumn."""
    if len(path) > 1:
        refuse_change(path, "can have no default: it is no column of its own", "Give the whole column one")
    return shape.with_schema(
        changes.change_field(shape.schema, path, lambda field: field.with_metadata(CURRENT_DEFAULT=expression))
    )


def _check_mapped(shape: TableDefinition, path: Path, done: str) -> None:
    if not shape.is_mapped:
        refuse_change(
            path,
            f"cannot be {done}: files know it by its name",
            f'First table.alter.set_properties({{"{MAPPING}": "name"}}): names of their own for files; no file is written anew',
        )


def _check_unused(shape: TableDefinition, path: Path, done: str, *, named: bool = False) -> None:
    """Raise InvalidChange where SQL of the table speaks of the column or, with `named`, a list of columns names it."""
    listed = names_of(shape.metadata, shape.domains, path) if named else ()
    for what, how in (*uses_of(shape.metadata, path), *listed):
        refuse_change(path, f"cannot be {done}: {what} speaks of it", how)


def set_properties(shape: TableDefinition, given: Mapping[str, object]) -> TableDefinition:
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
    check_together({**shape.metadata.configuration, **kept})
    given_up = {name for name in OWN_PROPERTIES if kept.get(name) == ""}
    left = {name: text for name, text in {**shape.metadata.configuration, **kept}.items() if name not in given_up}
    told = Settings.of(left)
    check_shredded((name for name, _ in told.shredded), shape.schema, allowed=told.variant_shredding)
    return _timed(shape, shape.with_properties(left))


def unset_properties(shape: TableDefinition, names: Iterable[str]) -> TableDefinition:
    """Take properties away, so that their defaults hold. Raises InvalidOption for one that is not set, InvalidChange."""
    configuration = dict(shape.metadata.configuration)
    for name in names:
        known = name if name in configuration and name not in INTERNAL else check_property_name(name)
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


def _turn_mapping(shape: TableDefinition, mode: str) -> TableDefinition:
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


def _timed(before: TableDefinition, after: TableDefinition) -> TableDefinition:
    """The same, with the two properties that say since when commits tell their time."""
    if before.settings.in_commit_timestamps == after.settings.in_commit_timestamps:
        return after
    if after.settings.in_commit_timestamps:
        return replace(after, metadata=opened(after.metadata))
    kept = {k: v for k, v in after.metadata.configuration.items() if k not in (ENABLEMENT_VERSION, ENABLEMENT_TIME)}
    return replace(after, metadata=replace(after.metadata, configuration=kept))


def add_constraint(shape: TableDefinition, name: str, expression: str) -> TableDefinition:
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


def drop_constraint(shape: TableDefinition, name: str) -> TableDefinition:
    """Require a condition no more. Raises InvalidOption where there is none of that name."""
    key = next((key for key in shape.metadata.configuration if key.lower() == f"{CONSTRAINT}{name}".lower()), None)
    if key is None:
        known: Sequence[str] = tuple(constraints_of(shape.metadata.configuration))
        fix = nearest(name, known) if known else "The table has none"
        raise InvalidOption(f"there is no constraint {name!r}", fix=fix, option="name", value=name)
    return shape.with_properties({one: text for one, text in shape.metadata.configuration.items() if one != key})
