"""Arrow types as short texts, for what protocol 7's own type does not say: "int8", "timestamp[ms, tz=Europe/Paris]".

A nested type is written by its outermost kind alone ("large_list"): its children stand beside it in the log.
"""

from __future__ import annotations

import re

import pyarrow as pa

from gapless.errors import UnsupportedTable, UnsupportedType

_BARE = {
    "int8": pa.int8(), "int16": pa.int16(), "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(),
    "float16": pa.float16(), "date32": pa.date32(), "date64": pa.date64(),
    "time32[s]": pa.time32("s"), "time32[ms]": pa.time32("ms"), "time64[us]": pa.time64("us"), "time64[ns]": pa.time64("ns"),
    **{f"duration[{unit}]": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
}  # fmt: skip
_BARE_NAMES = {type_: name for name, type_ in _BARE.items()}
_DECIMALS = {"decimal32": pa.decimal32, "decimal64": pa.decimal64, "decimal128": pa.decimal128, "decimal256": pa.decimal256}

_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]")
_DECIMAL = re.compile(r"(decimal(?:32|64|128|256))\((\d+), (\d+)\)")
_FIXED_LIST = re.compile(r"fixed_size_list\[(\d+)\]")


def type_name(type_: pa.DataType) -> str:
    """The text of a declared type that protocol 7 cannot say; raises UnsupportedType for one that no table declares.

    >>> type_name(pa.timestamp("s", "Asia/Kolkata"))
    'timestamp[s, tz=Asia/Kolkata]'
    """
    t = pa.types
    if type_ in _BARE_NAMES:
        return _BARE_NAMES[type_]
    if t.is_timestamp(type_) or t.is_decimal(type_):
        return str(type_)
    if t.is_large_list(type_):
        return "large_list"
    if t.is_fixed_size_list(type_):
        return f"fixed_size_list[{type_.list_size}]"
    raise UnsupportedType(f"the log has no name for the type {type_}", fix="Adopt the schema first", column="", type=str(type_))


def parse_type(name: object, element: pa.Field | None) -> pa.DataType:
    """The type that `type_name` wrote; `element` is a list's child. Raises UnsupportedTable for a name that is not known.

    >>> parse_type("decimal32(5, 2)", None)
    Decimal32Type(decimal32(5, 2))
    """
    text = str(name)
    if text in _BARE:
        return _BARE[text]
    if match := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    if match := _DECIMAL.fullmatch(text):
        return _DECIMALS[match[1]](int(match[2]), int(match[3]))
    if element is not None and text == "large_list":
        return pa.large_list(element)
    if element is not None and (match := _FIXED_LIST.fullmatch(text)):
        return pa.list_(element, int(match[1]))
    raise UnsupportedTable(
        f"a column of the table has the type {text!r}",
        why="This release does not know that type, and would read wrong values",
        fix="Open the table with the release that wrote it, or a newer gapless",
        needs=text,
    )
