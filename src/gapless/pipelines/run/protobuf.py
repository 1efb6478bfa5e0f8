"""Messages of Protobuf as values of Arrow, by a descriptor that protoc wrote: types as `from_protobuf` of Spark has them, unsigned ones wider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa

from gapless.errors import InvalidOption, NotSupported, UnreadableInput, nearest
from gapless.tables.shared.library_errors import missing_library

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_TYPES: Mapping[str, pa.DataType] = {
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    # Spark has no unsigned numbers.
    "UINT32": pa.int64(),
    "UINT64": pa.decimal128(20, 0),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOL": pa.bool_(),
    "ENUM": pa.string(),
}
Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """What reads messages of one type. It may be pickled: the descriptor is its bytes."""

    descriptors: bytes
    """A FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it."""
    message: str
    """The full name of the type, such as "shop.Order"."""
    defaults: bool = False
    """Whether a field without presence that is not in the bytes has its default, and not null."""
    bad: str = "error"
    """What of bytes that are no message: "error", or "null" for a null."""

    def type(self) -> pa.DataType:
        """The columns: a struct of the message's fields. Raises InvalidOption, NotSupported."""
        return _message_type(self._described(), ())

    def read(self, values: pa.Array) -> pa.Array:
        """The messages of binary values, of `type()`. Raises UnreadableInput for bytes that are none."""
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        described = self._described()
        read, parse = _message_reader(described, self.defaults), GetMessageClass(described).FromString
        found: list[Any] = []
        for value in values.to_pylist():
            if value is None:
                found.append(None)
                continue
            try:
                found.append(read(parse(value)))
            except (DecodeError, OverflowError) as error:  # such as a year beyond 9999
                if self.bad == "null":
                    found.append(None)
                    continue
                raise UnreadableInput(
                    f"a value of {len(value)} bytes is no {self.message} of Protobuf",
                    why=f"It begins with {value[:16].hex()}: {error}",
                    fix="Give the descriptor that it was written with, or say on_bad_record='null'",
                    source=self.message,
                ) from error
        return pa.array(found, _message_type(described, ()))

    def _described(self) -> Any:
        return _described(self.descriptors, self.message)


@cache
def _described(descriptors: bytes, message: str) -> Any:
    """The descriptor of a message. Raises InvalidOption, NotSupported."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise missing_library("format='protobuf'", "protobuf", "protobuf") from error
    pool, files = DescriptorPool(), FileDescriptorSet()
    try:
        files.ParseFromString(descriptors)
        for one in files.file:
            pool.Add(one)
    except (DecodeError, TypeError) as error:
        raise InvalidOption(
            "descriptor_file holds no descriptors of Protobuf",
            why=str(error).strip(),
            fix="Write it with protoc --include_imports --descriptor_set_out=orders.desc orders.proto",
            option="descriptor_file",
            value=len(descriptors),
        ) from error
    names = [f"{one.package}.{each.name}".lstrip(".") for one in files.file for each in one.message_type]
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError as error:
        raise InvalidOption(
            f"message={message!r} is not in descriptor_file",
            why=f"It describes {', '.join(names) or 'no message'}",
            fix=nearest(message, names),
            option="message",
            value=message,
        ) from error


def _message_type(described: Any, above: tuple[str, ...]) -> pa.DataType:
    if described.full_name in above:
        raise NotSupported(
            f"the message {described.full_name} of Protobuf holds itself",
            why=f"By {' > '.join((*above, described.full_name))}: a column of it would have no end",
            fix="Say format='bytes', and read it by a function of your own",
            feature="protobuf",
        )
    if described.full_name == _TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if described.full_name == _DURATION:
        return pa.duration("us")
    return pa.struct([(one.name, _field_type(one, (*above, described.full_name))) for one in described.fields])


def _field_type(field: Any, above: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_field_type(key, above), _field_type(value, above))
    one = _message_type(field.message_type, above) if field.message_type is not None else _scalar_type(field)
    return pa.list_(one) if field.is_repeated else one


def _scalar_type(field: Any) -> pa.DataType:
    if field.cpp_type == field.CPPTYPE_STRING:
        return pa.binary() if field.type == field.TYPE_BYTES else pa.string()
    return next(found for name, found in _TYPES.items() if field.cpp_type == getattr(field, f"CPPTYPE_{name}"))


def _message_reader(described: Any, defaults: bool) -> Read:  # noqa: FBT001  # passed on
    """What makes a value of a message of this type."""
    if described.full_name == _TIMESTAMP:
        return lambda message: _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if described.full_name == _DURATION:
        return lambda message: timedelta(seconds=message.seconds, microseconds=int(message.nanos / 1000))
    readers = [(one.name, _field_reader(one, defaults), _when_absent(one, defaults)) for one in described.fields]

    def read(message: Any) -> dict[str, Any]:
        there = {field.name: value for field, value in message.ListFields()}
        return {name: act(there[name]) if name in there else absent for name, act, absent in readers}

    return read


def _field_reader(field: Any, defaults: bool) -> Read:  # noqa: FBT001  # passed on
    if _is_map(field):
        value = _one_reader(field.message_type.fields_by_name["value"], defaults)
        return lambda found: [(key, value(found[key])) for key in found]
    act = _one_reader(field, defaults)
    return (lambda found: [act(one) for one in found]) if field.is_repeated else act


def _one_reader(field: Any, defaults: bool) -> Read:  # noqa: FBT001  # passed on
    if field.message_type is not None:
        return _message_reader(field.message_type, defaults)
    if field.enum_type is not None:
        names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return Decimal if field.cpp_type == field.CPPTYPE_UINT64 else _same


def _when_absent(field: Any, defaults: bool) -> Any:  # noqa: FBT001  # passed on
    """What a field that is not in the bytes has: as `from_protobuf`, a default where the file declares one, or where it is asked for."""
    if field.is_repeated:
        return []
    if field.has_default_value or (defaults and not field.has_presence):
        return _one_reader(field, defaults)(field.default_value)
    return None


def _is_map(field: Any) -> bool:
    return field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry


def _same(value: Any) -> Any:
    return value
