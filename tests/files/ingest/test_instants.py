"""Texts that become timestamps: forms of ISO 8601, formats, numbers with a fraction, and dates in a table with a time zone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import AmbiguousTime, InvalidOption, InvalidTime, InvalidValue
from gapless.files.ingest.files import open_file
from gapless.model.index import FixedWidth, IndexSpec
from gapless.model.input_formats import Csv, Json
from gapless.model.instant import ns_from_datetime
from gapless.model.time.iso_text import parse_iso

INDEX = IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(3600 * 10**9))
DAY = datetime(2026, 1, 5, tzinfo=UTC)

Read = Callable[..., pa.Array]


@pytest.fixture(params=["csv", "jsonl"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Read:
    """The times in a file of either format that has these texts (in JSON: numbers as they stand there) in its index column."""

    def from_file(*texts: str, zone: str | None = None, schema: pa.Schema | None = None, **options: str) -> pa.Array:
        path = tmp_path / f"x.{request.param}"
        if request.param == "csv":
            path.write_text("ts\n" + "".join(f'"{text}"\n' for text in texts))
            form: Csv | Json = Csv(**options)  # type: ignore[arg-type] # texts of options
        else:
            quoted = [text if "timestamp_unit" in options else json.dumps(text) for text in texts]
            path.write_text("".join(f'{{"ts": {text}}}\n' for text in quoted))
            form = Json(**options)  # type: ignore[arg-type] # texts of options
        index = IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(3600 * 10**9), timezone=zone)
        batches = open_file(path, form, index=index, schema=schema)
        return pa.Table.from_batches(batches, schema=batches.schema)["ts"].combine_chunks()

    return from_file


def counts(array: pa.Array) -> list[int]:
    return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return] # pyarrow has no types


# ---- ISO 8601


def test_t2_03_the_end_of_a_day_and_other_forms_are_read(read: Read) -> None:
    found = read("2026-01-05T23:00:00Z", "2026-01-05T24:00:00Z", "2026-W02-1T09:00Z", "2026-005T09:00Z", "20260105T090000,5Z")
    assert found.type == pa.timestamp("us", "UTC")
    nine = DAY.replace(hour=9)
    assert found.to_pylist() == [DAY.replace(hour=23), DAY + timedelta(1), nine, nine, nine + timedelta(milliseconds=500)]


def test_t2_03_past_the_end_of_a_day_is_an_error(read: Read) -> None:
    with pytest.raises(InvalidValue, match="24:00, which is the end of its day") as caught:
        read("2026-01-05T23:00:00Z", "2026-01-05T24:30:00Z")
    assert (caught.value.row, caught.value.value) == (1, "2026-01-05T24:30:00Z")


@pytest.mark.parametrize("text", ["2026-W02", "2026-01-05T09.5Z", "P1D", "2016-12-31T23:59:60Z", "2026-01-05T00:00:00 UTC"])
def test_t2_03_a_form_that_is_not_read_is_named_in_the_refusal(read: Read, text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read("2026-01-05T23:00:00Z", text)
    assert caught.value.row == 1
    with pytest.raises(ValueError, match=re.escape(caught.value.why)):
        parse_iso(text)


def test_t2_03_forms_are_read_in_any_block_and_into_a_known_type(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.files.ingest.text_file.BLOCK_BYTES", 64)
    monkeypatch.setattr("gapless.files.ingest.json_file.CHUNK_ROWS", 3)
    texts = ["2026-01-05T00:00:00Z", *[f"2026-01-05T{hour:02d}:00:00+01:00" for hour in range(1, 12)], "2026-005T24:00Z"]
    for schema in (None, pa.schema([("ts", pa.timestamp("ns", "Europe/Berlin"))])):
        found = read(*texts, schema=schema)
        assert [str(value) for value in found.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s"))] == [
            str(datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)) if "W" not in text and "005" not in text
            else "2026-01-06 00:00:00" for text in texts
        ]  # fmt: skip


def test_t2_03_times_that_only_a_wider_type_holds_are_refused_by_row(read: Read) -> None:
    with pytest.raises(InvalidValue, match="1677 to 2262") as caught:
        read("2026-01-05T00:00:00.123456789Z", "1500-01-05T24:00:00Z")
    assert caught.value.row == 1
    with pytest.raises(InvalidValue, match="exactly") as caught:
        read("2026-005T00:00:00Z", "2026-01-05T00:00:00.5Z", schema=pa.schema([("ts", pa.timestamp("s", "UTC"))]))
    assert caught.value.row == 1


def test_t2_03_other_timestamp_columns_of_a_table_are_read_alike(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", schema=pa.schema([("at", pa.timestamp("us", "UTC")), ("day", pa.string())]))
    (tmp_path / "a.csv").write_text("at,day\n2026-01-05T24:00Z,2026-W02-1\n")
    (tmp_path / "a.jsonl").write_text('{"at": "20260105T240000Z", "day": "2026-W02-1"}\n')
    for name in ("a.csv", "a.jsonl"):
        table.append_file(tmp_path / name)
    assert table.scan().to_arrow().to_pylist() == [{"at": DAY + timedelta(1), "day": "2026-W02-1"}] * 2


def test_t2_03_arguments_and_filters_read_the_same_forms(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append([{"ts": DAY + timedelta(hours=hour)} for hour in range(48)])
    for text in ("2026-01-05T24:00Z", "2026-006T00:00Z", "2026-W02-2T00:00:00,0Z", "20260106T0000Z"):
        assert table.scan(start=text).to_arrow().num_rows == 24
        assert table.scan(where=f"ts >= '{text}'").to_arrow().num_rows == 24
        assert table.scan(where=f"ts >= timestamptz '{text}'").to_arrow().num_rows == 24
    assert table.scan(where="ts >= date '2026-W02-2'").to_arrow().num_rows == 24
    for text, name in (("2026-01-05T24:30Z", "end of its day"), ("2026-W02", "without a day"), ("20260105", "number")):
        with pytest.raises(InvalidTime, match=name):
            table.scan(start=text)
        with pytest.raises(InvalidTime, match=name):
            table.scan(where=f"ts >= '{text}'")
        with pytest.raises(InvalidTime, match=name):
            table.at(time=text)


# ---- formats


def test_t2_16_a_zone_name_is_an_instant_or_refused(read: Read) -> None:
    format_ = "%Y-%m-%d %H:%M %Z"
    found = read("2026-01-05 00:00 UTC", "2026-01-05 01:00 GMT", zone="Europe/Berlin", timestamp_format=format_)
    assert found.type == pa.timestamp("us", "UTC")
    assert found.to_pylist() == [DAY, DAY.replace(hour=1)]
    with pytest.raises(InvalidValue, match="does not follow") as caught:
        read("2026-01-05 00:00 UTC", "2026-01-05 00:00 EST", timestamp_format=format_)
    assert caught.value.row == 1


def test_t2_16_a_format_reads_nanoseconds_and_the_end_of_a_day(read: Read) -> None:
    schema = pa.schema([("ts", pa.timestamp("ns"))])
    found = read("05.01.2026 24:00:00.000000000", schema=schema, timestamp_format="%d.%m.%Y %H:%M:%S.%f")
    assert counts(found) == [ns_from_datetime(DAY + timedelta(1))]
    with pytest.raises(InvalidValue, match="exactly"):
        read("05.01.2026 00:00:00.000000001", timestamp_format="%d.%m.%Y %H:%M:%S.%f")
    with pytest.raises(InvalidValue, match="exactly"):
        read("05.01.1500", schema=schema, timestamp_format="%d.%m.%Y")


# ---- numbers


@pytest.mark.parametrize(
    ("text", "unit", "type_", "ns"),
    [
        ("1767571200", "s", "s", 1767571200 * 10**9),
        ("1767571200.25", "s", "us", 1767571200 * 10**9 + 250_000_000),
        ("1767571200.123456789", "s", "ns", 1767571200 * 10**9 + 123_456_789),
        ("1767571200.1234560000", "s", "ns", 1767571200 * 10**9 + 123_456_000),
        ("1767571200123.5", "ms", "us", 1767571200123 * 10**6 + 500_000),
        ("1767571200123456.789", "us", "ns", 1767571200123456 * 10**3 + 789),
        ("-1.5", "s", "us", -1_500_000_000),
        ("-0.5", "s", "us", -500_000_000),
    ],
)
def test_seconds_with_a_fraction_are_read_to_the_last_digit(read: Read, text: str, unit: str, type_: str, ns: int) -> None:
    found = read(text, timestamp_unit=unit)
    assert found.type == pa.timestamp(type_, "UTC")
    assert counts(found.cast(pa.timestamp("ns", "UTC"))) == [ns]


@given(st.lists(st.tuples(st.integers(-(2**31), 2**32), st.integers(0, 10**9 - 1)), min_size=1, max_size=5))
def test_any_seconds_with_nine_digits_are_exact(tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, int]]) -> None:
    path = tmp_path_factory.mktemp("numbers") / "x.csv"
    texts = [f"{whole}.{fraction:09d}" for whole, fraction in parts]
    path.write_text("ts\n" + "".join(f"{text}\n" for text in texts))
    schema = pa.schema([("ts", pa.timestamp("ns", "UTC"))])
    plain = [text for text, (whole, _) in zip(texts, parts, strict=True) if not -1 <= whole < 59 * 86_400]
    try:
        batches = open_file(path, Csv(timestamp_unit="s"), index=INDEX, schema=schema)
        found = pa.Table.from_batches(batches, schema=batches.schema)["ts"]
    except InvalidValue as refused:
        assert "another unit" in str(refused)  # noqa: PT017 - either way is right
        assert len(plain) < len(texts)
        return
    assert counts(found.combine_chunks()) == [int(Decimal(text) * 10**9) for text in texts]


@pytest.mark.parametrize(
    ("text", "unit", "why"),
    [
        ("1.7675712e9", "s", "scientific"),
        ("1767571200.1234567891", "s", "finer than ns"),
        ("1767571200123456789.5", "ns", "finer than ns"),
    ],
)
def test_a_number_that_would_lose_digits_is_refused(read: Read, text: str, unit: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as caught:
        read("1767571200.0" if unit == "s" else "1767571200123456789", text, timestamp_unit=unit)
    assert caught.value.row == 1


def test_a_fraction_that_the_index_cannot_hold_is_refused(read: Read) -> None:
    with pytest.raises(InvalidValue, match="finer than s") as caught:
        read("1767571200", "1767571200.5", timestamp_unit="s", schema=pa.schema([("ts", pa.timestamp("s", "UTC"))]))
    assert caught.value.row == 1
    found = read("1767571200000.0", timestamp_unit="ms", schema=pa.schema([("ts", pa.timestamp("s", "UTC"))]))
    assert found.to_pylist() == [DAY]


def test_fractions_still_need_their_unit(read: Read) -> None:
    with pytest.raises((InvalidOption, InvalidValue), match="unit was not declared"):
        read("1767571200.25")


def test_a_decimal_comma_is_one_in_numbers_of_seconds(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("ts;v\n1767571200,25;1\n")
    options = Csv(delimiter=";", decimal_point=",", timestamp_unit="s")
    (batch,) = open_file(tmp_path / "x.csv", options, index=INDEX)
    assert batch["ts"].to_pylist() == [DAY + timedelta(milliseconds=250)]


def test_digits_of_json_numbers_do_not_pass_through_a_double(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", schema=pa.schema([("d", pa.decimal128(38, 20)), ("f", pa.float64())]))
    (tmp_path / "a.jsonl").write_text('{"d": 123456789.12345678901234567890, "f": 1.5}\n{"d": 1, "f": 2}\n')
    table.append_file(tmp_path / "a.jsonl")
    assert table.scan().to_arrow()["d"].to_pylist() == [
        Decimal("123456789.12345678901234567890"),
        Decimal("1.00000000000000000000"),
    ]


# ---- dates in a table with a time zone

SKIPPED = [("America/Santiago", "2026-09-06", 1), ("Asia/Beirut", "2026-03-29", 1), ("Africa/Cairo", "2026-04-24", 1)]


@pytest.mark.parametrize(("zone", "day", "hour"), SKIPPED)
@pytest.mark.parametrize("format_", [None, "%Y-%m-%d"])
def test_a_date_is_its_day_where_the_zone_skips_midnight(
    read: Read, zone: str, day: str, hour: int, format_: str | None
) -> None:
    options = {} if format_ is None else {"timestamp_format": format_}
    found = read(day, "2026-06-01", zone=zone, **options)
    first = datetime.fromisoformat(day).replace(hour=hour, tzinfo=ZoneInfo(zone))
    assert found.type == pa.timestamp("us", zone)
    assert found.to_pylist() == [first, datetime(2026, 6, 1, tzinfo=ZoneInfo(zone))]


@pytest.mark.parametrize(("zone", "day", "hour"), [*SKIPPED, ("America/Havana", "2026-11-01", 0)])
def test_a_written_midnight_that_a_zone_skips_or_repeats_is_still_refused(read: Read, zone: str, day: str, hour: int) -> None:
    with pytest.raises(AmbiguousTime, match="skips" if hour else "repeats") as caught:
        read(day, f"{day} 00:00", zone=zone)
    assert (caught.value.row, caught.value.timezone, caught.value.value) == (1, zone, f"{day} 00:00")


def test_a_date_is_the_first_of_two_midnights(read: Read) -> None:
    found = read("2026-11-01", "2026-11-01 05:00", zone="America/Havana")
    assert found.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s")).to_pylist() == [
        datetime(2026, 11, 1, 4), datetime(2026, 11, 1, 10)
    ]  # fmt: skip


def test_dates_make_the_days_of_a_table_with_a_zone(tmp_path: Path) -> None:
    for zone, day, _ in SKIPPED:
        path = tmp_path / "days.csv"
        path.write_text(f"ts,v\n{day},1\n2026-12-01,2\n")
        table = gl.create(tmp_path / zone.replace("/", "_"), index="ts", bucket="1d", timezone=zone)
        assert table.append_file(path).rows == 2
        assert table.scan(start=day, end="2026-10-01").to_arrow()["v"].to_pylist() == [1]
        with pytest.raises(gl.CoverageOverlap):
            table.append_file(path)
