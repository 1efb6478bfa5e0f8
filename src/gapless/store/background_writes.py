"""Puts to a bucket in the background."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock

from gapless.errors import GaplessError

_MOST = 16
"""Requests of this process that are under way for others at a time."""

Put = Callable[[str, "bytes | memoryview"], None]
"""Overwrites the object at a path; raises StoreError."""


@cache
def _pool() -> ThreadPoolExecutor:
    # Its threads are waited for when the interpreter ends: a thread that dies within the client would take the process along.
    return ThreadPoolExecutor(_MOST, "gapless-put")


def _submit(act: Callable[..., None], *args: object) -> Future[None] | None:
    """Begin an act; None where the program ends and only threads that are there go on: then the caller does it."""
    try:
        return _pool().submit(act, *args)
    except RuntimeError:
        return None


class BackgroundWrites:
    """Puts of one store under way, by path."""

    def __init__(self, put: Put) -> None:
        """`put` is the store's own."""
        self._put = put
        self._lock = Lock()
        self._hints: dict[str, tuple[bytes, Future[None]]] = {}
        self._deferred: dict[str, Future[None]] = {}

    def put_hint(self, path: str, data: bytes) -> None:
        """Overwrite a hint by and by; of several for one path the last is put, and those before may be passed over."""
        with self._lock:
            known = self._hints.get(path)
            future = known[1] if known else _submit(self._put_newest, path)
            if future is not None:
                self._hints[path] = data, future
                return
        with contextlib.suppress(GaplessError):
            self._put(path, data)

    def _put_newest(self, path: str) -> None:
        """Put the hint for a path until it is the newest that was given."""
        done: bytes | None = None
        while True:
            with self._lock:
                data, _ = self._hints[path]
                if data is done:
                    del self._hints[path]
                    return
            with contextlib.suppress(GaplessError):  # readers do without it
                self._put(path, data)
            done = data

    def put_deferred(self, path: str, data: bytes | memoryview) -> None:
        """Begin to store an object under a name that no one else takes."""
        future = _submit(self._put, path, data)
        if future is None:
            self._put(path, data)
        else:
            self._deferred[path] = future

    def settle(self, paths: Iterable[str]) -> None:
        """Wait until those of these paths that were deferred are stored. Raises StoreError, again if asked again."""
        found = [(path, self._deferred[path]) for path in paths if path in self._deferred]
        for error in [future.exception() for _, future in found]:
            if error is not None:
                raise error
        for path, _ in found:
            self._deferred.pop(path, None)

    def await_path(self, path: str) -> None:
        """Wait for what is under way to this path, whatever becomes of it."""
        if not self._hints and not self._deferred:
            return
        with self._lock:
            hint = self._hints.get(path)
        for future in (hint[1] if hint else None, self._deferred.get(path)):
            if future is not None:
                future.exception()

    def await_all(self) -> None:
        """Wait for all that is under way, whatever becomes of it."""
        for path in (*self._hints, *self._deferred):
            self.await_path(path)

    def forget(self, paths: Iterable[str]) -> None:
        """Wait for what is under way to these paths, and settle it no more."""
        for path in paths:
            self.await_path(path)
            self._deferred.pop(path, None)
