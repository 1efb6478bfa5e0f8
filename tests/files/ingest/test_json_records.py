"""Objects out of JSON that came in a page or a message: no digit is lost, and nothing is taken that JSON does not have."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from gapless.errors import InvalidValue, UnreadableInput
from gapless.files.ingest.json_records import json_records, load_json


def test_a_decimal_takes_every_digit_and_a_double_the_nearest() -> None:
    found = load_json(b'[{"d": 12345678901234567890.10, "f": 0.1}, {"d": 1, "f": 2}, {"d": "2.50"}]', "a page")
    assert isinstance(found, list)
    part = json_records(found, "a page", pa.schema([("d", pa.decimal128(30, 2))]))
    (batch,) = part
    assert batch.column("d").to_pylist() == [Decimal("12345678901234567890.10"), Decimal("1.00"), Decimal("2.50")]
    assert batch.column("f").to_pylist() == [0.1, 2.0, None]
    assert set(part.inferred) == {"f"}


def test_texts_are_times_where_the_schema_says_so() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    (batch,) = json_records([{"at": "2026-01-05T01:00:00+01:00", "s": "2026-01-05"}], "a page", schema)
    assert batch.to_pylist() == [{"at": datetime(2026, 1, 5, tzinfo=UTC), "s": "2026-01-05"}]
    with pytest.raises(InvalidValue, match="row 1"):
        json_records([{"at": None}, {"at": "yesterday"}], "a page", schema)


def test_objects_without_fields_are_rows() -> None:
    part = json_records([{}, {}], "a page", None)
    assert sum(batch.num_rows for batch in part) == 2


@pytest.mark.parametrize("text", [b"{", b"", b"NaN", b"[Infinity]", b"1e999", b'{"a": 1, "a": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(UnreadableInput, match="a page is no JSON"):
        load_json(text, "a page")


@pytest.mark.parametrize("record", [7, None, [1], "x"])
def test_what_is_no_object_is_refused(record: object) -> None:
    with pytest.raises(UnreadableInput, match="row 1"):
        json_records([{"a": 1}, record], "a page", None)
