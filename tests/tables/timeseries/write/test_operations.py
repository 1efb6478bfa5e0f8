"""Operation ids: sent again, from anywhere, a change is applied once and gives its first report."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import InvalidOption

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def row(hour: int, symbol: str = "A") -> dict[str, object]:
    return {"ts": START + dt.timedelta(hours=hour), "symbol": symbol, "price": float(hour)}


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    return gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")


def unread() -> Iterator[dict[str, object]]:
    raise AssertionError("the data of an applied operation is not read")
    yield {}


@pytest.mark.parametrize("operation_id", [("job-7", 42), "backfill-2026-01-05"])
def test_sent_again_gives_the_first_report_and_writes_nothing(
    table: gl.TimeSeriesTable, operation_id: tuple[str, int] | str
) -> None:
    first = table.append([row(0), row(1)], operation_id=operation_id)
    for handle in (table, gl.open(table.url)):
        again = handle.append([row(5)], operation_id=operation_id)
        assert again == gl.AppendReport(version=2, rows=2, segments=1, buckets=2, already_applied=True)
    assert not first.already_applied
    assert gl.open(table.url).version == 2


def test_eo_02_a_lower_sequence_is_recognised_and_other_apps_are_not(table: gl.TimeSeriesTable) -> None:
    table.append([row(0)], operation_id=("app", 30))
    lower = table.append([row(1)], operation_id=("app", 10))
    assert (lower.already_applied, lower.version, lower.rows) == (True, 2, 0)
    assert not table.append([row(1)], operation_id=("app", 31)).already_applied
    assert not table.append([row(2)], operation_id=("other", 10)).already_applied
    assert table.scan().count() == 3


def test_a_job_and_an_app_of_one_name_never_meet(table: gl.TimeSeriesTable) -> None:
    table.append([row(0)], operation_id=("x", 1))
    assert not table.append([row(1)], operation_id="x").already_applied
    assert not table.append([row(2)], operation_id="app:x").already_applied


def test_jobs_run_in_any_order(table: gl.TimeSeriesTable) -> None:
    for day in ("2026-01-05", "2026-01-02", "2026-01-09"):
        assert not table.append([row(int(day[-1]))], operation_id=day).already_applied
    assert table.append([row(50)], operation_id="2026-01-02").already_applied


def test_an_empty_batch_records_its_id(table: gl.TimeSeriesTable) -> None:
    for data in ([], [row(0)]):
        report = table.append(data, operation_id=("app", 1))
    assert report.already_applied
    assert report.rows == 0
    assert table.append([row(0)]).version == 3


def test_an_append_that_skips_everything_records_its_id(table: gl.TimeSeriesTable) -> None:
    table.append([row(0)])
    first = table.append([row(0)], on_overlap="skip", operation_id="again")
    again = table.append([row(0)], on_overlap="skip", operation_id="again")
    assert (first.rows, first.skipped_rows, first.version) == (0, 1, 3)
    assert again == gl.AppendReport(version=3, skipped_rows=1, skipped_buckets=1, already_applied=True)


def test_a_refused_append_does_not_record_its_id(table: gl.TimeSeriesTable) -> None:
    table.append([row(0)])
    with pytest.raises(gl.CoverageOverlap):
        table.append([row(0)], operation_id="job")
    assert not table.append([row(1)], operation_id="job").already_applied


def test_a_handle_that_fell_behind_recognises_what_another_applied(table: gl.TimeSeriesTable) -> None:
    other = gl.open(table.url)
    table.append([row(0)], operation_id="job")
    assert other.version == 1
    assert other.append([row(9)], operation_id="job").already_applied


def test_a_file_can_carry_an_operation_id(table: gl.TimeSeriesTable, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,symbol,price\n2024-01-01T00:00:00Z,A,1.5\n")
    for expected in (False, True):
        assert table.append_file(tmp_path / "a.csv", operation_id="a.csv").already_applied is expected


@pytest.mark.parametrize(
    "bad", ["", ("", 1), ("a", -1), ("a", True), ("a", 2**63), ("a",), 7, ("a", "1"), ("a", 1.0), "a\ud800", ("\udfff", 1)]
)
def test_what_names_no_operation_is_refused(table: gl.TimeSeriesTable, bad: object) -> None:
    with pytest.raises(InvalidOption, match="names no operation"):
        table.append([row(0)], operation_id=bad)  # type: ignore[arg-type]  # that is the point
    assert table.version == 1
