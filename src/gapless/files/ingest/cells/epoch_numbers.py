"""Timestamps that are numbers: seconds, or parts of them, since 1970, whole or with a fraction, exactly.

Pure: Arrow arrays in, Arrow arrays out.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.ingest.cells.texts import Cells, cast
from gapless.model.instant import NS_PER, Unit, days_from_civil

_DAY_S = 86_400
_PLAUSIBLE_S = (days_from_civil(1678, 1, 1) * _DAY_S, days_from_civil(2262, 1, 1) * _DAY_S)
# A wrong unit shrinks an instant of our time by 1,000 or more: up to the year 2130 it lands before March 1970.
_SHRUNK_S = (0, days_from_civil(1970, 3, 1) * _DAY_S)

_WHOLE = "^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?[0-9]+(\.[0-9]*)?$"
_SCIENTIFIC = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+$"
_DIGITS: dict[Unit, int] = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def unit_of_counts(unit: Unit, found: tuple[pa.DataType, ...]) -> Unit:
    """The unit that holds numbers of `unit` whose texts fit the types `found`: microseconds for a fraction, or nanoseconds."""
    if any(pa.types.is_integer(type_) for type_ in found):
        return unit
    scale = min((type_.scale for type_ in found if pa.types.is_decimal(type_)), default=9)
    return "us" if _DIGITS[unit] + scale <= _DIGITS["us"] else "ns"


def count_since_1970(cells: Cells, unit: Unit, target: Unit, *, plausible: bool) -> pa.Array:
    """Numbers of `unit` as timestamps (of no zone) in the finer of `unit` and `target`.

    Raises InvalidValue for a text that is no number, one in scientific notation, a fraction that the unit does not hold; and, where
    only `plausible` instants are wanted, for one that looks like another unit's.
    """
    step = min(unit, target, key=lambda one: NS_PER[one])
    digits = _DIGITS[step] - _DIGITS[unit]
    texts = pc.utf8_ltrim(cells.texts, "+")
    if not digits and pc.all(pc.match_substring_regex(texts, _WHOLE), min_count=0).as_py():
        counted = cast(cells, texts, pa.int64(), "It does not fit 64 bits")
    else:
        counted = _scaled(cells, texts, digits, step)
    if plausible:
        _check_plausible(cells, counted, step, unit)
    return counted.cast(pa.timestamp(step))


def _scaled(cells: Cells, texts: pa.Array, digits: int, step: Unit) -> pa.Array:
    """Whole counts of `step`, of numbers whose fraction has up to so many digits."""
    _refuse_where(
        cells, pc.match_substring_regex(texts, _SCIENTIFIC),
        "In scientific notation a number has mostly lost digits, as in a spreadsheet's 1.76757E+12",
        "Export the column again as plain digits",
    )  # fmt: skip
    _refuse_where(
        cells, pc.invert(pc.match_substring_regex(texts, _NUMBER)),
        "The others in this column are numbers, and it is none", "Mend the value; in CSV, list it under nulls= if it means null",
    )  # fmt: skip
    fraction = pc.utf8_rtrim(pc.replace_substring_regex(texts, r"^[^.]*\.?", ""), "0")
    _refuse_where(
        cells, pc.greater(pc.utf8_length(fraction), digits),
        f"Its fraction is finer than {step}, and would be cut", "Give the table a finer index type, or round the value yourself",
    )  # fmt: skip
    whole = pc.replace_substring_regex(texts, r"\..*$", "")
    joined = pc.binary_join_element_wise(whole, pc.utf8_rpad(fraction, width=digits, padding="0"), "")
    return cast(cells, joined, pa.int64(), f"As {step} since 1970 it does not fit 64 bits")


def _refuse_where(cells: Cells, bad: pa.Array, why: str, fix: str) -> None:
    at = pc.index(bad, pa.scalar(True)).as_py()
    if at >= 0:
        raise cells.refuse(at, why, fix)


def _check_plausible(cells: Cells, counted: pa.Array, step: Unit, unit: Unit) -> None:
    """Refuse counts of `step`, made of numbers of `unit`, that lie too far away, or near 1970."""
    per_second = NS_PER["s"] // NS_PER[step]
    first, last = (min(max(second * per_second, -(2**63)), 2**63 - 1) for second in _PLAUSIBLE_S)
    in_range = pc.and_(pc.greater_equal(counted, first), pc.less(counted, last))
    shrunk = pc.and_(pc.greater_equal(counted, _SHRUNK_S[0]), pc.less(counted, _SHRUNK_S[1] * per_second))
    _refuse_where(
        cells, pc.invert(pc.and_(in_range, pc.invert(shrunk))),
        f"As {unit} since 1970 it lies outside 1678 to 2261, or in January or February 1970: mostly a sign of another unit",
        f'Check timestamp_unit="{unit}"; if it is right, pass types={{"{cells.column}": pa.timestamp("{unit}", "UTC")}}',
    )  # fmt: skip
