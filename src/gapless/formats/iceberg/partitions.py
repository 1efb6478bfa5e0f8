"""Identity partitions: of files that do not hold a column, since all their rows have one value of it. Pure (the table spec, "Partitioning")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gapless.errors import UnsupportedType
from gapless.formats.iceberg.schema import JsonObject

_FIRST_FIELD = 1000
_PARTITIONS = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string")
"""Types of columns by which all readers find the values that files do not hold; decimals have a size."""


def check_partitions(partition_by: Iterable[str], fields: Sequence[JsonObject]) -> None:
    """Raise UnsupportedType for a partition column whose values some reader of Iceberg does not take from the metadata."""
    types = {one["name"]: one["type"] for one in fields}
    for name in partition_by:
        type_ = types[name]
        if type_ not in _PARTITIONS and not (isinstance(type_, str) and type_.startswith("decimal(")):
            raise UnsupportedType(
                f"the partition column {name!r} of type {type_} cannot be published as Iceberg",
                why="Files do not hold it, and readers of Iceberg differ in what they make of such values in the metadata",
                fix="Partition by a column of whole numbers, texts, dates or times",
                column=name,
                type=str(type_),
            )


def spec_fields(partition_by: Iterable[str], fields: Sequence[JsonObject]) -> list[JsonObject]:
    """The fields of a partition spec as the metadata spells them."""
    numbers = {one["name"]: one["id"] for one in fields}
    return [
        {"source-id": numbers[name], "field-id": _FIRST_FIELD + place, "name": name, "transform": "identity"}
        for place, name in enumerate(partition_by)
    ]


def partition_values(partition_by: Iterable[str], values: Mapping[str, pa.Scalar]) -> list[Any]:
    """A file's values in the order of the spec, as manifests hold them: dates in days, times in microseconds."""
    return [_value(values[name]) for name in partition_by]


def _value(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    return value.value if pa.types.is_date32(value.type) or pa.types.is_timestamp(value.type) else value.as_py()
