"""What every handle of a time-series table has: its place, one version of what lies there, and how it commits."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid, index_grid
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.model.index import EntityType, Identity, IndexSpec, format_bucket
from gapless.model.properties import Properties
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.publish.sources.timeseries import TimeSeriesSource
from gapless.runtime.committer import Committer
from gapless.runtime.concurrency import ForkSafeLock
from gapless.runtime.environment import Environment
from gapless.tables.shared.publication.publishing import PublishedHandle
from gapless.tables.timeseries.context import SeriesCommitter, SeriesContext
from gapless.tables.timeseries.read.coverage import CoverageCache, IdentityFilter
from gapless.tables.timeseries.write.append import check_writable


class Handle(PublishedHandle[TableState]):
    """One version of a time-series table, of which 1 is the empty one, and the way to its place."""

    def __init__(self, env: Environment, name: str, snapshot: Snapshot[TableState], cache: CoverageCache | None = None) -> None:
        """`cache` is that of another handle of the same table, whose decoded coverage is then shared."""
        super().__init__(env, name, snapshot)
        self._cache = cache or CoverageCache(env.store, self._grid)
        self._upgrade = False
        self._compacting = ForkSafeLock()

    @property
    def schema(self) -> pa.Schema | None:
        """Declared column types; None before the first append of a table made without a schema."""
        return self._snapshot.state.meta.schema

    @property
    def index(self) -> IndexSpec:
        """The index column with its type, bucket, entity columns and time zone."""
        return self._snapshot.state.meta.index

    @property
    def entity(self) -> tuple[str, ...]:
        """The entity columns, in order."""
        return self.index.entity

    @property
    def properties(self) -> Properties:
        """The table's properties."""
        return self._snapshot.state.meta.properties

    def segments(self) -> tuple[Segment, ...]:
        """The live segments, in the order they were added."""
        return self._snapshot.state.segments

    def identities(self) -> list[Identity]:
        """The distinct identities that hold rows, each a tuple of entity values, in order; `[()]` for a table without entity columns."""
        return self._cache.identities(self.segments(), self._entity_types)

    @property
    def tags(self) -> dict[str, int]:
        """Named versions, which expiry and vacuum keep: each name with its version, by name."""
        return dict(sorted(self._snapshot.state.tags.items()))

    @property
    def _table_id(self) -> object:
        return self._snapshot.state.meta.created_ns

    def _carried(self) -> dict[str, object]:
        return super()._carried() | {"_upgrade": self._upgrade}

    @property
    def _committer(self) -> SeriesCommitter:
        """Commits the changes of a call that begins now, and moves this handle to them."""
        return Committer(
            table_format=TIME_SERIES,
            env=self._env,
            moved=self._move_to,
            landed=self._follow,
            began=self._env.clock.monotonic(),
            condition=self._condition,
        )

    @property
    def _context(self) -> SeriesContext:
        """What a call that begins now works with."""
        return SeriesContext(snapshot=self._snapshot, committer=self._committer, cache=self._cache)

    def _check_writable(self) -> None:
        """Raise UpgradeNeeded or UnsupportedTable where this handle may not write."""
        check_writable(self._snapshot.state, self.url, upgrade=self._upgrade)

    def _source(self, snapshot: Snapshot[TableState]) -> TimeSeriesSource:
        return TimeSeriesSource(self._env, snapshot)

    def _newest_version(self) -> Snapshot[TableState]:
        return self._committer.refresh(self._snapshot)

    def _covered(self, segments: Iterable[Segment], wanted: IdentityFilter | None = None) -> CoverageMap:
        return self._cache.union(segments, self._entity_types, wanted)

    @property
    def _entity_types(self) -> tuple[EntityType, ...]:
        return () if self.schema is None else entity_types(self.schema, self.index)

    @property
    def _grid(self) -> Grid:
        return index_grid(self.index)

    def __repr__(self) -> str:
        """Place, version, index and size."""
        rows = sum(segment.rows for segment in self.segments())
        entity = f", entity={list(self.entity)}" if self.entity else ""
        bucket = format_bucket(self.index.bucket)
        kind = type(self).__name__
        return (
            f"{kind}({self.url!r}, version={self.version}, index={self.index.column!r}, bucket={bucket!r}{entity}, rows={rows})"
        )


def context_of(handle: Handle, *, to_write: bool = False) -> SeriesContext:
    """What jobs outside of a handle work with, for a call that begins now.

    With `to_write` raises UpgradeNeeded or UnsupportedTable where the handle may not write.
    """
    if to_write:
        handle._check_writable()  # noqa: SLF001  # of the class above
    return handle._context  # noqa: SLF001
