"""Write one version of a table of either kind as Parquet files, as a Delta, Iceberg or Hudi table, or as a time-series table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from gapless.errors import InvalidOption, NotSupported, TableExists, one_of
from gapless.files.ingest.batches import Batches
from gapless.model.index import IndexSpec
from gapless.model.properties import with_defaults
from gapless.model.protocols import Store
from gapless.runtime.environment import Environment
from gapless.tables import delta
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.export import EXPORT_DEFAULTS, ExportFormat, ExportOptions, ExportReport
from gapless.tables.shared.handle import Location, open_environment, table_exists
from gapless.tables.timeseries.lifecycle import create_table, parse_index
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.transfer.described_files import write_described
from gapless.tables.transfer.parquet_files import write_directory
from gapless.tables.transfer.sources.delta import delta_features
from gapless.tables.transfer.target import check_apart

FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
_OF_SERIES = ("index", "bucket", "entity", "index_type", "timezone")
MAPPING = "delta.columnMapping.mode"
_OPTIONS: Mapping[ExportFormat, tuple[str, ...]] = {
    "parquet": (),
    "delta": ("partition_by", "properties"),
    "iceberg": (),
    "hudi": (),
    "timeseries": (*_OF_SERIES, "properties"),
}
"""The options of each format, but for those of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A version on its way to a place."""

    view: TableView | DeltaView
    env: Environment
    """The target's."""
    target: Location
    options: ExportOptions

    @property
    def rows(self) -> Batches:
        """The version's rows, whose schema has a column at least."""
        found = self.view.scan()
        return Batches(source=self.view.url, schema=found.schema, read=found.to_batches)


def export_table(view: TableView | DeltaView, target: Location, format: object, options: ExportOptions) -> ExportReport:  # noqa: A002
    """See `Exporting.export`."""
    wanted = _parse_format(format)
    chosen = with_defaults("export", options, EXPORT_DEFAULTS)
    for name in options:
        if name != "storage_options" and name not in _OPTIONS[wanted]:
            raise InvalidOption(
                f"{name} means nothing for an export as {wanted}",
                why=f"It has {', '.join(_OPTIONS[wanted]) or 'no options'}",
                fix="Leave it out",
                option=name,
                value=options.get(name),
            )
    env = open_environment(target, chosen["storage_options"])
    check_apart(view.url, env.store.url)
    _check_free(env.store, target)
    if view.schema is None or not len(view.schema):
        raise NotSupported(
            f"{view.url} has no columns, and cannot be exported",
            why="They come with the first append",
            fix="Append rows first",
            feature="export of a table without columns",
        )
    rows, files, kept = _WRITERS[wanted](_Copy(view=view, env=env, target=target, options=chosen))
    not_kept = tuple(line for name, line in _features(view) if name not in kept)
    return ExportReport(target=env.store.url, format=wanted, version=view.version, rows=rows, files=files, not_kept=not_kept)


def _parse_format(given: object) -> ExportFormat:
    return one_of("format", given, FORMATS)


def _check_free(store: Store, target: Location) -> None:
    """Raise TableExists where anything lies at the target."""
    found = next(iter(store.list("")), None)
    if found is not None:
        raise _exists(target, f"It has {found.path!r}, and an export writes over nothing")


def _exists(target: Location, why: str) -> TableExists:
    return table_exists(str(target), why, "Export into another path, or delete what lies there")


def _as_parquet(copy: _Copy) -> tuple[int, int, frozenset[str]]:
    rows, files = write_directory(copy.env.store, copy.rows)
    return rows, files, frozenset()


def _as_iceberg(copy: _Copy) -> tuple[int, int, frozenset[str]]:
    rows, files = write_described(copy.env, copy.rows, "iceberg")
    return rows, files, frozenset()


def _as_hudi(copy: _Copy) -> tuple[int, int, frozenset[str]]:
    rows, files = write_described(copy.env, copy.rows, "hudi")
    return rows, files, frozenset()


def _as_delta(copy: _Copy) -> tuple[int, int, frozenset[str]]:
    view, by = copy.view, copy.options["partition_by"]
    if by is None:
        by = view.partition_by if isinstance(view, DeltaView) else ()
    described, properties = dict[str, Any](), copy.options["properties"]
    if isinstance(view, DeltaView):
        metadata = context_of(view).snapshot.state.metadata
        described = {"name": metadata.name, "description": metadata.description}
        if properties is None and MAPPING in metadata.configuration:
            # Its columns may have names that no file has.
            properties = {MAPPING: metadata.configuration[MAPPING]}
    table = delta.create(
        copy.target,
        view.schema,
        partition_by=by,
        properties=properties,
        storage_options=copy.options["storage_options"],
        **described,
    )
    report = table.append([copy.rows])
    return report.rows, report.segments, frozenset({"partitioning", "variant"})


def _as_series(copy: _Copy) -> tuple[int, int, frozenset[str]]:
    view, given = copy.view, copy.options["properties"]
    if isinstance(view, TableView):
        properties = view.properties.changed() if given is None else dict(given)
    else:
        properties = dict(given or {})
    made = create_table(copy.env, str(copy.target), _index(copy), view.schema, properties)
    table = TimeSeriesTable(copy.env, copy.target, made)
    report = table.append([copy.rows], on_overlap="allow")
    return report.rows, report.segments, frozenset({"index", "properties"} if given is None else {"index"})


def _index(copy: _Copy) -> IndexSpec:
    """The index of the copy: that of the table, or the one that was named. Raises InvalidOption."""
    view, options = copy.view, copy.options
    index, bucket = options["index"], options["bucket"]
    if isinstance(view, TableView) and index is None and bucket is None:
        return view.index
    if index is None or bucket is None:
        raise InvalidOption(
            "an export of a Delta table as timeseries needs index and bucket",
            why="A Delta table has no index column, and no unit that arrives whole",
            fix='Pass such as index="ts", bucket="1h"',
            option="index",
            value=index,
        )
    return parse_index(index, options["index_type"], bucket, options["entity"], options["timezone"])


_WRITERS: Mapping[ExportFormat, Callable[[_Copy], tuple[int, int, frozenset[str]]]] = {
    "parquet": _as_parquet,
    "delta": _as_delta,
    "iceberg": _as_iceberg,
    "hudi": _as_hudi,
    "timeseries": _as_series,
}
"""Each writes a copy; it gives the rows and files, and which features of the table the copy has too."""


def _features(view: TableView | DeltaView) -> Iterator[tuple[str, str]]:
    """What a table has beside its rows and columns, by name, with a sentence for whoever finds it missing."""
    if isinstance(view, DeltaView):
        yield from delta_features(context_of(view).snapshot.state, view.version, view.schema.names)
        return
    yield "index", "the index, its buckets and coverage: the columns are there"
    if changed := view.properties.changed():
        yield "properties", f"properties: {', '.join(sorted(changed))}"
    if view.tags:
        yield "tags", f"tags: {', '.join(view.tags)}"
    if view.version > 1:
        yield "history", f"history: versions 1 to {view.version - 1}"
