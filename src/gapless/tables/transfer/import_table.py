"""Import a table of another format: it becomes a time-series table, whose files are taken as they are where they fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import pyarrow as pa

from gapless.errors import ImportRefused, InvalidOption
from gapless.files.adopt.copy_or_link import parse_adopt
from gapless.files.ingest.batches import Batches, Progress, watched
from gapless.formats.timeseries.actions import TableMeta
from gapless.model.index import IndexSpec
from gapless.model.properties import Properties, with_defaults
from gapless.model.schema import adopt_schema, reconcile
from gapless.tables.shared.handle import Location
from gapless.tables.timeseries.lifecycle import INDEX_DEFAULTS, IndexOptions, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.transfer.plan import Batch, ImportId, Plan, batches_of, plan_file
from gapless.tables.transfer.report import ImportReport, PlannedFile, refused_text
from gapless.tables.transfer.sources.open import SourceRequest
from gapless.tables.transfer.target import Target, check_apart, check_source, refuse_plan


class ImportOptions(IndexOptions, total=False):
    """What `gl.import_table` may say beside places, index and buckets."""

    properties: Mapping[str, Any] | None
    storage_options: Mapping[str, str] | None
    format: str | None
    source_version: int | str | None
    source_storage_options: Mapping[str, str] | None
    catalog: str | Mapping[str, str] | None
    exclude: Collection[str] | None
    adopt: str | None
    progress: Progress | None


IMPORT_DEFAULTS: ImportOptions = {
    **INDEX_DEFAULTS,
    "properties": None,
    "storage_options": None,
    "format": None,
    "source_version": None,
    "source_storage_options": None,
    "catalog": None,
    "exclude": None,
    "adopt": "copy",
    "progress": None,
}


def import_table(
    source: object,
    target: Location,
    *,
    index: str,
    bucket: str | int,
    dry_run: bool = False,
    **options: Unpack[ImportOptions],
) -> ImportReport:
    """Make a time-series table of a Delta, Iceberg or Hudi table, or of a directory of Parquet files. The source stays as it is.

    Args:
        source: Where it lies: a path or a URL; of an Iceberg table its directory or a metadata file, `namespace.table` of a catalog, or an open table of
            pyiceberg. Folders named `column=value` of a directory of Parquet files are columns.
        target: Where the time-series table is made, as in `gl.create`.
        index: The column that orders rows, and
        bucket: what coverage counts in; these, `entity`, `index_type`, `timezone` and `properties` as in `gl.create`.
        dry_run: Only say what becomes of each file. Footers are read, and nothing is written.
        storage_options: Options of the target's object store, `source_storage_options` of the source's (of Iceberg in pyiceberg's names).
        format: "delta", "iceberg", "hudi" or "parquet"; what lies there decides where not given.
        catalog: The Iceberg catalog: a name that pyiceberg is configured for, or its properties. Needs `gapless[iceberg]`.
        source_version: The version of a Delta table, a snapshot id of an Iceberg table, an instant of a Hudi table; the newest where not given.
        exclude: Columns to leave out.
        adopt: How a file is taken that fits as it is: "copy", or "link", a second name on one disk (who then writes into the file
            damages the table). None has all rows written anew, sorted.
        progress: Called with the rows done so far, and with all there are where that is known (else None).

    A file that fits becomes a segment as it is: only its footer, index and entity columns are read. The rows of others are read and
    written anew, where their columns lie otherwise than the table's files hold them, a partition column is not in the file, or some of its rows are
    deleted. Where a file can be neither, nothing is imported. Rows may share buckets, as in the source.

    All of it lands in one commit for each kind of file, or in several of bounded size. A call that was killed is made again: what its
    commits brought stays, and the others follow, of the version of the source that it had begun with. Once all has come, calling
    again changes nothing.

    Raises ImportRefused, with the files; TableExists where the target holds anything else; TableNotFound, InvalidPath, UnknownColumn, InvalidOption,
    NotSupported, and as `gl.create` and `append` do.
    """
    chosen = with_defaults("import_table", options, IMPORT_DEFAULTS)
    spec = parse_index(index, chosen["index_type"], bucket, chosen["entity"], chosen["timezone"])
    how = _parse_way(chosen["adopt"])
    place = Target.of(target, chosen["storage_options"], spec, chosen["properties"])
    begun = place.begun()
    request = SourceRequest(
        source=source,
        format=chosen["format"],
        version=chosen["source_version"],
        exclude=chosen["exclude"],
        storage_options=chosen["source_storage_options"],
        catalog=chosen["catalog"],
    )
    if begun is not None and begun.id is not None and request.version is None and begun.id.format != "parquet":
        request = replace(request, version=begun.id.version)
    foreign = request.open()
    check_apart(foreign.url, place.url)
    if begun is not None and begun.id is not None:
        check_source(place.url, begun.id, foreign)
    meta = _meta(begun.meta if begun is not None else None, foreign.schema, spec, chosen["properties"])
    assert meta.schema is not None
    plans = [Plan(one, plan_file(one, meta.schema, meta, rewrite=how is None)) for one in foreign.files]
    batches = batches_of(plans)
    run = ImportId.of(foreign, batches)
    if begun is not None and begun.id is not None and begun.id != run:
        raise refuse_plan(place.url)
    report = ImportReport(
        source=foreign.url,
        format=foreign.format,
        source_version=foreign.version,
        target=place.url,
        version=None if begun is None else begun.version,
        files=tuple(one.planned for one in plans),
        not_kept=foreign.not_kept,
        dry_run=dry_run,
        already_applied=begun is not None and begun.done(run),
    )
    if dry_run or report.already_applied:
        return report
    if report.count("refused"):
        raise _refused(report)
    table = place.opened(begun, meta.schema)
    job = _Job(table=table, run=run, how=how, progress=chosen["progress"], total=report.rows())
    counted = [job.apply(batch) for batch in batches]
    return replace(
        report, version=table.version, files=_with_rows(report.files, {k: v for one in counted for k, v in one.items()})
    )


def _parse_way(given: object) -> Any:
    """How files that fit are taken; None for not at all. Raises InvalidOption."""
    way = None if given is None else parse_adopt(given)
    if way == "move":
        raise InvalidOption(
            'adopt="move" takes the files away from the source',
            why="An import leaves its source as it is",
            fix='Pass adopt="link", which copies nothing either, and remove the source afterwards',
            option="adopt",
            value=given,
        )
    return way


def _meta(begun: TableMeta | None, given: pa.Schema, spec: IndexSpec, properties: Mapping[str, Any] | None) -> TableMeta:
    """The table's metadata with all columns of the source; raises SchemaMismatch, UnsupportedType, InvalidOption."""
    if begun is None:
        return TableMeta(
            index=spec, schema=adopt_schema(given, spec), created_ns=0, properties=Properties.parse(properties or {})
        )
    if begun.schema is None:
        return replace(begun, schema=adopt_schema(given, spec))
    return replace(begun, schema=reconcile(begun.schema, given, spec, begun.ids).schema)


def _refused(report: ImportReport) -> ImportRefused:
    refused = tuple(file for file in report.files if file.outcome == "refused")
    return ImportRefused(
        f"{len(refused):,} of {len(report.files):,} files of {report.source} cannot be imported",
        why=refused_text(report.files),
        fix=f"{refused[0].fix or 'Mend them'}. Nothing was imported; dry_run=True lists what becomes of each file",
        source=report.source,
        files=tuple(file.name for file in refused),
    )


def _with_rows(files: Sequence[PlannedFile], counted: Mapping[str, int]) -> tuple[PlannedFile, ...]:
    return tuple(replace(file, rows=counted.get(file.name, file.rows)) for file in files)


@dataclass(slots=True)
class _Job:
    """One import at work."""

    table: TimeSeriesTable
    run: ImportId
    how: Any
    progress: Progress | None
    total: int | None
    done: int = 0

    def apply(self, batch: Batch) -> dict[str, int]:
        """Commit the files of a batch, unless that was done before; the rows of those that were counted while they were read."""
        counted: dict[str, int] = {}
        if batch.outcome == "taken":
            report = self.table.append_file(
                [str(file.path) for file in batch.files],
                format="parquet",
                on_overlap="allow",
                operation_id=(self.run.app, batch.number),
                progress=self._told(),
                adopt=self.how,
            )
        else:
            parts = [_counting(file.live, file.name, counted) for file in batch.files]
            report = self.table.append(
                parts if self.progress is None else watched(parts, self._told()),
                on_overlap="allow",
                operation_id=(self.run.app, batch.number),
            )
        self.done += report.rows
        return counted

    def _told(self) -> Progress:
        before, progress = self.done, self.progress
        return lambda rows, _total: progress(before + rows, self.total) if progress is not None else None


def _counting(part: Batches, name: str, counted: dict[str, int]) -> Batches:
    """The same rows; `counted` has how many there were, once they were read."""

    def read() -> Iterator[pa.RecordBatch]:
        counted[name] = 0
        for batch in part:
            counted[name] += batch.num_rows
            yield batch

    return replace(part, read=read)
