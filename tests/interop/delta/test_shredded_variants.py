"""Shredded variants between Spark 4.1 with delta-spark and us, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.tables.delta.table import DeltaTable
from interop.delta.engines import Ask

PATHS = "a long, b string, n.d decimal(20,2), n.t timestamp, n.day date, ok boolean, x double"
VALUES = """
    named_struct(
        'a', id, 'b', 'x' || id, 'c', array(id, null), 'ok', id % 2 = 0, 'x', id / 4.0d,
        'n', named_struct('d', cast(id as decimal(20,2)), 's', cast(id as decimal(5,2)), 't', timestamp_millis(id), 'day', date_add(date'2026-01-01', cast(id as int)))
    )
"""
DRAWN = f"""
    case id % 5 when 4 then null when 3 then parse_json('{{"a": "text", "b": 1, "n": [1], "other": {{"deep": [true]}}}}')
    else to_variant_object({VALUES}) end
"""


def read_here(table: DeltaTable, *names: str) -> dict[int, Any]:
    """By id, what a variant column, or a field of one in a struct, holds."""
    found: dict[int, Any] = {}
    for row in table.scan(columns=["id", names[0]]).to_arrow().to_pylist():
        one = row[names[0]]
        for name in names[1:]:
            one = None if one is None else one[name]
        found[row["id"]] = None if one is None else json.loads(json.dumps(gl.delta.decode_variant(**one), default=_told))
    return found


def _told(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value.normalize())


def shredded(path: Path) -> list[str]:
    """The columns of a table's data files that hold parts of variants."""
    found: set[str] = set()
    for file in path.glob("*.parquet"):
        found |= {name for name in pq.ParquetFile(file).schema.names and _paths(pq.ParquetFile(file)) if "typed_value" in name}
    return sorted(found)


def _paths(file: pq.ParquetFile) -> list[str]:
    return [file.schema.column(number).path for number in range(len(file.schema))]


@pytest.mark.long
def test_spark_shreds_variants_and_we_read_them_in_columns_and_structs(engine: Ask, tmp_path: Path) -> None:
    spark, path = engine("spark"), tmp_path / "t"
    spark.do(
        "sql",
        text=f"create table delta.`{path}` (id bigint, v variant, st struct<w: variant>, l array<variant>) using delta"
        " tblproperties('delta.enableVariantShredding'='true')",
    )
    drawn = f"select id, {DRAWN} v from range(20)"
    spark.do("sql", text=f"insert into delta.`{path}` select id, v, named_struct('w', v), array(v, null) from ({drawn})")
    columns = shredded(path)
    assert any(one.startswith("v.typed_value.a.") for one in columns)
    assert any(one.startswith("st.w.typed_value.a.") for one in columns)
    table = gl.delta.open(path)
    of_column, of_struct = read_here(table, "v"), read_here(table, "st", "w")
    assert of_column == of_struct
    assert of_column[3] == {"a": "text", "b": 1, "n": [1], "other": {"deep": [True]}}
    assert of_column[4] is None
    assert of_column[7]["c"] == [7, None]
    theirs = spark.do(
        "query", text=f"select id, variant_get(v, '$.a', 'string') a, variant_get(v, '$.n.day', 'date') day from delta.`{path}`"
    )
    for row in theirs.to_pylist():
        mine = of_column[row["id"]] or {}
        assert row["a"] == (None if mine.get("a") is None else str(mine["a"]))
        inner = mine.get("n")
        assert (None if row["day"] is None else row["day"].isoformat()) == (
            inner.get("day") if isinstance(inner, dict) else None
        )

    # And we go on in their table, as their feature is called there.
    table.delete("id < 2")
    table.append(table.at(1).scan(where="id = 0").to_arrow())
    assert spark.do("query", text=f"select count(*) n, count(v) v from delta.`{path}`").to_pylist() == [{"n": 19, "v": 15}]


@pytest.mark.long
def test_we_shred_variants_and_spark_reads_and_filters_them(engine: Ask, tmp_path: Path) -> None:
    spark, plain = engine("spark"), tmp_path / "plain"
    spark.do("sql", text=f"create table delta.`{plain}` (id bigint, v variant) using delta")
    spark.do("sql", text=f"insert into delta.`{plain}` select id, {DRAWN} from range(40)")
    rows = gl.delta.open(plain).scan().to_arrow()
    properties = {
        "delta.enableVariantShredding": True,
        "gapless.variantShredding.v": PATHS,
        "gapless.rowGroupRows": 8,
        "delta.enableChangeDataFeed": True,
    }
    table = gl.delta.create(tmp_path / "t", rows.schema, properties=properties)
    table.append(rows.sort_by("id"))
    assert any(one.startswith("v.typed_value.n.typed_value.day.") for one in shredded(tmp_path / "t"))
    table.delete("id = 39")
    assert read_here(table, "v") == {key: one for key, one in read_here(gl.delta.open(plain), "v").items() if key != 39}
    asked = "select id, to_json(v) v, variant_get(v, '$.n.d', 'decimal(20,2)') d, variant_get(v, '$.n.s', 'decimal(5,2)') s from delta.`{}`"

    def told(path: Path) -> dict[int, Any]:
        found = spark.do("query", text=asked.format(path)).to_pylist()
        return {row["id"]: (None if row["v"] is None else json.loads(row["v"]), row["d"], row["s"]) for row in found}

    assert told(tmp_path / "t") == {key: one for key, one in told(plain).items() if key != 39}
    found = spark.do(
        "query", text=f"select id from delta.`{tmp_path / 't'}` where try_variant_get(v, '$.a', 'bigint') between 10 and 12"
    )
    assert sorted(found.column("id").to_pylist()) == [10, 11, 12]
    theirs = spark.do("query", text=f"select id, _change_type from table_changes_by_path('{tmp_path / 't'}', 2)")
    assert [(row["id"], row["_change_type"]) for row in theirs.to_pylist()] == [(39, "delete")]
    # Spark goes on in our table.
    spark.do("sql", text=f'update delta.`{tmp_path / "t"}` set v = parse_json(\'{{"a": 7, "new": 1}}\') where id = 0')
    assert read_here(table.refresh(), "v")[0] == {"a": 7, "new": 1}
