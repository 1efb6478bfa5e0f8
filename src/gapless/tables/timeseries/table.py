"""The time-series table that users hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self, Unpack

import pyarrow as pa

from gapless.files.adopt.copy_or_link import Adopt, parse_adopt
from gapless.files.adopt.source import Source
from gapless.files.ingest.batches import Batches, Progress, watched, without_empty
from gapless.files.ingest.files import FileArgument, expand_paths, open_files
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.snapshot import refresh
from gapless.model.operation import AppendReport, parse_operation
from gapless.model.properties import OnOverlap, parse_on_overlap, with_defaults
from gapless.model.publishing import PUBLISHED_FORMATS, PublishedFormat
from gapless.runtime.concurrency import Turns
from gapless.runtime.environment import Environment
from gapless.store.open import table_name
from gapless.tables.shared.findings import VerifyReport
from gapless.tables.shared.handle import Location, open_environment
from gapless.tables.shared.inputs.parquet_files import open_sources
from gapless.tables.shared.inputs.rows import ReadParts, parts_of
from gapless.tables.shared.landing import skip_applied
from gapless.tables.shared.publication.publishing import Publishing
from gapless.tables.timeseries.alter import Evolution, Settings
from gapless.tables.timeseries.care.maintenance import Maintenance
from gapless.tables.timeseries.care.restore import Restoring
from gapless.tables.timeseries.correct.corrections import Corrections
from gapless.tables.timeseries.lifecycle import INDEX_DEFAULTS, IndexOptions, create_table, open_table, parse_index
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.verify.verify import verify_table
from gapless.tables.timeseries.write.adopt import Adopter
from gapless.tables.timeseries.write.append import APPEND, Appender
from gapless.tables.timeseries.write.fill import FILL_DEFAULTS, Backfill, Fetch, Fetched, FillOptions, FillReport
from gapless.tables.timeseries.write.group import Member, append_group, gather_small


class TimeSeriesTable(TableView, Restoring, Corrections, Settings, Evolution, Maintenance, Publishing[TableState]):
    """A table of immutable Parquet segments under an append-only log, at one version.

    A handle stays at the version it has seen until `refresh` or a change of its own moves it on. Make one with `gl.create` or
    `gl.open`.
    """

    _formats: ClassVar[tuple[PublishedFormat, ...]] = PUBLISHED_FORMATS

    def __init__(self, env: Environment, location: Location, snapshot: Snapshot[TableState], *, upgrade: bool = False) -> None:
        """Use `create` or `open`."""
        super().__init__(env, table_name(location), snapshot)
        self._upgrade = upgrade
        self._turns: Turns[Member, AppendReport] = Turns(partial(append_group, lambda: self._snapshot))

    @classmethod
    def _made(cls, env: Environment, snapshot: Snapshot[TableState], newest: Snapshot[TableState] | None) -> Self:  # noqa: ARG003
        return cls(env, env.store.url, snapshot)

    # -- making and opening ------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Location,
        *,
        index: str,
        bucket: str | int,
        schema: pa.Schema | None = None,
        properties: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
        **options: Unpack[IndexOptions],
    ) -> TimeSeriesTable:
        """Make a table.

        Args:
            path: Where: a local path (str or Path, `~` is the home directory, relative to the current directory), or a URL `file://`,
                `s3://`, `gs://`, `az://`, `memory://`.
            index: The column that orders rows: a timestamp, or an integer with `index_type`.
            bucket: What coverage counts in, the unit that arrives whole: "100us", "15m", "1h", "1d", "1mo"; a whole number for an
                integer index. Buckets are half-open and aligned to 1970-01-01T00:00Z; days and months are local with `timezone`.
            entity: Columns whose values together identify one series: strings, integers, dates or booleans.
            index_type: "timestamp", "int64" or "uint64".
            timezone: IANA zone of local days and months; a naive index then means its wall clock.
            schema: Columns; without it the first append's are adopted.
            properties: `on_overlap` ("reject", "skip", "replace", "allow"), `unique` (no two rows with one identity and index value), `codec` ("fastest" to
                append, "balanced", "smallest" files, or one compression: "zstd", "snappy", "lz4", "gzip", "none"),
                `checkpoint_interval` (commits from one log checkpoint to the next; 100), `operation_retention_days` (90),
                `auto_compact_segments` (small segments that may gather before an append compacts them; 0 for never, unless given),
                `auto_compact_bytes` (Parquet that such a compaction reads at most; 32 MiB), `inline_bytes` (appends of at most so many bytes of
                Parquet lie in the commit itself; 0 for none, unless given), `publish` (formats in which the same files are described to other
                readers after each commit: ["delta"]).
            storage_options: Options of the object store, in obstore's names.

        Raises:
            TableExists, InvalidOption, InvalidPath, SchemaMismatch, UnsupportedType, StoreError.
        """
        chosen = with_defaults("create", options, INDEX_DEFAULTS)
        spec = parse_index(index, chosen["index_type"], bucket, chosen["entity"], chosen["timezone"])
        env = open_environment(path, storage_options)
        made = cls(env, path, create_table(env, str(path), spec, schema, properties or {}))
        made._follow(made._snapshot)
        return made

    @classmethod
    def open(
        cls, path: Location, *, storage_options: Mapping[str, str] | None = None, upgrade: bool = False
    ) -> TimeSeriesTable:
        """Open a table at its newest version.

        `upgrade` allows the first write to a table of timeseries-table-format, which shuts that package's writers out for good.
        Raises TableNotFound, UnsupportedTable, CorruptTable, StoreError.
        """
        env = open_environment(path, storage_options)
        return cls(env, path, open_table(env, str(path)), upgrade=upgrade)

    def refresh(self) -> TimeSeriesTable:
        """Move to the newest version, reading only the commits since; returns the table itself."""
        self._move_to(self._env.drive(refresh(TIME_SERIES, self._snapshot)))
        return self

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(
        self, data: object, *, on_overlap: OnOverlap | None = None, operation_id: tuple[str, int] | str | None = None
    ) -> AppendReport:
        """Append rows as one commit: all of them, or none.

        Args:
            data: Anything with `__arrow_c_stream__` (Arrow table or reader, Polars frame, DuckDB relation), a pandas DataFrame, a record batch, a
                mapping of columns, or an iterable of row mappings. Columns are matched by name.
            on_overlap: What to do with rows in (identity, bucket) pairs that the table already covers: "reject" (refuse the whole append),
                "skip" (leave those rows out and count them), "replace" (take the table's rows of these pairs away; the input is held in memory
                then) or "allow"; the table's property where not given.
            operation_id: What this change is called, so that sending it again changes nothing. A stream takes ("app", sequence), with
                sequences that only grow: the highest is remembered for ever. Jobs that run in any order (a backfill by day) take one
                text each. Sent again, from anywhere, the first report comes back with `already_applied`, and `data` is not read.

        Rows may come in any order; they are sorted by entity and index. Memory stays within about six times 128 MiB beside the
        input's own batches. Raises CoverageOverlap, SchemaMismatch, NullKey and the other DataErrors, CommitConflict,
        CommitOutcomeUnknown, UpgradeNeeded, StoreError.
        """
        return self._append(partial(parts_of, data, self.schema), on_overlap, operation_id)

    def append_file(
        self,
        path: FileArgument,
        *,
        format: object = None,  # noqa: A002  # what users of DuckDB and Polars call it
        on_overlap: OnOverlap | None = None,
        operation_id: tuple[str, int] | str | None = None,
        progress: Progress | None = None,
        adopt: Adopt | None = None,
    ) -> AppendReport:
        """Append a file, all data files of a directory, all that a glob matches, or a list of these, as one commit.

        An open file of bytes, a pipe, and `-` (standard input) are read once, by way of a temporary file; `format` says what they hold.
        `format` is a `gl.Csv(…)`, `gl.Json(…)`, "parquet", "csv" or "json"; without it the suffix decides. `progress` is called after
        each batch with the rows read so far, and with all rows there are where that is known (else None). See `append` for the rest;
        raises InvalidPath for a path that names nothing, or a file named twice, and UnreadableInput where a file cannot be read.

        `adopt` takes Parquet files as segments as they are: only their footers, index and entity columns are read. "copy" copies them,
        "link" gives them a second name (on the table's disk; who then writes into the file damages the table), "move" takes them away once
        the commit has landed. A file whose columns do not lie as the table's files hold them is refused with SchemaMismatch. Under "skip" a
        file whose buckets are all covered is left out whole; one with others besides is refused.
        """
        if adopt is not None:
            how = parse_adopt(adopt)
            return self._adopt(lambda: open_sources(expand_paths(path), format, how), how, on_overlap, operation_id, progress)

        def read() -> Sequence[Batches]:
            parts = without_empty(open_files(expand_paths(path), format, index=self.index, schema=self.schema))
            return parts if progress is None else watched(parts, progress)

        return self._append(read, on_overlap, operation_id)

    def fill(self, fetch: Fetch, start: object = None, end: object = None, **options: Unpack[FillOptions]) -> FillReport:
        """Ask for every gap, once each, and append what comes.

        Args:
            fetch: Called as `fetch(identity, start, end)` for each gap of the newest version: a tuple of entity values (`()` without entity
                columns) and bounds as `Gap` has them, the end just past. Gives what `append` takes, entity columns or not; None or no rows
                mean that nothing is there. With several workers it is called from several threads at once.
            start: What is looked at; this and `end`, `entity`, `identities` and `calendar` as in `coverage`.
            max_buckets: A gap of more missing buckets is asked for in parts.
            max_workers: How many calls of `fetch` may run at once. Answers are appended here, one by one, as they come.
            progress: Called after each gap with the gaps done and all there are.
            on_error: "raise" stops at the first error. "continue" goes on with the next gap where `fetch` or its answer is the matter, and
                the report lists them.

        Each answer is a commit of its own, and rows of covered buckets are left out (`on_overlap="skip"`): what came stays, whatever comes
        next, and calling again asks for exactly what is still missing, among it what came half or empty. Rows outside of what was asked
        for are refused with InvalidValue.

        Raises FillStopped, which carries the report so far and has the error as its cause; InvalidOption, and as `coverage` does.
        """
        self._check_writable()
        chosen = with_defaults("fill", options, FILL_DEFAULTS)
        question = self.refresh().coverage(
            start, end, entity=chosen["entity"], identities=chosen["identities"], calendar=chosen["calendar"]
        )
        whose = frozenset(question.identities)
        report = Backfill(
            source=Fetched(fetch, lambda rows: self._append(lambda: (rows,), "skip", None)),
            question=question,
            covered=lambda: (self.version, self._covered(self.segments(), whose)),
            meta=lambda: (self.index, self.schema),
            max_buckets=chosen["max_buckets"],
            max_workers=chosen["max_workers"],
            on_error=chosen["on_error"],
        ).run(chosen["progress"])
        return self._with_publications(report)

    def _append(self, read: ReadParts, on_overlap: OnOverlap | None, operation_id: object) -> AppendReport:
        before = self.version
        report = self._append_rows(read, on_overlap, operation_id)
        self._compact_when_due(before)
        return self._with_publications(report)

    def _adopt(
        self,
        sources: Callable[[], Sequence[Source]],
        how: Adopt,
        on_overlap: OnOverlap | None,
        operation_id: object,
        progress: Progress | None,
    ) -> AppendReport:
        given = None if on_overlap is None else parse_on_overlap(on_overlap)
        operation = parse_operation(operation_id)
        before, context = self.version, self._context
        newest = context.refresh()
        self._check_writable()
        appender = Appender(
            context=context,
            on_overlap=given or newest.state.meta.properties.on_overlap,
            by_table=given is None,
            operation=operation,
        )
        adopter = Adopter(appender=appender, how=how, newest=lambda: self.version, progress=progress)
        report = appender.known(newest) or adopter.adopt(newest, sources())
        self._compact_when_due(before)
        return self._with_publications(report)

    def _append_rows(self, read: ReadParts, on_overlap: OnOverlap | None, operation_id: object) -> AppendReport:
        policy = self._overlap_policy if on_overlap is None else parse_on_overlap(on_overlap)
        operation = parse_operation(operation_id)
        if operation is not None:
            context = self._context
            if (known := skip_applied(context.committer, context.refresh(), operation, APPEND)) is not None:
                return known.append_report
        parts = [*read()]
        # No rows and no columns, as from an empty list: nothing to check and nothing to write.
        if not parts and operation is None:
            return AppendReport(version=self.version, rows=0, segments=0, buckets=0)
        if policy == "replace":
            return self._replace_covered(parts, operation, by_table=on_overlap is None)
        self._check_writable()
        appender = Appender(
            context=self._context,
            on_overlap=policy,
            by_table=on_overlap is None,
            operation=operation,
        )
        if len(parts) == 1:
            part, small = gather_small(parts[0])
            parts = [part]
            if small:
                return self._turns.submit(Member(parts=(part,), appender=appender))
        return appender.append(self._snapshot, parts)

    @property
    def _overlap_policy(self) -> OnOverlap:
        """The table's; that of the newest version, where the one this handle sees would take rows away."""
        known = self.properties.on_overlap
        return known if known != "replace" else self._context.refresh().state.meta.properties.on_overlap

    # -- care ----------------------------------------------------------------------------------------------------------

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Look for damage in the table's log, and in all that its newest version names, whichever version this handle sees.

        `deep` reads every row too. See `gl.verify`, which also takes a table that does not open. Raises StoreError.
        """
        return verify_table(self._env.store, deep=deep)


create = TimeSeriesTable.create
open = TimeSeriesTable.open  # noqa: A001  # gl.open, as gzip.open
