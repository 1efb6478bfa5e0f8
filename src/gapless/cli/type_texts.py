"""Arrow types as they are typed and as `gapless schema` prints them: `int64`, `timestamp[us, tz=UTC]`, `list<struct<a: int8>>`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from gapless.errors import InvalidOption

_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, ?tz=([^\]]+))?\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)?\((\d+), ?(\d+)\)")
_SIZED = re.compile(r"fixed_size_(binary|list<(.+)>)\[(\d+)\]")
_NESTED = re.compile(r"(list|large_list|struct|map)<(.+)>")
_DECIMALS = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}


def parse_type_text(text: str) -> pa.DataType:
    """The Arrow type of a text; raises InvalidOption for one that is none.

    >>> parse_type_text("map<string, decimal(9, 2)>")
    MapType(map<string, decimal128(9, 2)>)
    """
    try:
        return _parse(text.strip())
    except (ValueError, pa.ArrowException) as error:
        raise InvalidOption(
            f"{text!r} is no Arrow type",
            why=str(error),
            fix="Write int64, double, string, date32, timestamp[us, tz=UTC], decimal128(10, 2), list<int64>, struct<a: int64>",
            option="type", value=text,
        ) from error  # fmt: skip


def _parse(text: str) -> pa.DataType:
    if match := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    if match := _DECIMAL.fullmatch(text):
        return _DECIMALS[match[1] or "128"](int(match[2]), int(match[3]))
    if match := _SIZED.fullmatch(text):
        return pa.list_(_element(match[2]), int(match[3])) if match[2] else pa.binary(int(match[3]))
    if match := _NESTED.fullmatch(text):
        return _BUILD[match[1]](_split(match[2]))
    return pa.type_for_alias(text)


def _split(text: str) -> list[str]:
    """A text cut at the commas that lie in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<[(") - (character in ">])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _named(text: str) -> pa.Field:
    name, colon, kind = text.partition(":")
    if not colon:
        raise ValueError(f"a field is written as name: type, and {text!r} is not")
    return _field(name.strip(), kind.strip())


def _field(name: str, kind: str) -> pa.Field:
    bare = kind.removesuffix(" not null")
    return pa.field(name, _parse(bare), nullable=bare == kind)


def _element(text: str) -> pa.Field:
    name, colon, kind = text.partition(": ")
    return _field(name, kind) if colon and name.isidentifier() else _field("item", text)


def _one(parts: Sequence[str]) -> pa.Field:
    if len(parts) > 1:
        raise ValueError("a list has values of one type")
    return _element(parts[0])


def _map(parts: Sequence[str]) -> pa.DataType:
    key, value = parts
    return pa.map_(_parse(key), _parse(value))


_BUILD: dict[str, Callable[[Sequence[str]], pa.DataType]] = {
    "list": lambda parts: pa.list_(_one(parts)),
    "large_list": lambda parts: pa.large_list(_one(parts)),
    "struct": lambda parts: pa.struct([_named(part) for part in parts]),
    "map": _map,
}
