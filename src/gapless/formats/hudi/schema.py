"""Avro schemas of Hudi tables, from Arrow's; and which columns such a table cannot have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from gapless.model.types import bare_type, children, is_any_list

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESERVED = "_hoodie_"

_PRIMITIVES: dict[pa.DataType, object] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.date64(): {"type": "int", "logicalType": "date"},
}


def avro_schema(schema: pa.Schema, name: str) -> str:
    """The Avro record `name` with the columns of an Arrow schema, as JSON text. Every column may be null, as in Parquet files of before it.

    `problems` finds none in the schema. Timestamps are in microseconds, as segments hold them.
    """
    return json.dumps(_record(list(schema), name), separators=(",", ":"))


_HELD = {("int", "long"), ("int", "float"), ("int", "double"), ("long", "double"), ("float", "double")}
"""Types, and those as which readers take files of them."""


def still_wide(described: str, wanted: str) -> str:
    """An Avro schema with the columns of `wanted`, each as wide as `described` has it where it is wider there: as of instants of before, readers
    go by the newest schema, and hudi-rs takes what the type of a column does not hold for null.

    >>> int_, long = (avro_schema(pa.schema([("n", type_)]), "t") for type_ in (pa.int32(), pa.int64()))
    >>> still_wide(long, int_) == still_wide(int_, long) == long
    True
    """
    before = {field["name"]: field for field in json.loads(described)["fields"]} if described else {}
    told = json.loads(wanted)
    told["fields"] = [
        before[field["name"]] if _is_wider(before.get(field["name"]), field) else field for field in told["fields"]
    ]
    return json.dumps(told, separators=(",", ":"))


def _is_wider(one: dict[str, Any] | None, other: dict[str, Any]) -> bool:
    """Whether a field of a schema, if there is one, is of a type to which that of another was, or can be, widened."""
    if one is None:
        return False
    wide, narrow = one["type"][-1], other["type"][-1]
    if isinstance(wide, str) and isinstance(narrow, str):
        return (narrow, wide) in _HELD
    if not all(isinstance(type_, dict) and type_.get("logicalType") == "decimal" for type_ in (wide, narrow)):
        return False
    digits = [(type_["precision"] - type_["scale"], type_["scale"]) for type_ in (narrow, wide)]
    return digits[0] != digits[1] and all(n <= w for n, w in zip(*digits, strict=True))


def problems(schema: pa.Schema) -> Iterator[tuple[str, str, str]]:
    """What a Hudi table cannot have of these columns, or its readers read wrongly: the path of each, what is wrong, and what to do."""
    yield from _problems(list(schema), "")


def _problems(fields: Iterable[pa.Field], above: str) -> Iterator[tuple[str, str, str]]:
    seen: dict[str, str] = {}
    for field in fields:
        path = f"{above}{field.name}"
        twin = seen.setdefault(field.name.lower(), field.name)
        if twin != field.name:
            yield path, f"it differs from {twin!r} in case alone", "Rename it"
        if not _NAME.fullmatch(field.name):
            yield path, "Avro has names of letters, digits and _ alone", "Rename it"
        elif field.name.startswith(_RESERVED):
            yield path, f"names that start with {_RESERVED} are Hudi's own", "Rename it"
        yield from _type_problems(field.type, path)


def _type_problems(type_: pa.DataType, path: str) -> Iterator[tuple[str, str, str]]:
    bare, t = bare_type(type_), pa.types
    if t.is_struct(bare):
        yield from _problems(list(bare), f"{path}.")
    elif t.is_map(bare):
        if bare_type(bare.key_type) != pa.string():
            yield path, f"its type is {bare}, and Avro has maps with text keys alone", "Store a list of structs"
        yield from _type_problems(bare.item_type, f"{path}.value")
    elif is_any_list(bare):
        yield from _type_problems(bare.value_type, f"{path}.element")
    elif t.is_timestamp(bare):
        if bare.unit == "ns":
            yield path, f"its type is {bare}, and Hudi has no nanoseconds", 'Cast it to timestamp("us")'
        elif bare.tz is None:
            yield path, f"its type is {bare}, without a zone, which hudi-rs cannot read", "Give it a zone, such as UTC"
    elif t.is_decimal(bare):
        if bare.precision > 38:
            yield path, f"its type is {bare}, of more than 38 digits", "Cast it to decimal128(38, scale)"
    elif bare not in _PRIMITIVES and not t.is_fixed_size_binary(bare):
        yield (
            path,
            f"its type is {bare}, which Hudi does not have",
            "Cast it to a wider type that it has, such as int64 or string",
        )


def _record(fields: list[pa.Field], name: str) -> dict[str, object]:
    told = [
        {"name": field.name, "type": ["null", _type(field.type, f"{name}_{field.name}")], "default": None} for field in fields
    ]
    return {"type": "record", "name": name, "fields": told}


def _type(type_: pa.DataType, name: str) -> object:
    bare, t = bare_type(type_), pa.types
    below = list(children(bare))
    if t.is_struct(bare):
        return _record(below, name)
    if t.is_map(bare):
        return {"type": "map", "values": ["null", _type(bare.item_type, f"{name}_value")]}
    if is_any_list(bare):
        return {"type": "array", "items": ["null", _type(bare.value_type, f"{name}_element")]}
    if t.is_timestamp(bare):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if t.is_decimal(bare):
        return {"type": "bytes", "logicalType": "decimal", "precision": bare.precision, "scale": bare.scale}
    return "bytes" if t.is_fixed_size_binary(bare) else _PRIMITIVES[bare]


_NARROW = (pa.int8(), pa.int16(), pa.uint8())
"""Integers that Parquet files annotate so that Spark reads them as no wider type than int."""


def widening_problem(old: pa.DataType, new: pa.DataType) -> str | None:
    """Why readers of Hudi do not read files of one type as another that holds all its values; None where they do.

    >>> widening_problem(pa.int8(), pa.int64())
    'Files hold int8, which Spark does not read as int64'
    """
    before, after = bare_type(old), bare_type(new)
    if before == after or pa.types.is_null(before):
        return None
    if before in _NARROW and _PRIMITIVES.get(after) != "int":
        return f"Files hold {before}, which Spark does not read as {after}"
    below, above = list(children(before)), list(children(after))
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        known = {field.name: field.type for field in before}
        pairs = [(known[field.name], field.type) for field in after if field.name in known]
    else:
        pairs = [(one.type, other.type) for one, other in zip(below, above, strict=False)]
    for one, other in pairs:
        if not list(children(bare_type(other))) and _kind(one) != _kind(other):
            return f"Files hold {one} within {before}, which Spark does not read as {other} there"
        if why := widening_problem(one, other):
            return why
    return None


def stored_problem(held: pa.DataType, now: pa.DataType, *, nested: bool) -> str | None:
    """Why readers of Hudi do not take what files hold as `held` for a leaf of type `now`; None where they do."""
    if pa.types.is_timestamp(held):
        return None if held.unit in ("us", "ms") and held.tz is not None else f"files hold {held}"
    if nested and _kind(held) != _kind(now):
        return f"files hold {held} within it, which Spark does not read as {now} there"
    return widening_problem(held, now)


def _kind(type_: pa.DataType) -> object:
    """The Avro type of a type without children; None for a null."""
    return None if pa.types.is_null(bare_type(type_)) else json.dumps(_type(type_, ""))
