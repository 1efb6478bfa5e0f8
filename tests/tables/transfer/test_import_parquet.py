"""A directory of Parquet files becomes a time-series table, its partition folders columns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import DuplicateKey, ImportRefused, InvalidPath, InvalidValue, NotSupported, NullKey, UnknownColumn
from support.delta_rows import counted_table
from support.folders import bytes_below

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)


def day(number: int, *, unit: str = "us", hours: int = 24, **more: Any) -> pa.Table:
    times = [START + dt.timedelta(days=number, hours=hour) for hour in range(hours)]
    return pa.table({"ts": pa.array(times, pa.timestamp(unit, "UTC")), "x": [float(number)] * hours, **more})


def imported(source: Path | str, target: Path, **options: Any) -> gl.ImportReport:
    return gl.import_table(source, target, **{"index": "ts", "bucket": "1h", **options})


def reasons(report: gl.ImportReport) -> dict[str, str]:
    return {file.name: f"{file.outcome}: {file.reason}".rstrip(": ") for file in report.files}


def arrow(target: Path) -> pa.Table:
    return gl.open(target).scan().to_arrow()


def test_each_file_is_taken_or_written_anew_for_a_reason(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(day(0), folder / "0-fits.parquet")
    pq.write_table(day(1, unit="ns"), folder / "1-int96.parquet", use_deprecated_int96_timestamps=True)
    with_ids = pa.schema([one.with_metadata({"PARQUET:field_id": str(at + 1)}) for at, one in enumerate(day(2).schema)])
    pq.write_table(day(2).cast(with_ids), folder / "2-ids.parquet")
    pq.write_table(day(3, unit="ms"), folder / "3-ms.parquet")
    pq.write_table(day(4, extra=["e"] * 24), folder / "4-more.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").write_text("no Parquet")
    (folder / "notes.txt").write_text("read me")
    before = bytes_below(folder)
    report = imported(folder, tmp_path / "t")
    found = reasons(report)
    assert found["0-fits.parquet"] == found["4-more.parquet"] == "taken"
    assert "timestamp[ns]" in found["1-int96.parquet"]
    assert "Parquet field ids" in found["2-ids.parquet"]
    assert "timestamp[ms, tz=UTC] in the file" in found["3-ms.parquet"]
    assert report.not_kept == ("notes.txt: it is no Parquet file",)
    back = arrow(tmp_path / "t")
    assert (back.num_rows, report.rows()) == (120, 120)
    assert back.schema.names == ["ts", "x", "extra"]
    assert sorted(set(back["ts"].to_pylist())) == [START + dt.timedelta(hours=hour) for hour in range(120)]
    assert gl.open(tmp_path / "t").coverage().gaps() == []
    assert gl.verify(tmp_path / "t", deep=True).ok
    assert bytes_below(folder) == before


def test_partition_folders_are_columns(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    whole = pa.concat_tables(
        [
            day(n, d=[dt.date(2026, 1, 5 + n)] * 24, n=[n] * 24, s=pa.array([f"a/{n}" if n else None] * 24, pa.string()))
            for n in range(3)
        ]
    )
    ds.write_dataset(whole, folder, format="parquet", partitioning=["d", "n", "s"], partitioning_flavor="hive")
    report = imported(folder, tmp_path / "t", entity="n")
    assert {file.outcome for file in report.files} == {"rewritten"}
    back = arrow(tmp_path / "t")
    assert back.schema.field("d").type == pa.date32()
    assert back.schema.field("n").type == pa.int64()
    assert back.schema.field("s").type == pa.string()
    assert counted_table(back) == counted_table(whole)
    assert gl.open(tmp_path / "t").identities() == [(0,), (1,), (2,)]


def test_a_column_of_the_file_counts_and_not_its_folder(tmp_path: Path) -> None:
    (tmp_path / "in" / "k=folder").mkdir(parents=True)
    pq.write_table(day(0, k=["file"] * 24), tmp_path / "in" / "k=folder" / "a.parquet")
    report = imported(tmp_path / "in", tmp_path / "t")
    assert reasons(report) == {"k=folder/a.parquet": "taken"}
    assert report.not_kept == ("what folders say of 'k': files have a column of that name, whose values stay",)
    assert set(arrow(tmp_path / "t")["k"].to_pylist()) == {"file"}


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (("01", "2"), pa.string()),
        (("1", "-2"), pa.int64()),
        (("1", "__HIVE_DEFAULT_PARTITION__"), pa.int64()),
        (("1", "99999999999999999999"), pa.string()),
        (("2026-01-05", "2026-02-30"), pa.string()),
        (("2026-01-05", "1999-12-31"), pa.date32()),
        (("__HIVE_DEFAULT_PARTITION__",), pa.string()),
    ],
)
def test_folders_are_numbers_or_days_where_all_of_them_are(tmp_path: Path, texts: tuple[str, ...], type_: pa.DataType) -> None:
    for number, text in enumerate(texts):
        (tmp_path / "in" / f"p={text}").mkdir(parents=True)
        pq.write_table(day(number), tmp_path / "in" / f"p={text}" / "a.parquet")
    imported(tmp_path / "in", tmp_path / "t")
    back = arrow(tmp_path / "t")
    assert back.schema.field("p").type == type_
    assert back.num_rows == 24 * len(texts)


def test_path_08_folders_keep_their_zeros_on_import(tmp_path: Path) -> None:
    for number, text in enumerate(("06", "00", "10")):
        (tmp_path / "in" / f"day={text}").mkdir(parents=True)
        pq.write_table(day(number), tmp_path / "in" / f"day={text}" / "a.parquet")
    imported(tmp_path / "in", tmp_path / "t", entity="day")
    assert gl.open(tmp_path / "t").identities() == [("00",), ("06",), ("10",)]
    assert gl.open(tmp_path / "t").scan(where="day = '06'").to_arrow().num_rows == 24


def test_type_02_an_import_reads_int96_of_every_year(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    times = [
        dt.datetime(1000, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 5, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    ]
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "x": [1.0, 2.0, 3.0]})
    pq.write_table(rows, tmp_path / "in" / "a.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(day(1), tmp_path / "in" / "b.parquet")
    imported(tmp_path / "in", tmp_path / "t", bucket="1d")
    found = arrow(tmp_path / "t")["ts"].to_pylist()
    assert set(times) <= set(found)
    assert len(found) == 27


def test_types_of_all_files_together_and_a_file_that_does_not_fit(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(day(0, n=pa.array(range(24), pa.int32())), folder / "0.parquet")
    pq.write_table(day(1, n=pa.array(range(24), pa.int64())), folder / "1.parquet")
    report = imported(folder, tmp_path / "t")
    assert reasons(report) == {"0.parquet": "rewritten: n: int32 in the file, int64 in the table's", "1.parquet": "taken"}
    pq.write_table(day(2, n=["text"] * 24), folder / "2.parquet")
    with pytest.raises(ImportRefused, match="'n' is string"):
        imported(folder, tmp_path / "t2")
    assert not (tmp_path / "t2").exists()
    assert imported(folder, tmp_path / "t2", exclude=["n"]).rows() == 72
    with pytest.raises(UnknownColumn):
        imported(folder, tmp_path / "t3", exclude=["m"])


def test_a_file_that_is_damaged_or_none_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(day(0), folder / "0.parquet")
    (folder / "1.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ImportRefused) as refused:
        imported(folder, tmp_path / "t")
    assert refused.value.files == ("1.parquet",)
    assert not (tmp_path / "t").exists()


def test_a_nanosecond_that_would_be_lost_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    fine = day(0).append_column("at", pa.array([1] * 24, pa.timestamp("ns")))
    pq.write_table(fine, tmp_path / "in" / "a.parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(InvalidValue, match=r"a\.parquet"):
        imported(tmp_path / "in", tmp_path / "t")
    assert gl.open(tmp_path / "t").scan().to_arrow().num_rows == 0


def test_places_without_parquet_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(InvalidPath, match="there is no Parquet file below"):
        imported(tmp_path / "in", tmp_path / "t")
    pq.write_table(day(0), tmp_path / "one.parquet")
    with pytest.raises(InvalidPath, match="is a file"):
        imported(tmp_path / "one.parquet", tmp_path / "t")
    with pytest.raises(NotSupported, match="are not imported"):
        gl.import_table("memory://parquet-here", tmp_path / "t", index="ts", bucket="1h")


def test_progress_counts_rows_over_all_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        pq.write_table(day(number, unit="us" if number % 2 else "ns"), tmp_path / "in" / f"{number}.parquet")
    told: list[tuple[int, int | None]] = []
    imported(tmp_path / "in", tmp_path / "t", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (96, 96)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_naive_times_are_those_of_the_tables_zone(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    times = [dt.datetime(2026, 7, 1, hour) for hour in range(24)]
    pq.write_table(pa.table({"ts": pa.array(times, pa.timestamp("us"))}), tmp_path / "in" / "a.parquet")
    report = imported(tmp_path / "in", tmp_path / "t", bucket="1d", timezone="Europe/Berlin")
    assert report.files[0].outcome == "rewritten"
    assert arrow(tmp_path / "t")["ts"][0].as_py() == dt.datetime(2026, 6, 30, 22, tzinfo=dt.UTC)
    imported(tmp_path / "in", tmp_path / "naive")
    assert arrow(tmp_path / "naive")["ts"].to_pylist() == times


def test_keys_that_come_twice_are_an_error_of_a_unique_table_alone(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "ab":
        pq.write_table(day(0), tmp_path / "in" / f"{name}.parquet")
    with pytest.raises(DuplicateKey):
        imported(tmp_path / "in", tmp_path / "unique", properties={"unique": True})
    assert imported(tmp_path / "in", tmp_path / "t").rows() == 48
    assert arrow(tmp_path / "t").num_rows == 48


def test_a_null_key_that_no_footer_counts_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(day(0), tmp_path / "in" / "a.parquet")
    holed = day(1).set_column(0, "ts", pa.array([None, *day(1)["ts"].to_pylist()[1:]], pa.timestamp("us", "UTC")))
    pq.write_table(holed, tmp_path / "in" / "b.parquet", write_statistics=False)
    for way in ("copy", None):
        with pytest.raises(NullKey):
            imported(tmp_path / "in", tmp_path / f"t-{way}", adopt=way)
        assert arrow(tmp_path / f"t-{way}").num_rows == 0
