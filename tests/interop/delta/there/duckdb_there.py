"""What DuckDB's delta extension (over Delta's own Rust kernel), and its iceberg extension, read of a table."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

_opened: list[Any] = []


def _connection() -> Any:
    if not _opened:
        connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
        for name in ("delta", "avro", "iceberg"):
            spec = find_spec(f"duckdb_extension_{name}")
            assert spec is not None
            assert spec.origin is not None
            (extension,) = Path(spec.origin).parent.rglob(f"{name}.duckdb_extension")
            connection.execute(f"load '{extension}'")
        connection.execute("set timezone = 'UTC'")
        _opened.append(connection)
    return _opened[0]


def version() -> str:
    """Its release."""
    return duckdb.__version__


def read(path: str, at: int | None = None, where: str | None = None) -> pa.Table:
    """All rows, or those of a condition."""
    at_version = "" if at is None else f", version => {at}"
    condition = "" if where is None else f" where {where}"
    return _connection().execute(f"select * from delta_scan('{path}'{at_version}){condition}").fetch_arrow_table()


def read_iceberg(path: str, at: int | None = None, where: str | None = None) -> pa.Table:
    """All rows of an Iceberg table in a directory, or those of a condition; `at` a snapshot."""
    snapshot = "" if at is None else f", snapshot_from_id => {at}"
    condition = "" if where is None else f" where {where}"
    return _connection().execute(f"select * from iceberg_scan('{path}'{snapshot}){condition}").fetch_arrow_table()
