"""Delta's types as values: a schema with everything the log says of each field (PROTOCOL.md, "Schema Serialization Format")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


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
