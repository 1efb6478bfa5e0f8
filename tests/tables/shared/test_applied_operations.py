"""A change whose operation was applied already answers without reading its input, on every kind of table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidPath
from gapless.model.properties import OnOverlap
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

Table = TimeSeriesTable | DeltaTable
ROW: dict[str, object] = {"ts": datetime(2026, 1, 5), "v": 1}
ID = ("app", 1)


def untouched() -> Iterator[dict[str, object]]:
    raise AssertionError("the input was read")
    yield ROW


class Unreadable:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("the input was read")


@pytest.fixture(params=["series", "delta"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A table with one row, which the operation `ID` brought."""
    if request.param == "series":
        made: Table = gl.create(tmp_path / "t", index="ts", bucket="1h")
        made.append([ROW], operation_id=ID)
    else:
        made = gl.delta.create(tmp_path / "t")
        made.append([ROW], operation_id=ID)
    return made


def opened(table: Table, path: Path) -> Table:
    """Another handle of the table, as another process has it."""
    return gl.open(path) if isinstance(table, TimeSeriesTable) else gl.delta.open(path)


@pytest.mark.parametrize("given", [untouched, Unreadable])
def test_an_append_that_was_applied_reads_no_input(table: Table, given: Callable[[], object], tmp_path: Path) -> None:
    for handle in (table, opened(table, tmp_path / "t")):
        report = handle.append(given(), operation_id=ID)
        assert (report.already_applied, report.rows, report.version) == (True, 1, table.version)
    with pytest.raises(AssertionError, match="the input was read"):
        table.append(given(), operation_id=("app", 2))


def test_an_append_of_files_that_was_applied_looks_for_no_file(table: Table, tmp_path: Path) -> None:
    gone = tmp_path / "gone.csv"
    assert table.append_file(gone, operation_id=ID).already_applied
    assert table.append_file([], operation_id=ID, progress=lambda *_: pytest.fail("told progress")).already_applied
    with pytest.raises(InvalidPath):
        table.append_file(gone, operation_id="another")


def test_an_operation_that_another_handle_applied_meanwhile_is_known_before_the_input_is_read(
    table: Table, tmp_path: Path
) -> None:
    other = opened(table, tmp_path / "t")
    later: dict[str, object] = {"ts": datetime(2026, 1, 6), "v": 2}
    other.append([later], operation_id="second")
    report = table.append(untouched(), operation_id="second")
    assert (report.already_applied, report.version) == (True, other.version)


def test_files_are_not_adopted_twice(tmp_path: Path) -> None:
    series = gl.create(tmp_path / "t", index="ts", bucket="1h")
    series.append([ROW], operation_id=ID)
    assert series.append_file(tmp_path / "gone.parquet", adopt="move", operation_id=ID).already_applied


@pytest.mark.parametrize("policy", ["reject", "skip", "replace", "allow"])
def test_it_is_so_under_every_overlap_policy(tmp_path: Path, policy: OnOverlap) -> None:
    series = gl.create(tmp_path / "t", index="ts", bucket="1h")
    series.append([ROW], operation_id=ID)
    assert series.append(untouched(), on_overlap=policy, operation_id=ID).already_applied


def test_a_correction_that_was_applied_reads_no_input(tmp_path: Path) -> None:
    series = gl.create(tmp_path / "t", index="ts", bucket="1h")
    series.append([ROW])
    changed = [{**ROW, "v": 2}]
    series.upsert(changed, operation_id="upsert")
    series.replace((None, None), changed, operation_id="replace")
    series.delete("v > 5", operation_id="delete")
    assert series.upsert(untouched(), operation_id="upsert").already_applied
    assert series.replace((None, None), untouched(), operation_id="replace").already_applied
    assert series.delete("v > 5", operation_id="delete").already_applied
    assert series.scan().to_arrow()["v"].to_pylist() == [2]


def test_an_overwrite_that_was_applied_reads_no_input(tmp_path: Path) -> None:
    delta = gl.delta.create(tmp_path / "t")
    delta.overwrite([ROW], operation_id=ID)
    assert delta.overwrite(untouched(), operation_id=ID).already_applied
    assert delta.overwrite(untouched(), where="v = 1", operation_id=ID).already_applied


def test_what_the_call_says_wrongly_is_refused_all_the_same(table: Table) -> None:
    wrong = {"on_overlap": "never"} if isinstance(table, TimeSeriesTable) else {"schema_mode": "never"}
    with pytest.raises(InvalidOption):
        table.append(untouched(), operation_id=ID, **wrong)  # type: ignore[arg-type]
    if isinstance(table, TimeSeriesTable):
        with pytest.raises(InvalidOption):
            table.upsert(untouched(), key=3, operation_id=ID)  # type: ignore[arg-type]
