"""Delta's types, and schemas as JSON (PROTOCOL.md, "Schema Serialization Format")."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from typing import Any, TypeVar

from gapless.errors import CorruptTable, UnsupportedTable


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """`string`, `long`, `decimal(10,2)`, `timestamp`, `variant` and the like, by the log's name for it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """A list."""

    element: DeltaType
    contains_null: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    """Pairs of a key, which is never null, and a value."""

    key: DeltaType
    value: DeltaType
    contains_null: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StructType:
    """Named fields; a table's schema is one."""

    fields: tuple[StructField, ...]

    def __iter__(self) -> Any:
        """The fields, in order."""
        return iter(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The fields' logical names, in order."""
        return tuple(one.name for one in self.fields)

    def field(self, name: str) -> StructField | None:
        """The field of a logical name, exactly; None where there is none."""
        return next((one for one in self.fields if one.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructField:
    """One column, or a field nested in one."""

    name: str
    """Logical."""
    type: DeltaType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """As JSON has it: `delta.columnMapping.id`, `delta.invariants`, `delta.generationExpression`, `comment` and whatever others put there."""

    @property
    def physical_name(self) -> str:
        """What Parquet files, statistics and partition values call it: `delta.columnMapping.physicalName` where the schema has one."""
        return str(self.metadata.get("delta.columnMapping.physicalName", self.name))

    @property
    def field_id(self) -> int | None:
        """`delta.columnMapping.id`."""
        found = self.metadata.get("delta.columnMapping.id")
        return found if isinstance(found, int) else None

    def with_metadata(self, **entries: Any) -> StructField:
        """The same with these entries of its metadata set; None takes one away."""
        merged = {**self.metadata, **entries}
        return replace(self, metadata={name: value for name, value in merged.items() if value is not None})


DeltaType = PrimitiveType | ArrayType | MapType | StructType
T = TypeVar("T")
_LAST = 8


def kept_of_last_schemas(make: Callable[[StructType], T]) -> Callable[[StructType], T]:
    """The same function, that keeps what it made of the last few schemas: a change asks several times, and a table may have thousands of columns.

    Schemas are told apart by identity: to compare two costs as much as what is made of them.
    """
    last: deque[tuple[StructType, T]] = deque(maxlen=_LAST)

    @wraps(make)
    def kept(schema: StructType) -> T:
        for known, made in tuple(last):
            if known is schema:
                return made
        made = make(schema)
        last.append((schema, made))
        return made

    return kept


def every_field(type_: DeltaType) -> Iterator[StructField]:
    """Every field of a type, nested ones too, each before those within it."""
    match type_:
        case StructType():
            for one in type_:
                yield one
                yield from every_field(one.type)
        case ArrayType():
            yield from every_field(type_.element)
        case MapType():
            yield from every_field(type_.key)
            yield from every_field(type_.value)


_PRIMITIVES = frozenset(
    {
        "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp",
        "timestamp_ntz", "variant", "void",
    }
)  # fmt: skip
_SYNONYMS = {"null": "void", "decimal": "decimal(10,0)"}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


@lru_cache(64)
def decode_schema(text: str, path: str) -> StructType:
    """The schema of a `schemaString`; `path` names the file that holds it, for errors.

    Raises CorruptTable where the text is no schema, UnsupportedTable for a type this release does not know.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise _damaged(path, f"its schema is no JSON: {error}") from error
    schema = _decode_type(raw, path, "")
    if not isinstance(schema, StructType):
        raise _damaged(path, f"its schema is no struct but {str(raw)[:80]!r}")
    return schema


def decode_type(raw: Any, path: str = "", where: str = "") -> DeltaType:
    """A type as `json.loads` gives it; raises as `decode_schema` does, naming the column `where`."""
    return _decode_type(raw, path, where)


def encode_schema(schema: StructType) -> str:
    """The `schemaString` of a schema."""
    return json.dumps(encode_type(schema), separators=(",", ":"), ensure_ascii=False)


def _damaged(path: str, why: str) -> CorruptTable:
    return CorruptTable(f"{path} is damaged: {why}", fix="Restore it from a backup", path=path)


def _decode_type(raw: Any, path: str, where: str) -> DeltaType:
    match raw:
        case str(name):
            return _primitive(name, path, where)
        case {"type": "struct", "fields": list(fields)}:
            return StructType(fields=tuple(_decode_field(one, path, where) for one in fields))
        case {"type": "array", "elementType": element}:
            return ArrayType(element=_decode_type(element, path, f"{where}.element"), contains_null=_flag(raw, "containsNull"))
        case {"type": "map", "keyType": key, "valueType": value}:
            return MapType(
                key=_decode_type(key, path, f"{where}.key"),
                value=_decode_type(value, path, f"{where}.value"),
                contains_null=_flag(raw, "valueContainsNull"),
            )
        case {"type": str(name)} if name not in ("struct", "array", "map"):
            raise _unknown(name, path, where)
    raise _damaged(path, f"the type of column {where.lstrip('.')!r} is {str(raw)[:80]!r}")


def _flag(raw: dict[str, Any], name: str) -> bool:
    return raw.get(name) is not False


def _decode_field(raw: Any, path: str, where: str) -> StructField:
    match raw:
        case {"name": str(name), "type": type_}:
            metadata = raw.get("metadata") or {}
            if not isinstance(metadata, dict):
                raise _damaged(path, f"the metadata of column {name!r} is {str(metadata)[:80]!r}")
            found = _decode_type(type_, path, f"{where}.{name}")
            return StructField(name=name, type=found, nullable=_flag(raw, "nullable"), metadata=metadata)
    raise _damaged(path, f"a column of its schema is {str(raw)[:80]!r}")


def _primitive(name: str, path: str, where: str) -> PrimitiveType:
    name = _SYNONYMS.get(name, name)
    if name in _PRIMITIVES:
        return PrimitiveType(name)
    found = _DECIMAL.fullmatch(name)
    if found is None:
        raise _unknown(name, path, where)
    precision, scale = int(found[1]), int(found[2])
    if not 0 <= scale <= precision <= 38 or precision == 0:
        raise _damaged(path, f"column {where.lstrip('.')!r} has type {name!r}, which no decimal can have")
    return PrimitiveType(f"decimal({precision},{scale})")


def _unknown(name: str, path: str, where: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"column {where.lstrip('.')!r} has type {name!r}, which this release of gapless does not know",
        why=f"{path} says so",
        fix="Use a newer gapless, or the tool that wrote the table",
        needs=name,
    )


def encode_type(type_: DeltaType) -> Any:
    """A type as `json.loads` would give it."""
    match type_:
        case PrimitiveType(name):
            return name
        case ArrayType():
            return {"type": "array", "elementType": encode_type(type_.element), "containsNull": type_.contains_null}
        case MapType():
            return {
                "type": "map",
                "keyType": encode_type(type_.key),
                "valueType": encode_type(type_.value),
                "valueContainsNull": type_.contains_null,
            }
        case StructType():
            return {"type": "struct", "fields": [_encode_field(one) for one in type_.fields]}


def _encode_field(field: StructField) -> dict[str, Any]:
    type_ = encode_type(field.type)
    return {"name": field.name, "type": type_, "nullable": field.nullable, "metadata": dict(field.metadata)}
