"""Partition values as texts: every type there and back, and what would be lost is refused."""

from __future__ import annotations

import json
import math
import struct
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import CorruptTable, InvalidValue
from gapless.formats.delta.file_path import RelativePath, locate, log_path
from gapless.formats.delta.partitions import decode_value, decode_values, encode_value, folder_of
from gapless.formats.delta.schema.arrow_types import arrow_type
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType, StructType, decode_schema

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "delta"


def _ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits), (1 << bits) - 1)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "byte": _ints(7),
    "short": _ints(15),
    "integer": _ints(31),
    "long": _ints(63),
    "float": st.floats(width=32),
    "double": st.floats(),
    "boolean": st.booleans(),
    "string": st.text(st.characters(codec="utf-8"), min_size=1),
    "binary": st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: not text.startswith("\\u")).map(str.encode),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamp_ntz": st.datetimes(),
    "decimal(38,10)": st.decimals(-(10**27), 10**27, places=10),
    "decimal(5,0)": st.integers(-99_999, 99_999).map(Decimal),
}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_a_value_comes_back(name: str, data: st.DataObject) -> None:
    type_ = PrimitiveType(name)
    scalar = pa.scalar(data.draw(VALUES[name]), arrow_type(type_))
    text = encode_value(scalar)
    assert text
    found = decode_value(text, type_)
    assert found.type == scalar.type
    if pa.types.is_floating(found.type):
        assert struct.pack("d", found.as_py()) == struct.pack("d", scalar.as_py()) or math.isnan(scalar.as_py())
        assert math.isnan(found.as_py()) == math.isnan(scalar.as_py())
    else:
        assert found == scalar


@pytest.mark.parametrize("name", VALUES)
def test_null_and_the_empty_text_are_null(name: str) -> None:
    type_ = PrimitiveType(name)
    assert encode_value(pa.scalar(None, arrow_type(type_))) is None
    assert not decode_value(None, type_).is_valid
    assert not decode_value("", type_).is_valid


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.scalar(datetime(2020, 1, 2, 3, 4, 5, 6), pa.timestamp("us", "UTC")), "2020-01-02T03:04:05.000006Z"),
        (pa.scalar(datetime(2020, 1, 2), pa.timestamp("us", "UTC")), "2020-01-02T00:00:00.000000Z"),
        (pa.scalar(datetime(2020, 1, 2, 3, 4, 5, 6), pa.timestamp("us")), "2020-01-02 03:04:05.000006"),
        (pa.scalar(date(1, 1, 1)), "0001-01-01"),
        (pa.scalar(True), "true"),
        (pa.scalar(Decimal("0.00000100"), pa.decimal128(20, 8)), "0.00000100"),
        (pa.scalar(Decimal("1E+3"), pa.decimal128(20, 0)), "1000"),
        (pa.scalar(math.nan), "NaN"),
        (pa.scalar(-math.inf, pa.float32()), "-Infinity"),
        (pa.scalar(0.1, pa.float32()), "0.1"),
        (pa.scalar(b"abc"), "abc"),
        (pa.scalar(" "), " "),
    ],
)
def test_texts_of_values(value: pa.Scalar, text: str) -> None:
    assert encode_value(value) == text


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("06", "integer", 6),
        ("+7", "byte", 7),
        ("007", "string", "007"),
        ("1", "decimal(10,2)", Decimal("1.00")),
        ("1E+2", "decimal(10,2)", Decimal("100.00")),
        ("TRUE", "boolean", True),
        ("1e3", "double", 1000.0),
        ("inf", "float", math.inf),
        ("-Infinity", "double", -math.inf),
        ("2021-9-8", "date", date(2021, 9, 8)),
        ("2013-07-05 17:01:00.123456", "timestamp_ntz", datetime(2013, 7, 5, 17, 1, 0, 123456)),
        ("1960-01-01 00:00:00.5", "timestamp_ntz", datetime(1960, 1, 1, 0, 0, 0, 500_000)),
        ("null", "string", "null"),
        ("\\u0000\\u00FF", "binary", b"\0\xff"),
    ],
)
def test_path_08_delta_texts_of_other_writers(text: str, name: str, value: object) -> None:
    assert decode_value(text, PrimitiveType(name)).as_py() == value


@pytest.mark.parametrize("text", ["2021-09-08 11:11:11", "2021-09-08T11:11:11.000000Z", "2021-09-08T13:11:11+02:00"])
def test_instants_with_and_without_a_zone(text: str) -> None:
    assert decode_value(text, PrimitiveType("timestamp")).cast(pa.int64()).as_py() == 1_631_099_471_000_000


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x", "integer"), ("1.0", "integer"), ("1_000", "long"), (" 1", "long"), ("300", "byte"), ("9" * 20, "long"),
        ("x", "double"), ("1_0", "double"), ("0x1p3", "double"), ("NaN", "decimal(10,2)"), ("1.234", "decimal(10,2)"),
        ("123456789.00", "decimal(10,2)"), ("yes", "boolean"), ("2020-13-01", "date"), ("2020-01-01x", "date"),
        ("2020-01-01T00:00:00Z", "timestamp_ntz"), ("12:00", "timestamp"), ("٣", "integer"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_value_names_its_file(text: str, name: str) -> None:
    with pytest.raises(CorruptTable, match="the partition value") as caught:
        decode_value(text, PrimitiveType(name), path="p=1/a.parquet")
    assert caught.value.path == "p=1/a.parquet"
    assert repr(text) in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("value", ["", b""])
def test_path_06_delta_what_readers_take_for_null_is_refused(value: str | bytes) -> None:
    with pytest.raises(InvalidValue, match="every reader would see null") as caught:
        encode_value(pa.scalar(value), column="p", row=7)
    assert (caught.value.column, caught.value.row, caught.value.value) == ("p", 7, value)


def test_path_06_delta_texts_that_look_like_null_stay_apart() -> None:
    values = [None, "null", "None", "NULL", "__HIVE_DEFAULT_PARTITION__", " "]
    texts = [encode_value(pa.scalar(value, pa.string())) for value in values]
    assert decode_values(texts, PrimitiveType("string")).to_pylist() == values
    folders = [folder_of([("p", text)]) for text in texts]
    assert folders[0] == folders[4] == "p=__HIVE_DEFAULT_PARTITION__", "the log alone tells them apart"
    assert len(set(folders)) == 5


@pytest.mark.parametrize("value", [b"\xff", b"\x80abc", b"\\u0041"])
def test_path_13_delta_bytes_without_a_text_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidValue, match="partition column 'p'"):
        encode_value(pa.scalar(value), column="p")


@pytest.mark.parametrize("type_", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_years_that_others_lack_are_refused(type_: pa.DataType) -> None:
    first, last = -719_162, 2_932_896
    unit = 1 if type_ == pa.date32() else 86_400_000_000
    whole = pa.int32() if type_ == pa.date32() else pa.int64()
    for days in (first, last):
        assert encode_value(pa.scalar(days * unit, whole).cast(type_))
    for days in (first - 1, last + 1):
        with pytest.raises(InvalidValue, match="years 1 to 9999"):
            encode_value(pa.scalar(days * unit, whole).cast(type_), column="p")


def test_many_texts_of_a_column() -> None:
    texts = ["2", None, "1", "2", ""] * 10
    assert decode_values(texts, PrimitiveType("long")) == pa.array([2, None, 1, 2, None] * 10)
    assert decode_values([], PrimitiveType("date")) == pa.array([], pa.date32())


@pytest.mark.parametrize("fixture", ["spark_partition_types", "spark_partition_texts", "deltalake_partitioned"])
def test_values_as_others_read_them(fixture: str) -> None:
    """Every partition text of the fixture, against the rows that its writer read."""
    expected = json.loads((FIXTURES / fixture / "expected.json").read_text())["rows"]
    live: dict[str, dict[str, str | None]] = {}
    names: list[str] = []
    schema = StructType(fields=())
    for log in sorted((FIXTURES / fixture / "table/_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text().splitlines()):
            if "metaData" in action:
                schema = decode_schema(action["metaData"]["schemaString"], log.name)
                names = action["metaData"]["partitionColumns"]
            if "add" in action:
                live[action["add"]["path"]] = action["add"]["partitionValues"]
            if "remove" in action:
                del live[action["remove"]["path"]]
    types = {name: field.type for name in names if (field := schema.field(name))}
    found = {_shown({name: _value(texts[name], types[name]) for name in names}) for texts in live.values()}
    assert found == {_shown({name: row[name] for name in names}) for row in expected}


def _value(text: str | None, type_: DeltaType) -> object:
    assert isinstance(type_, PrimitiveType)
    return decode_value(text, type_).as_py()


def _shown(values: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(value)) for name, value in values.items())


def _text(value: Any) -> str:
    match value:
        case {"decimal": str(text)} | {"float": str(text)} | {"time": str(text)}:
            return text.replace("T", " ").replace("Z", "+00:00")
        case datetime():
            return value.isoformat(sep=" ")
        case _:
            return str(value)


odd_names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(st.lists(st.tuples(odd_names, st.none() | odd_names), min_size=1, max_size=4))
def test_path_13_delta_folders_are_names_that_every_store_takes(values: list[tuple[str, str | None]]) -> None:
    folder = folder_of(values)
    assert folder.isascii()
    assert len(folder) <= 600
    parts = folder.split("/")
    assert all(0 < len(part) <= 240 and not part.endswith(".") and part not in (".", "..") for part in parts)
    assert not set(folder) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._=%/")
    assert locate(log_path(f"{folder}/part-0.parquet")) == RelativePath(f"{folder}/part-0.parquet")


def test_folders() -> None:
    assert folder_of([]) == ""
    assert folder_of([("day", "2026-01-01"), ("site", "é/ü")]) == "day=2026-01-01/site=%C3%A9%2F%C3%BC"
    assert folder_of([("a b", "CON"), ("c", "a."), ("d", "12:30"), ("e", "😈")]) == "a%20b=CON/c=a%2E/d=12%3A30/e=%F0%9F%98%88"
    long, other = folder_of([("k", "x" * 300)]), folder_of([("k", "x" * 299 + "y")])
    assert long.startswith("k=")
    assert len(long) == 34
    assert long != other
