"""The history of Delta tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import CorruptTable, InvalidOption
from gapless.formats.delta.format import DELTA
from gapless.model.operation import JobId, SequenceId
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import SCHEMA, ClockedDelta, numbered


def test_every_commit_says_what_it_did() -> None:
    table = ClockedDelta()
    table.table.append(numbered(1, 2), operation_id="job-1")
    table.table.append(numbered(3), operation_id=("app", 7))
    table.table.delete("id = 1")
    history = table.table.history()
    assert [(entry.version, entry.operation) for entry in history] == [
        (0, "CREATE TABLE"),
        (1, "WRITE"),
        (2, "WRITE"),
        (3, "DELETE"),
    ]
    assert [(entry.files, entry.removed_files) for entry in history] == [(0, 0), (1, 0), (1, 0), (1, 1)]
    assert [entry.operation_id for entry in history] == [None, JobId("job-1"), SequenceId("app", 7), None]
    assert [entry.read_version for entry in history] == [None, 0, 1, 2]
    assert [entry.blind_append for entry in history] == [True, True, True, False]
    assert history[1].metrics["numOutputRows"] == 2
    assert history[3].parameters["predicate"]
    assert all(entry.engine.startswith("gapless/") for entry in history)
    assert all(entry.duration is not None and entry.duration >= timedelta(0) for entry in history[1:])
    assert len({entry.commit_id for entry in history}) == 4
    assert history[1].bytes == table.table.at(1).files()[0].size


def test_times_are_those_of_the_commits_in_utc() -> None:
    table = ClockedDelta()
    table.append(1, 2)
    times = [entry.time for entry in table.table.history()]
    assert times == sorted(set(times))
    assert all(time.tzinfo is UTC for time in times)
    assert times[0].date() == datetime(2026, 1, 9, tzinfo=UTC).date()


def test_the_newest_come_last_and_a_limit_takes_these() -> None:
    table = ClockedDelta()
    table.append(*range(5))
    assert [entry.version for entry in table.table.history(2)] == [4, 5]
    assert table.table.history(0) == []
    assert [entry.version for entry in table.table.history(99)] == list(range(6))
    assert [entry.version for entry in table.table.at(3).history(2)] == [2, 3]
    for wrong in (-1, True, 1.5, "2"):
        with pytest.raises(InvalidOption, match="limit"):
            table.table.history(wrong)  # type: ignore[arg-type]


def test_another_writers_words_are_kept(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "v": ["x"]})
    properties = CommitProperties(custom_metadata={"userMetadata": "why", "userName": "ann"})
    write_deltalake(str(tmp_path / "t"), rows, commit_properties=properties)
    DeltaLakeTable(str(tmp_path / "t")).delete("id = 1")
    first, second = DeltaTable.open(tmp_path / "t").history()
    assert (first.user, first.message, first.operation) == ("ann", "why", "WRITE")
    assert first.engine.startswith("delta-rs")
    assert (second.operation, second.removed_files, second.user, second.message) == ("DELETE", 1, None, None)
    assert second.metrics["num_deleted_rows"] == 1


def test_a_cleaned_log_has_the_later_commits() -> None:
    table = ClockedDelta({"delta.checkpointInterval": "4"})
    table.append(*range(6))
    for version in range(4):
        table.store.delete(DELTA.path_of(version))
    assert [entry.version for entry in table.open().history()] == [4, 5, 6]


def test_a_lost_commit_is_told() -> None:
    table = ClockedDelta()
    table.append(1, 2, 3)
    table.store.delete(DELTA.path_of(2))
    with pytest.raises(CorruptTable, match="version 2 is lost"):
        table.table.history()
    assert SCHEMA.names == ["id", "v"]
