"""One run: pages of a source into a table, up to the commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapless._version import __version__
from gapless.errors import GaplessError, InvalidOption, PartialFailure, StoreError
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.rows import Lease
from gapless.lake.commits import Committer, make_log_table, policy_of
from gapless.lake.cursors import NEEDS_LEASE, Monotonic, is_behind
from gapless.lake.drift import Drift, decide, declared
from gapless.lake.fitting import fit_rows
from gapless.lake.layout.manifest import Manifest, RunCursor, Status, run_folder
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.pages import LATER, Page, pages_of, read_page, told_source
from gapless.lake.runs.progress import RunProgress
from gapless.lake.runs.request import RunRequest
from gapless.lake.sources.spark_frame import (
    LakeEncoder,
    SparkSource,
    given_columns,
    refuse_log,
    staged_by_executors,
    typed_spark_errors,
)
from gapless.lake.staging import StagedRun
from gapless.lake.table import LakeTable
from gapless.runtime.environment import Environment

_LOGGER = logging.getLogger("gapless.lake")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What one run did."""

    table: str
    run: str
    node: str
    status: Status
    """"complete", or "partial" where the source failed behind these rows."""
    rows: int
    files: int
    quarantined_rows: int
    """Rows that the drift policy put aside."""
    cursor: Any
    """Where the pipeline goes on; None where it has no cursor."""
    schema_version: int
    already_applied: bool = False
    """Whether this run and node were committed before: nothing was read now."""

    @classmethod
    def of(cls, manifest: Manifest, *, already_applied: bool = False) -> RunReport:
        """What a manifest says."""
        return cls(
            table=manifest.table,
            run=manifest.run,
            node=manifest.node,
            status=manifest.status,
            rows=manifest.rows,
            files=len(manifest.files),
            quarantined_rows=sum(one.rows for one in manifest.quarantined),
            cursor=None if manifest.cursor is None else manifest.cursor.after,
            schema_version=manifest.schema_version,
            already_applied=already_applied,
        )


@dataclass(slots=True, kw_only=True)
class RunInProgress:
    """A run between its first page and its commit."""

    env: Environment
    catalog: Catalog
    table: LakeTable
    location: str
    """Where the table's own log lies, if it has one."""
    request: RunRequest
    schema: LakeSchema = field(default_factory=LakeSchema)
    position: Any = None
    pages: int = 0
    unfinished: bool = False
    """Whether there are rows behind `position`."""
    kept: list[pa.Table] = field(default_factory=list)
    """Rows for a table with a log of its own, which is to get them in one commit."""
    used: dict[int, str] = field(default_factory=dict)
    """The fingerprint of each version of the columns that rows were made for."""
    _renewed_s: float = 0.0

    def perform(self) -> RunReport:
        """Read, stage and commit. Raises PartialFailure once what was read before an error of the source is committed, with that as its cause;
        the error itself where nothing was; and as `Committer.commit`.
        """
        request, lease = self.request, None
        saved = self.catalog.cursor(self.table.name, request.pipeline) if request.kind else None
        self._check_kind(saved)
        if request.kind in NEEDS_LEASE:
            holder = f"{request.node}:{request.run}"
            lease = self.catalog.acquire(self.table.name, request.pipeline, holder, self.env.clock.now_ns(), request.lease_s)
            saved = self.catalog.cursor(
                self.table.name, request.pipeline
            )  # what another committed before it gave the lease back
        try:
            return self._perform(None if saved is None else saved.after, lease)
        finally:
            if lease is not None:
                self._release(lease)

    def _release(self, lease: Lease) -> None:
        """Give it back. Where that fails its time ends it: the run is what it is."""
        try:
            self.catalog.release(lease)
        except StoreError as error:
            _LOGGER.warning(
                "%s: the lease of %s is not given back, and ends by itself: %s", self.env.store.url, lease.pipeline, error.what
            )

    def _check_kind(self, saved: RunCursor | None) -> None:
        if saved is not None and saved.kind != self.request.kind:
            raise InvalidOption(
                f"the cursor of the pipeline {self.request.pipeline!r} is {saved.kind}, and is to be {self.request.kind}",
                why="What one means says nothing of the other",
                fix="Give the pipeline another name, which begins anew",
                option="cursor",
                value=self.request.kind,
            )

    def _perform(self, saved: Any, lease: Lease | None) -> RunReport:
        request, started_ns = self.request, self.env.clock.now_ns()
        self.position, self._renewed_s = saved, self.env.clock.monotonic()
        history = self.table.history
        self.schema = history.schema
        staged = StagedRun(self.env, run_folder(self.table.name, request.run, request.node))
        failure = None
        if isinstance(request.source, SparkSource):
            self._spread(request.source, staged)
        else:
            failure = self._read(pages_of(request.source, saved), staged, lease)
        staged.flush()
        rows = staged.rows + sum(one.num_rows for one in self.kept)
        has_log = history.settings.kind != "runs"
        manifest = Manifest(
            table=self.table.name,
            run=request.run,
            node=request.node,
            status="complete" if failure is None else "partial",
            failure=None if failure is None else failure.code if isinstance(failure, GaplessError) else type(failure).__name__,
            source=told_source(request.source),
            cursor=self._cursor(saved, rows, lease),
            schema_version=self.schema.version,
            columns=self.schema.fields,
            files=tuple(staged.files),
            quarantined=tuple(staged.quarantined),
            operation=f"lake-run:{request.run}/{request.node}" if has_log and rows else None,
            rows=rows,
            started_ns=started_ns,
            finished_ns=self.env.clock.now_ns(),
            written_by=f"gapless {__version__}",
        )
        log_table = make_log_table(self.location, history.settings, self.schema) if has_log and rows else None
        committer = Committer(
            env=self.env,
            catalog=self.catalog,
            settings=history.settings,
            schemas=self.table.history.schemas,
            columns=self.used,
            log_table=log_table,
        )
        committed = committer.commit(manifest, lease, pa.concat_tables(self._all_kept()) if self.kept else None)
        report = RunReport.of(committed)
        _LOGGER.info("%s: run %s of %s: %d rows, %s", self.env.store.url, request.run, self.table.name, rows, report.status)
        if failure is not None:
            raise self._partial(report, failure) from failure
        return report

    def _read(self, pages: Iterator[Page], staged: StagedRun, lease: Lease | None) -> Exception | None:
        """Stage page by page; the error that ended it where what came before can be committed."""
        begun_s = self.env.clock.monotonic()
        while True:
            try:
                if (page := next(pages, None)) is None:
                    assert not self.unfinished, "a source ends with the place behind its last page"
                    return None
                rows = self._stage(page, staged)
                self._renew(lease)
            except Exception as error:
                # Without a cursor behind each page the next run would read the same pages again.
                if not self.pages or self.unfinished or self.request.kind not in NEEDS_LEASE:
                    raise
                return error
            if rows and self.request.progress is not None:
                self.request.progress(self._progress(staged, begun_s))

    def _spread(self, source: SparkSource, staged: StagedRun) -> None:
        """Have executors stage what Spark computes."""
        settings, cursor = self.table.history.settings, self.request.cursor
        if settings.kind != "runs":
            raise refuse_log(settings.name, settings.kind)
        begun_s = self.env.clock.monotonic()
        with typed_spark_errors(source.told):
            frame = source.frame(self.position)
            given = given_columns(frame)
        drift = self._drift(declared(given))
        self.schema = drift.schema
        self.used[self.schema.version] = self.schema.fingerprint
        monotonic = cursor if isinstance(cursor, Monotonic) else None
        encoder = LakeEncoder(
            store=self.env.store,
            given=given,
            folder=staged.folder,
            drift=drift,
            key=settings.key,
            cursor=monotonic,
            saved=self.position,
        )
        with typed_spark_errors(source.told):
            parts = staged_by_executors(frame, encoder, self.env)
        for part in parts:
            staged.files += part.files
            staged.quarantined += part.quarantined
            staged.rows += sum(one.rows for one in part.files)
            self.pages += bool(part.files or part.quarantined)
            if part.position is not None and (self.position is None or is_behind(self.position, part.position)):
                self.position = part.position
        if self.pages and self.request.progress is not None:
            self.request.progress(self._progress(staged, begun_s))

    def _progress(self, staged: StagedRun, begun_s: float) -> RunProgress:
        return RunProgress(
            table=self.table.name,
            pipeline=self.request.pipeline,
            run=self.request.run,
            rows=staged.rows + sum(one.num_rows for one in self.kept),
            quarantined_rows=sum(one.rows for one in staged.quarantined),
            pages=self.pages,
            files=len(staged.files),
            seconds=self.env.clock.monotonic() - begun_s,
            cursor=self.position if self.request.kind else None,
        )

    def _stage(self, page: Page, staged: StagedRun) -> int:
        """Stage the rows of a page; how many came."""
        rows = read_page(page.rows)
        if rows.num_rows:
            if isinstance(self.request.cursor, Monotonic):
                position = self.request.cursor.after(rows, self.position)
            else:
                position = self.position if page.cursor is LATER else self._page_cursor(page)
            self.unfinished = page.cursor is LATER
            given = declared(rows.schema)
            settings = self.table.history.settings
            drift = self._drift(given)
            fitted = fit_rows(rows, drift, settings.key)
            self.schema = drift.schema
            self.used[self.schema.version] = self.schema.fingerprint
            staged.add(fitted, self.schema, keep=settings.kind == "runs")
            if settings.kind != "runs" and fitted.rows.num_rows:
                self.kept.append(fitted.rows)
            self.position = position
            self.pages += 1
        elif self.unfinished and page.cursor is not LATER:
            self.position, self.unfinished = self._page_cursor(page), False
        return int(rows.num_rows)

    def _page_cursor(self, page: Page) -> Any:
        if page.cursor is None and self.request.kind is not None:
            raise InvalidOption(
                "a page with rows came without a cursor",
                why=f"The pipeline {self.request.pipeline!r} goes on behind its last page, and {self.request.kind} cursors come with the pages",
                fix="Yield gl.lake.Page(rows, cursor)",
                option="cursor",
                value=None,
            )
        return page.cursor

    def _drift(self, given: pa.Schema) -> Drift:
        """What a page's fields mean for the columns; new ones are in the history before rows have them."""
        policy, quarantined = policy_of(self.table.history.settings), dict[str, str]()

        def wanted(now: LakeSchema) -> LakeSchema:
            found = decide(now, given, policy, self.request.run, self.table.holds_exactly)
            quarantined.clear()
            quarantined.update(found.quarantined)
            return found.schema

        if wanted(self.schema) == self.schema:
            return Drift(schema=self.schema, quarantined=dict(quarantined))
        schema = self.table.evolve(wanted).schema
        return Drift(schema=schema, quarantined=dict(quarantined))

    def _renew(self, lease: Lease | None) -> None:
        now_s = self.env.clock.monotonic()
        if lease is not None and now_s - self._renewed_s > self.request.lease_s / 3:
            self.catalog.renew(lease, self.env.clock.now_ns(), self.request.lease_s)
            self._renewed_s = now_s

    def _cursor(self, saved: Any, rows: int, lease: Lease | None) -> RunCursor | None:
        if self.request.kind is None:
            return None
        return RunCursor(
            pipeline=self.request.pipeline,
            kind=self.request.kind,
            before=saved,
            after=self.position if rows or self.pages else saved,
            fence=0 if lease is None else lease.fence,
        )

    def _all_kept(self) -> list[pa.Table]:
        """The rows of all pages in the newest columns."""
        last = self.kept[-1].schema
        return [
            pa.Table.from_arrays(
                [
                    one.column(name) if name in one.column_names else pa.nulls(one.num_rows, last.field(name).type)
                    for name in last.names
                ],
                schema=last,
            )
            for one in self.kept
        ]

    def _partial(self, report: RunReport, failure: Exception) -> PartialFailure:
        told = failure.what if isinstance(failure, GaplessError) else f"{type(failure).__name__}"
        return PartialFailure(
            f"the source of the pipeline {self.request.pipeline!r} failed after {report.rows} rows: {told}",
            why=f"The pages before are committed as run {report.run}, with the cursor behind them",
            fix="Mend the cause, then run again: it goes on at that cursor",
            run=report.run,
            rows=report.rows,
            cursor=report.cursor,
        )
