"""A store in the memory of this process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

from gapless.errors import NotSupported, ObjectExists, ObjectNotFound
from gapless.model.protocols import Capabilities, ObjectInfo, PutMode, TaggedObject
from gapless.store.location import (
    check_new_path,
    check_path,
    check_range,
    content_etag,
    folder_prefix,
    object_changed,
    resolve_range,
)

_SPACES: dict[str, dict[str, tuple[bytes, int]]] = {}
"""By name: path to (bytes, time of the write in nanoseconds since 1970 UTC)."""
_LOCKS = [threading.Lock()]


def _renew_lock() -> None:
    _LOCKS[0] = threading.Lock()


# A fork may copy the lock while another thread holds it, and that thread does not exist in the child.
os.register_at_fork(after_in_child=_renew_lock)


class MemoryStore:
    """A Store that all handles of one `name` share within a process; it lasts as long as the process.

    `now_ns` gives the time of a write in nanoseconds since 1970 UTC. Raises as the Store protocol says.
    """

    def __init__(self, name: str, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._name = name
        self._now_ns = now_ns
        with _LOCKS[0]:
            self._objects = _SPACES.setdefault(name, {})

    def __reduce__(self) -> tuple[object, ...]:
        """Raise NotSupported: what is pickled goes to another process, which does not see this one's memory."""
        raise NotSupported(
            f"{self.url} cannot be pickled",
            why="What it holds lies in the memory of this process, and no other process sees it",
            fix="Make the table on disk or in a bucket, or send its rows: table.scan().to_arrow()",
            feature="pickling of what lies in memory",
        )

    def __copy__(self) -> MemoryStore:
        """The store itself: there is one of each name."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> MemoryStore:
        """The store itself: there is one of each name."""
        return self

    @property
    def url(self) -> str:
        """`memory://` and the name."""
        return f"memory://{self._name}"

    @property
    def capabilities(self) -> Capabilities:
        """Exclusive and usable after a fork (the child has its own copy); lost with the process."""
        return Capabilities(put_if_absent=True, durable=False, survives_fork=True, put_if_match=True)

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes `[start, start + length)` of an object; see `Store.get`."""
        check_range(start, length)
        data, _ = self._find(path)
        begin, end = resolve_range(path, len(data), start, length)
        return data[begin:end]

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:  # noqa: ARG002 - nothing here is durable
        """Store a copy of `data`; see `Store.put`."""
        entry = bytes(data), self._now_ns()
        check_new_path(path)
        with _LOCKS[0]:
            if mode == "create" and path in self._objects:
                raise ObjectExists(
                    f"{path!r} exists already in {self.url}",
                    why="It was to be created, and a create replaces nothing",
                    fix="Read what is there; another writer came first",
                    path=path,
                )
            self._objects[path] = entry

    def get_tagged(self, path: str) -> TaggedObject:
        """An object and its etag; see `ReplacesIfMatch.get_tagged`."""
        data, _ = self._find(path)
        return TaggedObject(data=data, etag=content_etag(data))

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """Replace one state of an object; see `ReplacesIfMatch.put_if_match`."""
        entry = bytes(data), self._now_ns()
        check_new_path(path)
        with _LOCKS[0]:
            found = self._objects.get(path)
            if found is None or content_etag(found[0]) != etag:
                raise object_changed(path, self.url)
            self._objects[path] = entry
        return content_etag(entry[0])

    def head(self, path: str) -> ObjectInfo:
        """Size and time of an object; see `Store.head`."""
        data, modified_ns = self._find(path)
        return ObjectInfo(path=path, size=len(data), modified_ns=modified_ns)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Objects in the folder `prefix` at the time of the call, in path order; see `Store.list`."""
        start = folder_prefix(prefix)
        with _LOCKS[0]:
            found = [(path, *entry) for path, entry in self._objects.items() if path.startswith(start) and path > after]
        return (ObjectInfo(path=path, size=len(data), modified_ns=modified_ns) for path, data, modified_ns in sorted(found))

    def delete(self, path: str) -> None:
        """Remove an object; no error where there is none."""
        with _LOCKS[0]:
            self._objects.pop(check_path(path), None)

    def local_path(self, path: str) -> None:  # noqa: ARG002 - the same answer for every path
        """None: nothing here is a file."""
        return

    def _find(self, path: str) -> tuple[bytes, int]:
        with _LOCKS[0]:
            entry = self._objects.get(check_path(path))
        if entry is None:
            raise ObjectNotFound(
                f"{path!r} is not in {self.url}",
                why="Nothing is stored under this path in this process",
                fix="Check the path; memory:// tables are not shared between processes",
                path=path,
            )
        return entry
