"""What Polars reads of a table."""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def version() -> str:
    """Its release."""
    return pl.__version__


def read(path: str, at: int | None = None, where: str | None = None) -> pa.Table:
    """All rows, or those of a condition."""
    frame = pl.scan_delta(path, version=at)
    if where is not None:
        frame = frame.filter(pl.sql_expr(where))
    return frame.collect().to_arrow()
