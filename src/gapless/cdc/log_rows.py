"""Change records as rows of their log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from gapless.cdc.json_values import json_text, parse_json
from gapless.cdc.record import ChangeSource, Record

_PLACE: Final = pa.struct(
    [
        pa.field("system", pa.string()),
        pa.field("database", pa.string()),
        pa.field("collection", pa.string()),
        pa.field("partition", pa.int64()),
        pa.field("server_id", pa.string()),
    ]
)
SCHEMA: Final = pa.schema(
    [
        pa.field("_op", pa.string()),
        pa.field("_id", pa.string()),
        pa.field("_before", pa.string()),
        pa.field("_after", pa.string()),
        pa.field("_ts", pa.int64()),
        pa.field("_source", _PLACE),
        pa.field("_txn", pa.string()),
        pa.field("_source_seq", pa.string()),
    ]
)
"""`_id`, images and the source's own `_seq` are JSON in texts, `_ts` nanoseconds; a record's `_seq` in the log is where its row lies."""
ROW_BITS: Final = 24
MOST_ROWS: Final = 1 << ROW_BITS
"""How many records one commit may hold."""


def seq_of(version: int, row: int) -> int:
    """The place of a row of a version in the log's order: the version above, the row in the low 24 bits."""
    return version << ROW_BITS | row


def place_of(seq: int) -> tuple[int, int]:
    """Version and row of a place."""
    return seq >> ROW_BITS, seq & (MOST_ROWS - 1)


def rows_of(records: Iterable[Record]) -> pa.Table:
    """Records as rows, in their order."""
    rows = [
        {
            "_op": one._op,
            "_id": json_text(one._id),
            "_before": None if one._before is None else json_text(one._before),
            "_after": None if one._after is None else json_text(one._after),
            "_ts": one._ts,
            "_source": {"partition": None, **one._source.body},
            "_txn": one._txn,
            "_source_seq": json_text(list(one._seq) if isinstance(one._seq, tuple) else one._seq),
        }
        for one in records
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def records_of(rows: pa.Table, first: int) -> Iterator[Record]:
    """The records of rows, of which the first has the place `first`. Raises InvalidRecord, NullKey for rows that others wrote."""
    for number, row in enumerate(rows.to_pylist()):
        yield _record(row, first + number)


def _record(row: Mapping[str, Any], seq: int) -> Record:
    return Record(
        _id=None if row["_id"] is None else parse_json(row["_id"], "_id"),
        _seq=seq,
        _op=row["_op"],
        _before=_image(row, "_before"),
        _after=_image(row, "_after"),
        _ts=row["_ts"],
        _source=ChangeSource.of(row["_source"]),
        _txn=row["_txn"],
    )


def _image(row: Mapping[str, Any], name: str) -> Any:
    return None if row[name] is None else parse_json(row[name], name)
