"""Names in a lake: of tables, nodes, runs and columns. Pure.

A table's columns are named for SQL: lower-case letters, digits and underscores, distinct without regard to case, so that every reader
tells them apart. Which field of the source became which column is decided once, and then remembered in the table's schema.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gapless.errors import InvalidOption, shorten

MAX_NAME = 63
"""Characters of a name: what PostgreSQL takes."""
RESERVED = "_gapless_"
"""Columns that a lake's own files and views add begin with it."""
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_NODE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: a ULID's."""
_RUN = re.compile(rf"[0-7][{_DIGITS}]{{25}}")
_DIGEST = 8


def check_table_name(name: object) -> str:
    """The name of a table; raises InvalidOption for one that a folder, a view or SQL without quotes could not have.

    >>> check_table_name("orders_2026")
    'orders_2026'
    """
    if isinstance(name, str) and _NAME.fullmatch(name) and not name.startswith("_"):
        return name
    raise InvalidOption(
        f"{shorten(name)} is no name of a table in a lake",
        why="It is the name of a folder and of a view: 1 to 63 of a–z, 0–9 and _, the first a letter, so that no two differ in case only",
        fix=f"Call it such as {_suggested(name)!r}",
        option="table",
        value=name,
    )


def _suggested(name: object) -> str:
    found = normalised(name) if isinstance(name, str) else ""
    return found.lstrip("_0123456789") or "orders"


def check_node(node: object) -> str:
    """The name of a node, one writer among several; raises InvalidOption."""
    if isinstance(node, str) and _NODE.fullmatch(node):
        return node
    raise InvalidOption(
        f"node={shorten(node)} names no node",
        why="It is the name of a folder: 1 to 63 of a–z, 0–9, '.', '_' and '-', the first a letter or digit",
        fix="Pass such as 'main' or 'host-2'",
        option="node",
        value=node,
    )


def check_run_id(run_id: object) -> str:
    """The id of a run, a ULID; raises InvalidOption."""
    if isinstance(run_id, str) and _RUN.fullmatch(run_id):
        return run_id
    raise InvalidOption(
        f"run_id={shorten(run_id)} is no id of a run",
        why="A run is called by a ULID: 26 of Crockford's digits, in capitals, of which the first ten are its time",
        fix="Leave it out, or take one that lake.new_run_id() gave",
        option="run_id",
        value=run_id,
    )


def ulid(time_ms: int, random_bits: int) -> str:
    """A ULID of a time in milliseconds since 1970 UTC and of 80 random bits: it sorts as its time does.

    >>> ulid(1_469_918_176_385, 0)
    '01ARYZ6S410000000000000000'
    """
    number = (time_ms << 80) | (random_bits & ((1 << 80) - 1))
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(125, -1, -5))


def ulid_after(newest: str | None, drawn: str) -> str:
    """The drawn ULID, or the one behind the newest where a clock stands still or went back: what comes later sorts later.

    >>> ulid_after("01ARYZ6S41000000000000000Z", "01ARYZ6S410000000000000000")
    '01ARYZ6S410000000000000010'
    """
    if newest is None or drawn > newest:
        return drawn
    number = 0
    for digit in newest:
        number = number * 32 + _DIGITS.index(digit)
    return ulid((number + 1) >> 80, number + 1)


def normalised(field: str) -> str:
    """A field's name as SQL likes it; empty where nothing is left of it.

    >>> normalised("Col A"), normalised("a.b"), normalised("-_-")
    ('col_a', 'a_b', '')
    """
    plain = unicodedata.normalize("NFKD", field).encode("ascii", "ignore").decode()
    # CamelCase is kept together: whether "aA" is one word or two nobody knows.
    name = re.sub(r"[^a-z0-9_]+", "_", plain.lower())
    if not name.strip("_"):
        return ""
    return f"_{name}"[:MAX_NAME] if name[0].isdigit() else name[:MAX_NAME]


def map_columns(fields: Iterable[str], known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The column of each field: those that are `known` as they are, then the new ones, whatever the order of `fields`.

    A field that is a column's name already gets that one. One whose normalised name is taken, empty or too long gets it with a digest of
    itself behind it, so that a number behind a name never hits a real column.

    >>> map_columns(["Col A", "col_a"])
    {'col_a': 'col_a', 'Col A': 'col_a_79c8943c'}
    """
    mapping = dict(known)
    taken = set(known.values())
    new = sorted({field for field in fields if field not in mapping}, key=lambda field: (normalised(field) != field, field))
    wanted = [normalised(field) for field in new]
    for field, name in zip(new, wanted, strict=True):
        # Of several new ones with one name only that which is it already gets it: the others would depend on which came first.
        alone = wanted.count(name) == 1 or name == field
        free = name and name not in taken and not name.startswith(RESERVED) and len(field) <= MAX_NAME
        mapping[field] = name if alone and free else _with_digest(name, field, taken)
        taken.add(mapping[field])
    return mapping


def _with_digest(name: str, field: str, taken: set[str]) -> str:
    digest = hashlib.sha256(field.encode()).hexdigest()
    stem = "field" if not name or name.startswith(RESERVED) else name
    for length in range(_DIGEST, len(digest) + 1, _DIGEST):
        found = f"{stem[: MAX_NAME - length - 1]}_{digest[:length]}"[:MAX_NAME]
        if found not in taken:
            return found
    raise AssertionError(field)
