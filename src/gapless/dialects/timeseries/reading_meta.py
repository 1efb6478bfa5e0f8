"""Under which columns rows of several versions can be read together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.dialects.timeseries.actions import TableMeta
from gapless.model.types import children
from gapless.model.widening import why_not_widen


def reading_meta(metas: Sequence[TableMeta]) -> TableMeta:
    """Of the metadata of some versions, oldest first, the newest under which all of their rows can be read exactly.

    That is the last, unless a restore took a column back to a narrower type, or took all columns away.
    """
    return next((one for one in reversed(metas) if all(_reads(one, other) for other in metas)), metas[-1])


def _reads(now: TableMeta, then: TableMeta) -> bool:
    """Whether the columns of `now`, by identity, hold every value that they had under `then`."""
    if now.schema is None or then.schema is None:
        return then.schema is None
    before = {field.name: field for field in then.ids.physical_schema(then.schema)}
    columns = now.ids.physical_schema(now.schema)
    return all(_holds(column.type, before[column.name].type) for column in columns if column.name in before)


def _holds(now: pa.DataType, then: pa.DataType) -> bool:
    if pa.types.is_struct(now) and pa.types.is_struct(then):
        before = {child.name: child.type for child in then}
        return all(_holds(child.type, before[child.name]) for child in now if child.name in before)
    pairs = list(zip(children(now), children(then), strict=False))
    if pairs and now.id == then.id:
        return all(_holds(here.type, there.type) for here, there in pairs)
    return why_not_widen(then, now) is None
