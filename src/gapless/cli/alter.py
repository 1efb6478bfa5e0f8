"""`alter`: change the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import typer

from gapless.cli.console import say, write_json
from gapless.cli.options import JsonFlag, StorageOptions, TablePath, UpgradeFlag, open_table, option
from gapless.cli.type_texts import parse_type_text
from gapless.draw.label import printable
from gapless.errors import InvalidOption, InvalidValue, nearest
from gapless.maintain.finding import count
from gapless.parquet.instants import Reading, read_cells
from gapless.parquet.texts import Cells
from gapless.table.table import TimeSeriesTable


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What may be said beside the words of an action."""

    default: str | None
    after: str | None
    comment: str | None
    within: str | None


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
    given = _Options(default=default, after=after, comment=comment, within=within)
    do = _checked(action, words or (), given)
    table = open_table(path, storage_option, upgrade=upgrade)
    before = table.version
    version = do(table, words or (), given)
    if json:
        write_json({"table": table.url, "version": version, "changed": version != before})
    elif version == before:
        say(f"Nothing to change, still version {version}.")
    else:
        say(f"Version {version}: {printable(' '.join((action, *(words or ()))))}")


def _add(table: TimeSeriesTable, words: Sequence[str], options: _Options) -> int:
    name, type_ = words[0], parse_type_text(words[1])
    default = None if options.default is None else _default(options.default, type_, name)
    return table.add_column(name, type_, default=default, after=options.after, comment=options.comment)


def _default(text: str, type_: pa.DataType, name: str) -> pa.Scalar:
    cells = Cells(texts=pa.array([text]), column=name, source="--default", row=0)
    try:
        return read_cells(cells, Reading(type=type_))[0]
    except InvalidValue as error:
        raise InvalidOption(
            f"--default {text!r} is no value of {type_}", why=error.why, fix="Write one", option="default", value=text
        ) from error


def _widen(table: TimeSeriesTable, words: Sequence[str], _: _Options) -> int:
    return table.widen_column(words[0], parse_type_text(words[1]))


def _rename(table: TimeSeriesTable, words: Sequence[str], _: _Options) -> int:
    return table.rename_column(words[0], words[1])


def _drop(table: TimeSeriesTable, words: Sequence[str], _: _Options) -> int:
    return table.drop_column(words[0])


def _reorder(table: TimeSeriesTable, words: Sequence[str], options: _Options) -> int:
    return table.reorder_columns(words, within=options.within)


def _comment(table: TimeSeriesTable, words: Sequence[str], _: _Options) -> int:
    return table.comment_column(words[0], words[1] if words[1:] else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Action:
    do: Callable[[TimeSeriesTable, Sequence[str], _Options], int]
    words: str
    """What it takes, for messages."""
    least: int
    most: int | None
    options: frozenset[str] = frozenset()


_ACTIONS = {
    "add": _Action(do=_add, words="NAME TYPE", least=2, most=2, options=frozenset({"default", "after", "comment"})),
    "widen": _Action(do=_widen, words="NAME TYPE", least=2, most=2),
    "rename": _Action(do=_rename, words="NAME NEW", least=2, most=2),
    "drop": _Action(do=_drop, words="NAME", least=1, most=1),
    "reorder": _Action(do=_reorder, words="NAME…", least=1, most=None, options=frozenset({"within"})),
    "comment": _Action(do=_comment, words="NAME [TEXT]", least=1, most=2),
}


def _checked(action: str, words: Sequence[str], given: _Options) -> Callable[[TimeSeriesTable, Sequence[str], _Options], int]:
    """What to do; raises InvalidOption for an action that is not known, or one that takes other words or options."""
    known = _ACTIONS.get(action)
    if known is None:
        raise InvalidOption(f"{action!r} is no action", fix=nearest(action, _ACTIONS), option="ACTION", value=action)
    if len(words) < known.least or (known.most is not None and len(words) > known.most):
        raise InvalidOption(
            f"{action} takes {known.words}, and {count(len(words), 'word')} {'was' if len(words) == 1 else 'were'} given",
            fix=f"Write gapless alter PATH {action} {known.words}; quote a word that holds blanks",
            option="WORDS", value=list(words),
        )  # fmt: skip
    for name in ("default", "after", "comment", "within"):
        if getattr(given, name) is not None and name not in known.options:
            raise InvalidOption(
                f"--{name} means nothing for {action}", fix="Leave it out", option=name, value=getattr(given, name)
            )
    return known.do
