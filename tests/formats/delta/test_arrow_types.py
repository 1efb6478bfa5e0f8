"""Delta's types as Arrow's and back: exact, or refused with the column's name."""

from __future__ import annotations

from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given

from gapless.errors import UnsupportedType
from gapless.formats.delta.schema.arrow_types import MARK, VARIANT, VOID, arrow_type, from_arrow, physical_arrow, to_arrow
from gapless.formats.delta.schema.column_mapping import assign
from gapless.formats.delta.schema.types import (
    ArrayType,
    DeltaType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    encode_schema,
)
from support.delta_strategies import schemas


def _bare(type_: DeltaType) -> DeltaType:
    """A type without the metadata of its fields."""
    match type_:
        case StructType():
            return StructType(fields=tuple(StructField(name=f.name, type=_bare(f.type), nullable=f.nullable) for f in type_))
        case ArrayType():
            return ArrayType(element=_bare(type_.element), contains_null=type_.contains_null)
        case MapType():
            return MapType(key=_bare(type_.key), value=_bare(type_.value), contains_null=type_.contains_null)
    return type_


@given(schemas.filter(lambda schema: all(schema.names)))
def test_a_schema_comes_back_through_arrow(schema: StructType) -> None:
    schema = _named(schema)
    assert _bare(from_arrow(to_arrow(schema))) == _bare(schema)


def _named(type_: Any) -> Any:
    """Empty names filled in, which only the log may have."""
    match type_:
        case StructType():
            fields = [
                StructField(name=f.name or "x", type=_named(f.type), nullable=f.nullable, metadata=f.metadata) for f in type_
            ]
            unique = {f.name.lower(): f for f in fields}
            return StructType(fields=tuple(unique.values()))
        case ArrayType():
            return ArrayType(element=_named(type_.element), contains_null=type_.contains_null)
        case MapType():
            return MapType(key=_named(type_.key), value=_named(type_.value), contains_null=type_.contains_null)
    return type_


SHARED = pa.schema(
    [
        pa.field("b", pa.bool_(), nullable=False),
        ("i8", pa.int8()), ("i16", pa.int16()), ("i32", pa.int32()), ("i64", pa.int64()),
        ("f", pa.float32()), ("d", pa.float64()), ("dec", pa.decimal128(38, 10)),
        ("s", pa.string()), ("bin", pa.binary()), ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")), ("tn", pa.timestamp("us")),
        ("l", pa.list_(pa.field("element", pa.struct([pa.field("x", pa.int64(), nullable=False)]), nullable=False))),
        ("m", pa.map_(pa.string(), pa.field("value", pa.list_(pa.int8()), nullable=True))),
    ]
)  # fmt: skip


def test_arrow_types_are_those_of_deltalake() -> None:
    """Its Arrow schema of the same Delta schema, by its own reading of ours."""
    theirs = pa.schema(deltalake.Schema.from_json(encode_schema(from_arrow(SHARED))).to_arrow())
    plain = {"string_view": pa.string(), "binary_view": pa.binary()}
    for one, other in zip(to_arrow(from_arrow(SHARED)), theirs, strict=True):
        assert one.name == other.name
        assert one.nullable == other.nullable
        assert one.type == plain.get(str(other.type), other.type)
    assert to_arrow(from_arrow(SHARED)) == SHARED


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.uint8(), "short"),
        (pa.uint16(), "integer"),
        (pa.uint32(), "long"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.date64(), "date"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.large_binary(), "binary"),
        (pa.binary_view(), "binary"),
        (pa.binary(16), "binary"),
        (pa.uuid(), "binary"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "long"),
        (pa.decimal256(38, 4), "decimal(38,4)"),
        (pa.decimal32(5, 2), "decimal(5,2)"),
        (pa.timestamp("s", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("ms", "+02:00"), "timestamp"),
        (pa.timestamp("us", "Etc/UTC"), "timestamp"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.null(), "void"),
    ],
)
def test_other_arrow_types_become_one_that_holds_all_their_values(arrow: pa.DataType, delta: str) -> None:
    assert from_arrow(pa.schema([("x", arrow)])).fields[0].type == PrimitiveType(delta)


@pytest.mark.parametrize(
    ("arrow", "fix"),
    [
        (pa.timestamp("ns", "UTC"), 'pa.timestamp("us", "UTC")'),
        (pa.timestamp("ns"), 'pa.timestamp("us")'),
        (pa.timestamp("us", "Mars/Olympus"), "IANA"),
        (pa.time32("s"), "int64"),
        (pa.time64("us"), "int64"),
        (pa.duration("us"), "int64"),
        (pa.month_day_nano_interval(), "columns of integers"),
        (pa.decimal256(39, 0), "decimal128"),
        (pa.decimal128(10, -2), "decimal128"),
        (pa.struct([]), "Leave it out"),
        (pa.list_(pa.null()), "the type it is to have"),
        (pa.map_(pa.string(), pa.null()), "the type it is to have"),
        (pa.dense_union([pa.field("a", pa.int8())]), "a type that Delta has"),
    ],
)
@pytest.mark.parametrize(
    "wrap", [lambda t: t, lambda t: pa.struct([pa.field("in", t)]), lambda t: pa.list_(pa.struct([("in", t)]))]
)
def test_what_delta_has_not_is_refused_by_name(arrow: pa.DataType, fix: str, wrap: object) -> None:
    assert callable(wrap)
    with pytest.raises(UnsupportedType, match="column 'odd") as caught:
        from_arrow(pa.schema([("fine", pa.int64()), ("odd", wrap(arrow))]))
    assert fix in caught.value.fix
    assert caught.value.column.startswith("odd")


def test_type_06_delta_names_of_list_and_map_children_do_not_count() -> None:
    item = pa.struct([("x", pa.list_(pa.field("item", pa.int64())))])
    other = pa.struct([("x", pa.list_(pa.field("element", pa.int64())))])
    one = pa.schema([("l", pa.list_(pa.field("item", item)))])
    two = pa.schema([("l", pa.large_list(pa.field("array", other)))])
    assert from_arrow(one) == from_arrow(two)
    named = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64()))
    assert from_arrow(pa.schema([("m", named)])) == from_arrow(pa.schema([("m", pa.map_(pa.string(), pa.int64()))]))


def test_type_19_delta_twins_and_empty_names_are_refused() -> None:
    for names in (["a", "A"], [""], ["a\0b"]):
        with pytest.raises(UnsupportedType):
            from_arrow(pa.schema([(name, pa.int64()) for name in names]))
        with pytest.raises(UnsupportedType):
            from_arrow(pa.schema([("s", pa.struct([(name, pa.int64()) for name in names]))]))


def test_metadata_of_users_stays_and_that_of_engines_goes() -> None:
    field = pa.field(
        "x",
        pa.int64(),
        metadata={"comment": "Größe", "unit": "m", "PARQUET:field_id": "7", "delta.columnMapping.id": "9", b"raw": b"\xff"},
    )
    (found,) = from_arrow(pa.schema([field]))
    assert found.metadata == {"comment": "Größe", "unit": "m"}
    kept = StructField(
        name="x",
        type=PrimitiveType("long"),
        metadata={
            "comment": "Größe",
            "n": 1,
            "delta.columnMapping.id": 3,
            "delta.columnMapping.physicalName": "col-1",
            "CURRENT_DEFAULT": "1",
            "delta.generationExpression": "1",
        },
    )
    assert to_arrow(StructType(fields=(kept,))).field(0).metadata == {b"comment": "Größe".encode()}
    declared = pa.field("x", pa.int64(), metadata={"delta.generationExpression": "y + 1", "CURRENT_DEFAULT": "0"})
    assert from_arrow(pa.schema([declared])).fields[0].metadata == {
        "delta.generationExpression": "y + 1",
        "CURRENT_DEFAULT": "0",
    }


def test_a_variant_is_a_marked_struct_at_every_level() -> None:
    fields = (
        StructField(name="v", type=VARIANT),
        StructField(name="l", type=ArrayType(element=VARIANT)),
        StructField(name="m", type=MapType(key=PrimitiveType("string"), value=VARIANT)),
        StructField(name="s", type=StructType(fields=(StructField(name="v", type=VARIANT),))),
    )
    schema = StructType(fields=fields)
    arrow = to_arrow(schema)
    assert arrow.field("v").metadata == {MARK: b"variant"}
    assert [child.name for child in arrow.field("v").type] == ["metadata", "value"]
    assert from_arrow(arrow) == schema
    assert from_arrow(arrow.remove_metadata()).fields[0].type == VARIANT
    bare = pa.schema([pa.field("v", pa.struct([("metadata", pa.binary()), ("value", pa.binary())]))])
    assert isinstance(from_arrow(bare).fields[0].type, StructType)
    with pytest.raises(UnsupportedType, match="marked as a variant"):
        from_arrow(pa.schema([pa.field("v", pa.int64(), metadata={MARK: b"variant"})]))


def test_physical_columns_have_physical_names_and_ids_and_no_voids() -> None:
    inner = StructType(fields=(StructField(name="a", type=PrimitiveType("long")), StructField(name="n", type=VOID)))
    schema = StructType(
        fields=(
            StructField(name="s", type=inner, nullable=False),
            StructField(name="l", type=ArrayType(element=inner)),
            StructField(name="n", type=VOID),
        )
    )
    names = iter(f"col-{number}" for number in range(9))
    mapped, _ = assign(schema, "id", 0, lambda: next(names))
    arrow = physical_arrow(mapped, field_ids=True)
    assert arrow.names == ["col-0", "col-3"]
    assert [field.metadata for field in arrow] == [{b"PARQUET:field_id": b"1"}, {b"PARQUET:field_id": b"4"}]
    assert not arrow.field(0).nullable
    assert [child.name for child in arrow.field(0).type] == ["col-1"]
    assert arrow.field(0).type.field(0).metadata == {b"PARQUET:field_id": b"2"}
    assert [child.name for child in arrow.field(1).type.value_type] == ["col-4"]
    assert all(field.metadata is None for field in physical_arrow(mapped, field_ids=False))
    assert physical_arrow(schema, field_ids=True).names == ["s", "l"]


def test_every_primitive_has_its_arrow_type() -> None:
    assert arrow_type(PrimitiveType("decimal(5,2)")) == pa.decimal128(5, 2)
    assert arrow_type(PrimitiveType("timestamp")) == pa.timestamp("us", "UTC")
    assert arrow_type(VOID) == pa.null()
