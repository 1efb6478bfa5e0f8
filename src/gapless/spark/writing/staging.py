"""The driver's half of a parallel write into a table of either kind: what executors need before it, and one commit of what they stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from gapless.model.operation import AppendReport, ChangeReport
from gapless.spark.setup.tables import Table
from gapless.spark.writing.delta_target import DeltaTarget
from gapless.spark.writing.partition import PartitionEncoder
from gapless.spark.writing.series_target import SeriesTarget
from gapless.spark.writing.target import Change, Delivery, WriteTarget
from gapless.tables.delta.table import DeltaTable

AnyTarget = WriteTarget[Any, Any, Any]


def target_of(handle: Table) -> AnyTarget:
    """How executors write to a table."""
    return DeltaTarget(handle=handle) if isinstance(handle, DeltaTable) else SeriesTarget(handle=handle)


def find_applied_write(handle: Table, delivery: Delivery, change: Change = "append") -> AppendReport | None:
    """See `WriteTarget.find_applied`."""
    return target_of(handle).find_applied(delivery, change)


def begin(handle: Table, given: pa.Schema, delivery: Delivery | None = None) -> Any:
    """See `WriteTarget.begin`."""
    found: PartitionEncoder = target_of(handle).begin(given, delivery or Delivery())
    return found


def append_outcomes(handle: Table, delivery: Delivery, encoder: PartitionEncoder, outcomes: Iterable[Any]) -> AppendReport:
    """See `WriteTarget.append`."""
    return target_of(handle).append(delivery, encoder, outcomes)


def overwrite_outcomes(handle: Table, delivery: Delivery, encoder: PartitionEncoder, outcomes: Iterable[Any]) -> ChangeReport:
    """See `WriteTarget.overwrite`."""
    return target_of(handle).overwrite(delivery, encoder, outcomes)
