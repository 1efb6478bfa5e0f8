"""Which files were read, exactly and in few bytes. Pure."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class SeenFile:
    """One state of a file. Ordered by time, then path."""

    modified_ns: int
    """Last write, nanoseconds since 1970 UTC, by the store's clock."""
    path: str
    size: int
    """Bytes."""


@dataclass(slots=True)
class FileMemory:
    """The files that were read, in the order in which they were, as far as they are remembered."""

    files: list[SeenFile] = field(default_factory=list)
    forgotten: int = 0
    """How many were read that are remembered no longer."""
    horizon_ns: int | None = None
    """All of these were modified before it."""
    _by_path: dict[str, SeenFile] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many were read."""
        return self.forgotten + len(self.files)

    def add(self, seen: SeenFile) -> None:
        """One more was read."""
        self.files.append(seen)
        self._by_path[seen.path] = seen

    def go_back(self, total: int) -> None:
        """Be as when so many were read."""
        if total != self.total:
            del self.files[total - self.forgotten :]
            self._by_path = {one.path: one for one in self.files}

    def forget(self, late_ns: int) -> None:
        """Forget those that are older than the newest by more than `late_ns`."""
        if not self.files:
            return
        horizon = max(one.modified_ns for one in self.files) - late_ns
        kept = [one for one in self.files if one.modified_ns >= horizon]
        if len(kept) < len(self.files):
            self.forgotten += len(self.files) - len(kept)
            self.horizon_ns = horizon if self.horizon_ns is None else max(horizon, self.horizon_ns)
            self.files, self._by_path = kept, {one.path: one for one in kept}

    def knows(self, path: str) -> bool:
        """Whether a file is remembered."""
        return path in self._by_path

    def known(self, path: str) -> SeenFile | None:
        """What is remembered of a file."""
        return self._by_path.get(path)

    def has_other(self, seen: SeenFile) -> bool:
        """Whether another state of the file was read."""
        return self._by_path.get(seen.path, seen) != seen

    def may_have_forgotten(self, seen: SeenFile) -> bool:
        """Whether a file that is not remembered may have been read."""
        return self.horizon_ns is not None and seen.modified_ns < self.horizon_ns

    def to_json(self, total: int) -> dict[str, Any]:
        """As JSON holds it, when so many were read."""
        rows = [[one.path, one.size, one.modified_ns] for one in self.files[: total - self.forgotten]]
        packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(errors="surrogatepass"), 6)
        files = base64.b64encode(packed).decode() if rows else ""
        return {"files": files, "forgotten": self.forgotten, "horizon_ns": self.horizon_ns}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> FileMemory:
        """Read it back; raises KeyError, TypeError or ValueError."""
        memory = cls(forgotten=int(body["forgotten"]), horizon_ns=body["horizon_ns"])
        try:
            rows = json.loads(zlib.decompress(base64.b64decode(body["files"], validate=True))) if body["files"] else []
        except zlib.error as error:
            raise ValueError(f"the files that were read: {error}") from error
        for path, size, modified_ns in rows:
            memory.add(SeenFile(path=str(path), size=int(size), modified_ns=int(modified_ns)))
        return memory
