"""Operation ids of ours as transactions (`txn` actions) of a Delta log, and the kinds of change that they name."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.formats.delta.actions import Applied, Json, Txn
from gapless.model.operation import JobId, OperationId, SequenceId

_JOB = "gapless.job:"
"""What the application ids of jobs begin with, which run once each."""
_KINDS = ("", "append", "overwrite", "delete", "update", "merge", "dedup")
"""Kinds of change by the number that a transaction of ours has for them; a new one goes to the end."""
_NEVER_MS = 253_402_300_799_000
"""The last second of the year 9999, in milliseconds since 1970 UTC: the time that transactions of ours say, plus the number of their kind.

Every writer drops a transaction that is older than `delta.setTransactionRetentionDuration` from its checkpoints. None drops one of that
time, so that operation ids outlive the checkpoints of all writers, and are known for ours after them.
"""


def kind_of_change(operation: str, parameters: Mapping[str, Json]) -> str:
    """The kind of change that a commit of ours made to rows, by what it says of itself; empty for what has none.

    >>> kind_of_change("WRITE", {"mode": "Append"})
    'append'
    """
    if operation == "WRITE":
        return "append" if parameters.get("mode") == "Append" else "overwrite"
    return operation.lower() if operation.lower() in _KINDS else ""


def txn_of(operation: OperationId, kind: str) -> Txn:
    """The transaction that says to every reader of the log that an operation of ours was applied, by a change of this kind."""
    at = _NEVER_MS + (_KINDS.index(kind) if kind in _KINDS else 0)
    if isinstance(operation, SequenceId):
        return Txn(app_id=operation.app, version=operation.sequence, updated_ms=at)
    return Txn(app_id=f"{_JOB}{operation.id}", version=1, updated_ms=at)


def applied_of(txn: Txn) -> Applied:
    """What a transaction alone says of the operation that it names."""
    operation = operation_of(txn)
    number = -1 if txn.updated_ms is None else txn.updated_ms - _NEVER_MS
    if 0 <= number < _KIND_NUMBERS:
        kind = _KINDS[number] if number < len(_KINDS) else ""
        return Applied(operation=operation, ours=True, kind=kind, updated_ms=txn.updated_ms)
    if isinstance(operation, JobId):
        return Applied(operation=operation, ours=True, updated_ms=_NEVER_MS)
    return Applied(operation=operation, updated_ms=txn.updated_ms)


_KIND_NUMBERS = 1_000
"""A later release may know more kinds; all within that second are ours."""


def operation_of(txn: Txn) -> OperationId:
    """The operation that a transaction names.

    >>> operation_of(Txn(app_id="gapless.job:backfill", version=1))
    JobId(id='backfill')
    """
    if txn.app_id.startswith(_JOB):
        return JobId(txn.app_id.removeprefix(_JOB))
    return SequenceId(txn.app_id, txn.version)
