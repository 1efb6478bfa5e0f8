"""A store at each call of which something else happens first, as if another process came between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gapless.model.protocols import ObjectInfo, PutMode, Store
from gapless.testing.store.stores import OuterStore


@dataclass
class Visits:
    """What comes between: at each call, or at one of them; never within itself."""

    act: Callable[[], Any]
    only_at: int | None = None
    calls: int = 0
    made: int = 0
    """How often it came."""
    _within: bool = field(default=False)

    def come(self) -> None:
        if self._within:
            return
        self.calls += 1
        if self.only_at is None or self.calls == self.only_at:
            self._within = True
            try:
                self.made += 1
                self.act()
            finally:
                self._within = False


class VisitedStore(OuterStore):
    """A store with such visits."""

    def __init__(self, inner: Store, visits: Visits) -> None:
        super().__init__(inner)
        self.visits = visits

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.visits.come()
        return self.inner.get(path, start, length)

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        self.visits.come()
        self.inner.put(path, data, mode=mode, durable=durable)

    def head(self, path: str) -> ObjectInfo:
        self.visits.come()
        return self.inner.head(path)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        self.visits.come()
        return iter(list(self.inner.list(prefix, after)))

    def delete(self, path: str) -> None:
        self.visits.come()
        self.inner.delete(path)

    def local_path(self, path: str) -> None:
        """None, so that every read comes by here."""
