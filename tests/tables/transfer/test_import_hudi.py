"""A Hudi table becomes a time-series table, read by hudi-rs."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import ImportRefused, NotSupported, VersionNotFound
from support.delta_rows import counted_table
from support.folders import bytes_below
from support.hudi_tables import hudi_commit, hudi_table

ROOT = Path(__file__).resolve().parents[3]
START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)


@pytest.fixture
def _hudi_rs(require: Callable[[object, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """hudi-rs of this environment, or that of the interop environment, which is for the same Python."""
    if find_spec("hudi") is None:
        packages = next(ROOT.glob("build/interop/hudi-0.5.0/lib/python3*/site-packages"), None)
        require(packages is not None, "hudi-rs is not installed: `make interop` does")
        monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])


def day(number: int, **more: Any) -> pa.Table:
    times = [START + dt.timedelta(days=number, hours=hour) for hour in range(24)]
    values = {"site": ["north"] * 24, "x": [float(number)] * 24}
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **values, **more})


def imported(source: Path, target: Path, **options: Any) -> gl.ImportReport:
    return gl.import_table(source, target, **{"index": "ts", "entity": "site", "bucket": "1h", **options})


def rows(target: Path) -> Any:
    return counted_table(gl.open(target).scan().to_arrow())


@pytest.mark.usefixtures("_hudi_rs")
def test_plain_files_are_taken_and_the_newest_of_each_group_counts(tmp_path: Path) -> None:
    root = hudi_table(tmp_path / "source")
    first = hudi_commit(root, 0, 5, day(0))
    hudi_commit(root, 1, 6, day(1))
    newest = hudi_commit(root, 0, 7, day(0).slice(1))
    before = bytes_below(root)
    report = imported(root, tmp_path / "t")
    assert (report.format, report.source_version, report.rows()) == ("hudi", newest, 47)
    assert [file.outcome for file in report.files] == ["taken"] * 2
    assert rows(tmp_path / "t") == counted_table(pa.concat_tables([day(0).slice(1), day(1)]))
    assert any(line.startswith("the record key site,ts") for line in report.not_kept)
    assert imported(root, tmp_path / "old", source_version=first).rows() == 24
    assert imported(root, tmp_path / "t").already_applied
    with pytest.raises(VersionNotFound):
        imported(root, tmp_path / "none", source_version="20250101000000000")
    assert bytes_below(root) == before


@pytest.mark.usefixtures("_hudi_rs")
def test_columns_that_hudi_adds_are_left_out(tmp_path: Path) -> None:
    root = hudi_table(tmp_path / "source", meta=True)
    hudi_commit(root, 0, 5, day(0), meta=True)
    report = imported(root, tmp_path / "t")
    assert report.files[0].outcome == "rewritten"
    assert "_hoodie_commit_time: not in the table" in report.files[0].reason
    assert rows(tmp_path / "t") == counted_table(day(0))


@pytest.mark.usefixtures("_hudi_rs")
def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    root = hudi_table(tmp_path / "source")
    hudi_commit(root, 0, 5, day(0))
    hudi_commit(root, 1, 6, day(1, n=pa.array(range(24), pa.int64())))
    report = imported(root, tmp_path / "t", exclude=["x"])
    assert gl.open(tmp_path / "t").scan().to_arrow()["n"].null_count == 24
    assert {file.outcome for file in report.files} == {"rewritten"}


@pytest.mark.usefixtures("_hudi_rs")
def test_a_missing_file_is_refused_and_a_table_without_rows_is_empty(tmp_path: Path) -> None:
    root = hudi_table(tmp_path / "source")
    hudi_commit(root, 0, 5, day(0))
    (lost,) = root.glob("*.parquet")
    data = lost.read_bytes()
    lost.write_bytes(data[:200])
    with pytest.raises(ImportRefused, match=lost.name):
        imported(root, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_without_hudi_rs_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hudi", None)
    root = hudi_table(tmp_path / "source")
    hudi_commit(root, 0, 5, day(0))
    with pytest.raises(NotSupported, match=r"gapless\[hudi\]"):
        imported(root, tmp_path / "t")
