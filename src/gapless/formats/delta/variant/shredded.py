"""Put shredded variants together: parts of their values lie in columns of their own. Pure.

Source: Parquet's VariantShredding.md. Beside `metadata` and `value` stands `typed_value`: a column of one type, a struct of fields or a list of
elements, each of them again a `value` and a `typed_value`. What is of another type, and fields without a column, are in `value`. Where both
are null a field is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.errors import UnsupportedTable
from gapless.formats.delta.variant.decode import dictionary_of, object_parts
from gapless.formats.delta.variant.encode import NULL, array_of, decimal, object_of, packed, sized, text
from gapless.model.types import is_any_list

TYPED, VALUE, METADATA = "typed_value", "value", "metadata"
VARIANT_TYPE = pa.struct([pa.field(METADATA, pa.binary()), pa.field(VALUE, pa.binary())])
Encoded = list[bytes | None]
"""Encoded values; None where there is none."""


@dataclass(frozen=True, slots=True)
class Names:
    """The field names of a variant's metadata."""

    all: tuple[str, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    """One place of each: writers may repeat a name."""

    @classmethod
    def of(cls, metadata: bytes) -> Names:
        """Those of these metadata. Raises CorruptTable."""
        names = dictionary_of(metadata)
        return cls(names, {name: place for place, name in enumerate(names)})


class Misplaced(Exception):
    """Parts that do not make a variant."""


def is_shredded(type_: pa.DataType) -> bool:
    """Whether a column that the table calls a variant has parts of it in columns of their own."""
    return bool(pa.types.is_struct(type_) and type_.get_field_index(TYPED) >= 0)


def put_together(stored: pa.StructArray, path: str) -> pa.StructArray:
    """The same variants as `metadata` and `value` alone.

    Raises Misplaced, CorruptTable for parts that are damaged, UnsupportedTable for a type of a part that this release does not know, which
    names the file at `path`.
    """
    whole: list[bool] = stored.is_valid().to_pylist()
    parts = dict(zip((one.name for one in stored.type), stored.flatten(), strict=True))
    metadata: Encoded = parts[METADATA].cast(pa.binary()).to_pylist()
    known: dict[bytes, Names] = {}
    names: list[Names] = []
    for one in metadata:
        key = one or b""
        if key not in known:
            known[key] = Names.of(key) if key else Names()
        names.append(known[key])
    found = _Parts(path).of(parts, names)
    values = [(NULL if one is None else one) if valid else None for one, valid in zip(found, whole, strict=True)]
    kept = [one if valid else None for one, valid in zip(metadata, whole, strict=True)]
    return pa.StructArray.from_arrays(
        [pa.array(kept, pa.binary()), pa.array(values, pa.binary())],
        fields=list(VARIANT_TYPE),
        mask=pa.array([not valid for valid in whole], pa.bool_()),
    )


class _Parts:
    def __init__(self, path: str) -> None:
        self._path = path

    def of(self, parts: Mapping[str, pa.Array], names: Sequence[Names]) -> Encoded:
        """The values of a `value` and a `typed_value`, of which one may lack."""
        values: Encoded = parts[VALUE].cast(pa.binary()).to_pylist() if VALUE in parts else [None] * len(names)
        if TYPED not in parts:
            return values
        typed = parts[TYPED]
        if isinstance(typed, pa.ExtensionArray) and pa.types.is_fixed_size_binary(typed.storage.type):
            typed = typed.storage
        if pa.types.is_struct(typed.type):
            return self._objects(values, typed, names)
        found = self._lists(typed, names) if is_any_list(typed.type) else self._scalars(typed)
        if any(one is not None and other is not None for one, other in zip(values, found, strict=True)):
            raise Misplaced("a value lies in two columns")
        return [other if one is None else one for one, other in zip(values, found, strict=True)]

    def _objects(self, values: Encoded, typed: pa.StructArray, names: Sequence[Names]) -> Encoded:
        columns = [
            (field.name, self.of(_named(column), names)) for field, column in zip(typed.type, typed.flatten(), strict=True)
        ]
        found: Encoded = []
        for at, there in enumerate(typed.is_valid().to_pylist()):
            if not there:
                found.append(values[at])
                continue
            fields = {name: one for name, column in columns if (one := column[at]) is not None}
            found.append(_object(fields, values[at], names[at]))
        return found

    def _lists(self, typed: pa.Array, names: Sequence[Names]) -> Encoded:
        ends = np.asarray(typed.offsets)
        first, last = int(ends[0]), int(ends[-1])
        of_elements = [one for one, (start, end) in zip(names, pairwise(ends.tolist()), strict=True) for _ in range(start, end)]
        elements = self.of(_named(typed.values.slice(first, last - first)), of_elements)
        # An element cannot be missing.
        encoded = [NULL if one is None else one for one in elements]
        return [
            array_of(encoded[start - first : end - first]) if there else None
            for there, (start, end) in zip(typed.is_valid().to_pylist(), pairwise(ends.tolist()), strict=True)
        ]

    def _scalars(self, typed: pa.Array) -> Encoded:
        type_ = typed.type
        encode = _encoder(type_)
        if encode is None:
            raise UnsupportedTable(
                f"data file {self._path} holds parts of variants as {type_}",
                why="This release does not know a variant's type for it",
                fix="Rewrite the table without shredding: delta.enableVariantShredding=false, then REORG … APPLY (PURGE) in Spark",
                needs="variantShredding",
            )
        plain = typed
        if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
            plain = typed.cast(pa.int64())
        elif pa.types.is_date32(type_):
            plain = typed.cast(pa.int32())
        return [None if one is None else encode(one) for one in plain.to_pylist()]


def _named(parts: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((one.name for one in parts.type), parts.flatten(), strict=True))


def _object(fields: dict[str, bytes], rest: bytes | None, names: Names) -> bytes:
    """An object of fields that have columns, and of those in an object that has the rest."""
    places = {name: names.places.get(name) for name in fields}
    if None in places.values():
        raise Misplaced("a field is not in the metadata")
    if rest is not None:
        for place, part in object_parts(rest):
            if place >= len(names.all):
                raise Misplaced("a field is not in the metadata")
            if (name := names.all[place]) in fields:
                raise Misplaced("a field lies in two columns")
            fields[name], places[name] = part, place
    return object_of((places[name] or 0, fields[name]) for name in sorted(fields, key=str.encode))


def _encoder(type_: pa.DataType) -> Callable[[Any], bytes] | None:
    """How values of a column are encoded, times and dates as whole numbers; None for a type that no variant has."""
    simple: dict[pa.DataType, tuple[int, str]] = {
        pa.int8(): (3, "b"), pa.int16(): (4, "h"), pa.int32(): (5, "i"), pa.int64(): (6, "q"), pa.float32(): (14, "f"), pa.float64(): (7, "d"),
        pa.date32(): (11, "i"), pa.time64("us"): (17, "q"), pa.timestamp("us"): (13, "q"), pa.timestamp("ns"): (19, "q"),
    }  # fmt: skip
    if type_ in simple:
        code, form = simple[type_]
        return lambda value: packed(code, form, value)
    if pa.types.is_timestamp(type_) and type_.tz is not None and type_.unit in ("us", "ns"):
        zoned = 12 if type_.unit == "us" else 18
        return lambda value: packed(zoned, "q", value)
    if pa.types.is_boolean(type_):
        return lambda value: bytes([(1 if value else 2) << 2])
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return text
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return lambda value: sized(15, value)
    if pa.types.is_fixed_size_binary(type_) and type_.byte_width == 16:  # a UUID
        return lambda value: bytes([20 << 2]) + value
    if pa.types.is_decimal(type_) and type_.precision <= 38 and type_.scale >= 0:
        width = 9 if type_.precision <= 9 else 18 if type_.precision <= 18 else 38
        return lambda value: decimal(_unscaled(value, type_.scale), type_.scale, width)
    return None


def _unscaled(value: Decimal, scale: int) -> int:
    """The digits of a decimal as Arrow gives it, whose scale is its column's: Decimal's own arithmetic would round."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    found: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -found if sign else found
