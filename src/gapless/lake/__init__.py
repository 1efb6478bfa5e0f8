"""A lake: many tables in one directory, filled by runs, read by DuckDB without a server; as `gl.lake`."""

from __future__ import annotations

from gapless.lake.cursors import Monotonic
from gapless.lake.describe import LakeDescription
from gapless.lake.drift import DriftPolicy
from gapless.lake.export.exports import ExportedSnapshot
from gapless.lake.lake import Lake
from gapless.lake.limits import LimitedAnswer, LimitedQuery, QueryLimits
from gapless.lake.opening import init, pull
from gapless.lake.opening import open_lake as open  # noqa: A004  # gl.lake.open, as gl.open
from gapless.lake.pages import Page
from gapless.lake.pipelines import PipelinePlan, parse_plan
from gapless.lake.run import RunReport
from gapless.lake.runs.progress import RunProgress
from gapless.lake.sources.dlt_source import dlt_source
from gapless.lake.sources.spark_frame import spark_source
from gapless.lake.sync.reconcile import ReconcileReport
from gapless.lake.sync.report import ReplicaInfo, SyncReport, SyncStatus
from gapless.lake.table import LakeTable

__all__ = [
    "DriftPolicy",
    "ExportedSnapshot",
    "Lake",
    "LakeDescription",
    "LakeTable",
    "LimitedAnswer",
    "LimitedQuery",
    "Monotonic",
    "Page",
    "PipelinePlan",
    "QueryLimits",
    "ReconcileReport",
    "ReplicaInfo",
    "RunProgress",
    "RunReport",
    "SyncReport",
    "SyncStatus",
    "dlt_source",
    "init",
    "open",
    "parse_plan",
    "pull",
    "spark_source",
]
