"""gapless: a lakehouse in a Python package.

Tables of immutable Parquet files under an append-only log, on a disk or in a bucket, that lose nothing, double nothing, and know which
stretches of time they are missing.

>>> import gapless as gl
>>> table = gl.create("memory://readme", index="ts", entity=["symbol"], bucket="1m")
>>> table.version
1
"""

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
from gapless.model.formats import Csv, Json, Parquet
from gapless.model.report import AppendReport
from gapless.table.rows import Rows
from gapless.table.table import HistoryEntry, TimeSeriesTable

create = TimeSeriesTable.create
open = TimeSeriesTable.open  # noqa: A001  # gl.open, as gzip.open

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
    "Gap",
    "GaplessError",
    "HistoryEntry",
    "Json",
    "Parquet",
    "Rows",
    "StoreError",
    "TableError",
    "TimeSeriesTable",
    "Window",
    "__version__",
    "create",
    "errors",
    "open",
]
