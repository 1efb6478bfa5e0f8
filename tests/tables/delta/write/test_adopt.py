"""Files that others wrote become files of a Delta table as they are: whoever reads finds their rows, and their bytes."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable

import gapless as gl
from gapless.errors import InvalidOption, InvalidPath, InvalidValue, NotSupported, SchemaMismatch, UnreadableInput
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.lifecycle import open_table
from support.delta_rows import counted_table
from support.delta_tables import made, racing, rows_of
from support.faulty_store import FaultyStore, once, unavailable
from support.folders import bytes_below

NOON = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
_counter = itertools.count()


def rows(*ids: int, **more: Any) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": [None if one % 5 == 4 else f"v{one}" for one in ids],
            "n": [one / 4 for one in ids],
            "at": pa.array([NOON + dt.timedelta(microseconds=one) for one in ids], pa.timestamp("us", "UTC")),
            **more,
        }
    )


def by_pyarrow(data: pa.Table, path: Path) -> None:
    pq.write_table(data, path, row_group_size=7)


def by_polars(data: pa.Table, path: Path) -> None:
    pl.DataFrame(data).write_parquet(path, row_group_size=7)


def by_duckdb(data: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.from_arrow(data).write_parquet(str(path))


@pytest.mark.parametrize("write", [by_pyarrow, by_polars, by_duckdb])
@pytest.mark.parametrize("way", ["copy", "link", "move"])
def test_the_file_is_a_data_file_with_its_bytes(tmp_path: Path, write: Any, way: Any) -> None:
    table, file = made(tmp_path / "t", rows(1, 2)), tmp_path / "in.parquet"
    write(rows(*range(10, 40)), file)
    before = file.read_bytes()
    report = table.append_file(file, adopt=way)
    assert (report.rows, report.segments, report.version) == (30, 1, 2)
    *_, added = table.files()
    assert (tmp_path / "t" / added.path).read_bytes() == before
    assert file.exists() is (way != "move")
    assert rows_of(gl.delta.open(table.url)) == counted_table(pa.concat_tables([rows(1, 2), rows(*range(10, 40))]))
    theirs = DeltaLakeTable(table.url).to_pyarrow_table().cast(table.schema)
    assert counted_table(theirs) == rows_of(table)
    assert table.verify(deep=True).ok


def test_statistics_are_those_of_the_footer(tmp_path: Path) -> None:
    table = made(tmp_path / "t", rows(1))
    by_pyarrow(rows(*range(10, 30)), tmp_path / "in.parquet")
    table.append_file(tmp_path / "in.parquet", adopt="copy")
    *_, added = table.files()
    assert (added.rows, added.stats["id"].min, added.stats["id"].max, added.stats["v"].nulls) == (20, 10, 29, 4)
    assert added.stats["n"].min is None, "writers differ in what NaN does to bounds of floats"
    assert [file.path for file in table.scan(where="id = 15").files()] == [added.path]
    assert table.scan(where="id = 15").to_arrow()["id"].to_pylist() == [15]
    found = DeltaLakeTable(table.url).to_pyarrow_dataset().to_table(filter=(pa.compute.field("id") > 0))
    assert found.num_rows == 21


def test_partition_values_are_those_of_the_folders(tmp_path: Path) -> None:
    schema = rows(1).schema.append(pa.field("day", pa.date32())).append(pa.field("who", pa.string()))
    table = gl.delta.create(tmp_path / "t", schema, partition_by=["day", "who"])
    folder = tmp_path / "in" / "day=2026-01-05" / "who=a%2Fb"
    folder.mkdir(parents=True)
    by_pyarrow(rows(1, 2), folder / "x.parquet")
    table.append_file(folder / "x.parquet", adopt="link")
    (file,) = table.files()
    assert dict(file.partition_values) == {"day": dt.date(2026, 1, 5), "who": "a/b"}
    assert set(table.scan().to_arrow()["who"].to_pylist()) == {"a/b"}
    assert set(DeltaLakeTable(table.url).to_pyarrow_table()["who"].to_pylist()) == {"a/b"}
    by_pyarrow(rows(3), tmp_path / "y.parquet")
    with pytest.raises(SchemaMismatch, match="no folder of the path is named day="):
        table.append_file(tmp_path / "y.parquet", adopt="copy")
    by_pyarrow(rows(3, who=["a"]), folder / "z.parquet")
    with pytest.raises(SchemaMismatch, match="who: a partition column, which the table's files do not hold"):
        table.append_file(folder / "z.parquet", adopt="copy")
    (tmp_path / "day=soon" / "who=b").mkdir(parents=True)
    by_pyarrow(rows(3), tmp_path / "day=soon" / "who=b" / "x.parquet")
    with pytest.raises(InvalidValue, match="day=soon"):
        table.append_file(tmp_path / "day=soon" / "who=b" / "x.parquet", adopt="copy")
    assert table.refresh().version == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (rows(1).set_column(0, "id", pa.array([1], pa.int32())), "id: int32 in the file, int64 in the table's"),
        (rows(1).rename_columns(["ID", "v", "n", "at"]), "ID: not in the table, which calls it 'id'"),
        (rows(1, extra=[1]), 'extra: not in the table; schema_mode="merge" adds it'),
        (rows(1).drop_columns("id"), "id: missing, and it may not be null"),
        (
            rows(1).set_column(0, "id", pa.array([None], pa.int64())),
            "id: it is never null in the table, and 1 times in the file",
        ),
        (rows(1).set_column(3, "at", pa.array([NOON], pa.timestamp("ms", "UTC"))), "at: timestamp"),
        (rows(1).set_column(1, "v", pa.array([b"v"])), "v: binary in the file, string in the table's"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_column(tmp_path: Path, given: pa.Table, why: str) -> None:
    schema = rows(1).schema.set(0, pa.field("id", pa.int64(), nullable=False))
    table = gl.delta.create(tmp_path / "t", schema)
    by_pyarrow(given, tmp_path / "in.parquet")
    before = bytes_below(tmp_path / "t")
    with pytest.raises(SchemaMismatch) as refused:
        table.append_file(tmp_path / "in.parquet", adopt="move")
    assert any(line.startswith(why) for line in refused.value.differences), refused.value.differences
    assert bytes_below(tmp_path / "t") == before
    assert (tmp_path / "in.parquet").exists()


def test_new_columns_are_added_where_that_is_asked_for(tmp_path: Path) -> None:
    table = made(tmp_path / "t", rows(1))
    by_pyarrow(rows(2, extra=["e"]), tmp_path / "in.parquet")
    table.append_file(tmp_path / "in.parquet", adopt="copy", schema_mode="merge")
    assert table.scan().to_arrow().sort_by("id")["extra"].to_pylist() == [None, "e"]
    empty = gl.delta.create(tmp_path / "empty")
    empty.append_file(tmp_path / "in.parquet", adopt="copy")
    assert rows_of(empty) == counted_table(rows(2, extra=["e"]))


@pytest.mark.parametrize(
    ("properties", "feature"),
    [({"delta.constraints.few": "id < 100"}, "few"), ({"delta.columnMapping.mode": "name"}, "Column mapping")],
)
def test_a_table_whose_rows_must_be_looked_at_takes_none(tmp_path: Path, properties: dict[str, str], feature: str) -> None:
    table = made(tmp_path / "t", rows(1), properties)
    by_pyarrow(rows(2), tmp_path / "in.parquet")
    with pytest.raises(NotSupported, match=feature):
        table.append_file(tmp_path / "in.parquet", adopt="copy")
    assert table.append_file(tmp_path / "in.parquet").rows == 1


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t", rows(1))
    (tmp_path / "in.csv").write_text("id\n1\n")
    with pytest.raises(InvalidOption, match="cannot be adopted"):
        table.append_file(tmp_path / "in.csv", adopt="copy")
    (tmp_path / "in.parquet").write_text("no")
    with pytest.raises(UnreadableInput):
        table.append_file(tmp_path / "in.parquet", adopt="copy")
    with pytest.raises(InvalidOption, match="hardlink"):
        table.append_file(tmp_path / "in.parquet", adopt="hardlink")  # type: ignore[arg-type]
    with pytest.raises(InvalidPath, match="It lies in the table"):
        table.append_file(tmp_path / "t" / table.files()[0].path, adopt="move")
    bad = pa.table({"v": pa.array([b"\xff"]).cast(pa.binary())})
    pq.write_table(bad.cast(pa.schema([("v", pa.string())]), safe=False), tmp_path / "bad.parquet")
    with pytest.raises(InvalidValue, match=r"bad\.parquet"):
        table.append_file(tmp_path / "bad.parquet", adopt="copy")


def test_sent_again_it_is_in_once(tmp_path: Path) -> None:
    table = made(tmp_path / "t", rows(1))
    by_pyarrow(rows(2), tmp_path / "in.parquet")
    first = table.append_file(tmp_path / "in.parquet", adopt="move", operation_id="day5")
    again = gl.delta.open(table.url).append_file(tmp_path / "in.parquet", adopt="move", operation_id="day5")
    assert (again.already_applied, again.version, again.rows) == (True, first.version, 1)
    assert table.refresh().count() == 2


def test_a_lost_race_places_nothing_again_and_is_judged_anew(tmp_path: Path) -> None:
    made(tmp_path / "t", rows(1))
    by_pyarrow(rows(2), tmp_path / "in.parquet")
    other = gl.delta.open(tmp_path / "t")
    racer = racing(tmp_path / "t", lambda: other.append(rows(3)))
    assert racer.append_file(tmp_path / "in.parquet", adopt="copy").version == 3
    assert rows_of(gl.delta.open(tmp_path / "t")) == counted_table(rows(1, 2, 3))
    racer = racing(tmp_path / "t", lambda: other.alter.add_constraint("few", "id < 100"))
    before = sorted((tmp_path / "t").glob("*.parquet"))
    with pytest.raises(NotSupported, match="few"):
        racer.append_file(tmp_path / "in.parquet", adopt="move")
    assert sorted((tmp_path / "t").glob("*.parquet")) == before
    assert (tmp_path / "in.parquet").exists()


def test_a_lost_reply_of_the_commit_keeps_the_file(tmp_path: Path) -> None:
    place = f"memory://delta-adopt-{next(_counter)}"
    made(place, rows(1))
    by_pyarrow(rows(2), tmp_path / "in.parquet")
    store = FaultyStore(open_store(place, None))
    store.after_put = once(lambda: unavailable("the commit"), lambda path: path.endswith("/00000000000000000002.json"))
    env = Environment(store=store)
    table = gl.delta.DeltaTable(env, place, open_table(env, place))
    assert table.append_file(tmp_path / "in.parquet", adopt="copy").rows == 1
    assert any(path.endswith("2.json") for path in store.puts)
    assert rows_of(gl.delta.open(place)) == counted_table(rows(1, 2))


def test_several_files_are_one_commit_and_empty_ones_bring_columns(tmp_path: Path) -> None:
    table = made(tmp_path / "t", rows(1))
    by_pyarrow(rows(2), tmp_path / "a.parquet")
    by_pyarrow(rows(1, later=["x"]).slice(0, 0), tmp_path / "b.parquet")
    told: list[int] = []
    report = table.append_file(
        [tmp_path / "a.parquet", tmp_path / "b.parquet"],
        adopt="copy", schema_mode="merge", progress=lambda done, _total: told.append(done),
    )  # fmt: skip
    assert (report.version, report.rows, report.segments) == (2, 1, 1)
    assert "later" in table.schema.names
    assert told == [1]
    assert not [*(tmp_path / "t").glob(".*.tmp")]
