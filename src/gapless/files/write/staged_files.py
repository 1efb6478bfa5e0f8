"""Files of a change that is not committed yet: durable before its commit, removed if that certainly will not come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gapless.errors import StoreError
from gapless.model.protocols import ObjectAhead, StoresAhead, stores_ahead, streams_ahead
from gapless.runtime.environment import Environment

MOST_AHEAD = 32
"""Files of an attempt that may wait for its commit to be made durable; a local store holds each open."""
MOST_AHEAD_BYTES = 64 << 20
"""And their bytes together; a bucket's are held in memory until they are there."""


@dataclass(slots=True)
class StagedFiles:
    """What was written for one change."""

    env: Environment
    written: list[str] = field(default_factory=list, kw_only=True)
    committed_here: bool = field(default=False, kw_only=True)
    """Whether this process commits it, with `ahead`: what is written may then become durable with the commit, just before it."""
    ahead: list[str] = field(default_factory=list, kw_only=True)
    """What was written and may not be durable yet."""
    ahead_bytes: int = field(default=0, kw_only=True)

    def put(self, path: str, *pieces: bytes | memoryview) -> None:
        """Store the pieces as one object, under a name that no one else takes. Raises StoreError."""
        # Named before it is stored: a put without an answer may have landed.
        self.written.append(path)
        store = self.env.store
        if self.committed_here and stores_ahead(store):
            self._put_ahead(store, path, pieces)
            return
        # The name is unique, and a bucket may answer "exists" to our own write that its client sent twice.
        store.put(path, pieces[0] if len(pieces) == 1 else b"".join(pieces), mode="overwrite")

    def _put_ahead(self, store: StoresAhead, path: str, pieces: Sequence[bytes | memoryview]) -> None:
        size = sum(memoryview(piece).nbytes for piece in pieces)
        if self.ahead and (len(self.ahead) >= MOST_AHEAD or self.ahead_bytes + size > MOST_AHEAD_BYTES):
            self.settle()
        self.ahead.append(path)
        self.ahead_bytes += size
        store.put_deferred(path, *pieces)

    @contextlib.contextmanager
    def streamed(self, path: str) -> Iterator[ObjectAhead | None]:
        """An object to be written under a name that no one else takes, finished with the context and discarded where that fails; None where
        the store takes objects only whole. Raises StoreError.
        """
        store = self.env.store
        if not (self.committed_here and streams_ahead(store)):
            yield None
            return
        if len(self.ahead) >= MOST_AHEAD:
            self.settle()
        self.written.append(path)
        begun = store.begin_ahead(path)
        try:
            yield begun
            begun.finish()
        except BaseException:
            begun.discard()
            raise
        self.ahead.append(path)

    def settle(self) -> None:
        """Make what was written durable now, so that it may be committed later, or more than once. Raises StoreError."""
        if self.ahead and stores_ahead(self.env.store):
            self.env.store.settle(self.ahead)
            self.ahead.clear()
            self.ahead_bytes = 0

    @contextlib.contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """For work on an attempt of which no commit was tried, or one that certainly lost: nothing can need its files if it fails."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove what was written; only for a change that certainly was not and will not be committed."""
        for path in self.written:
            with contextlib.suppress(StoreError):
                self.env.store.delete(path)
