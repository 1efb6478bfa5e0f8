"""Tables that gapless writes, read by timeseries-table-format 0.9.0: the same rows, or a refusal that names the feature."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import timeseries_table_format as ttf

import gapless as gl

Query = Callable[..., pa.Table]
START = 1_704_067_200  # 2024-01-01T00:00Z
UNITS = ("s", "ms", "us", "ns")
STEPS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def hours(*numbers: int, unit: str = "us", zone: str | None = None) -> pa.Array:
    values = [(START + 3600 * number) * STEPS[unit] for number in numbers]
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit)).view(pa.timestamp(unit, zone))


def rows(*numbers: int, **columns: Any) -> pa.Table:
    """Rows at these hours, numbered in `n`."""
    return pa.table({"ts": hours(*numbers), "n": pa.array(numbers, pa.int64()), **columns})


def same(there: pa.Table, given: pa.Table, key: str = "n") -> None:
    """Whether the rows read there are those given here, in any order; aware times are equal in any zone."""
    assert in_order(there, key) == in_order(given, key)


def in_order(table: pa.Table, key: str) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row[key])


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"])
@pytest.mark.parametrize("unit", UNITS)
def test_timestamp_indexes(tmp_path: Path, query_there: Query, unit: str, zone: str | None) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    data = pa.table({"ts": hours(5, -9, 3, 300_000, -300_000, unit=unit, zone=zone), "n": range(5)})
    table.append(data.slice(0, 3))
    table.append(data.slice(3))
    same(query_there(tmp_path / "t"), data)
    assert query_there(tmp_path / "t", "select n from t where ts > timestamp '2024-01-01T04:00:00Z' order by n")[
        "n"
    ].to_pylist() == [0, 3]


@pytest.mark.parametrize(("kind", "low", "high"), [("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1)])
@pytest.mark.parametrize("width", [1, 10, 2**63 - 1])
def test_integer_indexes_to_their_ends(tmp_path: Path, query_there: Query, kind: str, low: int, high: int, width: int) -> None:
    table = gl.create(tmp_path / "t", index="k", index_type=kind, bucket=width)
    data = pa.table({"k": pa.array([high, 7, low], kind), "n": range(3)})
    table.append(data.slice(0, 2))
    table.append(data.slice(2), on_overlap="allow")
    same(query_there(tmp_path / "t"), data)
    assert query_there(tmp_path / "t", "select n from t where k > 0 and k < 10")["n"].to_pylist() == [1]


ENTITIES = {
    "string": pa.array(["a", "Ünïcode 🚀", "", "a"]),
    "large_string": pa.array(["a", "b", "", "a"], pa.large_string()),
    "dictionary": pa.array(["a", "b", "", "a"]).dictionary_encode(),
    **{f"int{bits}": pa.array([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, 0], f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": pa.array([2**bits - 1, 1, 0, 0], f"uint{bits}") for bits in (8, 16, 32, 64)},
}


@pytest.mark.parametrize("kind", ENTITIES)
def test_entity_columns_of_every_type_alone_and_mixed(tmp_path: Path, query_there: Query, kind: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["e"])
    data = rows(0, 1, 2, 3, e=ENTITIES[kind])
    table.append(data.slice(0, 1))  # one identity: the log says it, and 0.9.0 prunes by it
    table.append(data.slice(1))
    there = query_there(tmp_path / "t")
    same(there, data)
    wanted = there.filter(pc.equal(there["n"], 0))["e"][0].as_py()
    literal = f"'{wanted}'" if isinstance(wanted, str) else wanted
    found = query_there(tmp_path / "t", f"select n from t where e = {literal}")["n"].to_pylist()
    assert sorted(found) == [n for n, value in enumerate(data["e"].to_pylist()) if value == wanted]


def test_several_entity_columns(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["site", "sensor", "port"])
    data = rows(
        0,
        0,
        1,
        2,
        site=["x", "x", "y", "x"],
        sensor=pa.array([1, 2, 1, 1], pa.uint16()),
        port=pa.array([2**63, 1, 1, 1], pa.uint64()),
    )
    data = data.set_column(1, "n", pa.array(range(4)))
    table.append(data.slice(0, 1))
    table.append(data.slice(1))
    same(query_there(tmp_path / "t"), data)
    query = "select n from t where site = 'x' and sensor = 1 order by n"
    assert query_there(tmp_path / "t", query)["n"].to_pylist() == [0, 3]


def test_several_appends_out_of_order_with_skip_and_allow(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1d", entity="e")
    table.append(rows(100, 50, e=["a", "b"]))
    table.append(rows(-30, 0, e=["b", "a"]))
    assert table.append(rows(101, 300, e=["a", "a"]), on_overlap="skip").skipped_rows == 1
    table.append(rows(102, e=["a"]), on_overlap="allow")
    with pytest.raises(gl.CoverageOverlap):
        table.append(rows(103, e=["a"]))
    expected = rows(100, 50, -30, 0, 300, 102, e=["a", "b", "b", "a", "a", "a"])
    same(query_there(tmp_path / "t"), expected)
    same(table.scan().to_arrow(), expected)
    assert ttf.TimeSeriesTable.open(str(tmp_path / "t")).version() == table.version


def test_a_table_whose_coverage_lies_in_a_sidecar(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1s")
    seconds = [START + 2 * step + step % 7 // 6 for step in range(9_000)]  # no runs to compress
    data = pa.table({"ts": pa.array(seconds, pa.timestamp("s")), "n": range(9_000)})
    table.append(data)
    (sidecar,) = (tmp_path / "t" / "_coverage" / "segments").iterdir()
    assert sidecar.stat().st_size > 4_096
    same(query_there(tmp_path / "t"), data)


def test_it_reads_segments_without_any_coverage_of_its_own(tmp_path: Path, query_there: Query) -> None:
    """Neither `coverage_path` nor `UpdateTableCoverage` stands in our commits, and no sidecar is there."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(rows(0, 1))
    log = "".join(path.read_text() for path in (tmp_path / "t" / "_timeseries_log").glob("*.json"))
    assert '"AddSegment"' in log
    assert "coverage_path" not in log
    assert "UpdateTableCoverage" not in log
    assert not (tmp_path / "t" / "_coverage").exists()
    assert query_there(tmp_path / "t").num_rows == 2


COLUMNS = {
    "bool": pa.array([True, None]),
    "int8": pa.array([-128, None], pa.int8()),
    "uint16": pa.array([65_535, None], pa.uint16()),
    "uint32": pa.array([2**32 - 1, None], pa.uint32()),
    "uint64": pa.array([2**64 - 1, None], pa.uint64()),
    "float32": pa.array([1.5, None], pa.float32()),
    "binary": pa.array([b"a\0", None]),
    "fixed binary": pa.array([b"abc", None], pa.binary(3)),
    "large string": pa.array(["ü", None], pa.large_string()),
    "view": pa.array(["ü", None], pa.string_view()),
    "dictionary": pa.array(["ü", None]).dictionary_encode(),
    "decimal": pa.array([Decimal("-1.20"), None], pa.decimal128(38, 2)),
    "small decimal": pa.array([Decimal("1.20"), None], pa.decimal32(5, 2)),
    "wide decimal": pa.array([Decimal("1.20"), None], pa.decimal256(60, 2)),
    "list": pa.array([[1, None], None], pa.list_(pa.int16())),
    "struct": pa.array([{"a": 1, "b": "x"}, None]),
    "strict struct": pa.array([{"a": 1}, None], pa.struct([pa.field("a", pa.int64(), nullable=False)])),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "deep": pa.array([[{"a": [1], "t": datetime(2024, 1, 1)}], None], pa.list_(pa.struct([("a", pa.list_(pa.int8())), ("t", pa.timestamp("s"))]))),
    **{f"time {unit}": pa.array([datetime(2024, 1, 1, 1, 2, 3), None], pa.timestamp(unit)) for unit in UNITS},
    **{f"zoned {unit}": pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], pa.timestamp(unit, "Asia/Kolkata")) for unit in UNITS},
}  # fmt: skip


def test_nullable_and_nested_columns_in_one_table(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    data = rows(0, 1, **COLUMNS)
    table.append(data)
    table.append(rows(2))  # all nullable columns left out
    missing = pa.table({"ts": hours(2), "n": [2], **{name: pa.nulls(1, array.type) for name, array in COLUMNS.items()}})
    same(query_there(tmp_path / "t"), pa.concat_tables([data, missing], promote_options="permissive"))


def test_stat_03_floats_that_json_cannot_say(tmp_path: Path, query_there: Query) -> None:
    values = [1.0, float("inf"), float("-inf"), float("nan"), -0.0, None]
    gl.create(tmp_path / "t", index="ts", bucket="1h").append(rows(*range(6), x=pa.array(values)))
    there = query_there(tmp_path / "t", "select x from t order by n")["x"].to_pylist()
    assert list(map(repr, there)) == list(map(repr, values))
    assert query_there(tmp_path / "t", "select n from t where x > 1e308 order by n")["n"].to_pylist()[0] == 1


def test_metadata_of_a_schema_and_its_fields(tmp_path: Path, query_there: Query) -> None:
    schema = pa.schema([pa.field("ts", pa.timestamp("us"), metadata={"a": "b"}), pa.field("n", pa.int64(), metadata={b"\xff": b"\0"})],
                       metadata={"owner": "me", "pandas": "{}"})  # fmt: skip
    data = rows(0, 1).cast(schema)
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", schema=schema)
    table.append(data)
    same(query_there(tmp_path / "t"), data)
    reopened = gl.open(tmp_path / "t").schema
    assert reopened is not None
    assert reopened.metadata == {b"owner": b"me"}
    assert reopened.field("n").metadata == {b"\xff": b"\0"}


@pytest.mark.parametrize("order", [["ts", "x", "n", "y"], ["x", "y", "n", "ts"], ["ts", "n", "x", "y"]])
def test_columns_whose_type_came_late_stay_readable(tmp_path: Path, query_there: Query, order: list[str]) -> None:
    """Protocol 7 lets a schema grow at its end only, and knows no column of nulls; our column order stays as given."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(rows(0, x=pa.nulls(1), y=pa.nulls(1)).select(order))
    assert query_there(tmp_path / "t").num_rows == 1
    table.append(rows(1, x=pa.nulls(1), y=[1.5]).select(order))
    same(query_there(tmp_path / "t"), rows(0, 1, y=pa.array([None, 1.5])))
    reopened = gl.open(tmp_path / "t")
    for number, handle in ((2, table), (3, reopened)):  # the handle that wrote it, and one that read the log
        handle.append(rows(number, x=["a"], y=[2.5]))
        same(query_there(tmp_path / "t"), gl.open(tmp_path / "t").scan().to_arrow())
    whole = gl.open(tmp_path / "t")
    assert whole.schema is not None
    assert whole.schema.names == order
    same(query_there(tmp_path / "t"), rows(0, 1, 2, 3, x=[None, None, "a", "a"], y=[None, 1.5, 2.5, 2.5]))


def test_local_days(tmp_path: Path, query_there: Query) -> None:
    """A bucket of local days is said as days: 0.9.0 reads rows, and its writers, which would count UTC days, are kept out."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1d", timezone="America/New_York")
    wall = [datetime(2024, 3, 9, 23) + timedelta(hours=step) for step in (0, 1, 5, 26, 50)]
    table.append(pa.table({"ts": pa.array(wall, pa.timestamp("us")), "n": range(5)}))
    there = query_there(tmp_path / "t").sort_by("n")
    zoned = table.scan(order="index").to_arrow()["ts"]
    assert there["ts"].cast(pa.int64()).to_pylist() == zoned.cast(pa.int64()).to_pylist()
    assert ttf.TimeSeriesTable.open(str(tmp_path / "t")).index_spec()["index_granularity"] == "1d"


DATES = pa.array([date(2024, 1, 1), date(2024, 1, 2)])
FOREIGN_COLUMNS = {
    "float16": pa.array([1.0, 2.0], pa.float16()),
    "date32": DATES,
    "date64": DATES.cast(pa.date64()),
    "time": pa.array([1, 2], pa.time64("us")),
    "duration": pa.array([1, 2], pa.duration("ms")),
    "large list": pa.array([[1], [2]], pa.large_list(pa.int64())),
    "fixed list": pa.array([[1], [2]], pa.list_(pa.int64(), 1)),
    "list of dates": pa.array([[date(2024, 1, 1)], None]),
}
FOREIGN_BUCKETS = {
    "500ms": None,
    "1500ms": None,
    "100us": None,
    "1mo": None,
    "3mo": "Europe/Berlin",
    "4294967297s": None,
    "4294967297d": "UTC",
}


def refused_there(root: Path, feature: str) -> None:
    with pytest.raises(ttf.TimeseriesTableError, match=f'unsupported table reader features: \\["{feature}"\\]'):
        ttf.TimeSeriesTable.open(str(root))
    with pytest.raises(ttf.TimeseriesTableError, match=feature):
        ttf.Session().register_tstable("t", str(root))


@pytest.mark.parametrize("kind", FOREIGN_COLUMNS)
def test_types_it_lacks_are_refused_there_by_name(tmp_path: Path, kind: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(rows(0, 1, x=FOREIGN_COLUMNS[kind]))
    refused_there(tmp_path / "t", "gapless_types")


@pytest.mark.parametrize("entity", [DATES, pa.array([True, False])], ids=["date", "bool"])
def test_entity_types_it_lacks_are_refused_there_by_name(tmp_path: Path, entity: pa.Array) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity="e")
    table.append(rows(0, 1, e=entity))
    refused_there(tmp_path / "t", "gapless_types")
    assert gl.open(tmp_path / "t").identities() == sorted((value,) for value in entity.to_pylist())


@pytest.mark.parametrize("bucket", FOREIGN_BUCKETS)
def test_buckets_it_cannot_count_are_refused_there_by_name(tmp_path: Path, bucket: str) -> None:
    gl.create(tmp_path / "t", index="ts", bucket=bucket, timezone=FOREIGN_BUCKETS[bucket])
    refused_there(tmp_path / "t", "gapless_buckets")
    assert gl.open(tmp_path / "t").version == 1


def test_its_writers_are_kept_out(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    gl.create(root, index="ts", bucket="1h", entity="e").append(rows(0, 1, e=["a", "b"]))
    theirs = ttf.TimeSeriesTable.open(str(root))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    new = rows(9, e=["a"]).cast(query_there(root).schema)
    attempts: list[Callable[[], object]] = [
        lambda: theirs.append(new),
        lambda: theirs.add_columns(pa.schema([pa.field("y", pa.int64())])),
        lambda: theirs.update_rows(rows(0, e=["a"]).cast(new.schema), columns=["n"], expected_version=theirs.version()),
        theirs.optimize,
        lambda: theirs.vacuum(datetime.now(UTC), apply=True),
    ]
    for attempt in attempts:
        with pytest.raises(ttf.TimeseriesTableError, match='unsupported table writer features: \\["gapless"\\]'):
            attempt()
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
