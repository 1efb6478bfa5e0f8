"""Expressions of bits, of bytes and of timestamps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from bson.code import Code
from bson.int64 import Int64
from bson.timestamp import Timestamp

from gapless.documents.expressions.objects import document_of
from gapless.documents.expressions.operands import Make, function, null_through, wrong_value
from gapless.documents.expressions.scope import is_null
from gapless.documents.values.codec import encode_document
from gapless.documents.values.numbers import Number, fitting


def _whole(operator: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_value(operator, value, "an int or a long")
    return value


def _joined(operator: str, join: Callable[[int, int], int], of_none: int) -> Make:
    """Of no operands the number that changes nothing."""

    def made(*values: Any) -> Number | None:
        found = [None if is_null(one) else _whole(operator, one) for one in values]
        numbers = [one for one in found if one is not None]
        if len(numbers) < len(found):
            return None
        return fitting(reduce(join, map(int, numbers), of_none), *numbers)

    return function(made, 0, None)


def _turned(value: Any) -> Number:
    number = _whole("$bitNot", value)
    return fitting(~int(number), number)


def _bytes(value: Any) -> int:
    if isinstance(value, str) and not isinstance(value, Code):
        return len(value.encode())
    if not isinstance(value, bytes):
        raise wrong_value("$binarySize", value, "a text or a binary value")
    return len(value)


def _of_timestamp(operator: str, part: Callable[[Timestamp], int]) -> Make:
    def made(value: Any) -> int:
        if not isinstance(value, Timestamp):
            raise wrong_value(operator, value, "a timestamp")
        return Int64(part(value))

    return function(null_through(made), 1)


BITS: Mapping[str, Make] = {
    "$bitAnd": _joined("$bitAnd", lambda one, other: one & other, -1),
    "$bitOr": _joined("$bitOr", lambda one, other: one | other, 0),
    "$bitXor": _joined("$bitXor", lambda one, other: one ^ other, 0),
    "$bitNot": function(null_through(_turned), 1),
    "$binarySize": function(null_through(_bytes), 1),
    "$bsonSize": function(null_through(lambda value: len(encode_document(document_of("$bsonSize", value)))), 1),
    "$tsSecond": _of_timestamp("$tsSecond", lambda value: value.time),
    "$tsIncrement": _of_timestamp("$tsIncrement", lambda value: value.inc),
}
