"""Dates of the old calendar, which Spark before 3.0, and later in its LEGACY mode, wrote as if there had been no reform in 1582."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import UnsupportedTable
from gapless.model.instant import NS_PER, NS_PER_DAY
from gapless.model.types import is_any_list

_REFORM_DAYS = -141_427
"""1582-10-15, from which on both calendars agree."""
_VERSION, _DATES, _INT96 = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"


def check_calendar(rows: pa.Table, metadata: pq.FileMetaData, path: str) -> None:
    """Raise UnsupportedTable where a file's rows have a date or time that its writer meant in the old calendar: it would come out wrong by days."""
    dates, times = _old(metadata.metadata or {})
    if not (dates or times):
        return
    for column in rows.columns:
        for leaf in (leaf for chunk in column.chunks for leaf in _leaves(chunk)):
            asked = dates if pa.types.is_date(leaf.type) else times
            if asked and _is_before_reform(leaf):
                raise UnsupportedTable(
                    f"data file {path} has dates before 1582-10-15 in the old calendar",
                    why="Spark wrote them so, and read as they are they would be days off",
                    fix="Rewrite the file in Spark with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
                    needs="legacy calendar",
                )


def _old(said: dict[bytes, bytes]) -> tuple[bool, bool]:
    """Whether dates, and times, are of the old calendar, by what a file says of itself."""
    before = said.get(_VERSION, b"3").split(b".")[0] in (b"1", b"2")
    return before or _DATES in said, before or _DATES in said or _INT96 in said


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays of dates and times in an array, nested ones too."""
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _leaves(child)
    elif is_any_list(array.type):
        yield from _leaves(array.flatten())
    elif pa.types.is_map(array.type):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_date32(array.type) or pa.types.is_timestamp(array.type):
        yield array


def _is_before_reform(leaf: pa.Array) -> bool:
    per_day = NS_PER_DAY // NS_PER[leaf.type.unit] if pa.types.is_timestamp(leaf.type) else 1
    first = pc.min(leaf.cast(pa.int64() if pa.types.is_timestamp(leaf.type) else pa.int32())).as_py()
    return first is not None and first < _REFORM_DAYS * per_day
