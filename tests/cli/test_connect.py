"""`connect` as a script meets it: once and as a feed grows, killed and run again, stopped by Ctrl-C, refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from cli.conftest import Gapless
from gapless import metrics
from gapless.connect import Checkpoint, CheckpointStore
from gapless.errors import StorageFull
from support.full_disk import Disks, disks
from support.pipelines import made, opened, rows

__all__ = ["disks"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """With a feed of three rows."""
    made("timeseries", tmp_path / "feed").append(rows(0, 3))
    return tmp_path


def found(place: Path, kind: str = "delta", name: str = "trips") -> list[int]:
    return sorted(opened(kind, place / name).scan().to_arrow()["v"].to_pylist())


def test_a_table_is_copied_and_then_what_was_added(inside: Gapless, place: Path) -> None:
    words = ("connect", "feed", "delta:trips", "--create")
    first = inside(*words, cwd=place)
    assert (first.code, first.err) == (0, "")
    assert first.out == "Copied 3 rows in 1 checkpoint: trips is at version 1.\n"
    assert inside(*words, cwd=place).out == "Nothing new for trips.\n"
    opened("timeseries", place / "feed").append(rows(3, 2))
    later = inside("connect", "feed", "trips", "--checkpoint-rows", "1", "--json", cwd=place)
    assert json.loads(later.out) == {
        "rows": 2, "checkpoints": 2, "version": 3, "waiting": 0, "stalls": 0, "stopped": False,
    }  # fmt: skip
    assert found(place) == [0, 1, 2, 3, 4]


def test_a_series_is_made_like_its_source_or_as_told(inside: Gapless, place: Path) -> None:
    assert inside("connect", "feed", "timeseries:copy", "--create", cwd=place).code == 0
    assert opened("timeseries", place / "copy").index == opened("timeseries", place / "feed").index
    told = inside("connect", "feed", "timeseries:days", "--create", "--bucket", "1d", "--entity", "id", cwd=place)
    assert told.code == 0
    index = opened("timeseries", place / "days").index
    assert (index.column, index.entity) == ("ts", ("id",))
    assert inside("connect", "feed", "delta:parts", "--create", "--partition-by", "id", cwd=place).code == 0
    assert found(place, "timeseries", "days") == found(place, "delta", "parts") == [0, 1, 2]


def test_iceberg_tables_of_a_catalog_and_a_directory_are_written_and_read(inside: Gapless, place: Path) -> None:
    def catalog(side: str, name: str) -> list[str]:
        told = ("catalog_type=sql", f"catalog_uri=sqlite:///{name}.db", f"warehouse={name}")
        return [word for one in told for word in (f"--{side}-option", one)]

    copied = "Copied 3 rows in 1 checkpoint: {} is at version 1.\n"
    made_by = ("--create", "--partition-by", "day(ts)", "--partition-by", "bucket(4, id)")
    words = ("connect", "feed", "iceberg:city.trips", *made_by, *catalog("sink", "one"), "--checkpoints", "cp")
    assert inside(*words, cwd=place).out == copied.format("city.trips")
    assert inside(*words, cwd=place).out == "Nothing new for city.trips.\n"
    # The same name in another catalog is another table.
    words = ("connect", "iceberg:city.trips", "iceberg:city.trips", "--create", "--checkpoints", "cp 2")
    assert inside(*words, *catalog("source", "one"), *catalog("sink", "two"), cwd=place).out == copied.format("city.trips")
    same = inside(*words, *catalog("source", "two"), *catalog("sink", "two"), cwd=place)
    assert (same.code, "iceberg:city.trips is the source and the sink" in same.err) == (2, True)
    words = ("connect", "iceberg:city.trips", "iceberg:trips", *made_by)
    assert inside(*words, *catalog("source", "two"), cwd=place).out == copied.format("trips")
    assert inside("connect", "trips", "delta:out", "--create", cwd=place).out == copied.format("out")
    assert found(place, name="out") == [0, 1, 2]
    for told in ("one/city/trips", "iceberg:one/city/trips"):
        refused = inside("connect", "feed", told, "--create", cwd=place)
        assert (refused.code, "is one of a catalog" in refused.err) == (1, True)
    assert not list((place / "one/city/trips/metadata").glob("v1.*"))


def test_a_path_of_another_format_is_known_for_its_kind(inside: Gapless, place: Path) -> None:
    key = ("--mode", "upsert", "--key", "v")
    assert inside("connect", "feed", "hudi:trips", "--create", *key, "--partition-by", "id", cwd=place).code == 0
    opened("timeseries", place / "feed").append(rows(3, 2))
    assert inside("connect", "feed", "trips", *key, cwd=place).out.startswith("Copied 2 rows in 1 checkpoint: trips is at ")
    assert inside("connect", "trips", "delta:out", "--create", cwd=place).out.startswith("Copied 5 rows")
    assert found(place, name="out") == [0, 1, 2, 3, 4]
    for words in ("info trips", "scan trips", "verify trips", "delta delete trips --where true"):
        refused = inside(*words.split(), cwd=place)
        assert (refused.code, refused.out) == (2, "")
        assert "the table at trips is a Hudi table" in refused.err
        assert "`gapless connect hudi:trips SINK`" in refused.err


def test_changes_are_applied_with_mode_cdc(inside: Gapless, place: Path) -> None:
    words = ("connect", "feed", "delta:trips", "--create", "--start", "earliest", "--on-change", "tell", "--mode", "cdc")
    assert inside(*words, "--key", "v", cwd=place).code == 0
    opened("timeseries", place / "feed").delete("v = 1")
    assert inside(*words, "--key", "v", cwd=place).code == 0
    assert found(place) == [0, 2]


def test_files_are_copied_too(inside: Gapless, place: Path) -> None:
    (place / "a.csv").write_text("v\n1\n2\n")
    words = ("connect", f"files:{place}/*.csv", "delta:trips", "--create")
    assert inside(*words, cwd=place).out == "Copied 2 rows in 1 checkpoint: trips is at version 1.\n"
    (place / "b.csv").write_text("v\n3\n")
    assert inside(*words, cwd=place).code == 0
    assert found(place) == [1, 2, 3]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("feed trips", 2, "or pass such as 'delta:trips'"),
        ("nope delta:trips", 2, "no table lies at 'nope'"),
        ("feed delat:trips", 2, "'delat:trips' names no kind of table"),
        ("feed delta:trips", 2, "Pass --create, or make it with `gapless delta create`."),
        ("feed timeseries:trips", 2, "Pass --create, or make it with `gapless create`."),
        ("feed feed", 2, "feed is the source and the sink"),
        ("feed delta:trips --create --mode merge", 2, "--mode 'merge' is not known"),
        ("feed delta:trips --create --key id", 2, "Say --mode upsert, delete or cdc too."),
        ("feed delta:trips --create --on-change tell", 2, "Say --mode cdc too."),
        ("feed delta:trips --index ts", 2, "Say --create too."),
        ("feed delta:trips --create --index ts", 2, "A Delta table has no index."),
        ("feed timeseries:trips --create --partition-by id", 2, "It is about tables of other formats"),
        ("feed iceberg:trips", 2, "Pass --create, or make it with the engine that owns it."),
        ("feed hudi:trips", 2, "Pass --create, or make it by Hudi."),
        ("feed hudi:trips --create --index ts", 2, "A Hudi table has no index."),
        ("feed iceberg:trips --create --sink-option partition_by=id", 2, "Say --create --partition-by."),
        (
            "feed iceberg:a.trips --sink-option catalog_type=sql --sink-option warehouse=w",
            2,
            "Say where, such as --checkpoints",
        ),
        (
            "feed iceberg:a.trips --sink-option catalog_type=sql --sink-option catalog_url=x --checkpoints c",
            2,
            "'catalog_uri'?",
        ),
        ("delta:plain timeseries:trips --create", 2, "--create makes no time series without --index"),
        ("feed delta:trips --poll-interval 5s", 2, "Say --follow."),
        ("feed delta:trips --create --follow --poll-interval 0", 2, "--poll-interval 0 is no time"),
        ("feed delta:trips --create --pipeline a/b", 2, "--pipeline 'a/b' cannot name it"),
        ("feed delta:trips --create --storage-option region=x", 2, "have no storage options"),
        ("feed delta:trips --create --source-option x=1", 2, "x=1 is no option"),
        (
            "feed delta:plain --checkpoints other --pipeline known",
            2,
            "begin anew with an empty store and a higher --generation",
        ),
    ],
)
def test_what_is_typed_wrong_is_told_in_its_words(inside: Gapless, place: Path, words: str, code: int, says: str) -> None:
    made("delta", place / "plain")
    if "known" in words:
        assert inside("connect", "feed", "delta:plain", "--pipeline", "known", cwd=place).code == 0
    ended = inside("connect", *words.split(), cwd=place)
    assert (ended.code, ended.out) == (code, "")
    assert says in ended.err
    assert not (place / "trips").exists() or "on-change" in words or "x=1" in words


def test_a_sink_without_room_is_warned_of_and_what_waits_is_told(
    inside: Gapless, place: Path, disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("delta", place / "trips")
    disks.full = {"/trips": lambda path: path.startswith("_delta_log/")}
    monkeypatch.setattr("gapless.connect.runner.ONCE_STALL_S", 0.5)
    failed = inside("connect", "feed", "trips", cwd=place)
    assert (failed.code, failed.out) == (StorageFull.exit_code, "")
    assert "the sink 'main' stands still, 1 checkpoint waits: no room for" in failed.err
    assert "Error [storage-full]" in failed.err
    disks.mend()
    assert (
        inside("connect", "feed", "trips", cwd=place).out
        == "Committed 1 checkpoint of an earlier run: trips is at version 1.\n"
    )
    assert found(place) == [0, 1, 2]


def started(place: Path, environment: dict[str, str], *options: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "gapless", "connect", "feed", "delta:trips", "--create", *options]
    # A shell starts what runs in its background with Ctrl-C ignored, and processes take that over.
    return subprocess.Popen(
        words,
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # the tests start no threads
    )


def committed(place: Path, count: int, run: subprocess.Popen[bytes]) -> None:
    """Wait until another process has committed so many checkpoints."""
    folder = place / "trips.checkpoints" / "feed-main-1"
    until = time.monotonic() + 60
    while len(list(folder.glob("*.done"))) < count:
        assert run.poll() is None, run.stderr.read() if run.stderr else ""
        assert time.monotonic() < until
        time.sleep(0.01)  # between two looks at another process


def test_a_feed_is_followed_until_ctrl_c_which_ends_it_at_a_checkpoint(place: Path, environment: dict[str, str]) -> None:
    with started(place, environment, "--follow", "--poll-interval", "20ms") as run:
        committed(place, 1, run)
        opened("timeseries", place / "feed").append(rows(3, 2))
        committed(place, 2, run)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, b"")
    assert out == b"Stopped. Copied 5 rows in 2 checkpoints: trips is at version 2. Run it again to go on.\n"
    assert found(place) == [0, 1, 2, 3, 4]


def test_a_feed_that_is_followed_is_killed_and_goes_on(place: Path, environment: dict[str, str], inside: Gapless) -> None:
    for life in range(3):
        with started(place, environment, "--follow", "--poll-interval", "20ms") as run:
            opened("timeseries", place / "feed").append(rows(3 + 2 * life, 2))
            committed(place, min(life + 1, 3), run)
            os.kill(run.pid, signal.SIGKILL)
    assert inside("connect", "feed", "delta:trips", cwd=place).code == 0
    assert found(place) == list(range(9))


def test_ctrl_c_of_a_copy_that_is_not_whole_says_so(inside: Gapless, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("delta", place / "trips")
    original = type(opened("timeseries", place / "feed")).at

    def interrupting(*given: object, **named: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return original(*given, **named)

    monkeypatch.setattr("gapless.tables.timeseries.table.TimeSeriesTable.at", interrupting)
    stopped = inside("connect", "feed", "trips", "--checkpoint-rows", "2", cwd=place)
    assert stopped.code == 130
    assert stopped.out == "Stopped. Copied 2 rows in 1 checkpoint: trips is at version 1. Run it again to go on.\n"
    monkeypatch.undo()
    assert inside("connect", "feed", "trips", cwd=place).code == 0
    assert found(place) == [0, 1, 2]


def test_metrics_are_served_while_it_runs(inside: Gapless, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seen: list[str] = []
    original = CheckpointStore.finish

    def finish(store: CheckpointStore, checkpoint: Checkpoint) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            seen.append(answer.read().decode())
        original(store, checkpoint)

    monkeypatch.setattr(CheckpointStore, "finish", finish)
    try:
        ended = inside("connect", "feed", "delta:trips", "--create", "--metrics-port", port, cwd=place)
    finally:
        metrics.disable()
    assert ended.code == 0
    assert "gapless_commits_total" in seen[0]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = inside("connect", "feed", "trips", "--metrics-port", taken.getsockname()[1], cwd=place)
    metrics.disable()
    assert refused.code == 2
    assert "metrics cannot be served at 127.0.0.1" in refused.err
