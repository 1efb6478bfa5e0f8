"""DuckDB for a moment: to answer SQL over rows in memory, quickly where they are few."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

FEW_ROWS = 1 << 16
"""Up to so many rows are not worth a DuckDB of their own, which takes longer to begin than they do."""
FEW_ALONE = 1 << 20
"""The same of rows that are looked at one by one, and not joined, sorted or counted."""


@contextmanager
def duck_session(rows: int, few: int = FEW_ROWS) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session to register about so many rows in, by itself; nothing of it is left after. More than `few` have threads. Times are in UTC, and of a join the right side is
    held while the left one streams past it.
    """
    with _of_few() if rows <= few else _in_utc(_opened()) as session:
        yield session


def _of_few() -> duckdb.DuckDBPyConnection:
    """A session of the DuckDB that they share; of another, once an error of its own has ended that one."""
    import duckdb

    try:
        return _in_utc(_shared(os.getpid()).cursor())
    except duckdb.FatalException:
        _shared.cache_clear()
        return _in_utc(_shared(os.getpid()).cursor())


def _in_utc(session: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    session.execute("SET TimeZone = 'UTC'")
    return session


@cache
def _shared(_process: int) -> duckdb.DuckDBPyConnection:
    """The one that all sessions over few rows in a process are of."""
    # One thread is the caller's own: none is there that a fork would lose.
    return _opened(threads=1)


def _opened(**settings: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    fixed = {"python_enable_replacements": "false", "disabled_optimizers": "join_order,build_side_probe_side"}
    return duckdb.connect(":memory:", config={**fixed, **settings})
