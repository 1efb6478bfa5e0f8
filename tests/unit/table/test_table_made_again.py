"""A handle whose table was removed, or removed and made again, beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import CorruptTable


def make(root: Path, appends: int) -> gl.TimeSeriesTable:
    table = gl.create(root, index="n", index_type="int64", bucket=1)
    for number in range(appends):
        table.append({"n": [number]})
    return table


@pytest.mark.parametrize("appends", [0, 1, 5])
def test_a_handle_of_the_table_before_writes_nothing_into_the_one_after(tmp_path: Path, appends: int) -> None:
    before = make(tmp_path / "t", 5)
    shutil.rmtree(tmp_path / "t")
    after = make(tmp_path / "t", appends)
    for change in (lambda: before.append({"n": [9]}), lambda: before.upsert({"n": [9]}), lambda: before.drop_before(2)):
        with pytest.raises(CorruptTable, match="version 6 is lost"):
            change()
    assert gl.open(tmp_path / "t").version == after.version
    assert {path.name for path in (tmp_path / "t" / "data").glob("*.parquet")} == {
        Path(segment.path).name for segment in after.segments()
    }


def test_a_handle_of_a_table_that_is_gone_makes_no_log_of_its_own(tmp_path: Path) -> None:
    before = make(tmp_path / "t", 2)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(CorruptTable):
        before.append({"n": [9]})
    assert not list((tmp_path / "t").rglob("*.json"))
