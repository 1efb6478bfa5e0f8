"""A log format as small as can be."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gapless.errors import CorruptTable
from gapless.log.effects import Drive
from gapless.log.format import Packed, PartName, Snapshot, StoredCheckpoint, WrittenFile

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Entry:
    """One append: its commit id, what it is called and what it covers."""

    id: str
    operation: str = ""
    covers: frozenset[int] = frozenset()


State = tuple[tuple[int, Entry], ...]
"""(version, entry) of every commit."""


class Plain(Generic[E]):
    """A dialect whose versions begin with 1, whose log checkpoints have no parts, and whose commits say no more than their content."""

    kind = "toy"
    first = 1
    open_at = "open_at"
    foreign_checkpoints = False
    tick_ns = 1_000
    parts_folder = "parts"

    def operation_of(self, entry: E) -> str:
        raise NotImplementedError

    def with_duration(self, entry: E, duration_ms: int) -> E:
        raise NotImplementedError

    def written_files(self, entry: E, state: Any, begun_ns: int) -> Iterable[WrittenFile]:
        raise NotImplementedError

    def vacuumed(self, theirs: E, time_ns: int, files: Iterable[WrittenFile]) -> str | None:
        del theirs, time_ns, files
        return None

    def interval(self, state: Any) -> int:
        raise NotImplementedError

    def needs_parts(self, snapshot: Snapshot[Any]) -> bool:
        raise NotImplementedError

    def pack(self, snapshot: Snapshot[Any], token: str, drive: Drive, lost: frozenset[str] = frozenset()) -> Packed[Any]:
        raise NotImplementedError

    def share_parts(self, snapshot: Snapshot[Any], packed: Snapshot[Any]) -> None:
        raise NotImplementedError

    def parts_version(self, snapshot: Snapshot[Any]) -> int:
        del snapshot
        return 0

    def parts_of(self, snapshot: Snapshot[Any]) -> tuple[PartName, ...]:
        del snapshot
        return ()

    def part_of(self, path: str) -> int | None:
        raise NotImplementedError

    def checkpoint_path(self, version: int) -> str:
        return f"log/{version}.checkpoint"

    def checkpoint_of(self, path: str) -> int | None:
        name = path.removeprefix("log/").removesuffix(".checkpoint")
        return int(name) if name.isdigit() and path.endswith(".checkpoint") else None

    def checkpoints_in(self, names: Iterable[str]) -> list[StoredCheckpoint]:
        versions = sorted(version for name in names if (version := self.checkpoint_of(name)) is not None)
        return [StoredCheckpoint(version, (self.checkpoint_path(version),)) for version in versions]

    def auxiliary_of(self, path: str) -> int | None:
        del path
        return None

    def checksum_path(self, path: str) -> str | None:
        del path
        return None

    def encode_pointer(self, snapshot: Snapshot[Any], size: int) -> bytes:
        del size
        return b"%d" % snapshot.version

    def decode_pointer(self, data: bytes) -> StoredCheckpoint | None:
        return StoredCheckpoint(int(data), (self.checkpoint_path(int(data)),)) if data.isdigit() else None

    def assemble(self, pieces: Sequence[bytes], stored: StoredCheckpoint, drive: Drive) -> Snapshot[Any]:
        raise CorruptTable("torn", path=stored.paths[0])


class Shared(Plain[Entry]):
    """A dialect as small as can be; its state is the list of commits."""

    folder = "log"
    last_checkpoint = "log/_last_checkpoint"

    def path_of(self, version: int) -> str:
        return f"log/{version}"

    def version_of(self, path: str) -> int | None:
        name = path.removeprefix("log/")
        return int(name) if name.isdigit() else None

    def encode(self, entry: Entry, version: int, time_ns: int) -> bytes:
        return encode(entry, version, time_ns)

    def decode(self, data: bytes, version: int) -> tuple[Entry, int]:
        entry, at, time_ns = decode(data)
        assert at == version
        return entry, time_ns

    def time_of(self, data: bytes, version: int) -> int:
        return self.decode(data, version)[1]

    def has_commit_time(self, data: bytes, time_ns: int) -> bool:
        return False

    def id_of(self, entry: Entry) -> str:
        return entry.id

    def replay(self, state: State | None, entries: Iterable[tuple[int, Entry, int]]) -> State:
        return (*(state or ()), *((version, entry) for version, entry, _ in entries))

    def encode_checkpoint(self, snapshot: Snapshot[State]) -> bytes:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "TOY"


class Toy(Shared):
    """One whose hint names the newest version."""

    hint = "log/CURRENT"


class FromZero(Shared):
    """One as Delta's is: its first version is 0, there is no hint, and log checkpoints of others may stand alone."""

    first = 0
    foreign_checkpoints = True
    hint = None


@functools.cache
def encode(entry: Entry, version: int, time_ns: int) -> bytes:
    return json.dumps([entry.id, entry.operation, sorted(entry.covers), version, time_ns]).encode()


@functools.cache
def decode(data: bytes) -> tuple[Entry, int, int]:
    name, operation, covers, version, time_ns = json.loads(data)
    return Entry(name, operation, frozenset(covers)), version, time_ns


TOY = Toy()
FROM_ZERO = FromZero()
