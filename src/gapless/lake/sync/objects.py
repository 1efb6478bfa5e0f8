"""Objects of one side put into the other: files once, histories that only grow, and nothing in the place of something else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gapless.errors import CorruptTable, ObjectNotFound, StoreError
from gapless.lake.layout.manifest import RunFile, decode
from gapless.lake.layout.settings import history_path
from gapless.lake.layout.snapshots import decode_snapshot
from gapless.lake.objects import create_once
from gapless.lake.sync.plan import Conflict, Refused, different_bytes
from gapless.lake.sync.side import Side
from gapless.runtime.conditional_puts import replaced, tagged


@dataclass(slots=True, kw_only=True)
class Copier:
    """Copies objects of one table, and counts them."""

    table: str
    source: Side
    target: Side
    objects: int = 0
    size: int = 0
    """Bytes."""
    _there: set[str] | None = field(default=None, repr=False)

    def file(self, path: str, told: RunFile) -> None:
        """Copy a file that a manifest names, once its bytes are as that says. Raises Refused, CorruptTable, StoreError."""
        if self._is_there(path):
            # Of a copy that was broken off, or of a manifest that is not here.
            if hashlib.sha256(self.target.env.store.get(path)).hexdigest() != told.sha256:
                raise Refused(different_bytes(self.table, path))
            return
        data = self._read(path)
        if hashlib.sha256(data).hexdigest() != told.sha256:
            raise CorruptTable(
                f"{path} in {self.source.url} has other bytes than its manifest says",
                why="It was altered, or is torn",
                fix="Bring the file back from a backup or a replica: gapless lake doctor --deep lists what is damaged",
                path=path,
            )
        self.put(path, data)

    def manifest(self, path: str, data: bytes) -> None:
        """Put a manifest; a torn one is none. Raises Refused, StoreError."""
        found = create_once(self.target.env, path, data)
        if found != data:
            if _is_whole(found, path):
                raise Refused(different_bytes(self.table, path))
            self.target.env.store.put(path, data, mode="overwrite")
        self._count(data)

    def copy(self, path: str) -> None:
        """Copy an object whatever it holds. Raises Refused, StoreError."""
        if not self._is_there(path):
            self.put(path, self._read(path))

    def put(self, path: str, data: bytes) -> None:
        """Put bytes where there are none, or the same. Raises Refused, StoreError."""
        if create_once(self.target.env, path, data) != data:
            raise Refused(different_bytes(self.table, path))
        self._count(data)

    def history(self, ours: bytes) -> None:
        """Let the target's history go on as the source's does. Raises Refused where it went on otherwise; StoreError."""
        path = history_path(self.table)
        while True:
            known = tagged(self.target.env, path)
            if not is_behind(self.table, None if known is None else known.data, ours):
                return
            if replaced(self.target.env, path, ours, known) is not None:
                self._count(ours)
                return

    def _read(self, path: str) -> bytes:
        try:
            return self.source.env.store.get(path)
        except ObjectNotFound as error:
            raise StoreError(
                f"{path} is gone from {self.source.url}",
                why="It was removed meanwhile, or a copy lacks it: gapless lake doctor says which",
                fix="Run the sync again",
                path=path,
            ) from error

    def _count(self, data: bytes) -> None:
        self.objects += 1
        self.size += len(data)

    def _is_there(self, path: str) -> bool:
        if self._there is None:
            self._there = {one.path for one in self.target.env.store.list(f"tables/{self.table}")}
        return path in self._there


def is_behind(table: str, target: bytes | None, source: bytes) -> bool:
    """Whether a history is to be replaced by the source's, which goes on where it ends. Raises Refused where they went on differently."""
    if target is None:
        return True
    if source.startswith(target):
        return source != target
    if target.startswith(source):
        return False
    first = target.splitlines()[:1] == source.splitlines()[:1]
    raise Refused(
        Conflict(
            kind="schema",
            table=table,
            what=f"the columns or settings of {table} were changed on both sides. Bring them together on one: gapless lake reconcile"
            if first
            else f"{table} was made on both sides, and is two tables. Copy the rows of one into a table of another name",
        )
    )


def _is_whole(data: bytes, path: str) -> bool:
    try:
        if "/data/runs/" in path:
            decode(data, path)
        else:
            decode_snapshot(data, path)
    except CorruptTable:
        return False
    return True
