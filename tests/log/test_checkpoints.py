"""Log checkpoints: a shortcut that is never trusted over the log, in every state a table may be found in."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import CorruptTable, LogWarning

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def row(hour: int) -> dict[str, object]:
    return {"ts": START + dt.timedelta(hours=hour), "symbol": "A", "price": float(hour)}


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    """Versions 1 to 25 with checkpoints at 10 and 20; odd hours name a stream's operation, even ones a job's."""
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h", properties={"checkpoint_interval": 10})
    for hour in range(24):
        table.append([row(hour)], operation_id=("stream", hour) if hour % 2 else f"job-{hour}")
    return table


@pytest.fixture
def log(table: gl.TimeSeriesTable) -> Path:
    return Path(table.url) / "_timeseries_log"


@pytest.fixture
def quiet() -> Iterator[None]:
    """Only warnings that are not ours are errors here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        yield


def same(found: gl.TimeSeriesTable, table: gl.TimeSeriesTable) -> bool:
    return found._snapshot == table._snapshot


def test_opening_from_a_checkpoint_gives_the_replayed_state(table: gl.TimeSeriesTable, log: Path) -> None:
    assert [path.name for path in sorted(log.glob("*.parquet"))] == [f"00000000{n}0.checkpoint.parquet" for n in (1, 2)]
    assert json.loads((log / "_last_checkpoint").read_text()) == {"version": 20}
    assert same(gl.open(table.url), table)


def test_opening_reads_no_commit_that_the_checkpoint_holds(table: gl.TimeSeriesTable, log: Path) -> None:
    for version in range(1, 21):
        (log / f"{version:010d}.json").write_bytes(b"never read")
    assert same(gl.open(table.url), table)


@pytest.mark.parametrize("hint", [None, b"", b'{"version"', b'{"version": "x"}', b"[]", b'{"version": -1}', b'{"version":10}'])
def test_log_12_a_stale_or_broken_hint_is_only_a_hint(table: gl.TimeSeriesTable, log: Path, hint: bytes | None) -> None:
    (log / "_last_checkpoint").unlink()
    if hint is not None:
        (log / "_last_checkpoint").write_bytes(hint)
    assert same(gl.open(table.url), table)


def test_log_12_a_hint_to_a_missing_checkpoint_falls_back_with_a_warning(table: gl.TimeSeriesTable, log: Path) -> None:
    (log / "0000000020.checkpoint.parquet").unlink()
    with pytest.warns(LogWarning, match=r"0000000020\.checkpoint\.parquet is missing"):
        found = gl.open(table.url)
    assert same(found, table)


def test_a_torn_checkpoint_falls_back_to_the_one_before_it(table: gl.TimeSeriesTable, log: Path) -> None:
    newest = log / "0000000020.checkpoint.parquet"
    newest.write_bytes(newest.read_bytes()[:-100])
    for version in range(1, 11):
        (log / f"{version:010d}.json").write_bytes(b"never read")
    with pytest.warns(LogWarning, match="cannot be read"):
        found = gl.open(table.url)
    assert same(found, table)


def test_all_checkpoints_damaged_means_a_replay(table: gl.TimeSeriesTable, log: Path) -> None:
    for path in log.glob("*.parquet"):
        path.write_bytes(b"")
    with pytest.warns(LogWarning):
        found = gl.open(table.url)
    assert same(found, table)


@pytest.mark.usefixtures("quiet")
def test_a_flipped_bit_anywhere_is_found_or_harmless(table: gl.TimeSeriesTable, log: Path) -> None:
    newest = log / "0000000020.checkpoint.parquet"
    whole = newest.read_bytes()
    for at in range(0, len(whole), 211):
        newest.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        assert same(gl.open(table.url), table)


def test_a_commit_missing_after_the_checkpoint_is_named(table: gl.TimeSeriesTable, log: Path) -> None:
    (log / "0000000023.json").unlink()
    with pytest.raises(CorruptTable, match="version 23 is lost"):
        gl.open(table.url)


def test_the_newest_commit_missing_is_a_lost_commit(table: gl.TimeSeriesTable, log: Path) -> None:
    (log / "0000000025.json").unlink()
    with pytest.raises(CorruptTable, match="version 25 is lost"):
        gl.open(table.url)


def test_eo_07_operation_ids_live_in_checkpoints(table: gl.TimeSeriesTable, log: Path) -> None:
    for version in range(1, 21):
        (log / f"{version:010d}.json").unlink()
    found = gl.open(table.url)
    first = found.append([row(500)], operation_id="job-0")
    assert (first.already_applied, first.version, first.rows) == (True, 2, 1)
    lower = found.append([row(500)], operation_id=("stream", 3))
    assert (lower.already_applied, lower.version, lower.rows) == (True, 25, 0)
    assert found.version == 25


def test_job_ids_are_forgotten_only_past_their_retention(tmp_path: Path) -> None:
    """Frozen by hand: two checkpoints of one state, one within the retention and one past it."""
    from dataclasses import replace

    from gapless.formats.timeseries.format import TIME_SERIES
    from gapless.model.instant import NS_PER_DAY

    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h", properties={"operation_retention_days": 2})
    table.append([row(0)], operation_id="job")
    table.append([row(1)], operation_id=("stream", 1))
    snapshot = table._snapshot
    for days, kept in ((1, {"job:job", "app:stream"}), (3, {"app:stream"})):
        later = replace(snapshot, time_ns=snapshot.time_ns + days * NS_PER_DAY)
        decoded = TIME_SERIES.decode_checkpoint(TIME_SERIES.encode_checkpoint(later), later.version)
        assert set(decoded.state.applied) == kept


def test_checkpoints_can_be_turned_off(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"checkpoint_interval": 0})
    for hour in range(3):
        table.append([{"ts": START + dt.timedelta(hours=hour)}])
    assert not list(Path(table.url).rglob("*.checkpoint.parquet"))
