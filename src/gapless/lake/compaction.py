"""Compaction of a lake table's runs into a snapshot, and the removal of what it took the place of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless._version import __version__
from gapless.errors import CommitConflict
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.rows import forget_snapshot, record_snapshot
from gapless.lake.commits import check_columns
from gapless.lake.export.exports import Held
from gapless.lake.fitting import file_schema
from gapless.lake.layout.manifest import Manifest, RunFile
from gapless.lake.layout.partitions import partition_sql
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.settings import TableHistory
from gapless.lake.layout.snapshots import LiveRows, Snapshot, snapshot_folder, snapshot_name, snapshot_time_ns
from gapless.lake.objects import create_once
from gapless.lake.query import view_paths
from gapless.lake.staging import StagedRun
from gapless.lake.views import ORDER, ROW, select_rows
from gapless.model.convert import convert
from gapless.runtime.environment import Environment
from gapless.tables.shared.sql import quoted

_LOGGER = logging.getLogger("gapless.lake")

_PARTITION = "_gapless_partition"
Read = Callable[[str], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """What one compaction did."""

    table: str
    snapshot: str | None
    """Its name; None where there was nothing to compact."""
    complete: bool
    runs: int
    """Runs, by node, whose rows it brought together."""
    rows: int
    files: int


def compact(
    env: Environment, catalog: Catalog, history: TableHistory, live: LiveRows, read: Read, *, incremental: bool
) -> SnapshotReport:
    """Write the rows of `live` as a snapshot: all of them, or with `incremental` those of the runs that no snapshot has.

    Readers go on with the runs until the snapshot's manifest is there, which is written last; the runs stay until `expire`.
    """
    name = history.settings.name
    base = live.snapshots[-1] if incremental and live.snapshots else None
    source = replace(live, snapshots=()) if base is not None else live
    select = select_rows(history, source.files, whole=True, root=view_paths(env.store))
    whole = base is None and len(live.snapshots) > 1  # they can become one, whether or not runs came since
    if select is None or not (live.manifests or whole):
        return SnapshotReport(table=name, snapshot=None, complete=base is None, runs=0, rows=0, files=0)
    newest = live.snapshots[-1].name if live.snapshots else None
    made = snapshot_name(env.clock.now_ns(), newest)
    writer = _Writer(env=env, folder=snapshot_folder(name, made), schema=history.schema, keyed=bool(history.settings.key))
    for batch in read(_ordered(select, history)):
        writer.add(batch)
    files = writer.close()
    before = live.snapshots if base is None else ()
    runs = [run for one in before for run in one.runs]
    snapshot = Snapshot(
        table=name,
        name=made,
        base=None if base is None else base.name,
        runs=tuple(runs + [replace(one, files=()) for one in live.manifests]),
        schema_version=history.schema.version,
        files=files,
        rows=sum(one.rows for one in files),
        written_by=f"gapless {__version__}",
    )
    with catalog.transaction() as connection:
        check_columns(env, name, {history.schema.version: history.schema.fingerprint})
        data = snapshot.encode()
        if create_once(env, snapshot.path, data) != data:
            raise CommitConflict(
                f"another compaction of {name!r} made the snapshot {made}",
                why="Both were begun in the same microsecond",
                fix="Run it again",
                version=0,
                reason="another snapshot",
            )
        record_snapshot(connection, snapshot)
    _LOGGER.info("%s: %s: %d runs are in snapshot %s", env.store.url, name, len(live.manifests), made)
    return SnapshotReport(
        table=name, snapshot=made, complete=base is None, runs=len(live.manifests), rows=snapshot.rows, files=len(files)
    )


def _ordered(select: str, history: TableHistory) -> str:
    """The rows with the text of their partition, partition by partition."""
    partition = partition_sql(history.settings.partition_by)
    order = ", ".join((_PARTITION, *map(quoted, history.settings.key)))
    return f"SELECT *, {partition} AS {_PARTITION} FROM (\n{select}\n) ORDER BY {order}"  # noqa: S608  # ours


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Files of a snapshot, a folder a partition."""

    env: Environment
    folder: str
    schema: LakeSchema
    keyed: bool
    files: tuple[RunFile, ...] = ()
    open: StagedRun | None = None
    partition: str = ""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows in the order of their partitions."""
        texts = batch.column(_PARTITION).to_pylist()
        start = 0
        for end in range(1, len(texts) + 1):
            if end == len(texts) or texts[end] != texts[start]:
                self._add(texts[start], batch.slice(start, end - start))
                start = end

    def _add(self, partition: str, rows: pa.RecordBatch) -> None:
        if self.open is None or partition != self.partition:
            self.close()
            self.partition = partition
            self.open = StagedRun(self.env, f"{self.folder}/{partition}".rstrip("/"))
        self.open.add_stored(pa.Table.from_batches([self._stored(rows)]), self.schema)

    def _stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """As files hold them: DuckDB has fewer types."""
        target = file_schema(self.schema)
        if self.keyed:
            target = target.append(pa.field(ORDER, pa.string())).append(pa.field(ROW, pa.int64()))
        return pa.RecordBatch.from_arrays([convert(rows.column(one.name), one.type) for one in target], schema=target)

    def close(self) -> tuple[RunFile, ...]:
        """Finish the open file; all that are there."""
        if self.open is not None:
            self.open.flush()
            lead = f"{self.partition}/" if self.partition else ""
            self.files += tuple(replace(one, path=lead + one.path) for one in self.open.files)
            self.open = None
        return self.files


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryReport:
    """What one expiry removed."""

    runs: int
    snapshots: int
    files: int
    kept: tuple[str, ...] = ()
    """Older snapshots that stay since they are exported."""
    waits_for: tuple[str, ...] = ()
    """The formats that these are exported as; one whose description cannot be read keeps all snapshots."""


def expire(
    env: Environment,
    catalog: Catalog,
    live: LiveRows,
    there: tuple[Manifest, ...],
    snapshots: dict[str, Snapshot],
    keep_s: float,
    held: Callable[[], Held],
) -> ExpiryReport:
    """Remove runs that the newest snapshot has, and snapshots that it took the place of, once it is older than `keep_s`, but for those that are
    `held`.

    A manifest goes before its files: what is left by a writer that dies in between belongs to nobody.
    """
    nothing = ExpiryReport(runs=0, snapshots=0, files=0)
    before_ns = env.clock.now_ns() - int(keep_s * 1e9)
    if not live.snapshots or snapshot_time_ns(live.snapshots[-1].name) > before_ns:
        return nothing
    runs, files = 0, 0
    covered = {(run.run, run.node) for one in live.snapshots for run in one.runs}
    for manifest in there:
        if (manifest.run, manifest.node) in covered:
            env.store.delete(manifest.path)
            files += remove_files(env, manifest.folder, manifest.files)
            catalog.forget_files(manifest.table, manifest.run, manifest.node)
            runs += 1
    read = {one.name for one in live.snapshots}
    old = [one for one in snapshots.values() if one.name not in read and snapshot_time_ns(one.name) <= before_ns]
    if not old:
        return replace(nothing, runs=runs, files=files)
    # An export holds the catalog too: it finds a snapshot that is there, or its manifest is gone.
    with catalog.transaction() as connection:
        found = held()
        gone = [one for one in old if one.name not in found.snapshots]
        for one in gone:
            env.store.delete(one.path)
            forget_snapshot(connection, one.table, one.name)
    files += sum(remove_files(env, one.folder, one.files) for one in gone)
    kept = tuple(sorted(one.name for one in old if one.name in found.snapshots))
    return ExpiryReport(runs=runs, snapshots=len(gone), files=files, kept=kept, waits_for=found.waits_for if kept else ())


def remove_files(env: Environment, folder: str, files: tuple[RunFile, ...]) -> int:
    """Remove files that a manifest named which is gone; how many these are. Raises StoreError."""
    for file in files:
        env.store.delete(f"{folder}/{file.path}")
    return len(files)
