"""Texts of text files: column types inferred and cells parsed with no loss and no guess. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidValue, shorten
from gapless.files.ingest.cells.decimal_texts import UnfitText, readable_decimals

_CLOCK = r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,%d})?)?)"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_WHOLE = r"(0|[1-9][0-9]*)"
_SPECIAL = r"nan|NaN|-?inf|-?Inf|-?Infinity"

# A whole number of sixteen or more digits is no double here: beyond 2**53 doubles skip integers.
_DOUBLE = (
    rf"-?(0|[1-9][0-9]{{0,14}})|-?{_WHOLE}?\.[0-9]+([eE][+-]?[0-9]+)?"
    rf"|-?{_WHOLE}\.|-?{_WHOLE}\.?[eE][+-]?[0-9]+|{_SPECIAL}"
)

SHAPES: dict[pa.DataType, str] = {
    pa.bool_(): "^(true|false|True|False|TRUE|FALSE)$",
    pa.int64(): "^(0|-?[1-9][0-9]{0,18})$",
    pa.uint64(): "^(0|[1-9][0-9]{0,19})$",
    pa.float64(): f"^({_DOUBLE})$",
    pa.date32(): f"^{_DATE}$",
    pa.timestamp("us"): f"^{_DATE}{_CLOCK % 6}?$",
    pa.timestamp("ns"): f"^{_DATE}{_CLOCK % 9}?$",
    pa.timestamp("us", "UTC"): f"^{_DATE}{_CLOCK % 6}{_ZONE}$",
    pa.timestamp("ns", "UTC"): f"^{_DATE}{_CLOCK % 9}{_ZONE}$",
}
"""What a text of each type looks like, in order of preference where several fit: one that does not is no text of the type."""

TIME_SHAPES: dict[pa.DataType, str] = {
    **SHAPES,
    **{pa.decimal128(38, digits): rf"^[+-]?[0-9]+(\.[0-9]{{1,{digits}}})?$" for digits in (3, 6, 9)},
}
"""The same in a column of timestamps, where a number may count seconds with a fraction: its scale says of how many digits."""

Candidates = tuple[pa.DataType, ...] | None
"""Types that fit all texts so far, best first; `()`: only text does; None: there was no text yet."""

_LOOSE_INT = "^[+-]?[0-9]+$"
_LOOSE_NUMBER = r"^([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:[+-]?(nan|inf|infinity)))$"
_INFINITE = "(?i)inf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Texts of one column, from one block of one source."""

    texts: pa.Array
    """Strings, null where there is no value."""
    column: str
    source: str
    row: int
    """Row of the first text in its source, from 0."""

    def refuse(self, at: int, why: str, fix: str) -> InvalidValue:
        """The error for the text at position `at` of this block."""
        row, value = self.row + at, self.texts[at].as_py()
        what = f"column {self.column!r} holds {shorten(value)} in row {row} (from 0) of {self.source}"
        return InvalidValue(what, why=why, fix=fix, column=self.column, row=row, value=value, source=self.source)


def without(texts: pa.Array, nulls: tuple[str, ...]) -> pa.Array:
    """Texts with spaces around them removed, and null where they are empty or one of `nulls`."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(trimmed, value_set=pa.array(["", *nulls], pa.string())), pa.scalar(None, pa.string()), trimmed)


def matches(texts: pa.Array, shape: str) -> bool:
    """Whether every text that is not null matches the regular expression."""
    return bool(pc.all(pc.match_substring_regex(texts, shape), min_count=0).as_py())


def survey(
    texts: pa.Array, before: Candidates, decimal_point: str = ".", shapes: Mapping[pa.DataType, str] = SHAPES
) -> Candidates:
    """Narrow the types a column may have, of those in `shapes`, by more of its texts (already `without` nulls)."""
    if before == () or texts.null_count == len(texts):
        return before
    return tuple(type_ for type_ in (shapes if before is None else before) if _fits(texts, type_, decimal_point))


def _fits(texts: pa.Array, type_: pa.DataType, decimal_point: str) -> bool:
    if (pa.types.is_floating(type_) or pa.types.is_decimal(type_)) and decimal_point != ".":
        texts = pointed(texts, decimal_point)
    if not matches(texts, TIME_SHAPES[type_]):
        return False
    try:
        values = cast_texts(texts, type_)
    except pa.ArrowInvalid:
        return False
    return not (pa.types.is_floating(type_) and _overflow(texts, values) is not None)


def merge_surveys(surveys: list[Mapping[str, Candidates]]) -> dict[str, Candidates]:
    """Types that fit a column in every one of several sources, by name."""
    merged: dict[str, Candidates] = {}
    for one in surveys:
        for name, types in one.items():
            before = merged.get(name)
            if before is None or types is None:
                merged[name] = types if before is None else before
            else:
                merged[name] = tuple(type_ for type_ in before if type_ in types)
    return merged


def settled(candidates: Candidates) -> pa.DataType:
    """The type to read a column as: null where it had no text, string where nothing else fits."""
    if candidates is None:
        return pa.null()
    return candidates[0] if candidates else pa.string()


def parse(cells: Cells, type_: pa.DataType, decimal_point: str = ".") -> pa.Array:
    """Values of a type other than timestamp; raises InvalidValue for the first text that is none, or would lose something.

    A type that has no text form (a list, a duration) gives the texts themselves, for the schema check to refuse.
    """
    texts, what = cells.texts, f"It is no {type_}, or does not fit one"
    if pa.types.is_null(type_):
        return pa.nulls(len(texts))
    if pa.types.is_integer(type_):
        _demand(cells, texts, _LOOSE_INT, what)
        return cast(cells, pc.utf8_ltrim(texts, "+"), type_, what)
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        numbers = pointed(texts, decimal_point) if decimal_point != "." else texts
        _demand(cells, numbers, _LOOSE_NUMBER, what)
        if pa.types.is_decimal(type_):
            try:
                return cast(cells, readable_decimals(numbers, type_), type_, what)
            except UnfitText as unfit:
                raise cells.refuse(unfit.row, what, "Mend the value, or list it under nulls= if it means null") from None
        values = cast(cells, numbers, type_, what)
        lost = _overflow(texts, values)
        if lost is not None:
            raise cells.refuse(lost, f"It is too large for {type_}", "Read the column as text or decimal (types=)")
        return values
    if pa.types.is_time(type_):
        return _times(cells, type_, what)
    if pa.types.is_boolean(type_) or pa.types.is_date(type_) or pa.types.is_binary(type_):
        return cast(cells, texts, type_, what)
    return texts


def pointed(texts: pa.Array, decimal_point: str) -> pa.Array:
    """Texts with "." for the decimal point, and without sense where they held a "." before."""
    return pc.replace_substring(pc.replace_substring(texts, ".", "?"), decimal_point, ".")


def _overflow(texts: pa.Array, values: pa.Array) -> int | None:
    infinite = pc.is_inf(values.cast(pa.float32()) if pa.types.is_float16(values.type) else values)
    if not pc.any(infinite, min_count=0).as_py():
        return None
    at = pc.index(pc.and_(infinite, pc.invert(pc.match_substring_regex(texts, _INFINITE))), pa.scalar(True)).as_py()
    return None if at < 0 else int(at)


def _demand(cells: Cells, texts: pa.Array, shape: str, why: str) -> None:
    at = pc.index(pc.match_substring_regex(texts, shape), pa.scalar(False)).as_py()
    if at >= 0:
        raise cells.refuse(at, why, "Mend the value, list it under nulls=, or state another type (types=)")


def cast(cells: Cells, texts: pa.Array, type_: pa.DataType, why: str) -> pa.Array:
    """Arrow's cast; raises InvalidValue for the first text it refuses."""
    try:
        return cast_texts(texts, type_)
    except pa.ArrowInvalid as refused:
        at = _first_bad(texts, type_)
        raise cells.refuse(at, why, "Mend the value, or list it under nulls= if it means null") from refused


def _first_bad(texts: pa.Array, type_: pa.DataType) -> int:
    """Position of the first text that cannot be cast, by halving."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast_texts(texts.slice(low, middle - low), type_)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _times(cells: Cells, type_: pa.DataType, why: str) -> pa.Array:
    dated = pc.binary_join_element_wise("1970-01-01T", cells.texts, "")
    return cast(cells, dated, pa.timestamp(type_.unit), why).cast(type_)


_FIRST_YEAR, _LAST_YEAR = "1677", "2262"
"""Nanoseconds since 1970 in 64 bits begin and end within these."""


def cast_texts(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """The values of texts, nulls as nulls; raises pyarrow.ArrowInvalid where one has none of this type.

    pyarrow 21 takes a time that is too far for nanoseconds for another one.
    """
    values = texts.cast(type_)
    if pa.types.is_timestamp(type_) and type_.unit == "ns" and _wraps():
        years, counts = pc.utf8_slice_codeunits(texts, 0, 4), values.cast(pa.int64())
        # One that is too far within a year that has both comes back on the other side of 1970.
        early = pc.and_(pc.equal(years, _FIRST_YEAR), pc.greater(counts, 0))
        late = pc.and_(pc.equal(years, _LAST_YEAR), pc.less(counts, 0))
        outside = pc.or_(pc.less(years, _FIRST_YEAR), pc.greater(years, _LAST_YEAR))
        if pc.any(pc.or_(outside, pc.or_(early, late))).as_py():
            raise pa.ArrowInvalid("a time lies outside of 1677 to 2262, which is as far as nanoseconds reach")
    return values


@cache
def _wraps() -> bool:
    try:
        pa.array(["1500-01-01T00:00:00Z"]).cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid:
        return False
    return True
