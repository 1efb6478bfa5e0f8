"""Zone maps: what is known of the rows of a row group, and whether a filter can pass them over. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless._names import above
from gapless.files.pages.column_stats import stats_of
from gapless.model.stats import Bound, ColumnStats, text_above
from gapless.predicate.predicate import Predicate
from gapless.predicate.prune import may_match
from gapless.predicate.where import parse_where

TEXT_LENGTH = 64
"""Characters of a text, or bytes, that a bound keeps."""
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """What is known of the rows of one row group."""

    schema: pa.Schema
    rows: int
    """How many rows."""
    columns: Mapping[Path, ColumnStats]
    """Of columns, and of fields of structs, by their paths: `min`, `max`, `nulls`, `nans`; what is not known is None, or no column. A bound
    that was cut says less than the values, never more: no value is below `min` or above `max`, but null and NaN."""

    def may_match(self, predicate: Predicate) -> bool:
        """False only where no row can make a predicate true. Raises UnknownColumn."""
        return may_match(predicate, lambda name: self.columns.get(tuple(name.split("\0"))), self.schema, rows=self.rows)


def can_skip(filter: str | Mapping[str, Any], zone: Zone) -> bool:  # noqa: A002  # as `gl.documents.matches` calls it
    """Whether a filter certainly keeps no row of a row group, so that it need not be read. False says nothing.

    Args:
        filter: SQL text as a scan's `where` takes it, or a filter of MongoDB's, as `gl.documents.query` takes it (`gapless[documents]`).
        zone: What is known of the row group: of `Writer.zones` or `read_zones`.

    Raises InvalidFilter, UnknownColumn, InvalidTime, NotSupported.
    """
    if isinstance(filter, str):
        return not zone.may_match(parse_where(filter, zone.schema))
    found: bool = above("gapless.documents", "can_skip")(filter, zone)
    return found


def zone_of(rows: pa.Table, text_length: int = TEXT_LENGTH) -> Zone:
    """What is known of rows that are at hand; bounds of texts and bytes keep so many characters.

    >>> zone_of(pa.table({"t": ["ab", "c" * 9]}), text_length=3).columns[("t",)]
    ColumnStats(min='ab', max='ccd', nulls=0, nans=None)
    """
    columns = {path: _cut(stats_of(values, None), text_length) for path, values in _columns(rows)}
    return Zone(schema=rows.schema, rows=rows.num_rows, columns=columns)


def _columns(rows: pa.Table) -> Iterator[tuple[Path, pa.ChunkedArray]]:
    for name in rows.column_names:
        yield from _fields((name,), rows.column(name))


def _fields(path: Path, values: pa.ChunkedArray) -> Iterator[tuple[Path, pa.ChunkedArray]]:
    if pa.types.is_struct(values.type):
        for child in values.type:
            # A null of the struct is a null of its fields.
            yield from _fields((*path, child.name), pc.struct_field(values, child.name))
    else:
        yield path, values


def _cut(stats: ColumnStats, length: int) -> ColumnStats:
    low, high = stats.min, stats.max
    low = low[:length] if isinstance(low, str | bytes) else low
    if isinstance(high, str | bytes) and len(high) > length:
        high = _above(high[:length])
    return ColumnStats(min=low, max=high, nulls=stats.nulls, nans=stats.nans)


def _above(prefix: str | bytes) -> Bound | None:
    """The least text, or bytes, after all with a prefix; None where there is none."""
    if isinstance(prefix, str):
        return text_above(prefix)
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
