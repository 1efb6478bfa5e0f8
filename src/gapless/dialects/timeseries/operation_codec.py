"""`SetTransaction` as JSON: an operation id with what it counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gapless.model.operation import JobId, OperationId, SequenceId
from gapless.model.report import Tally

_COUNTS = tuple(field.name for field in fields(Tally))
_ALWAYS = ("rows", "segments", "buckets", "skipped_rows", "skipped_buckets")


def encode_operation(operation: OperationId, tally: Tally) -> dict[str, object]:
    """The action's body."""
    named: dict[str, object] = (
        {"app_id": operation.app, "sequence": operation.sequence} if isinstance(operation, SequenceId) else {"id": operation.id}
    )
    report = {name: count for name in _COUNTS if (count := getattr(tally, name)) or name in _ALWAYS}
    return {**named, "report": report}


def decode_operation(body: Mapping[str, Any]) -> tuple[OperationId, Tally]:
    """The operation and its counts; raises KeyError, TypeError or ValueError where it is malformed."""
    operation: OperationId = JobId(str(body["id"])) if "id" in body else SequenceId(str(body["app_id"]), int(body["sequence"]))
    report = body.get("report", {})
    return operation, Tally(**{name: int(report.get(name, 0)) for name in _COUNTS})
