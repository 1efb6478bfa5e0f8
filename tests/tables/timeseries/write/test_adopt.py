"""Files that others wrote become segments as they are: whoever reads finds their rows, and their bytes."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import xxhash

import gapless as gl
from gapless.errors import CoverageOverlap, DuplicateKey, InvalidOption, InvalidPath, NullKey
from gapless.files.adopt.copy_or_link import Adopt

ttf = pytest.importorskip("timeseries_table_format", reason="needs a newer pyarrow than our oldest")

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
UTC_US = pa.timestamp("us", "UTC")
WAYS = ("copy", "link", "move")


def rows(*hours: int, symbol: str = "A", **others: Any) -> pa.Table:
    """A row an hour, with the hour as its value."""
    times = pa.array([START + dt.timedelta(hours=hour) for hour in hours], UTC_US)
    values = {"symbol": pa.array([symbol] * len(hours), pa.string()), "x": pa.array(map(float, hours), pa.float64())}
    return pa.table({"ts": times, **values, **others})


def mixed() -> pa.Table:
    """Values of many types, some null, in arrival order: time rises, symbols alternate."""
    count = 300
    dice = np.random.default_rng(5)
    some = dice.random(count) < 0.2
    return pa.table(
        {
            "ts": pa.array([START + dt.timedelta(minutes=at // 3) for at in range(count)], UTC_US),
            "symbol": [("B", "é", "A")[at % 3] for at in range(count)],
            "x": pa.array(dice.normal(size=count), mask=some),
            "n": pa.array(dice.integers(-5, 900, count), mask=some),
            "day": pa.array([dt.date(1500, 1, 1) + dt.timedelta(days=at) for at in range(count)]),
            "on": pa.array(dice.random(count) < 0.5, mask=some),
            "note": pa.array([None if some[at] else f"note {at}" for at in range(count)]),
        }
    )


def by_pyarrow(data: pa.Table, path: Path) -> None:
    pq.write_table(data, path, row_group_size=70)


def by_polars(data: pa.Table, path: Path) -> None:
    pl.DataFrame(data).write_parquet(path, row_group_size=70)


def by_duckdb(data: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.from_arrow(data).write_parquet(str(path))


def by_pandas(data: pa.Table, path: Path) -> None:
    frame = data.to_pandas(types_mapper=pd.ArrowDtype)
    frame.to_parquet(path, index=False)


WRITERS = (by_pyarrow, by_polars, by_duckdb, by_pandas)


def empty(where: Path, **properties: Any) -> gl.TimeSeriesTable:
    return gl.create(where / "t", index="ts", entity="symbol", bucket="1h", properties=properties)


def in_order(data: pa.Table) -> pa.Table:
    return data.sort_by([("symbol", "ascending"), ("ts", "ascending"), ("day", "ascending")])


def stored(table: gl.TimeSeriesTable, folder: str = "data") -> list[Path]:
    return sorted(path for path in (Path(table.url) / folder).rglob("*") if path.is_file())


def hours_of(table: gl.TimeSeriesTable) -> list[float]:
    found: list[float] = gl.open(table.url).scan(columns=["x"]).to_arrow()["x"].to_pylist()
    return found


# -- what becomes of a file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("way", WAYS)
def test_the_file_is_a_segment_that_every_reader_reads(tmp_path: Path, write: Callable[..., None], way: Any) -> None:
    data, file = mixed(), tmp_path / "in.parquet"
    write(data, file)
    before = file.read_bytes()
    table = empty(tmp_path)
    report = table.append_file(file, adopt=way)
    assert (report.rows, report.segments, report.version) == (300, 1, 2)
    (segment,) = table.segments()
    assert (Path(table.url) / segment.path).read_bytes() == before
    assert file.exists() is (way != "move")

    back = gl.open(table.url).scan().to_arrow().cast(data.schema)
    assert in_order(back).equals(in_order(data))
    assert back.select(["symbol", "ts"]).equals(in_order(data).select(["symbol", "ts"])), "rows come in order of their keys"
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        read = connection.sql(f"select * from read_parquet('{Path(table.url) / segment.path}')").to_arrow_table()
    assert in_order(read.cast(data.schema)).equals(in_order(data))
    # 0.9.0 has no dates, and refuses tables that hold some.
    plain = gl.create(tmp_path / "plain", index="ts", entity="symbol", bucket="1h")
    write(data.drop_columns(["day"]), file)
    plain.append_file(file, adopt=way)
    session = ttf.Session()
    session.register_tstable("t", plain.url)
    theirs = pa.table(session.sql("select * from t order by symbol, ts")).cast(data.drop_columns(["day"]).schema)
    assert theirs.equals(data.drop_columns(["day"]).sort_by([("symbol", "ascending"), ("ts", "ascending")]))


@pytest.mark.parametrize("write", WRITERS)
def test_the_log_says_what_an_append_of_the_rows_says(tmp_path: Path, write: Callable[..., None]) -> None:
    data, file = mixed(), tmp_path / "in.parquet"
    write(data, file)
    adopted = empty(tmp_path)
    adopted.append_file(file, adopt="copy")
    appended = gl.create(tmp_path / "other", index="ts", entity="symbol", bucket="1h")
    appended.append_file(file)
    assert adopted.schema == appended.schema
    (mine,), (theirs,) = adopted.segments(), appended.segments()
    assert (mine.rows, mine.bounds, mine.identity, mine.coverage) == (
        theirs.rows,
        theirs.bounds,
        theirs.identity,
        theirs.coverage,
    )
    for name, known in mine.stats.items():
        exact = theirs.stats[name]
        assert known.nulls in (exact.nulls, None)
        assert known.min is None or (known.min, known.max) == (exact.min, exact.max)
    assert {name for name, known in mine.stats.items() if known.min is not None} == {"symbol", "n", "day", "on", "note"}
    assert adopted.verify(deep=True).findings == ()


@pytest.mark.parametrize("place", ["disk", "memory://large"])
def test_a_file_of_many_stretches_is_hashed_as_it_lies(tmp_path: Path, place: str) -> None:
    noise = np.random.default_rng(3).bytes(20 << 20)
    data = rows(*range(20), raw=[noise[at << 20 : (at + 1) << 20] for at in range(20)])
    pq.write_table(data, tmp_path / "in.parquet", compression="none", use_dictionary=False)
    table = gl.create(tmp_path / "t" if place == "disk" else place, index="ts", entity="symbol", bucket="1h")
    for way in ("copy", "link") if place == "disk" else ("copy",):
        table.append_file(tmp_path / "in.parquet", adopt=way, on_overlap="allow")
    whole = (tmp_path / "in.parquet").read_bytes()
    length = int.from_bytes(whole[-8:-4], "little") + 8
    for segment in table.segments():
        assert segment.size == len(whole)
        assert segment.checksum == f"xxh3-128:{xxhash.xxh3_128_hexdigest(whole)}"
        assert segment.footer_checksum == f"xxh3-128:{length}:{xxhash.xxh3_128_hexdigest(whole[-length:])}"
    assert table.verify(deep=True).findings == ()


def test_order_is_claimed_only_where_it_is_so(tmp_path: Path) -> None:
    data = in_order(mixed())
    late = pa.concat_tables([data.slice(1), data.slice(0, 1)])
    for name, given, sorted_by in (("sorted", data, ("symbol", "ts")), ("last row", late, ())):
        table = gl.create(tmp_path / name, index="ts", entity="symbol", bucket="1h")
        by_pyarrow(given, tmp_path / "in.parquet")
        table.append_file(tmp_path / "in.parquet", adopt="copy")
        assert table.segments()[0].sorted_by == sorted_by
        assert table.scan().to_arrow().cast(data.schema).select(["symbol", "ts"]).equals(data.select(["symbol", "ts"]))


def test_several_files_are_one_commit(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(rows(number, number + 10), tmp_path / f"{number}.parquet")
    table, told = empty(tmp_path), []
    report = table.append_file(tmp_path / "*.parquet", adopt="link", progress=lambda done, total: told.append((done, total)))
    assert (report.version, report.rows, report.segments, report.buckets) == (2, 6, 3, 6)
    assert told == [(2, 6), (4, 6), (6, 6)]
    assert sorted(hours_of(table)) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("entity", [(), ("site",), ("site", "on", "day")])
def test_entities_of_other_types(tmp_path: Path, entity: tuple[str, ...]) -> None:
    data = pa.table(
        {
            "n": pa.array([9, -4, 3, 3, 2], pa.int64()),
            "site": pa.array([2, 1, 2, 1, 1], pa.int16()),
            "on": [True, False, True, False, False],
            "day": pa.array([dt.date(1960, 1, 1)] * 4 + [dt.date(2020, 1, 1)]),
        }
    )
    pq.write_table(data, tmp_path / "in.parquet")
    adopted, appended = (gl.create(tmp_path / t, index="n", index_type="int64", bucket=2, entity=entity) for t in "ab")
    adopted.append_file(tmp_path / "in.parquet", adopt="copy")
    appended.append(data)
    assert adopted.segments()[0].coverage == appended.segments()[0].coverage
    assert adopted.scan().to_arrow().equals(appended.scan().to_arrow())
    assert adopted.verify(deep=True).findings == ()


def test_missing_columns_are_null_or_their_default(tmp_path: Path) -> None:
    table = empty(tmp_path)
    table.append(rows(0, note=["old"]))
    table.add_column("unit", pa.string(), default="kg")
    pq.write_table(rows(1), tmp_path / "in.parquet")
    table.append_file(tmp_path / "in.parquet", adopt="copy")
    found = table.scan(columns=["note", "unit"]).to_arrow().to_pylist()
    assert found == [{"note": "old", "unit": "kg"}, {"note": None, "unit": "kg"}]
    assert table.verify(deep=True).findings == ()


def test_a_file_without_rows_brings_its_columns_alone(tmp_path: Path) -> None:
    pq.write_table(rows(), tmp_path / "in.parquet")
    table = empty(tmp_path)
    report = table.append_file(tmp_path / "in.parquet", adopt="move")
    assert (report.rows, report.segments) == (0, 0)
    assert table.schema is not None
    assert table.schema.names == ["ts", "symbol", "x"]
    assert (tmp_path / "in.parquet").exists(), "nothing was moved"
    assert stored(table) == []


def test_stat_02_bounds_of_floats_with_nan_are_not_believed(tmp_path: Path) -> None:
    values = [300.0, float("nan"), -0.0, None]
    table = empty(tmp_path)
    for number, write in enumerate(WRITERS):
        write(rows(*range(4), symbol=f"s{number}").set_column(2, "x", pa.array(values)), tmp_path / "in.parquet")
        table.append_file(tmp_path / "in.parquet", adopt="copy")
    assert {(s.stats["x"].min, s.stats["x"].max, s.stats["x"].nans) for s in table.segments()} == {(None, None, None)}
    assert table.scan(where="x >= 300 and not isnan(x)").count() == len(WRITERS)
    assert table.scan(where="isnan(x)").count() >= 1
    assert table.scan(where="x = 0").count() == len(WRITERS)


def test_stat_05_row_groups_of_nulls_take_no_bounds_away(tmp_path: Path) -> None:
    table = empty(tmp_path)
    data = rows(*range(4)).append_column("n", pa.array([1, 2, None, None], pa.int64()))
    pq.write_table(data, tmp_path / "in.parquet", row_group_size=2)
    table.append_file(tmp_path / "in.parquet", adopt="copy")
    known = table.segments()[0].stats["n"]
    assert (known.min, known.max, known.nulls) == (1, 2, 2)
    assert [table.scan(where=where).count() for where in ("n = 2", "n is null", "n > 2")] == [1, 2, 0]


def test_stat_06_a_footer_without_statistics_bounds_nothing(tmp_path: Path) -> None:
    table = empty(tmp_path)
    pq.write_table(
        rows(*range(4)).append_column("n", pa.array([1, 2, None, 7])), tmp_path / "in.parquet", write_statistics=False
    )
    table.append_file(tmp_path / "in.parquet", adopt="copy")
    assert set(table.segments()[0].stats) == {"symbol"}, "only what was read is known"
    assert table.scan(where="n > 5").count() == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_comes_later_treats_it_as_any_segment(tmp_path: Path, way: Any) -> None:
    data = mixed()
    by_duckdb(data, tmp_path / "in.parquet")
    table = empty(tmp_path)
    table.append_file(tmp_path / "in.parquet", adopt=way)
    held = (tmp_path / "in.parquet").read_bytes() if way != "move" else b""
    table.delete(where="symbol = 'B' and n > 100")
    table.upsert(data.filter(pc.equal(data["symbol"], "A")).set_column(4, "day", pa.nulls(100, pa.date32())))
    table.compact()
    expected = [
        row | ({"day": None} if row["symbol"] == "A" else {})
        for row in in_order(data).to_pylist()
        if not (row["symbol"] == "B" and (row["n"] or 0) > 100)
    ]
    assert table.scan().to_arrow().to_pylist() == expected
    assert all(segment.sorted_by == ("symbol", "ts") for segment in table.segments())
    assert table.at(2).scan().count() == 300
    assert [one.severity for one in table.verify(deep=True).findings] == []
    assert way == "move" or (tmp_path / "in.parquet").read_bytes() == held


# -- overlaps and keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_covered_buckets_are_refused_with_nothing_left(tmp_path: Path, way: Any) -> None:
    table = empty(tmp_path)
    table.append(rows(0, 1))
    pq.write_table(rows(1, 2), tmp_path / "in.parquet")
    before, held = (tmp_path / "in.parquet").read_bytes(), stored(table, "")
    with pytest.raises(CoverageOverlap, match=r"in\.parquet: .*becomes a segment whole"):
        table.append_file(tmp_path / "in.parquet", adopt=way)
    assert stored(table, "") == held
    assert (tmp_path / "in.parquet").read_bytes() == before
    assert (tmp_path / "in.parquet").stat().st_nlink == 1


def test_skip_leaves_a_file_out_whole_or_refuses_it(tmp_path: Path) -> None:
    table = empty(tmp_path)
    table.append(rows(0, 1))
    for name, hours in (("sent-again", (0, 1)), ("new", (2,)), ("half", (1, 3))):
        pq.write_table(rows(*hours), tmp_path / f"{name}.parquet")
    report = table.append_file([tmp_path / "sent-again.parquet", tmp_path / "new.parquet"], adopt="move", on_overlap="skip")
    assert (report.rows, report.segments, report.skipped_rows, report.skipped_buckets) == (1, 1, 2, 2)
    assert (tmp_path / "sent-again.parquet").exists(), "what was left out stays where it is"
    assert not (tmp_path / "new.parquet").exists()
    assert len(stored(table)) == 2
    with pytest.raises(CoverageOverlap, match="without adopt"):
        table.append_file(tmp_path / "half.parquet", adopt="copy", on_overlap="skip")
    version = table.version
    again = table.append_file(tmp_path / "sent-again.parquet", adopt="copy", on_overlap="skip")
    assert (again.rows, again.skipped_rows, again.version) == (0, 2, version)
    assert len(stored(table)) == 2


def test_allow_holds_both(tmp_path: Path) -> None:
    table = empty(tmp_path)
    table.append(rows(0, 1))
    pq.write_table(rows(1, 2), tmp_path / "in.parquet")
    table.append_file(tmp_path / "in.parquet", adopt="copy", on_overlap="allow")
    assert hours_of(table) == [0, 1, 1, 2]


@pytest.mark.parametrize("by_table", [False, True])
def test_replace_takes_the_rows_of_its_buckets_away(tmp_path: Path, by_table: bool) -> None:
    table = empty(tmp_path, **({"on_overlap": "replace"} if by_table else {}))
    table.append(rows(0, 1))
    table.append(rows(2, 3))
    table.append(rows(5))
    times = [START + dt.timedelta(hours=hour, minutes=30) for hour in (1, 2, 4)]
    data = rows(1, 2, 4).set_column(0, "ts", pa.array(times, UTC_US)).set_column(2, "x", pa.array([10.0, 20.0, 40.0]))
    pq.write_table(data, tmp_path / "in.parquet")
    report = table.append_file(tmp_path / "in.parquet", adopt="move", on_overlap=None if by_table else "replace")
    assert (report.rows, report.buckets, report.replaced_buckets, report.removed_rows) == (3, 3, 2, 2)
    assert hours_of(table) == [0, 10, 20, 3, 40, 5]
    assert not (tmp_path / "in.parquet").exists()
    assert table.verify(deep=True).findings == ()
    assert [entry.operation for entry in table.history()] == ["create", "append", "append", "append", "append"]


def test_keys_of_a_unique_table_are_checked(tmp_path: Path) -> None:
    table = empty(tmp_path, unique=True)
    pq.write_table(pa.concat_tables([rows(1), rows(0), rows(1)]), tmp_path / "twice.parquet", row_group_size=1)
    pq.write_table(rows(3), tmp_path / "three.parquet")
    pq.write_table(rows(3, 4), tmp_path / "four.parquet")
    for files in (tmp_path / "twice.parquet", [tmp_path / "three.parquet", tmp_path / "four.parquet"]):
        for policy in ("reject", "replace"):
            with pytest.raises(DuplicateKey, match="more than once in the input"):
                table.append_file(files, adopt="link", on_overlap=policy)
    table.append_file(tmp_path / "three.parquet", adopt="link")
    with pytest.raises(DuplicateKey, match="in the table already"):
        table.append_file(tmp_path / "four.parquet", adopt="link", on_overlap="allow")
    assert len(stored(table)) == 1
    table.append_file(tmp_path / "four.parquet", adopt="link", on_overlap="replace")
    assert hours_of(table) == [3, 4]


def test_an_operation_is_applied_once(tmp_path: Path) -> None:
    table = empty(tmp_path)
    pq.write_table(rows(0), tmp_path / "in.parquet")
    first = table.append_file(tmp_path / "in.parquet", adopt="copy", operation_id=("loader", 1))
    again = gl.open(table.url).append_file(tmp_path / "in.parquet", adopt="move", operation_id=("loader", 1))
    assert (again.version, again.rows, again.already_applied) == (first.version, 1, True)
    assert (tmp_path / "in.parquet").exists(), "nothing was moved"
    assert len(stored(table)) == 1


# -- links and moves ---------------------------------------------------------------------------------------------------


def test_a_link_is_a_second_name_and_no_more(tmp_path: Path) -> None:
    table = empty(tmp_path)
    pq.write_table(rows(0), tmp_path / "in.parquet")
    (tmp_path / "alias.parquet").symlink_to(tmp_path / "in.parquet")
    table.append_file(tmp_path / "alias.parquet", adopt="link")
    (file,) = stored(table)
    assert file.samefile(tmp_path / "in.parquet")
    assert not file.is_symlink()
    with (tmp_path / "in.parquet").open("r+b") as there:
        there.seek(4)
        there.write(b"\0\0\0\0")
    assert [finding.code for finding in table.verify().findings] == ["segment-altered"], "who writes there is found out"


def test_a_file_of_another_disk_is_copied_or_refused(tmp_path: Path, require: Callable[[object, str], None]) -> None:
    shm = Path("/dev/shm")
    require(shm.is_dir() and shm.stat().st_dev != tmp_path.stat().st_dev, "there is no second file system at /dev/shm")
    file = shm / f"gapless-adopt-{os.getpid()}.parquet"
    table = empty(tmp_path)
    try:
        pq.write_table(rows(0), file)
        with pytest.raises(InvalidOption, match='Pass adopt="copy"'):
            table.append_file(file, adopt="link")
        assert stored(table) == []
        table.append_file(file, adopt="move")
        assert not file.exists()
        assert hours_of(table) == [0]
    finally:
        file.unlink(missing_ok=True)


def test_what_may_be_needed_elsewhere_is_not_moved(tmp_path: Path) -> None:
    table = empty(tmp_path)
    table.append(rows(0))
    other = gl.create(tmp_path / "other", index="ts", entity="symbol", bucket="1h")
    (segment,) = stored(table)
    (tmp_path / "alias.parquet").symlink_to(segment)
    for path, why in ((segment, "lies in the table"), (tmp_path / "alias.parquet", "symbolic link|lies in the table")):
        with pytest.raises(InvalidPath, match=why):
            other.append_file(path, adopt="move")
    other.append_file(segment, adopt="link")
    assert hours_of(other) == hours_of(table) == [0]


def test_a_table_elsewhere_takes_the_bytes(tmp_path: Path) -> None:
    table = gl.create("memory://adopted", index="ts", entity="symbol", bucket="1h")
    ways: tuple[Adopt, ...] = ("copy", "move")
    for hour, way in enumerate(ways):
        pq.write_table(rows(hour), tmp_path / "in.parquet")
        table.append_file(tmp_path / "in.parquet", adopt=way)
    assert not (tmp_path / "in.parquet").exists()
    assert hours_of(table) == [0, 1]
    pq.write_table(rows(2), tmp_path / "in.parquet")
    with pytest.raises(InvalidOption, match="no folder of this machine"):
        table.append_file(tmp_path / "in.parquet", adopt="link")
    assert table.verify(deep=True).findings == ()


# -- what is no adoption -----------------------------------------------------------------------------------------------


def test_other_words_and_other_formats_are_refused(tmp_path: Path) -> None:
    table = empty(tmp_path)
    (tmp_path / "in.csv").write_text("ts,symbol\n2026-01-05T00:00:00Z,A\n")
    pq.write_table(rows(0), tmp_path / "in.parquet")
    with pytest.raises(InvalidOption, match="Did you mean 'copy'"):
        table.append_file(tmp_path / "in.parquet", adopt="cpy")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="without adopt"):
        table.append_file(tmp_path / "in.csv", adopt="copy")


@pytest.mark.parametrize(("column", "row"), [("ts", 5), ("symbol", 4)])
def test_a_null_key_is_refused_with_its_row(tmp_path: Path, column: str, row: int) -> None:
    data = rows(*range(6)).to_pylist()
    data[row][column] = None
    pq.write_table(pa.Table.from_pylist(data, rows().schema), tmp_path / "in.parquet", row_group_size=2)
    table = empty(tmp_path)
    with pytest.raises(NullKey, match=f"{column!r} is null in row {row}") as refused:
        table.append_file(tmp_path / "in.parquet", adopt="move")
    assert (refused.value.column, refused.value.row) == (column, row)
    assert stored(table) == []
    assert (tmp_path / "in.parquet").exists()
