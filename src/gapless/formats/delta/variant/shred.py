"""Shred variants by declared paths: values of one type at a path lie in a column of their own. Pure.

Source: Parquet's VariantShredding.md; `shredded.py` is the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gapless.errors import InvalidOption, UnsupportedType
from gapless.formats.delta.variant.decode import decode_part, dictionary_of, is_object, object_parts, scalar_kind
from gapless.formats.delta.variant.encode import Encoding, metadata_of, object_of
from gapless.formats.delta.variant.shredded import METADATA, TYPED, VALUE

_KEPT = frozenset({14, 18, 19})
"""Floats of 32 bits, and instants in ns, which would come back as others out of a column of doubles, or of µs."""
_RANGES: Mapping[pa.DataType, int] = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}


@dataclass(slots=True)
class _Node:
    """What lies at a path: values of a type, or an object with fields."""

    type: pa.DataType | None = None
    fields: dict[str, _Node] = field(default_factory=dict)

    @property
    def typed(self) -> pa.DataType:
        """The type of the column for it."""
        if self.type is not None:
            return self.type
        parts = [pa.field(name, node.part, nullable=False) for name, node in self.fields.items()]
        return pa.struct(parts)

    @property
    def part(self) -> pa.DataType:
        """The two columns of a field."""
        return pa.struct([pa.field(VALUE, pa.binary()), pa.field(TYPED, self.typed)])


def shred_variant(values: Iterable[object], paths: Mapping[str, pa.DataType]) -> pa.StructArray:
    """Values as a shredded variant column: a struct of `metadata`, `value` and `typed_value`.

    Args:
        values: What `encode_variant` takes, one a row; None for a row that has none.
        paths: Dotted paths with the Arrow types of their columns: integers, floats, booleans, texts, bytes, decimals, dates, and timestamps in
            µs. What lies at a path and is of another type, or would lose something, stays where all else is, in `value`.

    Raises InvalidOption for paths that cannot all be there, UnsupportedType, InvalidValue.

    >>> column = shred_variant([{"a": 1, "b": "x"}, {"a": "y"}], {"a": pa.int64()})
    >>> [row["typed_value"]["a"]["typed_value"] for row in column.to_pylist()]
    [1, None]
    """
    shape = Shape.of(paths)
    return pa.array([None if one is None else _row(one, shape.root) for one in values], shape.type)


@dataclass(frozen=True, slots=True)
class Shape:
    """Into which columns variants are shredded."""

    root: _Node

    @classmethod
    def of(cls, paths: Mapping[str, pa.DataType]) -> Shape:
        """By dotted paths with their types. Raises InvalidOption for paths that cannot all be there, UnsupportedType."""
        root = _Node()
        for path, type_ in paths.items():
            _add(root, path, type_)
        if not root.fields:
            raise InvalidOption("paths={} shreds nothing", fix='Pass such as {"a.b": pa.int64()}', option="paths", value=paths)
        return cls(root)

    @property
    def type(self) -> pa.StructType:
        """Of a shredded column."""
        return pa.struct([pa.field(METADATA, pa.binary(), nullable=False), *self.root.part])

    def shred(self, whole: pa.StructArray) -> pa.StructArray:
        """Variants as `metadata` and `value` alone, shredded: what stays in `value` are the bytes that were there, and an integer or decimal that
        goes into a column may come back in another width. Raises CorruptTable for bytes that are no variant.
        """
        known: dict[bytes, tuple[str, ...]] = {}
        rows: list[dict[str, Any] | None] = []
        for one in whole.to_pylist():
            if one is None or one[METADATA] is None or one[VALUE] is None:
                rows.append(None)
                continue
            names = known.get(one[METADATA])
            if names is None:
                names = known[one[METADATA]] = dictionary_of(one[METADATA])
            rows.append({METADATA: one[METADATA], **_encoded_part(one[VALUE], self.root, names)})
        return pa.array(rows, self.type)


def _encoded_part(value: bytes, node: _Node, names: tuple[str, ...]) -> dict[str, Any]:
    """As `_part`, of a value that is encoded."""
    if node.type is not None:
        fits = _fits(node.type)
        assert fits is not None
        if (kind := scalar_kind(value)) is None or kind in _KEPT:
            return {VALUE: value, TYPED: None}
        found = decode_part(value)
        return {VALUE: None, TYPED: found} if fits(found) else {VALUE: value, TYPED: None}
    if not is_object(value):
        return {VALUE: value, TYPED: None}
    parts = {names[place]: (place, part) for place, part in object_parts(value)}
    typed = {
        name: _encoded_part(parts[name][1], one, names) if name in parts else {VALUE: None, TYPED: None}
        for name, one in node.fields.items()
    }
    rest = [part for name, part in parts.items() if name not in node.fields]
    return {VALUE: object_of(rest) if rest else None, TYPED: typed}


def _add(root: _Node, path: str, type_: pa.DataType) -> None:
    names = path.split(".")
    if _fits(type_) is None:
        raise UnsupportedType(
            f"path {path!r} cannot have a column of type {type_}",
            why="A variant has no values of it",
            fix="Pass an integer, floating, boolean, text, binary, decimal, date or timestamp('us') type",
            column=path,
            type=str(type_),
        )
    node = root
    for name in names:
        if not name or node.type is not None:
            raise InvalidOption(
                f"path {path!r} cannot be shredded",
                why="It has an empty part, or lies below another path that is shredded",
                fix="Leave one of them out",
                option="paths",
                value=path,
            )
        node = node.fields.setdefault(name, _Node())
    if node.fields or node.type is not None:
        raise InvalidOption(
            f"path {path!r} cannot be shredded",
            why="Another path that is shredded lies below it",
            fix="Leave one of them out",
            option="paths",
            value=path,
        )
    node.type = type_


def _row(value: object, root: _Node) -> dict[str, Any]:
    metadata, encoding = metadata_of(value)
    return {METADATA: metadata, **_part(value, root, encoding)}


def _part(value: Any, node: _Node, encoding: Encoding) -> dict[str, Any]:
    if node.type is not None:
        fits = _fits(node.type)
        assert fits is not None
        return {VALUE: None, TYPED: value} if fits(value) else {VALUE: encoding.value(value), TYPED: None}
    if not isinstance(value, Mapping):
        return {VALUE: encoding.value(value), TYPED: None}
    typed = {
        name: _part(value[name], one, encoding) if name in value else {VALUE: None, TYPED: None}
        for name, one in node.fields.items()
    }
    rest = {name: one for name, one in value.items() if name not in node.fields}
    return {VALUE: encoding.value(rest) if rest else None, TYPED: typed}


def _fits(type_: pa.DataType) -> Callable[[Any], bool] | None:
    """Whether a value is one of a column of the type, and loses nothing in it; None for a type that has no column."""
    bits = _RANGES.get(type_)
    if bits is not None:
        return lambda value: isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    if pa.types.is_float64(type_):
        return lambda value: isinstance(value, float)
    if pa.types.is_boolean(type_):
        return lambda value: isinstance(value, bool)
    if pa.types.is_string(type_):
        return lambda value: isinstance(value, str)
    if pa.types.is_binary(type_):
        return lambda value: isinstance(value, bytes)
    if pa.types.is_date32(type_):
        return lambda value: isinstance(value, date) and not isinstance(value, datetime)
    if pa.types.is_timestamp(type_) and type_.unit == "us" and type_.tz in (None, "UTC"):
        return lambda value: isinstance(value, datetime) and (value.tzinfo is None) == (type_.tz is None)
    if pa.types.is_decimal128(type_) and type_.scale >= 0:
        return lambda value: isinstance(value, Decimal) and _holds(value, type_)
    return None


def _holds(value: Decimal, type_: pa.DataType) -> bool:
    """Whether a decimal has the scale of a column, and no more digits than it: with another scale it would be another variant."""
    _, digits, exponent = value.as_tuple()
    return bool(exponent == -type_.scale and len(digits) <= type_.precision)
