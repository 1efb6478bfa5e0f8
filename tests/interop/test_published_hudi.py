"""A time-series table that is published as Hudi: after each step of a life hudi-rs and Hudi on Spark have its rows, of older instants too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import ForeignCommit
from gapless.model.properties import CODECS
from gapless.publish.hudi.listing import data_file_names
from gapless.publish.hudi.plan import BasePath
from gapless.publish.hudi.timeline import Timeline
from gapless.publish.hudi.trimming import Files
from interop.delta.engines import HUDI, HUDI_SPARK, Ask, EngineError, counted
from support.hudi_reader import rows_seen, versions_told

START = datetime(2026, 1, 5, tzinfo=UTC)
READERS = (HUDI, HUDI_SPARK)


def rows(first: int, count: int, value: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "ts": START + timedelta(hours=first + n),
            "site": "ab"[n % 2],
            "n": value + n,
            "price": None if n % 5 == 0 else 0.25 * n,
            "deal": {"by": f"é{n}", "lots": [n, None]},
        }
        for n in range(count)
    ]


def changes_of(table: gl.TimeSeriesTable) -> list[Callable[[], object]]:
    return [
        lambda: table.append(rows(0, 12)),
        lambda: table.append(rows(20, 12)),
        lambda: table.upsert(rows(6, 10, value=100)),
        lambda: table.delete("n = 103 OR n = 4"),
        table.compact,
        lambda: table.add_column("note", pa.string()),
        lambda: table.append([row | {"note": "x"} for row in rows(50, 4)]),
        lambda: table.replace((START, START + timedelta(hours=3)), [row | {"note": None} for row in rows(0, 3, value=7)]),
        lambda: table.restore(version=5),
        lambda: table.delete("n = 20"),
        lambda: table.tag("now"),
        lambda: table.drop_column("price"),
    ]


def test_every_reader_has_the_rows_after_each_step_and_as_of_each_instant(engine: Ask, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = gl.create(path, index="ts", bucket="1h", entity=["site"], properties={"publish": "hudi", "checkpoint_interval": 4})
    told: list[str] = []
    for step, change in enumerate(changes_of(table)):
        change()
        (publication,) = table.publications()
        assert (publication.version, publication.behind) == (table.version, 0)
        expected = counted(table.scan().to_arrow())
        told.append(str(publication.published_version))
        for name in READERS:
            assert counted(engine(name).read(path / "data")) == expected, (name, step)
    columns = table.scan().to_arrow().column_names
    for at in told[:5]:
        for name in READERS:
            as_of = counted(engine(name).read(path / "data", at=at), columns)
            assert as_of == counted(table.at(version=table_version(table, at)).scan().to_arrow(), columns), (name, at)
    table.expire(keep_versions=1)
    kept = str(table.publications()[0].published_version)
    table.vacuum(timedelta(0), dry_run=False)
    with pytest.raises(EngineError, match="Cleaner cleaned up"):
        engine(HUDI_SPARK).read(path / "data", at=told[3])  # hudi-rs does not look
    for name in READERS:
        assert counted(engine(name).read(path / "data", at=kept)) == counted(table.scan().to_arrow()), name
    for change in (
        lambda: table.append([{k: v for k, v in row.items() if k != "price"} for row in rows(80, 3)]),
        table.compact,
    ):
        for name in READERS:
            assert counted(engine(name).read(path / "data")) == counted(table.scan().to_arrow()), name
        change()
    assert not gl.verify(path).problems


def table_version(table: gl.TimeSeriesTable, instant: str) -> int:
    """The version that an instant publishes, as hudi-rs and `show_commit_extra_metadata` find it."""
    return next(version for name, version in versions_told(table._env.store).items() if name.startswith(instant))


def test_a_table_in_a_bucket_is_read_there(engine: Ask, s3_options: tuple[str, dict[str, str]]) -> None:
    url, options = s3_options
    table = gl.create(
        f"{url}/t", index="ts", bucket="1h", entity=["site"], properties={"publish": "hudi"}, storage_options=options
    )
    storage = {f"AWS_{name.upper()}": value for name, value in options.items()}
    told = []
    for change in changes_of(table)[:10]:
        change()
        told.append((str(table.publications()[0].published_version), table.scan().to_arrow()))
        assert counted(engine(HUDI).read(f"{url}/t/data", storage=storage)) == counted(told[-1][1])
    columns = told[-1][1].column_names
    for at, rows_then in told[:5]:
        found = engine(HUDI).read(f"{url}/t/data", at=at, storage=storage)
        assert counted(found, rows_then.column_names) == counted(rows_then, columns)


def test_a_timeline_that_was_trimmed_is_read_as_of_what_went_too(engine: Ask, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["site"], properties={"publish": "hudi"})
    told = []
    for hour in range(6):
        table.append(rows(2 * hour, 2))
        told.append((str(table.publications()[0].published_version), table.scan().to_arrow()))
    table.delete("n = 1")
    told.append((str(table.publications()[0].published_version), table.scan().to_arrow()))
    timeline = Timeline(table._env, BasePath("data"))
    before = timeline.look()
    assert before is not None
    trimmed = timeline.trim(before, Files.of(data_file_names(table._env.store, "data")), told[4][0])
    assert sorted(trimmed.instants) == [at for at, _ in told[4:]]
    for name in READERS:
        assert counted(engine(name).read(tmp_path / "t" / "data")) == counted(told[-1][1]), name
        for at, rows_then in told:
            assert counted(engine(name).read(tmp_path / "t" / "data", at=at)) == counted(rows_then), (name, at)


def test_a_table_of_many_commits_is_begun_and_read(engine: Ask, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = gl.create(path, index="ts", bucket="1h", entity=["site"])
    for change in changes_of(table)[:5]:
        change()
    table.append(rows(60, 2))
    table.set_properties({"publish": ["hudi"]})
    for name in READERS:
        assert counted(engine(name).read(path / "data")) == counted(table.scan().to_arrow()), name


KINDS: dict[str, pa.Array] = {
    "bool": pa.array([True, None]),
    "int8": pa.array([-128, 127], pa.int8()),
    "int64": pa.array([-(2**63), 2**63 - 1], pa.int64()),
    "uint8": pa.array([255, None], pa.uint8()),
    "uint16": pa.array([2**16 - 1, None], pa.uint16()),
    "uint32": pa.array([2**32 - 1, None], pa.uint32()),
    "float32": pa.array([1.5, None], pa.float32()),
    "float64": pa.array([-0.0, 1e300]),
    "decimal": pa.array([Decimal("-99.99"), None], pa.decimal128(4, 2)),
    "wide_decimal": pa.array([Decimal(10) ** 37, None], pa.decimal128(38, 0)),
    "string": pa.array(["", "ünïcode"]),
    "large_string": pa.array(["a", None], pa.large_string()),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "binary": pa.array([b"\0\xff", None]),
    "fixed": pa.array([b"abc", None], pa.binary(3)),
    "date": pa.array([-1, 20_000], pa.date32()),
    "ms": pa.array([1_767_571_200_123, None], pa.timestamp("ms", "UTC")),
    "s": pa.array([1_767_571_200, None], pa.timestamp("s", "UTC")),
    "us": pa.array([1, None], pa.timestamp("us", "Europe/Berlin")),
    "list": pa.array([[1, None], []], pa.list_(pa.int32())),
    "struct": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
}


@pytest.mark.parametrize("name", READERS)
def test_every_kind_of_column_and_codec_is_read(engine: Ask, tmp_path: Path, name: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": ["hudi"]})
    for number, codec in enumerate(CODECS):
        table.set_properties({"codec": codec})
        times = pa.array([START + timedelta(hours=2 * number + n) for n in range(2)], pa.timestamp("us", "UTC"))
        table.append(pa.table({"ts": times, **KINDS}))
    expected = table.scan().to_arrow()
    found = engine(name).read(tmp_path / "t" / "data")
    for column in expected.column_names:
        assert counted(found, [column]) == counted(expected, [column]), column


@pytest.mark.parametrize("name", READERS)
def test_widened_columns_are_read(engine: Ask, tmp_path: Path, name: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": ["hudi"]})
    columns = {
        "i": pa.array([7], pa.int32()),
        "f": pa.array([0.5], pa.float32()),
        "u": pa.array([7], pa.uint32()),
        "d": pa.array([Decimal("1.25")], pa.decimal128(4, 2)),
    }
    table.append(pa.table({"ts": pa.array([START], pa.timestamp("us", "UTC")), **columns}))
    for column, type_ in (("i", "int64"), ("f", "float64"), ("u", "int64"), ("d", pa.decimal128(20, 2))):
        table.widen_column(column, type_)
    table.append([{"ts": START + timedelta(hours=1), "i": 2**40, "f": 0.1, "u": 2**40, "d": Decimal(10) ** 15}])
    assert counted(engine(name).read(tmp_path / "t" / "data")) == counted(table.scan().to_arrow())


@pytest.mark.parametrize("name", READERS)
def test_what_a_column_held_before_a_restore_made_it_narrower_is_read_as_of_then(
    engine: Ask, tmp_path: Path, name: str
) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": ["hudi"]})
    first = pa.table(
        {
            "ts": pa.array([START], pa.timestamp("us", "UTC")),
            "i": pa.array([7], pa.int32()),
            "f": pa.array([0.5], pa.float32()),
            "d": pa.array([Decimal("1.25")], pa.decimal128(4, 2)),
        }
    )
    table.append(first)
    for column, type_ in (("i", "int64"), ("f", "float64"), ("d", pa.decimal128(20, 2))):
        table.widen_column(column, type_)
    table.append([{"ts": START + timedelta(hours=1), "i": 2**40, "f": 0.1, "d": Decimal(10) ** 15}])
    at, wide = str(table.publications()[0].published_version), table.scan().to_arrow()
    table.restore(version=2)
    table.append(first.set_column(0, "ts", pa.array([START + timedelta(hours=2)], pa.timestamp("us", "UTC"))))
    assert counted(engine(name).read(tmp_path / "t" / "data", at=at)) == counted(wide)
    now = table.scan().to_arrow()
    assert now.schema.field("i").type == pa.int32()
    assert counted(engine(name).read(tmp_path / "t" / "data")) == counted(now)
    assert gl.verify(tmp_path / "t").ok


def small(path: Path) -> gl.TimeSeriesTable:
    table = gl.create(path, index="ts", bucket="1h", properties={"publish": ["hudi"]})
    for first in (0, 5):
        table.append([{"ts": START + timedelta(hours=first + n), "n": first + n} for n in range(3)])
    return table


def test_writers_of_hudi_are_kept_out(engine: Ask, tmp_path: Path) -> None:
    table, path = small(tmp_path / "t"), tmp_path / "t" / "data"
    spark, there = engine(HUDI_SPARK), sorted(one.name for one in path.iterdir())
    spark.do("sql", text="drop table if exists kept_out")
    spark.do("sql", text=f"create table kept_out using hudi location '{path}'")
    mine = table.scan().to_arrow()
    acts: tuple[Callable[[], object], ...] = (
        lambda: spark.do("write", mine, path=str(path), operation="insert"),
        lambda: spark.do("write", mine, path=str(path), operation="upsert", key="n"),
        lambda: spark.do("write", mine, path=str(path), operation="bulk_insert"),
        lambda: spark.do("sql", text="insert into kept_out select * from kept_out"),
        lambda: spark.do("sql", text="delete from kept_out where n = 1"),
        lambda: spark.do("sql", text="update kept_out set n = 7 where n = 1"),
        lambda: spark.do("sql", text="insert overwrite kept_out select * from kept_out"),
    )
    for act in acts:
        with pytest.raises(EngineError, match=r"populate\.meta\.fields|Config conflict"):
            act()
    assert sorted(one.name for one in path.iterdir()) == there
    assert not gl.verify(tmp_path / "t").problems


def test_a_change_by_hudi_is_found_and_mended(engine: Ask, tmp_path: Path) -> None:
    table, path = small(tmp_path / "t"), tmp_path / "t"
    spark = engine(HUDI_SPARK)
    spark.do("sql", text="drop table if exists altered")
    spark.do("sql", text=f"create table altered using hudi location '{path / 'data'}'")
    spark.do("sql", text="alter table altered add columns (more int)")  # and so makes it one of version 9
    with pytest.raises(ForeignCommit):
        table.publish()
    assert "ForeignCommit" in table.append([{"ts": START + timedelta(hours=20), "n": 20}]).published["hudi"]
    (finding,) = gl.verify(path).problems
    assert finding.code == "publication-foreign"
    table.publish(mend=True)
    assert not gl.verify(path).problems
    for hour in (30, 31):
        for name in READERS:
            assert counted(engine(name).read(path / "data")) == counted(table.scan().to_arrow()), name
        table.append([{"ts": START + timedelta(hours=hour), "n": hour}])


def test_the_readers_rule_that_other_tests_rely_on(engine: Ask, tmp_path: Path) -> None:
    """`support.hudi_reader` sees what the real ones see, of strays and of instants that are not there, too."""
    path = tmp_path / "t"
    table = gl.create(path, index="ts", bucket="1h", properties={"publish": ["hudi"]})
    for n in range(3):
        table.append([{"ts": START + timedelta(hours=n), "n": n}])
    table.delete("n = 1")
    mine = Path(table.segments()[0].path)
    data = (path / mine).read_bytes()
    (path / "data" / f"x1_0_{mine.stem[-17:]}.parquet").write_bytes(data)
    (path / "data" / "x2_0_20300101000000000.parquet").write_bytes(data)
    (path / "data" / "below").mkdir()
    (path / "data" / "below" / "part.parquet").write_bytes(data)
    seen = rows_seen(table._env.store)
    assert seen is not None
    assert seen.total() == 3
    for name in READERS:
        assert counted(engine(name).read(path / "data")).total() == 3, name
