"""Change records as rows that find others by key: with the columns of a table, what happened to each, and each change once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from gapless.cdc.json_values import Json, json_text
from gapless.cdc.record import ChangeSource, Record
from gapless.cdc.row_values import check_told, read_rows
from gapless.errors import InvalidOption, InvalidRecord, UnknownColumn, nearest
from gapless.files.compare.keys import KeySet, can_match
from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE

KIND_OF: Final = {"c": INSERT, "r": INSERT, "u": POSTIMAGE, "d": DELETE}
"""What change feeds call each operation."""


def check_key(key: str | Sequence[str], schema: pa.Schema) -> tuple[str, ...]:
    """The columns of a key. Raises InvalidOption, UnknownColumn."""
    names: tuple[object, ...] = (key,) if isinstance(key, str) else tuple(key)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidOption(
            f"key={key!r} names no columns",
            why="A record says of which row it is, and only a key tells which",
            fix='Pass key="id" or key=["site", "id"]',
            option="key",
            value=key,
        )
    found = tuple(map(str, names))
    for name in found:
        if name not in schema.names:
            raise UnknownColumn(
                f"the key has the column {name!r}, and there is none",
                why=f"There are {', '.join(schema.names)}",
                fix=nearest(name, schema.names),
                column=name,
                columns=tuple(schema.names),
            )
        if not can_match(schema.field(name).type):
            raise InvalidOption(
                f"key={key!r} has a column of the type {schema.field(name).type}",
                why="Rows are told apart by plain values",
                fix="Name columns of texts, numbers or times",
                option="key",
                value=key,
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EachOnce:
    """Records of which none came twice, and none after a newer one of its row."""

    records: tuple[Record, ...]
    repeated: int
    """How many came again: another had their source and place before."""
    late: int
    """How many came after one of their source and row whose place is higher."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> EachOnce:
        """Of records as they came. Raises InvalidRecord where two that differ have one source and place."""
        seen: dict[tuple[ChangeSource, tuple[int, ...]], Record] = {}
        newest: dict[tuple[ChangeSource, str], tuple[int, ...]] = {}
        kept, repeated, late = list[Record](), 0, 0
        for one in records:
            row = one._source, json_text(one._id)
            if (known := seen.setdefault(one.key, one)) is not one:
                if known != one:
                    raise _two_at_one_place(known, one)
                repeated += 1
            elif one.order < newest.get(row, one.order):
                late += 1
            else:
                newest[row] = one.order
                kept.append(one)
        return cls(records=tuple(kept), repeated=repeated, late=late)


def _two_at_one_place(known: Record, one: Record) -> InvalidRecord:
    return InvalidRecord(
        f"records of {json_text(known._id)} and {json_text(one._id)} have one _seq, {one._seq!r}, and one source, and differ",
        why="By these a change that comes again is known, and one of the two would be taken for the other",
        fix="Give each change a place of its own in the order of its source",
        field="_seq",
        value=one._seq,
    )


def rows_of_records(records: Sequence[Record], schema: pa.Schema, key: str | Sequence[str]) -> pa.Table:
    """Records as rows for a sink of mode="cdc" with this key: these columns, and behind them what happened to each as `_change_type`.

    Key columns that an image lacks are taken from `_id`; other columns that it lacks are null. A deletion's row has the image before it, or the
    key alone. Raises InvalidOption, UnknownColumn, UnsupportedType (variants), InvalidValue for a value that its column does not hold, or a
    field without a column; InvalidRecord where image and `_id` have different keys, or `_id` lacks a column of the key.
    """
    names = check_key(key, schema)
    check_told(schema)
    images = [_keyed(one, one._before if one._op == "d" else one._after, names) for one in records]
    rows = read_rows(images, schema)
    return rows.append_column(CHANGE_TYPE, pa.array([KIND_OF[one._op] for one in records], pa.string()))


def rounds(rows: pa.Table, key: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where rows are cut, as (begin, end), so that no key comes twice between."""
    if not rows.num_rows:
        return []
    ids = KeySet.of(rows, key).ids
    found, begin = list[tuple[int, int]](), 0
    last = np.full(int(ids.max()) + 1, -1, dtype=np.int64)
    for row, one in enumerate(ids.tolist()):
        if last[one] >= begin:
            found.append((begin, row))
            begin = row
        last[one] = row
    return [*found, (begin, rows.num_rows)]


def _keyed(record: Record, image: Mapping[str, Json] | None, key: tuple[str, ...]) -> dict[str, Json]:
    """An image with the columns of the key in it."""
    found = record._id
    parts = found if isinstance(found, dict) and (len(key) > 1 or key[0] in found) else {key[0]: found}
    told = dict(image or {})
    for name in key:
        if name not in parts:
            raise InvalidRecord(
                f"_id is {json_text(found)}, which has no {name!r}",
                why=f"The key of the rows is {', '.join(key)}",
                fix="Name the columns that the records' _id has as key=",
                field="_id",
                value=found,
            )
        if json_text(told.setdefault(name, parts[name])) != json_text(parts[name]):
            raise InvalidRecord(
                f"a record of {json_text(found)} has {name}={json_text(told[name])} in its image",
                why="Its image is that of another row; where an update changes the key, it is a delete and a create",
                fix="Send both, as Debezium does",
                field=f"_after.{name}",
                value=told[name],
            )
    return told
