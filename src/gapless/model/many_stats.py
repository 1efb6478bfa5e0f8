"""Statistics of one column in many files, as Arrow arrays."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyStats:
    """One column's statistics, one value a file; null where not known."""

    low: pa.Array
    """Of the column's type: no value is smaller, but NaN and null."""
    high: pa.Array
    """No value is larger, but NaN and null. Where it is below `low` neither is trusted."""
    nulls: pa.Array
    """int64; only 0 and as many as there are rows are certain."""
    nans: pa.Array
    """int64; only 0 is certain."""
    rows: pa.Array
    """int64."""
