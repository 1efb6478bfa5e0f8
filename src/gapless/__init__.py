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

from gapless._names import names_of

if TYPE_CHECKING:
    from gapless import cdc, connect, documents, errors, lake, metrics, spark
    from gapless._version import __version__
    from gapless.coverage.calendar import Calendar, Sessions, WeeklyHours
    from gapless.coverage.gap import Coverage, CoveredBucket, Gap, Window
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
    from gapless.files import parquet
    from gapless.model.input_formats import Csv, Json, Parquet
    from gapless.model.operation import AppendReport, ChangeReport
    from gapless.pipelines.pipeline import pipeline
    from gapless.publish.publishers import Publication
    from gapless.runtime.backoff import Backoff
    from gapless.runtime.retry import retry
    from gapless.runtime.schedule import Schedule
    from gapless.runtime.scheduler import JobStatus, Scheduler
    from gapless.tables import delta
    from gapless.tables.maintenance import Maintenance, MaintenanceReport
    from gapless.tables.shared.compaction import CompactionReport
    from gapless.tables.shared.export import ExportReport
    from gapless.tables.shared.findings import Finding, RepairReport, VerifyReport
    from gapless.tables.shared.restore import RestoreReport
    from gapless.tables.shared.scan import Rows
    from gapless.tables.shared.schema_diff import SchemaDiff
    from gapless.tables.shared.vacuum import VacuumEntry, VacuumReport
    from gapless.tables.timeseries.care.compact_plan import CompactionPlan
    from gapless.tables.timeseries.care.expire import ExpireReport
    from gapless.tables.timeseries.read.history import HistoryEntry, VersionDiff
    from gapless.tables.timeseries.read.view import TableView, open_at
    from gapless.tables.timeseries.table import TimeSeriesTable, create, open  # noqa: A004  # gl.open, as gzip.open
    from gapless.tables.timeseries.write.fill import FailedGap, FillReport
    from gapless.tables.transfer.import_table import import_table
    from gapless.tables.transfer.report import ImportReport, PlannedFile
    from gapless.tables.verify import repair, verify

__all__ = [
    "AppendReport",
    "Backoff",
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
    "ExportReport",
    "FailedGap",
    "FillReport",
    "FillStopped",
    "Finding",
    "Gap",
    "GaplessError",
    "HistoryEntry",
    "ImportReport",
    "JobStatus",
    "Json",
    "Maintenance",
    "MaintenanceReport",
    "Parquet",
    "PlannedFile",
    "Publication",
    "RepairReport",
    "RestoreReport",
    "Rows",
    "Schedule",
    "Scheduler",
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
    "cdc",
    "connect",
    "create",
    "delta",
    "documents",
    "errors",
    "import_table",
    "lake",
    "metrics",
    "open",
    "open_at",
    "parquet",
    "pipeline",
    "repair",
    "retry",
    "spark",
    "verify",
]

_NAMES_OF = {
    "gapless._version": ("__version__",),
    "gapless.coverage.gap": ("Coverage", "CoveredBucket", "Gap", "Window"),
    "gapless.coverage.calendar": ("Calendar", "Sessions", "WeeklyHours"),
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
    "gapless.tables.shared.compaction": ("CompactionReport",),
    "gapless.tables.timeseries.care.compact_plan": ("CompactionPlan",),
    "gapless.tables.timeseries.care.expire": ("ExpireReport",),
    "gapless.tables.shared.export": ("ExportReport",),
    "gapless.tables.shared.findings": ("Finding", "RepairReport", "VerifyReport"),
    "gapless.tables.shared.vacuum": ("VacuumEntry", "VacuumReport"),
    "gapless.model.input_formats": ("Csv", "Json", "Parquet"),
    "gapless.model.operation": ("AppendReport", "ChangeReport"),
    "gapless.pipelines.pipeline": ("pipeline",),
    "gapless.runtime.backoff": ("Backoff",),
    "gapless.runtime.retry": ("retry",),
    "gapless.runtime.schedule": ("Schedule",),
    "gapless.runtime.scheduler": ("JobStatus", "Scheduler"),
    "gapless.tables.maintenance": ("Maintenance", "MaintenanceReport"),
    "gapless.publish.publishers": ("Publication",),
    "gapless.tables.transfer.import_table": ("import_table",),
    "gapless.tables.transfer.report": ("ImportReport", "PlannedFile"),
    "gapless.tables.verify": ("repair", "verify"),
    "gapless.tables.timeseries.write.fill": ("FailedGap", "FillReport"),
    "gapless.tables.shared.scan": ("Rows",),
    "gapless.tables.shared.schema_diff": ("SchemaDiff",),
    "gapless.tables.timeseries.table": ("TimeSeriesTable", "create", "open"),
    "gapless.tables.timeseries.read.history": ("HistoryEntry", "VersionDiff"),
    "gapless.tables.shared.restore": ("RestoreReport",),
    "gapless.tables.timeseries.read.view": ("TableView", "open_at"),
}
_MODULES = {
    "cdc": "gapless.cdc",
    "connect": "gapless.connect",
    "delta": "gapless.tables.delta",
    "documents": "gapless.documents",
    "errors": "gapless.errors",
    "lake": "gapless.lake",
    "metrics": "gapless.metrics",
    "parquet": "gapless.files.parquet",
    "spark": "gapless.spark",
}
_found = names_of(__name__, _NAMES_OF, globals())


def __getattr__(name: str) -> object:
    """Bring a public name in."""
    return import_module(_MODULES[name]) if name in _MODULES else _found(name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
