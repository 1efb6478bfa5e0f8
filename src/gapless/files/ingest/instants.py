"""Timestamps of text files: ISO 8601, a strptime format, or whole numbers whose unit was declared.

Pure: Arrow arrays in, Arrow arrays out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidOption, InvalidValue
from gapless.files.ingest.texts import Candidates, Cells, cast, parse, settled
from gapless.model.index import IndexSpec
from gapless.model.input_formats import Csv, Json
from gapless.model.instant import NS_PER, Unit, days_from_civil, ns_from_datetime

_DAY_S = 86_400
_PLAUSIBLE_S = (days_from_civil(1678, 1, 1) * _DAY_S, days_from_civil(2262, 1, 1) * _DAY_S)
# A wrong unit shrinks an instant of our time by 1,000 or more: up to the year 2130 it lands before March 1970.
_SHRUNK_S = (0, days_from_civil(1970, 3, 1) * _DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the texts of one column become values."""

    type: pa.DataType
    """What comes out."""
    unit: Unit | None = None
    """The texts are whole numbers of this unit since 1970-01-01T00:00Z."""
    format: str | None = None
    """The texts follow this strptime format."""
    plausible: bool = False
    """Refuse instants that look like another unit's."""


def needs_survey(name: str, index: IndexSpec | None, known: pa.DataType | None, declared: pa.DataType | None) -> bool:
    """Whether a column's type (as the table knows it, as the call declares it) leaves open how to read its texts."""
    type_ = declared or known
    if type_ is None and index is not None and name == index.column and index.type != "timestamp":
        return False
    return type_ is None or pa.types.is_null(type_) or pa.types.is_timestamp(type_)


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
        return _formatted(options.timestamp_format, wanted)
    if any(pa.types.is_integer(type_) or pa.types.is_floating(type_) for type_ in found):
        return _numbered(name, options.timestamp_unit, wanted, declared, source, plausible=is_index)
    return Reading(type=_written(found, wanted))


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
    zone = "UTC" if "%z" in format_ else None
    return Reading(type=pa.timestamp(wanted.unit if wanted is not None else "us", zone), format=format_)


def _numbered(
    name: str, unit: Unit | None, wanted: pa.DataType | None, declared: pa.DataType | None, source: str, *, plausible: bool
) -> Reading:
    if declared is not None:
        return Reading(type=declared, unit=declared.unit)
    if unit is None:
        raise InvalidOption(
            f"timestamps in column {name!r} of {source} are numbers, and their unit was not declared",
            why="The same number is another instant in seconds, milliseconds, microseconds and nanoseconds",
            fix='Pass timestamp_unit="s", "ms", "us" or "ns"; for dates such as 20130131, timestamp_format="%Y%m%d"',
            option="timestamp_unit", value=None,
        )  # fmt: skip
    return Reading(type=wanted or pa.timestamp(unit, "UTC"), unit=unit, plausible=plausible)


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
    """Values of one column; raises InvalidValue for the first text that is none."""
    if not pa.types.is_timestamp(reading.type):
        return parse(cells, reading.type, decimal_point)
    if reading.unit is not None:
        return _from_numbers(cells, reading)
    if reading.format is not None:
        return _from_format(cells, reading)
    return _from_iso(cells, reading.type)


def _from_iso(cells: Cells, type_: pa.DataType) -> pa.Array:
    try:
        return cells.texts.cast(type_)
    except pa.ArrowInvalid:
        if type_.tz is not None:
            why = "It is no ISO 8601 instant with its offset, as the others in this column are"
        else:
            why = "It is no ISO 8601 date or time without an offset, as the others in this column are"
        fine = cast(cells, cells.texts, pa.timestamp("ns", type_.tz), why)
        return _exactly(cells, fine, type_)


def _exactly(cells: Cells, values: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as lossy:
        back = values.cast(type_, safe=False).cast(values.type, safe=False)
        at = pc.index(pc.equal(back, values), pa.scalar(False)).as_py()
        raise cells.refuse(
            max(at, 0), f"{type_} cannot hold it exactly", "Give the table a finer or wider index type"
        ) from lossy


def _from_numbers(cells: Cells, reading: Reading) -> pa.Array:
    whole = parse(cells, pa.int64())
    values = whole.cast(pa.timestamp(reading.unit, reading.type.tz))
    if reading.plausible:
        _check_plausible(cells, whole, reading.unit or "ns")
    return _exactly(cells, values, reading.type)


def _check_plausible(cells: Cells, whole: pa.Array, unit: Unit) -> None:
    per_second = NS_PER["s"] // NS_PER[unit]
    first, last = (min(max(second * per_second, -(2**63)), 2**63 - 1) for second in _PLAUSIBLE_S)
    in_range = pc.and_(pc.greater_equal(whole, first), pc.less(whole, last))
    shrunk = pc.and_(pc.greater_equal(whole, _SHRUNK_S[0]), pc.less(whole, _SHRUNK_S[1] * per_second))
    at = pc.index(pc.and_(in_range, pc.invert(shrunk)), pa.scalar(False)).as_py()
    if at >= 0:
        raise cells.refuse(
            at,
            f"As {unit} since 1970 it lies outside 1678 to 2261, or in January or February 1970: mostly a sign of another unit",
            f'Check timestamp_unit="{unit}"; if it is right, pass types={{"{cells.column}": pa.timestamp("{unit}", "UTC")}}',
        )


def _from_format(cells: Cells, reading: Reading) -> pa.Array:
    # Python's strptime, on distinct texts: Arrow's turns 31 February into 2 March.
    distinct = cells.texts.dictionary_encode()
    moments = [_strptime(cells, text, reading) for text in distinct.dictionary.to_pylist()]
    values = pa.array(moments, pa.timestamp("us", reading.type.tz)).take(distinct.indices)
    return _exactly(cells, values, reading.type)


def _strptime(cells: Cells, text: str, reading: Reading) -> int:
    try:
        return ns_from_datetime(datetime.strptime(text, reading.format or "")) // NS_PER["us"]  # noqa: DTZ007 - naive as written
    except ValueError as refused:
        at = pc.index(cells.texts, pa.scalar(text)).as_py()
        why = f"It does not follow timestamp_format={reading.format!r}"
        raise cells.refuse(at, why, "Mend the value, or the format") from refused


def refuse_times(cells: Cells, before: Candidates) -> InvalidValue:
    """The error for a column of timestamps whose texts have no form in common, from the block that broke it."""
    forms = {
        "an instant with its offset": pa.timestamp("ns", "UTC"),
        "a date or time without an offset": pa.timestamp("ns"),
        "a whole number": pa.int64(),
    }
    seen = next((name for name, type_ in forms.items() if before and type_ in before), "")
    at, form = 0, ""
    for at, text in enumerate(cells.texts.to_pylist()):  # noqa: B007 - used after the loop
        form = seen if text is None else _form(text, forms)
        if text is not None and (form == "" or (seen and form != seen)):
            break
        seen = form
    why = f"It is {form}, and the rows before hold {seen}" if form and seen else "It is no ISO 8601 date or time"
    fix = "Write all times of a column alike" if form and seen else 'Pass timestamp_format=…, such as "%d/%m/%Y %H:%M"'
    return cells.refuse(at, why, fix)


def _form(text: str, forms: dict[str, pa.DataType]) -> str:
    for name, type_ in forms.items():
        try:
            pa.array([text]).cast(type_)
        except pa.ArrowInvalid:
            continue
        return name
    return ""
