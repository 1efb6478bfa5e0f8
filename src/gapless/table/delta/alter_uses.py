"""What of a Delta table's metadata speaks of a column by its name, and Spark's SQL, in which tables keep their expressions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from gapless.dialects.delta.actions import DomainMetadata, Metadata
from gapless.dialects.delta.properties import Settings, constraints_of
from gapless.dialects.delta.schema import DeltaType, StructField, StructType, every_field
from gapless.table.delta.expression_sql import parsed

Path = tuple[str, ...]
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
