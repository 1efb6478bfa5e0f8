"""Which kind of table lies at a place, and what each says of the other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import TableExists, TableNotFound, UnsupportedTable
from gapless.store.open import open_store
from gapless.tables.shared.handle import kind_of

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """A time-series table."""
    gl.create(tmp_path / "series", index="n", index_type="int64", bucket=1).append({"n": [1]})
    return tmp_path / "series"


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A Delta table."""
    gl.delta.create(tmp_path / "delta", SCHEMA).append({"n": [1]})
    return tmp_path / "delta"


@pytest.fixture
def both(series: Path, delta: Path) -> Path:
    """A time-series table with a Delta log beside its own."""
    (delta / "_delta_log").rename(series / "_delta_log")
    for file in delta.glob("*.parquet"):
        file.rename(series / file.name)
    return series


def test_a_table_is_known_by_its_log(series: Path, delta: Path, tmp_path: Path) -> None:
    assert [kind_of(open_store(path)) for path in (series, delta)] == ["timeseries", "delta"]
    (tmp_path / "none" / "_delta_log").mkdir(parents=True)
    assert kind_of(open_store(tmp_path / "none")) is None


def test_opening_the_other_kind_says_how(series: Path, delta: Path) -> None:
    with pytest.raises(TableNotFound, match=r"gl\.delta\.open\("):
        gl.open(delta)
    with pytest.raises(TableNotFound, match=r"gl\.open\(path\)"):
        gl.delta.open(series)
    with pytest.raises(TableNotFound, match=r"gl\.delta\.open\("):
        gl.open_at(delta, 1)


def test_no_table_is_made_where_the_other_kind_lies(series: Path, delta: Path) -> None:
    with pytest.raises(TableExists, match=r"gl\.delta\.open"):
        gl.create(delta, index="n", index_type="int64", bucket=1)
    with pytest.raises(TableExists, match=r"gl\.open"):
        gl.delta.create(series, SCHEMA)
    assert not (delta / "_timeseries_log").exists()
    assert not (series / "_delta_log").exists()


def test_where_both_logs_lie_the_delta_log_is_read_and_not_written(both: Path) -> None:
    assert kind_of(open_store(both)) == "timeseries"
    assert gl.open(both).count() == 1
    table = gl.delta.open(both)
    assert table.count() == 1
    for change in (
        lambda: table.append({"n": [2]}),
        lambda: table.delete("true"),
        table.compact,
        lambda: table.alter.add_column("m", "int64"),
        lambda: table.vacuum(dry_run=False),
        table.checkpoint,
    ):
        with pytest.raises(UnsupportedTable, match=r"gl\.open\(path\)"):
            change()
    assert sorted(path.name for path in (both / "_delta_log").iterdir()) == [f"{version:020d}.json" for version in (0, 1)]
    assert gl.verify(both).ok
