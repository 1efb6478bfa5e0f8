"""What Spark reads of a Delta table is what our own scan gives, by Spark's own reader where that can, and by ours where it must."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidFilter, UnknownColumn, UnsupportedType, VersionNotFound
from gapless.spark import read

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

D = Decimal
COLUMNS = {
    "id": pa.array([1, None, 3], pa.int64()),
    "flag": pa.array([True, None, False]),
    "i8": pa.array([-(2**7), None, 2**7 - 1], pa.int8()),
    "i16": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
    "i32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "f32": pa.array([1.5, None, float("-inf")], pa.float32()),
    "f64": pa.array([-0.0, None, float("nan")], pa.float64()),
    "text": pa.array(["", None, "ü\n"]),
    "bytes": pa.array([b"", None, b"\xff\x00"]),
    "day": pa.array([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
    "utc": pa.array([datetime(1, 1, 1, tzinfo=UTC), None, datetime(9999, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "naive": pa.array([datetime(1582, 10, 4), None, datetime(2026, 3, 29, 2, 30)], pa.timestamp("us")),
    "price": pa.array([D("1.50"), None, D("-0.01")], pa.decimal128(9, 2)),
    "huge": pa.array([D("9" * 33 + ".99999"), None, D("-1")], pa.decimal128(38, 5)),
    "numbers": pa.array([[1, None], None, []], pa.list_(pa.int8())),
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
    "point": pa.array([{"x": 1, "y": "b"}, None, {"x": None, "y": None}], pa.struct([("x", pa.int16()), ("y", pa.string())])),
    "nested": pa.array(
        [[{"when": 1, "tags": ["t"]}], None, [None]],
        pa.list_(pa.struct([("when", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])),
    ),
    "nothing": pa.nulls(3),
    'a.`b` "c"': pa.array([1, None, 2]),
}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=repr)


def scanned(table: Any, **request: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**request).to_arrow().to_pylist(), key=repr)


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def is_native(frame: Any) -> bool:
    """Whether Spark's own reader alone gives the rows."""
    plan = plan_of(frame)
    return "FileScan parquet" in plan and "MapInArrow" not in plan


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_every_type_comes_back_exactly_by_name_and_by_id(spark: Any, tmp_path: Path, mapping: str) -> None:
    mode = "name" if mapping == "none" else mapping
    columns = COLUMNS if mapping != "none" else {name: one for name, one in COLUMNS.items() if "`" not in name}
    properties = {} if mapping == "none" else {"delta.columnMapping.mode": mode}
    data = pa.table(columns)
    table = gl.delta.create(tmp_path / "t", data.schema, properties=properties)
    table.append(data)
    if mapping != "none":
        table.alter.rename_column("text", "note")
        table.append(data.rename_columns(["note" if name == "text" else name for name in data.column_names]))
    frame = read(spark, table)
    assert list(map(repr, rows_of(frame))) == list(map(repr, scanned(table)))
    assert is_native(frame) == (mapping != "id")
    assert frame.count() == table.count()
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    assert (types["utc"], types["naive"], types["nothing"]) == ("timestamp", "timestamp_ntz", "void")


@pytest.mark.parametrize(
    ("values", "native"),
    [
        (pa.array(["a", "b c", None, "x=y/z%41", "#?*[]{}\\"]), True),
        (pa.array(["ü", "日本", None]), False),
        (pa.array([1, -(2**63), None]), True),
        (pa.array([date(1969, 12, 31), date(9999, 12, 31), None]), True),
        (pa.array([True, False, None]), True),
        (pa.array([D("1.50"), D("-0.01"), None], pa.decimal128(9, 2)), False),
        (pa.array([datetime(2026, 3, 29, 1, 30, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")), False),
        (pa.array([datetime(2026, 3, 29, 2, 30), None], pa.timestamp("us")), False),
        (pa.array([1.5, float("nan"), float("-inf"), None]), False),
        (pa.array([b"\x00\x01", b"a", None]), False),
    ],
    ids=lambda one: str(one.type) if isinstance(one, pa.Array) else "",
)  # fmt: skip
def test_partition_values_of_every_type_come_back_exactly(spark: Any, tmp_path: Path, values: pa.Array, native: bool) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        data = pa.table({"p": values, "q": ["k"] * len(values), "n": list(range(len(values)))})
        table = gl.delta.create(tmp_path / "t", data.schema, partition_by=["p", "q"])
        table.append(data)
        frame = read(spark, table)
        assert frame.columns == ["p", "q", "n"]
        found = {row["n"]: repr(row["p"]) for row in frame.toArrow().to_pylist()}
        assert found == {
            n: repr(value) for n, value in enumerate(values.cast(frame.toArrow().schema.field("p").type).to_pylist())
        }
        assert is_native(frame) == native
        one = read(spark, table, columns=["n", "p"])
        assert one.columns == ["n", "p"]
        assert read(spark, table, columns=["n"]).agg({"n": "sum"}).collect()[0][0] == sum(range(len(values)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_files_are_left_out_by_partition_and_statistics_and_rows_are_exact(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", pa.schema([("day", pa.date32()), ("n", pa.int64())]), partition_by="day")
    for day in range(1, 6):
        table.append({"day": [date(2026, 1, day)] * 100, "n": list(range(100 * day, 100 * day + 100))})
    by_part = read(spark, table, where="day = '2026-01-03'")
    assert rows_of(by_part) == scanned(table, where="day = '2026-01-03'")
    assert is_native(by_part)
    assert len(by_part.inputFiles()) == 1
    cut = read(spark, table, where="n >= 250 AND n < 450", columns=["n"])
    assert rows_of(cut) == [{"n": n} for n in range(250, 450)]
    assert {Path(path).parent.name for path in cut.inputFiles()} == {f"day=2026-01-0{day}" for day in (2, 3, 4)}
    assert is_native(cut)
    assert rows_of(read(spark, table, where="n % 100 = 7 OR n IS NULL")) == scanned(table, where="n % 100 = 7")
    nothing = read(spark, table, where="n < 0")
    assert (rows_of(nothing), nothing.columns) == ([], ["day", "n"])
    assert read(spark, table, where="n < 150", columns=[]).count() == 50
    pruned = read(spark, table).where("day = date'2026-01-02'")
    assert pruned.count() == 100
    assert "PartitionFilters: [isnotnull(day" in plan_of(pruned)


def test_deletion_vectors_hide_their_rows(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64())]), properties={"delta.enableDeletionVectors": True})
    for start in (0, 100, 200):
        table.append({"n": list(range(start, start + 100))})
    table.delete("n % 7 = 0 AND n < 150")
    frame = read(spark, table)
    assert rows_of(frame) == scanned(table)
    assert frame.count() == table.count()
    assert len(frame.inputFiles()) == 1, "files without deleted rows are read by Spark"
    assert frame.select("n").where("n < 10").count() == 8


def test_old_versions_and_wider_types(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(
        tmp_path / "t", pa.schema([("n", pa.int32()), ("x", pa.float32())]), properties={"delta.enableTypeWidening": True}
    )
    table.append({"n": [1], "x": [1.5]})
    table.append({"n": [2**40], "x": [0.1], "new": ["a"]}, schema_mode="merge")
    assert rows_of(read(spark, table)) == scanned(table)
    assert rows_of(read(spark, table, version=1)) == scanned(table.at(1)) == [{"n": 1, "x": 1.5}]
    assert rows_of(read(spark, table.at(1))) == [{"n": 1, "x": 1.5}]
    assert rows_of(read(spark, table.url, version=0)) == []
    with pytest.raises(VersionNotFound):
        read(spark, table, version=9)
    kept = read(spark, table)
    table.overwrite({"n": [5], "x": [5.0], "new": ["b"]})
    assert kept.count() == 2, "what is committed later does not change a DataFrame"


def test_what_spark_cannot_hold_or_tell_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    variant = pa.field(
        "v",
        pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())]),
        metadata={b"delta.type": b"variant"},
    )
    table = gl.delta.create(tmp_path / "t", pa.schema([pa.field("n", pa.int64()), variant]))
    with pytest.raises(UnsupportedType, match="'v' is or holds a variant"):
        read(spark, table)
    assert read(spark, table, columns=["n"]).count() == 0
    with pytest.raises(UnknownColumn):
        read(spark, table, columns=["m"])
    with pytest.raises((InvalidFilter, UnknownColumn)):
        read(spark, table, where="m = 1", columns=["n"])


def test_the_format_reads_delta_tables_by_options(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(
        tmp_path / "t",
        pa.schema([("p", pa.string()), ("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))]),
        partition_by="p",
        properties={"delta.enableDeletionVectors": True},
    )
    when = [datetime(2026, 1, 1, tzinfo=UTC)] * 3
    table.append({"p": ["a", "b", None], "n": [1, 2, 3], "t": when})
    table.delete("n = 2")

    def load(**options: str) -> Any:
        return spark.read.format("gapless").options(**options).load(str(tmp_path / "t"))

    assert rows_of(load()) == scanned(table)
    assert rows_of(load(version="1")) == scanned(table.at(1))
    assert rows_of(load(where="p = 'a'", columns="n")) == [{"n": 1}]
    assert load(version="0").count() == 0
    for options, message in ({"start": "1"}, "start='1' for a Delta table"), ({"entity": "n=1"}, "for a Delta table"):
        with pytest.raises(Exception, match=message) as caught:
            load(**options)
        assert "[invalid-option]" in str(caught.value)


def test_files_that_lie_elsewhere_are_found(spark: Any, tmp_path: Path) -> None:
    """As shallow clones and converted tables have them: absolute paths, and folders that say nothing of the partition."""
    import json

    table = gl.delta.create(tmp_path / "t", pa.schema([("p", pa.int64()), ("n", pa.int64())]), partition_by="p")
    table.append({"p": [1, 2], "n": [10, 20]})
    log = tmp_path / "t" / "_delta_log" / "00000000000000000001.json"
    lines = []
    for line in log.read_text().splitlines():
        said = json.loads(line)
        if "add" in said:
            old = tmp_path / "t" / said["add"]["path"]
            new = tmp_path / "elsewhere" / old.name
            new.parent.mkdir(exist_ok=True)
            old.rename(new)
            said["add"]["path"] = new.as_uri()
        lines.append(json.dumps(said))
    log.write_text("\n".join(lines) + "\n")
    table = gl.delta.open(tmp_path / "t")
    assert rows_of(read(spark, table)) == scanned(table) == [{"n": 10, "p": 1}, {"n": 20, "p": 2}]
    assert is_native(read(spark, table, columns=["n"]))
