"""Messages of Protobuf as values of Arrow: bytes as the wire format's page says them, and the library's own writer."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import InvalidOption, NotSupported, UnreadableInput
from gapless.pipelines.run.protobuf import Messages

google = pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2  # noqa: E402

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed64",
    "sfixed32",
    "bool",
    "string",
    "bytes",
)


def field(name: str, number: int, kind: str, type_name: str = "", **more: Any) -> Any:
    return FIELD(
        name=name,
        number=number,
        type=getattr(FIELD, f"TYPE_{kind.upper()}"),
        label=FIELD.LABEL_REPEATED if more.pop("many", False) else FIELD.LABEL_OPTIONAL,
        type_name=type_name or None,
        **more,
    )


def descriptors(syntax: str = "proto3") -> bytes:
    """shop.proto: an Order of all kinds of fields, an Item, and a Tree that holds itself."""
    item = descriptor_pb2.DescriptorProto(name="Item", field=[field("sku", 1, "string"), field("count", 2, "uint32")])
    entry = descriptor_pb2.DescriptorProto(
        name="LabelsEntry",
        field=[field("key", 1, "string"), field("value", 2, "message", ".shop.Item")],
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )
    scalars = [field(f"a_{kind}", number, kind) for number, kind in enumerate(SCALARS, 1)]
    order = descriptor_pb2.DescriptorProto(
        name="Order",
        field=[
            *scalars,
            field("colour", 20, "enum", ".shop.Colour"),
            field("first", 21, "message", ".shop.Item"),
            field("items", 22, "message", ".shop.Item", many=True),
            field("numbers", 23, "int64", many=True),
            field("labels", 24, "message", ".shop.Order.LabelsEntry", many=True),
            field("at", 25, "message", ".google.protobuf.Timestamp"),
            field("took", 26, "message", ".google.protobuf.Duration"),
            field("maybe", 27, "int32", proto3_optional=syntax == "proto3", oneof_index=0),
        ],
        nested_type=[entry],
        oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="_maybe")],
    )
    tree = descriptor_pb2.DescriptorProto(name="Tree", field=[field("under", 1, "message", ".shop.Tree", many=True)])
    colour = descriptor_pb2.EnumDescriptorProto(
        name="Colour",
        value=[descriptor_pb2.EnumValueDescriptorProto(name=name, number=at) for at, name in enumerate(["RED", "BLUE"])],
    )
    shop = descriptor_pb2.FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax=syntax,
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"],
        message_type=[item, order, tree],
        enum_type=[colour],
    )
    if syntax == "proto2":
        item.field[1].default_value = "7"
        shop.message_type[0].CopyFrom(item)
    parts = [
        descriptor_pb2.FileDescriptorProto.FromString(one.DESCRIPTOR.serialized_pb) for one in (timestamp_pb2, duration_pb2)
    ]
    written: bytes = descriptor_pb2.FileDescriptorSet(file=[*parts, shop]).SerializeToString()
    return written


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def tagged(number: int, kind: int, value: bytes) -> bytes:
    return varint(number << 3 | kind) + (varint(len(value)) + value if kind == 2 else value)


ITEM = tagged(1, 2, b"a-1") + tagged(2, 0, varint(2**32 - 1))
FULL = b"".join(
    [
        tagged(1, 1, struct.pack("<d", -0.0)),
        tagged(2, 5, struct.pack("<f", 1.5)),
        tagged(3, 0, varint(2**64 - 3)),  # -3: negative numbers have ten bytes
        tagged(4, 0, varint(2**63)),  # the smallest
        tagged(5, 0, varint(2**32 - 1)),
        tagged(6, 0, varint(2**64 - 1)),
        tagged(7, 0, varint(3)),  # zigzag of -2
        tagged(8, 0, varint(2**64 - 1)),  # of the smallest
        tagged(9, 1, struct.pack("<Q", 2**63 + 1)),
        tagged(10, 5, struct.pack("<i", -7)),
        tagged(11, 0, b"\x01"),
        tagged(12, 2, "né".encode()),
        tagged(13, 2, b"\x00\xff"),
        tagged(20, 0, varint(1)),
        tagged(21, 2, ITEM),
        tagged(22, 2, ITEM),
        tagged(22, 2, b""),
        tagged(23, 2, varint(5) + varint(2**64 - 5)),  # packed
        tagged(24, 2, tagged(1, 2, b"k") + tagged(2, 2, ITEM)),
        tagged(25, 2, tagged(1, 0, varint(1_800_000_000)) + tagged(2, 0, varint(123_456_789))),
        tagged(26, 2, tagged(1, 0, varint(2**64 - 1)) + tagged(2, 0, varint(2**64 - 500_000_000))),
        tagged(27, 0, b"\x00"),
        tagged(99, 2, b"a field that this descriptor does not know"),
    ]
)
A_1 = {"sku": "a-1", "count": 2**32 - 1}


def test_every_type_comes_as_it_was_written() -> None:
    messages = Messages(descriptors=descriptors(), message="shop.Order")
    (row,) = messages.read(pa.array([FULL], pa.binary())).to_pylist()
    assert str(row["a_double"]) == "-0.0"
    assert {name: row[f"a_{name}"] for name in SCALARS[1:]} == {
        "float": 1.5,
        "int32": -3,
        "int64": -(2**63),
        "uint32": 2**32 - 1,
        "uint64": Decimal(2**64 - 1),
        "sint32": -2,
        "sint64": -(2**63),
        "fixed64": Decimal(2**63 + 1),
        "sfixed32": -7,
        "bool": True,
        "string": "né",
        "bytes": b"\x00\xff",
    }
    assert (row["colour"], row["first"], row["items"]) == ("BLUE", A_1, [A_1, {"sku": None, "count": None}])
    assert (row["numbers"], row["labels"], row["maybe"]) == ([5, -5], [("k", A_1)], 0)
    assert row["at"] == datetime.fromtimestamp(1_800_000_000, UTC) + timedelta(microseconds=123_456)
    assert row["took"] == timedelta(seconds=-1.5)


def test_what_is_not_in_the_bytes_is_null_or_its_default() -> None:
    nothing = pa.array([b"", None], pa.binary())
    row, null = Messages(descriptors=descriptors(), message="shop.Order").read(nothing).to_pylist()
    assert null is None
    assert {name for name, value in row.items() if value is not None} == {"items", "numbers", "labels"}
    row, _ = Messages(descriptors=descriptors(), message="shop.Order", defaults=True).read(nothing).to_pylist()
    assert (row["a_int64"], row["a_uint64"], row["a_string"], row["colour"]) == (0, Decimal(0), "", "RED")
    # These have presence: what is not there was not said.
    assert (row["first"], row["at"], row["maybe"]) == (None, None, None)
    (item, _) = Messages(descriptors=descriptors("proto2"), message="shop.Item").read(nothing).to_pylist()
    assert item == {"sku": None, "count": 7}


def test_a_number_that_the_enum_lacks_stays_readable() -> None:
    messages = Messages(descriptors=descriptors(), message="shop.Order")
    assert messages.read(pa.array([tagged(20, 0, varint(9))]))[0].as_py()["colour"] == "9"


def test_bytes_that_are_no_message_stop_it_or_are_null() -> None:
    cut = pa.array([FULL[:-3]], pa.binary())
    with pytest.raises(UnreadableInput, match=r"is no shop\.Order of Protobuf"):
        Messages(descriptors=descriptors(), message="shop.Order").read(cut)
    assert Messages(descriptors=descriptors(), message="shop.Order", bad="null").read(cut).to_pylist() == [None]


@pytest.mark.parametrize(
    ("given", "message", "says"),
    [
        (descriptors(), "shop.Oder", "shop.Item, shop.Order, shop.Tree. Did you mean 'shop.Order'?"),
        (b"\x0a\xff", "shop.Order", "descriptor_file holds no descriptors"),
        (b"", "shop.Order", "It describes no message"),
    ],
)
def test_a_descriptor_that_does_not_say_it_is_refused(given: bytes, message: str, says: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        Messages(descriptors=given, message=message).type()
    assert says in str(caught.value)


def test_a_message_that_holds_itself_is_refused() -> None:
    with pytest.raises(NotSupported, match=r"shop\.Tree of Protobuf holds itself"):
        Messages(descriptors=descriptors(), message="shop.Tree").type()
