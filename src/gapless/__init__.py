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
    from gapless import errors, spark
    from gapless._version import __version__
    from gapless.coverage.gap import Coverage, CoveredBucket, Gap, Window
    from gapless.coverage.sessions import Calendar, Sessions
    from gapless.coverage.weekly import WeeklyHours
    from gapless.errors import (
        CallError,
        CommitConflict,
        CommitOutcomeUnknown,
        ConflictError,
        CoverageOverlap,
        DataError,
        FillStopped,
        GaplessError,
        StoreError,
        TableError,
    )
    from gapless.maintain.compact import CompactionReport
    from gapless.maintain.compact_plan import CompactionPlan
    from gapless.maintain.expire import ExpireReport
    from gapless.maintain.finding import Finding, RepairReport, VerifyReport
    from gapless.maintain.vacuum import VacuumReport
    from gapless.maintain.vacuum_plan import VacuumEntry
    from gapless.model.formats import Csv, Json, Parquet
    from gapless.model.report import AppendReport, ChangeReport
    from gapless.table import delta
    from gapless.table.care import repair, verify
    from gapless.table.diff import SchemaDiff, VersionDiff
    from gapless.table.fill import FailedGap, FillReport
    from gapless.table.history import HistoryEntry
    from gapless.table.restore import RestoreReport
    from gapless.table.rows import Rows
    from gapless.table.table import TimeSeriesTable, create, open  # noqa: A004  # gl.open, as gzip.open
    from gapless.table.view import TableView, open_at

__all__ = [
    "AppendReport",
    "Calendar",
    "CallError",
    "ChangeReport",
    "CommitConflict",
    "CommitOutcomeUnknown",
    "CompactionPlan",
    "CompactionReport",
    "ConflictError",
    "Coverage",
    "CoverageOverlap",
    "CoveredBucket",
    "Csv",
    "DataError",
    "ExpireReport",
    "FailedGap",
    "FillReport",
    "FillStopped",
    "Finding",
    "Gap",
    "GaplessError",
    "HistoryEntry",
    "Json",
    "Parquet",
    "RepairReport",
    "RestoreReport",
    "Rows",
    "SchemaDiff",
    "Sessions",
    "StoreError",
    "TableError",
    "TableView",
    "TimeSeriesTable",
    "VacuumEntry",
    "VacuumReport",
    "VerifyReport",
    "VersionDiff",
    "WeeklyHours",
    "Window",
    "__version__",
    "create",
    "delta",
    "errors",
    "open",
    "open_at",
    "repair",
    "spark",
    "verify",
]

_NAMES_OF = {
    "gapless._version": ("__version__",),
    "gapless.coverage.gap": ("Coverage", "CoveredBucket", "Gap", "Window"),
    "gapless.coverage.sessions": ("Calendar", "Sessions"),
    "gapless.coverage.weekly": ("WeeklyHours",),
    "gapless.errors": (
        "CallError",
        "CommitConflict",
        "CommitOutcomeUnknown",
        "ConflictError",
        "CoverageOverlap",
        "DataError",
        "FillStopped",
        "GaplessError",
        "StoreError",
        "TableError",
    ),
    "gapless.maintain.compact": ("CompactionReport",),
    "gapless.maintain.compact_plan": ("CompactionPlan",),
    "gapless.maintain.expire": ("ExpireReport",),
    "gapless.maintain.finding": ("Finding", "RepairReport", "VerifyReport"),
    "gapless.maintain.vacuum": ("VacuumReport",),
    "gapless.maintain.vacuum_plan": ("VacuumEntry",),
    "gapless.model.formats": ("Csv", "Json", "Parquet"),
    "gapless.model.report": ("AppendReport", "ChangeReport"),
    "gapless.table.care": ("repair", "verify"),
    "gapless.table.fill": ("FailedGap", "FillReport"),
    "gapless.table.rows": ("Rows",),
    "gapless.table.table": ("TimeSeriesTable", "create", "open"),
    "gapless.table.diff": ("SchemaDiff", "VersionDiff"),
    "gapless.table.history": ("HistoryEntry",),
    "gapless.table.restore": ("RestoreReport",),
    "gapless.table.view": ("TableView", "open_at"),
}
_MODULES = {"delta": "gapless.table.delta", "errors": "gapless.errors", "spark": "gapless.spark"}
_HOME_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> object:
    """Bring a public name in (PEP 562)."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gapless' has no attribute {name!r}")
    thing = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return thing


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
