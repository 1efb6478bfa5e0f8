"""The index of a table: its ordered column, its entity columns and the bucket that coverage counts in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

from gapless.errors import InvalidOption, nearest
from gapless.model.instant import NS_PER

IndexType = Literal["timestamp", "int64", "uint64"]
INDEX_TYPES: tuple[IndexType, ...] = get_args(IndexType)

IdentityValue = str | int | bool | date
Identity = tuple[IdentityValue, ...]
"""One value of all entity columns, in their order; `()` where the table has none."""


EntityType = Literal["utf8", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "date", "bool"]
"""The types that an entity column can have."""
ENTITY_TYPES: tuple[EntityType, ...] = get_args(EntityType)


@dataclass(frozen=True, slots=True)
class FixedWidth:
    """Buckets of one length, aligned to 1970-01-01T00:00Z (or to its wall clock for a naive index)."""

    ns: int
    """Length in nanoseconds, above zero."""


@dataclass(frozen=True, slots=True)
class LocalDays:
    """Buckets of whole local days: 23 or 25 hours long where the clock changes."""

    days: int
    timezone: str


@dataclass(frozen=True, slots=True)
class Months:
    """Buckets of whole calendar months, counted from January 1970; UTC (or wall clock) where `timezone` is None."""

    months: int
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class IntWidth:
    """Buckets of an integer index: `[k * width, (k + 1) * width)`."""

    width: int


Bucket = FixedWidth | LocalDays | Months | IntWidth

_SCALES = {
    "ns": 1,
    "us": NS_PER["us"],
    "ms": NS_PER["ms"],
    "s": NS_PER["s"],
    "m": 60 * NS_PER["s"],
    "h": 3600 * NS_PER["s"],
    "d": 86_400 * NS_PER["s"],
}
_SPELLINGS = {
    "µs": "us", "μs": "us", "sec": "s", "min": "m", "hour": "h", "day": "d", "month": "mo", "week": "w",
    "seconds": "s", "second": "s", "minutes": "m", "minute": "m", "hours": "h", "days": "d", "months": "mo", "weeks": "w",
}  # fmt: skip


def parse_bucket(text: str | int, index_type: IndexType, timezone: str | None = None) -> Bucket:
    """Read a bucket as users spell it: "100us", "15m", "1d", "1mo", or a whole number for an integer index.

    With a `timezone`, days and months are local. Raises InvalidOption.

    >>> parse_bucket("15m", "timestamp")
    FixedWidth(ns=900000000000)
    """
    if index_type != "timestamp":
        width = int(text) if isinstance(text, int) or text.isdecimal() else 0
        if isinstance(text, bool) or not 0 < width < 2**63:
            raise InvalidOption(
                f"bucket {text!r} is no width for an {index_type} index",
                why="An integer index counts in whole numbers from 1 up to 2**63",
                fix="Pass a whole number, such as bucket=10",
                option="bucket", value=text,
            )  # fmt: skip
        return IntWidth(width)
    match = re.fullmatch(r"\s*(\d+)\s*([a-zµμ]+)\s*", str(text))
    unit = _SPELLINGS.get(match[2], match[2]) if match else ""
    count = int(match[1]) if match else 0
    if unit == "w":
        unit, count = "d", count * 7
    if count <= 0 or unit not in (*_SCALES, "mo"):
        raise InvalidOption(
            f"bucket {text!r} is not a length of time",
            why="A bucket is a whole number above zero and a unit: ns, us, ms, s, m, h, d, w or mo",
            fix=nearest(unit, (*_SCALES, "w", "mo")) if match and count > 0 else 'Pass a text such as "1h"',
            option="bucket", value=text,
        )  # fmt: skip
    if unit == "mo":
        return Months(count, timezone)
    if unit == "d" and timezone is not None:
        return LocalDays(count, timezone)
    width_ns = count * _SCALES[unit]
    if width_ns >= 2**32 * _SCALES["d"]:
        raise InvalidOption(f"bucket {text!r} is too long", why="The log holds up to 2**32 days", option="bucket", value=text)
    return FixedWidth(width_ns)


def format_bucket(bucket: Bucket) -> str:
    """The shortest exact spelling of a bucket, which `parse_bucket` reads back.

    >>> format_bucket(FixedWidth(900000000000))
    '15m'
    """
    match bucket:
        case IntWidth(width):
            return str(width)
        case Months(months):
            return f"{months}mo"
        case LocalDays(days):
            return f"{days}d"
        case FixedWidth(ns):
            unit = next(u for u in reversed(_SCALES) if ns % _SCALES[u] == 0)
            return f"{ns // _SCALES[unit]}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """What a table is ordered and covered by; fixed when the table is created."""

    column: str
    """The index column."""
    type: IndexType
    bucket: Bucket
    entity: tuple[str, ...] = ()
    """Entity columns, in order."""
    timezone: str | None = None
    """IANA zone of the table: local days and months, and how a naive time is read."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The entity columns and then the index column: what rows of a segment are sorted by."""
        return (*self.entity, self.column)

    def __post_init__(self) -> None:
        names = (self.column, *self.entity)
        if "" in names or len(set(names)) < len(names):
            raise InvalidOption(
                f"index {self.column!r} and entity {list(self.entity)!r} must be different, non-empty column names",
                fix="Name each column once",
                option="entity", value=self.entity,
            )  # fmt: skip
