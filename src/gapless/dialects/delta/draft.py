"""A table's state while commits are folded into it (PROTOCOL.md, "Action Reconciliation")."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.dialects.delta.actions import (
    Action,
    AddFile,
    Applied,
    Commit,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    TableState,
    Txn,
)
from gapless.dialects.delta.in_commit_time import dated
from gapless.dialects.delta.live import LiveFiles, Tombstones
from gapless.dialects.delta.operations import operation_of
from gapless.model.layered import LayeredDict
from gapless.model.operation import operation_key


@dataclass(slots=True)
class Draft:
    """The parts of a `TableState`, to be changed in place."""

    protocol: Protocol | None
    metadata: Metadata | None
    files: LiveFiles
    removed: Tombstones
    applied: LayeredDict[Applied]
    domains: dict[str, DomainMetadata]

    @classmethod
    def of(cls, state: TableState | None) -> Draft:
        """A copy of a state, or of nothing."""
        if state is None:
            return cls(None, None, LiveFiles(), Tombstones(), LayeredDict(), {})
        return cls(
            state.protocol,
            state.metadata,
            LiveFiles.of(state.files),
            Tombstones.of(state.removed),
            LayeredDict.of(state.applied),
            dict(state.domains),
        )

    def state(self) -> TableState:
        """What it has become; the draft must not be changed any more. Raises ValueError where it does not say what the table is."""
        if self.metadata is None or self.protocol is None:
            raise ValueError(f"there is no {'metaData' if self.metadata is None else 'protocol'}")
        return TableState(
            protocol=self.protocol,
            metadata=self.metadata,
            files=self.files,
            removed=self.removed,
            applied=self.applied,
            domains=self.domains,
        )

    def apply(self, commit: Commit, version: int, time_ns: int) -> None:
        """Take in a commit."""
        for action in commit.actions:
            match action:
                case AddFile() | RemoveFile() | DomainMetadata() | Protocol():
                    self.take(action)
                case Metadata():
                    self.metadata = dated(action, version, time_ns)
                case Txn():
                    operation = operation_of(action)
                    tally = commit.tally if commit.operation_id == operation else None
                    applied = Applied(operation=operation, updated_ms=action.updated_ms, version=version, tally=tally)
                    self.applied[operation_key(operation)] = applied

    def take(self, action: Action) -> None:
        """Take in one action, as a log checkpoint has it: of which commit is not known."""
        match action:
            case AddFile():
                key = action.key
                self.files[key] = action
                self.removed.pop(key, None)
            case RemoveFile():
                key = action.key
                self.files.pop(key, None)
                self.removed[key] = action
            case Txn():
                operation = operation_of(action)
                self.applied[operation_key(operation)] = Applied(operation=operation, updated_ms=action.updated_ms)
            case DomainMetadata(removed=False):
                self.domains[action.domain] = action
            case DomainMetadata():
                self.domains.pop(action.domain, None)
            case Protocol():
                self.protocol = action
            case Metadata():
                self.metadata = action
