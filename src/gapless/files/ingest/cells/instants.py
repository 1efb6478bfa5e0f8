"""Timestamps of text files: ISO 8601, a strptime format, or numbers whose unit was declared.

Pure: Arrow arrays in, Arrow arrays out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.local_days import midnight_s, parse_zone
from gapless.errors import AmbiguousTime, InvalidOption, InvalidValue
from gapless.files.ingest.cells.epoch_numbers import count_since_1970, unit_of_counts
from gapless.files.ingest.cells.texts import TIME_SHAPES, Candidates, Cells, cast_texts, parse, pointed, settled, survey
from gapless.model.fit import NoInstant, instants
from gapless.model.index import IndexSpec
from gapless.model.input_formats import Csv, Json
from gapless.model.instant import NS_PER, Unit
from gapless.model.time.iso_text import canonical, parse_iso
from gapless.model.time.time_format import parse_time_format
from gapless.model.types import normal_zone

_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the texts of one column become values."""

    type: pa.DataType
    """What comes out."""
    unit: Unit | None = None
    """The texts are numbers of this unit since 1970-01-01T00:00Z."""
    format: str | None = None
    """The texts follow this strptime format."""
    plausible: bool = False
    """Refuse instants that look like another unit's."""
    timezone: str | None = None
    """The texts say no offset: they are wall times of this zone, and dates its days."""


def needs_survey(name: str, index: IndexSpec | None, known: pa.DataType | None, declared: pa.DataType | None) -> bool:
    """Whether a column's type (as the table knows it, as the call declares it) leaves open how to read its texts."""
    type_ = declared or known
    if type_ is None and index is not None and name == index.column and index.type != "timestamp":
        return False
    return type_ is None or pa.types.is_null(type_) or pa.types.is_timestamp(type_)


def holds_times(name: str, index: IndexSpec | None, known: pa.DataType | None, declared: pa.DataType | None) -> bool:
    """Whether a column's texts are to be timestamps: it is the index, or the call or the table says so."""
    type_ = declared or known
    if index is not None and name == index.column:
        return index.type == "timestamp" and (declared is None or pa.types.is_timestamp(declared))
    return type_ is not None and pa.types.is_timestamp(type_)


def survey_times(texts: pa.Array, before: Candidates, decimal_point: str = ".") -> Candidates:
    """`survey` of a column that `holds_times`: of every form of ISO 8601 that is read, and of numbers with a fraction."""
    found = survey(texts, before, decimal_point, TIME_SHAPES)
    if before == ():
        return found
    return survey(in_arrow_form(texts), before, decimal_point, TIME_SHAPES) if found == () else found


def in_arrow_form(texts: pa.Array) -> pa.Array:
    """Texts with every ISO 8601 time in the one form that Arrow reads; what is none stays as it is."""
    distinct = texts.dictionary_encode()
    known = distinct.dictionary.to_pylist()
    return pa.array([canonical(text) or text for text in known], pa.string()).take(distinct.indices)


def plan_reading(
    name: str, options: Csv | Json, index: IndexSpec | None, known: pa.DataType | None, found: Candidates, source: str
) -> Reading:
    """Decide how to read a column from what was declared, what the table knows, and what its texts look like.

    Raises InvalidOption where timestamps are numbers and no unit was declared (COV-16).
    """
    declared = options.declared(name) if isinstance(options, Csv) else None
    type_ = declared or known
    is_index = index is not None and name == index.column
    if index is not None and is_index and index.type != "timestamp":
        return Reading(type=type_ or (pa.int64() if index.type == "int64" else pa.uint64()))
    wanted = type_ if type_ is not None and pa.types.is_timestamp(type_) else None
    if not is_index and wanted is None:
        return Reading(type=settled(found) if type_ is None or pa.types.is_null(type_) else _in_text(type_))
    if declared is not None and wanted is None:
        return Reading(type=_in_text(declared))
    if found is None:
        return Reading(type=wanted or pa.null())
    if options.timestamp_format is not None and (is_index or found == ()):
        reading = _formatted(options.timestamp_format, wanted)
    elif any(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_) for type_ in found):
        return _numbered(name, options.timestamp_unit, wanted, (declared, found), source, plausible=is_index)
    else:
        reading = Reading(type=_written(found, wanted))
    if index is None or not is_index or index.timezone is None or reading.type.tz is not None:
        return reading
    zone = (None if wanted is None else wanted.tz) or normal_zone(index.timezone)
    return replace(reading, type=pa.timestamp(reading.type.unit, zone), timezone=index.timezone)


def _in_text(type_: pa.DataType) -> pa.DataType:
    """The type that texts are read as where this one is wanted; string where texts cannot say it (lists, durations)."""
    if pa.types.is_dictionary(type_):
        return _in_text(type_.value_type)
    scalar = (
        pa.types.is_boolean(type_), pa.types.is_integer(type_), pa.types.is_floating(type_), pa.types.is_decimal(type_),
        pa.types.is_date(type_), pa.types.is_time(type_), pa.types.is_timestamp(type_), pa.types.is_binary(type_),
    )  # fmt: skip
    return type_ if any(scalar) else pa.string()


def _formatted(format_: str, wanted: pa.DataType | None) -> Reading:
    zone = "UTC" if parse_time_format(format_).has_zone else None
    return Reading(type=pa.timestamp(wanted.unit if wanted is not None else "us", zone), format=format_)


def _numbered(
    name: str,
    unit: Unit | None,
    wanted: pa.DataType | None,
    seen: tuple[pa.DataType | None, tuple[pa.DataType, ...]],
    source: str,
    *,
    plausible: bool,
) -> Reading:
    declared, found = seen
    if declared is not None:
        return Reading(type=declared, unit=declared.unit)
    if unit is None:
        raise InvalidOption(
            f"timestamps in column {name!r} of {source} are numbers, and their unit was not declared",
            why="The same number is another instant in seconds, milliseconds, microseconds and nanoseconds",
            fix='Pass timestamp_unit="s", "ms", "us" or "ns"; for dates such as 20130131, timestamp_format="%Y%m%d"',
            option="timestamp_unit", value=None,
        )  # fmt: skip
    return Reading(type=wanted or pa.timestamp(unit_of_counts(unit, found), "UTC"), unit=unit, plausible=plausible)


def _written(found: tuple[pa.DataType, ...], wanted: pa.DataType | None) -> pa.DataType:
    """The timestamp type of ISO 8601 texts: with a zone where they say their offset, in the unit the table wants."""
    fits = [type_ for type_ in found if pa.types.is_timestamp(type_)]
    if not fits:
        return wanted or pa.timestamp("us")
    aware = fits[0].tz is not None
    if wanted is None:
        return fits[0]
    return pa.timestamp(wanted.unit, (wanted.tz or "UTC") if aware else None)


def read_cells(cells: Cells, reading: Reading, decimal_point: str = ".") -> pa.Array:
    """Values of one column; raises InvalidValue for the first text that is none, AmbiguousTime for a wall time that is no one instant."""
    if not pa.types.is_timestamp(reading.type):
        return parse(cells, reading.type, decimal_point)
    if reading.unit is not None:
        return _from_numbers(cells, reading, decimal_point)
    if reading.format is not None:
        return _from_format(cells, reading)
    return _from_iso(cells, reading)


def _from_iso(cells: Cells, reading: Reading) -> pa.Array:
    type_ = reading.type if reading.timezone is None else pa.timestamp(reading.type.unit)
    try:
        texts, values = cells.texts, cast_texts(cells.texts, type_)
    except pa.ArrowInvalid:
        texts = in_arrow_form(cells.texts)
        values = _cast_exactly(replace(cells, texts=texts), cells, type_)
    return values if reading.timezone is None else _localised(cells, values, _are_dates(texts), reading)


def _cast_exactly(arrow_form: Cells, cells: Cells, type_: pa.DataType) -> pa.Array:
    try:
        return cast_texts(arrow_form.texts, type_)
    except pa.ArrowInvalid:
        pass
    try:
        fine = cast_texts(arrow_form.texts, pa.timestamp("ns", type_.tz))
    except pa.ArrowInvalid:
        at, why = _first_misread(cells, type_)
        raise cells.refuse(at, why, "Mend the value, or list it under nulls= if it means null") from None
    return _exactly(cells, fine, type_)


def _first_misread(cells: Cells, type_: pa.DataType) -> tuple[int, str]:
    """The first text that cannot be read as the others in its column are, and why."""
    for at, text in enumerate(cells.texts.to_pylist()):
        if text is None:
            continue
        try:
            aware = parse_iso(text).aware
        except ValueError as error:
            return at, str(error)
        if aware != (type_.tz is not None):
            says = "says its offset" if aware else "says no offset"
            return at, f"It {says}, and the others in this column do{'' if type_.tz else ' not'}"
        if not _casts(canonical(text) or text, pa.timestamp("ns", type_.tz)):
            return at, f"{type_} and texts with nanoseconds do not reach so far"
    return 0, f"It does not fit {type_}"


def _are_dates(texts: pa.Array) -> pa.Array:
    return pc.invert(pc.match_substring(texts, ":"))


def _localised(cells: Cells, wall: pa.Array, dates: pa.Array, reading: Reading) -> pa.Array:
    """Wall times of the zone as instants; a date is the first instant of its day, whether its midnight is skipped or comes twice."""
    zone = str(reading.timezone)
    count = NS_PER["s"] // NS_PER[wall.type.unit]
    kept = pc.fill_null(pc.and_not(wall.is_valid(), dates), False)
    rows = np.flatnonzero(kept.to_numpy(zero_copy_only=False))
    try:
        timed = instants(wall.filter(kept), zone)
    except NoInstant as error:
        raise _refuse_wall_time(cells, int(rows[error.row]), error.kind, zone) from None
    found = np.zeros(len(wall), dtype=np.int64)
    found[rows] = timed.cast(pa.int64()).to_numpy()
    dated = np.flatnonzero(pc.fill_null(pc.and_(wall.is_valid(), dates), False).to_numpy(zero_copy_only=False))
    if len(dated):
        days, places = np.unique(
            wall.take(pa.array(dated)).cast(pa.int64()).to_numpy() // (_DAY_S * count), return_inverse=True
        )
        firsts = np.array([midnight_s(parse_zone(zone), int(day)) for day in days], dtype=np.int64) * count
        found[dated] = firsts[places]
    return pa.array(found, mask=wall.is_null().to_numpy(zero_copy_only=False)).cast(reading.type)


def _refuse_wall_time(cells: Cells, at: int, kind: str, zone: str) -> AmbiguousTime | InvalidValue:
    if kind == "range":
        return cells.refuse(
            at, "Local times are known for the years 1 to 9999, and an instant must fit its unit", "Write its offset"
        )
    refused = cells.refuse(at, "", "")
    return AmbiguousTime(
        f"{refused.what}, a time that {zone} {kind}",
        why="A clock change leaves no single instant for it",
        fix="Write its offset, as in 2026-01-05T09:30:00+01:00",
        **refused.facts,
        timezone=zone,
    )


def _exactly(cells: Cells, values: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as lossy:
        back = values.cast(type_, safe=False).cast(values.type, safe=False)
        at = pc.index(pc.equal(back, values), pa.scalar(False)).as_py()
        raise cells.refuse(
            max(at, 0), f"{type_} cannot hold it exactly", "Give the table a finer or wider index type"
        ) from lossy


def _from_numbers(cells: Cells, reading: Reading, decimal_point: str) -> pa.Array:
    written = cells if decimal_point == "." else replace(cells, texts=pointed(cells.texts, decimal_point))
    counted = count_since_1970(written, reading.unit or "ns", reading.type.unit, plausible=reading.plausible)
    return _exactly(cells, counted.cast(pa.timestamp(counted.type.unit, reading.type.tz)), reading.type)


def _from_format(cells: Cells, reading: Reading) -> pa.Array:
    format_ = parse_time_format(reading.format or "")
    # On distinct texts; Arrow's strptime turns 31 February into 2 March.
    distinct = cells.texts.dictionary_encode()
    wall = pa.timestamp(reading.type.unit, None if reading.timezone else reading.type.tz)
    read = pa.array([_read_formatted(cells, text, reading) for text in distinct.dictionary.to_pylist()], pa.int64())
    values = read.cast(wall).take(distinct.indices)
    if reading.timezone is None:
        return values
    return _localised(cells, values, pa.repeat(not format_.has_clock, len(values)), reading)


def _read_formatted(cells: Cells, text: str, reading: Reading) -> int:
    """The count of the reading's unit."""
    step = NS_PER[reading.type.unit]
    try:
        ns = parse_time_format(reading.format or "").read(text)
    except ValueError as refused:
        why = f"It does not follow timestamp_format={reading.format!r}: {refused}"
        raise cells.refuse(_place(cells, text), why, "Mend the value, or the format") from None
    if ns % step or not -(2**63) <= ns // step < 2**63:
        why = f"{reading.type} cannot hold it exactly"
        raise cells.refuse(_place(cells, text), why, "Give the table a finer or wider index type")
    return ns // step


def _place(cells: Cells, text: str) -> int:
    return int(pc.index(cells.texts, pa.scalar(text)).as_py())


_FORMS = {
    "an instant with its offset": pa.timestamp("ns", "UTC"),
    "a date or time without an offset": pa.timestamp("ns"),
    "a whole number": pa.int64(),
    "a number": pa.decimal128(38, 9),
}


def refuse_times(cells: Cells, before: Candidates) -> InvalidValue:
    """The error for a column of timestamps whose texts have no form in common, from the block that broke it."""
    seen = next((name for name, type_ in _FORMS.items() if before and type_ in before), "")
    for at, text in enumerate(cells.texts.to_pylist()):
        if text is None:
            continue
        form, unread = _form(text)
        if unread:
            fix = 'Write it as in 2026-01-05T09:30:00Z, or pass timestamp_format=…, such as "%d/%m/%Y %H:%M"'
            return cells.refuse(at, unread, fix)
        if seen and form != seen:
            return cells.refuse(at, f"It is {form}, and the rows before hold {seen}", "Write all times of a column alike")
        seen = form
    fits = pa.timestamp("ns", "UTC" if "offset" in seen and "without" not in seen else None)
    far = (at for at, text in enumerate(in_arrow_form(cells.texts).to_pylist()) if text is not None and not _casts(text, fits))
    why = "Other rows have nanoseconds, and times with nanoseconds reach from 1677 to 2262 alone"
    return cells.refuse(
        next(far, 0), why, "Append the rows of so far a time to a table of their own, or leave out the nanoseconds"
    )


def _casts(text: str, type_: pa.DataType) -> bool:
    try:
        cast_texts(pa.array([text]), type_)
    except pa.ArrowInvalid:
        return False
    return True


def _form(text: str) -> tuple[str, str]:
    """What kind of time a text is; else why it is not read."""
    for name, type_ in _FORMS.items():
        if _casts(text, type_):
            return name, ""
    try:
        found = parse_iso(text)
    except ValueError as error:
        return "", str(error)
    if canonical(text) is None:
        return "", "Its year lies before 0 or after 9999, which are not read from texts, but from Arrow timestamps"
    return next(iter(_FORMS)) if found.aware else list(_FORMS)[1], ""
