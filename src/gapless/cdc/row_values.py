"""Rows of tables as JSON's values, and back by the types of their columns, without loss. Pure.

Times, dates and times of day are ISO texts, durations whole numbers of their unit, decimals texts, bytes and floats that are no numbers MongoDB's
extended JSON. Coming in, extended JSON is taken wherever its value fits.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from gapless.cdc.json_values import Json
from gapless.errors import InvalidValue, UnsupportedType, shorten
from gapless.formats.delta.schema.arrow_types import holds_variant
from gapless.model.column_ids import AS_NAMED
from gapless.model.convert import convert
from gapless.model.types import bare_type, is_any_list

_NO_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EXTENDED: Final = {"$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$oid", "$date", "$binary"}
_TIME = re.compile(
    r"(?P<day>[+-]?\d{4,}-\d\d-\d\d)(?:[T ](?P<clock>\d\d:\d\d(?::\d\d)?)(?:\.(?P<part>\d+))?)?(?P<zone>Z|[+-]\d\d:\d\d)?\Z"
)
_CLOCK = re.compile(r"(?P<h>\d\d):(?P<m>\d\d)(?::(?P<s>\d\d))?(?:\.(?P<part>\d+))?\Z")


Exact = TypeVar("Exact")


class _Unfit(Exception):
    """A value that a column does not hold: where below it, which, and why."""

    def __init__(self, value: object, why: str, path: str = "") -> None:
        super().__init__(why)
        self.value, self.why, self.path = value, why, path


def check_told(schema: pa.Schema) -> None:
    """Raise UnsupportedType for a column whose values no record tells: a variant."""
    for field in schema:
        if holds_variant(field):
            raise UnsupportedType(
                f"column {field.name!r} holds variants, which no change record tells",
                why="Their dates, decimals and bytes have no one form in JSON",
                fix=f"Leave it out: exclude=[{field.name!r}]",
                column=field.name,
                type="variant",
            )


def tell_rows(rows: pa.Table) -> list[dict[str, Json]]:
    """Rows as dicts of JSON's values, by column."""
    columns = {}
    for field in rows.schema:
        tell = _teller(field.type)
        columns[field.name] = [None if one is None else tell(one) for one in _wired(rows.column(field.name)).to_pylist()]
    return [{name: values[number] for name, values in columns.items()} for number in range(rows.num_rows)]


def read_rows(images: Sequence[Mapping[str, Json]], schema: pa.Schema) -> pa.Table:
    """Dicts of JSON's values as rows; what one lacks is null. Raises InvalidValue, also for a field that is no column."""
    known = frozenset(schema.names)
    for number, image in enumerate(images):
        for name in image:
            if name not in known:
                raise _invalid(name, number, image[name], "", f"There is no such column; there are {', '.join(schema.names)}")
    return pa.Table.from_arrays([_column(images, field) for field in schema], schema=_nullable(schema))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema], metadata=schema.metadata)


def _column(images: Sequence[Mapping[str, Json]], field: pa.Field) -> pa.ChunkedArray:
    kind, values = bare_type(field.type), []
    read = _reader(kind)
    for number, image in enumerate(images):
        value = image.get(field.name)
        try:
            values.append(None if value is None else read(value))
        except _Unfit as unfit:
            raise _invalid(field.name, number, unfit.value, unfit.path, unfit.why) from None
    return pa.chunked_array([convert(pa.array(values, _wire(kind)), kind, AS_NAMED, _cast)])


def _invalid(column: str, row: int, value: object, path: str, why: str) -> InvalidValue:
    return InvalidValue(
        f"the image of record {row} has {column}{path}={shorten(value)}",
        why=why,
        fix="Declare the column as its source has it, or change such values before they are records",
        column=column,
        row=row,
        value=value,
    )


# -- the form between: what Python holds of each type without loss ------------------------------------------------------


def _wire(kind: pa.DataType) -> pa.DataType:
    """A type with the same parts, whose leaves Python takes and gives exactly: times are whole numbers, decimals texts."""
    t = pa.types
    if t.is_struct(kind):
        return pa.struct([pa.field(child.name, _wire(child.type)) for child in kind])
    if t.is_map(kind):
        return pa.map_(_wire(kind.key_type), _wire(kind.item_type))
    if is_any_list(kind):
        return pa.list_(_wire(kind.value_type))
    if t.is_timestamp(kind) or t.is_duration(kind) or t.is_time64(kind):
        return pa.int64()
    if t.is_date(kind) or t.is_time32(kind):
        return pa.int64() if t.is_date64(kind) else pa.int32()
    if t.is_decimal(kind):
        return pa.string()
    return kind


def _wired(column: pa.ChunkedArray) -> pa.ChunkedArray:
    wire = _wire(bare_type(column.type))
    return pa.chunked_array([convert(chunk, wire, AS_NAMED, _cast) for chunk in column.chunks], wire)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array if array.type == target else array.cast(target)


# -- out ---------------------------------------------------------------------------------------------------------------


def _teller(kind: pa.DataType) -> Callable[[Any], Json]:
    """What a value that is not null is in JSON."""
    t, kind = pa.types, bare_type(kind)
    if t.is_struct(kind):
        children = [(child.name, _teller(child.type)) for child in kind]
        return lambda value: {name: None if value[name] is None else tell(value[name]) for name, tell in children}
    if t.is_map(kind):
        key, item = _teller(kind.key_type), _teller(kind.item_type)
        pairs: Callable[[Any], list[Any]] = lambda value: [[key(k), None if v is None else item(v)] for k, v in value]  # noqa: E731
        return (lambda value: dict(pairs(value))) if t.is_string(kind.key_type) else pairs
    if is_any_list(kind):
        element = _teller(kind.value_type)
        return lambda value: [None if one is None else element(one) for one in value]
    if t.is_timestamp(kind):
        return lambda value: f"{np.datetime64(value, kind.unit)}" + ("Z" if kind.tz is not None else "")
    if t.is_date(kind):
        return lambda value: str(np.datetime64(value, "D" if t.is_date32(kind) else "ms").astype("M8[D]"))
    if t.is_time(kind):
        return lambda value: str(np.datetime64(value, kind.unit)).partition("T")[2]
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind):
        return lambda value: {"$binary": {"base64": base64.b64encode(value).decode(), "subType": "00"}}
    return _number if t.is_floating(kind) else lambda value: value


def _number(value: float) -> Json:
    if math.isfinite(value):
        return value
    return {"$numberDouble": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


# -- in ----------------------------------------------------------------------------------------------------------------


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """What a value of JSON that is not null is in the form between; raises _Unfit."""
    t, kind = pa.types, bare_type(kind)
    if t.is_struct(kind):
        return partial(_struct, {child.name: _reader(child.type) for child in kind})
    if t.is_map(kind):
        return partial(_map, _reader(kind.key_type), _reader(kind.item_type))
    if is_any_list(kind):
        return partial(_list, _reader(kind.value_type), kind.list_size if t.is_fixed_size_list(kind) else None)
    return partial(_leaf, _leaf_reader(kind), kind)


def _leaf_reader(kind: pa.DataType) -> Callable[[Any, pa.DataType], Any]:
    t = pa.types
    for is_kind, read in (
        (t.is_boolean, partial(_exactly, bool)),
        (t.is_integer, _integer),
        (t.is_floating, _float),
        (t.is_decimal, _decimal),
        (t.is_timestamp, _timestamp),
        (t.is_date, _date),
        (t.is_time, _clock),
        (t.is_duration, _integer),
        (_is_text, partial(_exactly, str)),
        (_is_bytes, _bytes),
    ):
        if is_kind(kind):
            return read
    return _nothing


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind))


def _leaf(read: Callable[[Any, pa.DataType], Any], kind: pa.DataType, given: Json) -> Any:
    try:
        return read(_plain(given), kind)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, InvalidOperation, binascii.Error) as error:
        raise _Unfit(given, f"The column has the type {kind}, and this is none: {error}") from None


def _plain(value: Json) -> Any:
    """A value of extended JSON without its wrapping."""
    if not isinstance(value, dict) or len(value) != 1 or (name := next(iter(value))) not in _EXTENDED:
        return value
    inner = value[name]
    if name == "$binary":
        return base64.b64decode(inner["base64"], validate=True)
    if name == "$date":
        return _Milliseconds(_plain(inner)) if not isinstance(inner, str) else inner
    if name in ("$numberInt", "$numberLong"):
        return int(inner)
    if name == "$numberDouble":
        return _NO_NUMBERS[inner] if inner in _NO_NUMBERS else float(inner)
    return inner if name == "$oid" else Decimal(inner)


class _Milliseconds(int):
    """A time since 1970 UTC, as extended JSON has those beyond years of four digits."""


def _struct(readers: Mapping[str, Callable[[Any], Any]], value: Json) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unfit(value, "The column is a struct, and this is no object")
    for name in value:
        if name not in readers:
            raise _Unfit(value[name], f"The column's struct has no such field; it has {', '.join(readers)}", f".{name}")
    return {name: None if value.get(name) is None else _below(read, value[name], f".{name}") for name, read in readers.items()}


def _map(key: Callable[[Any], Any], item: Callable[[Any], Any], value: Json) -> list[tuple[Any, Any]]:
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(isinstance(one, list | tuple) and len(one) == 2 for one in pairs):
        raise _Unfit(value, "The column is a map, and this is neither an object nor a list of pairs")
    return [(_below(key, k, f"[{k!r}]"), None if v is None else _below(item, v, f"[{k!r}]")) for k, v in pairs]


def _list(element: Callable[[Any], Any], size: int | None, value: Json) -> list[Any]:
    if not isinstance(value, list) or size not in (None, len(value)):
        raise _Unfit(value, "The column is a list" + ("" if size is None else f" of {size}"))
    return [None if one is None else _below(element, one, f"[{place}]") for place, one in enumerate(value)]


def _below(read: Callable[[Any], Any], value: Json, path: str) -> Any:
    try:
        return read(value)
    except _Unfit as unfit:
        raise _Unfit(unfit.value, unfit.why, path + unfit.path) from None


def _exactly(wanted: type[Exact], value: Any, kind: pa.DataType) -> Exact:  # noqa: ARG001  # as all of them
    if type(value) is not wanted:
        raise TypeError(f"it is a {type(value).__name__}")
    return value


def _nothing(value: Any, kind: pa.DataType) -> Any:
    raise TypeError(f"no value of JSON is a {kind}, and this is a {type(value).__name__}")


def _integer(value: Any, kind: pa.DataType) -> int:
    found = int(value) if isinstance(value, float | Decimal) and value == int(value) else value
    if type(found) is not int:
        raise TypeError(f"it is a {type(value).__name__}")
    pa.scalar(found, pa.int64() if pa.types.is_duration(kind) else kind)
    return found


def _float(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(f"it is a {type(value).__name__}")
    found = float(value)
    if not isinstance(value, float) and found != value:
        raise ValueError("a float does not hold it exactly")
    if kind != pa.float64() and math.isfinite(found) and not math.isfinite(pa.scalar(found, kind).as_py()):
        raise ValueError(f"{kind} does not reach that far")
    return found


def _decimal(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError(f"it is a {type(value).__name__}")
    found = Decimal(repr(value) if isinstance(value, float) else value)
    if not found.is_finite():
        raise ValueError("a decimal is a number")
    pa.scalar(found, kind)
    return f"{found:f}"


def _bytes(value: Any, kind: pa.DataType) -> bytes:
    if type(value) is not bytes:
        raise TypeError('bytes come as {"$binary": {"base64": "…", "subType": "00"}}')
    pa.scalar(value, kind)
    return value


def _timestamp(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, _Milliseconds):
        return _scaled(int(value), 3, _DIGITS[kind.unit])
    found = _TIME.match(_exactly(str, value, kind))
    if found is None or (found["zone"] is not None) != (kind.tz is not None):
        raise ValueError(f"a time {'with' if kind.tz is not None else 'without'} its zone comes as an ISO text")
    seconds = int(np.datetime64(f"{found['day'].lstrip('+')}T{found['clock'] or '00:00'}", "s").astype(np.int64))
    if found["zone"] not in (None, "Z"):
        sign, hours, minutes = found["zone"][0], int(found["zone"][1:3]), int(found["zone"][4:])
        seconds -= (hours * 60 + minutes) * 60 * (1 if sign == "+" else -1)
    return _with_part(seconds, found["part"], _DIGITS[kind.unit])


def _date(value: Any, kind: pa.DataType) -> int:
    text = _exactly(str, value, kind)
    days = int(np.datetime64(text.lstrip("+"), "D").astype(np.int64))
    if str(np.datetime64(days, "D")) != text.lstrip("+"):
        raise ValueError("a date comes as YYYY-MM-DD")
    return days if pa.types.is_date32(kind) else days * 86_400_000


def _clock(value: Any, kind: pa.DataType) -> int:
    found = _CLOCK.match(_exactly(str, value, kind))
    hours, minutes, seconds = (int(found[part] or 0) for part in "hms") if found is not None else (24, 0, 0)
    if found is None or hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("a time of day comes as HH:MM:SS")
    return _with_part((hours * 60 + minutes) * 60 + seconds, found["part"], _DIGITS[kind.unit])


def _with_part(seconds: int, part: str | None, digits: int) -> int:
    kept = (part or "").rstrip("0")
    if len(kept) > digits:
        raise ValueError("it is finer than the column's unit")
    return seconds * int(10**digits) + int(kept.ljust(digits, "0") or 0)


def _scaled(value: int, digits: int, wanted: int) -> int:
    if wanted >= digits:
        return value * int(10 ** (wanted - digits))
    found, rest = divmod(value, int(10 ** (digits - wanted)))
    if rest:
        raise ValueError("it is finer than the column's unit")
    return found
