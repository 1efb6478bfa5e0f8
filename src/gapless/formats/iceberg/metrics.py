"""What a manifest says of a file's columns: counts and bounds, as bytes. Pure (the table spec, "Binary single-value serialization")."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal

from gapless.formats.iceberg.types import PrimitiveType, decimal_scale
from gapless.model.stats import Bound, ColumnStats, text_above

TEXT_LENGTH = 16
"""Characters, or bytes, to which bounds are cut, as Iceberg's writers do."""
_NS_PER_US = 1_000
_EXACT = Context(prec=80)
_WHOLE = {"int": ("<i", 31), "date": ("<i", 31), "long": ("<q", 63)}
_FLOATS = {"float": "<f", "double": "<d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Of the columns of one file by field id, as far as they are known."""

    value_counts: Mapping[int, int] = field(default_factory=dict)
    """Nulls are among them."""
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


def file_metrics(rows: int, stats: Mapping[str, ColumnStats], columns: Mapping[str, tuple[int, PrimitiveType]]) -> Metrics:
    """The metrics of a file by the statistics of its columns, both by stored name.

    A column that may hold NaN has no upper bound, and NaN are counted where there are none alone: readers of Iceberg leave out files by both,
    and engines that take NaN for the largest number would miss them.
    """
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for name, known in stats.items():
        if name not in columns:
            continue
        number, type_ = columns[name]
        if known.nulls is not None:
            values[number], nulls[number] = rows, known.nulls
        if type_ in _FLOATS and known.nans == 0:
            nans[number] = 0
        low, high = _bytes(known.min, type_, top=False), _bytes(known.max, type_, top=True)
        if low is not None:
            lower[number] = low
        if high is not None and (type_ not in _FLOATS or known.nans == 0):
            upper[number] = high
    return Metrics(value_counts=values, null_counts=nulls, nan_counts=nans, lower_bounds=lower, upper_bounds=upper)


def _bytes(bound: Bound | None, type_: PrimitiveType, *, top: bool) -> bytes | None:
    """A bound, or a looser one, as bytes; None where there is none, or it is no value of the type."""
    if bound is None:
        return None
    if isinstance(bound, bool):
        return bytes([bound]) if type_ == "boolean" else None
    if isinstance(bound, str):
        return _text(bound, top=top) if type_ == "string" else None
    if isinstance(bound, bytes):
        return _binary(bound, top=top) if type_ == "binary" else bound if type_.startswith("fixed[") else None
    scale = decimal_scale(type_)
    if scale is not None:
        return _decimal(bound, scale)
    if type_ in _FLOATS:
        return _float(float(bound), _FLOATS[type_], top=top)
    if type_.startswith("timestamp") and isinstance(bound, int):
        us = -(-bound // _NS_PER_US) if top else bound // _NS_PER_US
        return _whole(us, *_WHOLE["long"])
    return _whole(bound, *_WHOLE[type_]) if type_ in _WHOLE and isinstance(bound, int) else None


def _whole(value: int, layout: str, bits: int) -> bytes | None:
    return struct.pack(layout, value) if -(1 << bits) <= value < 1 << bits else None


def _float(value: float, layout: str, *, top: bool) -> bytes | None:
    if math.isnan(value):
        return None
    try:
        # Readers that order floats by their bits put -0.0 before 0.0.
        packed = struct.pack(layout, value or (0.0 if top else -0.0))
    except OverflowError:
        return None
    return packed if struct.unpack(layout, packed)[0] == value else None


def _decimal(bound: float | Decimal, scale: int) -> bytes | None:
    if isinstance(bound, float):
        return None
    unscaled = Decimal(bound).scaleb(scale, _EXACT)
    whole = int(unscaled)
    # As few bytes as hold the number and its sign, the highest first.
    return (
        whole.to_bytes(((whole if whole >= 0 else ~whole).bit_length() + 8) // 8, "big", signed=True)
        if whole == unscaled
        else None
    )


def _text(bound: str, *, top: bool) -> bytes | None:
    cut = bound[:TEXT_LENGTH]
    looser = cut if len(cut) == len(bound) or not top else text_above(cut)
    try:
        return None if looser is None else looser.encode()
    except UnicodeEncodeError:
        return None


def _binary(bound: bytes, *, top: bool) -> bytes | None:
    cut = bound[:TEXT_LENGTH]
    if len(cut) == len(bound) or not top:
        return cut
    kept = cut.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
