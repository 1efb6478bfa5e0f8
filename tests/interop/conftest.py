"""The independent reader: timeseries-table-format 0.9.0, whose log ours is a superset of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import timeseries_table_format as ttf


@pytest.fixture
def query_there() -> Callable[..., pa.Table]:
    """`query_there(root, sql)`: what 0.9.0 answers about the table at `root`, which it knows as `t`."""

    def query(root: Path, sql: str = "select * from t") -> pa.Table:
        session = ttf.Session()
        session.register_tstable("t", str(root))
        return pa.table(session.sql(sql))

    return query
