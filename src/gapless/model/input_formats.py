"""Options of the file formats that `append_file` reads, each checked when it is made."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from gapless.errors import InvalidOption, nearest, one_of
from gapless.model.instant import UNITS, Unit
from gapless.model.time.time_format import UnfitFormat, parse_time_format


def _refuse(option: str, value: object, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"{option}={value!r} cannot be used", why=why, fix=fix, option=option, value=value)


def _check_times(timestamp_format: object, timestamp_unit: object) -> None:
    if timestamp_unit is not None:
        one_of("timestamp_unit", timestamp_unit, UNITS, "A number counts seconds or a part of them")
    if timestamp_format is not None and (not isinstance(timestamp_format, str) or "%" not in timestamp_format):
        raise _refuse(
            "timestamp_format", timestamp_format, "It is a strptime format", 'Pass a text such as "%d/%m/%Y %H:%M:%S"'
        )
    if timestamp_format is not None:
        try:
            parse_time_format(timestamp_format)
        except UnfitFormat as unfit:
            raise _refuse("timestamp_format", timestamp_format, unfit.why, unfit.fix) from None
    if timestamp_format is not None and timestamp_unit is not None:
        raise _refuse("timestamp_unit", timestamp_unit, "timestamp_format is set as well", "Pass one of the two")


def _check_count(option: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _refuse(option, value, "It counts lines", "Pass 0 or more")


MAX_LINE_SIZE = 64 << 20
"""Bytes of the longest row of a text file, where nothing else is said."""
_LARGEST_LINE = 1 << 30


def _check_line_size(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST_LINE:
        raise _refuse("max_line_size", value, "It counts the bytes of a row", f"Pass 1 to {_LARGEST_LINE:,}")


def _names(option: str, value: object, *, unique: bool) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise _refuse(option, value, "It is a list of texts", f'Pass a list such as {option}=["NA"]')
    if unique and len(set(value)) < len(value):
        raise _refuse(option, value, "A name stands there twice", "Name each column once")
    return tuple(value)


def _types(value: object) -> dict[str, pa.DataType]:
    if not isinstance(value, Mapping):
        raise _refuse("types", value, "It maps column names to Arrow types", 'Pass a dict such as {"id": pa.string()}')
    found: dict[str, pa.DataType] = {}
    for name, given in value.items():
        try:
            found[name] = given if isinstance(given, pa.DataType) else pa.type_for_alias(given)
        except (ValueError, TypeError, AttributeError) as unknown:
            fix = 'Pass a pyarrow type or its short name: pa.timestamp("s", "UTC"), "int32", "double", "string"'
            raise _refuse("types", {name: given}, f"{given!r} is no Arrow type", fix) from unknown
    return found


def _check_encoding(value: object) -> None:
    try:
        found = codecs.lookup(value)  # type: ignore[arg-type]  # what is no text is a TypeError
        "".encode(found.name).decode(found.name)
    except (LookupError, TypeError, ValueError, UnicodeError) as unknown:
        raise _refuse("encoding", value, "Python knows no such encoding of texts", 'Try "utf-8" or "cp1252"') from unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Csv:
    """How to read a CSV file. The file may be compressed (`.gz`, `.zst`, `.bz2`), begin with a BOM and end its lines with CRLF.

    Without a table schema a column's type comes from **all** its values: booleans, integers, doubles, dates, timestamps
    (ISO 8601), else text. Numbers written with a leading zero or a plus sign (`007`, `+49…`) and whole numbers beyond 64 bits
    stay text, so that nothing is lost. Blank lines are no rows; any other line that does not fit is an error.
    """

    nulls: Sequence[str] = ("",)
    """Texts that mean null, in every column. An empty field is null in a column that is not text, whether it is listed or
    not; in a text column only where "" is listed, and a quoted text (`"NA"`, `""`) is never null there."""
    delimiter: str = ","
    """One character between fields."""
    quote: str | None = '"'
    """One character around fields, doubled within them; None: there are no quotes."""
    header: bool = True
    """The first line names the columns."""
    columns: Sequence[str] | None = None
    """Names of the columns, in order; they replace the header's where there is one."""
    timestamp_format: str | None = None
    """`strptime` format of the index column, and of the table's other timestamp columns where they are not ISO 8601;
    with `%z` the times are instants (UTC), and so with `%Z`, which takes UTC, GMT and Z alone; without them they are naive. It
    must fix the date and the hour, and name nothing that has no effect. Names of months and days are English."""
    timestamp_unit: Unit | None = None
    """What timestamps that are whole numbers count since 1970-01-01T00:00Z: "s", "ms", "us" or "ns". In the index column
    an instant before 1678, after 2261, or in January or February 1970 is refused, as it is mostly another unit's."""
    encoding: str = "utf-8"
    """In Python's names. A byte order mark of UTF-8 or UTF-16 is gone by where this is "utf-8"."""
    decimal_point: str = "."
    """One character in doubles and decimals; thousands separators are not understood."""
    skip_rows: int = 0
    """Lines before the header (or before the data) that are no CSV."""
    escape: str | None = None
    """One character that makes a quote after it, or itself, a part of a quoted text, as Spark and MySQL write them (a backslash).
    Before any other character, and outside of quotes, it stands for itself; doubled quotes are understood as well. None: a quote is
    only doubled, as RFC 4180 has it, and any other text after a quoted one is refused."""
    max_line_size: int = MAX_LINE_SIZE
    """Bytes of the longest row (or line before the header), which is held in memory whole."""
    types: Mapping[str, pa.DataType | str] = field(default_factory=dict)
    """Arrow types of columns, by name; a timestamp type there is also the unit of its numbers, and takes any year."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "nulls", _names("nulls", self.nulls, unique=False))
        object.__setattr__(self, "types", _types(self.types))
        if self.columns is not None:
            object.__setattr__(self, "columns", _names("columns", self.columns, unique=True))
        elif not self.header:
            raise _refuse("header", False, "The columns then have no names", "Pass columns=[…] too")
        _check_times(self.timestamp_format, self.timestamp_unit)
        self._check_characters()
        _check_count("skip_rows", self.skip_rows)
        _check_line_size(self.max_line_size)
        _check_encoding(self.encoding)

    def declared(self, column: str) -> pa.DataType | None:
        """The Arrow type that `types` gives a column."""
        found = self.types.get(column)
        return found if isinstance(found, pa.DataType) else None

    def _check_characters(self) -> None:
        given: dict[str, object] = {
            "delimiter": self.delimiter, "quote": self.quote, "decimal_point": self.decimal_point, "escape": self.escape,
        }  # fmt: skip
        for option, value in given.items():
            if option in ("quote", "escape") and value is None:
                continue
            if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in "\r\n\0":
                raise _refuse(option, value, "It is one ASCII character", f'Pass one, such as {option}=";"')
        if self.delimiter in (self.quote, self.decimal_point):
            raise _refuse("delimiter", self.delimiter, "It is also the quote or the decimal point", "Pass different characters")
        if self.escape is not None and self.quote is None:
            raise _refuse(
                "escape", self.escape, "It stands before quotes, and quote=None says that there are none", "Leave it out"
            )
        if self.escape == self.delimiter:
            raise _refuse("escape", self.escape, "It is also the delimiter", "Pass different characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Json:
    """How to read JSON lines: one object a line, UTF-8, plain or compressed (`.gz`, `.zst`, `.bz2`).

    Texts stay texts, but for the index column and for columns that the table's schema says are timestamps, dates, times or
    decimals. A field that comes late, or that is null for a while, is a column like any other.
    """

    timestamp_format: str | None = None
    """As in `Csv`."""
    timestamp_unit: Unit | None = None
    """As in `Csv`."""
    max_line_size: int = MAX_LINE_SIZE
    """Bytes of the longest line, which is held in memory whole."""

    def __post_init__(self) -> None:
        _check_times(self.timestamp_format, self.timestamp_unit)
        _check_line_size(self.max_line_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parquet:
    """Parquet files, which need no options."""


Format = Csv | Json | Parquet
FormatName = Literal["parquet", "csv", "tsv", "json", "jsonl", "ndjson"]
_BY_NAME: dict[str, Format] = {
    "parquet": Parquet(), "csv": Csv(), "tsv": Csv(delimiter="\t"), "json": Json(), "jsonl": Json(), "ndjson": Json(),
}  # fmt: skip


def parse_format(value: object) -> Format | None:
    """Read a format as users give it: a `Csv`, `Json` or `Parquet`, one of their names, or None ("go by the file's name").

    Raises InvalidOption.
    """
    if value is None or isinstance(value, Csv | Json | Parquet):
        return value
    found = _BY_NAME.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise _refuse("format", value, "No such file format is known", nearest(str(value), _BY_NAME))
    return found
