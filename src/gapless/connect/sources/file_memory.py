"""Which files were read, exactly and in few bytes. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_DIGEST_BYTES = 6
"""Of a million files that were forgotten, one in 280 million that come late is taken for one of these."""


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
    """The files that were read, in the order in which they were; of those that were forgotten only a digest of their paths."""

    files: list[SeenFile] = field(default_factory=list)
    forgotten: int = 0
    """How many were read of which size and time are remembered no longer."""
    horizon_ns: int | None = None
    """All of these were modified before it."""
    digests: set[bytes] | None = field(default_factory=set)
    """Of the paths of these, as far as they are still there; None where the cursor does not say, as those of earlier versions."""
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

    def forget(self, late_ns: int, now_ns: int) -> None:
        """Forget those that are older than the newest by more than `late_ns`; a time that is still to come says nothing of what is late."""
        if not self.files:
            return
        horizon = min(max(one.modified_ns for one in self.files), now_ns) - late_ns
        kept = [one for one in self.files if one.modified_ns >= horizon]
        if len(kept) < len(self.files):
            if self.digests is not None:
                self.digests.update(_digest(one.path) for one in self.files if one.modified_ns < horizon)
            self.forgotten += len(self.files) - len(kept)
            self.horizon_ns = horizon if self.horizon_ns is None else max(horizon, self.horizon_ns)
            self.files, self._by_path = kept, {one.path: one for one in kept}

    def knows(self, path: str) -> bool:
        """Whether a file was read."""
        return path in self._by_path or self._has_forgotten(path)

    def known(self, path: str) -> SeenFile | None:
        """What is remembered of a file."""
        return self._by_path.get(path)

    def has_other(self, seen: SeenFile) -> bool:
        """Whether another state of the file was read. Of one that was forgotten only a newer state is told."""
        known = self._by_path.get(seen.path)
        return known != seen if known is not None else not self._is_old(seen) and self._has_forgotten(seen.path)

    def too_late(self, listed: Iterable[SeenFile]) -> list[SeenFile]:
        """Of the files that are there those which are older than all that may still come, and were not read."""
        return [one for one in listed if self._is_old(one) and not self.knows(one.path)]

    def keep_listed(self, listed: Iterable[SeenFile]) -> None:
        """Drop the digests of files that are not there any more; where none are known, take those of all old files that are there."""
        others = [one for one in listed if one.path not in self._by_path]
        if self.digests is None:
            self.digests = {_digest(one.path) for one in others if self._is_old(one)}
        else:
            self.digests &= {_digest(one.path) for one in others}

    def _is_old(self, seen: SeenFile) -> bool:
        return self.horizon_ns is not None and seen.modified_ns < self.horizon_ns

    def _has_forgotten(self, path: str) -> bool:
        return bool(self.digests) and _digest(path) in (self.digests or ())

    def to_json(self, total: int) -> dict[str, Any]:
        """As JSON holds it, when so many were read."""
        rows = [[one.path, one.size, one.modified_ns] for one in self.files[: total - self.forgotten]]
        packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(errors="surrogatepass"), 6)
        files = base64.b64encode(packed).decode() if rows else ""
        body = {"files": files, "forgotten": self.forgotten, "horizon_ns": self.horizon_ns}
        digests = self.digests
        return body if digests is None else {**body, "digests": base64.b64encode(b"".join(sorted(digests))).decode()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> FileMemory:
        """Read it back; raises KeyError, TypeError or ValueError."""
        memory = cls(forgotten=int(body["forgotten"]), horizon_ns=body["horizon_ns"], digests=_digests_of(body))
        try:
            rows = json.loads(zlib.decompress(base64.b64decode(body["files"], validate=True))) if body["files"] else []
        except zlib.error as error:
            raise ValueError(f"the files that were read: {error}") from error
        for path, size, modified_ns in rows:
            memory.add(SeenFile(path=str(path), size=int(size), modified_ns=int(modified_ns)))
        return memory


def _digest(path: str) -> bytes:
    return hashlib.blake2b(path.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _digests_of(body: Mapping[str, Any]) -> set[bytes] | None:
    """Raises KeyError, TypeError or ValueError."""
    if "digests" not in body:
        return set() if not body["forgotten"] else None
    packed = base64.b64decode(body["digests"], validate=True)
    if len(packed) % _DIGEST_BYTES:
        raise ValueError(f"digests of {len(packed)} bytes")
    return {packed[at : at + _DIGEST_BYTES] for at in range(0, len(packed), _DIGEST_BYTES)}
