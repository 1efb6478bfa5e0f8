"""Arguments and options that several commands share, and what their texts mean.

Actions of a command: words that say what to do, each with words and options of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import pyarrow as pa
import typer

from gapless.errors import InvalidOption, TableNotFound, UnknownColumn, nearest
from gapless.model.index import IdentityValue
from gapless.predicate.range import identity_value
from gapless.tables import delta
from gapless.tables.shared.findings import count
from gapless.tables.shared.lifecycle import kind_of, open_environment
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable


def option(metavar: str, text: str, *names: str, least: int | None = None) -> Any:
    """An option with a value, for `Annotated`; its name is the parameter's where `names` gives none."""
    return typer.Option(*names, metavar=metavar, help=text, show_default=False, min=least)


TablePath = Annotated[
    str, typer.Argument(metavar="PATH", help="The table: a local path, or s3://, gs://, az://.", show_default=False)
]
StorageOptions = Annotated[
    list[str] | None,
    option("NAME=VALUE", "Option of the bucket, in obstore's names; may be repeated.", "--storage-option"),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
UpgradeFlag = Annotated[bool, typer.Option("--upgrade", help="Allow the first write to a table of timeseries-table-format.")]
InputFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES", help="Files, directories or globs: together one commit, all or nothing.", show_default=False
    ),
]
FormatName = Annotated[
    str | None, option("NAME", "parquet, csv, tsv or jsonl; the file's suffix decides where not given.", "--format")
]
OperationText = Annotated[
    str | None,
    option(
        "ID", "Name of this change, so that sending it again changes nothing: APP:SEQUENCE for a stream, else a job's text."
    ),
]
CsvNulls = Annotated[list[str] | None, option("TEXT", "CSV: a text that means null; may be repeated.", "--null")]
CsvDelimiter = Annotated[str | None, option("CHAR", "CSV: what stands between fields.", "--delimiter")]
TimestampFormat = Annotated[
    str | None, option("STRPTIME", "CSV, JSON: format of times, such as %d/%m/%Y %H:%M.", "--timestamp-format")
]
TimestampUnit = Annotated[
    str | None,
    option("UNIT", "CSV, JSON: what times that are numbers count since 1970: s, ms, us, ns.", "--timestamp-unit"),
]
Where = Annotated[str | None, option("SQL", "A condition, such as \"temp < 0 and origin = 'JFK'\".", "--where")]
ColumnNames = Annotated[str | None, option("A,B", "Columns to show, in this order.", "--columns")]
Start = Annotated[
    str | None,
    option("TIME", "First index value (inclusive), such as 2013-01-31T06:00Z.", "--start"),
]
End = Annotated[str | None, option("TIME", "Index value just past the range.", "--end")]
Until = Annotated[
    str | None,
    option("TIME", "Index value just past the range; `now` shows a dead feed.", "--until", "--end"),
]
EntityFilter = Annotated[
    list[str] | None,
    option("NAME=VALUE", "Only these entity values; may be repeated.", "--entity"),
]
ExpectFile = Annotated[
    str | None,
    option("FILE", "The expected identities: a CSV file headed by the entity columns, or one value a line.", "--expect"),
]

CalendarText = Annotated[
    str | None,
    option(
        "HOURS",
        "When rows are expected: 'mon-fri 09:30-16:00 America/New_York except 2026-12-25', or an exchange such as XNYS.",
        "--calendar",
    ),
]


FirstVersion = Annotated[int, typer.Argument(metavar="FROM", help="First version whose changes are told.", show_default=False)]
LastVersion = Annotated[
    int | None, typer.Argument(metavar="TO", help="Last version, inclusive; the newest without it.", show_default=False)
]
FeedColumns = Annotated[str | None, option("A,B", "Columns to show, in this order, before those of the feed.")]


def parse_pairs(option: str, texts: Sequence[str] | None, *, dashes: str = "--") -> list[tuple[str, str]]:
    """`NAME=VALUE` texts as pairs; raises InvalidOption for one without `=` or without a name. Words of an action have no dashes."""
    pairs = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidOption(
                f"{dashes}{option} {text!r} is no NAME=VALUE",
                fix=f"Write it as {dashes}{option} name=value",
                option=option,
                value=text,
            )
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


def open_table(path: str, storage_options: Sequence[str] | None, *, upgrade: bool = False) -> TimeSeriesTable:
    """The table at its newest version; raises as `TimeSeriesTable.open`, and InvalidOption."""
    return TimeSeriesTable.open(path, storage_options=parse_mapping("storage-option", storage_options) or None, upgrade=upgrade)


def open_any(path: str, storage_options: Sequence[str] | None, *, upgrade: bool = False) -> TimeSeriesTable | delta.DeltaTable:
    """The table of either kind at its newest version; raises as `open_table`."""
    try:
        return open_table(path, storage_options, upgrade=upgrade)
    except TableNotFound:
        if not is_delta(path, storage_options):
            raise
    refuse_given({"upgrade": upgrade}, "It is about time-series tables")
    return open_delta(path, storage_options)


def is_delta(path: str, storage_options: Sequence[str] | None) -> bool:
    """Whether a Delta table lies there, and no time-series table."""
    return kind_of(open_environment(path, parse_mapping("storage-option", storage_options) or None).store) == "delta"


def open_delta(path: str, storage_options: Sequence[str] | None) -> delta.DeltaTable:
    """The Delta table at its newest version; raises as `gl.delta.open`, and InvalidOption."""
    return delta.open(path, storage_options=parse_mapping("storage-option", storage_options) or None)


def refuse_given(options: Mapping[str, object], why: str, fix: str = "Leave it out") -> None:
    """Raise InvalidOption for the first of these options that was given: one that is not None, False or empty."""
    for name, value in options.items():
        if value not in (None, False, (), []):
            raise InvalidOption(f"--{name} means nothing here", why=why, fix=fix, option=name, value=value)


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


T = TypeVar("T")
Given = Mapping[str, str | None]
"""What may be said beside the words of an action, by the option's name; None where it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Generic[T]):
    """One of them."""

    do: Callable[[T, Sequence[str], Given], int]
    """Does it to the table; gives back the version that holds it."""
    words: str
    """What it takes, for messages."""
    least: int
    most: int | None
    options: frozenset[str] = frozenset()


def chosen(known: Mapping[str, Action[T]], name: str, words: Sequence[str], given: Given, command: str) -> Action[T]:
    """The action of a name; raises InvalidOption for one that is not known, or that takes other words or options."""
    action = known.get(name)
    if action is None:
        raise InvalidOption(f"{name!r} is no action", fix=nearest(name, known), option="ACTION", value=name)
    if len(words) < action.least or (action.most is not None and len(words) > action.most):
        raise InvalidOption(
            f"{name} takes {action.words}, and {count(len(words), 'word')} {'was' if len(words) == 1 else 'were'} given",
            fix=f"Write {command} PATH {name} {action.words}; quote a word that holds blanks",
            option="WORDS", value=list(words),
        )  # fmt: skip
    for option, value in given.items():
        if value is not None and option not in action.options:
            raise InvalidOption(f"--{option} means nothing for {name}", fix="Leave it out", option=option, value=value)
    return action
