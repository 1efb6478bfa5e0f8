"""A time-series table as the source of its publications."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gapless.errors import InvalidOption, VersionNotFound
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.formats.timeseries.conflict.rules import change_of
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.log.versions import read_range
from gapless.model.operation import SequenceId, operation_key
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.model.segment import Segment
from gapless.model.stats import ColumnStats
from gapless.publish.source import SourceChange, SourceColumns, SourceFile, published_mark
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True)
class TimeSeriesSource:
    """See `gapless.publish.source.Source`, which this implements."""

    env: Environment
    snapshot: Snapshot[TableState]

    @property
    def version(self) -> int:
        """Its number."""
        return self.snapshot.version

    @property
    def settings(self) -> PublishSettings:
        """How it is to be published."""
        return self.snapshot.state.meta.properties.publishing

    @property
    def columns(self) -> SourceColumns:
        """Its columns."""
        return columns_of(self.snapshot.state.meta)

    @property
    def kept(self) -> Collection[int]:
        """Those that have a tag."""
        return self.snapshot.state.tags.values()

    def whole(self) -> SourceChange:
        """All that it has, as one change."""
        state = self.snapshot.state
        return SourceChange(
            version=self.snapshot.version,
            time_ns=self.snapshot.time_ns,
            operation="publish",
            columns=self.columns,
            added=tuple(file_of(segment, state.meta) for segment in state.segments),
            earliest=state.earliest,
        )

    def changes_after(self, published: int, format_: PublishedFormat) -> list[SourceChange] | None:
        """See `gapless.publish.source.Source`."""
        if published >= self.version:
            return []
        try:
            commits = self.env.drive(read_range(TIME_SERIES, published + 1, self.version + 1))
            meta = self.snapshot.state.meta
            if any(entry.meta is not None for _, entry, _ in commits):
                before = self.env.drive(load(TIME_SERIES, published))
                meta = meta if before is None else before.state.meta
        except VersionNotFound:
            return None
        changes = []
        for version, entry, time_ns in commits:
            meta = entry.meta or meta
            if format_ not in meta.properties.publish:
                return None
            changes.append(
                SourceChange(
                    version=version,
                    time_ns=time_ns,
                    operation=entry.operation,
                    columns=columns_of(meta),
                    added=tuple(file_of(segment, meta) for segment in entry.added),
                    removed=entry.removed,
                    changes_rows=change_of(entry) != "compact",
                    earliest=self.snapshot.state.earliest,
                )
            )
        return changes

    def at(self, version: int | None) -> TimeSeriesSource | None:
        """Another version of it."""
        found = self.env.drive(load(TIME_SERIES, version))
        return None if found is None else TimeSeriesSource(self.env, found)

    def remembered(self, format_: str) -> int:
        """What its expiry said last."""
        known = self.snapshot.state.applied.get(operation_key(published_mark(format_, 0)))
        return known.operation.sequence if known and isinstance(known.operation, SequenceId) else 0

    def is_live(self, path: str) -> bool:
        """Whether it has a segment."""
        return path in self.snapshot.state.live

    def was_removed(self, path: str) -> bool:
        """Whether an earlier version had it, which may not have expired yet."""
        return path in self.snapshot.state.removed


def columns_of(meta: TableMeta) -> SourceColumns:
    """The columns that metadata declare."""
    return SourceColumns(schema=meta.schema, ids=meta.ids, holds_more=bool(meta.ids.retired), created_ns=meta.created_ns)


def file_of(segment: Segment, meta: TableMeta) -> SourceFile:
    """A segment as publishers need it; of its index column the bounds are its statistics."""
    index = ColumnStats(min=segment.bounds.first, max=segment.bounds.last, nulls=0)
    return SourceFile(
        path=segment.path,
        rows=segment.rows,
        size=segment.size,
        stats={**segment.stats, meta.ids.stored_name(meta.index.column): index},
        obstacle="" if segment.data is None else "inlined",
        footer_checksum=segment.footer_checksum,
    )


def check_partition(meta: TableMeta) -> None:
    """Raise InvalidOption where the property `iceberg_partition` does not go with the columns."""
    keys, names = (meta.index.column, *meta.index.entity), () if meta.schema is None else meta.schema.names
    is_time = meta.index.type == "timestamp"
    for one in meta.properties.publishing.iceberg_partition:
        why = ""
        if one.column not in keys:
            why = f"It names {one.column!r}, and files have bounds for certain of {', '.join(map(repr, keys))} alone"
        elif one.transform == "identity" and one.column == meta.index.column and is_time:
            why = f"No file has one {one.column!r} alone"
        elif one.transform != "identity" and (one.column != meta.index.column or not is_time):
            why = f"{one.column!r} holds no times"
        elif one.transform != "identity" and f"{one.column}_{one.transform}" in names:
            why = f"There is a column {one.column}_{one.transform}, and the partition would be called so"
        if why:
            raise InvalidOption(
                f"iceberg_partition={meta.properties.iceberg_partition!r} does not go with the columns of the table",
                why=why,
                fix=f'Pass such as iceberg_partition="day({meta.index.column})"; "" for none',
                option="iceberg_partition",
                value=meta.properties.iceberg_partition,
            )
