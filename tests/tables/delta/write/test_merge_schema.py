"""What a table's columns become so that an input fits: pure."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from gapless.errors import InvalidOption, SchemaMismatch, UnsupportedType
from gapless.files.ingest.batches import Batches
from gapless.formats.delta.actions import Metadata, Protocol, TableState
from gapless.formats.delta.schema.arrow_types import from_arrow, to_arrow
from gapless.tables.delta.write.merge_schema import SchemaMode, evolve_schema, parse_schema_mode

TYPES = {"delta.enableTypeWidening": "true"}


def state(schema: pa.Schema, configuration: Mapping[str, str] | None = None, partition_by: tuple[str, ...] = ()) -> TableState:
    metadata = Metadata(id="m", schema=from_arrow(schema), configuration=configuration or {}, partition_by=partition_by)
    return TableState(protocol=Protocol(reader=1, writer=2), metadata=metadata)


def part(schema: pa.Schema) -> Batches:
    return Batches(source="an input", schema=schema, read=lambda: iter(()))


def after(
    before: pa.Schema, *given: pa.Schema, mode: SchemaMode = "merge", configuration: Mapping[str, str] | None = None
) -> pa.Schema:
    found = evolve_schema(state(before, configuration), [part(one) for one in given], mode, lambda: "col-x")
    return to_arrow(found.state.metadata.schema)


def fields(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def test_what_fits_changes_nothing() -> None:
    before = state(fields(x=pa.int64()))
    found = evolve_schema(before, [part(fields(X=pa.int32()))], "merge", lambda: "col-x")
    assert (found.state, found.actions) == (before, ())


@pytest.mark.parametrize("mode", ["strict", "merge"])
def test_a_table_without_columns_takes_any(mode: SchemaMode) -> None:
    assert after(pa.schema([]), fields(x=pa.int64()), fields(y=pa.string(), x=pa.int64()), mode=mode) == fields(
        x=pa.int64(), y=pa.string()
    )


@pytest.mark.parametrize("mode", ["strict", "merge"])
def test_a_column_without_a_type_takes_the_first(mode: SchemaMode) -> None:
    assert after(fields(x=pa.null()), fields(x=pa.null()), fields(x=pa.int16()), mode=mode) == fields(x=pa.int16())


def test_strict_adds_nothing() -> None:
    assert after(fields(x=pa.int64()), fields(y=pa.int64()), mode="strict") == fields(x=pa.int64())


def test_new_columns_and_fields_come_last_and_may_be_null() -> None:
    inner = pa.struct([("a", pa.int64())])
    wider = pa.struct([pa.field("b", pa.string(), nullable=False), ("a", pa.int64())])
    before = fields(s=inner, l=pa.list_(inner), m=pa.map_(pa.string(), inner))
    given = pa.schema(
        [pa.field("n", pa.int8(), nullable=False), ("m", pa.map_(pa.string(), wider)), ("l", pa.list_(wider)), ("s", wider)]
    )
    both = pa.struct([("a", pa.int64()), ("b", pa.string())])
    expected = fields(s=both, l=pa.list_(pa.field("element", both)), m=pa.map_(pa.string(), both), n=pa.int8())
    assert after(before, given).equals(expected)


@pytest.mark.parametrize(
    ("own", "given", "wider"),
    [
        (pa.int8(), pa.int32(), pa.int32()),
        (pa.int8(), pa.uint8(), pa.int16()),
        (pa.int32(), pa.uint32(), pa.int64()),
        (pa.int32(), pa.int16(), pa.int32()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int64(), pa.float64(), pa.int64()),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), pa.decimal128(12, 3)),
        (pa.decimal128(10, 2), pa.decimal128(10, 4), pa.decimal128(10, 2)),
        (pa.date32(), pa.timestamp("us"), pa.date32()),
        (pa.string(), pa.int64(), pa.string()),
    ],
)
def test_type_22_delta_types_widen_where_the_table_allows_it_and_never_lose(
    own: pa.DataType, given: pa.DataType, wider: pa.DataType
) -> None:
    assert after(fields(x=own), fields(x=given), configuration=TYPES) == fields(x=wider)
    assert after(fields(x=own), fields(x=given)) == fields(x=own)
    nested = fields(s=pa.struct([("x", own)]))
    assert after(nested, fields(s=pa.struct([("x", given)])), configuration=TYPES) == fields(s=pa.struct([("x", wider)]))


def test_new_columns_of_a_mapped_table_get_ids_and_a_protocol_what_it_needs() -> None:
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "7"}
    found = evolve_schema(state(fields(x=pa.int64()), mapped), [part(fields(t=pa.timestamp("us")))], "merge", lambda: "col-new")
    field = found.state.metadata.schema.field("t")
    assert field is not None
    assert (field.physical_name, field.field_id) == ("col-new", 9)
    assert found.state.metadata.configuration["delta.columnMapping.maxColumnId"] == "9"
    assert "timestampNtz" in found.state.protocol.reader_features
    assert found.actions == (found.state.protocol, found.state.metadata)


def test_an_overwrite_takes_other_columns_but_keeps_the_partition_columns() -> None:
    assert after(fields(x=pa.int64()), fields(y=pa.string()), mode="overwrite") == fields(y=pa.string())
    partitioned = state(fields(p=pa.int64(), x=pa.int64()), partition_by=("p",))
    with pytest.raises(SchemaMismatch, match="'p'"):
        evolve_schema(partitioned, [part(fields(x=pa.int64()))], "overwrite", lambda: "col-x")


def test_what_no_table_holds_is_refused() -> None:
    with pytest.raises(UnsupportedType):
        after(fields(x=pa.int64()), fields(t=pa.time64("us")))
    with pytest.raises(SchemaMismatch, match="a b"):
        after(fields(x=pa.int64()), pa.schema([("a b", pa.int64())]))


def test_schema_modes_are_known_by_name() -> None:
    assert parse_schema_mode("merge", ("strict", "merge")) == "merge"
    with pytest.raises(InvalidOption, match="merge"):
        parse_schema_mode("merg", ("strict", "merge"))
    with pytest.raises(InvalidOption):
        parse_schema_mode("overwrite", ("strict", "merge"))
