"""JSON values of the time-series log: strict parsing, bounds, operation ids, type names, and a commit's checksum over itself.

The checksum is needed since one flipped bit can make an action unknown, and so silently skipped, or a bound another number.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import xxhash

from gapless.errors import UnsupportedTable, UnsupportedType
from gapless.model.operation import JobId, OperationId, SequenceId, Tally
from gapless.model.stats import Bound


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# A commit and each row of a log checkpoint is made by one of these: to look for circles takes as long as all else.
_ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False, ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def json_of(body: Mapping[str, object]) -> str:
    """An object as JSON; raises ValueError for a NaN or an infinity."""
    return _ENCODER.encode(body)


def parse_json(data: bytes) -> Any:
    """What strict JSON says, as `json.loads` does; raises ValueError for anything else, RecursionError."""
    return _DECODER.decode(data.decode(json.detect_encoding(data), "surrogatepass"))


_AS_THEY_ARE = (str, int, bool, type(None))


def encode_bound(bound: Bound | None) -> object:
    """A bound as strict JSON has it.

    >>> encode_bound(float("-inf")), encode_bound(b"k")
    ({'float': '-inf'}, {'bytes': '6b'})
    """
    if type(bound) in _AS_THEY_ARE:
        return bound
    match bound:
        case Decimal():
            return {"decimal": str(bound)}
        case bytes():
            return {"bytes": bound.hex()}
        case float() if not math.isfinite(bound):
            return {"float": str(bound)}
        case _:
            return bound


_PLAIN = (str, int, float, bool)


def decode_bound(raw: Any) -> Bound | None:
    """A bound that is not understood is no bound (None): the segment is then kept."""
    if raw is None or isinstance(raw, _PLAIN):
        return raw
    match raw:
        case {"decimal": str(text)}:
            return Decimal(text)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"float": str(text)}:
            return float(text)
    return None


_KEY: Final = b',"checksum":"xxh3-128:'
_SEAL: Final = re.compile(re.escape(_KEY) + rb'([0-9a-f]{32})"\}')
_LENGTH: Final = len(_KEY) + 32 + len(b'"}')


def seal(envelope: bytes) -> bytes:
    """A JSON object with one key more, `checksum`, over all bytes before that key."""
    body = envelope[:-1]
    return body + _KEY + xxhash.xxh3_128_hexdigest(body).encode() + b'"}'


def check_seal(data: bytes, *, needed: bool) -> None:
    """Raise ValueError where a commit is not as it was sealed, or has no seal although that is `needed`.

    >>> check_seal(seal(b'{"version":1}'), needed=True)
    """
    match = _SEAL.fullmatch(data[-_LENGTH:])
    if match is None:
        if needed:
            raise ValueError("its checksum is not where it was written")
    elif xxhash.xxh3_128_hexdigest(data[:-_LENGTH]).encode() != match[1]:
        raise ValueError("its bytes do not have the checksum that it carries")


_COUNTS = tuple(field.name for field in fields(Tally))
_ALWAYS = ("rows", "segments", "buckets", "skipped_rows", "skipped_buckets")


def encode_operation(operation: OperationId, tally: Tally, kind: str = "") -> dict[str, object]:
    """The action's body; an empty `kind` is not said."""
    named: dict[str, object] = (
        {"app_id": operation.app, "sequence": operation.sequence} if isinstance(operation, SequenceId) else {"id": operation.id}
    )
    report = {name: count for name in _COUNTS if (count := getattr(tally, name)) or name in _ALWAYS}
    return {**named, "report": report, **({"kind": kind} if kind else {})}


def decode_operation(body: Mapping[str, Any]) -> tuple[OperationId, Tally, str]:
    """The operation, its counts and what kind of change it was, empty where that is not said; raises KeyError, TypeError or ValueError where it is malformed."""
    operation: OperationId = JobId(str(body["id"])) if "id" in body else SequenceId(str(body["app_id"]), int(body["sequence"]))
    report = body.get("report", {})
    return operation, Tally(**{name: int(report.get(name, 0)) for name in _COUNTS}), str(body.get("kind", ""))


_BARE = {
    "int8": pa.int8(), "int16": pa.int16(), "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(),
    "float16": pa.float16(), "date32": pa.date32(), "date64": pa.date64(),
    "time32[s]": pa.time32("s"), "time32[ms]": pa.time32("ms"), "time64[us]": pa.time64("us"), "time64[ns]": pa.time64("ns"),
    **{f"duration[{unit}]": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
}  # fmt: skip
_BARE_NAMES = {type_: name for name, type_ in _BARE.items()}
_DECIMALS = {"decimal32": pa.decimal32, "decimal64": pa.decimal64, "decimal128": pa.decimal128, "decimal256": pa.decimal256}

_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]")
_DECIMAL = re.compile(r"(decimal(?:32|64|128|256))\((\d+), (\d+)\)")
_FIXED_LIST = re.compile(r"fixed_size_list\[(\d+)\]")


def type_name(type_: pa.DataType) -> str:
    """The text of a declared type that protocol 7 cannot say; raises UnsupportedType for one that no table declares.

    >>> type_name(pa.timestamp("s", "Asia/Kolkata"))
    'timestamp[s, tz=Asia/Kolkata]'
    """
    t = pa.types
    if type_ in _BARE_NAMES:
        return _BARE_NAMES[type_]
    if t.is_timestamp(type_) or t.is_decimal(type_):
        return str(type_)
    if t.is_large_list(type_):
        return "large_list"
    if t.is_fixed_size_list(type_):
        return f"fixed_size_list[{type_.list_size}]"
    raise UnsupportedType(f"the log has no name for the type {type_}", fix="Adopt the schema first", column="", type=str(type_))


def parse_type(name: object, element: pa.Field | None) -> pa.DataType:
    """The type that `type_name` wrote; `element` is a list's child. Raises UnsupportedTable for a name that is not known.

    >>> parse_type("decimal32(5, 2)", None)
    Decimal32Type(decimal32(5, 2))
    """
    text = str(name)
    if text in _BARE:
        return _BARE[text]
    if match := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    if match := _DECIMAL.fullmatch(text):
        return _DECIMALS[match[1]](int(match[2]), int(match[3]))
    if element is not None and text == "large_list":
        return pa.large_list(element)
    if element is not None and (match := _FIXED_LIST.fullmatch(text)):
        return pa.list_(element, int(match[1]))
    raise UnsupportedTable(
        f"a column of the table has the type {text!r}",
        why="This release does not know that type, and would read wrong values",
        fix="Open the table with the release that wrote it, or a newer gapless",
        needs=text,
    )
