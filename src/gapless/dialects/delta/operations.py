"""Operation ids as Delta's application transactions, and back."""

from __future__ import annotations

from gapless.dialects.delta.actions import Txn
from gapless.model.operation import JobId, OperationId, SequenceId

_JOB = "gapless.job:"
"""What the application ids of jobs begin with, which run once each."""


def txn_of(operation: OperationId, now_ms: int) -> Txn:
    """The transaction that says to every reader of the log that an operation was applied."""
    if isinstance(operation, SequenceId):
        return Txn(app_id=operation.app, version=operation.sequence, updated_ms=now_ms)
    return Txn(app_id=f"{_JOB}{operation.id}", version=1, updated_ms=now_ms)


def operation_of(txn: Txn) -> OperationId:
    """The operation that a transaction names.

    >>> operation_of(Txn(app_id="gapless.job:backfill", version=1))
    JobId(id='backfill')
    """
    if txn.app_id.startswith(_JOB):
        return JobId(txn.app_id.removeprefix(_JOB))
    return SequenceId(txn.app_id, txn.version)
