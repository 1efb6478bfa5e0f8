"""Marks for tests that need a newer release of a dependency than the oldest that we support, each with its reason."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest


def needs_pyarrow(major: int, why: str) -> pytest.MarkDecorator:
    """Skip on an older pyarrow."""
    return pytest.mark.skipif(_major(pa.__version__) < major, reason=f"pyarrow before {major} {why}")


def needs_duckdb(major: int, why: str) -> pytest.MarkDecorator:
    """Skip on an older DuckDB."""
    return pytest.mark.skipif(_major(duckdb.__version__) < major, reason=f"DuckDB before {major} {why}")


def _major(version: str) -> int:
    return int(version.partition(".")[0])
