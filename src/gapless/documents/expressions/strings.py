"""Expressions of texts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bson.code import Code
from bson.timestamp import Timestamp

from gapless.documents.expressions.operands import Given, Make, function, named, null_through, wrong_result, wrong_value
from gapless.documents.expressions.scope import is_null
from gapless.documents.filters.operands import cut
from gapless.documents.values.dates import is_date
from gapless.documents.values.numbers import is_number
from gapless.documents.values.texts import date_text, number_text

_BLANKS = "\0 \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
"""What `$trim` takes away where it is not told what."""
_LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})
_UPPER = str.maketrans({chr(code): chr(code - 32) for code in range(ord("a"), ord("z") + 1)})


def text_of(operator: str, value: Any) -> str:
    """A value that is a text. Raises InvalidValue."""
    if not isinstance(value, str) or isinstance(value, Code):
        raise wrong_value(operator, value, "a text")
    return value


def _as_text(operator: str, value: Any) -> str:
    """A value as those operators see it that take numbers and dates for texts, too."""
    if is_null(value):
        return ""
    if isinstance(value, str):
        return str(value)
    if is_number(value):
        return number_text(value)
    if is_date(value):
        return date_text(value)
    if isinstance(value, Timestamp):
        return f"Timestamp({value.time}, {value.inc})"
    raise wrong_value(operator, value, "a text, number or date")


def _concat(*values: Any) -> str | None:
    found = []
    for value in values:
        if is_null(value):
            return None
        found.append(text_of("$concat", value))
    return "".join(found)


def _place(operator: str, value: Any) -> int:
    found = cut(value)
    if found is None:
        raise wrong_value(operator, value, "a number")
    return found


def _substring(value: Any, start: Any, count: Any) -> str:
    text, at, length = _as_text("$substrCP", value), _place("$substrCP", start), _place("$substrCP", count)
    if at < 0 or length < 0:
        raise wrong_result("$substrCP", [at, length], "A place and a number of characters are at least 0")
    return text[at : at + length]


def _substring_bytes(value: Any, start: Any, count: Any) -> str:
    data, at, length = _as_text("$substrBytes", value).encode(), _place("$substrBytes", start), _place("$substrBytes", count)
    if at < 0:
        raise wrong_result("$substrBytes", at, "A place is at least 0")
    found = data[at:] if length < 0 else data[at : at + length]
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise wrong_result("$substrBytes", value, "It would cut a character in two") from error


def _split(value: Any, by: Any) -> list[str]:
    text, separator = text_of("$split", value), text_of("$split", by)
    if not separator:
        raise wrong_result("$split", value, "Nothing is split by an empty text")
    return text.split(separator)


def _trimmed(operator: str, cut_off: Callable[[str, str], str]) -> Make:
    def made(given: Given) -> str | None:
        value, blanks = given["input"], given.get("chars", _BLANKS)
        if is_null(value) or is_null(blanks):
            return None
        return cut_off(text_of(operator, value), text_of(operator, blanks))

    return named(made, ("input",), ("chars",))


def _index(operator: str, parts: Callable[[str], Any]) -> Make:
    """Where one text begins in another, in characters or in bytes; -1 where it does not."""

    def made(value: Any, wanted: Any, start: Any = 0, end: Any = None) -> int | None:
        if is_null(value):
            return None
        text, part = parts(text_of(operator, value)), parts(text_of(operator, wanted))
        first, last = _place(operator, start), len(text) if end is None else _place(operator, end)
        if first < 0 or last < 0:
            raise wrong_result(operator, [first, last], "Places are at least 0")
        if first > len(text) or last < first:
            return -1
        found: int = text.find(part, first, last)
        return found

    return function(made, 2, 4)


def _compare_ignoring_case(one: Any, other: Any) -> int:
    first, second = (_as_text("$strcasecmp", value).translate(_UPPER).encode() for value in (one, other))
    return (first > second) - (first < second)


def _replaced(operator: str, count: int) -> Make:
    def made(given: Given) -> str | None:
        parts = [given[name] for name in ("input", "find", "replacement")]
        wrong = next((one for one in parts if not is_null(one) and not isinstance(one, str)), None)
        if wrong is not None:
            raise wrong_value(operator, wrong, "a text")
        if any(map(is_null, parts)):
            return None
        text, find, replacement = parts
        return str(text).replace(find, replacement, count)

    return named(made, ("input", "find", "replacement"))


_SUBSTRING_BYTES = function(_substring_bytes, 3)
STRINGS: Mapping[str, Make] = {
    "$concat": function(_concat, 0, None),
    "$toLower": function(lambda value: _as_text("$toLower", value).translate(_LOWER), 1),
    "$toUpper": function(lambda value: _as_text("$toUpper", value).translate(_UPPER), 1),
    "$substr": _SUBSTRING_BYTES,
    "$substrBytes": _SUBSTRING_BYTES,
    "$substrCP": function(_substring, 3),
    "$strLenCP": function(lambda value: len(text_of("$strLenCP", value)), 1),
    "$strLenBytes": function(lambda value: len(text_of("$strLenBytes", value).encode()), 1),
    "$split": function(null_through(_split), 2),
    "$trim": _trimmed("$trim", str.strip),
    "$ltrim": _trimmed("$ltrim", str.lstrip),
    "$rtrim": _trimmed("$rtrim", str.rstrip),
    "$indexOfCP": _index("$indexOfCP", str),
    "$indexOfBytes": _index("$indexOfBytes", str.encode),
    "$strcasecmp": function(_compare_ignoring_case, 2),
    "$replaceOne": _replaced("$replaceOne", 1),
    "$replaceAll": _replaced("$replaceAll", -1),
}
