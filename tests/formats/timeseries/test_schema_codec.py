import json
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.timeseries.codec.schema import decode_schema, encode_schema, schema_features

NATIVE = [
    (pa.bool_(), "Bool"), (pa.int32(), "Int32"), (pa.int64(), "Int64"), (pa.uint64(), "UInt64"), (pa.float32(), "Float32"),
    (pa.float64(), "Float64"), (pa.binary(), "Binary"), (pa.string(), "Utf8"), (pa.binary(3), {"FixedBinary": {"byte_width": 3}}),
    (pa.timestamp("ms"), {"Timestamp": {"unit": "Millis", "timezone": None}}),
    (pa.timestamp("us", "UTC"), {"Timestamp": {"unit": "Micros", "timezone": "UTC"}}),
    (pa.timestamp("ns"), {"Timestamp": {"unit": "Nanos", "timezone": None}}),
    (pa.decimal128(5, 2), {"Decimal": {"precision": 5, "scale": 2}}),
    (pa.decimal256(50, 2), {"Decimal": {"precision": 50, "scale": 2}}),
    (pa.list_(pa.int32()), {"List": {"elements": {"name": "item", "data_type": "Int32", "nullable": True}}}),
    (pa.struct([pa.field("a", pa.string(), nullable=False)]),
     {"Struct": {"fields": [{"name": "a", "data_type": "Utf8", "nullable": False}]}}),
    (pa.map_(pa.string(), pa.int64(), keys_sorted=True),
     {"Map": {"key": {"name": "key", "data_type": "Utf8", "nullable": False},
              "value": {"name": "value", "data_type": "Int64", "nullable": True}, "keys_sorted": True}}),
]  # fmt: skip
MICROS = {"Timestamp": {"unit": "Micros", "timezone": None}}
WIDER = [
    (pa.int8(), "Int32", "int8"), (pa.int16(), "Int32", "int16"), (pa.uint8(), "Int32", "uint8"),
    (pa.uint16(), "Int32", "uint16"), (pa.uint32(), "Int64", "uint32"), (pa.timestamp("s"), MICROS, "timestamp[s]"),
    (pa.timestamp("ms", "Europe/Paris"), {"Timestamp": {"unit": "Millis", "timezone": "UTC"}}, "timestamp[ms, tz=Europe/Paris]"),
    (pa.timestamp("s", "+05:30"), {"Timestamp": {"unit": "Micros", "timezone": "UTC"}}, "timestamp[s, tz=+05:30]"),
    (pa.decimal32(5, 2), {"Decimal": {"precision": 5, "scale": 2}}, "decimal32(5, 2)"),
    (pa.decimal64(12, 0), {"Decimal": {"precision": 12, "scale": 0}}, "decimal64(12, 0)"),
    (pa.decimal256(5, 1), {"Decimal": {"precision": 5, "scale": 1}}, "decimal256(5, 1)"),
]  # fmt: skip
FOREIGN = [
    pa.float16(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("s"),
    pa.duration("ms"), pa.duration("us"), pa.duration("ns"), pa.large_list(pa.int8()), pa.list_(pa.float16(), 3),
    pa.struct([("a", pa.list_(pa.date32()))]), pa.map_(pa.date32(), pa.large_list(pa.uint8())),
]  # fmt: skip


def column(type_: pa.DataType) -> dict[str, Any]:
    (body,) = json.loads(json.dumps(encode_schema(pa.schema([("v", type_)]))))["columns"]
    return dict(body)


def there_and_back(schema: pa.Schema) -> pa.Schema:
    return decode_schema(json.loads(json.dumps(encode_schema(schema))))


@pytest.mark.parametrize(("type_", "data_type"), NATIVE, ids=str)
def test_types_of_protocol_7_are_said_in_its_own_words_alone(type_: pa.DataType, data_type: object) -> None:
    assert column(type_) == {"name": "v", "data_type": data_type, "nullable": True}


@pytest.mark.parametrize(("type_", "data_type", "exact"), WIDER, ids=str)
def test_other_types_are_said_wider_with_the_exact_one_beside(type_: pa.DataType, data_type: object, exact: str) -> None:
    assert column(type_) == {"name": "v", "data_type": data_type, "nullable": True, "gapless_type": exact}


@pytest.mark.parametrize("type_", [*(case[0] for case in NATIVE), *(case[0] for case in WIDER), *FOREIGN], ids=str)
@pytest.mark.parametrize("nest", [lambda t: t, pa.list_, lambda t: pa.struct([("ü", t), ("b", pa.list_(t, 2))])])
def test_every_declared_type_comes_back_exactly(type_: pa.DataType, nest: Any) -> None:
    schema = pa.schema([pa.field("v", nest(type_), nullable=False), pa.field("w", type_)])
    assert there_and_back(schema).equals(schema, check_metadata=True)


@pytest.mark.parametrize("type_", FOREIGN, ids=str)
def test_types_without_a_name_need_the_reader_feature(type_: pa.DataType) -> None:
    assert schema_features(pa.schema([("v", type_)])) == {"gapless_types"}


def test_all_others_need_no_feature() -> None:
    types = [*(case[0] for case in NATIVE), *(case[0] for case in WIDER), pa.null()]
    assert schema_features(pa.schema([(str(at), type_) for at, type_ in enumerate(types)])) == frozenset()


def test_metadata_is_kept_where_protocol_7_does_not_look() -> None:
    inner = pa.field("a", pa.int8(), metadata={"unit": "V"})
    schema = pa.schema(
        [pa.field("v", pa.struct([inner]), metadata={"über": "ß"})], metadata={"owner": "me", b"\xff": b"\x00\xfe"}
    )
    body = encode_schema(schema)
    assert (body["gapless_metadata"], body["gapless_metadata_hex"]) == ({"owner": "me"}, {"ff": "00fe"})
    assert '"metadata"' not in json.dumps(body)
    assert there_and_back(schema).equals(schema, check_metadata=True)
    assert schema_features(schema) == frozenset()


def test_metadata_of_other_writers_is_read() -> None:
    body = {
        "columns": [{"name": "v", "data_type": "Utf8", "nullable": True, "metadata": {"unit": "x"}}],
        "metadata": {"owner": "me"},
    }
    schema = decode_schema(body)
    assert (schema.metadata, schema.field("v").metadata) == ({b"owner": b"me"}, {b"unit": b"x"})


def test_type_07_columns_of_unknown_type_wait_in_their_place() -> None:
    schema = pa.schema([("a", pa.null()), ("b", pa.int8()), pa.field("c", pa.null(), metadata={"x": "y"}), ("d", pa.null())])
    body = encode_schema(schema)
    assert body["pending"] == [{"position": 0, "name": "a"}, {"position": 2, "name": "c", "gapless_metadata": {"x": "y"}},
                               {"position": 3, "name": "d"}]  # fmt: skip
    assert there_and_back(schema).equals(schema, check_metadata=True)


def test_what_0_9_0_writes_is_read() -> None:
    body = {
        "columns": [
            {"name": "ts", "data_type": {"Timestamp": {"unit": "Millis", "timezone": "+00:00"}}, "nullable": True},
            {"name": "m", "data_type": {"Map": {"key": {"name": "key", "data_type": "Utf8", "nullable": False},
                                                "value": {"name": "value", "data_type": "Int32", "nullable": True},
                                                "keys_sorted": False}}, "nullable": True},
        ]
    }  # fmt: skip
    assert decode_schema(body).types == [pa.timestamp("ms", "UTC"), pa.map_(pa.string(), pa.int32())]


@pytest.mark.parametrize(
    "data_type",
    ["Int96", "Other", {"Other": {"name": "x"}}, {"Union": {}},
     {"Map": {"key": {"name": "key", "data_type": "Utf8", "nullable": False}, "value": None, "keys_sorted": False}}],
    ids=str,
)  # fmt: skip
def test_types_that_we_do_not_know_are_unsupported(data_type: object) -> None:
    with pytest.raises(UnsupportedTable):
        decode_schema({"columns": [{"name": "v", "data_type": data_type, "nullable": True}]}, "x.json")


def test_an_exact_type_of_a_newer_release_is_unsupported() -> None:
    for name in ("variant", "large_list", "fixed_size_list[2]", 7):
        with pytest.raises(UnsupportedTable):
            decode_schema({"columns": [{"name": "v", "data_type": "Int32", "nullable": True, "gapless_type": name}]})


V = {"name": "v", "data_type": "Utf8", "nullable": True}


@pytest.mark.parametrize(
    "body",
    [
        {}, {"columns": 3}, {"columns": [3]}, {"columns": [{"name": "v"}]}, {"columns": [{**V, "nullable": "yes"}]},
        {"columns": [{**V, "data_type": {"Timestamp": {"unit": "Weeks"}}}]}, {"columns": [{**V, "data_type": {}}]},
        {"columns": [{**V, "data_type": {"Decimal": {"precision": 99, "scale": 1}}}]}, {"columns": [V, V]},
        {"columns": [{**V, "gapless_type": "int8"}]}, {"columns": [{**V, "gapless_metadata": 3}]},
        {"columns": [V], "pending": [{"name": "w"}]}, {"columns": [V], "pending": 1}, {"columns": [V], "metadata": {"a": 1}},
        {"columns": [{**V, "gapless_metadata_hex": {"zz": ""}}]}, {"columns": [{**V, "data_type": 5}]},
    ],
    ids=str,
)  # fmt: skip
def test_anything_else_is_corrupt_and_names_the_commit(body: dict[str, Any]) -> None:
    with pytest.raises(CorruptTable) as caught:
        decode_schema(body, "_timeseries_log/0000000002.json")
    assert caught.value.path == "_timeseries_log/0000000002.json"
