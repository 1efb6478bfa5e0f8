"""`TableFormat`: what a table format brings to the log engine, its names, codec, replay and conflict rules, and the values they exchange."""

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
    """Ours may not follow theirs; `detail` is for the caller of the format."""

    reason: str
    detail: object = None


ConflictChecker = Callable[[Entry, int, Entry], Conversation["Compatible[Entry] | Conflicting"]]
"""Conflict detection: may our entry follow the other entry, which was committed as this version?"""


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
    """Empty where none is known."""


@dataclass(frozen=True, slots=True)
class Packed(Generic[State]):
    """A snapshot that names new parts, and these, which are stored before its checkpoint is: path and bytes of each."""

    snapshot: Snapshot[State]
    parts: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a commit makes live, and when it was begun to be written (nanoseconds since 1970 UTC; None: not known)."""

    path: str
    """Relative to the table root."""
    instant_ns: int | None
    retained: bool = False
    """Whether an older version has it, and the version that the commit is made for still says so: then no vacuum before that took it."""
    stored: bool = True
    """Whether it is an object; what lies in the log itself has only a name."""
    size: int | None = None
    """Bytes of a file of rows; None for what goes with one, or is not known."""


class TableFormat(Protocol[Entry, State]):
    """Object names, codec and replay of one table format's log. `Entry` is one commit's content, `State` what replay makes of them."""

    kind: str
    """What the tables are called, such as `delta`."""
    first: int
    """The number of a table's first version."""
    open_at: str
    """How a program calls the opening of an older version, for messages."""
    tick_ns: int
    """What commit times are whole numbers of, in nanoseconds; each is at least one of these after the one before."""
    folder: str
    """The log's folder, relative to the table root."""
    foreign_checkpoints: bool
    """Whether other writers may leave log checkpoints without their commit's time, and a log whose last commit is in a checkpoint alone."""
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

    def has_commit_time(self, data: bytes, time_ns: int) -> bool:
        """Whether a commit's bytes have this commit time, without decoding them; False where only `decode` could tell."""
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

    def auxiliary_of(self, path: str) -> int | None:
        """The version of an auxiliary object of the folder, which is deleted with that commit; None for what stays."""
        ...

    def checksum_path(self, path: str) -> str | None:
        """Where another writer may have put a checksum of an object of the folder, which is wrong once that is replaced."""
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
        a `foreign_checkpoints` one does not say it. Raises CorruptTable for any bytes but those that were written, UnsupportedTable, StoreError.
        """
        ...

    def needs_parts(self, snapshot: Snapshot[State]) -> bool:
        """Whether a checkpoint of this snapshot needs new parts."""
        ...

    def pack(self, snapshot: Snapshot[State], token: str, drive: Drive, lost: frozenset[str] = frozenset()) -> Packed[State]:
        """The same snapshot, with what it holds put into new parts where it should be; `token` makes their names unique. The parts of
        these paths are `lost`, and made anew. Raises CorruptTable where what they held is not known any more, StoreError.
        """
        ...

    def share_parts(self, snapshot: Snapshot[State], packed: Snapshot[State]) -> None:
        """Let a snapshot, which stays equal, take its content from the parts of the same one that was stored."""
        ...

    def parts_version(self, snapshot: Snapshot[State]) -> int:
        """The version of the checkpoint whose parts a snapshot takes its content from; 0 where it knows of none."""
        ...

    def parts_of(self, snapshot: Snapshot[State]) -> tuple[PartName, ...]:
        """The parts that a snapshot takes its content from."""
        ...

    def part_of(self, path: str) -> int | None:
        """The version for whose checkpoint a part was written, by its path; None for anything else in the folder of parts."""
        ...

    def id_of(self, entry: Entry) -> str:
        """The commit's id, different from any other's; empty where its writer gave none."""
        ...

    def operation_of(self, entry: Entry) -> str:
        """What kind of change a commit of ours is, such as `append`: one of a few words."""
        ...

    def with_duration(self, entry: Entry, duration_ms: int) -> Entry:
        """The entry with how long its change took, from the call to the commit."""
        ...

    def written_files(self, entry: Entry, state: State, begun_ns: int) -> Iterable[WrittenFile]:
        """The files that a commit makes live and that its writer wrote, or found retained; `state` is the version it is made for.

        `begun_ns` (since 1970 UTC) is when the change of that version was begun: of files that tell no time of their own, and were written
        for that version alone, the instant.
        """
        ...

    def vacuumed(self, theirs: Entry, time_ns: int, files: Iterable[WrittenFile]) -> str | None:
        """The first of some files, by path, that a vacuum may have deleted or be about to delete, which said so in this commit, of this time
        (nanoseconds since 1970 UTC); None where it may delete none of them, or the commit is no vacuum's.
        """
        ...

    def interval(self, state: State) -> int:
        """How many commits there are from one log checkpoint to the next; 0 for no checkpoints."""
        ...

    def replay(self, state: State | None, entries: Iterable[tuple[int, Entry, int]]) -> State:
        """Fold entries, each with its version and commit time and in order, into a state (None: from the beginning)."""
        ...
