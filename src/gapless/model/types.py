"""Column types: which a table can declare, and how each is stored.

A *declared* type is what comes back to the reader. The *stored* type is what Parquet files hold: the declared type where
Parquet and other readers have it as it is, else the nearest one that holds every value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa

from gapless.errors import UnsupportedType

UTC = "UTC"
_UTC_NAMES = frozenset(
    {
        "UTC", "utc", "Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu", "Z", "z",
        "+00:00", "-00:00", "+0000", "-0000", "+00", "-00",
    }
)  # fmt: skip
_OFFSET = re.compile(r"[+-](?:[01]\d|2[0-3]):[0-5]\d")
FIELD_ID = b"PARQUET:field_id"
EXTENSION_NAME, EXTENSION_METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_BARE_EXTENSIONS = frozenset({"arrow.uuid", "arrow.json", "arrow.bool8"})

_PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_UNPARAMETRIC = frozenset(
    {
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.date64(),
        pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
        pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns"),
    }
)  # fmt: skip
# Before pyarrow 26 a file with null fixed-size lists is written or refused by chance, and not read back: there they are stored as lists, which
# are the same in Parquet but for the Arrow schema beside them.
_READS_FIXED_SIZE_NULLS = int(pa.__version__.partition(".")[0]) >= 26


def normal_zone(zone: str | None) -> str | None:
    """The zone's name as tables declare it: every spelling of UTC is "UTC", any other name stays.

    >>> normal_zone("+00:00")
    'UTC'
    """
    return UTC if zone in _UTC_NAMES else zone


def is_zone(zone: str) -> bool:
    """Whether a timestamp's zone is an IANA name or an offset `+hh:mm`."""
    if zone in _UTC_NAMES or _OFFSET.fullmatch(zone):
        return True
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return False
    return True


def bare_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values alone: dictionaries, runs and extensions opened, large and view texts plain."""
    while True:
        if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
            type_ = type_.value_type
        elif isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        else:
            return _PLAIN.get(type_, type_)


def is_any_list(type_: pa.DataType) -> bool:
    """Whether a type is a list of any kind: plain, large, fixed-size or a view (a map is none)."""
    t = pa.types
    kinds = (t.is_list, t.is_large_list, t.is_fixed_size_list, t.is_list_view, t.is_large_list_view)
    return any(holds(type_) for holds in kinds)


def children(type_: pa.DataType) -> Iterator[pa.Field]:
    """The child fields of a nested type; none of a leaf."""
    if not type_.num_fields:
        return
    if pa.types.is_struct(type_):
        yield from type_
    elif pa.types.is_map(type_):
        yield from (type_.key_field, type_.item_field)
    elif is_any_list(type_):
        yield type_.value_field


def has_metadata(field: pa.Field) -> bool:
    """Whether a field, or one nested in it, carries metadata."""
    return bool(field.metadata) or any(has_metadata(child) for child in children(field.type))


def with_children(type_: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """The same type with every child field changed; list views become lists, a map's children "key" and "value"."""
    changed = [change(child) for child in children(type_)]
    if pa.types.is_struct(type_):
        return pa.struct(changed)
    if pa.types.is_map(type_):
        key, item = changed
        return pa.map_(key.with_name("key").with_nullable(False), item.with_name("value"), keys_sorted=type_.keys_sorted)
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(changed[0], type_.list_size)
    if pa.types.is_large_list(type_) or pa.types.is_large_list_view(type_):
        return pa.large_list(changed[0])
    return pa.list_(changed[0]) if changed else type_


def declared_field(field: pa.Field, path: str | None = None) -> pa.Field:
    """The field that a table declares for an input's field, nested ones too; raises UnsupportedType, naming the column.

    A top-level column of type null stays null: its type is not known yet. Extension types become their storage type and
    leave their name in the field's metadata, under Arrow's own keys.
    """
    where = field.name if path is None else path
    if pa.types.is_null(bare_type(field.type)) and path is None:
        return pa.field(field.name, pa.null(), metadata=_kept_metadata(field, where))
    _check_supported(bare_type(field.type), where)
    nested = with_children(bare_type(field.type), lambda child: declared_field(child, f"{where}.{child.name}"))
    if pa.types.is_timestamp(nested):
        nested = pa.timestamp(nested.unit, normal_zone(nested.tz))
    return pa.field(field.name, nested, field.nullable, _kept_metadata(field, where))


def _kept_metadata(field: pa.Field, where: str) -> dict[bytes, bytes] | None:
    kept = {key: value for key, value in (field.metadata or {}).items() if key != FIELD_ID}
    if isinstance(field.type, pa.BaseExtensionType):
        kept |= {EXTENSION_NAME: field.type.extension_name.encode(), EXTENSION_METADATA: _parameters(field.type, where)}
    return kept or None


def _parameters(type_: pa.DataType, where: str) -> bytes:
    if isinstance(type_, pa.ExtensionType):
        return bytes(type_.__arrow_ext_serialize__())
    if type_.extension_name in _BARE_EXTENSIONS:
        return b""
    raise _unsupported(where, type_, "The parameters of this extension type cannot be kept", f"Cast it to {type_.storage_type}")


def _unsupported(where: str, type_: pa.DataType, why: str, fix: str) -> UnsupportedType:
    return UnsupportedType(
        f"column {where!r} has type {type_}, which no table can hold", why=why, fix=fix, column=where, type=str(type_)
    )


def _check_supported(type_: pa.DataType, where: str) -> None:
    """Raise UnsupportedType where the outermost type cannot be stored."""
    problem = _problem(type_)
    if problem is not None:
        raise _unsupported(where, type_, *problem)


def _problem(type_: pa.DataType) -> tuple[str, str] | None:
    """Why a type cannot be stored, and what to do; None where it can. Children are not looked at."""
    t = pa.types
    cast = "Cast the column to a type that Parquet has, or leave it out"
    if t.is_null(type_):
        return "Its values are all null so far, so its type is not known", "Give the table its types: gl.create(…, schema=…)"
    if t.is_struct(type_):
        return _struct_problem([child.name for child in type_])
    if t.is_decimal(type_):
        holds = 0 <= type_.scale <= type_.precision
        return None if holds else ("Parquet wants a decimal's scale between 0 and its precision", "Cast it to such a decimal")
    if t.is_fixed_size_binary(type_) or t.is_fixed_size_list(type_):
        size = type_.byte_width if t.is_fixed_size_binary(type_) else type_.list_size
        return None if size > 0 else ("Parquet cannot hold values of size 0", cast)
    if t.is_timestamp(type_):
        known = type_.tz is None or is_zone(type_.tz)
        return None if known else (f"The time zone {type_.tz!r} is not known", "Cast it to a zone of the IANA database, or UTC")
    if t.is_map(type_) or is_any_list(type_) or type_ in _UNPARAMETRIC:
        return None
    return "Parquet has no such type", cast


def _struct_problem(names: list[str]) -> tuple[str, str] | None:
    if not names:
        return "Parquet cannot hold a struct without fields", "Leave it out, or give it a field"
    if len(set(names)) < len(names) or any(name == "" or "\0" in name for name in names):
        return "Its fields need different, non-empty names", "Rename them"
    return None


@lru_cache(256)
def stored_type(type_: pa.DataType) -> pa.DataType:
    """What Parquet files hold for a declared type, nested ones too.

    Timestamps in s and ms as µs, every zone as UTC, date64 as date32, time32[s] as ms, decimals as 128 or 256 bits.
    """
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ns" if type_.unit == "ns" else "us", UTC if type_.tz else None)
    if pa.types.is_decimal(type_):
        wide = type_.precision > 38
        return pa.decimal256(type_.precision, type_.scale) if wide else pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_date64(type_):
        return pa.date32()
    if pa.types.is_time32(type_):
        return pa.time32("ms")
    if pa.types.is_fixed_size_list(type_) and not _READS_FIXED_SIZE_NULLS:
        return pa.list_(_stored_child(type_.value_field))
    return with_children(type_, _stored_child)


def _stored_child(child: pa.Field) -> pa.Field:
    stored = stored_field(child)
    # Below a null parent pyarrow reads a fixed-size list that is never null as one of size 0, and fails.
    return stored.with_nullable(True) if pa.types.is_fixed_size_list(stored.type) else stored


def stored_field(field: pa.Field) -> pa.Field:
    """The field of a Parquet file for a declared field; without metadata."""
    return pa.field(field.name, stored_type(field.type), field.nullable)


def annotated_field(stored: pa.Field, declared: pa.Field) -> pa.Field:
    """The field of a Parquet file with the metadata of its declared field, nested ones too."""
    known = children(declared.type)
    type_ = with_children(stored.type, lambda child: annotated_field(child, next(known)))
    return stored.with_type(type_).with_metadata(declared.metadata)


def with_known_types(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """The source type with the target's wherever its own is null, since no value said what it is, at any depth.

    >>> str(with_known_types(pa.list_(pa.null()), pa.list_(pa.int8())))
    'list<item: int8>'
    """
    if pa.types.is_null(source):
        return target
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        wanted = {one.name: one.type for one in target}
        return with_children(source, lambda one: one.with_type(with_known_types(one.type, wanted.get(one.name, one.type))))
    if not ((is_any_list(source) and is_any_list(target)) or (pa.types.is_map(source) and pa.types.is_map(target))):
        return source
    below = iter([one.type for one in children(target)])
    return with_children(source, lambda one: one.with_type(with_known_types(one.type, next(below))))
