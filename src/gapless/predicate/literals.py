"""Parse literals of a filter's SQL text exactly: casts, and the type of the column they are compared with."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

import numpy as np

from gapless.errors import InvalidTime
from gapless.model.instant import NS_PER, NS_PER_DAY, format_instant
from gapless.model.time.iso_text import parse_iso
from gapless.predicate.predicate import Kind, Value

NULL = Value(kind="null", value=None)

_INTEGERS = {
    "TINYINT": (-(2**7), 2**7), "SMALLINT": (-(2**15), 2**15), "INT": (-(2**31), 2**31), "BIGINT": (-(2**63), 2**63),
    "INT128": (-(2**127), 2**127), "UTINYINT": (0, 2**8), "USMALLINT": (0, 2**16), "UINT": (0, 2**32), "UBIGINT": (0, 2**64),
    "UINT128": (0, 2**128),
}  # fmt: skip
_TEXTS = ("VARCHAR", "TEXT", "CHAR", "NVARCHAR", "NCHAR")
_NAIVE = ("TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATETIME")
_AWARE = ("TIMESTAMPTZ", "TIMESTAMPLTZ")
_TIME = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")


def read_number(text: str) -> Value:
    """An int, a Decimal for a fraction, a float (SQL's DOUBLE) for an exponent; raises ValueError beyond DOUBLE."""
    if "e" in text.lower():
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{text} is beyond what a DOUBLE holds")
        return Value(kind="number", value=number)
    return Value(kind="number", value=Decimal(text) if "." in text else int(text))


def negate(value: Value) -> Value:
    """Minus a number; raises ValueError for other kinds."""
    if value.kind == "null":
        return value
    if value.kind != "number" or not isinstance(value.value, int | float | Decimal):
        raise ValueError(f"minus a {value.kind} is no number")
    number = value.value.copy_negate() if isinstance(value.value, Decimal) else -value.value
    return Value(kind="number", value=number)


def cast_value(value: Value, to: str, params: tuple[int, ...]) -> Value:
    """A literal cast to the SQL type `to` (sqlglot's name), where that loses nothing.

    Raises ValueError for a cast that would, or is not known, and InvalidTime for a date or time that cannot be read.
    """
    if value.kind == "null":
        return value
    if to in _INTEGERS:
        return _integer(value, to)
    if to in ("FLOAT", "DOUBLE"):
        number = float(_plain(value))
        return Value(kind="number", value=float(np.float32(number)) if to == "FLOAT" else number)
    if to == "DECIMAL":
        return _decimal(value, *(params or (18, 3)))
    if value.kind != "text" or not isinstance(value.value, str):
        raise ValueError(f"a {value.kind} literal cannot be cast to {to}")
    return _text(value, value.value, to)


def _text(value: Value, text: str, to: str) -> Value:
    if to in _TEXTS:
        return value
    if to == "BOOLEAN" and text.lower() in ("true", "false"):
        return Value(kind="bool", value=text.lower() == "true")
    if to in ("BLOB", "VARBINARY", "BINARY"):
        return Value(kind="bytes", value=_blob(text))
    if to == "TIME":
        return _time(text)
    if to in _NAIVE:
        # With an offset it is an instant, as in Spark and in Postgres' TIMESTAMPTZ.
        aware = _has_offset(text)
        return read_instant(text, "timestamptz" if aware else "timestamp", f"a {to} literal")
    kind: Kind | None = "date" if to == "DATE" else "timestamptz" if to in _AWARE else None
    if kind is None:
        raise ValueError(f"{text!r} cannot be cast to {to}")
    found = read_instant(text, kind, f"a {to} literal")
    if to == "DATE" and found.kind != "date":
        raise ValueError(f"{text!r} is no date alone")
    return found


def _has_offset(text: str) -> bool:
    try:
        return parse_iso(text).aware
    except ValueError:
        return False  # `read_instant` says what is wrong with it


_UNITS_NS = {
    "MICROSECOND": NS_PER["us"],
    "MILLISECOND": NS_PER["ms"],
    "SECOND": NS_PER["s"],
    "MINUTE": 60 * NS_PER["s"],
    "HOUR": 3_600 * NS_PER["s"],
    "DAY": NS_PER_DAY,
    "WEEK": 7 * NS_PER_DAY,
}


def shift(value: Value, count: str, unit: str, sign: int) -> Value:
    """A date or time literal, `sign` (1 or -1) times an interval later, such as `count` "36" of the `unit` "HOURS".

    A date becomes the time of its midnight, as in DuckDB. Raises ValueError for another kind, for a number that is not whole and for
    months and years, which have no one length.
    """
    if value.kind == "null":
        return value
    step = _UNITS_NS.get(unit.upper().removesuffix("S"))
    if value.kind not in ("date", "timestamp", "timestamptz") or not isinstance(value.value, int):
        raise ValueError(f"an interval goes with dates and times, not with a {value.kind}")
    if step is None or not re.fullmatch(r"-?\d{1,15}", count.strip()):
        raise ValueError(f"an interval of {count} {unit.lower()} is none of whole weeks, days, hours, minutes or seconds")
    ns = value.value * NS_PER_DAY if value.kind == "date" else value.value
    return Value(kind="timestamp" if value.kind == "date" else value.kind, value=ns + sign * int(count) * step)


def as_utc(value: Value) -> Value:
    """A TIMESTAMP literal without an offset beside a column in UTC: the instant whose clock in UTC says it."""
    return Value(kind="timestamptz", value=value.value) if value.kind == "timestamp" else value


def _plain(value: Value) -> str | int | float | Decimal:
    if value.kind not in ("number", "text") or isinstance(value.value, bytes | None):
        raise ValueError(f"a {value.kind} literal is no number")
    return value.value


def _exact(value: Value) -> Decimal:
    try:
        number = Decimal(_plain(value))
    except InvalidOperation:
        raise ValueError(f"{value.value!r} is no number") from None
    if not number.is_finite():
        raise ValueError(f"{value.value!r} is no finite number")
    return number


def _integer(value: Value, to: str) -> Value:
    number = _exact(value)
    low, high = _INTEGERS[to]
    if number != number.to_integral_value() or not low <= number < high:
        raise ValueError(f"{value.value} is no {to}")
    return Value(kind="number", value=int(number))


def _decimal(value: Value, precision: int, scale: int = 0) -> Value:
    number = _exact(value)
    unscaled = number.scaleb(scale) if len(number.as_tuple().digits) <= 28 else Decimal(0)
    if unscaled != unscaled.to_integral_value() or number.adjusted() >= precision - scale:
        raise ValueError(f"{value.value} does not fit DECIMAL({precision},{scale}) exactly")
    return Value(kind="number", value=number)


def _blob(text: str) -> bytes:
    parts = re.split(r"\\x([0-9A-Fa-f]{2})", text)
    return b"".join(bytes.fromhex(part) if n % 2 else part.encode() for n, part in enumerate(parts))


def _time(text: str) -> Value:
    match = _TIME.fullmatch(text.strip())
    hour, minute, second = (int(part or 0) for part in match.groups()[:3]) if match else (24, 0, 0)
    if match is None or hour > 23 or minute > 59 or second > 59:
        raise InvalidTime(f"{text!r} is no time of day", fix="Write it as in '09:30' or '09:30:00.5'", value=text)
    seconds = hour * 3600 + minute * 60 + second
    return Value(kind="time", value=seconds * NS_PER["s"] + int((match[4] or "").ljust(9, "0")))


def read_instant(text: str, kind: Kind, what: str) -> Value:
    """ISO 8601 text beside `what`, of kind date, timestamp or timestamptz; a date alone stays a date.

    Raises InvalidTime where it cannot be read, has an offset beside a naive kind, or lacks one beside an aware one.
    """
    try:
        read = parse_iso(text)
    except ValueError as error:
        raise InvalidTime(
            f"{text!r} beside {what} cannot be read as a time",
            why=str(error),
            fix="Write it as in '2024-05-01' or '2024-05-01T09:30:00'",
            value=text,
        ) from error
    if read.is_date:
        return Value(kind="date", value=read.ns // NS_PER_DAY)
    found = Value(kind="timestamptz" if read.aware else "timestamp", value=read.ns)
    _check_awareness(found.kind, kind, what, text)
    return found


def _check_awareness(found: Kind, kind: Kind, what: str, shown: object) -> None:
    if found == "timestamp" and kind == "timestamptz":
        raise InvalidTime(
            f"{shown!r} says no offset, and {what} is an instant with a time zone",
            why="The same wall time is another instant in every zone",
            fix="Add the offset, as in '2024-05-01T09:30:00Z' or '2024-05-01T09:30:00-04:00'",
            value=shown,
        )
    if found == "timestamptz" and kind in ("timestamp", "date"):
        raise InvalidTime(
            f"{shown!r} says an offset, and {what} has no time zone",
            why="It is not known which zone its wall time is of",
            fix="Leave the offset out, as in '2024-05-01T09:30:00'",
            value=shown,
        )


def _shown(value: Value) -> object:
    """A literal for messages: times as texts."""
    if value.kind in ("timestamp", "timestamptz") and isinstance(value.value, int):
        return format_instant(value.value, "" if value.kind == "timestamp" else "Z")
    return value.value


def fit(value: Value, kind: Kind, what: str) -> Value:
    """A literal, as one that can be compared with `what`, a column or function of `kind`.

    Text beside dates and times is read as ISO 8601. Raises InvalidTime for naive against aware, and ValueError for
    kinds that do not compare: nothing is cast silently.
    """
    if value.kind == "null" or kind == "null":
        return value
    if value.kind == "text" and isinstance(value.value, str):
        if kind in ("date", "timestamp", "timestamptz"):
            return read_instant(value.value, kind, what)
        if kind == "time":
            return _time(value.value)
    _check_awareness(value.kind, kind, what, _shown(value))
    pair = {value.kind, kind}
    if len(pair) == 1 or pair in ({"date", "timestamp"}, {"date", "timestamptz"}):
        return value
    raise ValueError(f"{what} is of kind {kind}, and {value.value!r} is of kind {value.kind}")
