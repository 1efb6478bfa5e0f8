"""What the core asks of the world: a store, a clock and a source of ids.

How long a writer may take before others may clean up behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, TypeGuard, runtime_checkable

from gapless.model.instant import NS_PER_DAY

PutMode = Literal["create", "overwrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One stored object, as a listing shows it."""

    path: str
    """Relative to the store's root, `/`-separated."""
    size: int
    """Bytes."""
    modified_ns: int
    """Last write, nanoseconds since 1970 UTC, by the store's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store can do, as it declares it; `testing.StoreContract` holds it to that."""

    put_if_absent: bool
    """`put(mode="create")` lets exactly one of several racing writers win."""
    durable: bool
    """What a returned `put` wrote survives a power cut."""
    survives_fork: bool
    """A handle still works in a forked child."""
    concurrent: bool = False
    """A request takes long, and several at a time hardly longer than one: readers ask for what follows meanwhile."""


class Store(Protocol):
    """Flat objects under one root. Paths are relative, `/`-separated, any characters but NUL, and
    never contain an empty, `.` or `..` part. All methods may raise `gapless.errors.StoreError`.
    """

    @property
    def url(self) -> str:
        """Where this store is, for messages."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this store promises."""
        ...

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes `[start, start + length)` of an object (to its end without `length`); a negative `start`
        counts from the end. Raises ObjectNotFound; a range that is not all there raises CorruptTable.
        """
        ...

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """Store an object whole or not at all. `create` raises ObjectExists where something is stored;
        StoreUnavailable means the effect is not known. `durable=False` is for hints: no sync.
        """
        ...

    def head(self, path: str) -> ObjectInfo:
        """Size and time of an object. Raises ObjectNotFound."""
        ...

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose path starts with the folder `prefix` ("data", not "da"), in path order, those past the path `after`
        only. Unfinished writes are not objects.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove an object; no error where there is none."""
        ...

    def local_path(self, path: str) -> str | None:
        """The file that holds this object, or None where it is not a file of this machine."""
        ...


@runtime_checkable
class ShowsUnfinished(Protocol):
    """A store whose unfinished writes are objects that can be seen, and that `delete` removes."""

    def unfinished(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The unfinished writes in the folder `prefix`, in path order, which `list` does not show."""
        ...


@runtime_checkable
class StoresAhead(Protocol):
    """A store that can make several objects durable at once, before one that names them."""

    def put_deferred(self, path: str, *pieces: bytes | memoryview) -> None:
        """Store the pieces as one object, whole, under a name that no one else takes. This handle can read it at once, others by and by;
        it is there for good after `put_after` or `settle`.
        """
        ...

    def put_after(self, path: str, data: bytes | memoryview, after: Iterable[str]) -> None:
        """`put(path, data)`, which can be seen only once those of `after` that were put ahead are durable. Where one of them cannot be
        made so, raises StoreError with its path, and again whenever asked again; then nothing is stored under `path`.
        """
        ...

    def settle(self, paths: Iterable[str]) -> None:
        """Make those of these objects durable that were put ahead; raises as `put_after`."""
        ...

    def forget(self, paths: Iterable[str]) -> None:
        """Give up those of these objects that are not durable yet: nothing may name them any more, and they may be deleted."""
        ...


class ObjectAhead(Protocol):
    """An object in the making, which no one sees."""

    def write(self, *pieces: bytes | memoryview) -> None:
        """Add bytes."""
        ...

    def finish(self) -> None:
        """It is whole, and there as after `put_deferred`; nothing may be written after."""
        ...

    def discard(self) -> None:
        """Leave nothing of it; nothing happens where it is finished."""
        ...


@runtime_checkable
class StreamsAhead(StoresAhead, Protocol):
    """A store that can take an object ahead piece by piece, while others are made."""

    def begin_ahead(self, path: str) -> ObjectAhead:
        """`put_deferred`, piece by piece; to be finished or discarded."""
        ...


class WriterQueue(Protocol):
    """One who stands in line for a turn."""

    @property
    def mine(self) -> bool:
        """Whether the turn came."""
        ...

    def wait(self) -> bool:
        """Wait for a moment, where it is not one's turn yet; whether to go on waiting. What others created meanwhile can be read before one
        asks again. False once the turn has come, and where it would be waited for in vain.
        """
        ...


@runtime_checkable
class TakesTurns(Protocol):
    """A store whose writers can keep out of each other's way."""

    def turn(self, folder: str) -> AbstractContextManager[WriterQueue]:
        """Stand in line to create an object in a folder. The turn is over with the first such create of this thread, or with the context.
        A courtesy: a create stays exclusive without it, and may come out of turn.
        """
        ...


def stores_ahead(store: Store) -> TypeGuard[StoresAhead]:
    """Whether a store is a StoresAhead; `isinstance` would look at all its methods each time."""
    return _is(type(store), StoresAhead)


def streams_ahead(store: Store) -> TypeGuard[StreamsAhead]:
    """Whether a store is a StreamsAhead."""
    return _is(type(store), StreamsAhead)


def takes_turns(store: Store) -> TypeGuard[TakesTurns]:
    """Whether a store is a TakesTurns."""
    return _is(type(store), TakesTurns)


@cache
def _is(kind: type, protocol: type) -> bool:
    return issubclass(kind, protocol)


class Clock(Protocol):
    """Time, as the environment sees it."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00Z."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never runs back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class IdSource(Protocol):
    """Names that no one else takes."""

    def uuid(self) -> str:
        """A random UUID, in lower case with hyphens."""
        ...

    def jitter(self) -> float:
        """A number drawn evenly from [0, 1)."""
        ...


WRITER_HORIZON_NS = NS_PER_DAY
"""Younger than this, a file that no version names may belong to a commit under way, and a commit file is not removed."""


def is_old(now_ns: int, then_ns: int) -> bool:
    """Whether so much time may have passed since `then_ns` (since 1970 UTC) that others cleaned up meanwhile.

    Half the horizon, since the clocks of two machines differ; if they differ by more than that, nothing is certain.
    """
    return abs(now_ns - then_ns) >= WRITER_HORIZON_NS // 2
