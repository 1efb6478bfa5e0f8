"""Small files of a near store, read several in one go, step by step: handed over one by one, they would take longer than to be read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from gapless.files.read.pieces import Piece, read_pieces
from gapless.model.protocols import Store
from gapless.runtime.concurrency import one_ahead
from gapless.tables.delta.files.opened import ReadRequest

FEW_FILES = 8
"""So many are fetched without a thread."""
SET_FILES = 32
SET_STORED_BYTES = 2 << 20
"""What the files of a set have together, or its one file."""
SET_BYTES = 8 << 20
"""What a set holds in Arrow's memory, by a guess; what comes after it in the set is read when it is asked for."""

F = TypeVar("F")
P = TypeVar("P", bound=Piece)
A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Generic[F, P, A]):
    """What is done with a file that is asked for."""

    fetched: Callable[[ReadRequest], bytes | None]
    """Its bytes."""
    opened: Callable[[ReadRequest, bytes | None], F]
    """It, parsed."""
    pieces: Callable[[F], Iterable[P]]
    """What is read of it."""
    answers: Callable[[P, pa.Table], Sequence[A]]
    """What the rows of a piece come to."""
    row_bytes: int
    """A guess of one row's Arrow memory."""


@dataclass(slots=True)
class _Error:
    """What ended the reading of a set."""

    error: Exception | None = None

    def before(self, results: Iterable[R]) -> list[R]:
        """The results of one step, up to the one that raises. An earlier step's error came farther, and so gives way."""
        done: list[R] = []
        try:
            for result in results:
                done.append(result)  # noqa: PERF402  # what came before an error is kept
        except Exception as error:  # noqa: BLE001  # raised where it belongs, after what comes before it
            self.error = error
        return done


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A set whose files were fetched, up to an error."""

    files: Sequence[ReadRequest]
    data: Sequence[bytes | None]
    met: _Error


def read_in_sets(store: Store, files: Sequence[ReadRequest], steps: Steps[F, P, A]) -> Iterator[A]:
    """The answers of files, in order; raises in its place what one of them raises. A set is fetched while the one before is worked on."""

    def fetched() -> Generator[_Fetched]:
        for some in _few_first(files):
            met = _Error()
            yield _Fetched(some, met.before(steps.fetched(one) for one in some), met)

    with closing(one_ahead(fetched()) if len(files) > FEW_FILES else fetched()) as coming:
        for one in coming:
            yield from _read(store, one, steps)


def _few_first(files: Sequence[ReadRequest]) -> Iterator[Sequence[ReadRequest]]:
    """Sets that grow: whoever wants few rows stops early."""
    start, most = 0, 1
    while start < len(files):
        end, size = start + 1, files[start].file.size
        while end < min(start + most, len(files)) and (size := size + files[end].file.size) <= SET_STORED_BYTES:
            end += 1
        yield files[start:end]
        start, most = end, min(2 * most, SET_FILES)


def _read(store: Store, some: _Fetched, steps: Steps[F, P, A]) -> Iterator[A]:
    """Each step is done for all files before the next: what it needs in the processor's caches is there then, which saves a third."""
    met = some.met
    opened = met.before(steps.opened(one, data) for one, data in zip(some.files, some.data, strict=False))
    pieces = [piece for some in met.before(list(steps.pieces(one)) for one in opened) for piece in some]
    held = np.cumsum([piece.rows * steps.row_bytes for piece in pieces])
    near = int(np.searchsorted(held, SET_BYTES, side="right"))
    read = met.before(read_pieces(store, pieces[:near]))
    told = met.before(steps.answers(piece, rows) for piece, rows in read)
    yield from (answer for some in told for answer in some)
    if len(told) == near:
        for piece, rows in read_pieces(store, pieces[near:]):
            yield from steps.answers(piece, rows)
    if met.error is not None:
        raise met.error
