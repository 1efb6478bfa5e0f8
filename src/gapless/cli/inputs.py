"""Input files of commands that write rows: which ones, and in which format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated

from gapless.cli.options import AnyTable, argument, option
from gapless.errors import InvalidOption
from gapless.files.ingest.batches import Batches, Progress, watched
from gapless.files.ingest.files import expand_paths, format_of, open_files
from gapless.model.input_formats import Format, parse_format
from gapless.tables.timeseries.table import TimeSeriesTable


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
        suffixes.setdefault(path.suffix, format_of(path, None))
    first, *others = suffixes.values()
    if any(other != first for other in others):
        raise InvalidOption(
            f"{because} is given, and the files are of several formats",
            why=f"Their names end in {', '.join(suffixes)}",
            fix="Append each kind by itself, or say --format",
            option="format", value=None,
        )  # fmt: skip
    return first
