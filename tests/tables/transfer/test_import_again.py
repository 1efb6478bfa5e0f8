"""An import that was killed goes on where it was, and one that is done is not done again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import TableExists
from support.delta_rows import counted_table
from support.killed_imports import KillServer, few_files, kill_server

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
OPTIONS: dict[str, Any] = {"index": "ts", "bucket": "1h"}


def day(number: int, hours: int = 24) -> pa.Table:
    times = [START + dt.timedelta(days=number, hours=hour) for hour in range(hours)]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "x": [float(number)] * hours})


def delta_table(path: Path) -> None:
    """Three files that are taken, and one whose rows are written anew: three commits of two files each."""
    table = gl.delta.create(path, day(0).schema, properties={"delta.enableDeletionVectors": True})
    for number in range(4):
        table.append(day(number))
    table.delete("ts < '2026-01-05T02:00:00Z'")


def directory(path: Path) -> None:
    for number in range(4):
        (path / f"number={number}").mkdir(parents=True)
        pq.write_table(day(number), path / f"number={number}" / "a.parquet")


def rows_of(path: Path) -> Any:
    return counted_table(gl.open(path).scan().to_arrow())


@pytest.fixture(scope="module")
def killing() -> Iterator[KillServer]:
    with kill_server() as server:
        yield server


@pytest.mark.parametrize("make", [delta_table, directory])
def test_killed_after_any_object_it_stored_nothing_is_lost_or_doubled(
    tmp_path: Path, killing: KillServer, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_files(monkeypatch.setattr)
    make(tmp_path / "source")
    gl.import_table(tmp_path / "source", tmp_path / "whole", **OPTIONS)
    expected = rows_of(tmp_path / "whole")
    commits = gl.open(tmp_path / "whole").version
    for nth in range(1, 100):
        target = tmp_path / f"t{nth}"
        status = killing.run(str(tmp_path / "source"), str(target), OPTIONS, nth)
        if status == 0:
            break
        assert status == -9
        report = gl.import_table(tmp_path / "source", target, **OPTIONS)
        assert rows_of(target) == expected
        assert report.version == commits
        assert gl.import_table(tmp_path / "source", target, **OPTIONS).already_applied
    assert gl.verify(target, deep=True).ok
    assert nth > commits, "it was killed after each of its commits, and elsewhere"


def test_what_comes_to_the_source_meanwhile_is_not_part_of_it(
    tmp_path: Path, killing: KillServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_files(monkeypatch.setattr)
    delta_table(tmp_path / "source")
    expected = counted_table(gl.delta.open(tmp_path / "source").scan().to_arrow())
    nth = 1
    while killing.run(str(tmp_path / "source"), str(tmp_path / "t"), OPTIONS, nth):
        nth += 1
        if (tmp_path / "t").is_dir() and any((tmp_path / "t" / "_timeseries_log").glob("*3.json")):
            break
    gl.delta.open(tmp_path / "source").append(day(20))
    with pytest.raises(TableExists, match="begun there, and the source is at version"):
        gl.import_table(
            tmp_path / "source", tmp_path / "t", source_version=gl.delta.open(tmp_path / "source").version, **OPTIONS
        )
    report = gl.import_table(tmp_path / "source", tmp_path / "t", **OPTIONS)
    assert rows_of(tmp_path / "t") == expected
    assert int(report.source_version) == gl.delta.open(tmp_path / "source").version - 1


def test_another_import_does_not_go_on_with_it(tmp_path: Path) -> None:
    delta_table(tmp_path / "source")
    directory(tmp_path / "folder")
    gl.import_table(tmp_path / "source", tmp_path / "t", **OPTIONS)
    version = gl.open(tmp_path / "t").version
    with pytest.raises(TableExists, match="Rows of another source"):
        gl.import_table(tmp_path / "folder", tmp_path / "t", **OPTIONS)
    with pytest.raises(TableExists, match="other columns, or other files"):
        gl.import_table(tmp_path / "source", tmp_path / "t", adopt=None, **OPTIONS)
    with pytest.raises(TableExists, match="Its index is"):
        gl.import_table(tmp_path / "source", tmp_path / "t", index="ts", bucket="1d")
    gl.import_table(tmp_path / "folder", tmp_path / "t2", **OPTIONS)
    pq.write_table(day(9), tmp_path / "folder" / "b.parquet")
    with pytest.raises(TableExists, match="begun there, and the source is at version"):
        gl.import_table(tmp_path / "folder", tmp_path / "t2", **OPTIONS)
    assert gl.open(tmp_path / "t").version == version


def test_imports_into_one_place_at_once_bring_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_files(monkeypatch.setattr)
    delta_table(tmp_path / "source")
    errors: list[BaseException] = []

    def run() -> None:
        try:
            gl.import_table(tmp_path / "source", tmp_path / "t", **OPTIONS)
        except TableExists as error:  # the other one made it meanwhile
            errors.append(error)

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gl.import_table(tmp_path / "source", tmp_path / "t", **OPTIONS)
    assert rows_of(tmp_path / "t") == counted_table(gl.delta.open(tmp_path / "source").scan().to_arrow())
    assert len(errors) < 4
