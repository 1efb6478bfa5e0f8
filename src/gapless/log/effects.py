"""Store and clock requests as values, yielded by the log engine's generators.

The log decides in generators that yield these requests and are sent the answers, so that production, tests and simulation
run the same code. `runtime.environment` answers them from a store and a clock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Request(Generic[T]):
    """A request to the environment; `T` is its answer."""

    __slots__ = ()


Conversation = Generator[Request[Any], Any, T]
"""A conversation that yields requests, is sent their answers and returns a `T`."""


Drive = Callable[["Conversation[Any]"], Any]
"""Runs a conversation to its end and gives back what it returns. Raises StoreError, and what the conversation raises."""


def perform(request: Request[T]) -> Conversation[T]:
    """Yield a request and return its answer, typed."""
    answer: T = yield request
    return answer


class Put(enum.Enum):
    """Outcome of a put-if-absent."""

    DONE = enum.auto()
    LATE = enum.auto()
    """Done, but it took so long that what was true of the log before may not be true any more."""
    REFUSED = enum.auto()
    """Something is there: another's, our own that a client sent twice, or nothing (a 409 for a request in flight)."""
    NO_ANSWER = enum.auto()
    """Timeout, reset, 5xx: it may have landed, or may still."""


@dataclass(frozen=True, slots=True)
class PutNew(Request[Put]):
    """Store an object that must not exist."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PutHint(Request[None]):
    """Replace a hint; whether it worked does not matter."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Get(Request["bytes | None"]):
    """An object's bytes; None where nothing is stored."""

    path: str


@dataclass(frozen=True, slots=True)
class Delete(Request[None]):
    """Remove an object; fine where there is none."""

    path: str


@dataclass(frozen=True, slots=True)
class ListNames(Request["tuple[str, ...]"]):
    """The paths of the objects in a folder, in order; those past the path `after` only."""

    folder: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class Warn(Request[None]):
    """Warn the user; nothing is lost."""

    message: str


@dataclass(frozen=True, slots=True)
class Wait(Request[bool]):
    """Back off before try `attempt` (from 1); False when the deadline has passed."""

    attempt: int


@dataclass(frozen=True, slots=True)
class TakeTurn(Request[bool]):
    """Queue for a moment to create the next object of the log; True while others are first, whose commits can be read meanwhile."""


@dataclass(frozen=True, slots=True)
class Now(Request[int]):
    """Nanoseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Concurrently(Request["tuple[Any, ...]"]):
    """Several requests, made concurrently where the store is remote; their answers, in order."""

    requests: tuple[Get | ListNames, ...]


@dataclass(frozen=True, slots=True)
class GetDrive(Request[Drive]):
    """A `Drive`, to read from the store once this conversation is over."""


@dataclass(frozen=True, slots=True)
class GetUrl(Request[str]):
    """Where the table is, as commands take it: for messages."""


@dataclass(frozen=True, slots=True)
class NewId(Request[str]):
    """A unique name."""
