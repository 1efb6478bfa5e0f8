"""`alter`: add, widen, rename, drop, reorder and comment columns; properties and constraints of Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Generic, TypeVar

import pyarrow as pa

from gapless.cli.options import AnyTable, DeltaTableRef, JsonFlag, TableRef, UpgradeFlag, argument, option, parse_mapping
from gapless.cli.show.console import print_line, write_json
from gapless.cli.show.values import parse_type_text
from gapless.draw.label import printable
from gapless.errors import InvalidOption, InvalidValue, nearest
from gapless.files.ingest.cells.instants import Reading, read_cells
from gapless.files.ingest.cells.texts import Cells
from gapless.tables import delta
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.table import TimeSeriesTable

ActionName = Annotated[str, argument("ACTION", "What to do; see below.")]
Words = Annotated[list[str] | None, argument("WORDS", "What the action takes; see below.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions:
    """What else may be said of a column that is added."""

    after: Annotated[str | None, option("COLUMN", "add: the column that it follows; it is the last where not given.")] = None
    comment: Annotated[str | None, option("TEXT", "add: what the column is.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOptions(AddOptions):
    """What may be said beside the words of an action; each belongs to one of them."""

    default: Annotated[
        str | None, option("VALUE", "add: what rows have that lack the column; null where not given. Not of a Delta table.")
    ] = None
    within: Annotated[str | None, option("COLUMN", "reorder: the struct whose fields are meant.")] = None


def alter(
    table: TableRef,
    action: ActionName,
    options: AlterOptions,
    words: Words = None,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Alter the schema: add, widen, rename, drop, reorder or comment columns; data files are not rewritten.

    The actions: add NAME TYPE, widen NAME TYPE, rename NAME NEW, drop NAME, reorder NAME…, comment NAME [TEXT].
    A nested field goes by its path, such as address.city; a type is written as `gapless schema` prints it.
    A Delta table has no reorder, and the further actions of `gapless delta alter`.

    Example: gapless alter prices add venue string --default XNAS
    """
    opened, given = table.open(upgrade=upgrade), words or ()
    before = opened.version
    if isinstance(opened, TimeSeriesTable):
        version = _run(_SERIES_ACTIONS, opened, action, given, options, table.program)
    else:
        version = _run(_DELTA_ACTIONS, opened, action, given, options, table.program)
    if json:
        write_json({"table": opened.url, "version": version, "changed": version != before})
    elif version == before:
        print_line(f"Nothing to change, still version {version}.")
    else:
        print_line(f"Version {version}: {printable(' '.join((action, *given)))}")


def delta_alter(
    table: DeltaTableRef, action: ActionName, options: AddOptions, words: Words = None, json: JsonFlag = False
) -> None:
    """Alter columns, properties and constraints; data files are not rewritten.

    The actions: add NAME TYPE, widen NAME TYPE, rename NAME NEW, drop NAME, default NAME [SQL], comment NAME [TEXT],
    set PROPERTY=VALUE…, unset PROPERTY…, add-constraint NAME SQL, drop-constraint NAME.
    A nested field goes by its path, such as address.city; a type is written as `gapless schema` prints it.

    Example: gapless delta alter trips add-constraint paid 'fare >= 0'
    """
    alter(table, action, AlterOptions(after=options.after, comment=options.comment), words, json=json)


T = TypeVar("T", bound=AnyTable)


@dataclass(frozen=True, slots=True)
class Action(Generic[T]):
    """One action of `alter` for one kind of table."""

    takes: str
    """Its words; those in brackets may be left out, and the last may be repeated where it ends in "…"."""
    run: Callable[[T, Sequence[str], AlterOptions], int]
    """Does it to the table; gives back the version that holds it."""
    options: tuple[str, ...] = ()

    def check(self, name: str, words: Sequence[str], options: AlterOptions, program: str) -> None:
        """Raise InvalidOption for other words or options than it takes."""
        known = self.takes.split()
        least, most = sum("[" not in word for word in known), None if self.takes.endswith("…") else len(known)
        if len(words) < least or (most is not None and len(words) > most):
            raise InvalidOption(
                f"{name} takes {self.takes}, and {count(len(words), 'word')} {'was' if len(words) == 1 else 'were'} given",
                fix=f"Write {program} alter PATH {name} {self.takes}; quote a word that holds blanks",
                option="WORDS", value=list(words),
            )  # fmt: skip
        for option_name, value in asdict(options).items():
            if value is not None and option_name not in self.options:
                what = f"--{option_name} means nothing for {name}"
                raise InvalidOption(what, fix="Leave it out", option=option_name, value=value)


def _run(
    actions: Mapping[str, Action[T]], table: T, name: str, words: Sequence[str], options: AlterOptions, program: str
) -> int:
    """Do the action of a name; raises InvalidOption for one that is not known, or that takes other words or options."""
    action = actions.get(name)
    if action is None:
        kind = "time-series" if isinstance(table, TimeSeriesTable) else "Delta"
        why = f"A {kind} table has none of that name" if name in {*_SERIES_ACTIONS, *_DELTA_ACTIONS} else ""
        raise InvalidOption(f"{name!r} is no action", why=why, fix=nearest(name, actions), option="ACTION", value=name)
    action.check(name, words, options, program)
    return action.run(table, words, options)


def _add(table: TimeSeriesTable, words: Sequence[str], options: AlterOptions) -> int:
    name, type_ = words[0], parse_type_text(words[1])
    default = None if options.default is None else _parse_default(options.default, type_, name)
    return table.add_column(name, type_, default=default, after=options.after, comment=options.comment)


def _parse_default(text: str, type_: pa.DataType, name: str) -> pa.Scalar:
    cells = Cells(texts=pa.array([text]), column=name, source="--default", row=0)
    try:
        return read_cells(cells, Reading(type=type_))[0]
    except InvalidValue as error:
        raise InvalidOption(
            f"--default {text!r} is no value of {type_}", why=error.why, fix="Write one", option="default", value=text
        ) from error


def _second(words: Sequence[str]) -> str | None:
    return words[1] if words[1:] else None


_SERIES_ACTIONS: Mapping[str, Action[TimeSeriesTable]] = {
    "add": Action("NAME TYPE", _add, ("default", "after", "comment")),
    "widen": Action("NAME TYPE", lambda table, words, _: table.widen_column(words[0], parse_type_text(words[1]))),
    "rename": Action("NAME NEW", lambda table, words, _: table.rename_column(words[0], words[1])),
    "drop": Action("NAME", lambda table, words, _: table.drop_column(words[0])),
    "reorder": Action("NAME…", lambda table, words, options: table.reorder_columns(words, within=options.within), ("within",)),
    "comment": Action("NAME [TEXT]", lambda table, words, _: table.comment_column(words[0], _second(words))),
}
_DELTA_ACTIONS: Mapping[str, Action[delta.DeltaTable]] = {
    "add": Action(
        "NAME TYPE",
        lambda table, words, options: table.alter.add_column(
            words[0], parse_type_text(words[1]), after=options.after, comment=options.comment
        ),
        ("after", "comment"),
    ),
    "widen": Action("NAME TYPE", lambda table, words, _: table.alter.widen(words[0], parse_type_text(words[1]))),
    "rename": Action("NAME NEW", lambda table, words, _: table.alter.rename_column(words[0], words[1])),
    "drop": Action("NAME", lambda table, words, _: table.alter.drop_column(words[0])),
    "default": Action("NAME [SQL]", lambda table, words, _: table.alter.set_default(words[0], _second(words))),
    "comment": Action("NAME [TEXT]", lambda table, words, _: table.alter.comment_column(words[0], _second(words))),
    "set": Action(
        "PROPERTY=VALUE…", lambda table, words, _: table.alter.set_properties(parse_mapping("set", words, dashes=""))
    ),
    "unset": Action("PROPERTY…", lambda table, words, _: table.alter.unset_properties(words)),
    "add-constraint": Action("NAME SQL", lambda table, words, _: table.alter.add_constraint(words[0], words[1])),
    "drop-constraint": Action("NAME", lambda table, words, _: table.alter.drop_constraint(words[0])),
}
