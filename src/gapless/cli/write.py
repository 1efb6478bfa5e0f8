"""`create`, `append` and `delta overwrite`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa

from gapless.cli.options import (
    AnyTable,
    DeltaTableRef,
    DescribedFiles,
    InputFiles,
    JsonFlag,
    OperationText,
    OptionGroup,
    TableRef,
    UpgradeFlag,
    file_noun,
    flag,
    option,
    parse_mapping,
    parse_operation,
    parse_pairs,
    refuse_given,
)
from gapless.cli.show.console import print_facts, print_line, write_json
from gapless.cli.show.published import tell_unpublished
from gapless.cli.show.rows import row_progress
from gapless.cli.show.values import parse_type_text
from gapless.errors import InvalidOption
from gapless.files.adopt.copy_or_link import parse_adopt
from gapless.files.ingest.files import expand_paths, open_files
from gapless.model.index import format_bucket
from gapless.model.operation import AppendReport
from gapless.model.properties import parse_on_overlap
from gapless.tables import delta
from gapless.tables.shared.findings import count
from gapless.tables.shared.handle import Kind
from gapless.tables.timeseries.table import TimeSeriesTable


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The index of a new time-series table, and what its coverage counts in."""

    index: Annotated[str, option("COLUMN", "The column that orders rows.")]
    bucket: Annotated[
        str,
        option(
            "LENGTH", "What coverage counts in, the unit that arrives whole: 15m, 1h, 1d, 1mo; a number for an integer index."
        ),
    ]
    entity: Annotated[
        list[str] | None, option("COLUMN", "A column that tells series apart, such as symbol; may be repeated.")
    ] = None
    index_type: Annotated[str, option("TYPE", "timestamp (the default), int64 or uint64.")] = "timestamp"
    timezone: Annotated[str | None, option("ZONE", "IANA zone of local days and months, and of times without a zone.")] = None


PropertyTexts = Annotated[
    list[str] | None,
    option("NAME=VALUE", "on_overlap=reject|skip|replace|allow, unique=true, codec=fastest|balanced|smallest.", "--property"),
]


def parse_properties(texts: Sequence[str] | None) -> dict[str, object]:
    """The properties of a new time-series table as typed; raises InvalidOption."""
    return {name: {"true": True, "false": False}.get(value, value) for name, value in parse_mapping("property", texts).items()}


def create(
    table: TableRef,
    index: IndexOptions,
    properties: PropertyTexts = None,
    json: JsonFlag = False,
) -> None:
    """Create an empty time-series table; its columns come with the first append.

    `gapless delta create` makes a Delta table.

    Example: gapless create prices --index ts --bucket 1m --entity symbol
    """
    options: dict[str, Any] = asdict(index) | {"entity": index.entity or ()}
    made = TimeSeriesTable.create(
        table.path,
        **options,
        properties=parse_properties(properties),
        storage_options=table.storage,
    )
    facts = {
        "table": made.url,
        "version": made.version,
        "index": index.index,
        "bucket": format_bucket(made.index.bucket),
        "entity": list(made.entity),
    }
    shown = [
        (name, ", ".join(value) if isinstance(value, list) else str(value))
        for name, value in facts.items()
        if name != "table" and value != []
    ]
    _print_created(facts, shown, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaColumns:
    """The columns of a new Delta table, and by which of them its files lie apart."""

    column: Annotated[
        list[str] | None, option("NAME=TYPE", "A column, as 'id=int64' or 'id=int64 not null', in order; may be repeated.")
    ] = None
    like: Annotated[str | None, option("FILE", "Take the columns of this Parquet, CSV or JSON lines file instead.")] = None
    partition_by: Annotated[
        list[str] | None, option("COLUMN", "A column by whose values files lie apart; may be repeated.")
    ] = None

    def schema(self) -> pa.Schema | None:
        """The columns; None where neither --column nor --like was given. Raises InvalidOption."""
        if self.like is not None:
            refuse_given({"column": self.column}, "--like says all columns")
            return open_files(expand_paths(self.like), index=None)[0].schema
        return pa.schema([_field(*pair) for pair in parse_pairs("column", self.column)]) if self.column else None


def _field(name: str, text: str) -> pa.Field:
    bare = text.removesuffix(" not null")
    return pa.field(name, parse_type_text(bare), nullable=bare == text)


def delta_create(
    table: DeltaTableRef,
    columns: DeltaColumns,
    properties: Annotated[
        list[str] | None, option("NAME=VALUE", "Such as delta.enableChangeDataFeed=true; may be repeated.", "--property")
    ] = None,
    name: Annotated[str | None, option("TEXT", "What the table calls itself.")] = None,
    description: Annotated[str | None, option("TEXT", "What it is.")] = None,
    json: JsonFlag = False,
) -> None:
    """Create an empty Delta table.

    Its columns come with the first append where neither --column nor --like says them.

    Example: gapless delta create trips --column 'id=int64 not null' --column day=date32 --partition-by day
    """
    made = delta.create(
        table.path,
        columns.schema(),
        partition_by=columns.partition_by or (),
        properties=parse_mapping("property", properties),
        name=name,
        description=description,
        storage_options=table.storage,
    )
    facts = {
        "table": made.url,
        "version": made.version,
        "columns": len(made.schema),
        "partition_by": list(made.partition_by),
        "properties": made.properties,
    }
    shown = [
        ("columns", str(len(made.schema) or "those of the first append")),
        ("partitioned by", ", ".join(made.partition_by) or "nothing"),
    ]
    _print_created(facts, shown, json=json)


def _print_created(facts: dict[str, Any], shown: Sequence[tuple[str, str]], *, json: bool) -> None:
    if json:
        write_json(facts)
    else:
        print_line(f"Created {facts['table']}")
        print_facts(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesAppend(OptionGroup):
    """What only an append to a time-series table may say."""

    kind: ClassVar[Kind] = "timeseries"
    why: ClassVar[str] = "A Delta table has no coverage"
    fix: ClassVar[str] = "Leave it out; --operation-id makes sending again harmless"
    on_overlap: Annotated[
        str | None,
        option(
            "POLICY",
            "What to do with buckets the table covers: reject (the append), skip (those rows), replace (the table's rows) or allow.",
        ),
    ] = None


AdoptText = Annotated[
    str | None,
    option("WAY", "Take Parquet files as they are: copy, link or move them; of a time series only the keys are read."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumns(OptionGroup):
    """What becomes of columns that only the files have."""

    kind: ClassVar[Kind] = "delta"
    why: ClassVar[str] = "An append to a time-series table adds no columns"
    fix: ClassVar[str] = "`gapless alter PATH add NAME TYPE` adds one"
    add_columns: Annotated[
        bool, flag("--add-columns", "Add the columns that the files have and the table lacks, instead of refusing them.")
    ] = False

    @property
    def schema_mode(self) -> Literal["merge", "strict"]:
        """The same for `gl.delta`."""
        return "merge" if self.add_columns else "strict"


def append(
    table: TableRef,
    rows: DescribedFiles,
    series: SeriesAppend,
    columns: NewColumns,
    adopt: AdoptText = None,
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Append files as one commit: all of their rows, or none.

    Sending the same file to a time-series table again is refused (exit code 4), or harmless with --on-overlap skip. A Delta table takes
    --add-columns; it knows a change sent again by its --operation-id.

    Example: gapless append prices day1.parquet day2.parquet
    """
    policy = None if series.on_overlap is None else parse_on_overlap(series.on_overlap)
    opened = table.open(series, columns, upgrade=upgrade)
    operation, file_format, how = parse_operation(operation_id), rows.format, None if adopt is None else parse_adopt(adopt)
    with row_progress(f"appending {rows.label}") as done:
        if isinstance(opened, TimeSeriesTable):
            report = opened.append_file(
                rows.files,
                format=file_format,
                on_overlap=policy,
                operation_id=operation,
                progress=done,
                adopt=how,
            )
        else:
            report = opened.append_file(
                rows.files,
                format=file_format,
                operation_id=operation,
                schema_mode=columns.schema_mode,
                progress=done,
                adopt=how,
            )
    _print_appended(opened, report, json=json)


def delta_append(
    table: DeltaTableRef,
    rows: DescribedFiles,
    columns: NewColumns,
    adopt: AdoptText = None,
    operation_id: OperationText = None,
    json: JsonFlag = False,
) -> None:
    """Append files as one commit: all of their rows, or none. Columns are matched by name.

    Example: gapless delta append trips monday.parquet tuesday.parquet
    """
    append(table, rows, SeriesAppend(), columns, adopt, operation_id, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwritten:
    """Which rows an overwrite replaces; all of them where nothing is said."""

    where: Annotated[str | None, option("SQL", "Only rows for which this holds give way; every new row must satisfy it.")] = (
        None
    )
    dynamic: Annotated[bool, flag("--dynamic-partitions", "Only partitions that the files have rows for give way.")] = False
    new_columns: Annotated[bool, flag("--new-columns", "All rows give way, and the columns too: the files bring theirs.")] = (
        False
    )

    def __post_init__(self) -> None:
        if self.dynamic and self.where is not None:
            what = "--where and --dynamic-partitions exclude each other"
            raise InvalidOption(what, fix="Drop one", option="where", value=self.where)


def overwrite(
    table: DeltaTableRef,
    rows: InputFiles,
    old: Overwritten,
    columns: NewColumns,
    operation_id: OperationText = None,
    json: JsonFlag = False,
) -> None:
    """Overwrite the table with the rows of files, as one commit: all rows, those that --where names, or whole partitions.

    Example: gapless delta overwrite trips monday.parquet --where "day = '2026-01-05'"
    """
    opened = table.open_delta()
    with row_progress(f"overwriting by {rows.label}") as done:
        report = opened.overwrite(
            rows.read(opened, done),
            where=old.where,
            partitions="dynamic" if old.dynamic else None,
            operation_id=parse_operation(operation_id),
            schema_mode="overwrite" if old.new_columns else columns.schema_mode,
        )
    _print_appended(opened, report, json=json)


def _print_appended(table: AnyTable, report: AppendReport, *, json: bool) -> None:
    if json:
        write_json(asdict(report))
    else:
        print_line(append_text(report, file_noun(table)))
        tell_unpublished(report.published)


def append_text(report: AppendReport, noun: str) -> str:
    """What an append or an overwrite did, in a line; `noun` is what a data file is called.

    >>> append_text(AppendReport(version=2, rows=0, segments=0, buckets=0, skipped_rows=24, skipped_buckets=1), "segment")
    'Nothing to write, still version 2. Left out: 24 rows in 1 bucket that the table covers already.'
    >>> append_text(AppendReport(version=2, rows=3, segments=1, removed_rows=2, removed_segments=1), "file")
    'Version 2: 3 rows in 1 file, in place of 2 rows.'
    """
    if report.already_applied:
        return f"This operation was applied before, by version {report.version}; nothing was written now."
    skipped = f"{count(report.skipped_rows, 'row')} in {count(report.skipped_buckets, 'bucket')}"
    left_out = f" Left out: {skipped} that the table covers already." if report.skipped_rows else ""
    if not report.segments and not report.removed_segments:
        return f"Nothing to write, still version {report.version}.{left_out}"
    covering = f", covering {count(report.buckets, 'bucket')}" if noun == "segment" else ""
    replaced = f", in place of {count(report.removed_rows, 'row')}" if report.removed_rows else ""
    return f"Version {report.version}: {count(report.rows, 'row')} in {count(report.segments, noun)}{covering}{replaced}.{left_out}"
