"""What one call on a time-series table works with, and its committer by the full type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.formats.timeseries.actions import Action, Commit, TableMeta, TableState
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.model.segment import Segment
from gapless.publish.publishers import check_publishable
from gapless.publish.sources.timeseries import check_partition, columns_of
from gapless.runtime.committer import ENGINE, Committer, Proposal
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import TableContext
from gapless.tables.timeseries.read.coverage import CoverageCache

SeriesCommitter = Committer[Commit, TableState]
"""Commits to one time-series table."""
SeriesProposal = Proposal[Commit]
"""A change of one version of a time-series table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesContext(TableContext[Commit, TableState]):
    """The table of one call, with the decoded coverage of its segments."""

    cache: CoverageCache

    @property
    def grid(self) -> Grid:
        """The table's buckets."""
        return self.cache.grid

    def remember(self, segments: Sequence[Segment], coverage: Sequence[CoverageMap]) -> None:
        """Keep what segments cover that were committed."""
        for segment, covered in zip(segments, coverage, strict=True):
            self.cache.remember(segment, covered)


def with_schema(meta: TableMeta, schema: pa.Schema | None) -> TableMeta:
    """The metadata with these declared columns. Raises what `check_publishable` does where the table is published and they cannot be."""
    changed = with_features(replace(meta, schema=schema))
    check_publishable(meta.properties.publish, columns_of(changed))
    check_partition(changed)
    return changed


def new_commit(env: Environment, operation: str, parameters: Mapping[str, object], actions: Iterable[Action]) -> Commit:
    """The log entry of a change of ours; `operation` is what the log calls it."""
    return Commit(id=env.ids.uuid(), operation=operation, engine=ENGINE, parameters=parameters, actions=tuple(actions))
