"""`delta alter`: change what a Delta table is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from gapless.cli.actions import Action, Given, chosen
from gapless.cli.alter import tell_version
from gapless.cli.options import JsonFlag, StorageOptions, TablePath, open_delta, option, parse_mapping
from gapless.cli.type_texts import parse_type_text
from gapless.table import delta


def alter(
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
    what = chosen(_ACTIONS, action, words or (), given, "gapless delta alter")
    table = open_delta(path, storage_option)
    before = table.version
    version = what.do(table, words or (), given)
    tell_version(table, before, version, " ".join((action, *(words or ()))), json=json)


def _add(table: delta.DeltaTable, words: Sequence[str], given: Given) -> int:
    return table.alter.add_column(words[0], parse_type_text(words[1]), after=given["after"], comment=given["comment"])


def _widen(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.widen(words[0], parse_type_text(words[1]))


def _rename(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.rename_column(words[0], words[1])


def _drop(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.drop_column(words[0])


def _default(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.set_default(words[0], words[1] if words[1:] else None)


def _comment(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.comment_column(words[0], words[1] if words[1:] else None)


def _set(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.set_properties(parse_mapping("set", words, dashes=""))


def _unset(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.unset_properties(words)


def _add_constraint(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.add_constraint(words[0], words[1])


def _drop_constraint(table: delta.DeltaTable, words: Sequence[str], _: Given) -> int:
    return table.alter.drop_constraint(words[0])


_ACTIONS: Mapping[str, Action[delta.DeltaTable]] = {
    "add": Action(do=_add, words="NAME TYPE", least=2, most=2, options=frozenset({"after", "comment"})),
    "widen": Action(do=_widen, words="NAME TYPE", least=2, most=2),
    "rename": Action(do=_rename, words="NAME NEW", least=2, most=2),
    "drop": Action(do=_drop, words="NAME", least=1, most=1),
    "default": Action(do=_default, words="NAME [SQL]", least=1, most=2),
    "comment": Action(do=_comment, words="NAME [TEXT]", least=1, most=2),
    "set": Action(do=_set, words="PROPERTY=VALUE…", least=1, most=None),
    "unset": Action(do=_unset, words="PROPERTY…", least=1, most=None),
    "add-constraint": Action(do=_add_constraint, words="NAME SQL", least=2, most=2),
    "drop-constraint": Action(do=_drop_constraint, words="NAME", least=1, most=1),
}
