"""Marks for tests that need a newer release of a dependency than the oldest that we support, each with its reason."""

from __future__ import annotations

from importlib.metadata import version

import duckdb
import pyarrow as pa
import pytest


def needs_pyarrow(major: int, why: str) -> pytest.MarkDecorator:
    """Skip on an older pyarrow."""
    return pytest.mark.skipif(_major(pa.__version__) < major, reason=f"pyarrow before {major} {why}")


def needs_duckdb(major: int, why: str) -> pytest.MarkDecorator:
    """Skip on an older DuckDB."""
    return pytest.mark.skipif(_major(duckdb.__version__) < major, reason=f"DuckDB before {major} {why}")


def needs_typer(minor: int, why: str) -> pytest.MarkDecorator:
    """Skip on an older Typer, of which no major release is out."""
    return pytest.mark.skipif(int(version("typer").split(".")[1]) < minor, reason=f"Typer before 0.{minor} {why}")


def _major(release: str) -> int:
    return int(release.partition(".")[0])
