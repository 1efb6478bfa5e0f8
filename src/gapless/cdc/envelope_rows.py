"""Messages of Debezium and MongoDB in batches of a source, as rows for a table or for a log of change records. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from gapless.cdc.debezium import from_debezium
from gapless.cdc.json_values import parse_json
from gapless.cdc.keyed_records import check_key, rows_of_records
from gapless.cdc.log_rows import rows_of
from gapless.cdc.mongodb import from_mongodb
from gapless.cdc.record import ChangeSource, Record
from gapless.cdc.row_values import check_told
from gapless.errors import DataError, InvalidOption, NotSupported, SchemaMismatch, nearest, one_of

ENVELOPES: Final = ("debezium", "mongodb")
_TOMBSTONES: Final = ("delete", "skip")
_ON_MISSING: Final = ("raise", "skip")
_MILLI = 1_000_000

OnError = Callable[[Mapping[str, Any], Exception], None]
"""Told of a row that is no change of a row, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRows:
    """A transform of `gl.connect.Runner`. Made by `envelope_rows`."""

    envelope: str
    schema: pa.Schema | None
    key: tuple[str, ...]
    collection: str | None
    tombstones: str
    on_missing_image: Literal["raise", "skip"]
    on_error: OnError | None

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        """The rows of a batch; of none where it has none."""
        needed = ("key", "value") if self.envelope == "debezium" else ("value",)
        for name in needed:
            if name not in batch.schema.names:
                raise SchemaMismatch(
                    f"the rows have no column {name!r}, in which a message of {self.envelope} is",
                    why=f"They have {', '.join(batch.schema.names)}",
                    fix=f'{nearest(name, batch.schema.names)} Read the topic with format="bytes", or rename a column',
                    differences=(f"{name}: is missing",),
                )
        records = [one for one in self._records(batch.to_pylist()) if self.collection in (None, one._source.collection)]
        return rows_of(records) if self.schema is None else rows_of_records(records, self.schema, self.key)

    def _records(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Record]:
        last: dict[str, Record] = {}
        for row in rows:
            try:
                found = self._record(row, last)
            except (DataError, NotSupported) as error:
                if self.on_error is None:
                    raise
                self.on_error(row, error)
                continue
            if found is not None:
                yield found

    def _record(self, row: Mapping[str, Any], last: dict[str, Record]) -> Record | None:
        if self.envelope == "mongodb":
            return from_mongodb(parse_json(row["value"], "a change event"), on_missing_image=self.on_missing_image)
        name, value = _unpacked(row["key"]), row["value"]
        place = json.dumps(name, sort_keys=True, default=repr)
        if value is None and self.tombstones == "skip" and name is not None:
            return None
        found = from_debezium(
            name,
            value,
            previous=last.get(place),
            seq=int(row.get("offset") or 0) if value is None else None,
            ts=_time_of(row) if value is None else None,
            source=ChangeSource(system="kafka", collection=row.get("topic") or None)
            if value is None and place not in last
            else None,
        )
        if found is not None:
            last[place] = found
        return found


def _unpacked(key: object) -> object:
    return parse_json(key, "the key of a message") if isinstance(key, bytes | str) else key


def _time_of(row: Mapping[str, Any]) -> int:
    """When Kafka got a message, in nanoseconds since 1970 UTC; 0 where the rows do not say."""
    at = row.get("timestamp")
    return 0 if at is None else round(at.timestamp() * 1000) * _MILLI


def envelope_rows(
    envelope: str,
    *,
    schema: pa.Schema | None = None,
    key: str | Sequence[str] | None = None,
    collection: str | None = None,
    tombstones: Literal["delete", "skip"] = "delete",
    on_missing_image: Literal["raise", "skip"] = "raise",
    on_error: OnError | None = None,
) -> EnvelopeRows:
    """A transform for `gl.connect.Runner`: messages of a source become rows for a sink of mode="cdc", or for a log of change records.

    Args:
        envelope: "debezium": rows have the columns `key` and `value`, as a source of Kafka gives them (format="bytes"), or files with such columns; or
            "mongodb": the column `value` has a change stream's event in extended JSON. Both are texts or bytes.
        schema: The columns of the table; see `gl.cdc.rows_of_records`. Without it the rows are those of a log, which `gl.cdc.log(path)` made: append
            them by a sink "delta:path".
        key: With `schema`, the columns that `_id` is.
        collection: Only changes of this `_source.collection`; others are left out. Tombstones do not say theirs: it takes tombstones="skip".
        tombstones: What a message without a value is that no delete of its key comes before in the same batch: a "delete", which does nothing
            where one came before, or nothing ("skip").
        on_missing_image: See `gl.cdc.from_mongodb`.
        on_error: Called with the row and the error for a message that is no change of a row, such as one without a key, which is then left
            out; without it the error is raised.

    Raises InvalidOption, UnknownColumn, UnsupportedType; as rows are made, what `from_debezium`, `from_mongodb` and `rows_of_records` raise.
    """
    one_of("envelope", envelope, ENVELOPES)
    one_of("tombstones", tombstones, _TOMBSTONES)
    one_of("on_missing_image", on_missing_image, _ON_MISSING)
    if (schema is None) is not (key is None):
        raise InvalidOption(
            f"{'key' if schema is None else 'schema'}= was given alone",
            why="Rows of a table need both its columns and its key; rows of a log neither",
            fix='Pass schema=table.schema and key="id", or leave both out',
            option="schema" if schema is None else "key",
            value=schema if key is None else key,
        )
    if envelope == "debezium" and collection is not None and tombstones != "skip":
        raise InvalidOption(
            f"collection={collection!r} was given, and tombstones are deletes",
            why="A tombstone does not say of which collection it is, so that it could delete a row of another one",
            fix='Pass tombstones="skip"; the delete before it has its collection',
            option="tombstones",
            value=tombstones,
        )
    names: tuple[str, ...] = ()
    if schema is not None and key is not None:
        names = check_key(key, schema)
        check_told(schema)
    return EnvelopeRows(
        envelope=envelope,
        schema=schema,
        key=names,
        collection=collection,
        tombstones=tombstones,
        on_missing_image=on_missing_image,
        on_error=on_error,
    )
