"""A lake: many tables in one directory, filled by runs, read by DuckDB."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from gapless.errors import (
    InvalidOption,
    InvalidQuery,
    TableExists,
    nearest,
)
from gapless.lake.catalog.catalog import LEASE_S, Catalog
from gapless.lake.commits import open_log_table
from gapless.lake.cursors import Monotonic
from gapless.lake.describe import LakeDescription, describe_table
from gapless.lake.doctor import LakeFinding, examine
from gapless.lake.drift import DriftPolicy
from gapless.lake.export.exports import table_environment
from gapless.lake.layout.names import check_run_id, check_table_name, ulid, ulid_after
from gapless.lake.layout.partitions import check_partition_names
from gapless.lake.layout.settings import TableSettings, history_path, settings_line
from gapless.lake.limits import LimitedQuery, QueryLimits
from gapless.lake.objects import create_once, table_names
from gapless.lake.pipelines import PipelinePlan, parse_pipelines, pipeline_scheduler
from gapless.lake.place import CONFIG, check_config, check_kind
from gapless.lake.query import LakeQuery, check_fingerprint, require_fingerprint, view_paths, whole_paths, words_of
from gapless.lake.run import RunInProgress, RunReport
from gapless.lake.runs.progress import Watch
from gapless.lake.runs.request import RunRequest, check_request, lease_seconds
from gapless.lake.sync.partial import Tables
from gapless.lake.sync.replica import check_writable, not_replicated, partly_replicated, replica_info
from gapless.lake.sync.report import ReplicaInfo, SyncReport, SyncStatus
from gapless.lake.sync.side import read_head
from gapless.lake.sync.transfer import pull as pull_into
from gapless.lake.sync.transfer import push as push_to
from gapless.lake.sync.transfer import status as compare
from gapless.lake.table import LakeTable, ReadManifests
from gapless.lake.views import select_rows
from gapless.model.instant import NS_PER
from gapless.runtime.environment import Environment
from gapless.runtime.scheduler import Scheduler
from gapless.store.open import probe_put_if_absent
from gapless.tables.shared.handle import Location, open_environment
from gapless.tables.shared.scan import Rows

DEFAULT_NODE = "main"
DEFAULT_LIMITS = QueryLimits()


class Lake:
    """Tables under one root. Made by `gl.lake.init` and `gl.lake.open`."""

    def __init__(
        self,
        env: Environment,
        catalog: Catalog,
        node: str = DEFAULT_NODE,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """`env` reaches the root, with these `storage_options`; use `init` or `open_lake`."""
        self._env, self._catalog, self._storage_options = env, catalog, storage_options
        self._read_manifests = defaultdict[str, ReadManifests](dict)
        self.node = node
        """The name under which this writer's parts of runs lie."""

    def __repr__(self) -> str:
        """Its root."""
        return f"<Lake {self.url}>"

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._env.store.url

    # -- tables ----------------------------------------------------------------------------------------------------------

    def create_table(
        self, name: str, *, kind: str = "runs", key: object = (), drift: object = "evolve", **options: Any
    ) -> LakeTable:
        """Make a table, whose columns come with its first run.

        Args:
            name: 1 to 63 of a–z, 0–9 and _; the folder's and the view's name.
            kind: "runs" for files that manifests name; "timeseries" or "delta" for a table with a log of its own, in which a run is a commit.
            key: Columns of which the newest row of each value is the row (kind "runs").
            drift: What becomes of rows with other columns: "evolve", "freeze", "quarantine", or by kind of change ("add", "widen", "text",
                "nested") one of "allow", "refuse" and "quarantine".
            options: Of tables with a log of their own, as `gl.create` (index, bucket, entity, …) and `gl.delta.create` (partition_by,
                properties) take them.

        Raises TableExists, InvalidOption, StoreError.
        """
        check_writable(self._env)
        given = {"kind": kind, "key": key, "drift": drift, **options}
        settings = TableSettings.parse(check_table_name(name), given, self._env.ids.uuid())
        check_kind(self._env, settings.kind)
        probe_put_if_absent(self._env.store)
        line = settings_line(settings)
        if create_once(self._env, history_path(name), line) != line:
            raise TableExists(
                f"{self.url} has a table {name!r} already",
                why="A create replaces nothing",
                fix=f"Open it: lake.table({name!r})",
                path=name,
            )
        return self._table(name)

    def table(self, name: str) -> LakeTable:
        """A table that is there. Raises TableNotFound, NotReplicated where this is a partial copy without it, InvalidOption, StoreError."""
        table = self._table(check_table_name(name))
        self._check_replicated([name], [name])
        _ = table.history
        return table

    def tables(self) -> list[str]:
        """The names of all tables. Raises StoreError."""
        return table_names(self._env)

    def set_drift(self, name: str, drift: object) -> None:
        """Change the drift policy of a table, for runs to come. Raises TableNotFound, InvalidOption, StoreError."""
        policy = DriftPolicy.parse(drift)
        self.table(name).change_settings(lambda now: replace(now, drift=policy))

    # -- runs ------------------------------------------------------------------------------------------------------------

    def new_run_id(self) -> str:
        """A ULID of now, behind those of all runs that the lake has."""
        drawn = self._env.ids.uuid().replace("-", "")
        made = ulid(self._env.clock.now_ns() // NS_PER["ms"], int(drawn[:8] + drawn[20:], 16))
        return ulid_after(self._catalog.newest_run(), made)

    def run(
        self,
        table: str,
        source: object,
        *,
        cursor: Monotonic | str | None = None,
        pipeline: str | None = None,
        run_id: str | None = None,
        lease_s: float = LEASE_S,
        progress: Watch | None = None,
    ) -> RunReport:
        """Read a source into a table, as one run: all of it counts, or nothing.

        Args:
            table: Its name.
            source: Rows, as `append` takes them; a function that is called with the saved cursor and gives rows or an iterator of
                `gl.lake.Page`; or a source of `gapless.connect`.
            cursor: How the pipeline goes on: `gl.lake.Monotonic(column=…)`; "opaque" or "snapshot", which come with each page; None for rows
                that are given once. A source of `gapless.connect` has its own.
            pipeline: What the cursor belongs to; the table's name where it is not said.
            run_id: A ULID: several nodes may write into one run, and one run of one node is committed once, whatever is retried.
            lease_s: For how many seconds an opaque or snapshot cursor is this run's alone, unless it is renewed, as it is between pages.
            progress: Called with a `gl.lake.RunProgress` after each page that has rows.

        Where the source fails after some pages whose cursor is opaque or of snapshots, these are committed, and PartialFailure is raised with
        the error as its cause; the next run goes on behind them. Otherwise nothing is committed, and the error is raised as it is. Raises
        LeaseRefused while another run has the cursor, SchemaMismatch for drift that the table refuses, the other DataErrors, CommitConflict,
        CommitOutcomeUnknown, TableNotFound, InvalidOption, StoreError.
        """
        check_writable(self._env)
        opened = self.table(table)
        opened.refresh()
        run = self.new_run_id() if run_id is None else check_run_id(run_id)
        request = RunRequest(
            source=source,
            pipeline=pipeline or table,
            cursor=check_request(source, cursor),
            run=run,
            node=self.node,
            lease_s=lease_seconds(lease_s),
            progress=progress,
        )
        for manifest in opened.manifests() if run_id is not None else ():
            if (manifest.run, manifest.node) == (run, self.node):
                return RunReport.of(manifest, already_applied=True)
        report = RunInProgress(
            env=self._env, catalog=self._catalog, table=opened, location=opened.location, request=request
        ).perform()
        opened.write_view()
        return report

    def pipelines(self) -> tuple[PipelinePlan, ...]:
        """The `[[pipeline]]`s of `lake.toml`. Raises InvalidOption, NotSupported, CorruptTable, StoreError."""
        return parse_pipelines(check_config(self._env), f"{self.url}/{CONFIG}")

    def run_pipeline(self, name: str, *, progress: Watch | None = None) -> RunReport:
        """Run a pipeline of `lake.toml` once, into its table, which is made where it is not there. Raises InvalidOption where no pipeline is
        called so, and as `run`.
        """
        plans = {one.name: one for one in self.pipelines()}
        if name not in plans:
            raise InvalidOption(f"{CONFIG} has no pipeline {name!r}", fix=nearest(name, plans), option="pipeline", value=name)
        return self.run_plan(plans[name], progress=progress)

    def run_plan(self, plan: PipelinePlan, *, progress: Watch | None = None) -> RunReport:
        """Run a pipeline that `pipelines` or `gl.lake.parse_plan` gave once, as `run_pipeline`."""
        check_writable(self._env)
        if check_table_name(plan.table) not in self.tables():
            with suppress(TableExists):  # another pipeline has made it just now
                self.create_table(plan.table, **plan.settings)
        with plan.open_source() as source:
            return self.run(plan.table, source, cursor=plan.cursor, pipeline=plan.name, progress=progress)

    def scheduler(self, run: Callable[[PipelinePlan], object] | None = None) -> Scheduler:
        """The pipelines that have a `schedule`, as jobs by their names: `start()` runs them until `stop()`, each in a thread and under the lease of
        its cursor; `run_due()` runs once what is due. One that fails is logged, and is due again at its next time.

        A pipeline is due by when its last run began, and one that never ran at once. `run` is called instead of `run_plan`. Raises InvalidOption
        where no pipeline has a schedule, ReadOnlyReplica, NotSupported, CorruptTable, StoreError.
        """
        check_writable(self._env)
        plans, began = self.pipelines(), self._catalog.last_runs()
        last = {one.name: began[one.table, one.name] for one in plans if (one.table, one.name) in began}
        return pipeline_scheduler(plans, last, run or self.run_plan, self._env.clock)

    # -- reading ---------------------------------------------------------------------------------------------------------

    def query(
        self,
        sql: str,
        parameters: object = None,
        *,
        fingerprints: Mapping[str, str] | None = None,
        snapshots: Mapping[str, str] | None = None,
        partitions: Mapping[str, Sequence[str]] | None = None,
    ) -> Rows:
        """Answer SQL with DuckDB over the tables that it names, each as it is committed now, or as it was in one of its `snapshots`; later runs do
        not show in the answer.

        `fingerprints` are those of tables for whose columns the query was written. `partitions` has for tables the folders of their snapshots
        that are read, such as "ts_day=2026-11-30", without runs that no snapshot has: of a replica with some partitions of a table it must say
        which are meant. Raises SchemaMismatch where a table has other columns now, NotReplicated, InvalidQuery, TableNotFound, StoreError.
        """
        query = LakeQuery(sql=sql, views={}, store=self._env.store, tables=self.tables, parameters=parameters)
        query.check()
        words = words_of(sql)
        asked = {name: check_partition_names(name, one) for name, one in (partitions or {}).items()}
        views = {
            name: found
            for name in sorted(words & set(self.tables()) - self._partly(asked))
            if (found := self._rows_of(name, (snapshots or {}).get(name), asked.get(name))) is not None
        }
        # Behind the views: columns only come, so that these are the ones that were asked for.
        for name, wanted in (fingerprints or {}).items():
            self._check_fingerprint(name, wanted)
        with self._lacking_told(words, asked):
            return replace(query, views=views).rows()

    def limited_query(self, sql: str, *, fingerprints: Mapping[str, str], limits: QueryLimits = DEFAULT_LIMITS) -> LimitedQuery:
        """A query of a caller who is not trusted, over the tables that it names as they are committed now; `run()` gives its first rows.

        Nothing but the files of these tables is read, and nothing is written. `fingerprints` has that of each table that the query names, as
        `describe` says it. Raises SchemaMismatch where a table has other columns now, InvalidOption where a fingerprint lacks, InvalidQuery,
        TableNotFound, NotReplicated, StoreError.
        """
        query = LakeQuery(sql=sql, views={}, store=self._env.store, tables=self.tables)
        query.check()
        words, root = words_of(sql), whole_paths(self._env.store)
        views, files = dict[str, str | Rows](), list[str]()
        for name in sorted(words & set(self.tables()) - (self._partly(()) - fingerprints.keys())):
            table = self._table(name)
            live = table.live()
            history = table.history
            found = (
                select_rows(history, live.files, root=root) if history.settings.kind == "runs" else self._rows_of(name, None)
            )
            if found is not None:
                views[name] = found
                files += [root + one.path for one in live.files] if isinstance(found, str) else []
            require_fingerprint(name, fingerprints)
        for name, wanted in fingerprints.items():
            self._check_fingerprint(name, wanted)
        return LimitedQuery(query=replace(query, views=views), files=files, limits=limits)

    def describe(self, *, runs: int = 3) -> LakeDescription:
        """The tables with their columns, fingerprints, snapshots and newest `runs`. Raises CorruptTable, StoreError."""
        replica, partly = self.replica, self._partly(())
        lacking = () if replica is None else replica.lacking
        told = [describe_table(self._table(name), runs) for name in self.tables() if name not in lacking]
        told = [replace(one, view=None) if one.table in partly else one for one in told]
        return LakeDescription(lake=self.url, replica=replica, tables=tuple(told), lacking=tuple(lacking))

    def doctor(self, *, deep: bool = False, apply: bool = False) -> tuple[LakeFinding, ...]:
        """What is not as the manifests say: missing and altered files, damaged manifests, a catalog that says more, exports that others changed,
        files of dead writers.

        `deep` compares all bytes with their checksums. `apply` removes files that no manifest names and that are a day old, and what the catalog
        says of runs that are gone; nothing that a manifest names. Raises StoreError.
        """
        found = [
            one
            for name in self.tables()
            for one in examine(self._env, self._catalog, self._table(name), deep=deep, apply=apply)
        ]
        return tuple(found)

    def refresh(self) -> None:
        """Let `meta.sqlite` know all that the manifests say: what was copied here, or committed as a writer died. Raises StoreError."""
        for name in self.tables():
            self._table(name).refresh()

    # -- copies ----------------------------------------------------------------------------------------------------------

    @property
    def replica(self) -> ReplicaInfo | None:
        """Which state of which lake this copy has, and how old that is; None for a lake that runs write into. Raises CorruptTable, StoreError."""
        head = read_head(self._env)
        return None if head is None else replica_info(self._env, head)

    def push(
        self,
        url: Location,
        *,
        tables: Sequence[str] | None = None,
        config: str = "refuse",
        expire_s: float | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> SyncReport:
        """Copy what is not there yet to a directory or bucket from which others pull: files, then manifests, then the head that names them.

        What others pushed stays: nothing is written over, and nothing removed but, with `expire_s`, runs and snapshots there whose rows the newest
        snapshot of their table has had there for so many seconds. `tables` are the only ones that are copied; `config` says which `lake.toml`
        stays where both were changed, "ours" or "theirs". Raises SyncConflict for what cannot be brought together, once all else is copied;
        ReadOnlyReplica, NotSupported, InvalidPath, InvalidOption, TableNotFound, CorruptTable, StoreError.
        """
        remote = open_environment(url, storage_options)
        return push_to(self._env, remote, node=self.node, tables=tables, config=config, expire_s=expire_s)

    def pull(
        self,
        url: Location,
        *,
        tables: Tables | None = None,
        snapshots: Mapping[str, str] | None = None,
        config: str = "refuse",
        expire_s: float | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> SyncReport:
        """Copy what another place of this lake has and this one has not. `tables`, by name
        with the partitions that are wanted or None for all, and `snapshots` are brought to a partial replica, and
        `expire_s` is as for `push`, of a replica. Raises as `push`.
        """
        remote = open_environment(url, storage_options)
        report = pull_into(self._env, remote, tables=tables, snapshots=snapshots, config=config, expire_s=expire_s)
        self.refresh()
        return report

    def sync_status(self, url: Location, *, storage_options: Mapping[str, str] | None = None) -> SyncStatus:
        """How this lake and another place of it stand; nothing is copied. Raises InvalidPath, CorruptTable, StoreError."""
        return compare(self._env, open_environment(url, storage_options))

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _check_replicated(self, names: Iterable[str], but_for: Iterable[str] = ()) -> None:
        """Raise NotReplicated where this is a partial copy that lacks one of these tables, or has it in part."""
        head, words = read_head(self._env), set(names)
        if head is not None and (lacking := sorted(words & set(head.lacking))):
            raise not_replicated(self._env, head, lacking[0])
        if head is not None and (partly := sorted(words & self._partly(()) - set(but_for))):
            raise partly_replicated(self._env, head, partly[0])

    def _partly(self, named: Container[str]) -> set[str]:
        """The tables of which this copy has some partitions, but for those of which partitions are `named`."""
        head = read_head(self._env)
        return set() if head is None else {name for name in head.partitions if name not in named}

    def _table(self, name: str) -> LakeTable:
        folder = table_environment(self._env, name, self._storage_options)
        return LakeTable(self._env, self._catalog, name, self.query, folder, self._read_manifests[name])

    def _rows_of(self, name: str, snapshot: str | None, partitions: Sequence[str] | None = None) -> str | Rows | None:
        """The rows of a table as they are committed now: a query, or what its own log gives; None while it has no columns."""
        table = self._table(name)
        # In this order: columns that a manifest names are in the history by then.
        live = table.live(snapshot, partitions)
        history = table.history
        if history.settings.kind == "runs":
            return select_rows(history, live.files, root=view_paths(self._env.store))
        found = open_log_table(table.location, history.settings)
        return None if found is None else found.scan()

    @contextmanager
    def _lacking_told(self, words: Iterable[str], named: Iterable[str]) -> Iterator[None]:
        """Raise NotReplicated where a query fails, and names a table that this partial copy lacks, or has in part."""
        try:
            yield
        except InvalidQuery:
            self._check_replicated(words, named)
            raise

    def _check_fingerprint(self, name: str, wanted: str) -> None:
        check_fingerprint(name, self.table(name).fingerprint, wanted)
