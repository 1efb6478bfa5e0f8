"""An operation id names one change, of one kind, for both kinds of table: sent again it changes nothing, and another kind is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import OperationReused
from gapless.formats.delta.actions import Txn
from gapless.formats.delta.operation_ids import applied_of, txn_of
from gapless.model.operation import JobId, OperationArgument, SequenceId
from support.clocked_delta import ClockedDelta, numbered

START = datetime(2026, 1, 1, tzinfo=UTC)
Change = Callable[[Any, OperationArgument], Any]
"""Makes a change of a table under an operation id; gives its report."""


def rows(*hours: int) -> dict[str, Any]:
    return {"ts": [START + timedelta(hours=hour) for hour in hours], "v": [float(hour) for hour in hours]}


SERIES: dict[str, Change] = {
    "append": lambda t, name: t.append(rows(50), operation_id=name),
    "upsert": lambda t, name: t.upsert(rows(1), operation_id=name),
    "delete": lambda t, name: t.delete(start=START, end=START + timedelta(hours=1), operation_id=name),
    "replace": lambda t, name: t.replace((START, START + timedelta(hours=3)), rows(2), operation_id=name),
    "drop_before": lambda t, name: t.drop_before(START + timedelta(hours=2), operation_id=name),
    "set_properties": lambda t, name: t.set_properties({"checkpoint_interval": 7}, operation_id=name),
}
DELTA: dict[str, Change] = {
    "append": lambda t, name: t.append(rows(50), operation_id=name),
    "overwrite": lambda t, name: t.overwrite(rows(3), operation_id=name),
    "delete": lambda t, name: t.delete("v > 1", operation_id=name),
    "update": lambda t, name: t.update({"v": "v + 1"}, operation_id=name),
    "merge": lambda t, name: (
        t.merge(rows(1), on="t.ts = s.ts").when_matched_update_all().when_not_matched_insert_all().execute(operation_id=name)
    ),
    "dedup": lambda t, name: t.dedup(["v"], operation_id=name),
}


def series(path: Path) -> Any:
    table = gl.create(path, index="ts", bucket="1h")
    table.append(rows(0, 1, 2))
    return table


def delta(path: Path) -> Any:
    table = gl.delta.create(path, pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.float64())]))
    table.append(rows(0, 1, 2))
    return table


def reopened(table: Any, path: Path) -> Any:
    return (gl.delta.open if isinstance(table, gl.delta.DeltaTable) else gl.open)(path)


KINDS = [(series, SERIES), (delta, DELTA)]


@pytest.mark.parametrize(("checkpoint", "name"), [(False, ("feed", 5)), (True, ("feed", 5)), (True, "a job")])
@pytest.mark.parametrize(("make", "changes"), KINDS, ids=["series", "delta"])
def test_another_kind_of_change_under_the_same_id_is_refused_naming_both(
    tmp_path: Path, make: Callable[[Path], Any], changes: dict[str, Change], checkpoint: bool, name: OperationArgument
) -> None:
    for first, change in changes.items():
        path = tmp_path / first
        table = make(path)
        change(table, name)
        version = table.version
        if checkpoint:
            write_checkpoint(table)
            table = reopened(table, path)
        for other, again in changes.items():
            before = table.version
            if other == first:
                report = again(table, name)
                assert report == version if isinstance(report, int) else report.already_applied
                continue
            with pytest.raises(OperationReused, match=rf"{first} .*{other}") as refused:
                again(table, name)
            assert (refused.value.applied, refused.value.asked, refused.value.operation_id) == (first, other, name)
            known = None if checkpoint and make is delta else version
            assert refused.value.version == known
            assert str(known) in str(refused.value) or known is None
            assert table.refresh().version == before


def write_checkpoint(table: Any) -> None:
    if isinstance(table, gl.delta.DeltaTable):
        table.checkpoint()
        for commit in Path(table.url.removeprefix("file://"), "_delta_log").glob("*.json"):
            if int(commit.stem) < table.version:
                commit.unlink()
        return
    table.set_properties({"checkpoint_interval": 1})


@pytest.mark.parametrize(("make", "changes"), KINDS, ids=["series", "delta"])
def test_a_lower_sequence_says_nothing_of_its_kind(
    tmp_path: Path, make: Callable[[Path], Any], changes: dict[str, Change]
) -> None:
    """A stream may append and then delete; when its append is sent again, its highest sequence is that of the deletion."""
    table = make(tmp_path / "t")
    changes["append"](table, ("feed", 1))
    changes["delete"](table, ("feed", 2))
    assert changes["append"](table, ("feed", 1)).already_applied


def test_a_refused_kind_leaves_no_file_and_reads_no_input(tmp_path: Path) -> None:
    table = delta(tmp_path / "t")
    table.delete("v > 1", operation_id="job")
    files = sorted(tmp_path.rglob("*.parquet"))

    def unread() -> Any:
        raise AssertionError("the input was read")
        yield

    with pytest.raises(OperationReused):
        table.append(pa.RecordBatchReader.from_batches(table.schema, unread()), operation_id="job")
    assert sorted(tmp_path.rglob("*.parquet")) == files


# -- how long Delta's are kept ------------------------------------------------------------------------------------------


RETENTION = "delta.setTransactionRetentionDuration"


@pytest.mark.parametrize("name", [("feed", 5), "a job"], ids=str)
def test_ids_of_ours_outlive_the_transaction_retention_of_a_delta_table(name: OperationArgument) -> None:
    world = ClockedDelta(properties={RETENTION: "interval 1 hours"})
    world.open().append(numbered(1), operation_id=name)
    world.table.refresh()
    world.commit(Txn(app_id="stream of Spark", version=7, updated_ms=world.clock.ns // 1_000_000))
    assert "app:stream of Spark" in world.state.applied
    for days in (1, 400, 4_000):
        world.wait(days=days)
        world.open().append(numbered(2))
        world.open().checkpoint()
        for path in world.names("_delta_log"):
            if path.endswith(".json") and int(path[-25:-5]) < world.open().version:
                world.store.delete(path)
        assert world.open().append(numbered(1), operation_id=name).already_applied
        assert "app:stream of Spark" not in world.state.applied


def test_the_mark_survives_a_checkpoint_of_another_writer() -> None:
    """Another writer keeps of a transaction its three fields, and drops those whose time is older than the retention."""
    for operation in (SequenceId("feed", 5), JobId("a job")):
        for kind in ("append", "overwrite", "delete", "update", "merge", "dedup"):
            told = txn_of(operation, kind)
            kept = Txn(app_id=told.app_id, version=told.version, updated_ms=told.updated_ms)
            known = applied_of(kept)
            assert (known.operation, known.ours, known.kind) == (operation, True, kind)
            assert kept.updated_ms is not None
            assert kept.updated_ms > datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000
    assert not applied_of(Txn(app_id="feed", version=5, updated_ms=1_767_225_600_000)).ours
    assert not applied_of(Txn(app_id="feed", version=5)).ours
    # Of a kind that a later release has: ours, and no kind that could be held against another.
    later = applied_of(Txn(app_id="feed", version=5, updated_ms=253_402_300_799_900))
    assert (later.ours, later.kind) == (True, "")


def test_a_copied_table_knows_its_ids(tmp_path: Path) -> None:
    table = delta(tmp_path / "t")
    table.append(rows(9), operation_id="job")
    table.checkpoint()
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    assert gl.delta.open(tmp_path / "copy").append(rows(9), operation_id="job").already_applied
