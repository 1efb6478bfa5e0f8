"""Rows as Python mappings, turned into record batches whose columns are typed by all rows, not by the first ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from math import isnan
from typing import TypeGuard, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidValue, UnreadableInput
from gapless.files.ingest.batches import merge_types

CHUNK_ROWS = 10_000
"""Mappings turned into one record batch at a time."""

ONE_TYPE = "Give every value of a column one type"
_PLAIN = frozenset({int, float, str, bytes, bool, datetime, date, timedelta, Decimal, type(None)})
"""Types of which no value holds others, nor nanoseconds."""
_NUMPY_TIMES = frozenset({np.datetime64, np.timedelta64})


def columns_of(rows: Sequence[object], source: str, row: int) -> dict[str, list[object]]:
    """Columns of rows that are mappings, in order of first sight; an absent key is None. `row` is the number of the first.

    Raises UnreadableInput for a row that is no mapping, or a key that is no text.
    """
    if set(map(type, rows)) == {dict}:  # which is quick to see, as rows of JSON are
        dicts = cast("Sequence[dict[str, object]]", rows)
        known = dict.fromkeys(chain.from_iterable(dicts))
        if set(map(type, known)) <= {str}:
            return {name: [one.get(name) for one in dicts] for name in known}
    names: dict[str, None] = {}
    for at, one in enumerate(rows):
        if not isinstance(one, Mapping) or not all(isinstance(key, str) for key in one):
            raise UnreadableInput(
                f"row {row + at} (from 0) of {source} is {str(one)[:100]!r}, a {type(one).__name__}",
                why="A row is a mapping of column names (texts) to values",
                fix="Give every row as a dict",
                source=source,
            )
        names.update(dict.fromkeys(one))
    return {name: [one.get(name) for one in rows if isinstance(one, Mapping)] for name in names}


def to_array(values: Sequence[object], column: str, source: str, row: int) -> pa.Array:
    """One column of Python values as Arrow, by a type that holds them all exactly. `row` is the number of the first.

    Raises InvalidValue for integers beyond 64 bits and those that their column's doubles cannot hold; UnreadableInput for
    values of types that do not go together.
    """
    MixedValues(column=column, source=source, row=row).check(values)
    kinds = set(map(type, values))
    missing = any(map(is_missing, kinds))
    try:
        if finer := _finer_type(kinds, values):
            return pa.array(values, finer, from_pandas=True)
        return pa.array(values, from_pandas=missing)
    except OverflowError as overflow:
        return _wide(values, column, source, row, overflow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as clash:
        said = " ".join(str(clash).split())
        if "exactly representable" in said or "too large to fit" in said:
            return _doubles(values, column, source, row, clash)
        raise UnreadableInput(
            f"column {column!r} of {source} has no one type in its rows from {row} (from 0) on",
            why=said[:300], fix=ONE_TYPE, source=source,
        ) from clash  # fmt: skip


def _finer_type(kinds: set[type], values: Sequence[object]) -> pa.DataType | None:
    """The type of pandas' Timestamps or Timedeltas that have nanoseconds, which Arrow would drop; None for all others."""
    if not any(is_moment(kind) or issubclass(kind, timedelta) for kind in kinds) or not holds_nanoseconds(values):
        return None
    found = pa.infer_type(values, from_pandas=True)
    return pa.duration("ns") if pa.types.is_duration(found) else pa.timestamp("ns", found.tz)


def _wide(values: Sequence[object], column: str, source: str, row: int, overflow: OverflowError) -> pa.Array:
    if all(value is None or (_is_integer(value) and 0 <= value < 2**64) for value in values):
        return pa.array(values, pa.uint64())
    at, value = _first_integer(values, lambda value: not -(2**63) <= value < 2**63)
    if at < 0:  # such as a timedelta
        at, value = next((at, value) for at, value in enumerate(values) if value is not None)
    why = "Its column does not fit 64 bits, signed or unsigned"
    if isinstance(values[at], Mapping | list | tuple | set | frozenset | np.ndarray):
        why = "Integers within lists and mappings have 64 bits and a sign"
    raise InvalidValue(
        f"column {column!r} holds {value} in row {row + at} (from 0) of {source}",
        why=why,
        fix="Give such a column as text, or as decimal.Decimal",
        column=column, row=row + at, value=value, source=source,
    ) from overflow  # fmt: skip


def _doubles(values: Sequence[object], column: str, source: str, row: int, clash: Exception) -> pa.Array:
    """Integers beyond 2**53 among doubles: Arrow refuses each, and those that a double holds are taken here."""
    at, value = _first_integer(values, lambda value: abs(value) >= 2**1000 or int(float(value)) != value)
    if at < 0 and all(value is None or isinstance(value, int | float | np.number) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())  # type: ignore[arg-type]
    why = "A double cannot hold that integer exactly"
    if at < 0:
        at, value = _first_integer(values, lambda value: abs(value) > 2**53)
        why = "Within lists and mappings no integer beyond 2**53 is taken for a double"
    raise InvalidValue(
        f"column {column!r} holds {value} in row {row + at} (from 0) of {source}, and doubles besides",
        why=why,
        fix="Give the column as integers only, as text, or as decimal.Decimal",
        column=column, row=row + at, value=value, source=source,
    ) from clash  # fmt: skip


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _first_integer(values: Sequence[object], wanted: Callable[[int], bool]) -> tuple[int, object]:
    """The first integer that is wanted, at any depth, and the place of the value that holds it; -1 and None where there is none."""
    for at, value in enumerate(values):
        for one in _integers_in(value):
            if wanted(one):
                return at, one
    return -1, None


def _integers_in(value: object) -> Iterator[int]:
    if _is_integer(value):
        yield int(value)
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_integers_in, value.values()))
    elif isinstance(value, list | tuple | set | frozenset | np.ndarray):
        yield from chain.from_iterable(map(_integers_in, value))


def merge_schema(before: Mapping[str, pa.DataType], more: Mapping[str, pa.DataType], source: str) -> dict[str, pa.DataType]:
    """Column types that hold both; raises UnreadableInput naming the column where there are none."""
    merged = dict(before)
    for name, type_ in more.items():
        try:
            merged[name] = merge_types(merged[name], type_) if name in merged else type_
        except (TypeError, ValueError) as clash:
            raise UnreadableInput(
                f"column {name!r} of {source} is {merged[name]} in some rows and {type_} in others",
                why="No one type holds both without loss",
                fix=ONE_TYPE,
                source=source,
            ) from clash
    return merged


def fit_column(array: pa.Array | None, type_: pa.DataType, rows: int, place: tuple[str, str, int]) -> pa.Array:
    """A column in its final type; None gives `rows` nulls. `place` is (column, source, number of the first row).

    Raises InvalidValue where a value cannot be held exactly.
    """
    if array is None:
        return pa.nulls(rows, type_)
    if array.type.equals(type_):
        return array
    try:
        return array.cast(type_)
    except pa.ArrowInvalid as lossy:
        column, source, row = place
        back = array.cast(type_, safe=False).cast(array.type, safe=False)
        at = max(pc.index(pc.equal(back, array), pa.scalar(False)).as_py(), 0) if not pa.types.is_nested(type_) else 0
        value = array[at].as_py()
        raise InvalidValue(
            f"column {column!r} holds {value!r} in row {row + at} (from 0) of {source}",
            why=f"{type_}, which other rows of the column need, cannot hold it exactly",
            fix=ONE_TYPE, column=column, row=row + at, value=value, source=source,
        ) from lossy  # fmt: skip


def is_missing(kind: type) -> bool:
    """Whether it is the type of pandas' NaT or NA, which are nulls."""
    return kind.__name__ in ("NaTType", "NAType")


def is_moment(kind: type) -> bool:
    """Whether its values are datetimes, with or without a zone."""
    return issubclass(kind, datetime) and not is_missing(kind)


def holds_nanoseconds(values: Sequence[object]) -> bool:
    """Whether a pandas Timestamp or Timedelta among them is no whole number of microseconds: Arrow takes these for Python's own."""
    finer = {
        kind for kind in set(map(type, values)) - _PLAIN if issubclass(kind, datetime | timedelta) and not is_missing(kind)
    }
    return bool(finer) and any(
        getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0) for value in values if type(value) in finer
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedValues:
    """Looks at the values of a column; what is refused is an UnreadableInput."""

    column: str
    source: str
    row: int
    """The number of the first value's row."""
    nan_is_null: bool = False
    """As it is to pandas."""

    def check(self, values: Sequence[object], *, nanoseconds: bool = False) -> None:
        """Refuse values of which Arrow would change some to make them one type.

        Nanoseconds of pandas are refused too where `nanoseconds` says so, and within lists and mappings always.
        """
        kinds = set(map(type, values))
        if mix := self._mix(kinds, values):
            raise self._refuse(f"mixes {mix}", "They are not of one type, and making them so would be a guess", ONE_TYPE)
        if any(issubclass(kind, time) for kind in kinds) and any(isinstance(one, time) and one.tzinfo for one in values):
            why = "No type holds a time of day with its zone, and without it it is another time"
            raise self._refuse("holds times of day that have a zone", why, "Give timestamps, or value.replace(tzinfo=None)")
        if kinds <= _PLAIN:
            return
        if nanoseconds and holds_nanoseconds(values):
            why = "Python's own times, as which they would be read, have microseconds"
            raise self._refuse("holds nanoseconds", why, "Give an Arrow array, or a column of a dtype such as datetime64[ns]")
        for inner in _values_within(values):
            self.check(inner, nanoseconds=True)

    def _mix(self, kinds: set[type], values: Sequence[object]) -> str:
        def some(*bases: type) -> bool:
            return any(issubclass(kind, bases) for kind in kinds)

        moments = {kind for kind in kinds if is_moment(kind)}
        if moments and any(issubclass(kind, date) and not issubclass(kind, datetime) for kind in kinds):
            return "dates and datetimes"
        if some(str) and some(bytes, bytearray, memoryview):
            return "text and bytes"
        if not kinds.isdisjoint(_NUMPY_TIMES) and len({kind for kind in kinds if issubclass(kind, np.generic)}) > 1:
            # Arrow ends the process at such a mix.
            return "times of numpy and other values of numpy"
        if moments and len({one.tzinfo is None for one in values if type(one) in moments}) > 1:  # type: ignore[attr-defined]
            return "naive and aware datetimes"
        if some(bool, np.bool_) and self._holds_numbers(kinds, values):
            return "booleans and numbers"
        return ""

    def _holds_numbers(self, kinds: set[type], values: Sequence[object]) -> bool:
        numbers = {kind for kind in kinds if issubclass(kind, int | float | np.number | Decimal) and kind is not bool}
        floats = {kind for kind in numbers if issubclass(kind, float)}
        if not self.nan_is_null or numbers > floats:
            return bool(numbers)
        return any(isinstance(one, float) and not isnan(one) for one in values)

    def _refuse(self, what: str, why: str, fix: str) -> UnreadableInput:
        where = f"column {self.column!r} of {self.source} {what} in its rows from {self.row} (from 0) on"
        return UnreadableInput(where, why=why, fix=fix, source=self.source)


def _values_within(values: Sequence[object]) -> Iterator[list[object]]:
    """The values in all lists together, and those under each key of all mappings."""
    kinds = set(map(type, values))
    lists = tuple(kind for kind in kinds if issubclass(kind, list | tuple | set | frozenset | np.ndarray))
    if lists:
        within = (one for one in values if isinstance(one, lists))
        arrays = any(issubclass(kind, np.ndarray) for kind in lists)
        yield list(chain.from_iterable(map(_items, within) if arrays else within))
    if not any(issubclass(kind, Mapping) for kind in kinds):
        return
    under: dict[object, list[object]] = defaultdict(list)
    for one in values:
        if isinstance(one, dict | Mapping):
            for key, value in one.items():
                under[key].append(value)
    yield from under.values()


def _items(value: Iterable[object]) -> Iterable[object]:
    if isinstance(value, np.ndarray):
        # One item stands for all of an array that has one type.
        return value.tolist() if value.dtype == object else value.reshape(-1)[:1]
    return value
