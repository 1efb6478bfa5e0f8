"""What a table format must bring to the log engine.

What is said of two commits, the second of which wants to follow the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gapless.log.effects import Conversation, Drive

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Compatible(Generic[Entry]):
    """Ours may follow theirs, as `entry` (the same, or rebased on theirs)."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Conflicting:
    """Ours may not follow theirs; `detail` is what the dialect wants to tell its caller."""

    reason: str
    detail: object = None


ConflictChecker = Callable[[Entry, int, Entry], Conversation["Compatible[Entry] | Conflicting"]]
"""May our entry stand after the other entry, which landed as this version?"""


State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[State]):
    """A table's state at a version, with that version's commit time (nanoseconds since 1970 UTC): an immutable view."""

    version: int
    time_ns: int
    state: State


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A log checkpoint as it lies in the log: the version it is of, and the objects that hold it, in order."""

    version: int
    paths: tuple[str, ...]
    parts: int = 1
    """How many objects there must be, by their names."""


@dataclass(frozen=True, slots=True)
class PartName:
    """An object that holds a part of log checkpoints, and its checksum."""

    path: str
    """Relative to the table root."""
    checksum: str
    """Empty where none was told."""


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


class TableFormat(Protocol[Entry, State]):
    """Names, codec and replay of one log format. `Entry` is one commit's content, `State` what replay makes of them."""

    first: int
    """The number of a table's first version."""
    open_at: str
    """How a program calls the opening of an older version, for messages."""
    tick_ns: int
    """What commit times are whole numbers of, in nanoseconds; each is at least one of these after the one before."""
    folder: str
    """The log's folder, relative to the table root."""
    bare: bool
    """Whether others write log checkpoints that do not say their commit's time, and may leave a log whose last commit is gone and told by
    a checkpoint alone."""
    last_checkpoint: str
    """Path of the object that names the newest log checkpoint when it was written."""
    parts_folder: str
    """The folder of the parts of log checkpoints, relative to the table root."""

    @property
    def hint(self) -> str | None:
        """Path of the object that holds the newest version when it was written; None where the format has none."""
        ...

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
        """A commit's entry and its commit time in nanoseconds; 0 where it says none, and has that of the commit before it.

        Raises CorruptTable or UnsupportedTable.
        """
        ...

    def time_of(self, data: bytes, version: int) -> int:
        """The commit time that `decode` gives, without all that a commit says where its codec knows a shorter way. Raises as it does."""
        ...

    def says_time(self, data: bytes, time_ns: int) -> bool:
        """Whether a commit's bytes have this commit time, as far as a glance at them shows; False where only `decode` could tell."""
        ...

    def checkpoint_path(self, version: int) -> str:
        """Where a log checkpoint of ours of a version lies."""
        ...

    def checkpoint_of(self, path: str) -> int | None:
        """The version whose checkpoint, or piece of one, a path holds; None for anything else in the folder."""
        ...

    def checkpoints_in(self, names: Iterable[str]) -> Sequence[StoredCheckpoint]:
        """The log checkpoints in a listing of the folder of which no piece is missing, oldest version first."""
        ...

    def aside_of(self, path: str) -> int | None:
        """The version with whose commit an object of the folder goes that is neither a commit nor a checkpoint; None for what stays."""
        ...

    def beside(self, path: str) -> str | None:
        """The object that another writer may have laid beside an object of the folder, and that is wrong once that is replaced."""
        ...

    def encode_pointer(self, snapshot: Snapshot[State], size: int) -> bytes:
        """The bytes of `last_checkpoint` that name our checkpoint of this snapshot, whose object has `size` bytes."""
        ...

    def decode_pointer(self, data: bytes) -> StoredCheckpoint | None:
        """The log checkpoint that `last_checkpoint` names; None where that cannot be told."""
        ...

    def encode_checkpoint(self, snapshot: Snapshot[State]) -> bytes:
        """A checkpoint's bytes."""
        ...

    def assemble(self, pieces: Sequence[bytes], stored: StoredCheckpoint, drive: Drive) -> Snapshot[State]:
        """The snapshot that a checkpoint's objects hold, whose parts `drive` reads, now or when they are needed. Its commit time is 0 where
        a `bare` one does not say it. Raises CorruptTable for any bytes but those that were written, UnsupportedTable, StoreError.
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

    def guarded(self, check_conflict: ConflictChecker[Entry]) -> ConflictChecker[Entry]:
        """The same judge, which besides asks what every change of this format must."""
        ...

    def interval(self, state: State) -> int:
        """How many commits there are from one log checkpoint to the next; 0 for no checkpoints."""
        ...

    def replay(self, state: State | None, entries: Iterable[tuple[int, Entry, int]]) -> State:
        """Fold entries, each with its version and commit time and in order, into a state (None: from the beginning)."""
        ...
