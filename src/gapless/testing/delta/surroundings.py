"""What must hold around a simulated history of a Delta table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from gapless.parquet.delta import vectors
from gapless.table import engine

INLINE_BYTES = (0, 34)
"""Up to which size deletion vectors lie in the log, in every other history: none, or those of one position. The others go into files."""


@contextmanager
def surroundings(seed: int) -> Iterator[None]:
    """Let deletion vectors of this process go into files, and every DuckDB run on its caller's thread.

    What threads of DuckDB's own pull from a table comes by no actor: without waits and faults, and at times that no seed decides.
    """
    inline_bytes, connect, shared = vars(vectors)["INLINE_BYTES"], duckdb.connect, engine.SHARED

    def connect_alone(database: str = ":memory:", *, config: dict[str, Any] | None = None) -> Any:
        return connect(database, config={**(config or {}), "threads": "1"})

    vars(vectors)["INLINE_BYTES"] = INLINE_BYTES[seed % len(INLINE_BYTES)]
    vars(engine)["SHARED"] = engine.SharedDuck()
    duckdb.connect = connect_alone  # type: ignore[assignment]  # it takes what we pass
    try:
        yield
    finally:
        vars(vectors)["INLINE_BYTES"] = inline_bytes
        vars(engine)["SHARED"] = shared
        duckdb.connect = connect
