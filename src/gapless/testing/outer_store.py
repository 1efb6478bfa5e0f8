"""A store in front of another, for those that watch or disturb what passes."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.model.protocols import Capabilities, ObjectInfo, PutMode, Store


class OuterStore:
    """Passes every call on to `inner`; a subclass says what else happens at some of them."""

    def __init__(self, inner: Store) -> None:
        """Stand before `inner`."""
        self.inner = inner

    @property
    def url(self) -> str:
        """That of the store behind."""
        return self.inner.url

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store behind."""
        return self.inner.capabilities

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Store.get`."""
        return self.inner.get(path, start, length)

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        self.inner.put(path, data, mode=mode, durable=durable)

    def head(self, path: str) -> ObjectInfo:
        """See `Store.head`."""
        return self.inner.head(path)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        return self.inner.list(prefix, after)

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self.inner.delete(path)

    def local_path(self, path: str) -> str | None:
        """See `Store.local_path`."""
        return self.inner.local_path(path)
