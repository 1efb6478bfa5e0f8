"""Columns of a table as values of documents, exactly. Pure.

A row is a document of its columns, null where they are null. Structs and maps with texts as keys are documents below it, lists are arrays, a
variant is what it holds. A long is BSON's 64-bit integer, smaller ones its 32-bit integer, a decimal its decimal (with up to 38 digits, where
BSON's have 34), a date the midnight of it in UTC. Times keep whole milliseconds, as BSON's dates do; one without a zone counts as UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from gapless.formats.delta.schema.arrow_types import MARK
from gapless.formats.delta.variant.decode import decode_variant
from gapless.model.instant import NS_PER
from gapless.model.types import is_any_list

MS_PER_DAY = 86_400_000
_EPOCH = date(1970, 1, 1)


class ExactDecimal(Decimal128):
    """A decimal of more digits than BSON's have, compared as all of them are."""

    __slots__ = ("_value",)

    def __init__(self, value: Decimal) -> None:
        """Of any decimal."""
        self._value = value

    def to_decimal(self) -> Decimal:
        """All of its digits."""
        return self._value

    def __repr__(self) -> str:
        """As Decimal128 shows itself."""
        return f"Decimal128({str(self._value)!r})"


def documents_of(rows: pa.Table, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Some columns of rows as documents, one a row. Raises CorruptTable for a variant that is damaged.

    >>> list(documents_of(pa.table({"a": [1, None], "s": [{"x": [True]}, None]}), ["a", "s"]))
    [{'a': 1, 's': {'x': [True]}}, {'a': None, 's': None}]
    """
    if not columns:
        yield from ({} for _ in range(rows.num_rows))
    values = [_column(rows.column(name).combine_chunks(), rows.schema.field(name)) for name in columns]
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def is_variant(field: pa.Field) -> bool:
    """Whether a column's values have types of their own."""
    return bool(field.metadata) and MARK in field.metadata


def _column(array: pa.Array | pa.ChunkedArray, field: pa.Field) -> list[Any]:
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _column(chunk, field)]
    if is_variant(field):
        return [None if one is None else _plain(decode_variant(one["metadata"], one["value"])) for one in array.to_pylist()]
    type_ = array.type
    if pa.types.is_dictionary(type_):
        return _column(array.dictionary_decode(), pa.field(field.name, type_.value_type))
    if pa.types.is_struct(type_):
        parts = [_column(part, child) for part, child in zip(array.flatten(), type_, strict=True)]
        names = [child.name for child in type_]
        rows = zip(*parts, strict=True) if parts else iter([()] * len(array))
        return [dict(zip(names, row, strict=True)) if valid else None for valid, row in zip(_valid(array), rows, strict=True)]
    if pa.types.is_map(type_):
        keys, items = (
            _pieces(array, part, child) for part, child in ((array.keys, type_.key_field), (array.items, type_.item_field))
        )
        return [
            None if key is None or item is None else dict(zip(key, item, strict=True))
            for key, item in zip(keys, items, strict=True)
        ]
    if is_any_list(type_):
        return _pieces(array, array.values, type_.value_field)
    return _scalars(array)


def _valid(array: pa.Array) -> list[bool]:
    found: list[bool] = array.is_valid().to_pylist()
    return found


def _pieces(array: pa.Array, values: pa.Array, field: pa.Field) -> list[list[Any] | None]:
    """The elements of each list, in which `values` holds those of all, beside others that a slice left behind."""
    ends = np.asarray(array.offsets)
    first, last = int(ends[0]), int(ends[-1])
    elements = _column(values.slice(first, last - first), field)
    return [
        elements[start - first : end - first] if valid else None
        for valid, (start, end) in zip(_valid(array), pairwise(ends.tolist()), strict=True)
    ]


def _scalars(array: pa.Array) -> list[Any]:
    type_ = array.type
    if pa.types.is_timestamp(type_):
        per_ms = NS_PER["ms"] // NS_PER[type_.unit]
        return [None if one is None else DatetimeMS(one // per_ms) for one in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(type_):
        return [None if one is None else DatetimeMS(one * MS_PER_DAY) for one in array.cast(pa.int32()).to_pylist()]
    values: list[Any] = array.to_pylist()
    if pa.types.is_int64(type_):
        return [None if one is None else Int64(one) for one in values]
    return [None if one is None else ExactDecimal(one) for one in values] if pa.types.is_decimal(type_) else values


def _plain(value: Any) -> Any:
    """What a variant holds, as a value of a document."""
    match value:
        case Mapping():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return [_plain(one) for one in value]
        case Decimal():
            return ExactDecimal(value)
        case datetime():
            return value
        case date():
            return DatetimeMS((value - _EPOCH).days * MS_PER_DAY)
    return value
