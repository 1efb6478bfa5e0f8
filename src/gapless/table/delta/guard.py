"""Files that are gone because the version that is read is old."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gapless.dialects.delta.actions import AddFile, TableState
from gapless.dialects.delta.dialect import DELTA
from gapless.errors import CorruptTable
from gapless.log.dialect import Snapshot
from gapless.log.snapshot import refresh
from gapless.runtime.driver import Rim
from gapless.table.delta.travel import require_stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Stands around every read of a version."""

    rim: Rim
    snapshot: Snapshot[TableState]
    newest: Snapshot[TableState] | None = None
    """The newest version, where this one is known to be an older one."""

    @contextmanager
    def reading(self, files: Sequence[AddFile]) -> Iterator[None]:
        """While these files are read: raises VersionNotFound where one is gone since a vacuum took it; of a version that is known to be old
        before any is read, else instead of the CorruptTable that it looks like.
        """
        self._require(self.newest, files)
        try:
            yield
        except CorruptTable:
            self._require(self.rim.drive(refresh(DELTA, self.snapshot)), files)
            raise

    def _require(self, newest: Snapshot[TableState] | None, files: Sequence[AddFile]) -> None:
        if newest is not None and newest.version > self.snapshot.version:
            require_stored(self.rim, self.snapshot.version, newest, files)
