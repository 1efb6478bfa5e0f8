"""Operation ids: names of intended changes, so that sending one again changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class SequenceId:
    """One change of a stream: sequences of one app only grow, and the highest is remembered for ever."""

    app: str
    sequence: int


@dataclass(frozen=True, slots=True)
class JobId:
    """One change of a job that runs in any order: remembered exactly, for the table's `operation_retention_days`."""

    id: str


OperationId = SequenceId | JobId


def parse_operation_id(given: object) -> OperationId:
    """Read ("app", sequence) or a text; raises InvalidOption.

    >>> parse_operation_id(("job-7", 42))
    SequenceId(app='job-7', sequence=42)
    """
    match given:
        case SequenceId() | JobId():
            return given
        case str() if _is_name(given):
            return JobId(given)
        case (str() as app, int() as sequence) if _is_name(app) and not isinstance(sequence, bool) and 0 <= sequence < 2**63:
            return SequenceId(app, sequence)
    raise InvalidOption(
        f"operation_id={given!r} names no operation",
        why="A stream names (app, sequence) with a whole number that only grows; a job that runs in any order names one text",
        fix='Pass ("job-7", 42) or "backfill-2026-01-05"',
        option="operation_id",
        value=given,
    )


def _is_name(text: str) -> bool:
    """Whether a log can hold it: UTF-8 has no half surrogates."""
    return text != "" and not any("\ud800" <= character <= "\udfff" for character in text)


def operation_key(operation: OperationId) -> str:
    """One key for all sequences of an app, one for each job; the two never meet."""
    return f"app:{operation.app}" if isinstance(operation, SequenceId) else f"job:{operation.id}"


def settles(known: OperationId, asked: OperationId) -> bool:
    """Whether `known`, which was applied, says that `asked` was too: it is the same, or a later sequence of its app."""
    if isinstance(known, SequenceId) and isinstance(asked, SequenceId):
        return known.app == asked.app and known.sequence >= asked.sequence
    return known == asked
