"""The simplest store there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gapless.errors import ObjectExists, ObjectNotFound
from gapless.model.protocols import Capabilities, ObjectInfo, PutMode
from gapless.store.path import check_new_path, check_path, check_range, folder_prefix, resolve_range
from gapless.testing.timeline import START_NS


class DictStore:
    """A Store over a dict of its own: gone with the object. Raises as the Store protocol says."""

    url = "sim://table"
    capabilities = Capabilities(put_if_absent=True, durable=False, survives_fork=True)

    def __init__(self, now_ns: Callable[[], int] = lambda: START_NS) -> None:
        """Start empty; `now_ns` dates what is written."""
        self.objects: dict[str, tuple[bytes, int]] = {}
        """By path: the bytes, and when they were written (nanoseconds since 1970 UTC)."""
        self._now_ns = now_ns

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Store.get`."""
        check_range(start, length)
        data, _ = self._find(path)
        begin, end = resolve_range(path, len(data), start, length)
        return data[begin:end]

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:  # noqa: ARG002 - nothing here is durable
        """See `Store.put`."""
        entry = bytes(data), self._now_ns()
        # One step, so that of two threads that create one object one wins.
        if mode == "overwrite":
            self.objects[check_new_path(path)] = entry
        elif self.objects.setdefault(check_new_path(path), entry) is not entry:
            raise ObjectExists(f"{path!r} exists already", why="A create replaces nothing", fix="Read what is there", path=path)

    def head(self, path: str) -> ObjectInfo:
        """See `Store.head`."""
        data, modified_ns = self._find(path)
        return ObjectInfo(path=path, size=len(data), modified_ns=modified_ns)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        start = folder_prefix(prefix)
        paths = sorted(path for path in list(self.objects) if path.startswith(start) and path > after)
        return iter([self.head(path) for path in paths])

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self.objects.pop(check_path(path), None)

    def local_path(self, path: str) -> None:  # noqa: ARG002 - the same answer for every path
        """None: nothing here is a file."""
        return

    def _find(self, path: str) -> tuple[bytes, int]:
        entry = self.objects.get(check_path(path))
        if entry is None:
            raise ObjectNotFound(f"{path!r} is not there", why="Nothing is stored under it", fix="Check the path", path=path)
        return entry
