"""Committing changes that count rows and may have an operation id, for tables of every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gapless.errors import OperationReused
from gapless.log.commit import Conflict
from gapless.log.format import Entry, Snapshot
from gapless.model.operation import AppendReport, ChangeReport, OperationId, Tally, operation_argument
from gapless.runtime.committer import Committer, Proposal, nothing
from gapless.runtime.metrics import DUPLICATES


class AppliedOperation(Protocol):
    """An operation that was applied, as the log tells of it."""

    @property
    def operation(self) -> OperationId:
        """Which it is."""
        ...

    @property
    def kind(self) -> str:
        """What kind of change it was, such as "append"; empty where the log does not say that."""
        ...

    @property
    def version(self) -> int | None:
        """The version that holds it; None where the log does not say that any more."""
        ...

    def tally_of(self, asked: OperationId) -> Tally:
        """What the operation asked for counted, as far as it is known."""
        ...


class RemembersOperations(Protocol):
    """The state of a table, which remembers operations."""

    def recognise(self, operation: OperationId) -> AppliedOperation | None:
        """The operation, or its app's higher sequence, if this or a later one was applied."""
        ...


Memory = TypeVar("Memory", bound=RemembersOperations)


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What a change counted, and the version that holds it; `already` where its operation id was known."""

    tally: Tally
    version: int
    already: bool = False

    @classmethod
    def before(cls, snapshot: Snapshot[Memory], operation: OperationId | None, kind: str) -> ChangeOutcome | None:
        """What was counted when the operation was applied, if this version has applied it.

        `kind` is that of the change which asks; raises OperationReused where a change of another kind was applied under the same id.
        """
        if operation is None or (known := snapshot.state.recognise(operation)) is None:
            return None
        if known.operation == operation and known.kind not in ("", kind):
            raise _reused(operation, known, kind)
        version = snapshot.version if known.version is None else known.version
        return cls(known.tally_of(operation), version, already=True)

    @property
    def append_report(self) -> AppendReport:
        """As an append reports it."""
        return AppendReport.of(self.tally, self.version, already_applied=self.already)

    @property
    def change_report(self) -> ChangeReport:
        """As another change of rows reports it."""
        return ChangeReport.of(self.tally, self.version, already_applied=self.already)


def skip_applied(
    committer: Committer[Entry, Memory], snapshot: Snapshot[Memory], operation: OperationId | None, kind: str
) -> ChangeOutcome | None:
    """`ChangeOutcome.before`, for a change that is left out where it was applied: then it is counted as a duplicate."""
    known = ChangeOutcome.before(snapshot, operation, kind)
    if known is not None:
        committer.count(DUPLICATES, 1, kind)
    return known


def _reused(operation: OperationId, known: AppliedOperation, kind: str) -> OperationReused:
    where = f"version {known.version}" if known.version is not None else "a version that the log no longer names"
    return OperationReused(
        f"operation_id={operation_argument(operation)!r} names {_with_article(known.kind)} already, and cannot name {_with_article(kind)}",
        why=f"{where} applied it; an operation id names one change, so this one was not made",
        fix="Give this change an operation id of its own",
        operation_id=operation_argument(operation),
        applied=known.kind,
        asked=kind,
        version=known.version,
    )


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


ProposeRows = Callable[[Snapshot[Memory]], "Proposal[Entry] | Tally"]
"""The change as it should be made to this version; what it counts, where nothing is to be committed."""


def land_change(
    committer: Committer[Entry, Memory],
    snapshot: Snapshot[Memory],
    propose: ProposeRows[Memory, Entry],
    operation: OperationId | None,
    kind: str,
    *,
    discard: Callable[[], None] = nothing,
    lost: Callable[[Conflict], None] | None = None,
    retry_missing: bool = True,
) -> ChangeOutcome:
    """Commit a change once: an operation that a version has applied already is not proposed to it.

    `kind` says what kind of change it is, such as "append". The other arguments are those of `Committer.land`, which this calls. Raises
    as that, and OperationReused where the operation names a change of another kind.
    """
    last, counted = snapshot, Tally()

    def proposed(now: Snapshot[Memory]) -> Proposal[Entry] | None:
        nonlocal last, counted
        last, counted = now, Tally()
        if ChangeOutcome.before(now, operation, kind) is not None:
            return None
        proposal = propose(now)
        counted = proposal.tally if isinstance(proposal, Proposal) else proposal
        return proposal if isinstance(proposal, Proposal) else None

    landed = committer.land(snapshot, proposed, discard=discard, lost=lost, retry_missing=retry_missing)
    if landed is None and (known := skip_applied(committer, last, operation, kind)) is not None:
        return known
    if landed is None:
        committer.count_rows(counted, kind)
        return ChangeOutcome(counted, last.version)
    return ChangeOutcome(counted, landed.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Generic[Memory, Entry]):
    """A change whose files are written and which is not committed yet: between the two phases of a commit.

    Of a change that was prepared to be committed later the files are durable and stay until `commit` has landed or `abort` was called;
    where it is forgotten, VACUUM takes them as it takes what interrupted writes left.
    """

    snapshot: Snapshot[Memory]
    """The version that it was staged for; the log may have gone on since."""
    propose: ProposeRows[Memory, Entry]
    """Leaves the prepared files, where it must stage anew for another version, unless it is landed."""
    operation: OperationId | None
    """Its name, by which the log knows whether it was committed, by whomever."""
    kind: str
    """What kind of change it is, such as "append"."""
    files: Sequence[str]
    """The paths of what was written, below the table's root."""
    held: Callable[[Memory], bool]
    """Whether a version has any of these files, or keeps them for older versions."""
    discard: Callable[[], None]
    """Removes them."""
    lost: Callable[[Conflict], None] | None = None
    """As in `Committer.land`."""
    retry_missing: bool = True
    """As in `Committer.land`."""

    def commit(self, committer: Committer[Entry, Memory]) -> ChangeOutcome:
        """Commit it, once: sent again, or from elsewhere, it answers what the log tells of its operation.

        It removes no prepared file, whatever comes: after an error it can be committed again, or aborted. Raises as `Committer.land`.
        """
        newest = committer.refresh(self.snapshot)
        if (known := skip_applied(committer, newest, self.operation, self.kind)) is not None:
            return known
        if self.held(newest.state):
            committer.count(DUPLICATES, 1, self.kind)
            return ChangeOutcome(Tally(), newest.version, already=True)
        return self._land(committer, nothing)

    def land(self, committer: Committer[Entry, Memory]) -> ChangeOutcome:
        """Commit it right where it was prepared, and never again: its files are removed where it is certain that it is not committed."""
        return self._land(committer, self.discard)

    def abort(self, committer: Committer[Entry, Memory]) -> bool:
        """Remove its files, unless it was committed: whether they were removed. Not while its outcome is unknown. Raises StoreError."""
        newest = committer.refresh(self.snapshot)
        if self._is_applied(newest) or self.held(newest.state):
            return False
        self.discard()
        return True

    def _is_applied(self, newest: Snapshot[Memory]) -> bool:
        try:
            return ChangeOutcome.before(newest, self.operation, self.kind) is not None
        except OperationReused:
            return False

    def _land(self, committer: Committer[Entry, Memory], discard: Callable[[], None]) -> ChangeOutcome:
        return land_change(
            committer,
            self.snapshot,
            self.propose,
            self.operation,
            self.kind,
            discard=discard,
            lost=self.lost,
            retry_missing=self.retry_missing,
        )
