"""Which paths of a column's variants are shredded, as a table's property says it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from gapless.errors import InvalidOption, UnsupportedType, nearest
from gapless.formats.delta.schema.arrow_types import VARIANT
from gapless.formats.delta.schema.types import StructType
from gapless.formats.delta.variant.shred import Shape

SHREDDING: Final = "gapless.variantShredding."
"""Before the name of a column, with its paths: `a.b long, c string`."""
_TYPES: Final = {
    "byte": pa.int8(), "tinyint": pa.int8(), "short": pa.int16(), "smallint": pa.int16(), "integer": pa.int32(), "int": pa.int32(),
    "long": pa.int64(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_LEAST_DIGITS, _MOST_DIGITS = 19, 38
"""Parts that are decimals of fewer digits lie in columns of integers, by Parquet's shredding, which this release does not write."""
_PART = re.compile(
    r"\s*(?P<path>\S+)\s+(?P<type>[a-z_]+)\s*(?:\(\s*(?P<precision>\d+)\s*,\s*(?P<scale>\d+)\s*\))?\s*(?:,|\Z)", re.IGNORECASE
)


def parse_shredding(text: str) -> Shape:
    """The shape of a column's files. Raises ValueError, which says what the text is not."""
    found: dict[str, pa.DataType] = {}
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(f"no list of paths with their types, such as 'a.b long, c string', from {text[at:]!r} on")
        if part["path"] in found:
            raise ValueError(f"a list that has {part['path']!r} twice")
        found[part["path"]] = _type(part)
        at = part.end()
    try:
        return Shape.of(found)
    except (InvalidOption, UnsupportedType) as error:
        raise ValueError(f"no list of paths that can all be shredded: {error.what}") from error


def _type(part: re.Match[str]) -> pa.DataType:
    name = part["type"].lower()
    if name == "decimal" and part["precision"] is not None:
        precision, scale = int(part["precision"]), int(part["scale"])
        if _LEAST_DIGITS <= precision <= _MOST_DIGITS and scale <= precision:
            return pa.decimal128(precision, scale)
    elif name in _TYPES and part["precision"] is None:
        return _TYPES[name]
    raise ValueError(
        f"no list of paths with their types: {part.group().strip(' ,')!r} has none of {', '.join(_TYPES)}, decimal(p, s)"
    )


def check_shredded(names: Iterable[str], columns: StructType, *, allowed: bool) -> None:
    """Raise InvalidOption where columns that are to be shredded are no variants of the table, or its files may not hold such (`allowed`)."""
    for name in names:
        option = SHREDDING + name
        field = columns.field(name)
        if columns.fields and (field is None or field.type != VARIANT):
            raise InvalidOption(
                f"property {option!r} is of no column of variants",
                why=f"The table has {', '.join(columns.names)}",
                fix=nearest(name, columns.names),
                option=option,
                value=None,
            )
        if not allowed:
            raise InvalidOption(
                f"property {option!r} does nothing here",
                why="Only the files of a table with delta.enableVariantShredding=true may hold parts of variants in columns of their own",
                fix="Set that too; readers then have to know the feature variantShredding",
                option=option,
                value=None,
            )
