"""Change records: what they hold, their order, and JSON that keeps 64 bits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.cdc import ChangeSource, Record
from gapless.errors import InvalidRecord, NullKey
from support.change_records import records

SOURCE = ChangeSource(system="mysql", database="shop", collection="orders", partition=0, server_id="7")


def record(**fields: Any) -> Record:
    return Record(**{"_id": 1, "_seq": 1, "_op": "c", "_after": {"v": 1}, "_ts": 1, "_source": SOURCE, **fields})


@settings(max_examples=50)
@given(records())
def test_json_gives_the_same_record_back(one: Record) -> None:
    back = Record.from_json(one.to_json())
    assert back == one
    assert repr(back) == repr(one)  # 1 and 1.0 and True are equal, and not the same


def test_integers_beyond_a_double_are_exact_for_another_reader() -> None:
    wide = {"a": 2**53 + 1, "b": -(2**63), "c": 2**64 - 1, "d": [2**62 + 1]}
    assert json.loads(record(_after=wide, _id=2**63 - 1).to_json())["_after"] == wide
    assert Record.from_json(record(_id=2**53 + 1).to_json())._id == 2**53 + 1


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "_after.v"),
        (-math.inf, "_after.v"),
        (b"x", "_after.v"),
        (2**64, "_after.v"),
        (-(2**63) - 1, "_after.v"),
        (Decimal(1), "_after.v"),
        ({1}, "_after.v"),
        (datetime(2026, 1, 1, tzinfo=UTC), "_after.v"),
        ([0, {"x": b""}], "_after.v[1].x"),
        ({1: 2}, "_after.v"),
    ],
)
def test_what_json_lacks_is_refused_by_its_path(value: object, path: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        record(_after={"v": value})
    assert caught.value.field == path


@pytest.mark.parametrize(
    ("operation", "before", "after", "field"),
    [
        ("c", {}, {}, "_before"),
        ("r", {}, {}, "_before"),
        ("c", None, None, "_after"),
        ("r", None, None, "_after"),
        ("u", {}, None, "_after"),
        ("u", None, None, "_after"),
        ("d", {}, {}, "_after"),
        ("d", None, {}, "_after"),
        ("x", None, {}, "_op"),
    ],
)
def test_images_that_an_operation_has_not_are_refused(operation: str, before: Any, after: Any, field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        record(_op=operation, _before=before, _after=after)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("operation", "before", "after"),
    [("c", None, {}), ("r", None, {}), ("u", None, {}), ("u", {}, {}), ("d", None, None), ("d", {}, None)],
)
def test_images_that_an_operation_may_have(operation: str, before: Any, after: Any) -> None:
    assert record(_op=operation, _before=before, _after=after)._op == operation


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"_seq": -1}, "_seq"),
        ({"_seq": 2**63}, "_seq"),
        ({"_seq": ()}, "_seq"),
        ({"_seq": True}, "_seq"),
        ({"_seq": (1, "2")}, "_seq"),
        ({"_ts": 1.5}, "_ts"),
        ({"_txn": ""}, "_txn"),
        ({"_source": "mysql"}, "_source"),
        ({"_source": {}}, "_source.system"),
        ({"_source": {"system": "mysql", "colection": "x"}}, "_source.colection"),
        ({"_source": {"system": "mysql", "partition": -1}}, "_source.partition"),
        ({"_after": [1]}, "_after"),
    ],
)
def test_other_fields_that_do_not_fit(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        record(**fields)
    assert caught.value.field == field


def test_a_record_without_a_key_is_refused() -> None:
    with pytest.raises(NullKey):
        record(_id=None)


def test_cdc_08_places_are_compared_number_by_number_and_with_their_source_tell_changes_apart() -> None:
    places = [(1, 10, 0), (1, 10, 1), (1, 10, 0), (1, 9, 0), (2, 4, 0)]
    came = [record(_seq=place) for place in places]
    assert [one.order for one in sorted(came, key=lambda one: one.order)] == sorted(places)
    assert {one.key for one in came} == {one.key for place, one in zip(places, came, strict=True) if place in set(places)}
    assert len({one.key for one in came}) == 4
    elsewhere = replace(came[0], _source=replace(SOURCE, server_id="8"))
    assert elsewhere.key != came[0].key
    assert record(_seq=3).order < record(_seq=(3, 1)).order


def test_a_record_does_not_change_with_what_it_was_made_of() -> None:
    inner = [1]
    one = record(_after={"v": inner}, _source={"system": "x"})
    inner.append(2)
    assert one._after == {"v": [1]}
    assert one._source == ChangeSource(system="x")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "a change record"),
        ("[]", "a change record"),
        ('{"_id": 1, "_id": 2}', "a change record"),
        ('{"_id": NaN}', "a change record"),
        ('{"_id": 1}', "_seq"),
        ('{"_id": 1, "_sequence": 1}', "_sequence"),
        ('{"_id":1,"_seq":1,"_op":"c","_after":{"v":1e999},"_ts":1,"_source":{"system":"x"}}', "_after.v"),
    ],
)
def test_json_that_is_no_record(text: str, field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        gl.cdc.Record.from_json(text)
    assert caught.value.field == field


@settings(max_examples=50)
@given(st.binary(max_size=30))
def test_any_bytes_are_a_record_or_a_typed_error(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        Record.from_json(data)
