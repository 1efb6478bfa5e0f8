"""What changes make of a table's metadata and protocol, as values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from gapless.errors import InvalidChange, InvalidQuery
from gapless.formats.delta.actions import DomainMetadata, Metadata, Protocol
from gapless.formats.delta.commit_codec import ENABLEMENT_TIME, ENABLEMENT_VERSION, dated, opened
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.types import ArrayType, PrimitiveType, StructField, StructType
from gapless.tables.delta.alter.commit import TableDefinition
from gapless.tables.delta.alter.plan import (
    add_column,
    add_constraint,
    columns_of,
    drop_column,
    rename_column,
    set_properties,
    spark_sql,
    speaks_of,
    unset_properties,
    uses_of,
)

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")
SCHEMA = StructType(
    fields=(
        StructField(name="id", type=LONG, nullable=False),
        StructField(name="s", type=StructType(fields=(StructField(name="x", type=LONG),))),
        StructField(name="l", type=ArrayType(element=StructType(fields=(StructField(name="k", type=TEXT),)))),
    )
)
MAPPED = {"delta.columnMapping.mode": "name"}


def shape_of(configuration: Mapping[str, str] | None = None, schema: StructType = SCHEMA, **other: Any) -> TableDefinition:
    metadata = Metadata(id="t", schema=schema, configuration=configuration or {})
    return TableDefinition(metadata=metadata, protocol=Protocol(reader=1, writer=2), **other)


def names() -> Any:
    made: Iterator[int] = count(1)
    return lambda: f"col-{next(made)}"


def ids(schema: StructType) -> dict[str, tuple[int | None, str]]:
    return {field.name: (field.field_id, field.physical_name) for field in schema}


def test_mapping_numbers_every_field_once_and_new_columns_after_them() -> None:
    mapped = set_properties(shape_of(), MAPPED)
    assert ids(mapped.schema) == {"id": (1, "id"), "s": (2, "s"), "l": (4, "l")}
    grown = add_column(mapped, ("s", "y"), StructField(name="y", type=TEXT), None, names())
    inner = grown.schema.field("s")
    assert inner is not None
    assert isinstance(inner.type, StructType)
    assert ids(inner.type)["y"] == (6, "col-1")
    assert grown.metadata.configuration["delta.columnMapping.maxColumnId"] == "6"


def test_a_dropped_column_leaves_the_highest_id_where_it_was() -> None:
    mapped = set_properties(shape_of(), MAPPED)
    dropped = drop_column(mapped, ("l",))
    again = add_column(dropped, ("l",), StructField(name="l", type=LONG), "id", names())
    assert again.schema.names == ("id", "l", "s")
    assert ids(again.schema)["l"] == (6, "col-1")


def test_a_change_that_says_nothing_new_is_the_same_value() -> None:
    mapped = set_properties(shape_of(), {**MAPPED, "delta.appendOnly": "true"})
    assert set_properties(mapped, {"delta.appendOnly": True, **MAPPED}) == mapped
    assert rename_column(mapped, ("id",), "id") == mapped
    constrained = add_constraint(mapped, "c", "id > 0")
    assert add_constraint(constrained, "C", "id > 0") == constrained


def test_the_protocol_only_grows() -> None:
    grown = set_properties(shape_of(), {"delta.enableDeletionVectors": "true"})
    assert (grown.protocol.reader, grown.protocol.writer) == (3, 7)
    less = unset_properties(grown, ["delta.enableDeletionVectors"])
    assert less.protocol == grown.protocol
    assert (
        "timestampNtz"
        in add_column(
            less, ("t",), StructField(name="t", type=PrimitiveType("timestamp_ntz")), None, names()
        ).protocol.reader_features
    )


def test_the_version_and_time_of_enablement_are_filled_in_by_the_commit_alone() -> None:
    enabled = set_properties(shape_of(), {"delta.enableInCommitTimestamps": "true"}).metadata
    assert Settings.of(enabled.configuration).in_commit_timestamps
    told = dated(enabled, 7, 1_767_600_000_123_000_000)
    assert told.configuration[ENABLEMENT_VERSION] == "7"
    assert told.configuration[ENABLEMENT_TIME] == "1767600000123"
    assert dated(told, 9, 0) is told
    without = replace(enabled, configuration={"delta.enableInCommitTimestamps": "true"})
    assert dated(without, 9, 0) is without
    assert opened(without).configuration == enabled.configuration


def test_a_clustering_column_stays_by_its_physical_name() -> None:
    clustering = DomainMetadata(domain="delta.clustering", configuration=json.dumps({"clusteringColumns": [["s", "x"]]}))
    mapped = set_properties(shape_of(domains={"delta.clustering": clustering}), MAPPED)
    for path in (("s",), ("s", "x")):
        with pytest.raises(InvalidChange, match="clustering"):
            drop_column(mapped, path)
    assert drop_column(mapped, ("l",)).schema.names == ("id", "s")


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("id > 0", {("id",)}),
        ("s.x > 0 AND `odd name` IS NULL", {("s", "x"), ("odd name",)}),
        ("a.b.c.d.e = 1", {("a", "b", "c", "d", "e")}),
        ("m['k'] > 1 OR l[0].k = 'x'", {("m",), ("l",)}),
        ("upper(t) = 'A' AND current_date() > d", {("t",), ("d",)}),
        ("'id' = \"id\"", set()),
    ],
)
def test_the_columns_that_an_expression_of_spark_names(expression: str, named: set[tuple[str, ...]]) -> None:
    found = {path for path in columns_of(expression) if path}
    assert {path for path in found if not any(path != other and path == other[: len(path)] for other in found)} == named


@pytest.mark.parametrize(
    ("expression", "path", "speaks"),
    [
        ("S.X > 0", ("s", "x"), True),
        ("s.x > 0", ("s",), True),
        ("s is null", ("s", "x"), True),
        ("s.x > 0", ("s", "y"), False),
        ("x > 0", ("s", "x"), False),
    ],
)
def test_what_speaks_of_a_column(expression: str, path: tuple[str, ...], speaks: bool) -> None:
    assert speaks_of(expression, path) is speaks


def test_generated_columns_and_invariants_speak_of_columns_too() -> None:
    invariant = json.dumps({"expression": {"expression": "s.x > 0"}})
    fields = (
        StructField(name="g", type=LONG, metadata={"delta.generationExpression": "id + 1"}),
        StructField(name="i", type=LONG, metadata={"delta.invariants": invariant}),
    )
    metadata = shape_of(schema=StructType(fields=(*SCHEMA.fields, *fields))).metadata
    assert [what for what, _ in uses_of(metadata, ("id",))] == ["the generation expression of column 'g'"]
    assert [what for what, _ in uses_of(metadata, ("s",))] == ["the invariant of column 'i'"]
    assert list(uses_of(metadata, ("l",))) == []


@pytest.mark.parametrize(
    ("standard", "spark"),
    [('"unit price" > 0', "`unit price` > 0"), ("a || b = 'x'", "a || b = 'x'"), ("x = 'it''s'", "x = 'it\\'s'")],
)
def test_standard_sql_becomes_sparks(standard: str, spark: str) -> None:
    assert spark_sql(standard) == spark


@pytest.mark.parametrize("text", ["", "a >", "(a"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery):
        spark_sql(text)
