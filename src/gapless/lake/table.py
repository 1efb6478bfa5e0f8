"""A table of a lake: its columns, the manifests that count, its rows."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from gapless.errors import CorruptTable, LogWarning, NotSupported, ObjectNotFound, StoreError, TableNotFound, nearest
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.commits import committed_version, log_snapshot
from gapless.lake.compaction import ExpiryReport, SnapshotReport, compact, expire
from gapless.lake.export.exports import (
    ExportedSnapshot,
    check_format,
    export_snapshot,
    held_by_exports,
)
from gapless.lake.layout.manifest import MANIFEST, Manifest, decode, run_of
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.settings import (
    TableHistory,
    TableSettings,
    history_path,
    read_history,
    schema_line,
    settings_line,
    summary_path,
)
from gapless.lake.layout.snapshots import LiveRows, Snapshot, decode_snapshot, live_rows
from gapless.lake.objects import append_line, table_names
from gapless.lake.sync.reconcile import ReconcileReport, reconcile
from gapless.lake.sync.replica import check_writable, chosen_partitions
from gapless.lake.sync.side import read_head
from gapless.lake.views import view_file
from gapless.model.protocols import ObjectInfo
from gapless.model.widening import MANTISSA_BITS
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import Location, open_environment
from gapless.tables.shared.scan import Rows
from gapless.tables.shared.sql import quoted

_LOGGER = logging.getLogger("gapless.lake")

Query = Callable[[str], Rows]
Document = TypeVar("Document", Manifest, Snapshot)
ReadManifests = dict[str, tuple[ObjectInfo, Manifest]]
"""Manifests that were read, by path, each with what the store said of it then: one that is put anew is read anew."""
KEEP_S = 86_400.0
"""For how long runs stay that a snapshot has."""


class LakeTable:
    """A table of a lake. Made by `lake.create_table` and `lake.table`; each question is answered from what is there then."""

    def __init__(
        self,
        env: Environment,
        catalog: Catalog,
        name: str,
        query: Query,
        folder: Environment,
        read_manifests: ReadManifests | None = None,
    ) -> None:
        """`env` reaches the lake's root; `query` answers SQL over the lake; `folder` reaches that of the table;
        `read_manifests` has those that were read before.
        """
        self._env, self._catalog, self._name, self._query, self.folder = env, catalog, name, query, folder
        self._read_manifests: ReadManifests = {} if read_manifests is None else read_manifests
        self._snapshots: dict[str, Snapshot] = {}

    def __repr__(self) -> str:
        """Its name and lake."""
        return f"<LakeTable {self._name} of {self._env.store.url}>"

    @property
    def location(self) -> str:
        """That of the table's own log, if it has one."""
        return f"{self.folder.store.url}/table"

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def history(self) -> TableHistory:
        """What it is, and its columns version by version. Raises TableNotFound, CorruptTable, StoreError."""
        try:
            return read_history(self._env.store.get(history_path(self._name)), self._name)
        except ObjectNotFound:
            names = table_names(self._env)
            raise TableNotFound(
                f"{self._env.store.url} has no table {self._name!r}",
                why="Nothing lies at " + history_path(self._name),
                fix=f"{nearest(self._name, names)} lake.create_table makes one",
                path=self._name,
            ) from None

    @property
    def kind(self) -> str:
        """What it is made of: "runs", "timeseries" or "delta"."""
        return self.history.settings.kind

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of which the newest row of each value is the row."""
        return self.history.settings.key

    @property
    def schema(self) -> pa.Schema:
        """The newest columns in their declared types; null where no value has told the type."""
        return self.history.schema.columns

    @property
    def fingerprint(self) -> str:
        """Names the newest columns and types."""
        return self.history.schema.fingerprint

    def manifests(self) -> tuple[Manifest, ...]:
        """The manifests that count, by run and node. One that is torn or altered is as if it were not there, with a LogWarning.

        Raises StoreError.
        """
        return self._counting(heal=False)

    def _counting(self, *, heal: bool, known: Container[tuple[str, str]] = ()) -> tuple[Manifest, ...]:
        """Those that count, without those of `known` runs and nodes."""
        there = [info for info in self._manifest_objects() if run_of(info.path) not in known]
        found = [one for info in there if (one := self._manifest(info)) is not None]
        if any(one.operation for one in found):
            found = self._committed(found, heal=heal)
        return tuple(sorted(found, key=lambda one: (one.run, one.node)))

    def snapshots(self) -> tuple[Snapshot, ...]:
        """Its snapshots, by name and so by time. One whose manifest is torn is as if it were not there, with a LogWarning. Raises StoreError."""
        found = []
        for path in self._snapshot_paths():
            known = self._snapshots.get(path) or self._read(path, decode_snapshot)
            if known is not None:
                self._snapshots[path] = known
                found.append(known)
        return tuple(sorted(found, key=lambda one: one.name))

    def live(self, snapshot: str | None = None, partitions: Sequence[str] | None = None) -> LiveRows:
        """What is read for its rows: the newest snapshot and the runs that it has not, or a `snapshot` alone; of these `partitions` only what
        snapshots have. Raises InvalidOption, NotReplicated where this copy lacks partitions that are asked for, StoreError.
        """
        # Runs first: those that expire meanwhile are in a snapshot that is there for long.
        manifests = self.manifests()
        found = live_rows(manifests, {one.name: one for one in self.snapshots()}, snapshot)
        return chosen_partitions(self._env, self._name, found, partitions)

    def compact(self, *, incremental: bool = False) -> SnapshotReport:
        """Bring the rows of its runs together in a snapshot: all rows, of each key the newest; or with `incremental` those alone of runs that
        no snapshot has.

        Within the table's partitions rows are in the order of its key. Runs stay until `expire`. Raises NotSupported for a table with a log of
        its own, CommitConflict, StoreError.
        """
        check_writable(self._env)
        self._require_runs("compaction")
        self.refresh()
        live, history = self.live(), self.history
        report = compact(
            self._env, self._catalog, history, live, lambda sql: self._query(sql).to_batches(), incremental=incremental
        )
        self.write_view()
        return report

    def expire(self, keep_s: float = KEEP_S) -> ExpiryReport:
        """Remove runs that the newest snapshot has, and older snapshots, where that is older than `keep_s` seconds (a day): whoever began to read
        before is done by then. Cursors and lineage of runs stay; so do rows in quarantine, and snapshots that are exported, or were until
        `keep_s` seconds ago. Raises NotSupported, StoreError.
        """
        check_writable(self._env)
        self._require_runs("expiry")
        self.refresh()
        live, folder = self.live(), self.folder
        snapshots = {one.name: one for one in self.snapshots()}
        return expire(
            self._env,
            self._catalog,
            live,
            self.manifests(),
            snapshots,
            keep_s,
            lambda: held_by_exports(folder, snapshots, keep_s),
        )

    def export(self, as_: str, *, snapshot: str | None = None, mend: bool = False) -> ExportedSnapshot:
        """Describe a snapshot, by default the newest, as a Delta or Iceberg table, without a copy of a file.

        Args:
            as_: "delta", whose log is `_delta_log` in the table's folder; or "iceberg", whose metadata are in `_iceberg` there.
            snapshot: Its name; not one before that which is exported now.
            mend: Describe it anew where another writer wrote into the log, or it cannot be read.

        Another export is another version there; one of the same snapshot changes nothing. Runs that the snapshot has not are not exported, and
        expiry keeps what is. Raises NotSupported where the table was never compacted, has a key and the snapshot is incremental, has a log of
        its own, or a library lacks; UnsupportedType and SchemaMismatch for columns that the format cannot have; InvalidOption where there is no
        such snapshot; ForeignCommit where another writer wrote into the log; CorruptTable where files are gone; ReadOnlyReplica,
        CommitOutcomeUnknown, StoreError.
        """
        format_ = check_format(as_)
        check_writable(self._env)
        self._require_runs("export")

        def look() -> tuple[LiveRows, Mapping[str, Snapshot]]:
            self._snapshots.clear()  # as they are, not as they were read
            snapshots = {one.name: one for one in self.snapshots()}
            return live_rows((), snapshots, snapshot), snapshots

        return export_snapshot(self.folder, self._catalog, self.history, look, format_, mend=mend)

    def _require_runs(self, what: str) -> None:
        kind = self.kind
        if kind != "runs":
            raise NotSupported(
                f"{self._name!r} is a table of kind {kind!r}, which a lake does not look after",
                why="It has a log of its own",
                fix=f"Open the table itself, at {self.location}, and use its compact, expire, vacuum and publish",
                feature=f"{what} of a lake table with a log of its own",
            )

    def reconcile(self, url: Location, *, storage_options: Mapping[str, str] | None = None) -> ReconcileReport:
        """Bring columns that were changed here and at `url`, another place of the lake, together here: theirs as they are, ours behind them. A push
        brings it over. Raises NotSupported where no column holds both, ReadOnlyReplica, InvalidPath, TableNotFound, CorruptTable, StoreError.
        """
        _ = self.history
        report = reconcile(self._env, self._catalog, open_environment(url, storage_options), self._name)
        if report.changed:
            self._tell(self.history)
            self.refresh()
            self.write_view()
        return report

    def cursor(self, pipeline: str | None = None) -> Any:
        """How far a pipeline (by default that of the table's name) has come; None before its first run."""
        self.refresh()
        found = self._catalog.cursor(self._name, pipeline or self._name)
        return None if found is None else found.after

    def lineage(self, path: str | None = None) -> list[dict[str, Any]]:
        """Of each file of a run (or of the one at `path`, below the lake's root): its run, node, source, pipeline, cursor range, schema version.
        Of a snapshot's file or folder: the same of each run that it has the rows of. Raises ObjectNotFound, StoreError.
        """
        self.refresh()
        told = self._catalog.rows('SELECT * FROM lineage WHERE "table" = ? ORDER BY path', (self._name,))
        found = [one for one in told if path in (None, one["path"])] or self._snapshot_lineage(path)
        if path is not None and not found:
            raise ObjectNotFound(
                f"no manifest of {self._name!r} names {path!r}",
                why="It is no file of a run, or the run is not committed",
                fix=nearest(path, [one["path"] for one in told]),
                path=path,
            )
        return found

    def _snapshot_lineage(self, path: str | None) -> list[dict[str, Any]]:
        return self._catalog.rows(
            'SELECT r.* FROM snapshot_runs s JOIN runs r USING ("table", run, node) WHERE s."table" = ? AND s.snapshot = ? ORDER BY run, node',
            (self._name, next((one.name for one in self.snapshots() if f"{path}/".startswith(f"{one.folder}/")), None)),
        )

    def rows(self) -> Rows:
        """All rows, of each key the newest; read anew each time."""
        return self._query(f'SELECT * FROM "{self._name}"')  # noqa: S608  # a checked name

    def to_arrow(self) -> pa.Table:
        """All rows as a `pyarrow.Table`."""
        return self.rows().to_arrow()

    def count(self) -> int:
        """How many rows there are."""
        return int(self._query(f'SELECT count(*) AS n FROM "{self._name}"').to_arrow().column("n")[0].as_py())  # noqa: S608

    # -- for the lake ----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Let the catalog know what it lacks, and mend what a writer left that died. Raises StoreError."""
        known, compacted = self._catalog.known_runs(self._name), self._catalog.known_snapshots(self._name)
        new = list(self._counting(heal=True, known=known))
        have, history = self._catalog.known_schemas(self._name), self.history
        schemas = [(self._name, one) for one in history.all_schemas if one.version not in have]
        new = [history.renumbered(one) for one in new]
        snapshots = [one for one in self.snapshots() if one.name not in compacted]
        if new or schemas or snapshots:
            self._catalog.record(new, schemas, snapshots)

    def evolve(self, decide: Callable[[LakeSchema], LakeSchema]) -> TableHistory:
        """Append the version of the columns that is decided on the newest, unless that is it; gives the history then. Raises StoreError."""

        def line(data: bytes) -> bytes | None:
            now = read_history(data, self._name).schema
            wanted = decide(now)
            return None if wanted == now else schema_line(wanted)

        found = read_history(append_line(self._env.store, history_path(self._name), line), self._name)
        self._tell(found)
        return found

    def change_settings(self, change: Callable[[TableSettings], TableSettings]) -> TableHistory:
        """Append other settings. Raises ReadOnlyReplica, StoreError."""
        check_writable(self._env)
        found = read_history(
            append_line(
                self._env.store,
                history_path(self._name),
                lambda data: settings_line(change(read_history(data, self._name).settings)),
            ),
            self._name,
        )
        self._tell(found)
        return found

    def write_view(self) -> None:
        """Write `views/<table>.sql` anew, for a table of kind "runs". It is a copy of what the manifests say, and may lag behind."""
        # In this order: columns that a manifest names are in the history by then.
        live = self.live()
        history = self.history
        if history.settings.kind == "runs" and (text := view_file(history, live.files)) is not None:
            with contextlib.suppress(StoreError):
                self._env.store.put(f"views/{self._name}.sql", text.encode(), mode="overwrite", durable=False)

    def _tell(self, history: TableHistory) -> None:
        """Write `schema.json`, a copy."""
        with contextlib.suppress(StoreError):
            self._env.store.put(summary_path(self._name), history.summary, mode="overwrite", durable=False)

    def holds_exactly(self, column: str, type_: pa.DataType) -> bool:
        """Whether every value that is stored of a column of whole numbers is exact as a double."""
        if type_ != pa.float64():
            return False
        largest = self._query(f'SELECT max(abs({quoted(column)}::HUGEINT)) AS n FROM "{self._name}"').to_arrow().column("n")[0]  # noqa: S608
        value = largest.as_py()
        return value is None or int(value) <= 2 ** MANTISSA_BITS[pa.float64()]

    def _committed(self, manifests: list[Manifest], *, heal: bool) -> list[Manifest]:
        """Those whose commit the table's own log has."""
        log = log_snapshot(self.location, self.history.settings)
        return [
            one for one in manifests if one.operation is None or committed_version(self._env, one, log, heal=heal) is not None
        ]

    def _manifest_objects(self) -> Iterator[ObjectInfo]:
        named = self._named()
        for info in self._env.store.list(f"tables/{self._name}/data/runs"):
            if info.path.endswith(f"/{MANIFEST}") and (named is None or info.path in named):
                yield info

    def _named(self) -> Mapping[str, str] | None:
        """The manifests of a copy, of which one that was not finished may have brought more; None in a lake that runs write into."""
        head = read_head(self._env)
        if head is None:
            return None
        return head.tables[self._name].manifests if self._name in head.tables else {}

    def _snapshot_paths(self) -> Iterator[str]:
        """Manifests of snapshots, which come behind all runs."""
        folder, named = f"tables/{self._name}/data", self._named()
        for info in self._env.store.list(folder, after=f"{folder}/snapshot="):
            if named is not None and info.path not in named:
                continue
            if info.path.endswith(f"/{MANIFEST}") and info.path.count("/") == folder.count("/") + 2:
                yield info.path

    def _manifest(self, info: ObjectInfo) -> Manifest | None:
        then, known = self._read_manifests.get(info.path, (None, None))
        found = known if then == info else self._read(info.path, decode)
        if found is not None:
            self._read_manifests[info.path] = info, found
        return found

    def _read(self, path: str, decoder: Callable[[bytes, str], Document]) -> Document | None:
        try:
            return decoder(self._env.store.get(path), path)
        except ObjectNotFound:
            return None
        except CorruptTable as error:
            message = f"{error.what}: {error.why}; it is as if it were not there"
            _LOGGER.warning("%s: %s", self._env.store.url, message)
            warnings.warn(message, LogWarning, stacklevel=4)
            return None
