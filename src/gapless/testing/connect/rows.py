"""The rows that the contracts of sinks and sources send, and what each mode makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

import pyarrow as pa

from gapless.files.compare.row_diff import CHANGE_TYPE

Row = Mapping[str, Any]

START = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), nullable=False), ("id", pa.int64()), ("v", pa.int64())])
"""A time that is never null, an id that comes again, and a number that tells every row from the others."""
IDS = 5
"""How many ids there are."""
KINDS = ("insert", "update_postimage", "delete")
"""What becomes of a row, in turn, where rows say it."""


def numbered(first: int, count: int) -> pa.Table:
    """Rows `first` to `first + count`, half-open: one an hour, `v` is its number, `id` that modulo 5.

    >>> numbered(4, 2).select(["id", "v"]).to_pylist()
    [{'id': 4, 'v': 4}, {'id': 0, 'v': 5}]
    """
    numbers = range(first, first + count)
    columns = {"ts": [START + timedelta(hours=n) for n in numbers], "id": [n % IDS for n in numbers], "v": list(numbers)}
    return pa.table(columns, schema=SCHEMA)


def told(first: int, count: int) -> pa.Table:
    """The rows of `numbered`, and in a column `_change_type` what became of each: insert, update_postimage and delete in turn."""
    kinds = pa.array([KINDS[n % len(KINDS)] for n in range(first, first + count)], pa.string())
    return numbered(first, count).append_column(CHANGE_TYPE, kinds)


def applied(mode: str, before: Iterable[Row], rows: Sequence[Row], key: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a target after a checkpoint of these rows, in the order that they came. A checkpoint without rows changes nothing.

    >>> applied("upsert", [{"id": 1, "v": 1}], [{"id": 1, "v": 2}, {"id": 2, "v": 3}], ["id"])
    [{'id': 1, 'v': 2}, {'id': 2, 'v': 3}]
    """
    return _MODES[mode]([dict(row) for row in before], [dict(row) for row in rows], key)


def _append(before: list[dict[str, Any]], rows: list[dict[str, Any]], _key: Sequence[str]) -> list[dict[str, Any]]:
    return before + rows


def _overwrite(before: list[dict[str, Any]], rows: list[dict[str, Any]], _key: Sequence[str]) -> list[dict[str, Any]]:
    return rows or before


def _upsert(before: list[dict[str, Any]], rows: list[dict[str, Any]], key: Sequence[str]) -> list[dict[str, Any]]:
    return list({_of(row, key): row for row in before + rows}.values())


def _delete(before: list[dict[str, Any]], rows: list[dict[str, Any]], key: Sequence[str]) -> list[dict[str, Any]]:
    gone = {_of(row, key) for row in rows}
    return [row for row in before if _of(row, key) not in gone]


def _cdc(before: list[dict[str, Any]], rows: list[dict[str, Any]], key: Sequence[str]) -> list[dict[str, Any]]:
    found = {_of(row, key): row for row in before}
    for row in rows:
        kind = row.pop(CHANGE_TYPE)
        if kind == "delete":
            found.pop(_of(row, key), None)
        elif kind != "update_preimage":
            found[_of(row, key)] = row
    return list(found.values())


def _of(row: Row, key: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)


_MODES: dict[str, Callable[[list[dict[str, Any]], list[dict[str, Any]], Sequence[str]], list[dict[str, Any]]]] = {
    "append": _append,
    "overwrite": _overwrite,
    "upsert": _upsert,
    "delete": _delete,
    "cdc": _cdc,
}


def sorted_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows to compare as a bag: in an order that depends on their values alone, times with a zone in UTC."""
    plain = ({name: value.astimezone(UTC) if _has_zone(value) else value for name, value in row.items()} for row in rows)
    return sorted(plain, key=lambda row: repr(sorted(row.items())))


def _has_zone(value: object) -> TypeGuard[datetime]:
    return isinstance(value, datetime) and value.tzinfo is not None
