"""Expressions that tell the types of values, and convert them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from bson.code import Code
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from gapless.documents.expressions.date_texts import iso_milliseconds
from gapless.documents.expressions.operands import (
    Make,
    Parsing,
    function,
    null_through,
    read_named,
    type_name,
    wrong_call,
    wrong_result,
    wrong_value,
)
from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null
from gapless.documents.filters.operands import TYPE_ALIASES, whole
from gapless.documents.values.dates import from_milliseconds, is_date, milliseconds_of
from gapless.documents.values.numbers import DECIMALS, INT32, INT64, as_decimal, is_number
from gapless.documents.values.order import sort_key
from gapless.documents.values.texts import date_text, number_text
from gapless.errors import InvalidValue, nearest

Convert = Callable[[str, Any], Any]
"""Of an operator's name and a value that is not null the converted one. It raises InvalidValue."""
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_OBJECT_ID = re.compile(r"[0-9a-fA-F]{24}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Code)


def _to_whole(operator: str, value: Any, bound: int, *, dates: bool) -> int:
    if _is_text(value):
        if not _WHOLE.fullmatch(value):
            raise wrong_result(operator, value, "It is no whole number in digits")
        found = int(value)
    elif isinstance(value, bool):
        found = int(value)
    elif dates and is_date(value):
        found = milliseconds_of(value)
    elif is_number(value):
        number = as_decimal(value) if isinstance(value, Decimal128) else value
        if not isinstance(number, int) and not math.isfinite(number):
            raise wrong_result(operator, value, "It has no end, or is no number")
        found = int(number)
    else:
        raise wrong_value(operator, value, "a number, text or truth")
    if not -bound <= found < bound:
        raise wrong_result(operator, value, f"It has more than {bound.bit_length()} bits")
    return found


def _to_int(operator: str, value: Any) -> int:
    return _to_whole(operator, value, INT32, dates=False)


def _to_long(operator: str, value: Any) -> int:
    return Int64(_to_whole(operator, value, INT64, dates=True))


def _to_double(operator: str, value: Any) -> float:
    number = _as_number(operator, value)
    found = float(as_decimal(number) if isinstance(number, Decimal128) else number)
    if math.isinf(found) and not (isinstance(number, float) or as_decimal(number).is_infinite()):
        raise wrong_result(operator, value, "It is beyond all doubles")
    return found


def _to_decimal(operator: str, value: Any) -> Decimal128:
    number = _as_number(operator, value)
    return number if isinstance(number, Decimal128) else Decimal128(DECIMALS.plus(as_decimal(number)))


def _as_number(operator: str, value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if is_number(value):
        return value
    if is_date(value):
        return milliseconds_of(value)
    if not _is_text(value):
        raise wrong_value(operator, value, "a number, text, date or truth")
    if not _DECIMAL.fullmatch(value):
        raise wrong_result(operator, value, "It is no number")
    try:
        return Decimal128(DECIMALS.create_decimal(Decimal(value)))
    except InvalidOperation as error:
        raise wrong_result(operator, value, "It is beyond all decimals") from error


def _to_text(operator: str, value: Any) -> str:
    if _is_text(value):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if is_number(value):
        return number_text(value)
    if is_date(value):
        return date_text(value)
    if isinstance(value, ObjectId):
        return str(value)
    raise wrong_value(operator, value, "a text, number, date, truth or ObjectId")


def _to_bool(operator: str, value: Any) -> bool:  # noqa: ARG001  # as every `Convert`
    return sort_key(value) != sort_key(0) if is_number(value) else value is not False


def _to_date(operator: str, value: Any) -> Any:
    if is_date(value):
        return from_milliseconds(milliseconds_of(value))
    if isinstance(value, ObjectId):
        return from_milliseconds(int.from_bytes(value.binary[:4], "big") * 1000)
    if isinstance(value, Timestamp):
        return from_milliseconds(value.time * 1000)
    if _is_text(value):
        return from_milliseconds(iso_milliseconds(operator, value))
    if type_name(value) == "int" or not is_number(value):
        raise wrong_value(operator, value, "a long, double, decimal, text, ObjectId or timestamp")
    return from_milliseconds(_to_whole(operator, value, INT64, dates=False))


def _to_object_id(operator: str, value: Any) -> ObjectId:
    if isinstance(value, ObjectId):
        return value
    if not _is_text(value):
        raise wrong_value(operator, value, "a text")
    if not _OBJECT_ID.fullmatch(value):
        raise wrong_result(operator, value, "An ObjectId has 24 digits of base 16")
    return ObjectId(value)


_BY_NAME: Mapping[str, Convert] = {
    "double": _to_double,
    "string": _to_text,
    "objectId": _to_object_id,
    "bool": _to_bool,
    "date": _to_date,
    "int": _to_int,
    "long": _to_long,
    "decimal": _to_decimal,
}
_BY_NUMBER = {TYPE_ALIASES[name]: convert for name, convert in _BY_NAME.items()}


def _target(to: Any) -> Convert | None:
    return _BY_NAME.get(to) if isinstance(to, str) else _BY_NUMBER.get(whole(to) or 0)


def _constant_target(operator: str, to: Any) -> Convert:
    found = _target(to)
    if found is None:
        raise wrong_call(operator, to, f"It converts to {', '.join(_BY_NAME)}", nearest(str(to), _BY_NAME))
    return found


def _convert(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("input", "to"), ("onError", "onNull", "format"))
    source, to = at.read(operands["input"]), at.read(operands["to"])
    on_null = at.read(operands["onNull"]) if "onNull" in operands else Constant(None)
    on_error = at.read(operands["onError"]) if "onError" in operands else None
    fixed = _constant_target(operator, to.value) if isinstance(to, Constant) and not is_null(to.value) else None

    def converted(scope: Scope) -> Any:
        value, wanted = source(scope), None if fixed else to(scope)
        if is_null(value):
            return on_null(scope)
        if fixed is None and is_null(wanted):
            return None
        convert = fixed or _target(wanted)
        if convert is None:
            raise wrong_result(operator, wanted, f"It converts to {', '.join(_BY_NAME)}")
        try:
            return convert(operator, value)
        except InvalidValue:
            if on_error is None:
                raise
            return on_error(scope)

    return converted


def _to(operator: str, convert: Convert) -> Make:
    return function(null_through(partial(convert, operator)), 1)


CONVERSIONS: Mapping[str, Make] = {
    "$type": function(type_name, 1),
    "$isNumber": function(is_number, 1),
    "$convert": _convert,
    "$toInt": _to("$toInt", _to_int),
    "$toLong": _to("$toLong", _to_long),
    "$toDouble": _to("$toDouble", _to_double),
    "$toDecimal": _to("$toDecimal", _to_decimal),
    "$toString": _to("$toString", _to_text),
    "$toBool": _to("$toBool", _to_bool),
    "$toDate": _to("$toDate", _to_date),
    "$toObjectId": _to("$toObjectId", _to_object_id),
}
