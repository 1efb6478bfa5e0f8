"""Debezium's envelopes to change records and back. Pure.

What a record does not keep of an envelope: its schema, `source` beyond connector, database, table and position, `updateDescription`, the
places in a transaction, and which kind of snapshot it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from gapless.cdc.debezium_schema import with_schema
from gapless.cdc.json_values import Json, json_text, parse_json
from gapless.cdc.record import OPERATIONS, ChangeSource, Record, Sequence
from gapless.errors import InvalidRecord, NotSupported, NullKey, shorten

_SCALED: Final = (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000))
_OTHER_OPERATIONS: Final = {"t": "truncate", "m": "message"}
_WITH_SCHEMA: Final = {"schema", "payload"}
_WITH_SCHEMAS: Final = ("db2", "oracle", "postgresql", "sqlserver")
"""The connectors whose tables lie in a schema of their database."""
_TEXTS: Final = "mongodb"
"""The connector whose keys and images are JSON in texts."""


def from_debezium(
    key: object,
    value: object,
    *,
    previous: Record | None = None,
    seq: Sequence | None = None,
    ts: int | None = None,
    source: ChangeSource | None = None,
) -> Record | None:
    """The record of one message; None for the tombstone that follows a delete.

    Args:
        key: The message's key: JSON in text or bytes, or its values where these are no text; with or without `schema`; `{"id": 1}` is the id 1, a key of several fields stays
            a dict. Without one (None), NullKey.
        value: The message's value, alike; None is a tombstone.
        previous: The record of the message before it in its partition. After a delete of the same key, a tombstone says nothing new; elsewhere
            it is a delete itself.
        seq: The place of a message that does not say one, such as the Kafka offset. Without it the position in MySQL, PostgreSQL, SQL Server
            or MongoDB counts, else the envelope's `sequence`.
        ts: The time of a tombstone that stands alone, in nanoseconds since 1970 UTC.
        source: Where such a tombstone is from; without it, and without `ts`, it takes those of `previous`.

    Raises InvalidRecord for what is no envelope, NullKey, NotSupported for truncations, messages and positions that are not known.
    """
    name = _name_of(key, value)
    envelope = None if value is None else _payload(value, "the value of a message")
    if envelope is None:
        return _tombstone(_id_of(name, None), previous, seq, ts, source)
    if not isinstance(envelope, dict) or "op" not in envelope:
        raise InvalidRecord(
            f"the value of a message is no envelope of Debezium: {shorten(envelope)}",
            why="An envelope has op, before, after and source; a flattened row (ExtractNewRecordState) has lost them",
            fix="Send messages as Debezium makes them, before such a transform",
            field="op",
            value=None,
        )
    operation = envelope["op"]
    if operation in _OTHER_OPERATIONS:
        what = _OTHER_OPERATIONS[operation]
        raise NotSupported(
            f"Debezium's {what} (op {operation!r}) is no change of one row",
            why="A change record tells of one row or document",
            fix=f"Set skipped.operations={operation} at the connector, or set such messages aside",
            feature=f"{what} events of Debezium",
        )
    if operation not in OPERATIONS:
        raise InvalidRecord(
            f"op is {shorten(operation)}",
            why="It is one of c, u, d, r",
            fix="Send Debezium's envelope",
            field="op",
            value=operation,
        )
    told = _mapping(envelope, "source")
    connector = told.get("connector")
    transaction = _mapping(envelope, "transaction")
    return Record(
        _id=_id_of(name, connector),
        _seq=_position(told) if seq is None else seq,
        _op=operation,
        _before=None if operation in ("c", "r") else _image(envelope, "before", connector),
        _after=None if operation == "d" else _image(envelope, "after", connector),
        _ts=_time(told, envelope),
        _source=_source(told),
        _txn=transaction.get("id"),
    )


def to_debezium(record: Record, *, schema: bool = False, key_field: str = "id") -> tuple[dict[str, Json], dict[str, Json]]:
    """Key and value of a record's message; after a delete Debezium sends a tombstone too, which is this key and None.

    An id that is no dict becomes a key of one field, `key_field`. With `schema` both come with Kafka Connect's schema of their values. Read
    back by `from_debezium` they give the same record. Raises InvalidRecord for values that no such schema describes.
    """
    texts = record._source.system == _TEXTS
    found = record._id
    # One field, or what looks like a key with its schema, would be read as something else.
    if not texts and isinstance(found, dict) and len(found) > 1 and found.keys() != _WITH_SCHEMA:
        key = dict(found)
    else:
        key = {key_field: json_text(found) if texts else found}
    place = record._source
    source: dict[str, Json] = {
        "connector": place.system,
        "db": place.database,
        **_names_of_table(place),
        **{name: record._ts // scale for name, scale in reversed(_SCALED)},
        "snapshot": "true" if record._op == "r" else "false",
        "sequence": json_text([str(number) for number in record.order]),
        "partition": place.partition,
        "server_id": place.server_id,
    }
    value = {
        "before": _told(record._before, texts=texts),
        "after": _told(record._after, texts=texts),
        "source": source,
        "op": record._op,
        **{name: record._ts // scale for name, scale in reversed(_SCALED)},
        "transaction": None if record._txn is None else {"id": record._txn},
    }
    return (with_schema(key, "key"), with_schema(value, "value")) if schema else (key, value)


def _names_of_table(place: ChangeSource) -> dict[str, Json]:
    schema, _, table = (place.collection or "").partition(".")
    if schema and table and place.system in _WITH_SCHEMAS:
        return {"schema": schema, "table": table}
    return {"collection" if place.system == _TEXTS else "table": place.collection}


def _told(image: dict[str, Json] | None, *, texts: bool) -> Json:
    return json_text(image) if texts and image is not None else image


def _payload(given: object, what: str) -> Json:
    read = (
        parse_json(bytes(given) if isinstance(given, bytearray) else given, what)
        if isinstance(given, bytes | bytearray | str)
        else given
    )
    return read["payload"] if isinstance(read, dict) and read.keys() == _WITH_SCHEMA else read


def _name_of(key: object, value: object) -> Json:
    """The key's values; raises NullKey."""
    found = None if key is None else _payload(key, "the key of a message")
    if found is None or found == {}:
        raise NullKey(
            f"a message has no key; its value is {shorten(value)}",
            why="It would say of no row what happened to it",
            fix="Set message.key.columns at the connector, or set such messages aside",
            column="key",
            row=0,
        )
    return found


def _id_of(name: Json, connector: object) -> Json:
    if not isinstance(name, dict) or len(name) > 1:
        return name
    (found,) = name.values()
    return parse_json(found, "the key of a message") if connector == _TEXTS and isinstance(found, str) else found


def _tombstone(
    found: Json, previous: Record | None, seq: Sequence | None, ts: int | None, source: ChangeSource | None
) -> Record | None:
    if previous is not None and previous._op == "d" and _is_same(found, previous):
        return None
    if previous is not None:
        source, ts = source or previous._source, previous._ts if ts is None else ts
    if source is not None and source.system == _TEXTS and isinstance(found, str):
        found = parse_json(found, "the key of a message")
    missing = [name for name, one in (("seq", seq), ("ts", ts), ("source", source)) if one is None]
    if seq is None or ts is None or source is None:
        raise InvalidRecord(
            f"a tombstone of {shorten(found)} does not say its {', '.join(missing)}",
            why="It is a delete by itself where no delete of the key came right before it, and has a key alone",
            fix="Pass seq= (the message's offset), ts= and source=, or previous= for the record before it",
            field=f"_{missing[0]}",
            value=None,
        )
    return Record(_id=found, _seq=seq, _op="d", _ts=ts, _source=source)


def _is_same(found: Json, previous: Record) -> bool:
    if previous._source.system == _TEXTS and isinstance(found, str):
        return bool(parse_json(found, "the key of a message") == previous._id)
    return bool(found == previous._id)


def _image(envelope: Mapping[str, Any], name: str, connector: object) -> Json:
    found = envelope.get(name)
    return parse_json(found, name) if connector == _TEXTS and isinstance(found, str) else found


def _mapping(envelope: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = envelope.get(name)
    if found is None and name == "transaction":
        return {}
    if not isinstance(found, dict):
        raise InvalidRecord(
            f"{name} is {shorten(found)}",
            why="Debezium says in it where a change is from",
            fix="Send its whole envelope",
            field=name,
            value=found,
        )
    return found


def _time(told: Mapping[str, Any], envelope: Mapping[str, Any]) -> int:
    """In the database, by the finest that is there; else when it was read."""
    for body in (told, envelope):
        for name, scale in _SCALED:
            if type(body.get(name)) is int and (body[name] or body is envelope):
                return int(body[name]) * scale
    raise InvalidRecord(
        "an envelope says no time",
        why="There is neither ts_ns, ts_us nor ts_ms",
        fix="Send Debezium's whole envelope",
        field="ts_ms",
        value=None,
    )


def _source(told: Mapping[str, Any]) -> ChangeSource:
    server = told.get("server_id")
    return ChangeSource(
        system=told.get("connector"),  # type: ignore[arg-type]  # checked there
        database=told.get("db") or None,
        collection=told.get("collection") or ".".join(one for one in (told.get("schema"), told.get("table")) if one) or None,
        partition=told.get("partition"),
        server_id=None if server is None else str(server),
    )


def _position(told: Mapping[str, Any]) -> Sequence:
    """The place of a change in its source: numbers that are compared one after the other, as the connector orders them."""
    connector = told.get("connector")
    numbers: list[object] = []
    match connector:
        case "mysql" | "mariadb" if "file" in told:
            digits = re.search(r"(\d+)\Z", str(told["file"]))
            numbers = [int(digits[1]) if digits else None, told.get("pos"), told.get("row", 0)]
        case "mongodb" if "ord" in told:
            numbers = [int(told.get("ts_ms", -1)) // 1000, told["ord"]]
        case "postgresql" if "lsn" in told:
            numbers = [told["lsn"]]
        case "sqlserver" if "change_lsn" in told:
            lsns = f"{told.get('commit_lsn')}:{told['change_lsn']}".split(":")
            numbers = [
                *(int(part, 16) if re.fullmatch(r"[0-9a-fA-F]+", part) else None for part in lsns),
                told.get("event_serial_no", 0),
            ]
        case _ if isinstance(told.get("sequence"), str):
            texts = parse_json(told["sequence"], "source.sequence")
            parts = texts if isinstance(texts, list) else [texts]
            numbers = [int(one) if isinstance(one, str) and one.isdecimal() else None for one in parts]
    if numbers and all(type(number) is int for number in numbers):
        found: tuple[int, ...] = tuple(numbers)  # type: ignore[arg-type]  # just checked
        return found[0] if len(found) == 1 else found
    raise NotSupported(
        f"the position of a change is not known: {json.dumps(dict(told), default=repr)[:200]}",
        why=f"The connector {connector!r} says it in a way that is not read",
        fix="Pass seq=, such as the message's offset",
        feature=f"positions of Debezium's connector {connector}",
    )
