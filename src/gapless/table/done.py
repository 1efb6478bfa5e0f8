"""What became of a change that may have been made before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from gapless.log.dialect import Snapshot
from gapless.model.operation import OperationId
from gapless.model.report import Tally


class Known(Protocol):
    """An operation that was applied, as the log tells of it."""

    @property
    def version(self) -> int | None:
        """The version that holds it; None where the log does not say that any more."""
        ...

    def tally_of(self, asked: OperationId) -> Tally:
        """What the operation asked for counted, as far as it is known."""
        ...


class Recognises(Protocol):
    """The state of a table, which remembers operations."""

    def recognise(self, operation: OperationId) -> Known | None:
        """The operation, or its app's higher sequence, if this or a later one was applied."""
        ...


Memory = TypeVar("Memory", bound=Recognises)


@dataclass(frozen=True, slots=True)
class Done:
    """What a change counted, and the version that holds it; `already` where its operation id was known."""

    tally: Tally
    version: int
    already: bool = False

    @classmethod
    def before(cls, snapshot: Snapshot[Memory], operation: OperationId | None) -> Done | None:
        """What was counted when the operation was applied, if this version has applied it."""
        if operation is None or (known := snapshot.state.recognise(operation)) is None:
            return None
        version = snapshot.version if known.version is None else known.version
        return cls(known.tally_of(operation), version, already=True)
