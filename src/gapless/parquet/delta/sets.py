"""Small files of a near store, read several in one go: handed over one by one, they would take longer on their way than to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import pyarrow as pa

from gapless.model.protocols import Store
from gapless.parquet.ahead import Call, in_order
from gapless.parquet.pieces import Piece, read_pieces

WIDTH = 2
"""Sets that are read side by side."""
SET_FILES = 16
SET_BYTES = 8 << 20
"""What a set holds in Arrow's memory, by a guess; what comes after it in the set is read when it is asked for."""

F = TypeVar("F")
P = TypeVar("P", bound=Piece)
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Generic[F, P, A]):
    """What is done with a file that was opened."""

    pieces: Callable[[F], Iterable[P]]
    """What is read of it."""
    answers: Callable[[P, pa.Table], Sequence[A]]
    """What the rows of a piece come to."""
    row_bytes: int
    """A guess of one row's Arrow memory."""


@dataclass(slots=True)
class _Set(Generic[P, A]):
    """What was read of a few files."""

    answers: list[A] = field(default_factory=list)
    left: list[P] = field(default_factory=list)
    """What comes after them and was not read, since they hold much."""
    error: Exception | None = None
    """What ended the reading."""


def read_in_sets(store: Store, calls: Sequence[Call[F]], steps: Steps[F, P, A]) -> Iterator[A]:
    """The answers of the files that `calls` open, in order; raises in its place what one of them raises."""
    sets = (Call(partial(_read, store, some, steps)) for some in _few_first(calls))
    with closing(in_order(sets, width=WIDTH)) as found:
        for one in found:
            yield from one.answers
            for piece, rows in read_pieces(store, one.left):
                yield from steps.answers(piece, rows)
            if one.error is not None:
                raise one.error


def _few_first(calls: Sequence[Call[F]]) -> Iterator[Sequence[Call[F]]]:
    """Sets that grow: whoever wants few rows stops early."""
    start, length = 0, 1
    while start < len(calls):
        yield calls[start : start + length]
        start, length = start + length, min(2 * length, SET_FILES)


def _read(store: Store, calls: Sequence[Call[F]], steps: Steps[F, P, A]) -> _Set[P, A]:
    found, held = _Set[P, A](), 0
    try:
        for call in calls:
            for piece in steps.pieces(call.act()):
                held += piece.rows * steps.row_bytes
                if held > SET_BYTES:
                    found.left.append(piece)
                    continue
                for one, rows in read_pieces(store, [piece]):
                    found.answers += steps.answers(one, rows)
    except Exception as error:  # noqa: BLE001  # raised where it belongs, after what comes before it
        found.error = error
    return found
