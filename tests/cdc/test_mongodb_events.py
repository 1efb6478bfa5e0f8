"""MongoDB's change stream events, as its documentation shows them, and records there and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.cdc import ChangeSource, Record, from_mongodb, to_mongodb
from gapless.errors import InvalidOption, InvalidRecord, NotSupported, NullKey
from support.change_records import NAMES, records

TOKEN = "8263A1B2C3000000012B022C0100296E5A1004D2F2A6B1E2B04A9F8E0F0E7D6C5B4A3946645F6964006463A1B2C3D4E5F60718293A4B0004"
OID = {"$oid": "599af247bb69cd89961c986d"}
EVENT: dict[str, Any] = {
    "_id": {"_data": TOKEN},
    "operationType": "insert",
    "clusterTime": {"$timestamp": {"t": 1671541443, "i": 1}},
    "wallTime": {"$date": "2022-12-20T13:04:03.123Z"},
    "ns": {"db": "engineering", "coll": "users"},
    "documentKey": {"_id": OID},
    "fullDocument": {"_id": OID, "userName": "alice123", "n": 9007199254740993},
}
BEFORE = {"_id": OID, "a": 1, "v": {"arr": [1, 2, 3], "x": 0}, "gone": True}


def update(**fields: Any) -> dict[str, Any]:
    described = {"updatedFields": {"a": 2}, "removedFields": ["gone"], "truncatedArrays": []}
    return {**EVENT, "operationType": "update", "fullDocument": None, "updateDescription": described, **fields}


def test_an_insert() -> None:
    found = from_mongodb(EVENT)
    assert found is not None
    assert (found._id, found._op, found._after, found._before) == (OID, "c", EVENT["fullDocument"], None)
    assert found.order[:2] == (1671541443, 1)
    assert found._ts == 1671541443123 * 10**6
    assert found._source == ChangeSource(system="mongodb", database="engineering", collection="users")
    given_back = to_mongodb(found)
    assert given_back == EVENT | {"wallTime": {"$date": {"$numberLong": "1671541443123"}}}


def test_changes_of_one_transaction_share_a_time_and_are_told_apart_by_their_tokens() -> None:
    tokens = [TOKEN[:34] + end for end in ("00", "04", "0404", "05", "F0")]
    transaction = {"lsid": {"id": {"$binary": {"base64": "AAAA", "subType": "04"}}}, "txnNumber": 7}
    found = [from_mongodb({**EVENT, **transaction, "_id": {"_data": token}}) for token in tokens]
    orders = [one.order for one in found if one is not None]
    assert orders == sorted(set(orders))
    assert len(orders) == len(tokens)
    assert all(json.loads(one._txn or "") == transaction for one in found if one is not None)


@settings(max_examples=50)
@given(st.lists(st.binary(min_size=1, max_size=24), min_size=2, max_size=2, unique=True))
def test_places_are_ordered_as_tokens_are(tokens: list[bytes]) -> None:
    texts = [token.hex().upper() for token in tokens]
    found = [from_mongodb({**EVENT, "_id": {"_data": text}}) for text in texts]
    first, second = (one.order for one in found if one is not None)
    assert (first < second) == (texts[0] < texts[1])
    assert [to_mongodb(one)["_id"]["_data"] for one in found if one is not None] == texts


def test_cdc_06_an_update_without_its_document_is_made_from_what_changed_or_left_to_its_delete() -> None:
    whole = from_mongodb(update(fullDocumentBeforeChange=BEFORE))
    assert whole is not None
    assert (whole._op, whole._before) == ("u", BEFORE)
    assert whole._after == {"_id": OID, "a": 2, "v": {"arr": [1, 2, 3], "x": 0}}
    for lost in (update(), {**update(fullDocumentBeforeChange=BEFORE), "operationType": "replace"}):
        with pytest.raises(InvalidRecord) as caught:
            from_mongodb(lost)
        assert caught.value.field == "_after"
        assert from_mongodb(lost, on_missing_image="skip") is None
    deleted = from_mongodb({**EVENT, "operationType": "delete", "fullDocument": None})
    assert deleted is not None
    assert (deleted._op, deleted._after, deleted._before) == ("d", None, None)
    with pytest.raises(InvalidOption):
        from_mongodb(EVENT, on_missing_image="drop")


def test_an_array_that_was_pushed_to_and_one_that_was_cut() -> None:
    described = {"updatedFields": {"v.arr.2": 9, "v.arr.3": 4, "v.y": {"z": 1}}, "removedFields": ["v.x"]}
    pushed = from_mongodb(update(fullDocumentBeforeChange=BEFORE, updateDescription=described))
    assert pushed is not None
    assert pushed._after == {**BEFORE, "v": {"arr": [1, 2, 9, 4], "y": {"z": 1}}}
    cut = {"updatedFields": {}, "removedFields": [], "truncatedArrays": [{"field": "v.arr", "newSize": 1}]}
    short = from_mongodb(update(fullDocumentBeforeChange=BEFORE, updateDescription=cut))
    assert short is not None
    assert short._after == {**BEFORE, "v": {"arr": [1], "x": 0}}
    wrong = {"updatedFields": {"a.b": 1}, "disambiguatedPaths": {"a.b": ["a.b"]}}
    assert from_mongodb(update(fullDocumentBeforeChange=BEFORE, updateDescription=wrong), on_missing_image="skip") is None


@pytest.mark.parametrize("kind", ["drop", "rename", "dropDatabase", "invalidate", "createIndexes"])
def test_events_of_no_document_are_refused_by_name(kind: str) -> None:
    with pytest.raises(NotSupported, match=kind):
        from_mongodb({**EVENT, "operationType": kind})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"operationType": "upsert"}, "operationType"),
        ({"_id": {"_data": "xyz"}}, "_id._data"),
        ({"_id": None}, "_id"),
        ({"clusterTime": 5}, "clusterTime"),
        ({"clusterTime": {"$timestamp": {"t": 1.5, "i": 0}}}, "clusterTime"),
        ({"wallTime": {"$date": "yesterday"}}, "wallTime"),
        ({"wallTime": 5}, "wallTime"),
        ({"ns": None}, "ns"),
        ({"documentKey": None}, "documentKey"),
        ({"fullDocument": {"x": b"y"}}, "_after.x"),
    ],
)
def test_what_is_no_event(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        from_mongodb({**EVENT, **fields})
    assert caught.value.field == field


def test_an_event_without_a_key() -> None:
    with pytest.raises(NullKey):
        from_mongodb({**EVENT, "documentKey": {}})


@settings(max_examples=50)
@given(records(st.just("mongodb") | NAMES))
def test_any_record_but_a_snapshots_goes_there_and_back_but_for_what_is_documented(one: Record) -> None:
    if one._op == "r":
        with pytest.raises(NotSupported, match="snapshot"):
            to_mongodb(one)
        return
    kept = ChangeSource(system="mongodb", database=one._source.database, collection=one._source.collection)
    expected = replace(one, _ts=one._ts // 10**6 * 10**6, _source=kept, _txn=None)
    assert from_mongodb(json.loads(json.dumps(to_mongodb(one)))) == expected
