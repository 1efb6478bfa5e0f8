"""What a table format must bring to the log engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Entry = TypeVar("Entry")
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[State]):
    """A table's state at a version, with that version's commit time (nanoseconds since 1970 UTC): an immutable view."""

    version: int
    time_ns: int
    state: State


class Dialect(Protocol[Entry, State]):
    """Names, codec and replay of one log format. `Entry` is one commit's content, `State` what replay makes of them."""

    folder: str
    """The log's folder, relative to the table root."""
    hint: str
    """Path of the object that holds the newest version when it was written."""
    last_checkpoint: str
    """Path of the object that names the newest log checkpoint when it was written."""

    def path_of(self, version: int) -> str:
        """Where the commit of a version lies."""
        ...

    def version_of(self, path: str) -> int | None:
        """The version whose commit a path holds; None for anything else in the folder."""
        ...

    def encode(self, entry: Entry, version: int, time_ns: int) -> bytes:
        """A commit's bytes."""
        ...

    def decode(self, data: bytes, version: int) -> tuple[Entry, int]:
        """A commit's entry and its commit time in nanoseconds. Raises CorruptTable or UnsupportedTable."""
        ...

    def checkpoint_path(self, version: int) -> str:
        """Where the log checkpoint of a version lies."""
        ...

    def checkpoint_of(self, path: str) -> int | None:
        """The version whose checkpoint a path holds; None for anything else in the folder."""
        ...

    def encode_checkpoint(self, snapshot: Snapshot[State]) -> bytes:
        """A checkpoint's bytes."""
        ...

    def decode_checkpoint(self, data: bytes, version: int) -> Snapshot[State]:
        """The snapshot that a checkpoint holds. Raises CorruptTable for any bytes but those that were written."""
        ...

    def id_of(self, entry: Entry) -> str:
        """What tells this commit from another's; empty where its writer gave none."""
        ...

    def replay(self, state: State | None, entries: Iterable[tuple[int, Entry, int]]) -> State:
        """Fold entries, each with its version and commit time and in order, into a state (None: from the beginning)."""
        ...
