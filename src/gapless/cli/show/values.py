"""Arrow values as JSON, CSV and printed tables have them, the same texts in each; and types as texts.

- An instant is RFC 3339, in its column's zone with the offset (UTC: `Z`) and without one where the column has no zone; 0, 3, 6 or
  9 fraction digits, whichever is exact. A duration is ISO 8601 in seconds (`PT0.25S`).
- Integers of any size are numbers, and exact, decimals without a fraction (as SQL's sums are) among them; any other decimal is a
  text, since most readers of JSON would round it.
- JSON has no NaN and no infinities: they are the texts "NaN", "Infinity" and "-Infinity".
- Binary is base64, a struct an object, a list an array, a map an array of [key, value] pairs; null is null.

Arrow types are typed as `gapless schema` prints them: `int64`, `timestamp[us, tz=UTC]`, `list<struct<a: int8>>`.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.cli.show.console import Plain
from gapless.coverage.local_days import parse_zone
from gapless.errors import InvalidOption
from gapless.model.instant import NS_PER, NS_PER_DAY, Unit, format_instant, ns_from_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain_values(array: pa.Array) -> list[Plain]:
    """An Arrow array's values, one `Plain` a row."""
    for fits, convert in _KINDS:
        if fits(array.type):
            return convert(array)
    return [_plain_scalar(value) for value in array.to_pylist()]


def plain_index_value(value: object, *, aware: bool) -> Plain:
    """An index value as `Coverage` presents it (datetime, numpy.datetime64 in UTC, integer); `aware`: the index has a zone."""
    if isinstance(value, datetime):
        return moment_text(ns_from_datetime(value), value.tzinfo)
    if isinstance(value, np.datetime64):
        unit, size = np.datetime_data(value.dtype)
        return moment_text(int(value.astype(np.int64)) * size * NS_PER[cast("Unit", unit)], UTC if aware else None)
    return value


def plain_identity(value: object) -> Plain:
    """One value of an identity: a text, an integer, a boolean, or a date as `2013-01-31`."""
    return value.isoformat() if isinstance(value, date) else value


def moment_text(ns: int, zone: tzinfo | None) -> str:
    """RFC 3339 text of an instant in a zone; of a wall clock where `zone` is None.

    >>> moment_text(0, timezone(timedelta(hours=-5)))
    '1969-12-31T19:00:00-05:00'
    """
    if zone is None:
        return format_instant(ns, suffix="")
    offset_s = _offset_s(ns, zone)
    # RFC 3339 has whole minutes; the local mean times of the 19th century had seconds.
    if offset_s == 0 or offset_s % 60:
        return format_instant(ns)
    hours, minutes = divmod(abs(offset_s) // 60, 60)
    return format_instant(ns + offset_s * NS_PER["s"], f"{'-' if offset_s < 0 else '+'}{hours:02d}:{minutes:02d}")


def zone_of(name: str | None) -> tzinfo | None:
    """The zone that an Arrow timestamp type names: IANA, or an offset such as `+05:30`."""
    if name is None or name == "UTC":
        return None if name is None else UTC
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if match is None:
        return parse_zone(name)
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)


def _offset_s(ns: int, zone: tzinfo) -> int:
    try:
        offset = (_EPOCH + timedelta(seconds=ns // NS_PER["s"])).astimezone(zone).utcoffset()
    except OverflowError:  # a year that datetime does not have
        return 0
    return 0 if offset is None else offset // timedelta(seconds=1)


def _map(convert: Callable[[Any], Plain], values: Sequence[Any]) -> list[Plain]:
    return [None if value is None else convert(value) for value in values]


def _as_is(array: pa.Array) -> list[Plain]:
    values: list[Plain] = array.to_pylist()
    return values


def _float(value: float) -> Plain:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _floats(array: pa.Array) -> list[Plain]:
    wide = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
    return _map(_float, wide.to_pylist())


def _timestamps(array: pa.Array) -> list[Plain]:
    scale, zone = NS_PER[array.type.unit], zone_of(array.type.tz)
    return _map(lambda count: moment_text(count * scale, zone), array.cast(pa.int64()).to_pylist())


def _dates(array: pa.Array) -> list[Plain]:
    return _map(lambda days: format_instant(days * NS_PER_DAY, suffix="").partition("T")[0], _days(array))


def _days(array: pa.Array) -> list[int | None]:
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    return [None if ms is None else ms // 86_400_000 for ms in array.cast(pa.int64()).to_pylist()]


def _times(array: pa.Array) -> list[Plain]:
    scale, bits = NS_PER[array.type.unit], pa.int32() if pa.types.is_time32(array.type) else pa.int64()
    return _map(lambda count: format_instant(count * scale, suffix="").partition("T")[2], array.cast(bits).to_pylist())


def _durations(array: pa.Array) -> list[Plain]:
    scale = NS_PER[array.type.unit]
    return _map(lambda count: _duration_text(count * scale), array.cast(pa.int64()).to_pylist())


def _duration_text(ns: int) -> str:
    seconds, fraction = divmod(abs(ns), NS_PER["s"])
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{'-' if ns < 0 else ''}PT{seconds}{digits}S"


def _binaries(array: pa.Array) -> list[Plain]:
    return _map(lambda data: base64.b64encode(data).decode(), array.to_pylist())


def _decimals(array: pa.Array) -> list[Plain]:
    return _map(int if array.type.scale == 0 else lambda number: format(number, "f"), array.to_pylist())


def _lists(array: pa.Array) -> list[Plain]:
    return [plain_values(scalar.values) if scalar.is_valid else None for scalar in array]


def _maps(array: pa.Array) -> list[Plain]:
    return [[list(pair.values()) for pair in entries] if entries is not None else None for entries in _lists(array)]


def _structs(array: pa.Array) -> list[Plain]:
    names = [field.name for field in array.type]
    columns = [plain_values(child) for child in array.flatten()]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    return [
        dict(zip(names, row, strict=True)) if there else None
        for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _intervals(array: pa.Array) -> list[Plain]:
    return _map(lambda v: {"months": v.months, "days": v.days, "nanoseconds": v.nanoseconds}, array.to_pylist())


def _plain_scalar(value: object) -> Plain:
    return value if value is None or isinstance(value, bool | int | str) else str(value)


_t = pa.types
_KINDS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[Any], list[Plain]]]] = (
    (lambda t: _t.is_null(t) or _t.is_boolean(t) or _t.is_integer(t), _as_is),
    (lambda t: _t.is_string(t) or _t.is_large_string(t) or _t.is_string_view(t), _as_is),
    (_t.is_floating, _floats),
    (_t.is_timestamp, _timestamps),
    (_t.is_date, _dates),
    (_t.is_time, _times),
    (_t.is_duration, _durations),
    (_t.is_decimal, _decimals),
    (lambda t: _t.is_binary(t) or _t.is_large_binary(t) or _t.is_binary_view(t) or _t.is_fixed_size_binary(t), _binaries),
    (_t.is_map, _maps),
    (
        lambda t: (
            _t.is_list(t) or _t.is_large_list(t) or _t.is_fixed_size_list(t) or _t.is_list_view(t) or _t.is_large_list_view(t)
        ),
        _lists,
    ),
    (_t.is_struct, _structs),
    (_t.is_interval, _intervals),
    (_t.is_dictionary, lambda array: plain_values(array.dictionary_decode())),
    (_t.is_run_end_encoded, lambda array: plain_values(pc.run_end_decode(array))),
)
"""How to turn each type; the first that fits is taken. What is in none (a UUID, a union) becomes Python's text of it."""


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


def _map_type(parts: Sequence[str]) -> pa.DataType:
    key, value = parts
    return pa.map_(_parse(key), _parse(value))


_BUILD: dict[str, Callable[[Sequence[str]], pa.DataType]] = {
    "list": lambda parts: pa.list_(_one(parts)),
    "large_list": lambda parts: pa.large_list(_one(parts)),
    "struct": lambda parts: pa.struct([_named(part) for part in parts]),
    "map": _map_type,
}
