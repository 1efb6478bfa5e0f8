"""gapless: a lakehouse in a Python package.

Tables of immutable Parquet files under an append-only log, on a disk or in a bucket, that lose nothing, double nothing, and know which
stretches of time they are missing.

>>> import gapless as gl
>>> table = gl.create("memory://readme", index="ts", entity=["symbol"], bucket="1m")
>>> table.version
1

Importing this loads nothing: each name below brings its module in when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless import errors
    from gapless._version import __version__
    from gapless.coverage.gap import Coverage, CoveredBucket, Gap, Window
    from gapless.errors import (
        CallError,
        CommitConflict,
        CommitOutcomeUnknown,
        ConflictError,
        CoverageOverlap,
        DataError,
        GaplessError,
        StoreError,
        TableError,
    )
    from gapless.maintain.finding import Finding, RepairReport, VerifyReport
    from gapless.model.formats import Csv, Json, Parquet
    from gapless.model.report import AppendReport
    from gapless.table.care import repair, verify
    from gapless.table.rows import Rows
    from gapless.table.table import TimeSeriesTable, create, open  # noqa: A004  # gl.open, as gzip.open
    from gapless.table.view import HistoryEntry, TableView

__all__ = [
    "AppendReport",
    "CallError",
    "CommitConflict",
    "CommitOutcomeUnknown",
    "ConflictError",
    "Coverage",
    "CoverageOverlap",
    "CoveredBucket",
    "Csv",
    "DataError",
    "Finding",
    "Gap",
    "GaplessError",
    "HistoryEntry",
    "Json",
    "Parquet",
    "RepairReport",
    "Rows",
    "StoreError",
    "TableError",
    "TableView",
    "TimeSeriesTable",
    "VerifyReport",
    "Window",
    "__version__",
    "create",
    "errors",
    "open",
    "repair",
    "verify",
]

_NAMES_OF = {
    "gapless._version": ("__version__",),
    "gapless.coverage.gap": ("Coverage", "CoveredBucket", "Gap", "Window"),
    "gapless.errors": (
        "CallError",
        "CommitConflict",
        "CommitOutcomeUnknown",
        "ConflictError",
        "CoverageOverlap",
        "DataError",
        "GaplessError",
        "StoreError",
        "TableError",
    ),
    "gapless.maintain.finding": ("Finding", "RepairReport", "VerifyReport"),
    "gapless.model.formats": ("Csv", "Json", "Parquet"),
    "gapless.model.report": ("AppendReport",),
    "gapless.table.care": ("repair", "verify"),
    "gapless.table.rows": ("Rows",),
    "gapless.table.table": ("TimeSeriesTable", "create", "open"),
    "gapless.table.view": ("HistoryEntry", "TableView"),
}
_HOME_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> object:
    """Bring a public name in (PEP 562)."""
    if name == "errors":
        return import_module("gapless.errors")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gapless' has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return thing


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
