"""`alter`: change the columns of a table.

`delta alter`: change what a Delta table is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import pyarrow as pa
import typer

from gapless.cli.options import (
    Action,
    Given,
    JsonFlag,
    StorageOptions,
    TablePath,
    UpgradeFlag,
    chosen,
    open_delta,
    open_table,
    option,
    parse_mapping,
)
from gapless.cli.show.console import say, write_json
from gapless.cli.show.values import parse_type_text
from gapless.draw.label import printable
from gapless.errors import InvalidOption, InvalidValue
from gapless.files.ingest.instants import Reading, read_cells
from gapless.files.ingest.texts import Cells
from gapless.tables import delta
from gapless.tables.timeseries.table import TimeSeriesTable


def alter(
    path: TablePath,
    action: Annotated[str, typer.Argument(metavar="ACTION", help="What to do; see below.", show_default=False)],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="What the action takes; see below.", show_default=False)
    ] = None,
    default: Annotated[str | None, option("VALUE", "add: what rows have that lack the column; null where not given.")] = None,
    after: Annotated[str | None, option("COLUMN", "add: the column that it follows; it is the last where not given.")] = None,
    comment: Annotated[str | None, option("TEXT", "add: what the column is.")] = None,
    within: Annotated[str | None, option("COLUMN", "reorder: the struct whose fields are meant.")] = None,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Change the columns: add, widen, rename, drop, reorder or comment; segments stay as they are.

    The actions: add NAME TYPE, widen NAME TYPE, rename NAME NEW, drop NAME, reorder NAME…, comment NAME [TEXT].
    A nested field goes by its path, such as address.city; a type is written as `gapless schema` prints it.

    Example: gapless alter prices add venue string --default XNAS
    """
    given = {"default": default, "after": after, "comment": comment, "within": within}
    what = chosen(_ACTIONS, action, words or (), given, "gapless alter")
    table = open_table(path, storage_option, upgrade=upgrade)
    before = table.version
    version = what.do(table, words or (), given)
    tell_version(table, before, version, " ".join((action, *(words or ()))), json=json)


def tell_version(table: TimeSeriesTable | delta.DeltaTable, before: int, version: int, said: str, *, json: bool) -> None:
    """Print which version a change led to; `before` is the one that it was made from."""
    if json:
        write_json({"table": table.url, "version": version, "changed": version != before})
    elif version == before:
        say(f"Nothing to change, still version {version}.")
    else:
        say(f"Version {version}: {printable(said)}")


def _add(table: TimeSeriesTable, words: Sequence[str], options: Given) -> int:
    name, type_ = words[0], parse_type_text(words[1])
    default = None if options["default"] is None else _default(options["default"], type_, name)
    return table.add_column(name, type_, default=default, after=options["after"], comment=options["comment"])


def _default(text: str, type_: pa.DataType, name: str) -> pa.Scalar:
    cells = Cells(texts=pa.array([text]), column=name, source="--default", row=0)
    try:
        return read_cells(cells, Reading(type=type_))[0]
    except InvalidValue as error:
        raise InvalidOption(
            f"--default {text!r} is no value of {type_}", why=error.why, fix="Write one", option="default", value=text
        ) from error


def _widen(table: TimeSeriesTable, words: Sequence[str], _: Given) -> int:
    return table.widen_column(words[0], parse_type_text(words[1]))


def _rename(table: TimeSeriesTable, words: Sequence[str], _: Given) -> int:
    return table.rename_column(words[0], words[1])


def _drop(table: TimeSeriesTable, words: Sequence[str], _: Given) -> int:
    return table.drop_column(words[0])


def _reorder(table: TimeSeriesTable, words: Sequence[str], options: Given) -> int:
    return table.reorder_columns(words, within=options["within"])


def _comment(table: TimeSeriesTable, words: Sequence[str], _: Given) -> int:
    return table.comment_column(words[0], words[1] if words[1:] else None)


_ACTIONS: Mapping[str, Action[TimeSeriesTable]] = {
    "add": Action(do=_add, words="NAME TYPE", least=2, most=2, options=frozenset({"default", "after", "comment"})),
    "widen": Action(do=_widen, words="NAME TYPE", least=2, most=2),
    "rename": Action(do=_rename, words="NAME NEW", least=2, most=2),
    "drop": Action(do=_drop, words="NAME", least=1, most=1),
    "reorder": Action(do=_reorder, words="NAME…", least=1, most=None, options=frozenset({"within"})),
    "comment": Action(do=_comment, words="NAME [TEXT]", least=1, most=2),
}


def delta_alter(
    path: TablePath,
    action: Annotated[str, typer.Argument(metavar="ACTION", help="What to do; see below.", show_default=False)],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS", help="What the action takes; see below.", show_default=False)
    ] = None,
    after: Annotated[str | None, option("COLUMN", "add: the column that it follows; it is the last where not given.")] = None,
    comment: Annotated[str | None, option("TEXT", "add: what the column is.")] = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Change columns, properties and constraints; data files stay as they are.

    The actions: add NAME TYPE, widen NAME TYPE, rename NAME NEW, drop NAME, default NAME [SQL], comment NAME [TEXT],
    set PROPERTY=VALUE…, unset PROPERTY…, add-constraint NAME SQL, drop-constraint NAME.
    A nested field goes by its path, such as address.city; a type is written as `gapless schema` prints it.

    Example: gapless delta alter trips add-constraint paid 'fare >= 0'
    """
    given = {"after": after, "comment": comment}
    what = chosen(_DELTA_ACTIONS, action, words or (), given, "gapless delta alter")
    table = open_delta(path, storage_option)
    before = table.version
    version = what.do(table, words or (), given)
    tell_version(table, before, version, " ".join((action, *(words or ()))), json=json)


def _add_delta(table: delta.DeltaTable, words: Sequence[str], given: Given) -> int:
    return table.alter.add_column(words[0], parse_type_text(words[1]), after=given["after"], comment=given["comment"])


def _widen_delta(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.widen(words[0], parse_type_text(words[1]))


def _rename_delta(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.rename_column(words[0], words[1])


def _drop_delta(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.drop_column(words[0])


def _default_delta(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.set_default(words[0], words[1] if words[1:] else None)


def _comment_delta(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.comment_column(words[0], words[1] if words[1:] else None)


def _set(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.set_properties(parse_mapping("set", words, dashes=""))


def _unset(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.unset_properties(words)


def _add_constraint(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.add_constraint(words[0], words[1])


def _drop_constraint(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.drop_constraint(words[0])


_DELTA_ACTIONS: Mapping[str, Action[delta.DeltaTable]] = {
    "add": Action(do=_add_delta, words="NAME TYPE", least=2, most=2, options=frozenset({"after", "comment"})),
    "widen": Action(do=_widen_delta, words="NAME TYPE", least=2, most=2),
    "rename": Action(do=_rename_delta, words="NAME NEW", least=2, most=2),
    "drop": Action(do=_drop_delta, words="NAME", least=1, most=1),
    "default": Action(do=_default_delta, words="NAME [SQL]", least=1, most=2),
    "comment": Action(do=_comment_delta, words="NAME [TEXT]", least=1, most=2),
    "set": Action(do=_set, words="PROPERTY=VALUE…", least=1, most=None),
    "unset": Action(do=_unset, words="PROPERTY…", least=1, most=None),
    "add-constraint": Action(do=_add_constraint, words="NAME SQL", least=2, most=2),
    "drop-constraint": Action(do=_drop_constraint, words="NAME", least=1, most=1),
}
