"""Options that several commands share: their types for typer, and groups of them as values that commands take and hand on whole.

Input files of commands that write rows: which ones, and in which format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import typer

from gapless.errors import InvalidOption, TableNotFound, UnknownColumn, nearest
from gapless.files.ingest.batches import Batches, Progress, watched
from gapless.files.ingest.files import expand_paths, format_of, open_files
from gapless.model.index import IdentityValue
from gapless.model.input_formats import Format, parse_format
from gapless.predicate.range import identity_value
from gapless.tables import delta
from gapless.tables.shared.handle import Kind, kind_of, open_environment
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable


def option(metavar: str, text: str, *names: str, least: int | None = None) -> Any:
    """An option with a value, for `Annotated`; its name is the parameter's where `names` gives none."""
    return typer.Option(*names, metavar=metavar, help=text, show_default=False, min=least)


def flag(name: str, text: str) -> Any:
    """An option without a value, for `Annotated`."""
    return typer.Option(name, help=text)


def argument(metavar: str, text: str) -> Any:
    """An argument, for `Annotated`."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


JsonFlag = Annotated[bool, flag("--json", "Print one JSON document and nothing else.")]
UpgradeFlag = Annotated[bool, flag("--upgrade", "Allow the first write to a table of timeseries-table-format.")]
OperationText = Annotated[
    str | None,
    option(
        "ID", "Name of this change, so that sending it again changes nothing: APP:SEQUENCE for a stream, else a job's text."
    ),
]
Where = Annotated[str | None, option("SQL", "A condition, such as \"temp < 0 and origin = 'JFK'\".")]
ColumnNames = Annotated[str | None, option("A,B", "Columns to show, in this order.")]
ExcludedNames = Annotated[str | None, option("A,B", "Columns not to show, instead of --columns.")]
Start = Annotated[str | None, option("TIME", "First index value (inclusive), such as 2013-01-31T06:00Z.")]
End = Annotated[str | None, option("TIME", "Index value just past the range.")]
EntityFilter = Annotated[list[str] | None, option("NAME=VALUE", "Only these entity values; may be repeated.")]

AnyTable = TimeSeriesTable | delta.DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGroup:
    """Options that only one kind of table has; for a table of the other kind they are refused by name."""

    kind: ClassVar[Kind]
    why: ClassVar[str]
    """Why the other kind has none of them."""
    fix: ClassVar[str] = "Leave it out"
    """What to do instead."""

    def check(self, kind: Kind) -> None:
        """Raise InvalidOption for the first option that was given, where the table is of the other kind."""
        if kind != self.kind:
            refuse_given({field.name: getattr(self, field.name) for field in fields(self)}, self.why, self.fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange(OptionGroup):
    """A part of a time-series table: a half-open range of the index, and entity values."""

    kind: ClassVar[Kind] = "timeseries"
    why: ClassVar[str] = "A Delta table has no index and no entity columns"
    fix: ClassVar[str] = "Say it with --where"
    start: Start = None
    end: End = None
    entity: EntityFilter = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """The table that a command is about: where it lies, and how it is reached."""

    program: ClassVar[str] = "gapless"
    """What is typed before the name of a command."""
    path: Annotated[str, argument("PATH", "The table: a local path, or s3://, gs://, az://.")]
    storage_option: Annotated[
        list[str] | None, option("NAME=VALUE", "Option of the bucket, in obstore's names; may be repeated.")
    ] = None

    @property
    def storage(self) -> dict[str, str] | None:
        """The options of the bucket; raises InvalidOption for one that is no NAME=VALUE."""
        return parse_mapping("storage-option", self.storage_option) or None

    def open(self, *groups: OptionGroup, upgrade: bool = False) -> AnyTable:
        """The table at its newest version, of either kind.

        Raises as `gl.open` and `gl.delta.open`; InvalidOption where an option of `groups`, or `upgrade`, is not for its kind.
        """
        table = self._open(upgrade=upgrade)
        for group in groups:
            group.check(kind_of_table(table))
        return table

    def open_series(self, *, upgrade: bool = False) -> TimeSeriesTable:
        """The time-series table at its newest version; raises as `gl.open`."""
        return TimeSeriesTable.open(self.path, storage_options=self.storage, upgrade=upgrade)

    def open_delta(self) -> delta.DeltaTable:
        """The Delta table at its newest version; raises as `gl.delta.open`."""
        return delta.open(self.path, storage_options=self.storage)

    def is_delta(self) -> bool:
        """Whether a Delta table lies there, and no time-series table."""
        return kind_of(open_environment(self.path, self.storage).store) == "delta"

    def _open(self, *, upgrade: bool) -> AnyTable:
        try:
            return self.open_series(upgrade=upgrade)
        except TableNotFound:
            if not self.is_delta():
                raise
        refuse_given({"upgrade": upgrade}, "It is about time-series tables")
        return self.open_delta()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTableRef(TableRef):
    """The table of a command after `gapless delta`: no other kind is opened."""

    program: ClassVar[str] = "gapless delta"

    def _open(self, *, upgrade: bool) -> delta.DeltaTable:
        refuse_given({"upgrade": upgrade}, "It is about time-series tables")
        return self.open_delta()


def kind_of_table(table: AnyTable | TableView | delta.DeltaView) -> Kind:
    """The kind of an open table."""
    return "timeseries" if isinstance(table, TableView) else "delta"


def file_noun(table: AnyTable) -> str:
    """What messages call a data file of a table."""
    return "segment" if isinstance(table, TimeSeriesTable) else "file"


def refuse_given(options: Mapping[str, object], why: str, fix: str = "Leave it out") -> None:
    """Raise InvalidOption for the first of these options that was given: one that is not None, False or empty."""
    for name, value in options.items():
        if value not in (None, False, (), []):
            shown = name.replace("_", "-")
            raise InvalidOption(f"--{shown} means nothing here", why=why, fix=fix, option=shown, value=value)


# -- texts ---------------------------------------------------------------------------------------------------------------


def parse_pairs(option: str, texts: Sequence[str] | None, *, dashes: str = "--") -> list[tuple[str, str]]:
    """`NAME=VALUE` texts as pairs; raises InvalidOption for one without `=` or without a name. Words of an action have no dashes."""
    pairs = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            what, fix = f"{dashes}{option} {text!r} is no NAME=VALUE", f"Write it as {dashes}{option} name=value"
            raise InvalidOption(what, fix=fix, option=option, value=text)
        pairs.append((name, value))
    return pairs


def parse_mapping(option: str, texts: Sequence[str] | None, *, dashes: str = "--") -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; raises InvalidOption as `parse_pairs`, and for a name given twice."""
    found: dict[str, str] = {}
    for name, value in parse_pairs(option, texts, dashes=dashes):
        if name in found:
            raise InvalidOption(f"{dashes}{option} {name} is given twice", fix="Give it once", option=option, value=name)
        found[name] = value
    return found


def parse_operation(text: str | None) -> tuple[str, int] | str | None:
    """An operation id as typed: `job-7:42` is sequence 42 of the stream job-7, any other text a job.

    >>> parse_operation("job-7:42"), parse_operation("backfill-2026-01-05")
    (('job-7', 42), 'backfill-2026-01-05')
    """
    app, colon, sequence = (text or "").rpartition(":")
    return (app, int(sequence)) if colon and sequence.isascii() and sequence.isdigit() else text


def parse_columns(table: TableView | delta.DeltaView, text: str | None) -> list[str] | None:
    """`--columns A,B` as the names that scans take; None for all."""
    return None if text is None else split_names(text, table.schema.names if table.schema is not None else ())


def split_names(text: str, known: Sequence[str]) -> list[str]:
    """Column names between commas; a name that itself holds a comma is taken whole where it is the only one.

    >>> split_names("a,b", ["a", "b"])
    ['a', 'b']
    """
    return [text] if text in known else text.split(",")


def parse_entity(table: TableView, texts: Sequence[str] | None) -> dict[str, list[IdentityValue]]:
    """`--entity NAME=VALUE` as the filter that scans and coverage take; several values of one column are alternatives."""
    wanted: dict[str, list[IdentityValue]] = {}
    for name, text in parse_pairs("entity", texts):
        if name not in table.entity:
            why = "It takes the table's entity columns; scan --where filters by any other"
            raise UnknownColumn(
                f"--entity {name} names no entity column",
                why=why,
                fix=nearest(name, table.entity),
                column=name,
                columns=table.entity,
            )
        wanted.setdefault(name, []).append(parse_entity_value(table, name, text))
    return wanted


def parse_entity_value(table: TableView, column: str, text: str) -> IdentityValue:
    """A text as its entity column's type has it; raises InvalidOption. A table without columns yet takes it as a text."""
    return identity_value(column, pa.string() if table.schema is None else table.schema.field(column).type, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """Files whose rows become one commit."""

    files: Annotated[list[str], argument("FILES", "Files, directories or globs: together one commit, all or nothing.")]
    format_: Annotated[
        str | None, option("NAME", "parquet, csv, tsv or jsonl; the file's suffix decides where not given.", "--format")
    ] = None

    @property
    def format(self) -> Format | None:
        """The format; None where the suffix of each file decides. Raises InvalidOption."""
        return choose_format(self.format_, {}, self.files)

    @property
    def label(self) -> str:
        """The files in a word or two, for a progress bar."""
        return self.files[0] + (f" and {len(self.files) - 1} more" if self.files[1:] else "")

    def read(self, table: AnyTable, progress: Progress) -> list[Batches]:
        """The rows, not read yet, as the table's columns are typed; `progress` is told of them as they are read."""
        index = table.index if isinstance(table, TimeSeriesTable) else None
        return watched(open_files(expand_paths(self.files), self.format, index=index, schema=table.schema), progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFiles(InputFiles):
    """Files whose rows become one commit, with what their texts mean."""

    nulls: Annotated[list[str] | None, option("TEXT", "CSV: a text that means null; may be repeated.", "--null")] = None
    delimiter: Annotated[str | None, option("CHAR", "CSV: what stands between fields.")] = None
    escape: Annotated[
        str | None, option("CHAR", "CSV: what stands before quotes within quoted texts, such as \\ of Spark and MySQL.")
    ] = None
    encoding: Annotated[str | None, option("NAME", "CSV: how characters are encoded, such as cp1252.")] = None
    max_line_size: Annotated[
        int | None, option("BYTES", "CSV, JSON: the longest row, in bytes; 67108864 (64 MiB) where not given.")
    ] = None
    timestamp_format: Annotated[str | None, option("STRPTIME", "CSV, JSON: format of times, such as %d/%m/%Y %H:%M.")] = None
    timestamp_unit: Annotated[
        str | None, option("UNIT", "CSV, JSON: what times that are numbers count since 1970: s, ms, us, ns.")
    ] = None

    @property
    def format(self) -> Format | None:
        """The format with the options that were given; None where the suffix of each file decides. Raises InvalidOption."""
        return choose_format(self.format_, {name: getattr(self, name) for name in _FORMAT_OPTIONS}, self.files)


_FORMAT_OPTIONS = {
    "nulls": "--null",
    "delimiter": "--delimiter",
    "escape": "--escape",
    "encoding": "--encoding",
    "max_line_size": "--max-line-size",
    "timestamp_format": "--timestamp-format",
    "timestamp_unit": "--timestamp-unit",
}


def choose_format(name: str | None, options: Mapping[str, object], files: Sequence[str]) -> Format | None:
    """The format with those of the options that are not None; None where the suffix of each file decides, with none.

    Options without a --format need files of one kind. Raises InvalidOption.
    """
    chosen = parse_format(name)
    given = {option: value for option, value in options.items() if value is not None}
    if not given:
        return chosen
    if chosen is None:
        chosen = _common_format(files, _FORMAT_OPTIONS[next(iter(given))])
    known = {field.name for field in fields(chosen)}
    for name_given, value in given.items():
        if name_given not in known:
            what = f"{_FORMAT_OPTIONS[name_given]} means nothing for {type(chosen).__name__} files"
            raise InvalidOption(what, fix="Leave it out, or say --format csv", option=name_given, value=value)
    if given.get("delimiter") == "\\t":
        given = {**given, "delimiter": "\t"}
    return replace(chosen, **given)  # type: ignore[arg-type]  # each value is checked as the format is born


def _common_format(files: Sequence[str], because: str) -> Format:
    """The one format that the suffixes of all files say; raises InvalidOption where they differ."""
    suffixes: dict[str, Format] = {}
    for path in expand_paths(files):
        suffixes.setdefault(Path(str(path)).suffix, format_of(path, None))
    first, *others = suffixes.values()
    if any(other != first for other in others):
        raise InvalidOption(
            f"{because} is given, and the files are of several formats",
            why=f"Their names end in {', '.join(suffixes)}",
            fix="Append each kind by itself, or say --format",
            option="format", value=None,
        )  # fmt: skip
    return first
