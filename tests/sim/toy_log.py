"""A log format as small as can be."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gapless.log.dialect import Packed, PartName, Placed, Snapshot
from gapless.log.requests import Drive
from gapless.log.verdict import Judge

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

    first = 1
    tick_ns = 1_000
    parts_folder = "parts"

    def timed(self, entry: E, duration_ms: int) -> E:
        raise NotImplementedError

    def placed(self, entry: E) -> Iterable[Placed]:
        raise NotImplementedError

    def guarded(self, judge: Judge[E]) -> Judge[E]:
        raise NotImplementedError

    def interval(self, state: Any) -> int:
        raise NotImplementedError

    def owes_parts(self, snapshot: Snapshot[Any]) -> bool:
        raise NotImplementedError

    def pack(self, snapshot: Snapshot[Any], token: str, drive: Drive, lost: frozenset[str] = frozenset()) -> Packed[Any]:
        raise NotImplementedError

    def settle(self, snapshot: Snapshot[Any], packed: Snapshot[Any]) -> None:
        raise NotImplementedError

    def rests_on(self, snapshot: Snapshot[Any]) -> int:
        del snapshot
        return 0

    def parts_of(self, snapshot: Snapshot[Any]) -> tuple[PartName, ...]:
        del snapshot
        return ()

    def part_of(self, path: str) -> int | None:
        raise NotImplementedError


class Toy(Plain[Entry]):
    """A dialect as small as can be; its state is the list of commits."""

    folder = "log"
    hint = "log/CURRENT"
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

    def says_time(self, data: bytes, time_ns: int) -> bool:
        return False

    def id_of(self, entry: Entry) -> str:
        return entry.id

    def replay(self, state: State | None, entries: Iterable[tuple[int, Entry, int]]) -> State:
        return (*(state or ()), *((version, entry) for version, entry, _ in entries))

    def checkpoint_path(self, version: int) -> str:
        return f"log/{version}.checkpoint"

    def checkpoint_of(self, path: str) -> int | None:
        del path
        return None

    def encode_checkpoint(self, snapshot: Snapshot[State]) -> bytes:
        raise NotImplementedError

    def decode_checkpoint(self, data: bytes, version: int, drive: Drive | None = None) -> Snapshot[State]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "TOY"


@functools.cache
def encode(entry: Entry, version: int, time_ns: int) -> bytes:
    return json.dumps([entry.id, entry.operation, sorted(entry.covers), version, time_ns]).encode()


@functools.cache
def decode(data: bytes) -> tuple[Entry, int, int]:
    name, operation, covers, version, time_ns = json.loads(data)
    return Entry(name, operation, frozenset(covers)), version, time_ns


TOY = Toy()
