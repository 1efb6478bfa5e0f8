"""One handle in many threads, two handles in one process, and handles after a fork."""

from __future__ import annotations

import multiprocessing
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import StoreError
from gapless.testing.store.case import in_child
from process.ledger import ROWS, Append, Place, append_at, check, make_table, open_at, rows_of
from process.writer import run_python

THREADS = 8


def _all(calls: list[Callable[[], object]]) -> None:
    """Run all at once, each in a thread; raise the first error."""
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture(params=["disk", "memory"])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return (str(tmp_path / "table") if request.param == "disk" else f"memory://{uuid.uuid4().hex}"), {}


@pytest.mark.parametrize("each", [10, pytest.param(80, marks=pytest.mark.soak)])
def test_one_handle_in_eight_threads_and_a_reader(local: Place, each: int) -> None:
    table = make_table(local, checkpoint_interval=7)
    table.append(rows_of(("first", 0)))
    done = threading.Event()
    seen: list[int] = []
    versions: list[int] = []

    def write(writer: str) -> None:
        for number in range(each):
            report = table.append(rows_of((writer, number)), operation_id=(writer, number))
            assert report.rows == ROWS
            assert table.version >= report.version, "a handle has seen what it appended"
            assert table.scan(entity={"writer": writer}).count() == (number + 1) * ROWS

    def write_all() -> None:
        try:
            _all([lambda writer=f"w{number}": write(writer) for number in range(THREADS)])  # type: ignore[misc]  # mypy cannot infer it
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            rows = table.scan().to_arrow()
            counts = rows.group_by(["writer"]).aggregate([("at", "count")])["at_count"].to_pylist()
            assert all(count % ROWS == 0 for count in counts), "an append is seen whole or not at all"
            seen.append(rows.num_rows)
            versions.append(table.version)

    _all([write_all, read])
    assert seen == sorted(seen)
    assert versions == sorted(versions)
    check(local, [("first", 0), *((f"w{number}", one) for number in range(THREADS) for one in range(each))])


def test_two_handles_in_one_process(local: Place) -> None:
    one, two = make_table(local), open_at(local)
    for number in range(5):
        one.append(rows_of(("one", number)))
        two.append(rows_of(("two", number)))
    assert two.version == 11, "an append moves its own handle past what it stepped over"
    assert one.version == 10, "and no other's"
    assert one.refresh() is one
    assert one.version == 11
    assert one.refresh().version == 11
    check(local, [(writer, number) for writer in ("one", "two") for number in range(5)])


def test_a_reader_pinned_to_a_version_is_not_disturbed(local: Place) -> None:
    writer = make_table(local, checkpoint_interval=3)
    writer.append(rows_of(("w", 0)))
    reader = open_at(local)
    pinned, segments, coverage = reader.scan(), reader.segments(), reader.coverage()
    batches = reader.scan().to_batches()
    before = pinned.to_arrow()
    for number in range(1, 8):
        writer.append(rows_of(("w", number)))
    assert reader.version == 2
    assert pinned.to_arrow() == before
    assert reader.scan().to_arrow() == before
    assert reader.sql("select count(*) as n from this").to_arrow()["n"].to_pylist() == [ROWS]
    assert pa.Table.from_batches(list(batches)) == before
    assert reader.segments() == segments
    assert coverage.covered == reader.coverage().covered == 1
    reader.refresh()
    assert reader.scan().count() == 8 * ROWS
    assert pinned.to_arrow() == before, "rows asked for before a refresh stay those of their version"


def test_a_handle_after_a_fork(local: Place) -> None:
    """The child of a table on disk writes to the same table; that of one in memory to its own copy."""
    table = make_table(local)
    table.append(rows_of(("w", 0)))
    on_disk = not local[0].startswith("memory:")

    def act() -> None:
        table.append(rows_of(("child", 0)), operation_id="child")
        check(local, [("w", 0), ("child", 0)])

    assert in_child(act) == 0
    table.append(rows_of(("parent", 0)))
    check(local, [("w", 0), ("parent", 0), *([("child", 0)] if on_disk else [])])
    assert table.append(rows_of(("child", 0)), operation_id="child").already_applied is on_disk


@pytest.mark.parametrize("forks", [20, pytest.param(300, marks=pytest.mark.soak)])
def test_forks_while_other_threads_append(local: Place, forks: int) -> None:
    """No lock that a thread holds at the moment of the fork stays held in the child."""
    table = make_table(local)
    table.append(rows_of(("w", 0)))
    on_disk = not local[0].startswith("memory:")
    stop = threading.Event()
    appended: list[Append] = [("w", 0)]

    def write(writer: str) -> None:
        number = 0
        while not stop.is_set():
            table.append(rows_of((writer, number)))
            appended.append((writer, number))
            number += 1

    def fork() -> None:
        try:
            for number in range(forks):
                name = f"child{number}"
                assert in_child(lambda name=name: table.append(rows_of((name, 0)), operation_id=name)) == 0, name  # type: ignore[misc]  # mypy cannot infer it
                if on_disk:
                    appended.append((name, 0))
        finally:
            stop.set()

    _all([lambda: write("a"), lambda: write("b"), lambda: write("c"), fork])
    check(local, appended)


def _on_bucket(options: tuple[str, dict[str, str]]) -> gl.TimeSeriesTable:
    place = f"{options[0]}/table", options[1]
    table = make_table(place)
    table.append(rows_of(("w", 0)))
    return table


def test_a_bucket_handle_in_a_forked_child_says_spawn_at_once(s3_options: tuple[str, dict[str, str]]) -> None:
    table = _on_bucket(s3_options)
    calls: list[Callable[[], object]] = [
        lambda: table.append(rows_of(("w", 1))),
        table.refresh,
        lambda: table.scan().to_arrow(),
        table.history,
        lambda: open_at((table.url, s3_options[1])),
    ]

    def act() -> None:
        for call in calls:
            began = time.monotonic()
            with pytest.raises(StoreError, match="spawn"):
                call()
            assert time.monotonic() - began < 2

    assert in_child(act) == 0
    assert table.append(rows_of(("w", 1))).version == 3, "the parent's handle works on"


def test_a_child_that_spawns_opens_a_bucket_anew(s3_options: tuple[str, dict[str, str]]) -> None:
    """What the error advises: a process that is not a fork."""
    table = _on_bucket(s3_options)
    spawned = multiprocessing.get_context("spawn").Process(target=append_at, args=((table.url, s3_options[1]), ("child", 0)))
    spawned.start()
    spawned.join(60)
    spawned.kill()
    spawned.join()
    assert spawned.exitcode == 0
    check((table.url, s3_options[1]), [("w", 0), ("child", 0)])


def test_a_child_forked_before_a_bucket_is_used_may_use_it(s3_options: tuple[str, dict[str, str]]) -> None:
    """A server that forks its workers first, as gunicorn does with preload."""
    program = f"""if True:
        from gapless.testing.store.case import in_child
        from process.ledger import append_at, make_table
        place = {(s3_options[0] + "/table", s3_options[1])!r}
        assert in_child(lambda: make_table(place)) == 0
        assert in_child(lambda: append_at(place, ("w", 0))) == 0
        append_at(place, ("w", 1))
    """
    assert run_python(program) == 0
    check((f"{s3_options[0]}/table", s3_options[1]), [("w", 0), ("w", 1)])
