"""MongoDB's change stream events to change records and back. Pure.

Events are JSON's values, in MongoDB's extended JSON; those of pymongo become that by `json.loads(bson.json_util.dumps(event))`. What a record
does not keep of an event: update against replace, `updateDescription`, `collectionUUID`. What an event does not keep of a record: `_ts` below
a millisecond, the source's system, partition and server, the operation "r"; and a transaction that is none of MongoDB's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gapless.cdc.json_values import Json, json_text, parse_json
from gapless.cdc.mongodb_update import updated
from gapless.cdc.record import ChangeSource, Record, Sequence
from gapless.errors import InvalidRecord, NotSupported, one_of, shorten

_OPERATIONS: Final = {"insert": "c", "update": "u", "replace": "u", "delete": "d"}
_OTHERS: Final = (
    "create", "createIndexes", "drop", "dropDatabase", "dropIndexes", "invalidate", "modify", "refineCollectionShardKey", "rename",
    "reshardCollection", "shardCollection",
)  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CHUNK: Final = 14
"""Hexadecimal digits of a resume token in one number: 56 bits."""
_TIMED: Final = 2
"""The numbers of a cluster time."""


def from_mongodb(event: Mapping[str, Any], *, on_missing_image: str = "raise") -> Record | None:
    """The record of one event of a change stream.

    Its order is the cluster time, then the resume token, which tells the changes of one transaction apart. An update whose `fullDocument` is
    null, since the document was deleted before it was looked up, is made from `fullDocumentBeforeChange` and `updateDescription`; where
    these do not tell, `on_missing_image` says whether that is an error ("raise") or None comes back ("skip"): its delete is on its way.

    Raises InvalidRecord for what is no event, NullKey, NotSupported for events that are no change of a document (drop, rename, …).
    """
    one_of("on_missing_image", on_missing_image, ("raise", "skip"))
    kind = event.get("operationType")
    if kind in _OTHERS:
        raise NotSupported(
            f"MongoDB's event {kind!r} is no change of one document",
            why="A change record tells of one document",
            fix="Set such events aside; after drop and rename a collection is read anew",
            feature=f"{kind} events of MongoDB",
        )
    if kind not in _OPERATIONS:
        raise _refuse("operationType", kind, f"It is one of {', '.join(_OPERATIONS)}")
    operation = _OPERATIONS[kind]
    before = None if operation == "c" else event.get("fullDocumentBeforeChange")
    after = None if operation == "d" else event.get("fullDocument")
    if operation == "u" and after is None:
        after = updated(before, event.get("updateDescription")) if kind == "update" else None
        if after is None and on_missing_image == "skip":
            return None
    place = _field(event, "ns", Mapping)
    return Record(
        _id=_field(event, "documentKey", Mapping).get("_id"),
        _seq=_sequence(event),
        _op=operation,
        _before=before,
        _after=after,
        _ts=_time(event),
        _source=ChangeSource(system="mongodb", database=place.get("db"), collection=place.get("coll")),
        _txn=_transaction(event),
    )


def to_mongodb(record: Record) -> dict[str, Json]:
    """The event of a record, in extended JSON: insert, replace (MongoDB's update of the whole document) or delete.

    Read back by `from_mongodb` it gives the same record but for what the module names. A resume token of MongoDB's is given back as it came.
    Raises NotSupported for "r", which a change stream has no event for.
    """
    if record._op == "r":
        raise NotSupported(
            "MongoDB's change streams have no event for a row read by a snapshot",
            why="A client finds what is there, and follows the stream from then on",
            fix='Send it as a change: dataclasses.replace(record, _op="c")',
            feature="snapshots in change streams",
        )
    token = _token(record)
    t, i = record.order[:_TIMED] if len(record.order) >= _TIMED else (max(record._ts, 0) // 10**9, record.order[0])
    # Without a token of MongoDB's, the order itself is what a reader resumes by.
    found = (
        {"_seq": list(record._seq) if isinstance(record._seq, tuple) else record._seq} if token is None else {"_data": token}
    )
    place = record._source
    event: dict[str, Json] = {
        "_id": found,
        "operationType": {"c": "insert", "u": "replace", "d": "delete"}[record._op],
        "clusterTime": {"$timestamp": {"t": t, "i": i}},
        "wallTime": {"$date": {"$numberLong": str(record._ts // 10**6)}},
        "ns": {name: one for name, one in (("db", place.database), ("coll", place.collection)) if one is not None},
        "documentKey": {"_id": record._id},
    }
    if record._after is not None:
        event["fullDocument"] = record._after
    if record._before is not None:
        event["fullDocumentBeforeChange"] = record._before
    if record._txn is not None and record._txn.startswith('{"lsid":'):
        event |= parse_json(record._txn, "_txn")
    return event


def _sequence(event: Mapping[str, Any]) -> Sequence:
    token = _field(event, "_id", Mapping)
    if "_seq" in token:
        told = token["_seq"]
        return tuple(told) if isinstance(told, list) else told
    data = token.get("_data")
    if not (isinstance(data, str) and re.fullmatch(r"([0-9A-Fa-f]{2})+", data)):
        raise _refuse("_id._data", data, "A resume token is hexadecimal text")
    chunks = (data[start : start + _CHUNK].ljust(_CHUNK, "0") for start in range(0, len(data), _CHUNK))
    # The length last: a longer token of the same beginning comes later, as texts are compared.
    return (*_cluster_time(event), *(int(chunk, 16) for chunk in chunks), len(data))


def _token(record: Record) -> str | None:
    numbers = record.order[_TIMED:]
    if record._source.system != "mongodb" or len(numbers) < 2 or numbers[-1] < 1:  # a chunk and the length
        return None
    *chunks, length = numbers
    if len(chunks) != -(-length // _CHUNK) or any(chunk >> 4 * _CHUNK for chunk in chunks):
        return None
    data = "".join(f"{chunk:0{_CHUNK}X}" for chunk in chunks)
    return data[:length] if not data[length:].strip("0") and length % 2 == 0 else None


def _cluster_time(event: Mapping[str, Any]) -> tuple[int, int]:
    told = _field(_field(event, "clusterTime", Mapping), "$timestamp", Mapping)
    found = told.get("t"), told.get("i")
    if type(found[0]) is not int or type(found[1]) is not int:
        raise _refuse("clusterTime", told, "It has the numbers t (seconds) and i")
    return found[0], found[1]


def _time(event: Mapping[str, Any]) -> int:
    """Of the clock on the wall, else of the cluster."""
    wall = event.get("wallTime")
    told = wall.get("$date") if isinstance(wall, Mapping) else None
    try:
        if isinstance(told, str):
            return (datetime.fromisoformat(told) - _EPOCH) // timedelta(microseconds=1) * 1000
        if isinstance(told, Mapping):
            return int(told["$numberLong"]) * 10**6
    except (ValueError, KeyError, TypeError) as error:
        raise _refuse("wallTime", wall, f"{type(error).__name__}: {error}") from error
    if wall is not None:
        raise _refuse("wallTime", wall, "It is a date of extended JSON")
    return _cluster_time(event)[0] * 10**9


def _transaction(event: Mapping[str, Any]) -> str | None:
    if event.get("lsid") is None or event.get("txnNumber") is None:
        return None
    return json_text({"lsid": event["lsid"], "txnNumber": event["txnNumber"]})


def _field(event: Mapping[str, Any], name: str, kind: type) -> Any:
    found = event.get(name)
    if not isinstance(found, kind):
        raise _refuse(name, found, "Events of a change stream have it, in extended JSON")
    return found


def _refuse(name: str, value: object, why: str) -> InvalidRecord:
    return InvalidRecord(
        f"{name} is {shorten(value)}",
        why=why,
        fix="Send an event as json.loads(bson.json_util.dumps(event)) gives it",
        field=name,
        value=value,
    )
