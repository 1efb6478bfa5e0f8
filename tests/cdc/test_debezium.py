"""Debezium's envelopes, as its documentation shows them, and any record there and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.cdc import ChangeSource, Record, from_debezium, to_debezium
from gapless.errors import InvalidRecord, NotSupported, NullKey
from support.change_records import records

MYSQL: dict[str, Any] = {
    "op": "u",
    "before": {"id": 1004, "first_name": "Anne", "email": "annek@noanswer.org"},
    "after": {"id": 1004, "first_name": "Anne Marie", "email": "annek@noanswer.org"},
    "source": {
        "version": "3.3.1.Final", "connector": "mysql", "name": "mysql-server-1", "ts_ms": 1465581029100, "ts_us": 1465581029100000,
        "ts_ns": 1465581029100000000, "snapshot": False, "db": "inventory", "table": "customers", "server_id": 223344, "gtid": None,
        "file": "mysql-bin.000003", "pos": 484, "row": 2, "thread": 7, "query": None,
    },
    "ts_ms": 1465581029523, "ts_us": 1465581029523758, "ts_ns": 1465581029523758914,
    "transaction": {"id": "file=mysql-bin.000003,pos=236", "total_order": 1, "data_collection_order": 1},
}  # fmt: skip
MONGO: dict[str, Any] = {
    "after": '{"_id": {"$numberLong": "1004"},"first_name": "Anne","n": 9007199254740993}',
    "source": {
        "version": "3.3.1.Final", "connector": "mongodb", "name": "fulfillment", "ts_ms": 1558965508000, "snapshot": False,
        "db": "inventory", "collection": "customers", "ord": 31, "lsid": None, "txnNumber": None,
    },
    "op": "c",
    "ts_ms": 1558965515240,
}  # fmt: skip


def through_json(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("enveloped", [True, False], ids=["with schema", "without"])
@pytest.mark.parametrize("as_text", [True, False], ids=["bytes", "values"])
def test_an_update_of_mysql(*, enveloped: bool, as_text: bool) -> None:
    key: Any = {"id": 1004}
    value: Any = MYSQL
    if enveloped:
        key, value = ({"schema": {"type": "struct"}, "payload": one} for one in (key, value))
    if as_text:
        key, value = through_json(key), through_json(value)
    assert from_debezium(key, value) == Record(
        _id=1004,
        _seq=(3, 484, 2),
        _op="u",
        _before=MYSQL["before"],
        _after=MYSQL["after"],
        _ts=1465581029100000000,
        _source=ChangeSource(system="mysql", database="inventory", collection="customers", server_id="223344"),
        _txn="file=mysql-bin.000003,pos=236",
    )


def test_an_insert_of_mongodb_has_its_images_and_key_in_texts() -> None:
    found = from_debezium({"id": '{"$numberLong":"1004"}'}, MONGO)
    assert found == Record(
        _id={"$numberLong": "1004"},
        _seq=(1558965508, 31),
        _op="c",
        _after={"_id": {"$numberLong": "1004"}, "first_name": "Anne", "n": 9007199254740993},
        _ts=1558965508000 * 10**6,
        _source=ChangeSource(system="mongodb", database="inventory", collection="customers"),
    )
    key, value = to_debezium(found)
    assert isinstance(key["id"], str)
    assert isinstance(value["after"], str)


@pytest.mark.parametrize(
    ("told", "seq"),
    [
        ({"connector": "mysql", "file": "binlog.000012", "pos": 4}, (12, 4, 0)),
        ({"connector": "postgresql", "lsn": 24023128, "sequence": '[null,"24023128"]'}, 24023128),
        (
            {"connector": "sqlserver", "commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000758:0003", "event_serial_no": 2},
            (0x27, 0xAC0, 2, 0x27, 0x758, 3, 2),
        ),
        ({"connector": "vitess", "sequence": '["5","7"]'}, (5, 7)),
    ],
)  # fmt: skip
def test_places_by_connector(told: dict[str, Any], seq: object) -> None:
    found = from_debezium({"id": 1}, {"op": "c", "after": {}, "source": {**told, "ts_ms": 1}})
    assert found is not None
    assert found._seq == seq


def test_a_place_that_is_not_known_is_refused_unless_it_is_given() -> None:
    value = {"op": "c", "after": {}, "source": {"connector": "oracle", "scn": "x", "ts_ms": 1}}
    with pytest.raises(NotSupported, match="oracle"):
        from_debezium({"id": 1}, value)
    found = from_debezium({"id": 1}, value, seq=17)
    assert found is not None
    assert found._seq == 17


def test_cdc_09_a_tombstone_after_a_delete_says_nothing_and_alone_is_a_delete() -> None:
    source = ChangeSource(system="mysql", database="inventory", collection="customers", server_id="223344")
    deleted = from_debezium({"id": 5}, {**MYSQL, "op": "d", "after": None})
    assert deleted is not None
    assert from_debezium({"id": 5}, None, previous=deleted) is None
    assert from_debezium(b'{"schema": {}, "payload": {"id": 5}}', None, previous=deleted) is None
    other = from_debezium({"id": 6}, None, previous=deleted, seq=(3, 500, 0))
    alone = from_debezium({"id": 6}, None, seq=(3, 500, 0), ts=deleted._ts, source=source)
    assert other == alone == Record(_id=6, _seq=(3, 500, 0), _op="d", _ts=deleted._ts, _source=source)
    with pytest.raises(InvalidRecord, match="offset"):
        from_debezium({"id": 6}, None)
    for value in (None, MYSQL):
        with pytest.raises(NullKey):
            from_debezium(None, value)
        with pytest.raises(NullKey):
            from_debezium({"id": None}, value, seq=1, ts=1, source=source)


@pytest.mark.parametrize("operation", ["t", "m"])
def test_truncations_and_messages_are_refused_by_name(operation: str) -> None:
    with pytest.raises(NotSupported, match=operation):
        from_debezium({"id": 1}, {**MYSQL, "op": operation})


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"id": 1, "__op": "c"}, "op"),
        (5, "op"),
        ({**MYSQL, "op": "x"}, "op"),
        ({**MYSQL, "source": None}, "source"),
        ({**MYSQL, "after": None}, "_after"),
        (b"{", "the value of a message"),
        ({"op": "c", "after": {}, "source": {"connector": "mysql", "sequence": "[1"}}, "source.sequence"),
        ({"op": "c", "after": {}, "source": {"connector": "mysql", "sequence": '["1"]'}}, "ts_ms"),
    ],
)
def test_what_is_no_envelope(value: object, field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        from_debezium({"id": 1}, value)
    assert caught.value.field == field


@settings(max_examples=50)
@given(records(), st.sampled_from(["id", "key"]))
def test_any_record_goes_there_and_back(one: Record, key_field: str) -> None:
    key, value = to_debezium(one, key_field=key_field)
    back = from_debezium(through_json(key), through_json(value))
    assert back is not None
    # A tuple of one number and that number are one place.
    assert back.order == one.order
    assert replace(back, _seq=one._seq) == one


def test_with_schema_it_says_types_and_comes_back() -> None:
    image = {"i": 1, "f": 1.5, "b": True, "s": "x", "n": None, "l": [1, None], "d": {"x": 1}}
    one = Record(_id={"a": 1, "b": "x"}, _seq=3, _op="c", _after=image, _ts=7, _source=ChangeSource(system="gapless"))
    key, value = to_debezium(one, schema=True)
    after = next(field for field in value["schema"]["fields"] if field["field"] == "after")
    types = {field["field"]: field["type"] for field in after["fields"]}
    assert types == {"i": "int64", "f": "double", "b": "boolean", "s": "string", "n": "string", "l": "array", "d": "struct"}
    assert [field["field"] for field in key["schema"]["fields"]] == ["a", "b"]
    assert from_debezium(key, value) == one
    for broken, path in (([1, "x"], "value.after.v"), (2**63, "value.after.v")):
        with pytest.raises(InvalidRecord) as caught:
            to_debezium(replace(one, _after={"v": broken}), schema=True)
        assert caught.value.field == path
