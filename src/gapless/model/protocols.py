"""Interfaces of the environment: object store, clock and id source, and how long a writer may take before others clean up behind it."""

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
class TaggedObject:
    """An object as it was read, and what names this state of it."""

    data: bytes
    etag: str
    """Opaque, by the store that gave it. Two states of one path with the same etag hold the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Guarantees that a store declares; `testing.StoreContract` tests them."""

    put_if_absent: bool
    """`put(mode="create")` lets exactly one of several racing writers win."""
    durable: bool
    """What a returned `put` wrote survives a power cut."""
    survives_fork: bool
    """A handle still works in a forked child."""
    put_if_match: bool = False
    """The store is a `ReplacesIfMatch`: of several racing replaces of one state exactly one wins."""
    concurrent: bool = False
    """Remote: a request takes long, and several at a time hardly longer than one, so readers prefetch."""


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


class ReplacesIfMatch(Store, Protocol):
    """A store with a conditional replace, on which leases, locks and moving pointers stand."""

    def get_tagged(self, path: str) -> TaggedObject:
        """An object whole, with its etag. Raises ObjectNotFound."""
        ...

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """Replace the state of an object that `etag` names, whole and durably, and give the etag of the new one.

        Raises ObjectChanged where the object is in another state by now, or gone: another writer came first, or a request of ours
        that was sent twice, so read it back. StoreUnavailable means the effect is not known.
        """
        ...


@runtime_checkable
class ShowsUnfinished(Protocol):
    """A store whose unfinished writes are objects that can be seen, and that `delete` removes."""

    def unfinished(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The unfinished writes in the folder `prefix`, in path order, which `list` does not show."""
        ...


@runtime_checkable
class DefersWrites(Protocol):
    """A store with deferred writes: several objects become durable at once, before one that names them."""

    def put_deferred(self, path: str, *pieces: bytes | memoryview) -> None:
        """Write the pieces as one object under a unique name, not yet durable: this handle can read it at once, others later; durable
        after `put_after` or `settle`.
        """
        ...

    def put_after(self, path: str, data: bytes | memoryview, after: Iterable[str]) -> None:
        """`put(path, data)`, which can be seen only once those of `after` that were deferred are durable. Where one of them cannot be
        made so, raises StoreError with its path, now and at each later call; then nothing is stored under `path`.
        """
        ...

    def settle(self, paths: Iterable[str]) -> None:
        """Make the deferred ones of these objects durable; raises as `put_after`."""
        ...

    def forget(self, paths: Iterable[str]) -> None:
        """Give up those of these objects that are not durable yet: nothing may name them any more, and they may be deleted."""
        ...


class DeferredObject(Protocol):
    """A deferred write in progress, not visible to readers."""

    def write(self, *pieces: bytes | memoryview) -> None:
        """Add bytes."""
        ...

    def finish(self) -> None:
        """Complete it, as `put_deferred` does; nothing may be written after."""
        ...

    def discard(self) -> None:
        """Abort and remove it; no effect once it is finished."""
        ...


@runtime_checkable
class StreamsWrites(DefersWrites, Protocol):
    """A store whose deferred writes may come in pieces, several at a time."""

    def begin_deferred(self, path: str) -> DeferredObject:
        """`put_deferred`, piece by piece; to be finished or discarded."""
        ...


class WriterQueue(Protocol):
    """A writer's position in the queue for a folder."""

    @property
    def mine(self) -> bool:
        """Whether it is this writer's turn."""
        ...

    def wait(self) -> bool:
        """Wait for a moment where it is not this writer's turn yet; True to go on waiting, after reading what others created meanwhile.
        False once the turn has come, and where it cannot come.
        """
        ...


@runtime_checkable
class TakesTurns(Protocol):
    """A store with a queue of the writers that create objects in one folder."""

    def turn(self, folder: str) -> AbstractContextManager[WriterQueue]:
        """Queue to create an object in a folder. The turn ends with this thread's first such create, or with the context.
        Advisory: a create is exclusive without it, and may come out of turn.
        """
        ...


def defers_writes(store: Store) -> TypeGuard[DefersWrites]:
    """Whether a store is a DefersWrites; `isinstance` would look at all its methods each time."""
    return _is(type(store), DefersWrites)


def replaces_if_match(store: Store) -> TypeGuard[ReplacesIfMatch]:
    """Whether a store declares that it is a ReplacesIfMatch."""
    return store.capabilities.put_if_match


def streams_writes(store: Store) -> TypeGuard[StreamsWrites]:
    """Whether a store is a StreamsWrites."""
    return _is(type(store), StreamsWrites)


def takes_turns(store: Store) -> TypeGuard[TakesTurns]:
    """Whether a store is a TakesTurns."""
    return _is(type(store), TakesTurns)


@cache
def _is(kind: type, protocol: type) -> bool:
    return issubclass(kind, protocol)


class Clock(Protocol):
    """Wall clock, monotonic clock and sleep."""

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
    """Unique names and randomness."""

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
