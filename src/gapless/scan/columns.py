"""Column names as SQL writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from gapless.errors import InvalidFilter, UnknownColumn, nearest
from gapless.scan.kinds import column_type
from gapless.scan.predicate import Column


def check_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Raise UnknownColumn for the first name that is no top-level column of `schema`."""
    for name in names:
        if name not in schema.names:
            known = tuple(schema.names)
            raise UnknownColumn(f"there is no column {name!r}", fix=nearest(name, known), column=name, columns=known)


def find_column(parts: Sequence[str], schema: pa.Schema, where: str, argument: str = "where") -> Column:
    """The column of `schema` that `parts` name: a top-level column, then fields of structs.

    A name matches exactly, else without regard to case where that is unique. Raises UnknownColumn, and InvalidFilter
    where several columns match; both show the text `where`, and which `argument` it is of.
    """
    path: list[str] = []
    names = tuple(schema.names)
    for part in parts:
        path.append(_match(part, names, where, argument))
        found = column_type(Column(path=tuple(path)), schema)
        names = tuple(field.name for field in found) if pa.types.is_struct(found) else ()
    return Column(path=tuple(path))


def matching(name: str, names: Iterable[str]) -> list[str]:
    """The names that one can mean: itself, else those that differ from it in case alone.

    >>> matching("Id", ["id", "x"])
    ['id']
    """
    known = list(names)
    return [name] if name in known else [one for one in known if one.lower() == name.lower()]


def _match(name: str, names: tuple[str, ...], where: str, argument: str) -> str:
    close = matching(name, names)
    if len(close) > 1:
        raise InvalidFilter(
            f"{argument}={where!r} cannot be answered",
            why=f"{name!r} could be {' or '.join(map(repr, close))}",
            fix="Write the name exactly as the column's",
            where=where,
        )
    if not close:
        raise UnknownColumn(
            f"{argument}={where!r} names a column {name!r} that the table does not have",
            fix=f"{nearest(name, names)}. Single quotes make a text, double quotes a column".replace("?.", "?"),
            column=name, columns=names,
        )  # fmt: skip
    return close[0]
