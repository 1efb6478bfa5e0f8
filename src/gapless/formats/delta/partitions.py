"""Partition values: their text in the log, a file's partition, and the folders of our own files (PROTOCOL.md, "Partition Value Serialization").

The protocol has one text for null and for an empty string or bytes: readers see null. Writing such a value is refused rather than lost.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from gapless.errors import CorruptTable, InvalidValue
from gapless.formats.delta.actions import AddFile, Metadata
from gapless.formats.delta.iso_time import DAY_US, FIRST_DAY, LAST_DAY, days_text, instant_text, parse_days, parse_instant
from gapless.formats.delta.schema.arrow_types import arrow_type, decimal_size
from gapless.formats.delta.schema.types import PrimitiveType, StructField
from gapless.model.stats import ColumnStats, stats_value, supports_bounds

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_MAX_PART, _MAX_FOLDER = 200, 600
"""Bytes of one folder's name, where file systems take 255, and of all, where buckets take 1,024 for a whole key."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,4})?")
_SPECIAL = {"nan": math.nan, "infinity": math.inf, "inf": math.inf}
_ESCAPED = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")


def decode_value(text: str | None, type_: PrimitiveType, *, path: str = "") -> pa.Scalar:
    """The value that a partition text says, in the column's Arrow type; "" is null for every type.

    A `timestamp` without a zone is taken as UTC. `path` names the data file, for the CorruptTable raised where the text is no value of
    the type.
    """
    arrow = arrow_type(type_)
    if text is None or text == "":
        return pa.scalar(None, arrow)
    try:
        value = (_decimal if decimal_size(type_) else _PARSERS[type_.name])(text)
        return _scalar(value, arrow)
    except (ValueError, ArithmeticError, TypeError) as error:
        raise CorruptTable(
            f"the log gives the data file {path!r} the partition value {text!r}, which is no {type_.name}",
            fix="Restore the log from a backup, or write the file's rows anew",
            path=path,
        ) from error


def decode_values(texts: Iterable[str | None], type_: PrimitiveType, *, path: str = "") -> pa.Array:
    """Many texts of one column, each distinct one read once; raises CorruptTable as `decode_value` does."""
    places: dict[str | None, int] = {}
    at = [places.setdefault(text, len(places)) for text in texts]
    values = [decode_value(text, type_, path=path) for text in places]
    return pa.array(values, arrow_type(type_)).take(pa.array(at, pa.int32()))


def encode_value(value: pa.Scalar, *, column: str = "", row: int = 0) -> str | None:
    """The log's text of a value in its column's Arrow type (see `arrow_types`); None for null.

    Raises InvalidValue, naming column and row, for what readers would not get back: an empty string or empty bytes, which they take
    for null, bytes that are no UTF-8, and years beyond 1 to 9999.
    """
    if not value.is_valid:
        return None
    type_ = value.type
    if pa.types.is_string(type_):
        text = str(value.as_py())
    elif pa.types.is_binary(type_):
        text = _bytes_text(value.as_py(), column, row)
    else:
        if not _is_told(value):
            raise _lost(
                column,
                row,
                _plain_text(value),
                "Other readers have the years 1 to 9999 alone, and would refuse the whole table",
            )
        return _plain_text(value)
    if not text:
        raise _lost(column, row, value.as_py(), "Delta has one text for it and for null: every reader would see null")
    return text


def folder_of(values: Sequence[tuple[str, str | None]]) -> str:
    """The on-disk folder of a partition, from physical names and texts in partition order; "" for no partition columns.

    ASCII only, Hive-escaped; what is too long for a file system or a bucket is a hash.

    >>> folder_of([("day", "2026-01-01"), ("site", "ü/1")])
    'day=2026-01-01/site=%C3%BC%2F1'
    """
    folder = "/".join(_part(name, text) for name, text in values)
    return folder if len(folder) <= _MAX_FOLDER else _digest(folder)


def _part(name: str, text: str | None) -> str:
    key, value = _escaped(name), NULL_FOLDER if text is None else _escaped(text)
    if len(key) + len(value) < _MAX_PART:
        return f"{key}={value}"
    return f"{key}={_digest(value)}" if len(key) < _MAX_PART // 2 else _digest(f"{key}={value}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _escaped(text: str) -> str:
    escaped = quote(text, safe="").replace("~", "%7E")
    # Windows drops a dot at the end of a name.
    return f"{escaped[:-1]}%2E" if escaped.endswith(".") else escaped


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_timestamp(type_):
        return pa.scalar(value, pa.int64()).cast(type_)
    if pa.types.is_date32(type_):
        return pa.scalar(value, pa.int32()).cast(type_)
    return pa.scalar(value, type_)


def _whole(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("no whole number")
    return int(text)


def _float(text: str) -> float:
    sign, name = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if name.lower() in _SPECIAL:
        return sign * _SPECIAL[name.lower()]
    if _FLOAT.fullmatch(text.lower()) is None:
        raise ValueError("no number")
    return float(text)


def _decimal(text: str) -> Decimal:
    if _FLOAT.fullmatch(text.lower()) is None:
        raise ValueError("no number")
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError("no number") from error


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"


def _instant(text: str) -> int:
    return parse_instant(text)[0]


def _local(text: str) -> int:
    us, _, zoned = parse_instant(text)
    if zoned:
        raise ValueError("a time without a zone has one")
    return us


def _bytes(text: str) -> bytes:
    # delta-rs spells bytes out as `\u0001`; Spark has them as the text they are in UTF-8.
    if _ESCAPED.fullmatch(text):
        return bytes.fromhex(text.replace("\\u00", ""))
    return text.encode()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "long": _whole,
    "integer": _whole,
    "short": _whole,
    "byte": _whole,
    "float": _float,
    "double": _float,
    "boolean": _boolean,
    "binary": _bytes,
    "date": parse_days,
    "timestamp": _instant,
    "timestamp_ntz": _local,
}


def _is_told(value: pa.Scalar) -> bool:
    if pa.types.is_timestamp(value.type):
        return bool(FIRST_DAY <= value.value // DAY_US <= LAST_DAY)
    return bool(not pa.types.is_date32(value.type) or FIRST_DAY <= value.value <= LAST_DAY)


def _plain_text(value: pa.Scalar) -> str:
    type_ = value.type
    if pa.types.is_timestamp(type_):
        separator, zone = ("T", "Z") if type_.tz else (" ", "")
        return instant_text(value.value, separator=separator, zone=zone)
    if pa.types.is_date32(type_):
        return days_text(value.value)
    if pa.types.is_decimal(type_):
        return f"{value.as_py():f}"
    if pa.types.is_floating(type_) and not math.isfinite(value.as_py()):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value.as_py())]
    return str(value.cast(pa.string()).as_py())


def _bytes_text(value: bytes, column: str, row: int) -> str:
    why = "A partition value is a text in the log, and bytes that are no UTF-8 have none that all readers take back"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise _lost(column, row, value, why) from None
    if _ESCAPED.fullmatch(text):
        raise _lost(column, row, value, "Readers would take the text for the bytes it spells out")
    return text


def _lost(column: str, row: int, value: object, why: str) -> InvalidValue:
    return InvalidValue(
        f"row {row:,} has {value!r} in the partition column {column!r}, which a Delta table cannot hold",
        why=why,
        fix="Use null or another value there, or partition by another column",
        column=column,
        row=row,
        value=value,
    )


MANY = 1 << 62
"""More rows than any file has: the count of one of which it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partition columns of one version; values that were parsed are kept."""

    columns: Mapping[str, StructField]
    """By logical name, in order."""
    _values: dict[tuple[str, str | None], pa.Scalar] = field(default_factory=dict, repr=False)
    """By column and the log's text."""
    _stats: dict[tuple[str, str | None], ColumnStats] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, metadata: Metadata) -> Partitions:
        """Those that metadata declare; raises CorruptTable where one is no column of the schema."""
        return cls(columns={name: _column(metadata, name) for name in metadata.partition_by})

    def value(self, file: AddFile, name: str) -> pa.Scalar:
        """A file's value of a partition column, by logical name. Raises CorruptTable where the log's text is none of its type."""
        text = self._text(file, name)
        if (found := self._values.get((name, text))) is None:
            type_ = self.columns[name].type
            assert isinstance(type_, PrimitiveType)
            found = self._values[name, text] = decode_value(text, type_, path=file.path)
        return found

    def key(self, file: AddFile) -> tuple[str | None, ...]:
        """A file's partition, told by texts that are alike for like values, whoever wrote them. Raises CorruptTable."""
        return tuple(encode_value(self.value(file, name)) for name in self.columns)

    def stats(self, file: AddFile, name: str) -> ColumnStats:
        """The same value as the statistics of a column that has it in each of at most `MANY` rows; raises as `value`."""
        text = self._text(file, name)
        if (found := self._stats.get((name, text))) is None:
            found = self._stats[name, text] = constant_stats(self.value(file, name))
        return found

    def _text(self, file: AddFile, name: str) -> str | None:
        return file.partition_values.get(self.columns[name].physical_name)


def constant_stats(value: pa.Scalar) -> ColumnStats:
    """The statistics of a column that has one value in each of at most `MANY` rows."""
    if not value.is_valid:
        return ColumnStats(nulls=MANY, nans=0)
    if not supports_bounds(value.type):
        return ColumnStats(nulls=0)
    bound = stats_value(value, value.type)
    nan = isinstance(bound, float) and bound != bound  # noqa: PLR0124  # NaN alone differs from itself
    return ColumnStats(nulls=0) if nan else ColumnStats(min=bound, max=bound, nulls=0, nans=0)


def _column(metadata: Metadata, name: str) -> StructField:
    found = metadata.schema.field(name)
    if found is None or not isinstance(found.type, PrimitiveType):
        raise CorruptTable(
            f"the table is partitioned by {name!r}, which is no column of a plain type",
            why=f"Its columns are {', '.join(map(repr, metadata.schema.names))}",
            fix="Do not read this table before you know who wrote its metadata",
            path="_delta_log",
        )
    return found
