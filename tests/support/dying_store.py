"""A store whose process dies at a chosen call: before it takes effect, or after, and nothing has an effect from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from gapless.model.protocols import ObjectInfo, PutMode, Store
from gapless.testing.store.stores import Killed, OuterStore

T = TypeVar("T")


@dataclass
class Life:
    """How long a process lives, in changing calls of all its stores."""

    dies_at: int | None = None
    after: bool = False
    """Whether the last call still takes effect."""
    calls: int = 0

    def call(self, effect: Callable[[], T], *, changes: bool) -> T:
        if self.dies_at is not None and self.calls >= self.dies_at:
            raise Killed
        if not changes:
            return effect()
        self.calls += 1
        if self.calls != self.dies_at:
            return effect()
        if self.after:
            effect()
        raise Killed


class DyingStore(OuterStore):
    """A store of a process with such a life."""

    def __init__(self, inner: Store, life: Life) -> None:
        super().__init__(inner)
        self.life = life

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self.life.call(lambda: self.inner.get(path, start, length), changes=False)

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        self.life.call(lambda: self.inner.put(path, data, mode=mode, durable=durable), changes=True)

    def head(self, path: str) -> ObjectInfo:
        return self.life.call(lambda: self.inner.head(path), changes=False)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        return self.life.call(lambda: iter(list(self.inner.list(prefix, after))), changes=False)

    def delete(self, path: str) -> None:
        self.life.call(lambda: self.inner.delete(path), changes=True)

    def local_path(self, path: str) -> None:
        """None, so that every read comes by here."""
