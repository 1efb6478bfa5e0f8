"""What a table format must bring to the log engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gapless.log.requests import Drive
from gapless.log.verdict import Entry, Judge

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[State]):
    """A table's state at a version, with that version's commit time (nanoseconds since 1970 UTC): an immutable view."""

    version: int
    time_ns: int
    state: State


@dataclass(frozen=True, slots=True)
class PartName:
    """An object that holds a part of log checkpoints, and its checksum."""

    path: str
    """Relative to the table root."""
    checksum: str


@dataclass(frozen=True, slots=True)
class Packed(Generic[State]):
    """A snapshot that names new parts, and what is to be stored before its checkpoint is: path and bytes of each."""

    snapshot: Snapshot[State]
    parts: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A file that a commit makes live, and when it was begun to be written (nanoseconds since 1970 UTC; None: not known)."""

    path: str
    """Relative to the table root."""
    instant_ns: int | None


class Dialect(Protocol[Entry, State]):
    """Names, codec and replay of one log format. `Entry` is one commit's content, `State` what replay makes of them."""

    first: int
    """The number of a table's first version."""
    tick_ns: int
    """What commit times are whole numbers of, in nanoseconds; each is at least one of these after the one before."""
    folder: str
    """The log's folder, relative to the table root."""
    hint: str
    """Path of the object that holds the newest version when it was written."""
    last_checkpoint: str
    """Path of the object that names the newest log checkpoint when it was written."""
    parts_folder: str
    """The folder of the parts of log checkpoints, relative to the table root."""

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

    def says_time(self, data: bytes, time_ns: int) -> bool:
        """Whether a commit's bytes have this commit time, as far as a glance at them shows; False where only `decode` could tell."""
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

    def decode_checkpoint(self, data: bytes, version: int, drive: Drive | None = None) -> Snapshot[State]:
        """The snapshot that a checkpoint holds, whose parts are read by `drive` when they are needed. Raises CorruptTable for any
        bytes but those that were written.
        """
        ...

    def owes_parts(self, snapshot: Snapshot[State]) -> bool:
        """Whether a checkpoint of this snapshot is to have new parts."""
        ...

    def pack(self, snapshot: Snapshot[State], token: str, drive: Drive, lost: frozenset[str] = frozenset()) -> Packed[State]:
        """The same snapshot, with what it holds put into new parts where it should be; `token` makes their names unique. The parts of
        these paths are `lost`, and made anew. Raises CorruptTable where what they held is not known any more, StoreError.
        """
        ...

    def settle(self, snapshot: Snapshot[State], packed: Snapshot[State]) -> None:
        """Let a snapshot, which stays what it is, rest on the parts of one that is the same and was stored."""
        ...

    def rests_on(self, snapshot: Snapshot[State]) -> int:
        """The version of the checkpoint whose parts a snapshot rests on; 0 where it knows of none."""
        ...

    def parts_of(self, snapshot: Snapshot[State]) -> tuple[PartName, ...]:
        """The parts that a snapshot rests on."""
        ...

    def part_of(self, path: str) -> int | None:
        """The version for whose checkpoint a part was written, by its path; None for anything else in the folder of parts."""
        ...

    def id_of(self, entry: Entry) -> str:
        """What tells this commit from another's; empty where its writer gave none."""
        ...

    def timed(self, entry: Entry, duration_ms: int) -> Entry:
        """The same entry, which says how long its change took, from the call to the commit."""
        ...

    def placed(self, entry: Entry) -> Iterable[Placed]:
        """The files that a commit makes live and that its writer wrote, with when."""
        ...

    def guarded(self, judge: Judge[Entry]) -> Judge[Entry]:
        """The same judge, which besides asks what every change of this format must."""
        ...

    def interval(self, state: State) -> int:
        """How many commits there are from one log checkpoint to the next; 0 for no checkpoints."""
        ...

    def replay(self, state: State | None, entries: Iterable[tuple[int, Entry, int]]) -> State:
        """Fold entries, each with its version and commit time and in order, into a state (None: from the beginning)."""
        ...
