"""pyiceberg's files over a store: what lies under a table's root is read and written there, by the location that the metadata names."""

from __future__ import annotations

import io
import re
from types import TracebackType

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from gapless.errors import CorruptTable, ObjectNotFound
from gapless.model.protocols import Store, defers_writes


class StoreIO(FileIO):
    """Objects of one store. What it writes need not be durable before `deferred` is settled, or the commit that names it."""

    def __init__(self, store: Store) -> None:
        """Over a table's store."""
        super().__init__()
        self._store = store
        self.elsewhere: FileIO | None = None
        """What has files that do not lie under the root."""
        self.root = root_location(store)
        self.spellings: tuple[str, ...] = ()
        """Other ways in which locations of objects under the root may begin."""
        self.deferred: list[str] = []
        """Paths that were written, and may not be durable yet."""

    def location(self, path: str) -> str:
        """What the metadata calls an object of the store."""
        return f"{self.root}/{path}"

    def path(self, location: str) -> str | None:
        """The object that a location names; None for one that does not lie under the root."""
        found = next((one for one in (self.root, *self.spellings) if location.startswith(f"{one}/")), None)
        return None if found is None else location[len(found) + 1 :]

    def new_input(self, location: str) -> InputFile:
        """What is read. Raises CorruptTable for a location outside the root."""
        path = self.path(location)
        if path is not None:
            return _Input(location, self._store, path)
        return self._other(location).new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """What is written. Raises CorruptTable for a location outside the root."""
        path = self.path(location)
        if path is not None:
            return _Output(location, self._store, path, self.deferred)
        return self._other(location).new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove an object; no error where there is none."""
        named = location if isinstance(location, str) else location.location
        path = self.path(named)
        if path is not None:
            self._store.delete(path)
        else:
            self._other(named).delete(named)

    def settle(self) -> None:
        """Make durable what was written. Raises StoreError."""
        if self.deferred and defers_writes(self._store):
            self._store.settle(self.deferred)
        self.deferred.clear()

    def _other(self, location: str) -> FileIO:
        if self.elsewhere is not None:
            return self.elsewhere
        raise CorruptTable(
            f"the Iceberg metadata names {location}, which does not lie under {self.root}",
            why="Another writer made it, or the table was moved: Iceberg names files by where they lay",
            fix="`gapless repair --apply` begins the description anew",
            path=location,
        )


def root_location(store: Store) -> str:
    """What Iceberg metadata calls the root of a table: a URL."""
    local = store.local_path("x")
    if local is not None:
        return f"file://{local[: -len('/x')]}"
    return re.sub("^(?:s3a|r2)://", "s3://", store.url.rstrip("/"), count=1, flags=re.IGNORECASE)


def spellings_of(root: str) -> tuple[str, ...]:
    """The ways in which writers spell the location of a table's root.

    >>> spellings_of("file:///lake/t")
    ('file:///lake/t', 'file:/lake/t', '/lake/t')
    >>> spellings_of("s3a://lake/t")
    ('s3://lake/t', 's3a://lake/t', 's3n://lake/t')
    """
    scheme, colon, rest = root.partition(":")
    if not colon or scheme == "file":
        path = "/" + (rest if colon else root).lstrip("/")
        return (f"file://{path}", f"file:{path}", path)
    return tuple(f"{one}:{rest}" for one in ("s3", "s3a", "s3n")) if scheme in ("s3", "s3a", "s3n") else (root,)


class _Input(InputFile):
    def __init__(self, location: str, store: Store, path: str) -> None:
        super().__init__(location)
        self._store, self._path = store, path

    def __len__(self) -> int:
        return self._store.head(self._path).size

    def exists(self) -> bool:
        """Whether it is there."""
        return _exists(self._store, self._path)

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002 - pyiceberg's signature
        """All of it: metadata is small. Raises ObjectNotFound, StoreError."""
        return io.BytesIO(self._store.get(self._path))


class _Output(OutputFile):
    def __init__(self, location: str, store: Store, path: str, deferred: list[str]) -> None:
        super().__init__(location)
        self._store, self._path, self._deferred = store, path, deferred
        self._stream: _Pending | None = None

    def __len__(self) -> int:
        return self._store.head(self._path).size if self._stream is None else self._stream.size

    def exists(self) -> bool:
        """Whether it is there."""
        return _exists(self._store, self._path)

    def to_input_file(self) -> InputFile:
        """The same to be read."""
        return _Input(self.location, self._store, self._path)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002, FBT001, FBT002 - names are used once
        """What is stored when it is closed."""
        self._stream = _Pending(self._store, self._path, self._deferred)
        return self._stream


class _Pending(io.BytesIO):
    """Bytes that become an object when they are closed without an error."""

    def __init__(self, store: Store, path: str, deferred: list[str]) -> None:
        super().__init__()
        self._store, self._path, self._deferred = store, path, deferred
        self.size = 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        self.size = len(data)
        super().close()
        if defers_writes(self._store):
            self._store.put_deferred(self._path, data)
            self._deferred.append(self._path)
        else:
            self._store.put(self._path, data)


def _exists(store: Store, path: str) -> bool:
    try:
        store.head(path)
    except ObjectNotFound:
        return False
    return True
