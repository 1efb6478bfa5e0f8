"""A runner beside another one, over a store that was lost, with nothing to do, and with sinks that cannot be told apart."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import Checkpoint, CheckpointStore, Cursor, Runner, sink, source
from gapless.errors import CommitConflict, InvalidOption, LogWarning, NotSupported, VersionNotFound
from support.pipelines import KINDS, SCHEMA, made, opened, rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Path:
    """With a feed of three rows, and an empty table for its rows."""
    made(kind, tmp_path / "feed").append(rows(0, 3))
    made(kind, tmp_path / "out")
    return tmp_path


def runner(kind: str, place: Path, *, start: object = None, on_change: Any = "error", **options: Any) -> Runner:
    sinks = options.pop("sinks", None) or {"out": sink(f"{kind}:{place / 'out'}", pipeline="orders", name="out")}
    reader = source(f"{kind}:{place / 'feed'}", start=start, on_change=on_change)
    return Runner(reader, options.pop("transform", None), sinks, CheckpointStore(place / "checkpoints"), **options)


def found(kind: str, place: Path) -> list[int]:
    return sorted(opened(kind, place / "out").scan().to_arrow()["v"].to_pylist())


def test_a_checkpoint_store_that_was_lost_is_an_error_however_often_it_is_tried(kind: str, place: Path) -> None:
    """Its numbers begin anew, and the table would take new rows for those that it has."""
    runner(kind, place).run()
    opened(kind, place / "feed").append(rows(3, 1))
    runner(kind, place).run()
    shutil.rmtree(place / "checkpoints")
    opened(kind, place / "feed").append(rows(4, 1))
    for _ in range(6):
        with pytest.raises(InvalidOption, match="higher generation"):
            runner(kind, place, start="earliest").run()
    assert found(kind, place) == [0, 1, 2, 3]


def test_what_a_coordinator_prepared_that_was_given_up_holds_nobody_up(kind: str, place: Path) -> None:
    """It prepares and records after the other one recovered, and before that prepares."""
    slow = CheckpointStore(place / "checkpoints")
    number = slow.recover().next_id
    theirs = sink(f"{kind}:{place / 'out'}", pipeline="orders", name="out")
    theirs.initialize(SCHEMA)

    def late(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows and not theirs.pending():
            theirs.write(batch)
            theirs.prepare(number)
        return batch

    report = runner(kind, place, transform=late).run()
    assert (report.checkpoints, report.rows) == (1, 3)
    assert found(kind, place) == [0, 1, 2]
    assert theirs.pending() == []
    given_up = Checkpoint(id=number, cursor=Cursor(source="table", state={}), prepared={})
    with pytest.raises(CommitConflict, match="another coordinator"):
        slow.decide(given_up)


def test_a_number_that_a_quicker_coordinator_committed_other_rows_under_is_its(kind: str, place: Path) -> None:
    """Both recovered at once, and were given one number."""
    quick = CheckpointStore(place / "checkpoints")
    theirs = sink(f"{kind}:{place / 'out'}", pipeline="orders", name="out")
    theirs.initialize(SCHEMA)

    def late(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows and theirs.last_committed() is None:
            number = 1 + max(int(one.stem) for one in (place / "checkpoints").glob("*.decided"))
            theirs.write(batch.slice(0, 1))
            checkpoint = Checkpoint(
                id=number, cursor=Cursor(source="table", state={}), prepared={"out": theirs.prepare(number)}
            )
            quick.record(checkpoint)
            quick.decide(checkpoint)
            theirs.finalize(checkpoint.prepared["out"])
        return batch

    with pytest.raises(CommitConflict, match="another coordinator"):
        runner(kind, place, transform=late).run()
    assert found(kind, place) == [0]


def test_rows_that_come_after_a_run_without_any_are_not_passed_over(kind: str, place: Path) -> None:
    assert runner(kind, place, start="latest").run().rows == 0
    opened(kind, place / "feed").append(rows(3, 2))
    assert runner(kind, place, start="latest").run().rows == 2
    assert found(kind, place) == [3, 4]


def test_versions_without_rows_are_passed_for_good(kind: str, place: Path) -> None:
    """What was read need not be kept: a table that is only compacted for longer than its log is kept loses nobody."""
    runner(kind, place).run()
    feed = opened(kind, place / "feed")
    feed.append(rows(3, 1))
    runner(kind, place).run()
    feed.compact()
    report = runner(kind, place).run()
    assert (report.checkpoints, report.rows) == (0, 0)
    decided = CheckpointStore(place / "checkpoints").recover().decided
    assert decided is not None
    assert decided.cursor.table_version == opened(kind, place / "feed").version + 1
    kept = list((place / "checkpoints").glob("*.json"))
    assert runner(kind, place).run().rows == 0
    assert sorted((place / "checkpoints").glob("*.json")) == sorted(kept)


def test_two_sinks_that_are_one_to_their_table_are_refused(kind: str, place: Path) -> None:
    sinks = {name: sink(f"{kind}:{place / 'out'}", pipeline="orders", name="out") for name in ("a", "b")}
    with pytest.raises(InvalidOption, match="a name of its own"):
        runner(kind, place, sinks=sinks).run()
    assert sinks["a"].pending() == []
    assert found(kind, place) == []


@pytest.mark.parametrize(
    "transform", [lambda _: None, lambda batch: {"other": batch}, lambda batch: {"out": batch, "more": batch}]
)
def test_a_transform_whose_rows_have_no_place_is_refused(kind: str, place: Path, transform: Any) -> None:
    with pytest.raises(InvalidOption, match="transform"):
        runner(kind, place, transform=transform).run()


def test_options_that_would_do_nothing_or_harm_are_refused(kind: str, place: Path) -> None:
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InvalidOption, match="checkpoint_rows"):
            runner(kind, place, checkpoint_rows=wrong).run()
        for option in ("checkpoint_bytes", "max_backlog"):
            with pytest.raises(InvalidOption, match=option):
                runner(kind, place, **{option: wrong}).run()
        with pytest.raises(InvalidOption, match="keep"):
            CheckpointStore(place / "checkpoints", keep=wrong)  # type: ignore[arg-type]  # what is refused
    odd: list[Any] = [0, -1.5, True, "1", float("nan")]
    for time in odd:
        for option in ("checkpoint_seconds", "stall_seconds"):
            with pytest.raises(InvalidOption, match=option):
                runner(kind, place, **{option: time}).run()
        with pytest.raises(InvalidOption, match="poll_interval"):
            runner(kind, place).run(follow=True, poll_interval=time)
    with pytest.raises(NotSupported, match="changed or removed"):
        runner(kind, place, on_change="tell").run()


def test_a_table_that_was_made_anew_or_is_an_older_copy_is_an_error_however_often_it_is_tried(kind: str, place: Path) -> None:
    """The store says that the rows before are in it: nobody would send them again."""
    runner(kind, place).run()
    shutil.copytree(place / "out", place / "older")
    opened(kind, place / "feed").append(rows(3, 1))
    runner(kind, place).run()
    shutil.move(place / "out", place / "newest")
    shutil.copytree(place / "older", place / "out")
    for _ in range(2):
        with pytest.raises(InvalidOption, match="older copy"):
            runner(kind, place).run()
    shutil.rmtree(place / "out")
    making: dict[str, Any] = {} if kind == "delta" else {"index": "ts", "bucket": "1h"}
    for _ in range(2):
        sinks = {"out": sink(f"{kind}:{place / 'out'}", pipeline="orders", name="out", create=making)}
        with pytest.raises(VersionNotFound, match="is not the one"):
            runner(kind, place, sinks=sinks).run()
    shutil.rmtree(place / "out")
    shutil.move(place / "newest", place / "out")
    runner(kind, place).run()
    assert found(kind, place) == [0, 1, 2, 3]


def test_what_is_no_transform_is_told_with_the_order_of_arguments(tmp_path: Path) -> None:
    wrong: Any = Runner
    with pytest.raises(InvalidOption, match=r"a dict is no transform.*Runner\(source, None, sinks, store\)"):
        wrong(None, {}, CheckpointStore(tmp_path / "c"), None).run()


@pytest.mark.parametrize("sinks", [{}, [], None])
def test_a_pipeline_without_sinks_by_name_is_refused_before_it_reads(kind: str, place: Path, sinks: Any) -> None:
    reader = source(f"{kind}:{place / 'feed'}")
    with pytest.raises(InvalidOption, match="mapping of sinks by name"):
        Runner(reader, None, sinks, CheckpointStore(place / "checkpoints")).run()
    assert CheckpointStore(place / "checkpoints").recover().decided is None


def test_a_sink_that_was_left_out_for_a_while_is_told_of_what_it_misses(kind: str, place: Path) -> None:
    made(kind, place / "more")
    out, more = (sink(f"{kind}:{place / name}", pipeline="orders", name=name) for name in ("out", "more"))

    def with_both() -> Runner:
        return runner(kind, place, sinks={"out": out, "more": more})

    with_both().run()
    opened(kind, place / "feed").append(rows(3, 1))
    runner(kind, place, sinks={"out": out}).run()
    with pytest.raises(InvalidOption, match="'more' was left out of the last checkpoints"):
        with_both().run()
    made(kind, place / "third")
    third = sink(f"{kind}:{place / 'third'}", pipeline="orders", name="third")
    opened(kind, place / "feed").append(rows(4, 1))
    with pytest.warns(LogWarning, match="'third' is new"):
        runner(kind, place, sinks={"out": out, "third": third}).run()
    assert opened(kind, place / "third").scan().to_arrow()["v"].to_pylist() == [4]


def test_an_older_copy_of_a_table_is_found_though_the_last_checkpoint_had_no_rows(kind: str, place: Path) -> None:
    runner(kind, place, start="earliest").run()
    shutil.copytree(place / "out", place / "copy")
    opened(kind, place / "feed").append(rows(3, 1))
    runner(kind, place).run()
    opened(kind, place / "feed").compact()
    runner(kind, place).run()
    shutil.rmtree(place / "out")
    shutil.move(place / "copy", place / "out")
    opened(kind, place / "feed").append(rows(4, 1))
    with pytest.raises(InvalidOption, match="older copy"):
        runner(kind, place).run()


def test_what_a_poll_gave_counts_as_its_batches(kind: str, place: Path) -> None:
    reader, batches = source(f"{kind}:{place / 'feed'}", start="earliest"), 0
    while polled := reader.poll(2):
        batches += len(polled)
        assert polled[0].num_rows <= 2
    assert batches == 2
