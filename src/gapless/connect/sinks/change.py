"""What a sink does with rows that find others by key: which columns tell them apart, which is newer, and what happened to each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.connect.sinks.change_kinds import DEFAULT_COLUMN, PUT, REMOVED, Kinds, kinds_of
from gapless.errors import InvalidOption, nearest
from gapless.tables.shared.prepared import PreparedCommit

MODES = ("append", "upsert", "overwrite", "delete", "cdc")
ON_EMPTY = ("keep", "clear")
"""What an overwrite by a checkpoint without rows does with what is there."""
PARTITION_OVERWRITES = ("static", "dynamic")
"""Whether an overwrite takes the place of all rows, or of those in the partitions of its own, as Spark calls it."""
ALL_COLUMNS = "*"
"""The key of rows that all their values tell apart, and that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedChange:
    """A change by key, as a sink's options or a prepared commit say it."""

    mode: str
    key: tuple[str, ...]
    """Empty where rows are told apart by all their values, and counted."""
    order_by: tuple[str, ...] = ()
    change_type: str | None = None
    """The column that says what happened to a row; only "cdc" has one."""

    @classmethod
    def of(cls, change: Mapping[str, Any], default_key: tuple[str, ...]) -> KeyedChange:
        """Of checked options; `default_key` are the columns that tell rows apart where no option says it."""
        key = names_of(change.get("key"))
        return cls(
            mode=change["mode"],
            key=() if key == (ALL_COLUMNS,) else key or default_key,
            order_by=names_of(change.get("order_by")),
            change_type=change_type_of(change),
        )

    @classmethod
    def with_key(cls, change: Mapping[str, Any], columns: Sequence[str], table: str) -> KeyedChange:
        """Of a change that names its key; `table` is what messages call one of its kind. Raises InvalidOption where none is named."""
        if change.get("key") is None:
            raise InvalidOption(
                f"mode={change['mode']!r} into {table} has no key",
                why=f"It finds rows by key; the rows have {', '.join(map(repr, columns))}",
                fix='Pass key="id" or key=["site", "id"]',
                option="key",
                value=None,
            )
        return cls.of(change, ())

    @property
    def known(self) -> tuple[str, ...]:
        """The columns that are read to find the newest of each key."""
        return tuple(dict.fromkeys((*self.key, *self.order_by)))

    def kinds(self, rows: pa.Table) -> Kinds:
        """What happened to each row; see `kinds_of`."""
        if self.change_type is None:
            return np.full(rows.num_rows, REMOVED if self.mode == "delete" else PUT, dtype=np.int8)
        return kinds_of(rows, self.change_type, self.key, self.order_by)

    def without_kind(self, rows: pa.Table) -> pa.Table:
        """Rows as the table would have them."""
        return rows if self.change_type is None else rows.drop_columns([self.change_type])


def names_of(names: object) -> tuple[str, ...]:
    """The columns that a checked option names."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)  # type: ignore[arg-type]  # a list


def change_type_of(change: Mapping[str, Any]) -> str | None:
    """The column that says what happened to a row; None where the rows of such a change say no such thing."""
    return str(change.get("change_type", DEFAULT_COLUMN)) if change["mode"] == "cdc" else None


def acts(prepared: PreparedCommit) -> bool:
    """Whether anything is to be committed: rows, or that none take the place of what is there."""
    return bool(prepared.files) or prepared.change.get("on_empty") == "clear"


def rows_schema(schema: pa.Schema, change: Mapping[str, Any]) -> pa.Schema:
    """The columns that come, as the table would have them: without the one that says what happened. Raises InvalidOption where it lacks."""
    column = change_type_of(change)
    if column is None:
        return schema
    if column not in schema.names:
        raise InvalidOption(
            f"change_type={column!r} names no column of the rows",
            why="Rows of a change feed say in it what happened to each",
            fix=f'{nearest(column, schema.names)}. A source gives it with on_change="tell"'.replace("?.", "?"),
            option="change_type",
            value=column,
        )
    return pa.schema([field for field in schema if field.name != column])


def check_names(option: str, value: object) -> None:
    """Raise InvalidOption for what names no columns."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
    texts = all(isinstance(name, str) and name for name in names)
    if not names or not texts or len(set(names)) < len(names) or (ALL_COLUMNS in names and len(names) > 1):
        raise InvalidOption(
            f"{option}={value!r} names no columns",
            why="It is one column or several different ones",
            fix=f'Pass {option}="id" or {option}=["site", "id"]',
            option=option,
            value=value,
        )
