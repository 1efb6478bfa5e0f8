"""Rows as Python mappings, turned into record batches whose columns are typed by all rows, not by the first ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidValue, UnreadableInput
from gapless.files.ingest.batches import merge_types

_NUMPY_TIMES = frozenset({np.datetime64, np.timedelta64})
CHUNK_ROWS = 10_000
"""Mappings turned into one record batch at a time."""

_HINT = "Give every value of a column one type"


def columns_of(rows: Sequence[object], source: str, row: int) -> dict[str, list[object]]:
    """Columns of rows that are mappings, in order of first sight; an absent key is None. `row` is the number of the first.

    Raises UnreadableInput for a row that is no mapping, or a key that is no text.
    """
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
    kinds = {type(value) for value in values}
    _check_mix(kinds, values, column, source, row)
    missing = any(map(_is_missing, kinds))
    try:
        if _moments(kinds) and any(getattr(value, "nanosecond", 0) for value in values if not _is_missing(type(value))):
            # Arrow would take a pandas Timestamp for a datetime and drop its nanoseconds.
            zone = pa.infer_type(values, from_pandas=True).tz
            return pa.array(values, pa.timestamp("ns", zone), from_pandas=True)
        return pa.array(values, from_pandas=missing)
    except OverflowError as overflow:
        return _wide(values, column, source, row, overflow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as clash:
        said = " ".join(str(clash).split())
        if "exactly representable" in said:
            raise _inexact(values, column, source, row) from clash
        raise UnreadableInput(
            f"column {column!r} of {source} has no one type in its rows from {row} (from 0) on",
            why=said[:300], fix=_HINT, source=source,
        ) from clash  # fmt: skip


def _is_missing(kind: type) -> bool:
    """Whether it is the type of pandas' NaT or NA, which are nulls."""
    return kind.__name__ in ("NaTType", "NAType")


def _moments(kinds: set[type]) -> bool:
    return any(issubclass(kind, datetime) for kind in kinds)


def _check_mix(kinds: set[type], values: Sequence[object], column: str, source: str, row: int) -> None:
    """Refuse mixes that Arrow would take, and lose something by."""
    moments = _moments(kinds)
    dates = any(issubclass(kind, date) and not issubclass(kind, datetime) for kind in kinds)
    texts = any(issubclass(kind, str) for kind in kinds) and any(issubclass(kind, bytes) for kind in kinds)
    mix = "dates and datetimes" if moments and dates else "text and bytes" if texts else ""
    if not mix and len({kind for kind in kinds if issubclass(kind, np.generic)}) > 1 and not kinds.isdisjoint(_NUMPY_TIMES):
        # Arrow ends the process at such a mix.
        mix = "times of numpy and other values of numpy"
    if moments and not mix:
        zones = {value.tzinfo is None for value in values if isinstance(value, datetime) and not _is_missing(type(value))}
        mix = "naive and aware datetimes" if len(zones) > 1 else ""
    if mix:
        raise UnreadableInput(
            f"column {column!r} of {source} mixes {mix} in its rows from {row} (from 0) on",
            why="They are not of one type, and making them so would be a guess",
            fix=_HINT,
            source=source,
        )


def _wide(values: Sequence[object], column: str, source: str, row: int, overflow: OverflowError) -> pa.Array:
    whole = [value for value in values if value is not None]
    if all(isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64 for value in whole):
        return pa.array(values, pa.uint64())
    at = next((at for at, value in enumerate(values) if isinstance(value, int) and not -(2**63) <= value < 2**63), 0)
    raise InvalidValue(
        f"column {column!r} holds {values[at]!r} in row {row + at} (from 0) of {source}",
        why="Its column does not fit 64 bits, signed or unsigned",
        fix="Give such a column as text, or as decimal.Decimal",
        column=column, row=row + at, value=values[at], source=source,
    ) from overflow  # fmt: skip


def _inexact(values: Sequence[object], column: str, source: str, row: int) -> InvalidValue:
    wide = (at for at, value in enumerate(values) if isinstance(value, int) and int(float(value)) != value)
    at = next(wide, 0)
    return InvalidValue(
        f"column {column!r} holds {values[at]!r} in row {row + at} (from 0) of {source}, and doubles besides",
        why="A double cannot hold that integer exactly",
        fix="Give the column as integers only, as text, or as decimal.Decimal",
        column=column, row=row + at, value=values[at], source=source,
    )  # fmt: skip


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
                fix=_HINT,
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
            fix=_HINT, column=column, row=row + at, value=value, source=source,
        ) from lossy  # fmt: skip
