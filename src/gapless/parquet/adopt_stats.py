"""What the log may say of a segment's columns that only its footer was asked about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.model.column_ids import ColumnIds
from gapless.model.index import Identity, IndexSpec
from gapless.model.stats import Bound, ColumnStats, stats_value
from gapless.parquet.column_stats import MAX_BOUND_CHARACTERS, MAX_STATS_COLUMNS
from gapless.parquet.row_groups import row_group_stats


def adopted_stats(
    metadata: pq.FileMetaData,
    names: Sequence[str],
    schema: pa.Schema,
    ids: ColumnIds,
    index: IndexSpec,
    identities: Sequence[Identity],
) -> dict[str, ColumnStats]:
    """Statistics of the first columns of `names` but the index: of entity columns by `identities`, which were read, of others by the footer.

    Bounds of floats are left out: writers differ in what NaN does to them, and the footer does not count it. A bound that a writer cut is
    a bound still. `schema` is the table's, `ids` the identities of its columns.
    """
    groups = [row_group_stats(metadata, number, schema, ids) for number in range(metadata.num_row_groups)]
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    found: dict[str, ColumnStats] = {}
    for name in [name for name in names if name != index.column][:MAX_STATS_COLUMNS]:
        type_ = schema.field(name).type
        if name in index.entity:
            place = index.entity.index(name)
            found[name] = _of_values((identity[place] for identity in identities), type_)
        else:
            known = _together([group(name) for group in groups], rows, bounded=not pa.types.is_floating(type_))
            found |= {} if known is None else {name: known}
    return found


def _of_values(values: Iterable[object], type_: pa.DataType) -> ColumnStats:
    bounds = [stats_value(value, type_) for value in set(values)]
    return _bounded(min(bounds), max(bounds), 0)


def _together(found: Sequence[ColumnStats | None], rows: Sequence[int], *, bounded: bool) -> ColumnStats | None:
    """What holds for all row groups; None where nothing is known."""
    nulls = None if any(one is None or one.nulls is None for one in found) else sum(one.nulls or 0 for one in found if one)
    holding = [one for one, count in zip(found, rows, strict=True) if one is None or one.nulls != count]
    lows = [one.min for one in holding if one is not None and one.min is not None]
    highs = [one.max for one in holding if one is not None and one.max is not None]
    if bounded and holding and len(lows) == len(highs) == len(holding):
        return _bounded(min(lows), max(highs), nulls)
    return None if nulls is None else ColumnStats(nulls=nulls)


def _bounded(low: Bound, high: Bound, nulls: int | None) -> ColumnStats:
    if any(isinstance(bound, str | bytes) and len(bound) > MAX_BOUND_CHARACTERS for bound in (low, high)):
        return ColumnStats(nulls=nulls)
    return ColumnStats(min=low, max=high, nulls=nulls)
