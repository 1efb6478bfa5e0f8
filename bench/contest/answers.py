"""Answers made comparable: the same rows give the same digest, in whatever order, time unit and client they came."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def digest(found: pa.Table) -> dict[str, Any]:
    """Rows, a hash over the exact columns, and the sum of each float column."""
    plain = {name: _plain(found[name]) for name in sorted(found.column_names)}
    table = pa.table(plain)
    exact = [name for name, column in plain.items() if not pa.types.is_floating(column.type)]
    table = table.sort_by([(name, "ascending") for name in exact])
    text = repr([table[name].to_pylist() for name in exact])
    sums = {name: math.fsum(table[name].to_pylist()) for name in plain if name not in exact}
    return {"rows": table.num_rows, "exact": hashlib.sha256(text.encode()).hexdigest()[:16], "sums": sums}


def agree(one: Any, other: Any) -> bool:
    """Whether two digests (or other values) are those of the same answer; a mean may differ in its last digits."""
    if not (isinstance(one, dict) and isinstance(other, dict) and "sums" in one and "sums" in other):
        return bool(one == other)
    same = (one["rows"], one["exact"], one["sums"].keys()) == (other["rows"], other["exact"], other["sums"].keys())
    return same and all(math.isclose(value, other["sums"][name], rel_tol=1e-9) for name, value in one["sums"].items())


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Instants as microseconds, whole numbers as int64, texts as strings."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.cast(pc.cast(column, pa.timestamp("us", kind.tz)), pa.int64())
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    return column if pa.types.is_floating(kind) else column.cast(pa.string())
