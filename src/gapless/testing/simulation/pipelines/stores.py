"""One store of a process over all that it reaches, so that it has one life, and the part of it that one table or pipeline sees."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gapless.model.protocols import Capabilities, ObjectInfo, PutMode, Store, TaggedObject, replaces_if_match
from gapless.testing.simulation.watch import Watched
from gapless.testing.store.stores import OuterStore

URL = "sim://table"
"""Of every part: whether a store keeps its promises is asked once for each URL."""


class PartedStore:
    """A Store in which each folder of the root is another one."""

    url = URL
    capabilities = Capabilities(put_if_absent=True, durable=False, survives_fork=True, put_if_match=True)

    def __init__(self, parts: Mapping[str, Store]) -> None:
        """By the name of the folder."""
        self.parts = parts

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Store.get`."""
        part, rest = self._split(path)
        return part.get(rest, start, length)

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        part, rest = self._split(path)
        part.put(rest, data, mode=mode, durable=durable)

    def get_tagged(self, path: str) -> TaggedObject:
        """See `ReplacesIfMatch.get_tagged`."""
        part, rest = self._split(path)
        assert replaces_if_match(part)
        return part.get_tagged(rest)

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """See `ReplacesIfMatch.put_if_match`."""
        part, rest = self._split(path)
        assert replaces_if_match(part)
        return part.put_if_match(rest, data, etag)

    def head(self, path: str) -> ObjectInfo:
        """See `Store.head`."""
        part, rest = self._split(path)
        return replace(part.head(rest), path=path)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """See `Store.list`; of one part."""
        part, rest = self._split(prefix)
        name = prefix.partition("/")[0]
        found = part.list(rest, after.partition("/")[2])
        return iter([replace(info, path=f"{name}/{info.path}") for info in found])

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        part, rest = self._split(path)
        part.delete(rest)

    def local_path(self, path: str) -> None:  # noqa: ARG002 - the same answer for every path
        """None: nothing here is a file."""
        return

    def _split(self, path: str) -> tuple[Store, str]:
        name, _, rest = path.partition("/")
        return self.parts[name], rest


class FolderStore(OuterStore):
    """What lies in one folder of a store, as a store of its own."""

    def __init__(self, inner: Store, folder: str) -> None:
        """Of `inner`."""
        super().__init__(inner)
        self._folder = folder

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See `Store.get`."""
        return super().get(self._inside(path), start, length)

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        super().put(self._inside(path), data, mode=mode, durable=durable)

    def get_tagged(self, path: str) -> TaggedObject:
        """See `ReplacesIfMatch.get_tagged`."""
        return super().get_tagged(self._inside(path))

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """See `ReplacesIfMatch.put_if_match`."""
        return super().put_if_match(self._inside(path), data, etag)

    def head(self, path: str) -> ObjectInfo:
        """See `Store.head`."""
        return replace(super().head(self._inside(path)), path=path)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """See `Store.list`."""
        found = super().list(self._inside(prefix) if prefix else self._folder, self._inside(after) if after else "")
        return iter([replace(info, path=info.path.removeprefix(f"{self._folder}/")) for info in found])

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        super().delete(self._inside(path))

    def local_path(self, path: str) -> None:  # noqa: ARG002 - the same answer for every path
        """None, so that every read comes by the store behind."""
        return

    def _inside(self, path: str) -> str:
        return f"{self._folder}/{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What landed in a checkpoint store about one number."""

    folder: str
    """Of which pipeline."""
    number: int
    landed_ns: int
    body: dict[str, Any]


class CheckpointWatch(OuterStore):
    """The checkpoint stores of all pipelines, under watch: what was decided, and what was said to be done."""

    def __init__(self, inner: Store, sink: Watched, now_ns: Callable[[], int]) -> None:
        """Watch `inner`, which must be empty; `sink` is where prepared files are."""
        super().__init__(inner)
        self.decided: builtins.list[Marked] = []
        self.done: builtins.list[Marked] = []
        self.faults: builtins.list[str] = []
        self._sink, self._now_ns = sink, now_ns

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        super().put(path, data, mode=mode, durable=durable)
        folder, _, name = path.rpartition("/")
        stem, _, suffix = name.partition(".")
        if suffix not in ("decided", "done"):
            return
        mark = Marked(folder=folder, number=int(stem), landed_ns=self._now_ns(), body=json.loads(bytes(data)))
        (self.decided if suffix == "decided" else self.done).append(mark)
        if suffix == "decided" and mark.body["commit"] and mark in self.truths():
            self._check_files(mark)

    def truths(self) -> builtins.list[Marked]:
        """The first decision about each number of each pipeline: a later one is void, for it comes after the first was removed."""
        first: dict[tuple[str, int], Marked] = {}
        for mark in self.decided:
            first.setdefault((mark.folder, mark.number), mark)
        return list(first.values())

    def _check_files(self, mark: Marked) -> None:
        """All that is to be committed must be there when that is decided, unless it is void by a higher number."""
        if any(other.folder == mark.folder and other.number > mark.number for other in self.decided):
            return
        for prepared in mark.body["checkpoint"]["prepared"].values():
            needs = [*(file["path"] for file in prepared["files"]), *prepared["kept"]]
            self.faults += (
                f"checkpoint {mark.number} of {mark.folder} was decided, and {path} is not there"
                for path in needs
                if self._sink.find(path) is None
            )
