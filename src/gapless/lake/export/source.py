"""A snapshot of a lake table as the source of a description: its files, their statistics, its columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.errors import CorruptTable
from gapless.files.pages.column_stats import GrowingStats
from gapless.files.pages.footer import Footer
from gapless.files.read.source import segment_footer
from gapless.lake.layout.partitions import Partition
from gapless.lake.layout.settings import TableHistory, part_of
from gapless.lake.layout.snapshots import LiveRows, Snapshot, snapshot_time_ns
from gapless.model.instant import NS_PER
from gapless.model.protocols import Store
from gapless.model.publishing import PartitionField, PublishedFormat, PublishSettings
from gapless.model.segment import StoredFile
from gapless.model.stats import ColumnStats
from gapless.publish.source import OneVersion, SourceChange, SourceColumns, SourceFile
from gapless.runtime.concurrency import WIDTH, Call, in_order
from gapless.runtime.environment import Environment

_FOOTER_BYTES = 64 << 10
"""What a footer takes, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSource(OneVersion):
    """See `gapless.publish.source.Source`, which this implements. A snapshot is a version of its own, and comes whole."""

    version: int
    settings: PublishSettings
    columns: SourceColumns
    files: tuple[SourceFile, ...]
    time_ns: int
    """When it is exported."""
    kept: Collection[int]
    """Of the snapshots that are there."""

    def whole(self) -> SourceChange:
        """All of it."""
        return SourceChange(
            version=self.version,
            time_ns=self.time_ns,
            operation="overwrite",
            columns=self.columns,
            added=self.files,
            earliest=self.version,
            looked_at=False,
        )

    def changes_after(self, published: int, format_: PublishedFormat) -> list[SourceChange] | None:  # noqa: ARG002 - as the protocol has it
        """None: which files come and go is seen by the description that is there."""
        return [] if published >= self.version else None


def version_of(snapshot: str) -> int:
    """The version that a snapshot is to a description, by its name: the microsecond, since 1970, in which it was begun.

    >>> version_of("19700101T000001.000002Z")
    1000002
    """
    return snapshot_time_ns(snapshot) // NS_PER["us"]


def source_of(
    env: Environment, history: TableHistory, live: LiveRows, there: Iterable[Snapshot], format_: PublishedFormat
) -> SnapshotSource:
    """The newest snapshot of `live`, with those that it adds to, as a source; `env` reaches the table's folder, `there` are all its snapshots.

    Footers are read. Raises CorruptTable where a file is missing or is not as its manifest says, StoreError.
    """
    newest = live.snapshots[-1]
    schema = history.version(history.meant(part_of(newest.path), newest.schema_version)).columns
    # A column of which no value has told the type is in no file.
    schema = pa.schema([one for one in schema if not pa.types.is_null(one.type)])
    return SnapshotSource(
        version=version_of(newest.name),
        settings=PublishSettings(
            formats=(format_,), iceberg_partition=tuple(_partitions(history.settings.partition_by, schema))
        ),
        columns=SourceColumns(schema=schema, holds_more=True, created_ns=snapshot_time_ns(newest.name)),
        files=tuple(_files(env.store, live, schema)),
        time_ns=env.clock.now_ns(),
        kept=frozenset(version_of(one.name) for one in there),
    )


def _partitions(partitions: Iterable[Partition], schema: pa.Schema) -> Iterator[PartitionField]:
    """Those in which the bounds of a file prove that it lies: of times, whole numbers and texts."""
    for one in partitions:
        type_ = schema.field(one.column).type if one.column in schema.names else pa.null()
        if one.transform is None and (pa.types.is_signed_integer(type_) or pa.types.is_string(type_)):
            yield PartitionField("identity", one.column)
        elif one.transform and pa.types.is_timestamp(type_) and f"{one.column}_{one.transform}" not in schema.names:
            yield PartitionField(one.transform, one.column)  # type: ignore[arg-type]  # a lake's transforms are among Iceberg's


def _files(store: Store, live: LiveRows, schema: pa.Schema) -> Iterator[SourceFile]:
    told = [(f"{one.folder}/{file.path}".split("/", 2)[2], file) for one in live.snapshots for file in one.files]
    calls = (Call(partial(_look, store, path, file.size), _FOOTER_BYTES) for path, file in told)
    footers = in_order(calls, width=WIDTH if store.capabilities.concurrent else 1)
    for (path, file), footer in zip(told, footers, strict=True):
        if footer.metadata.num_rows != file.rows:
            raise _altered(path, f"It has {footer.metadata.num_rows} rows, and its manifest says {file.rows}")
        yield SourceFile(path=path, rows=file.rows, size=file.size, stats=dict(_stats(footer, schema)))


def _look(store: Store, path: str, size: int) -> Footer:
    found = segment_footer(store, StoredFile(path=path))
    if (there := store.head(path).size) != size:
        raise _altered(path, f"It has {there} bytes, and its manifest says {size}")
    return found


def _altered(path: str, why: str) -> CorruptTable:
    return CorruptTable(
        f"{path} is not the file of the snapshot",
        why=why,
        fix="Bring it back from a replica or a backup; gapless lake doctor --deep looks at all of them",
        path=path,
    )


def _stats(footer: Footer, schema: pa.Schema) -> Iterator[tuple[str, ColumnStats]]:
    """Of each flat column that the file holds in the type it is declared in, what its row groups say together."""
    of: list[Any] = footer.groups.each(footer.schema)
    for name in schema.names:
        known = [each(name) for each in of] if name in footer.names else []
        if not known or any(one is None or one.nulls is None for one in known):
            continue
        together = GrowingStats()
        for one, rows in zip(known, footer.groups.rows, strict=True):
            together.add(one, rows)
        yield name, together.stats
