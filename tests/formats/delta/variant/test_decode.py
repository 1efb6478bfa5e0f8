"""Variants: what DuckDB and Spark encode is what comes out, and damage is told, never guessed at."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import CorruptTable
from gapless.formats.delta.variant.decode import decode_variant

FIXTURE = Path(__file__).resolve().parents[3] / "fixtures" / "delta" / "spark_variant"
EMPTY = b"\x01\x00\x00"
"""Metadata without names."""


def _by_duckdb(expression: str, folder: Path) -> tuple[bytes, bytes]:
    """An expression's variant as DuckDB writes it, unshredded since the rows of the file have nothing in common."""
    target = folder / "v.parquet"
    query = f"select ({expression})::variant v union all select 5::variant"
    duckdb.execute(f"copy ({query}) to '{target}' (format parquet)")
    row = pq.read_table(target)["v"][0].as_py()
    return row["metadata"], row["value"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (
            "{'a': 1, 'b': [1.5::decimal(4,2), null], 'c': [true, false]}",
            {"a": 1, "b": [Decimal("1.50"), None], "c": [True, False]},
        ),
        ("{'d': date '0001-01-01', 'e': date '9999-12-31'}", {"d": date(1, 1, 1), "e": date(9999, 12, 31)}),
        ("{'t': timestamptz '1960-01-01 00:00:00.000001+00'}", {"t": datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=UTC)}),
        ("{'t': timestamp '2020-01-01 00:00:00.123456'}", {"t": datetime(2020, 1, 1, 0, 0, 0, 123456)}),
        ("{'t': timestamp_ns '2020-01-01 00:00:00.000001'}", {"t": datetime(2020, 1, 1, 0, 0, 0, 1)}),
        ("{'t': time '01:02:03.000004'}", {"t": time(1, 2, 3, 4)}),
        ("{'d': -2.5::double, 'f': 1.1::float}", {"d": -2.5, "f": struct.unpack("f", struct.pack("f", 1.1))[0]}),
        (
            "{'i': (-128)::tinyint, 'l': (-9223372036854775808)::bigint, 's': 32767::smallint}",
            {"i": -128, "l": -(2**63), "s": 32767},
        ),
        ("{'x': 12345678901234567890.5::decimal(38,1)}", {"x": Decimal("12345678901234567890.5")}),
        ("{'u': '00112233-4455-6677-8899-aabbccddeeff'::uuid}", {"u": UUID("00112233-4455-6677-8899-aabbccddeeff")}),
        ("{'b': '\\x00\\xFF'::blob, 's': repeat('é', 300), 'z': ''}", {"b": b"\0\xff", "s": "é" * 300, "z": ""}),
        ("[[1], [], [2, 3]]", [[1], [], [2, 3]]),
        ("range(300)", list(range(300))),
    ],
)
def test_what_duckdb_encodes(expression: str, value: object, tmp_path: Path) -> None:
    found = decode_variant(*_by_duckdb(expression, tmp_path))
    assert found == value
    assert repr(found) == repr(value)


def test_an_object_of_many_and_long_names(tmp_path: Path) -> None:
    names = [f"name_{number:04d}_{'x' * (number % 90)}" for number in range(400)]
    expression = "{" + ", ".join(f"'{name}': {number}" for number, name in enumerate(names)) + "}"
    assert decode_variant(*_by_duckdb(expression, tmp_path)) == {name: number for number, name in enumerate(names)}


def test_what_spark_encodes() -> None:
    rows: dict[int, Any] = {}
    for file in (FIXTURE / "table").glob("*.parquet"):
        for row in pq.read_table(file).to_pylist():
            rows[row["id"]] = row["v"] and decode_variant(row["v"]["metadata"], row["v"]["value"])
    told = {row["id"]: row["v"] and json.loads(row["v"], parse_float=Decimal) for row in _expected()}
    assert {key: rows[key] for key in (1, 2, 3)} == {key: told[key] for key in (1, 2, 3)}
    assert rows[4] == {
        "bin": b"\x01\x02",
        "d": date(2026, 1, 1),
        "dec": Decimal("1.25"),
        "f": 1.5,
        "n": datetime(2026, 1, 1),
        "t": datetime(2026, 1, 1, tzinfo=UTC),
    }


def _expected() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((FIXTURE / "expected.json").read_text())["rows"]
    return rows


def test_nested_variants_of_the_golden_table(shared: Path) -> None:
    files = sorted((shared / "golden/delta/unshredded-variant/delta").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert rows
    for row in rows:
        assert decode_variant(**row["v"]) == {"key": row["id"]}
        assert decode_variant(**row["array_of_variants"][0]) == {"key": row["id"]}


@pytest.mark.parametrize(
    ("metadata", "value", "why"),
    [
        (b"", b"\0", "no version 1"),
        (b"\x02\x00\x00", b"\0", "no version 1"),
        (b"\x01\x05\x00", b"\0", "it ends after 3 bytes"),
        (EMPTY, b"", "index out of range"),
        (EMPTY, b"\x0c", "it ends after 1 bytes"),
        (EMPTY, bytes([21 << 2]), "unknown type 21"),
        (EMPTY, bytes([(5 << 2) | 1]) + b"abc", "it ends after 4 bytes"),
        (EMPTY, bytes([(2 << 2) | 1]) + b"\xff\xfe", "utf-8"),
        (EMPTY, bytes([16 << 2]) + b"\xff\xff\xff\xff", "bytes, where"),
        (EMPTY, bytes([8 << 2, 39]) + b"\0\0\0\0", "scale 39"),
        (EMPTY, bytes([17 << 2]) + struct.pack("<q", 86_400_000_000), "within a day"),
        (EMPTY, bytes([18 << 2]) + struct.pack("<q", 1_001), "no whole number of microseconds"),
        (EMPTY, bytes([2, 1, 0, 0, 1, 0]), "out of range"),
        (EMPTY, bytes([3 | 1 << 4, 0xFF, 0xFF, 0xFF, 0xFF]), "parts, and has"),
        (b"\x01\x02\x00\x01\x02aa", bytes([2, 2, 0, 1, 0, 1, 2, 0, 0]), "a field twice"),
    ],
)
def test_damage_is_told(metadata: bytes, value: bytes, why: str) -> None:
    with pytest.raises(CorruptTable, match="a variant is damaged") as caught:
        decode_variant(metadata, value)
    assert why in str(caught.value)


def test_parts_that_share_their_bytes_do_not_multiply() -> None:
    """Every level holds the next one twice: 150 bytes that say 2**30 values."""
    value = b"\0"
    for _ in range(30):
        value = bytes([3, 2, 0, 0, len(value)]) + value
    with pytest.raises(CorruptTable, match="in itself"):
        decode_variant(EMPTY, value)


def test_a_list_in_a_list_too_deep() -> None:
    value = b"\0"
    for _ in range(1_000):
        value = bytes([3 | 3 << 2, 1]) + struct.pack("<II", 0, len(value)) + value
    with pytest.raises(CorruptTable, match="too deep"):
        decode_variant(EMPTY, value)


SAMPLE_METADATA = b"\x01\x02\x00\x01\x02ab"
SAMPLE = bytes([2, 2, 0, 1, 0, 2, 7, 12, 5, 3, 1, 0, 3, (2 << 2) | 1, 120, 121])


@given(st.data())
def test_any_change_of_a_byte_is_read_or_told(data: st.DataObject) -> None:
    damaged = bytearray(SAMPLE_METADATA + SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    with suppress(CorruptTable):
        decode_variant(bytes(damaged[: len(SAMPLE_METADATA)]), bytes(damaged[len(SAMPLE_METADATA) : cut]))


def test_the_sample_is_whole() -> None:
    assert decode_variant(SAMPLE_METADATA, SAMPLE) == {"a": 5, "b": ["xy"]}
