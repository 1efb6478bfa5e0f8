"""Rows to the stored types of Parquet files (`fit`) and back (`restore`): exact both ways.

Wall times of a zone as instants, for whole arrays at once and from the same zone data on every machine.

Zone data comes from `zoneinfo` (the system's, else the tzdata package), not from pyarrow, which fails where the system has none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import AmbiguousTime, CorruptTable, DataError, InvalidValue, NullKey, SchemaMismatch, shorten_text
from gapless.model.column_ids import AS_NAMED, PLAIN, ColumnIds, Fields
from gapless.model.convert import Misfit, constant, convert
from gapless.model.index import IndexSpec
from gapless.model.instant import NS_PER, days_from_civil, format_instant
from gapless.model.schema import means_local_time, stored_as_given, stored_schema
from gapless.model.types import bare_type, stored_type

Ints = npt.NDArray[np.int64]

_DAY_S = 86_400
_MIN_DAY, _MAX_DAY = days_from_civil(1, 1, 1), days_from_civil(9999, 12, 31)
_LOCAL_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class NoInstant(Exception):
    """A wall time that is no single instant: `row` in the array, `kind` "skips", "repeats" or "range"."""

    def __init__(self, row: int, kind: str) -> None:
        super().__init__(kind)
        self.row, self.kind = row, kind


def instants(wall: pa.Array, zone: str) -> pa.Array:
    """The instants (timestamp[unit, UTC]) of naive timestamps without nulls, read on the wall clock of `zone`.

    Raises NoInstant for the first wall time that a clock change skips or repeats, or that lies outside the years 1 to 9999.
    """
    per_s = NS_PER["s"] // NS_PER[wall.type.unit]
    values: Ints = wall.cast(pa.int64()).to_numpy(zero_copy_only=False)
    offsets = _offsets(values // per_s, ZoneInfo(zone)) * per_s
    found = values - offsets
    wrapped = ((offsets > 0) & (found > values)) | ((offsets < 0) & (found < values))
    _refuse(wrapped, "range")
    return pa.array(found).cast(pa.timestamp(wall.type.unit, "UTC"))


def _refuse(bad: npt.NDArray[np.bool_], kind: str) -> None:
    if bad.any():
        raise NoInstant(int(bad.argmax()), kind)


def _offsets(seconds: Ints, zone: ZoneInfo) -> Ints:
    """The zone's offset from UTC, in seconds, at each wall time."""
    days = seconds // _DAY_S
    _refuse((days < _MIN_DAY) | (days > _MAX_DAY), "range")
    unique, inverse = np.unique(days, return_inverse=True)
    by_day = [_offset_of_day(zone, int(day)) for day in unique]
    changing = np.array([offset is None for offset in by_day], dtype=bool)[inverse]
    offsets = np.array([offset or 0 for offset in by_day], dtype=np.int64)[inverse]
    if changing.any():
        offsets[changing] = _offsets_by_second(seconds, np.flatnonzero(changing), zone)
    return offsets


def _offsets_by_second(seconds: Ints, rows: npt.NDArray[np.intp], zone: ZoneInfo) -> Ints:
    unique, inverse = np.unique(seconds[rows], return_inverse=True)
    pairs = np.array([_both_offsets(zone, int(second)) for second in unique], dtype=np.int64)[inverse]
    doubtful = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
    if doubtful.size:
        first = int(doubtful[0])
        raise NoInstant(int(rows[first]), "skips" if pairs[first, 0] < pairs[first, 1] else "repeats")
    return pairs[:, 0]


@lru_cache(maxsize=65_536)
def _offset_of_day(zone: ZoneInfo, day: int) -> int | None:
    """The offset of a whole local day; None where it may change within.

    No zone changes its offset twice within six days (a test looks), so the day's ends tell all.
    """
    found = {*_both_offsets(zone, day * _DAY_S), *_both_offsets(zone, (day + 1) * _DAY_S - 1)}
    return found.pop() if len(found) == 1 else None


def _both_offsets(zone: ZoneInfo, second: int) -> tuple[int, int]:
    """The offsets at a wall time before and after a change: they differ where it is repeated (first is greater) or skipped."""
    local = (_LOCAL_EPOCH + timedelta(seconds=second)).replace(tzinfo=zone)
    return _seconds(local.utcoffset()), _seconds(local.replace(fold=1).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    offset = offset or timedelta()
    return offset.days * _DAY_S + offset.seconds


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def fit(
    batch: pa.RecordBatch, table_schema: pa.Schema, index: IndexSpec, first_row: int, ids: ColumnIds = PLAIN
) -> pa.RecordBatch:
    """An input batch, whose schema `reconcile` accepted, as the table stores it: `stored_schema`, in its column order.

    `first_row` counts the input's rows before this batch; rows in errors are absolute. `ids` are the table's: what the input
    lacks takes its default, or is null; nulls that the input has stay null. A naive index in a table with a time zone is read
    as its wall clock.

    Raises NullKey (null in the index or an entity column), InvalidValue (null in another non-null column; a value that the
    declared type does not hold exactly), AmbiguousTime (a wall time that a clock change skips or repeats), SchemaMismatch
    (types that `reconcile` would have refused).
    """
    if (stored := stored_as_given(table_schema, batch.schema, ids)) is not None:
        arrays = batch.columns
        for place, array in enumerate(arrays):
            if array.null_count:
                _check_nulls(array, table_schema.field(place), index, first_row)
        return pa.RecordBatch.from_arrays(arrays, schema=stored)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = []
    for field in table_schema:
        if not pa.types.is_null(field.type):
            given = columns.get(field.name)
            absent = constant(ids.defaults.get((field.name,)), field.type, batch.num_rows) if given is None else given
            declared = _fit_column(absent, field, index, first_row, ids.input(field.name) if ids else AS_NAMED)
            arrays.append(_store_column(declared, field, first_row, ids))
    return pa.RecordBatch.from_arrays(arrays, schema=stored_schema(table_schema, ids))


def _store_column(declared: pa.Array, field: pa.Field, first_row: int, ids: ColumnIds) -> pa.Array:
    """Declared values as files hold them, nested fields under their stored names."""
    fields = ids.writing(field.name) if ids else AS_NAMED
    try:
        return convert(declared, stored_type(ids.physical(field).type), fields)
    except Misfit as misfit:
        raise refuse_misfit(misfit, declared, field, first_row) from None


def _fit_column(array: pa.Array, field: pa.Field, index: IndexSpec, first_row: int, fields: Fields) -> pa.Array:
    """An input's column in its declared type."""
    try:
        if means_local_time(field, array.type, index):
            array = convert(array, pa.timestamp(bare_type(array.type).unit))
            _check_nulls(array, field, index, first_row)
            array = _instants(array, field, str(index.timezone), first_row)
        declared = convert(array, field.type, fields)
    except Misfit as misfit:
        raise refuse_misfit(misfit, array, field, first_row) from None
    _check_nulls(declared, field, index, first_row)
    return declared


def _check_nulls(array: pa.Array, field: pa.Field, index: IndexSpec, first_row: int) -> None:
    """Raise where a null stands in the index, an entity column or another column that is never null."""
    is_key = field.name == index.column or field.name in index.entity
    if not array.null_count or (field.nullable and not is_key):
        return
    row = first_row + pc.index(array.is_null(), True).as_py()
    if is_key:
        raise null_key(field.name, index, row)
    raise InvalidValue(
        f"column {field.name!r} is null in row {row}",
        why="The table declares it non-null",
        fix="Fill the value, or drop the row",
        column=field.name, row=row, value=None,
    )  # fmt: skip


def null_key(name: str, index: IndexSpec, row: int) -> NullKey:
    """The error for an index or entity column that is null in a row, counted from 0."""
    return NullKey(
        f"the {'index' if name == index.column else 'entity'} column {name!r} is null in row {row}",
        why="Every row needs its index value and its identity",
        fix="Fill the value, or drop the row",
        column=name, row=row,
    )  # fmt: skip


def _instants(wall: pa.Array, field: pa.Field, timezone: str, first_row: int) -> pa.Array:
    try:
        return instants(wall, timezone)
    except NoInstant as error:
        row, value = first_row + error.row, _shown(wall[error.row])
        if error.kind == "range":
            why = "Local times are known for the years 1 to 9999, and an instant must fit its unit"
            raise _invalid(field, row, value, why, "Pass instants: a timestamp with its zone") from None
        raise AmbiguousTime(
            f"column {field.name!r} is {value} in row {row}, a time that {timezone} {error.kind}",
            why="A clock change leaves no single instant for it",
            fix="Pass instants: a timestamp with its zone or offset",
            column=field.name, row=row, value=value, timezone=timezone,
        ) from None  # fmt: skip


def refuse_misfit(misfit: Misfit, array: pa.Array, field: pa.Field, first_row: int) -> DataError:
    """The error for a column of an input, whose row `first_row` is the array's first, that is not what the table's field holds."""
    if misfit.row is None:
        difference = f"{field.name}: {field.type} in the table, {array.type} in the input: {misfit.why}"
        return SchemaMismatch("the input does not fit the table's schema", why=difference, differences=(difference,))
    value = _shown(array[misfit.row] if misfit.value is None else misfit.value)
    fix = "Change the value, or give the column a type that holds it (schema=)"
    return _invalid(field, first_row + misfit.row, value, f"As {field.type}: {misfit.why}", fix)


def _invalid(field: pa.Field, row: int, value: object, why: str, fix: str) -> InvalidValue:
    what = f"column {field.name!r} cannot keep the value {shorten_text(str(value))} of row {row}"
    return InvalidValue(what, why=why, fix=fix, column=field.name, row=row, value=value)


def _shown(scalar: pa.Scalar) -> object:
    """A value for messages: timestamps as exact text, times with their unit, others as Python has them or as Arrow counts."""
    if pa.types.is_timestamp(scalar.type) and scalar.is_valid:
        return format_instant(scalar.value * NS_PER[scalar.type.unit], "Z" if scalar.type.tz else "")
    if pa.types.is_duration(scalar.type) or pa.types.is_time(scalar.type):
        # Python's own would drop nanoseconds.
        return f"{scalar.value} {scalar.type.unit}"
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        # A date that Python's own cannot hold, or such a value nested.
        return f"{getattr(scalar, 'value', 'a value')} as {scalar.type}"


def to_declared(rows: Rows, table_schema: pa.Schema, *, ids: ColumnIds = PLAIN, path: str = "") -> Rows:
    """Rows as a Parquet file holds them, as the declared columns of `table_schema` (the table's, or a part of it), in its order.

    `ids` are the table's, by which columns are found. The file may lack columns and struct fields (they take their default,
    or are null) and hold narrower or wider types, other units, encodings or child names: what comes out is exact. `path` is
    the segment's, for messages. Other columns of the file are left out.

    INT96 must be opened as microseconds (`coerce_int96_timestamp_unit="us"`): as nanoseconds Arrow wraps it silently.
    Raises CorruptTable where a value or type does not fit, or a column that is never null is missing.
    """
    columns = [_restore_column(rows, field, ids, path) for field in table_schema]
    if not columns:
        # Without columns only the input still knows how many rows there are.
        return rows.select([])
    return type(rows).from_arrays(columns, schema=table_schema)


def _restore_column(rows: Rows, field: pa.Field, ids: ColumnIds, path: str) -> pa.Array | pa.ChunkedArray:
    where = rows.schema.get_field_index(ids.stored_name(field.name))
    if where < 0:
        if not field.nullable and rows.num_rows:
            raise _corrupt(field, "is missing from the file and may not be null", path)
        return constant(ids.defaults.get((field.name,)), field.type, rows.num_rows)
    column = rows.column(where)
    fields = ids.reading(field.name) if ids else AS_NAMED
    if not fields and column.type.equals(field.type, check_metadata=True):
        return column
    try:
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([convert(chunk, field.type, fields) for chunk in column.chunks], type=field.type)
        return convert(column, field.type, fields)
    except Misfit as misfit:
        raise _corrupt(field, f"is {field.type} in the log and {column.type} in the file: {misfit.why}", path) from misfit


def _corrupt(field: pa.Field, what: str, path: str) -> CorruptTable:
    return CorruptTable(
        f"column {field.name!r} of segment {path or '(unnamed)'} {what}",
        why="The log and the segment do not belong together, or the segment was written by something else",
        fix="Bring the file back from a backup, or append its rows anew",
        path=path,
    )
