"""Tables that delta-spark and deltalake wrote, one for each feature, kept in this repository: they read here as they read there."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake

from gapless.files.pages.page_slice import ColumnPages, slice_file
from gapless.files.read import page_pruning
from gapless.tables.delta.files import reading
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.handle import open_environment
from support.delta_rows import counted, counted_table
from support.releases import needs_pyarrow

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "delta"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/expected.json"))
SAME = {"string_view": "string", "binary_view": "binary", "large_string": "string"}
"""What a writer calls a type, and we call otherwise."""


def opened(name: str) -> DeltaView:
    path = FIXTURES / name / "table"
    env = open_environment(path, None)
    return DeltaView(env, name, open_table(env, str(path)))


def said(value: Any) -> Any:
    """A value of `expected.json`."""
    match value:
        case {"bytes": text}:
            return bytes.fromhex(text)
        case {"float": text}:
            return float(text)
        case {"decimal": text}:
            return Decimal(text)
        case {"time": text}:
            return dt.datetime.fromisoformat(text) if "T" in text else dt.date.fromisoformat(text)
        case dict():
            return {name: said(one) for name, one in value.items()}
        case list():
            return [said(one) for one in value]
        case _:
            return value


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / name / "expected.json").read_text(encoding="utf-8"))
    return found


def test_there_are_fixtures() -> None:
    assert len(NAMES) >= 18


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("spark_variant")])
def test_a_table_of_another_writer(name: str) -> None:
    told, table = expected(name), opened(name)
    found = table.scan().to_arrow()
    found.validate(full=True)
    assert {one.name: str(one.type) for one in found.schema} == {
        column: SAME.get(type_, type_) for column, type_ in told["types"].items()
    }
    assert counted_table(found) == counted([said(row) for row in told["rows"]])
    assert table.count() == len(told["rows"])
    assert counted_table(table.sql("select * from this").to_arrow()) == counted_table(found)


@needs_pyarrow(26, "knows no variants")
def test_variants_are_plain_values() -> None:
    found = {row["id"]: row["v"] for row in opened("spark_variant").scan().to_pylist()}
    assert found[1] == {"a": [1, 2.5, None, True, "x"], "b": {"c": 12345678901234}}
    assert found[2] is None
    assert found[3] == "text"
    assert found[4] == {
        "bin": b"\x01\x02",
        "d": dt.date(2026, 1, 1),
        "dec": Decimal("1.25"),
        "f": 1.5,
        "n": dt.datetime(2026, 1, 1),  # a timestamp without a zone
        "t": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    }
    assert math.isclose(found[4]["f"], 1.5)
    raw = opened("spark_variant").scan(columns=["v"]).to_arrow().column("v")
    assert [child.name for child in raw.type] == ["metadata", "value"]


@needs_pyarrow(26, "knows no variants")
def test_variants_that_spark_shredded_in_columns_and_structs_are_whole() -> None:
    files = list((FIXTURES / "spark_variant_shredded" / "table").glob("*.parquet"))
    names = {file: pq.read_schema(file) for file in files}
    assert all(one.field("v").type.get_field_index("typed_value") > 0 for one in names.values())
    assert all(one.field("st").type.field("w").type.get_field_index("typed_value") > 0 for one in names.values())
    found = {row["id"]: row for row in opened("spark_variant_shredded").scan().to_pylist()}
    assert sorted(found) == list(range(6))
    for key, row in found.items():
        day = {"d": Decimal(f"{key}.00"), "day": dt.date(2026, 1, 1)}
        one = {2: None, 3: {"a": "text", "n": [1]}}.get(key, {"a": key, "n": day, "l": [key, None]})
        assert (row["v"], row["st"], row["l"]) == (one, {"w": one}, [one])


Filter = tuple[str, Callable[[dict[str, Any]], bool]]


@pytest.mark.parametrize(
    ("name", "where", "keeps"),
    [
        ("spark_partition_texts", "p = 'é/ü'", lambda row: row["p"] == "é/ü"),
        ("spark_partition_texts", "p is null", lambda row: row["p"] is None),
        ("spark_partition_texts", "p <> 'a b'", lambda row: row["p"] not in (None, "a b")),
        ("spark_widened", "i = 5000000000", lambda row: row["i"] == 5_000_000_000),
        ("spark_widened", "i < 3 and d = 4.25", lambda row: row["i"] == 2),
        ("spark_widened", "s.n > 100", lambda row: row["s"] is not None and row["s"]["n"] > 100),
        ("spark_widened", "dt = timestamp '2026-01-01'", lambda row: row["dt"] == dt.datetime(2026, 1, 1)),
        ("spark_types", "ts < timestamptz '1970-01-01T00:00:00Z'", lambda row: row["ts"] is not None),
        ("spark_types", "isnan(f)", lambda row: row["f"] is not None),
        ("spark_types", "st.q.r = 'deep'", lambda row: bool(row["st"]["q"])),
        ("spark_vectors", "id >= 3", lambda row: row["id"] >= 3),
    ],
)
def test_a_filter_keeps_the_rows_that_python_keeps(name: str, where: str, keeps: Callable[[dict[str, Any]], bool]) -> None:
    rows = [said(row) for row in expected(name)["rows"]]
    wanted = [row for row in rows if keeps(row)]
    scan = opened(name).scan(where=where)
    assert wanted
    assert counted_table(scan.to_arrow()) == counted(wanted)
    assert scan.count() == len(wanted)


@pytest.mark.parametrize("writer", ["deltalake", "spark"])
def test_pages_that_other_writers_wrote_are_read_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str) -> None:
    """As of files of Arrow's own: of a row group only the pages of rows near those that a filter keeps."""
    sliced: list[int] = []

    def slicing(file: pa.NativeFile, schema: pa.Schema, columns: Sequence[ColumnPages]) -> pa.Buffer:
        sliced.append(len(columns))
        return slice_file(file, schema, columns)

    monkeypatch.setattr(page_pruning, "slice_file", slicing)
    monkeypatch.setattr(page_pruning, "FEW_ROWS", 0)
    monkeypatch.setattr(reading, "FEW_ROWS", 0)
    if writer == "spark":
        table = opened("spark_plain")
        rows = [said(row) for row in expected("spark_plain")["rows"]]
    else:
        numbers = list(range(30_000))
        made = pa.table(
            {"id": numbers, "v": [None if at % 5 == 0 else f"t{at % 700}" for at in numbers], "x": [at / 8 for at in numbers]}
        )
        write_deltalake(
            tmp_path, made, writer_properties=WriterProperties(data_page_row_count_limit=1_000, write_batch_size=500)
        )
        env = open_environment(tmp_path, None)
        table, rows = DeltaView(env, "t", open_table(env, str(tmp_path))), made.to_pylist()
    for where, keeps in NEAR:
        wanted = [row for row in rows if keeps(row)]
        assert counted_table(table.scan(where=where).to_arrow()) == counted(wanted), where
    assert sliced


NEAR: list[Filter] = [
    ("id between 3 and 4", lambda row: 3 <= row["id"] <= 4),
    ("id = 1", lambda row: row["id"] == 1),
    ("v = 't7' and id < 9000", lambda row: row["v"] == "t7" and row["id"] < 9000),
    ("v is null and id > 100", lambda row: row["v"] is None and row["id"] > 100),
    ("v = 'd'", lambda row: row["v"] == "d"),
]
