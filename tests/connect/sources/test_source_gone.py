"""Versions that are gone before a source read them, and versions and files that cannot be read: named, never skipped in silence."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.connect import Cursor, source
from gapless.connect.sources.table.delta_table import DeltaSourceTable
from gapless.connect.sources.table.options import TableSourceOptions
from gapless.connect.sources.table.series_table import SeriesSourceTable
from gapless.connect.sources.table.source import TableSource
from gapless.errors import CorruptTable, LogWarning, StoreUnavailable, VersionNotFound
from gapless.formats.delta.format import DELTA
from gapless.log.snapshot import write_checkpoint
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.handle import context_of as delta_context
from gapless.tables.delta.lifecycle import open_table as open_delta
from gapless.tables.timeseries.care.expire import expire_versions, parse_expiry
from gapless.tables.timeseries.lifecycle import open_table as open_series
from support.clocked_table import SetClock
from support.faulty_store import FaultyStore, unavailable
from support.pipelines import KINDS, made, opened, rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(kind: str, tmp_path: Path) -> Path:
    """Six versions after the first, each with a row: the number of the version before it."""
    table = made(kind, tmp_path / "t")
    for at in range(6):
        table.append(rows(at, 1))
    return tmp_path / "t"


def first_rows(kind: str) -> int:
    """The version that brought row 0."""
    return 1 if kind == "delta" else 2


def forget(kind: str, path: Path, before: int) -> None:
    """Let go of all versions before one, and of their commits."""
    table: Any = opened(kind, path)
    if kind == "timeseries":
        expire_versions(table._committer, parse_expiry(table.version - before + 2, None), clean_log=True, horizon_ns=0)
        return
    # As Delta's own cleanup: a log checkpoint, and the commits before it are gone.
    context = delta_context(gl.delta.open(path).at(version=before))
    context.env.drive(write_checkpoint(DELTA, context.snapshot))
    for version in range(before):
        (path / "_delta_log" / f"{version:020d}.json").unlink()


def values(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("v").to_pylist()]


def drained(reader: Any) -> list[int]:
    found: list[int] = []
    while got := values(reader.poll(1)):
        found += got
    return found


def test_ss_09_a_log_that_was_cleaned_past_the_cursor_is_an_error_that_names_the_versions(kind: str, path: Path) -> None:
    first = first_rows(kind)
    reader = source(f"{kind}:{path}", start="earliest")
    assert values(reader.poll(2)) == [0, 1]
    at = Cursor.from_json(reader.cursor.to_json())
    assert at.table_version == first + 2
    forget(kind, path, first + 4)
    stopped = source(f"{kind}:{path}", start="earliest")
    stopped.start(at)
    for _ in range(2):
        with pytest.raises(
            VersionNotFound, match=f"what versions {first + 2} to {first + 3} changed can be told no longer"
        ) as gone:
            stopped.poll()
        assert gone.value.version == first + 2
        assert "on_missing_versions" in gone.value.fix
        assert stopped.cursor.state == at.state
    goes_on = source(f"{kind}:{path}", on_missing_versions="earliest")
    goes_on.start(at)
    with pytest.warns(LogWarning, match=f"what versions {first + 2} to {first + 3} changed.*goes on without"):
        assert values(goes_on.poll()) == [4, 5]


def test_ss_09_what_is_left_out_is_logged(kind: str, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forget(kind, path, first_rows(kind) + 4)
    reader = source(f"{kind}:{path}", start=first_rows(kind), on_missing_versions="earliest")
    with pytest.warns(LogWarning, match="can be told no longer"):
        assert drained(reader) == [4, 5]
    (record,) = [one for one in caplog.records if "can be told no longer" in one.getMessage()]
    assert record.name == "gapless.tables"
    assert record.levelname == "WARNING"


def test_ss_09_where_a_source_begins_may_be_gone_too(kind: str, path: Path) -> None:
    first = first_rows(kind)
    first_time = opened(kind, path).history()[first - 1].time
    forget(kind, path, first + 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drained(source(f"{kind}:{path}", start="earliest")) == [4, 5]
        assert drained(source(f"{kind}:{path}")) == [*range(6)]
    with pytest.raises(VersionNotFound, match=f"what versions {first} to {first + 3} changed"):
        source(f"{kind}:{path}", start=first).start()
    with pytest.raises(VersionNotFound, match=f"what version {first + 3} changed"):
        source(f"{kind}:{path}", start=first_time).start()
    with pytest.warns(LogWarning, match=f"what version {first + 3} changed"):
        assert drained(source(f"{kind}:{path}", start=first_time, on_missing_versions="earliest")) == [4, 5]


def test_ss_09_a_version_that_is_gone_in_the_middle_of_its_rows(kind: str, path: Path) -> None:
    newest = opened(kind, path).version
    reader = source(f"{kind}:{path}")
    assert values(reader.poll(2)) == [0, 1]
    at = reader.cursor
    opened(kind, path).compact()
    opened(kind, path).append(rows(6, 1))
    forget(kind, path, newest + 2)
    vacuum = {"enforce_retention": False} if kind == "delta" else {}
    opened(kind, path).vacuum(older_than=timedelta(0), dry_run=False, **vacuum)
    stopped = source(f"{kind}:{path}")
    stopped.start(at)
    with pytest.raises(VersionNotFound, match=f"the rows of version {newest} from row 3 on"):
        stopped.poll()
    goes_on = source(f"{kind}:{path}", on_missing_versions="earliest")
    goes_on.start(at)
    with pytest.warns(LogWarning, match=f"the rows of version {newest} from row 3 on"):
        assert drained(goes_on) == [6]
    snapshot = source(f"{kind}:{path}", mode="batch", on_missing_versions="earliest")
    snapshot.start(at)
    with pytest.raises(VersionNotFound):
        snapshot.poll()


def test_ss_09_a_commit_that_is_gone_in_the_middle_of_its_rows(kind: str, tmp_path: Path) -> None:
    path, table = tmp_path / "t", made(kind, tmp_path / "t")
    table.append(rows(0, 3))
    reader = source(f"{kind}:{path}", start="earliest")
    assert values(reader.poll(1)) == [0]
    at, version = reader.cursor, table.version
    table.append(rows(3, 1))
    table.compact()
    table.append(rows(4, 1))
    forget(kind, path, table.refresh().version)
    vacuum = {"enforce_retention": False} if kind == "delta" else {}
    opened(kind, path).vacuum(older_than=timedelta(0), dry_run=False, **vacuum)
    stopped = source(f"{kind}:{path}", start="earliest")
    stopped.start(at)
    what = (
        f"what version {version} changed, from row 2 on, and what versions {version + 1} to {version + 2} changed, can be told"
    )
    with pytest.raises(VersionNotFound, match=what):
        stopped.poll()
    goes_on = source(f"{kind}:{path}", on_missing_versions="earliest")
    goes_on.start(at)
    with pytest.warns(LogWarning, match="from row 2 on"):
        assert drained(goes_on) == [4]


def test_files_that_a_vacuum_took_are_versions_that_are_gone(tmp_path: Path) -> None:
    """Of a Delta table, whose log may be longer than its files are kept."""
    path, table = tmp_path / "t", made("delta", tmp_path / "t")
    for at in range(4):
        table.append(rows(at, 1))
    table.compact()
    table.append(rows(4, 1))
    table.vacuum(older_than=timedelta(0), dry_run=False, enforce_retention=False)
    with pytest.raises(VersionNotFound, match=r"what version 1 changed.*file .* is gone"):
        source(f"delta:{path}", start="earliest").poll()
    goes_on = source(f"delta:{path}", start="earliest", on_missing_versions="earliest")
    with pytest.warns(LogWarning) as said:
        assert drained(goes_on) == [4]
    assert [str(one.message)[:22] for one in said] == [f"what version {n} changed" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("policy", ["error", "earliest"])
def test_log_10_a_source_never_jumps_a_gap_in_the_middle_of_the_log(kind: str, path: Path, policy: str) -> None:
    first = first_rows(kind)
    log = (
        path / "_delta_log" / f"{first + 2:020d}.json"
        if kind == "delta"
        else path / "_timeseries_log" / f"{first + 2:010d}.json"
    )
    reader = source(f"{kind}:{path}", start="earliest", on_missing_versions=policy)
    assert values(reader.poll(1)) == [0]
    log.unlink()
    assert values(reader.poll()) == [1]
    for _ in range(2):
        with pytest.raises(CorruptTable, match=f"version {first + 2} is lost"):
            reader.poll()


@pytest.mark.parametrize("policy", ["error", "earliest"])
def test_a_file_of_the_newest_version_that_is_lost_is_never_left_out(kind: str, path: Path, policy: str) -> None:
    file = next(one for one in path.rglob("*.parquet") if "_log" not in str(one))
    shutil.move(file, path.parent / "away")
    reader = source(f"{kind}:{path}", start="earliest", on_missing_versions=policy)
    stops, found = 0, list[int]()
    for _ in range(8):
        try:
            found += values(reader.poll(1))
        except CorruptTable:
            stops += 1
    assert stops > 1
    assert found == [*range(len(found))]
    assert len(found) < 6


@pytest.fixture
def faulty(kind: str, path: Path) -> Callable[[], tuple[TableSource, FaultyStore]]:
    """A source over a store that fails when the test says so."""

    def make() -> tuple[TableSource, FaultyStore]:
        store = FaultyStore(open_store(str(path), None))
        env, options = Environment(store=store, clock=SetClock(time.time_ns())), TableSourceOptions.parse({"start": "earliest"})
        if kind == "delta":
            return TableSource(DeltaSourceTable(gl.delta.DeltaTable(env, "t", open_delta(env, "t"))), options), store
        return TableSource(SeriesSourceTable(gl.TimeSeriesTable(env, str(path), open_series(env, "t"))), options), store

    return make


@pytest.mark.parametrize("failures", [1, 3, 10_000])
def test_eo_11_a_version_that_cannot_be_read_is_tried_again_and_never_passed_over(
    kind: str, faulty: Callable[[], tuple[TableSource, FaultyStore]], failures: int
) -> None:
    reader, store = faulty()
    assert values(reader.poll(3)) == [0, 1, 2]
    at, left = reader.cursor.state, [failures]

    def fail(name: str) -> None:
        if name.endswith(f"{first_rows(kind) + 4}.json") and left[0]:
            left[0] -= 1
            unavailable(name)

    store.before_get = fail
    found: list[int] = []
    stops = 0
    for _ in range(4):
        try:
            found += values(reader.poll(1))
        except StoreUnavailable:
            stops += 1
            assert found in ([], [3])
    left[0] = 0
    assert found + drained(reader) == [3, 4, 5]
    assert (stops > 0) == (failures > 3)
    reader.start(Cursor(source="table", state=at))
    assert drained(reader) == [3, 4, 5]
