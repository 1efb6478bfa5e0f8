"""Files of a change that is not committed yet: durable before its commit, removed if that certainly will not come."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gapless.errors import StoreError
from gapless.model.protocols import DeferredObject, DefersWrites, defers_writes, streams_writes
from gapless.runtime.environment import Environment

_LOGGER = logging.getLogger("gapless.files")

MOST_DEFERRED = 32
"""Files of an attempt that may wait for its commit to be made durable; a local store holds each open."""
MOST_DEFERRED_BYTES = 64 << 20
"""And their bytes together; a bucket's are held in memory until they are there."""


@dataclass(slots=True)
class StagedFiles:
    """What was written for one change."""

    env: Environment
    written: list[str] = field(default_factory=list, kw_only=True)
    committed_here: bool = field(default=False, kw_only=True)
    """Whether this process stores what names it, with `deferred`: what is written may then become durable with that, just before it."""
    deferred: list[str] = field(default_factory=list, kw_only=True)
    """What was written and may not be durable yet."""
    deferred_bytes: int = field(default=0, kw_only=True)

    def put(self, path: str, *pieces: bytes | memoryview) -> None:
        """Store the pieces as one object, under a name that no one else takes. Raises StoreError."""
        # Named before it is stored: a put without an answer may have landed.
        self.written.append(path)
        store = self.env.store
        if self.committed_here and defers_writes(store):
            self._put_deferred(store, path, pieces)
            return
        # The name is unique, and a bucket may answer "exists" to our own write that its client sent twice.
        store.put(path, pieces[0] if len(pieces) == 1 else b"".join(pieces), mode="overwrite")

    def _put_deferred(self, store: DefersWrites, path: str, pieces: Sequence[bytes | memoryview]) -> None:
        size = sum(memoryview(piece).nbytes for piece in pieces)
        if self.deferred and (len(self.deferred) >= MOST_DEFERRED or self.deferred_bytes + size > MOST_DEFERRED_BYTES):
            self.settle()
        self.deferred.append(path)
        self.deferred_bytes += size
        store.put_deferred(path, *pieces)

    @contextlib.contextmanager
    def streamed(self, path: str) -> Iterator[DeferredObject | None]:
        """An object to be written under a name that no one else takes, finished with the context and discarded where that fails; None where
        the store takes objects only whole. Raises StoreError.
        """
        store = self.env.store
        if not (self.committed_here and streams_writes(store)):
            yield None
            return
        if len(self.deferred) >= MOST_DEFERRED:
            self.settle()
        self.written.append(path)
        begun = store.begin_deferred(path)
        try:
            yield begun
            begun.finish()
        except BaseException:
            begun.discard()
            raise
        self.deferred.append(path)

    def settle(self) -> None:
        """Make what was written durable now, so that it may be committed later, or more than once. Raises StoreError."""
        if self.deferred and defers_writes(self.env.store):
            self.env.store.settle(self.deferred)
            self.deferred.clear()
            self.deferred_bytes = 0

    @contextlib.contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """For work on an attempt of which no commit was tried, or one that certainly lost: nothing can need its files if it fails."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def undo(self, mark: int) -> None:
        """Remove what was written after the first `mark` files, which stay; only where nothing names it."""
        lost = self.written[mark:]
        del self.written[mark:]
        self.deferred[:] = [path for path in self.deferred if path not in lost]
        self._remove(lost)

    def discard(self) -> None:
        """Remove what was written; only for a change that certainly was not and will not be committed."""
        self._remove(self.written)

    def discard_others(self, kept: AbstractSet[str]) -> None:
        """Remove what was written, but for the paths in `kept`, which were committed without the others."""
        if others := [path for path in self.written if path not in kept]:
            self._remove(others)

    def _remove(self, paths: Sequence[str]) -> None:
        if paths:
            _LOGGER.info("%s: %d file(s) of a change that is not committed are removed", self.env.store.url, len(paths))
        for path in paths:
            with contextlib.suppress(StoreError):
                self.env.store.delete(path)
