"""Encode and decode a table's schema as protocol 7's `logical_schema` (docs/spec/timeseries.md).

Each column, and each nested field, has protocol 7's own type: the exact one, or the next wider one that reads our files
right. Where that is not the declared type, the field carries it as `gapless_type`, a text such as "int8" or
"timestamp[ms, tz=Europe/Paris]". Metadata lies under `gapless_metadata`: protocol 7's `metadata` would have to be
repeated in every file. Columns of unknown type are listed in `pending`, since protocol 7 has no type for them; once known
they are at the end of `columns`, the one place where it lets columns be added, with their `position` in the schema.

Column identities are further keys: `gapless_stored` is a field's stored name where that is not its name, `gapless_former` its earlier
names, `gapless_default` what rows without it have, and `gapless_retired`, of a struct and of the whole, the stored names that no new field of
it may take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from gapless.errors import CorruptTable, UnknownColumn, UnsupportedTable
from gapless.formats.timeseries.codec.json_values import decode_bound, encode_bound, parse_type, type_name
from gapless.model.column_ids import PLAIN, ColumnIds, ColumnPath, find_field
from gapless.model.stats import Bound, arrow_scalar
from gapless.model.types import UTC, children, is_any_list, normal_zone

COLUMNS_FEATURE = "gapless_columns"
"""Reader feature of a table whose columns have changed in a way that protocol 7 cannot say."""


def encode_identity(ids: ColumnIds, path: ColumnPath) -> dict[str, object]:
    """The keys of the field at a path; of the whole schema for `()`."""
    found: dict[str, object] = {}
    if path in ids.stored:
        found["gapless_stored"] = ids.stored[path]
    if ids.former.get(path):
        found["gapless_former"] = list(ids.former[path])
    if path in ids.defaults:
        found["gapless_default"] = encode_bound(ids.defaults[path])
    if ids.retired.get(path):
        found["gapless_retired"] = sorted(ids.retired[path])
    return found


def decode_identities(obj: Mapping[str, Any], schema: pa.Schema) -> ColumnIds:
    """The identities that a `logical_schema` says; `schema` is what it says of types.

    Raises ValueError, LookupError, TypeError, UnknownColumn or an error of Arrow where they are no identities of such columns.
    """
    bodies = dict(_fields(obj))
    ids = ColumnIds(
        stored={path: _name(body["gapless_stored"]) for path, body in bodies.items() if "gapless_stored" in body},
        former={path: tuple(map(_name, body["gapless_former"])) for path, body in bodies.items() if "gapless_former" in body},
        defaults={
            path: _default(body["gapless_default"], find_field(schema, path))
            for path, body in bodies.items()
            if "gapless_default" in body
        },
        retired={
            path: frozenset(map(_name, body["gapless_retired"])) for path, body in bodies.items() if "gapless_retired" in body
        },
    )
    _check_distinct(pa.struct(list(ids.physical_schema(schema))))
    return ids


def _fields(obj: Mapping[str, Any]) -> Iterator[tuple[ColumnPath, Mapping[str, Any]]]:
    yield (), obj
    for column in [*obj["columns"], *obj.get("pending", ())]:
        yield from _nested(column, (str(column["name"]),))


def _nested(body: Mapping[str, Any], path: ColumnPath) -> Iterator[tuple[ColumnPath, Mapping[str, Any]]]:
    yield path, body
    match body.get("data_type"):
        case {"Struct": {"fields": fields}}:
            for child in fields:
                yield from _nested(child, (*path, str(child["name"])))
        case {"List": {"elements": element}}:
            yield from _nested(element, (*path, "element"))
        case {"Map": {"key": key, "value": value}}:
            yield from _nested(key, (*path, "key"))
            yield from _nested(value, (*path, "value"))


def _name(text: object) -> str:
    if not isinstance(text, str) or not text:
        raise TypeError(f"{text!r} is no name")
    return text


def _default(raw: object, column: pa.Field) -> Bound:
    bound = decode_bound(raw)
    if bound is None:
        raise ValueError(f"{raw!r} is no default")
    arrow_scalar(bound, column.type)
    return bound


def _check_distinct(type_: pa.DataType) -> None:
    names = [child.name for child in children(type_)]
    if pa.types.is_struct(type_) and len(set(names)) < len(names):
        raise ValueError(f"two fields have one stored name: {names}")
    for child in children(type_):
        _check_distinct(child.type)


TYPES_FEATURE = "gapless_types"
ADD_COLUMNS_FEATURE = "schema_add_columns"
METADATA_FEATURE = "schema_metadata"
"""Metadata lies under protocol 7's own key, and every file repeats it: only in tables that another writer made so."""

_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "Bool", pa.int32(): "Int32", pa.int64(): "Int64", pa.uint64(): "UInt64", pa.float32(): "Float32",
    pa.float64(): "Float64", pa.binary(): "Binary", pa.string(): "Utf8",
}  # fmt: skip
_OURS = ("gapless_metadata", "gapless_metadata_hex")
_TYPES = {name: type_ for type_, name in _NAMES.items()}
_WIDER: dict[pa.DataType, str] = {
    pa.int8(): "Int32", pa.int16(): "Int32", pa.uint8(): "Int32", pa.uint16(): "Int32", pa.uint32(): "Int64",
}  # fmt: skip
_UNITS = {"Millis": "ms", "Micros": "us", "Nanos": "ns"}
_UNIT_NAMES = {unit: name for name, unit in _UNITS.items()} | {"s": "Micros"}


def encode_schema(schema: pa.Schema, written: Mapping[str, Any] | None = None, ids: ColumnIds = PLAIN) -> dict[str, Any]:
    """The `logical_schema` object of a table's schema of declared types.

    What an earlier commit has `written` stays as it is, but for our metadata and places; columns it did not know (see
    `pending`) follow it, with their place. A schema that did not come from it by new columns cannot be said so: see `grown_schema`.
    """
    before: Mapping[str, Any] = written or {"columns": []}
    known = {column["name"] for column in before["columns"]}
    late = [(position, field) for position, field in enumerate(schema) if field.name not in known]
    columns = [
        _encode_field(field, ids, (field.name,)) | ({"position": position} if written else {})
        for position, field in late
        if not pa.types.is_null(field.type)
    ]
    pending = [
        {"position": position, **_encode_pending(field), **encode_identity(ids, (field.name,))}
        for position, field in late
        if pa.types.is_null(field.type)
    ]
    kept = {key: value for key, value in before.items() if key not in ("pending", *_OURS)}
    said = _encode_metadata(schema.metadata, kept.get("metadata"))
    stay = [_restate(column, schema) for column in before["columns"]]
    whole = {**kept, **said, **encode_identity(ids, ()), "columns": [*stay, *columns]}
    return whole | ({"pending": pending} if pending else {})


def grown_schema(schema: pa.Schema, written: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `encode_schema` makes of what was `written`; None where the schema did not come from that by new columns alone."""
    grown = encode_schema(schema, written)
    return grown if decode_schema(grown).equals(schema, check_metadata=True) else None


def _restate(column: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """A column as it was written, with its metadata and its place of now."""
    at = schema.get_field_index(column["name"])
    if at < 0:
        return dict(column)
    place = {"position": at} if "position" in column else {}
    return _with_metadata(column, schema.field(at)) | place


def _with_metadata(body: Mapping[str, Any], field: pa.Field) -> dict[str, Any]:
    kept = {key: value for key, value in body.items() if key not in _OURS}
    data_type, nested = body["data_type"], list(children(field.type))
    match data_type:
        case {"Struct": {"fields": fields}} if len(fields) == len(nested):
            kept["data_type"] = {"Struct": {"fields": [_with_metadata(*pair) for pair in zip(fields, nested, strict=True)]}}
        case {"List": {"elements": element}} if nested:
            kept["data_type"] = {"List": {"elements": _with_metadata(element, nested[0])}}
        case {"Map": {"key": key, "value": dict(value)}} if len(nested) == len(("key", "value")):
            changed = {"key": _with_metadata(key, nested[0]), "value": _with_metadata(value, nested[1])}
            kept["data_type"] = {"Map": {**data_type["Map"], **changed}}
    return kept | _encode_metadata(field.metadata, body.get("metadata"))


def schema_features(schema: pa.Schema, written: Mapping[str, Any] | None = None) -> frozenset[str]:
    """The reader features that a schema needs.

    "gapless_types" where protocol 7 would read a column wrong or not at all; its own "schema_add_columns" where columns came
    after what an earlier commit has `written`.
    """
    features = {TYPES_FEATURE} if any(_is_foreign(field.type) for field in schema) else set()
    if written is not None and len(encode_schema(schema, written)["columns"]) > len(written["columns"]):
        features.add(ADD_COLUMNS_FEATURE)
    return frozenset(features)


def _is_foreign(type_: pa.DataType) -> bool:
    """Whether protocol 7 has no type, not even a wider one, that reads this one's files right."""
    t = pa.types
    return (
        any(kind(type_) for kind in (t.is_float16, t.is_date, t.is_time, t.is_duration, t.is_large_list, t.is_fixed_size_list))
        or any(_is_foreign(child.type) for child in children(type_))
    )  # fmt: skip


def _encode_pending(field: pa.Field) -> dict[str, object]:
    return {"name": field.name, **_encode_metadata(field.metadata)}


def _encode_field(field: pa.Field, ids: ColumnIds = PLAIN, path: ColumnPath = ()) -> dict[str, object]:
    data_type = _encode_type(field.type, ids, path)
    body: dict[str, object] = {"name": field.name, "data_type": data_type, "nullable": field.nullable}
    exact = _decode_type(data_type).equals(field.type)
    named = {} if exact else {"gapless_type": type_name(field.type)}
    return body | named | _encode_metadata(field.metadata) | encode_identity(ids, path)


def _encode_type(type_: pa.DataType, ids: ColumnIds = PLAIN, path: ColumnPath = ()) -> object:
    t = pa.types
    if type_ in _NAMES or type_ in _WIDER:
        return _NAMES.get(type_) or _WIDER[type_]
    if t.is_timestamp(type_):
        return {"Timestamp": {"unit": _UNIT_NAMES[type_.unit], "timezone": UTC if type_.tz else None}}
    if t.is_decimal(type_):
        return {"Decimal": {"precision": type_.precision, "scale": type_.scale}}
    if t.is_fixed_size_binary(type_):
        return {"FixedBinary": {"byte_width": type_.byte_width}}
    if t.is_struct(type_):
        return {"Struct": {"fields": [_encode_field(child, ids, (*path, child.name)) for child in type_]}}
    if is_any_list(type_):
        return {"List": {"elements": _encode_field(type_.value_field, ids, (*path, "element"))}}
    if t.is_map(type_):
        key, value = children(type_)
        sides = {"key": _encode_field(key, ids, (*path, "key")), "value": _encode_field(value, ids, (*path, "value"))}
        return {"Map": {**sides, "keys_sorted": type_.keys_sorted}}
    # Nobody reads this: the reader feature keeps protocol 7's readers out.
    return "Float32" if t.is_float16(type_) else "Int64"


def _encode_metadata(metadata: Mapping[bytes, bytes] | None, theirs: Mapping[str, str] | None = None) -> dict[str, object]:
    """Metadata as texts where it is UTF-8, else as hexadecimal digits; without what another writer's key says already."""
    said = {key.encode(): value.encode() for key, value in (theirs or {}).items()}
    texts: dict[str, str] = {}
    raw: dict[str, str] = {}
    for key, value in (metadata or {}).items():
        if said.get(key) == value:
            continue
        try:
            texts[key.decode()] = value.decode()
        except UnicodeDecodeError:
            raw[key.hex()] = value.hex()
    return {key: found for key, found in (("gapless_metadata", texts), ("gapless_metadata_hex", raw)) if found}


def decode_schema(obj: Mapping[str, Any], path: str = "") -> pa.Schema:
    """A table's schema from its `logical_schema`; `path` is the commit's, for messages.

    Raises UnsupportedTable for a type that this release does not know, CorruptTable for anything that is no such object.
    """
    return decode_columns(obj, path)[0]


def decode_columns(obj: Mapping[str, Any], path: str = "") -> tuple[pa.Schema, ColumnIds]:
    """The schema and the identities of its columns; see `decode_schema`."""
    try:
        fields = [_decode_field(column) for column in obj["columns"] if "position" not in column]
        placed = [(int(column["position"]), _decode_field(column)) for column in obj["columns"] if "position" in column]
        placed += [(int(column["position"]), _decode_pending(column)) for column in obj.get("pending", ())]
        for position, field in sorted(placed, key=lambda place: place[0]):
            fields.insert(position, field)
        schema = _whole(fields, _decode_metadata(obj))
        return schema, decode_identities(obj, schema)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, UnknownColumn, pa.ArrowException) as error:
        raise CorruptTable(
            f"the table's schema cannot be read: {type(error).__name__}: {error}",
            why=f"{path or 'The commit'} holds no logical_schema as the format describes it",
            fix="Bring the file back from a backup",
            path=path,
        ) from error


def _decode_pending(body: Mapping[str, Any]) -> pa.Field:
    return pa.field(str(body["name"]), pa.null(), metadata=_decode_metadata(body))


def _whole(fields: list[pa.Field], metadata: dict[bytes, bytes] | None) -> pa.Schema:
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise ValueError("two columns have one name")
    return pa.schema(fields, metadata=metadata)


def _decode_field(body: Mapping[str, Any]) -> pa.Field:
    type_ = _decode_type(body["data_type"])
    if "gapless_type" in body:
        type_ = parse_type(body["gapless_type"], next(iter(children(type_)), None))
        _check_kept(type_, body["data_type"])
    nullable = body["nullable"]
    if not isinstance(nullable, bool):
        raise TypeError(f"nullable is {nullable!r} for {body['name']!r}")
    return pa.field(str(body["name"]), type_, nullable, metadata=_decode_metadata(body))


def _check_kept(type_: pa.DataType, data_type: object) -> None:
    """Refuse a `gapless_type` that says something other than the type beside it, as another writer's change would leave it."""
    said = _encode_type(type_)
    if not is_any_list(type_) and said != data_type:
        raise ValueError(f"gapless_type {type_name(type_)} stands beside {data_type!r}")


def _decode_type(data_type: Any) -> pa.DataType:
    if isinstance(data_type, str):
        if data_type not in _TYPES:
            raise _unsupported(data_type)
        return _TYPES[data_type]
    ((kind, body),) = data_type.items()
    decode = _DECODERS.get(kind)
    if decode is None:
        raise _unsupported(kind)
    return decode(body)


def _decode_timestamp(body: Mapping[str, Any]) -> pa.DataType:
    return pa.timestamp(_UNITS[body["unit"]], normal_zone(body.get("timezone")))


def _decode_decimal(body: Mapping[str, Any]) -> pa.DataType:
    precision, scale = body["precision"], body["scale"]
    return pa.decimal256(precision, scale) if precision > 38 else pa.decimal128(precision, scale)


def _decode_map(body: Mapping[str, Any]) -> pa.DataType:
    if body["value"] is None:
        raise _unsupported("Map without values")
    key, value = _decode_field(body["key"]), _decode_field(body["value"])
    return pa.map_(key, value, keys_sorted=bool(body.get("keys_sorted", False)))


_DECODERS = {
    "Timestamp": _decode_timestamp,
    "Decimal": _decode_decimal,
    "FixedBinary": lambda body: pa.binary(int(body["byte_width"])),
    "Struct": lambda body: pa.struct([_decode_field(child) for child in body["fields"]]),
    "List": lambda body: pa.list_(_decode_field(body["elements"])),
    "Map": _decode_map,
}


def _decode_metadata(body: Mapping[str, Any]) -> dict[bytes, bytes] | None:
    """Ours, and what other writers put under protocol 7's own key."""
    return dict(_metadata_items(body)) or None


def _metadata_items(body: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    for key in ("metadata", "gapless_metadata"):
        yield from ((name.encode(), value.encode()) for name, value in body.get(key, {}).items())
    yield from ((bytes.fromhex(k), bytes.fromhex(v)) for k, v in body.get("gapless_metadata_hex", {}).items())


def _unsupported(name: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"a column of the table has the type {name}",
        why="This release does not know that type, and would read wrong values",
        fix="Open the table with the release that wrote it, or a newer gapless",
        needs=name,
    )
