"""Which batches of a stream a table takes, passes over or refuses: decided by its log alone, without Spark."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import LogWarning, StreamRestarted
from gapless.model.operation import AppendReport, SequenceId
from gapless.spark.stream.batch_dedup import Stream, check_batch, normal_location
from gapless.spark.writing.staging import append_outcomes, begin, overwrite_outcomes, target_of
from gapless.spark.writing.target import Delivery

ONE = Stream(query="q-one", location="/chk/one")


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    return gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)


def send(table: gl.TimeSeriesTable, stream: Stream, *batches: int) -> list[bool]:
    """Write batches, one row each, as a sink does; whether each was written."""
    written = []
    for batch in batches:
        admitted = check_batch(target_of(gl.open(table.url)), stream, batch)
        written.append(not isinstance(admitted, AppendReport))
        if not isinstance(admitted, AppendReport):
            assert isinstance(admitted.operation, SequenceId)
            operation = (admitted.operation.app, admitted.operation.sequence)
            table.append({"n": [batch]}, on_overlap="allow", operation_id=operation)
    return written


def rows(table: gl.TimeSeriesTable) -> list[int]:
    return sorted(table.refresh().scan().to_arrow().column("n").to_pylist())


def test_eo_02_a_batch_at_or_below_the_highest_is_there_already(table: gl.TimeSeriesTable) -> None:
    assert send(table, ONE, 0, 1, 2) == [True] * 3
    assert send(table, ONE, 2, 1, 3, 0) == [False, False, True, False]
    assert rows(table) == [0, 1, 2, 3]


def test_the_report_of_a_known_batch_is_that_of_its_commit(table: gl.TimeSeriesTable, caplog: pytest.LogCaptureFixture) -> None:
    send(table, ONE, 0, 1)
    caplog.set_level(logging.INFO, logger="gapless.spark")
    report = check_batch(target_of(table), ONE, 1)
    assert isinstance(report, AppendReport)
    assert [record.getMessage() for record in caplog.records if record.name == "gapless.spark"] == [
        f"{table.url}: batch 1 is in version {report.version} already and is passed over"
    ]
    assert (report.already_applied, report.rows, report.version) == (True, 1, table.version)


def test_a_stream_leaves_one_trace_before_its_first_batch(table: gl.TimeSeriesTable) -> None:
    send(table, ONE, 0, 1)
    assert table.refresh().version == 4, "one commit for the table, one for the trace, two for the batches"
    check_batch(target_of(table), ONE, 2)
    assert table.refresh().version == 4


def test_a_new_query_at_the_location_of_another_is_refused(table: gl.TimeSeriesTable) -> None:
    send(table, ONE, 0, 1)
    other = Stream(query="q-two", location=ONE.location)
    with pytest.raises(
        StreamRestarted, match=r"query q-two is new .* at /chk/one, where query q-one had .*app_id='q-one'"
    ) as refused:
        send(table, other, 0)
    assert (refused.value.query, refused.value.batch, refused.value.location) == ("q-two", 0, "/chk/one")
    assert (rows(table), table.version) == ([0, 1], 4)


@pytest.mark.parametrize("location", ["/chk/two", None])
def test_a_query_elsewhere_or_nowhere_is_another_stream(table: gl.TimeSeriesTable, location: str | None) -> None:
    send(table, ONE, 0, 1)
    assert send(table, Stream(query="q-two", location=location), 0, 1) == [True, True]
    assert rows(table) == [0, 0, 1, 1]


def test_a_query_without_a_location_is_not_that_of_another_without_one(table: gl.TimeSeriesTable) -> None:
    named = Stream(query="q-one", app_id="app")
    send(table, named, 0)
    assert send(table, Stream(query="q-two"), 0) == [True]


def test_a_query_that_failed_in_its_first_batch_stands_in_no_ones_way(table: gl.TimeSeriesTable) -> None:
    check_batch(target_of(table), ONE, 0)  # its trace, and then nothing
    assert send(table, ONE, 0) == [True]
    check_batch(target_of(table), Stream(query="q-two", location="/chk/two"), 0)
    assert send(table, Stream(query="q-three", location="/chk/two"), 0) == [True]


def test_a_first_batch_above_zero_is_refused_without_an_app_id(table: gl.TimeSeriesTable) -> None:
    with pytest.raises(StreamRestarted, match="batch 5 is the first that the table sees of query q-one"):
        send(table, ONE, 5)
    assert table.refresh().version == 1
    assert send(table, Stream(query="q-one", location="/chk/one", app_id="app"), 5, 6) == [True, True]


def test_batches_of_another_query_with_the_same_app_id_are_passed_over_and_said_once(table: gl.TimeSeriesTable) -> None:
    send(table, Stream(query="q-one", location="/chk/one", app_id="app"), 0, 1, 2)
    other = Stream(query="q-two", location="/chk/two", app_id="app")
    with pytest.warns(LogWarning, match=r"the batches up to 2 of app_id='app' already: 3 batches of query q-two \(0 to 2\)"):
        assert send(table, other, 0) == [False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert send(table, other, 1, 2, 3, 3) == [False, False, True, False]
    assert rows(table) == [0, 1, 2, 3]


def test_a_lost_checkpoint_goes_on_under_the_id_of_the_query_before(table: gl.TimeSeriesTable) -> None:
    send(table, ONE, 0, 1)
    again = Stream(query="q-two", location="/chk/one", app_id="q-one")
    with pytest.warns(LogWarning, match="2 batches of query q-two"):
        assert send(table, again, 0, 1, 2) == [False, False, True]
    with pytest.raises(StreamRestarted, match="query q-two wrote to the table under app_id='q-one', and comes without it"):
        send(table, Stream(query="q-two", location="/chk/one"), 2)
    assert rows(table) == [0, 1, 2]


def test_an_app_id_that_comes_later_does_not_add_the_last_batch_again(table: gl.TimeSeriesTable) -> None:
    send(table, ONE, 0, 1)
    named = Stream(query="q-one", location="/chk/one", app_id="app")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert send(table, named, 1, 2, 2) == [False, True, False]
    assert rows(table) == [0, 1, 2]


def test_another_app_id_does_not_add_a_batch_again(table: gl.TimeSeriesTable) -> None:
    one, other = (Stream(query="q-one", location="/chk/one", app_id=app) for app in ("one", "other"))
    assert send(table, one, 0, 1) == [True, True]
    for _ in range(2):
        with pytest.raises(
            StreamRestarted, match=r"query q-one comes as app_id='other', and it had app_id='one', .* batch 1\."
        ):
            send(table, other, 1)
    assert send(table, other, 2) == [True], "Spark had it that batch 1 is done"
    with pytest.raises(StreamRestarted, match="Pass app_id='other' again"):
        send(table, one, 2)
    assert rows(table) == [0, 1, 2]


def test_other_parts_of_a_batch_are_not_what_the_query_was_called(table: gl.TimeSeriesTable) -> None:
    names: list[str | None] = ["one", None, "two"]
    for _ in range(2):  # and again, after a crash
        parts: frozenset[str] = frozenset()
        for name in names:
            stream = Stream(query="q-one", location="/chk/one", app_id=name, parts=parts)
            send(table, stream, 0)
            parts |= {stream.app}
    assert rows(table) == [0, 0, 0]


def test_an_app_id_that_is_left_out_later_is_asked_for(table: gl.TimeSeriesTable) -> None:
    for location in (None, "/chk/one"):
        send(table, Stream(query=f"q {location}", location=location, app_id=f"app {location}"), 0)
        with pytest.raises(StreamRestarted, match=f"app_id='app {location}'"):
            send(table, Stream(query=f"q {location}", location=location), 0)
    assert rows(table) == [0, 0]


def test_a_restart_with_the_same_app_id_is_silent(table: gl.TimeSeriesTable) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for query in ("q-one", None):
            stream = Stream(query=query, app_id=f"app {query}")
            assert send(table, stream, 0, 1) == [True, True]
            assert send(table, stream, 1, 2) == [False, True]


@pytest.mark.parametrize("app", ["spark stream ", "spark stream one", "spark stream [1]", 'spark stream ["a", "q-one", null]'])
def test_an_app_id_may_look_like_a_trace(table: gl.TimeSeriesTable, app: str) -> None:
    assert send(table, Stream(query="q-two", location="/chk/two", app_id=app), 0) == [True]
    assert send(table, ONE, 0) == [True]
    with pytest.raises(StreamRestarted, match="Pass app_id='spark stream"):
        send(table, Stream(query="q-three", location="/chk/two"), 0)


@pytest.mark.parametrize("take", [append_outcomes, overwrite_outcomes])
def test_eo_04_a_commit_that_was_still_under_way_at_the_restart_is_found_before_ours(
    table: gl.TimeSeriesTable, take: Any
) -> None:
    pytest.importorskip("pyspark")
    send(table, ONE, 0)
    table.refresh()
    admitted = check_batch(target_of(table), ONE, 1)
    assert isinstance(admitted, Delivery), "the table does not know the batch yet"
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int64())})
    encoding = begin(table, batch.schema)
    outcome = encoding.outcome([batch])
    assert outcome.segments
    # What the killed driver had sent lands now.
    if take is append_outcomes:
        gl.open(table.url).append({"n": [1, 2]}, operation_id=(ONE.app, 1))
    else:
        gl.open(table.url).replace((None, None), {"n": [1, 2]}, operation_id=(ONE.app, 1))
    assert take(table, admitted, encoding, [outcome]).already_applied
    assert rows(table) == ([0, 1, 2] if take is append_outcomes else [1, 2])
    assert not any((Path(table.url) / segment.path).exists() for segment in outcome.segments)


def test_ids_outlive_checkpoints_of_the_log(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1, properties={"checkpoint_interval": 2})
    send(table, ONE, *range(10))
    assert send(gl.open(tmp_path / "t"), ONE, 9, 10) == [False, True]
    with pytest.raises(StreamRestarted, match="q-two is new"):
        send(table, Stream(query="q-two", location="/chk/one"), 0)
    assert rows(table) == list(range(11))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/chk", "/data/chk"),
        ("file:/data/chk", "/data/chk"),
        ("file:///data//x/../chk/", "/data/chk"),
        ("FILE:///data/chk", "/data/chk"),
        ("s3a://Bucket/chk/", "s3://Bucket/chk"),
        ("s3://Bucket/chk", "s3://Bucket/chk"),
        ("hdfs://host:9000/chk", "hdfs://host:9000/chk"),
        ("/data/a:b/chk", "/data/a:b/chk"),
        ("file:/tmp/temporary-1fde0f78-f10c-4bbf-b6a1-cd20c53eef89", None),
        ("/data/temporary-chk", "/data/temporary-chk"),
    ],
)
def test_one_place_has_one_name(text: str, expected: str | None) -> None:
    assert normal_location(text) == expected
