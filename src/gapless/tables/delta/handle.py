"""What every handle of a Delta table has: where it is, which version it sees, and how it commits."""

from __future__ import annotations

import pyarrow as pa

from gapless.formats.delta.actions import Commit, Protocol, TableState
from gapless.formats.delta.features import check_readable, check_writable
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.log.format import Snapshot
from gapless.publish.sources.delta import DeltaSource
from gapless.runtime.committer import Committer
from gapless.tables.shared.handle import TableContext
from gapless.tables.shared.publication.publishing import PublishedHandle

DeltaContext = TableContext[Commit, TableState]
"""What one call on a Delta table works with."""


class DeltaHandle(PublishedHandle[TableState]):
    """A Delta table at one version, of which 0 is the first."""

    @property
    def schema(self) -> pa.Schema:
        """The columns by their logical names, in Arrow types; see docs for which Delta type is which."""
        return to_arrow(self._state.metadata.schema)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns, in order."""
        return self._state.metadata.partition_by

    @property
    def properties(self) -> dict[str, str]:
        """The table's properties, by name."""
        return dict(sorted(self._state.configuration.items()))

    @property
    def protocol(self) -> Protocol:
        """Which readers and writers the table is for."""
        return self._state.protocol

    @property
    def _table_id(self) -> object:
        return self._state.metadata.id

    @property
    def _state(self) -> TableState:
        return self._snapshot.state

    def _move_to(self, snapshot: Snapshot[TableState]) -> None:
        """See a later version from now on; raises UnsupportedTable for one that this release cannot read, and stays where it is."""
        check_readable(snapshot.state.protocol, self.url, snapshot.state.metadata)
        super()._move_to(snapshot)

    @property
    def _committer(self) -> Committer[Commit, TableState]:
        """Commits the changes of a call that begins now, and moves this handle to them."""
        return Committer(
            table_format=DELTA,
            env=self._env,
            moved=self._move_to,
            landed=self._follow,
            began=self._env.clock.monotonic(),
            condition=self._condition,
        )

    def _source(self, snapshot: Snapshot[TableState]) -> DeltaSource:
        return DeltaSource(self._env, snapshot)

    def _newest_version(self) -> Snapshot[TableState]:
        return self._committer.refresh(self._snapshot)

    @property
    def _context(self) -> DeltaContext:
        """What a call that begins now works with."""
        return TableContext(snapshot=self._snapshot, committer=self._committer)

    def _check_writable(self) -> None:
        """Raise UnsupportedTable where this release may not write the table."""
        check_writable(self._state.protocol, self.url, self._state.metadata)

    def __repr__(self) -> str:
        """Place, version and size."""
        files = len(self._state.files)
        return f"{type(self).__name__}({self.url!r}, version={self.version}, files={files})"


def context_of(handle: DeltaHandle, *, to_write: bool = False) -> DeltaContext:
    """What jobs outside of a handle work with, for a call that begins now.

    With `to_write` raises UnsupportedTable where the handle may not write.
    """
    if to_write:
        handle._check_writable()  # noqa: SLF001  # of the class above
    return handle._context  # noqa: SLF001
