"""Convert Delta types to Arrow types, and back.

An Arrow type becomes the Delta type that holds every value of it exactly, or is refused. Zones are not kept: a Delta
`timestamp` is an instant, and comes back in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from gapless.errors import UnsupportedType
from gapless.formats.delta.schema.types import (
    ArrayType,
    DeltaType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    kept_of_last_schemas,
)
from gapless.model.types import EXTENSION_METADATA, EXTENSION_NAME, FIELD_ID, bare_type, children, is_any_list, is_zone

MARK = b"delta.type"
"""Metadata key of an Arrow field whose Delta type Arrow has no type for: `variant`."""
VARIANT = PrimitiveType("variant")
VOID = PrimitiveType("void")

_PRIMITIVES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "variant": pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]),
}
_FROM = {
    **{type_: name for name, type_ in _PRIMITIVES.items() if name not in ("variant", "timestamp", "timestamp_ntz")},
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.date64(): "date",
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_RESERVED = ("delta.columnMapping.", "delta.typeChanges", "delta.identity.", "parquet.field.")
_OWN = frozenset({MARK, FIELD_ID, EXTENSION_NAME, EXTENSION_METADATA})


def decimal_size(type_: DeltaType) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for another type."""
    found = _DECIMAL.fullmatch(type_.name) if isinstance(type_, PrimitiveType) else None
    return None if found is None else (int(found[1]), int(found[2]))


def arrow_type(type_: DeltaType) -> pa.DataType:
    """The Arrow type of a Delta type, children by their logical names."""
    return _arrow_type(type_, _logical)


@kept_of_last_schemas
def to_arrow(schema: StructType) -> pa.Schema:
    """The columns by logical names, nullability and comments kept; a variant is struct<metadata: binary, value: binary>.

    What Delta itself keeps in a column's metadata (`delta.*`, defaults) stays behind; other texts there come along.
    """
    return pa.schema([_logical(field) for field in schema])


def physical_arrow(schema: StructType, *, field_ids: bool) -> pa.Schema:
    """What data files hold: physical names, nested ones too, without `void` columns; with Parquet field ids where asked.

    The schema is that of the columns in the file: leave out the partition columns.
    """

    def physical(field: StructField) -> pa.Field:
        marked = field_ids and field.field_id is not None
        metadata = {FIELD_ID: str(field.field_id).encode()} if marked else None
        return pa.field(field.physical_name, _arrow_type(field.type, physical), field.nullable, metadata)

    return pa.schema([physical(field) for field in schema if field.type != VOID])


def _logical(field: StructField) -> pa.Field:
    texts = {name: value for name, value in field.metadata.items() if isinstance(value, str) and _is_users(name)}
    metadata = {name.encode(): value.encode() for name, value in texts.items()}
    if field.type == VARIANT:
        metadata[MARK] = b"variant"
    return pa.field(field.name, _arrow_type(field.type, _logical), field.nullable, metadata or None)


def holds_variant(field: pa.Field) -> bool:
    """Whether a column of `to_arrow` is a variant, or has one in it."""
    marked = field.metadata is not None and field.metadata.get(MARK) == b"variant"
    return marked or any(map(holds_variant, children(field.type)))


def _is_users(name: str) -> bool:
    return not name.startswith(("delta.", "parquet.field.", "__")) and name not in ("CURRENT_DEFAULT", "EXISTS_DEFAULT")


def _arrow_type(type_: DeltaType, child: Callable[[StructField], pa.Field]) -> pa.DataType:
    match type_:
        case PrimitiveType():
            return _primitive(type_)
        case ArrayType():
            return pa.list_(_marked("element", type_.element, child, nullable=type_.contains_null))
        case MapType():
            key = _marked("key", type_.key, child, nullable=False)
            return pa.map_(key, _marked("value", type_.value, child, nullable=type_.contains_null))
        case StructType():
            physical = child is not _logical
            return pa.struct([child(field) for field in type_ if not (physical and field.type == VOID)])


def _marked(name: str, type_: DeltaType, child: Callable[[StructField], pa.Field], *, nullable: bool) -> pa.Field:
    mark = {MARK: b"variant"} if type_ == VARIANT and child is _logical else None
    return pa.field(name, _arrow_type(type_, child), nullable, mark)


@lru_cache(256)
def _primitive(type_: PrimitiveType) -> pa.DataType:
    size = decimal_size(type_)
    return _PRIMITIVES[type_.name] if size is None else pa.decimal128(*size)


def from_arrow(schema: pa.Schema) -> StructType:
    """The Delta schema that holds every value of an Arrow schema exactly; raises UnsupportedType naming the column.

    Unsigned integers become the next wider type, float16 a float, naive timestamps `timestamp_ntz`, null `void`; dictionaries,
    views, large and fixed-size types become plain. Names of list and map children do not count. Text metadata of fields stays,
    `comment` above all; so do `delta.generationExpression`, `delta.invariants` and `CURRENT_DEFAULT`.
    """
    return _from_fields(list(schema), "")


def from_arrow_field(field: pa.Field, where: str | None = None) -> StructField:
    """The column that holds every value of an Arrow field exactly; `where` is its dotted path, its name if it is None."""
    path = field.name if where is None else where
    return StructField(
        name=field.name,
        type=_from_type(field, path),
        nullable=field.nullable,
        metadata=_metadata(field.metadata or {}),
    )


def _from_fields(fields: list[pa.Field], where: str) -> StructType:
    known: dict[str, str] = {}
    for field in fields:
        name, path = field.name, f"{where}{field.name}"
        if not name or "\0" in name:
            raise _unsupported(path, field.type, "A column needs a name, without NUL", "Rename it")
        if name.lower() in known:
            why = f"Delta tells no columns apart by case, and there is a {known[name.lower()]!r} too"
            raise _unsupported(path, field.type, why, "Rename one of them")
        known[name.lower()] = name
    return StructType(fields=tuple(from_arrow_field(field, f"{where}{field.name}") for field in fields))


def _metadata(raw: dict[bytes, bytes]) -> dict[str, str]:
    kept = {}
    for key, value in raw.items():
        if key in _OWN:
            continue
        try:
            name, text = key.decode(), value.decode()
        except UnicodeDecodeError:
            continue
        if not name.startswith(_RESERVED):
            kept[name] = text
    return kept


def _from_type(field: pa.Field, where: str) -> DeltaType:
    if (field.metadata or {}).get(MARK) == b"variant":
        return _variant(field, where)
    type_ = bare_type(field.type)
    if pa.types.is_struct(type_):
        if not type_.num_fields:
            raise _unsupported(where, field.type, "Parquet cannot hold a struct without fields", "Leave it out")
        return _from_fields(list(type_), f"{where}.")
    if is_any_list(type_):
        return ArrayType(element=_child(type_.value_field, f"{where}.element"), contains_null=type_.value_field.nullable)
    if pa.types.is_map(type_):
        key, value = _child(type_.key_field, f"{where}.key"), _child(type_.item_field, f"{where}.value")
        return MapType(key=key, value=value, contains_null=type_.item_field.nullable)
    return PrimitiveType(_leaf(type_, where))


def _child(field: pa.Field, where: str) -> DeltaType:
    found = _from_type(field, where)
    if found == VOID:
        raise _unsupported(where, field.type, "Delta has no lists or maps of void", "Cast it to the type it is to have")
    return found


def _variant(field: pa.Field, where: str) -> DeltaType:
    names = sorted(child.name for child in field.type) if pa.types.is_struct(field.type) else []
    if names != ["metadata", "value"] or any(bare_type(child.type) != pa.binary() for child in field.type):
        fix = "Pass a struct<metadata: binary, value: binary>"
        raise _unsupported(where, field.type, "Its field is marked as a variant, but has another form", fix)
    return VARIANT


def _leaf(type_: pa.DataType, where: str) -> str:
    if pa.types.is_timestamp(type_):
        return _timestamp(type_, where)
    if pa.types.is_decimal(type_):
        return _decimal(type_, where)
    if pa.types.is_fixed_size_binary(type_):
        return "binary"
    found = _FROM.get(type_)
    if found is None:
        raise _unsupported(where, type_, "Delta has no such type", _FIXES.get(type_.id, "Cast it to a type that Delta has"))
    return found


def _timestamp(type_: pa.DataType, where: str) -> str:
    zone = "" if type_.tz is None else f', "{type_.tz}"'
    if type_.unit == "ns":
        fix = f'Cast it to pa.timestamp("us"{zone}), or keep the nanoseconds in an int64'
        raise _unsupported(where, type_, "Delta's timestamps are whole microseconds", fix)
    if type_.tz is not None and not is_zone(type_.tz):
        fix = "Cast it to a zone of the IANA database, or UTC"
        raise _unsupported(where, type_, f"The time zone {type_.tz!r} is not known", fix)
    return "timestamp_ntz" if type_.tz is None else "timestamp"


def _decimal(type_: pa.DataType, where: str) -> str:
    if type_.precision > 38 or not 0 <= type_.scale <= type_.precision:
        why = "Delta's decimals have at most 38 digits, and a scale between 0 and that"
        raise _unsupported(where, type_, why, "Cast it to a decimal128 of such a size, or to a string")
    return f"decimal({type_.precision},{type_.scale})"


_TIMES = "Cast it to int64, or to a timestamp with its day"
_FIXES = {
    pa.time32("s").id: _TIMES,
    pa.time64("us").id: _TIMES,
    pa.duration("s").id: "Cast it to int64",
    pa.month_day_nano_interval().id: "Split it into columns of integers",
}


def _unsupported(where: str, type_: pa.DataType, why: str, fix: str) -> UnsupportedType:
    return UnsupportedType(
        f"column {where!r} of type {type_} cannot be in a Delta table", why=why, fix=fix, column=where, type=str(type_)
    )
