"""What becomes of the answers of executors, which are played here: no Spark runs."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CommitConflict, CoverageOverlap, DuplicateKey, InvalidValue, OperationReused
from gapless.model.operation import JobId, SequenceId
from gapless.model.properties import OnOverlap
from gapless.runtime.committer import Committer
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.spark.writing.staging import append_outcomes, begin, find_applied_write, overwrite_outcomes
from gapless.spark.writing.target import Delivery
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable

GIVEN = pa.schema([("n", pa.int64()), ("s", pa.string()), ("v", pa.int64())])


@pytest.fixture(autouse=True)
def _pyspark(require: Callable[[object, str], None]) -> None:
    require(find_spec("pyspark"), "pyspark is not installed: pip install 'gapless[spark]'")


@pytest.fixture
def table(tmp_path: Path) -> TimeSeriesTable:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10, entity=["s"])
    table.append({"n": [0, 15], "s": ["a", "a"], "v": [1, 2]})
    return table


def batch(*rows: tuple[int, str, int]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.record_batch(
        [pa.array(list(column), field.type) for column, field in zip(columns, GIVEN, strict=True)], schema=GIVEN
    )


def played(encoding: Encoding, *partitions: pa.RecordBatch) -> list[Outcome]:
    """Each partition's answer, as it comes back through pickles."""
    there: Encoding = pickle.loads(pickle.dumps(encoding))
    return [pickle.loads(pickle.dumps(there.outcome([one]))) for one in partitions]


def rows_of(table: TableView) -> list[tuple[object, ...]]:
    if isinstance(table, TimeSeriesTable):
        table.refresh()
    return [tuple(row.values()) for row in table.scan().to_arrow().sort_by("n").to_pylist()]


def files_of(table: TimeSeriesTable) -> set[str]:
    return {path.name for path in (Path(table.url.removeprefix("file://")) / "data").iterdir()}


def test_another_handle_commits_what_executors_wrote(table: TimeSeriesTable) -> None:
    outcomes = played(begin(table, GIVEN), batch((20, "a", 3)), batch((25, "b", 4), (20, "b", 5)), batch())
    fresh = gl.open(table.url)
    report = append_outcomes(fresh, Delivery(), begin(table, GIVEN), outcomes)
    assert (report.rows, report.segments, report.buckets, report.version) == (3, 2, 2, 3)
    assert rows_of(table) == [(0, "a", 1), (15, "a", 2), (20, "a", 3), (20, "b", 5), (25, "b", 4)]
    assert table.verify(deep=True).ok


@pytest.mark.parametrize("finish", [append_outcomes, overwrite_outcomes])
def test_a_column_renamed_meanwhile_has_the_rows_values_and_not_the_one_that_took_its_name(
    table: TimeSeriesTable, finish: Callable[..., object]
) -> None:
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((20, "a", 3)))
    gl.open(table.url).rename_column("v", "w")
    gl.open(table.url).add_column("v", "string")
    before = files_of(table)
    finish(table, Delivery(), encoding, outcomes)
    kept = [(0, "a", 1, None), (15, "a", 2, None)] if finish is append_outcomes else []
    assert rows_of(table) == [*kept, (20, "a", 3, None)]
    assert len(files_of(table)) == len(before)  # staged anew under the stored name, and nothing is left of the first try
    assert table.verify(deep=True).ok


def test_a_column_added_meanwhile_is_null_in_the_rows(table: TimeSeriesTable) -> None:
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((20, "a", 3)))
    gl.open(table.url).add_column("more", "string")
    assert append_outcomes(table, Delivery(), encoding, outcomes).rows == 1
    assert rows_of(table)[-1] == (20, "a", 3, None)


@pytest.mark.parametrize("finish", [append_outcomes, overwrite_outcomes])
@pytest.mark.parametrize("change", ["drop", "rename"])
def test_a_column_that_the_rows_lack_may_go_meanwhile(
    table: TimeSeriesTable, change: str, finish: Callable[..., object]
) -> None:
    table.add_column("more", "string", default="x")
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((20, "a", 3)))
    other = gl.open(table.url)
    _ = other.drop_column("more") if change == "drop" else other.rename_column("more", "other")
    finish(table, Delivery(), encoding, outcomes)
    assert rows_of(table)[-1] == ((20, "a", 3) if change == "drop" else (20, "a", 3, "x"))
    assert table.schema is not None
    assert table.schema.names[3:] == ([] if change == "drop" else ["other"])
    assert table.verify(deep=True).ok


def test_what_a_partition_refuses_leaves_nothing_of_the_others(table: TimeSeriesTable) -> None:
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("v", pa.uint8())])
    small = gl.create(
        Path(table.url.removeprefix("file://")).parent / "small",
        index="n",
        index_type="int64",
        bucket=10,
        entity=["s"],
        schema=schema,
    )
    given = pa.schema([("n", pa.int64()), ("s", pa.string()), ("v", pa.int16())])
    encoding = begin(small, given)
    right, wrong = (pa.record_batch([[1], ["a"], pa.array([value], pa.int16())], schema=given) for value in (1, 300))
    outcomes = played(encoding, right, wrong)
    with pytest.raises(InvalidValue, match="300"):
        append_outcomes(small, Delivery(), encoding, outcomes)
    assert (files_of(small), small.refresh().version) == (set(), 1)


@pytest.mark.parametrize("operation", [SequenceId("app", 7), JobId("job")])
def test_an_operation_is_applied_once(table: TimeSeriesTable, operation: SequenceId | JobId) -> None:
    delivery = Delivery(operation=operation, on_overlap="allow")
    assert find_applied_write(table, delivery) is None
    encoding = begin(table, GIVEN)
    first, second = (played(encoding, batch((20, "a", 3))) for _ in range(2))
    report = append_outcomes(table, delivery, encoding, first)
    again = append_outcomes(gl.open(table.url), delivery, encoding, second)
    assert (report.version, again.version, again.rows, again.already_applied) == (3, 3, 1, True)
    assert len(files_of(table)) == 2, "what was written for nothing is gone"
    known = find_applied_write(table, delivery)
    assert known is not None
    assert known.already_applied
    with pytest.raises(OperationReused):
        overwrite_outcomes(table, delivery, encoding, played(encoding, batch((90, "a", 9))))
    assert len(rows_of(table)) == 3
    assert len(files_of(table)) == 2


@pytest.mark.parametrize("finish", [append_outcomes, overwrite_outcomes])
def test_the_same_answers_committed_again_are_not_taken_away(
    table: TimeSeriesTable, finish: Callable[..., gl.AppendReport | gl.ChangeReport]
) -> None:
    delivery = Delivery(operation=JobId("job"))
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((20, "a", 3)))
    first, again = (finish(gl.open(table.url), delivery, encoding, outcomes) for _ in range(2))
    assert (again.version, again.rows, again.already_applied) == (first.version, 1, True)
    assert (20, "a", 3) in rows_of(table)
    assert table.verify(deep=True).ok


@pytest.mark.parametrize("racing", [True, False])
@pytest.mark.parametrize("operation", [JobId("job"), None])
@pytest.mark.parametrize(
    ("finish", "policy"), [(append_outcomes, "reject"), (append_outcomes, "skip"), (overwrite_outcomes, None)]
)
def test_answers_that_another_call_committed_leave_their_files_live(
    table: TimeSeriesTable,
    monkeypatch: pytest.MonkeyPatch,
    finish: Callable[..., object],
    policy: OnOverlap | None,
    operation: JobId | None,
    racing: bool,
) -> None:
    delivery = Delivery(operation=operation, on_overlap=policy)
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((20, "a", 3)))

    def elsewhere() -> None:
        monkeypatch.undo()
        finish(gl.open(table.url), delivery, encoding, outcomes)

    if racing:
        commit = Committer.commit

        def late(self: Any, *arguments: Any) -> Any:
            elsewhere()
            return commit(self, *arguments)

        monkeypatch.setattr(Committer, "commit", late)
    else:
        elsewhere()
    with contextlib.suppress(gl.ConflictError):
        finish(gl.open(table.url), delivery, encoding, outcomes)
    table.refresh()
    assert rows_of(table).count((20, "a", 3)) == 1
    assert table.verify(deep=True).ok


def test_rows_that_meet_others_are_judged_as_an_append_judges_them(
    table: TimeSeriesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoding = begin(table, GIVEN)
    met = batch((5, "a", 3), (25, "a", 4))
    outcomes = played(encoding, met)
    with monkeypatch.context() as patched:
        # That rows are refused shows in what executors said of them.
        patched.setattr("gapless.tables.timeseries.write.staged_append.read_staged", None)
        with pytest.raises(CoverageOverlap, match=r"already covers \[0, 10\) for s='a'"):
            append_outcomes(table, Delivery(), encoding, outcomes)
    assert len(files_of(table)) == 1
    report = append_outcomes(table, Delivery(on_overlap="skip"), encoding, played(encoding, met))
    assert (report.rows, report.skipped_rows) == (1, 1)
    report = append_outcomes(table, Delivery(on_overlap="replace"), encoding, played(encoding, batch((5, "a", 6))))
    assert (report.rows, report.removed_rows) == (1, 1)
    assert rows_of(table) == [(5, "a", 6), (15, "a", 2), (25, "a", 4)]


# -- overwriting -------------------------------------------------------------------------------------------------------


def test_all_rows_give_way(table: TimeSeriesTable) -> None:
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((1, "b", 8)), batch((2, "b", 9)))
    other = gl.open(table.url)
    other.append({"n": [77], "s": ["z"], "v": [0]})
    report = overwrite_outcomes(table, Delivery(operation=SequenceId("q", 0)), encoding, outcomes)
    assert (report.rows, report.removed_rows, report.removed_segments, report.buckets) == (2, 3, 2, 1)
    assert rows_of(table) == [(1, "b", 8), (2, "b", 9)]
    assert table.coverage().covered == 1
    assert table.verify(deep=True).ok
    assert [row["_change_type"] for row in table.changes(report.version).to_arrow().to_pylist()].count("delete") == 3
    assert rows_of(table.at(2)) == [(0, "a", 1), (15, "a", 2)]


def test_no_rows_empty_the_table(table: TimeSeriesTable) -> None:
    encoding = begin(table, GIVEN)
    report = overwrite_outcomes(table, Delivery(), encoding, played(encoding, batch()))
    assert (report.rows, report.removed_rows) == (0, 2)
    assert rows_of(table) == []
    again = overwrite_outcomes(table, Delivery(), encoding, played(encoding, batch()))
    assert again.version == report.version, "there is nothing to change"


class Meanwhile:
    """Something that happens once, right before a commit is tried."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
        from gapless.runtime.committer import Committer

        real, left = Committer.commit, [happens]

        def commit(*arguments: object) -> object:
            if left:
                left.pop()()
            return real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Committer, "commit", commit)


def test_what_is_committed_at_the_last_moment_gives_way_too(table: TimeSeriesTable, monkeypatch: pytest.MonkeyPatch) -> None:
    other = gl.open(table.url)
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((1, "b", 8)))
    Meanwhile(monkeypatch, lambda: other.append({"n": [77], "s": ["z"], "v": [0]}))
    report = overwrite_outcomes(table, Delivery(), encoding, outcomes)
    assert (report.removed_rows, report.version) == (3, 4)
    assert rows_of(table) == [(1, "b", 8)]
    assert table.verify(deep=True).ok


@pytest.mark.parametrize("change", ["column", "unique"])
def test_a_table_that_asks_for_more_at_the_last_moment_is_not_overwritten(
    table: TimeSeriesTable, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    other = gl.open(table.url)
    encoding = begin(table, GIVEN)
    outcomes = played(encoding, batch((1, "b", 8)))
    changes: dict[str, Callable[[], object]] = {
        "column": lambda: other.add_column("more", "string"),
        "unique": lambda: other.set_properties({"unique": True}),
    }
    Meanwhile(monkeypatch, changes[change])
    with pytest.raises(CommitConflict):
        overwrite_outcomes(table, Delivery(), encoding, outcomes)
    assert len(rows_of(table)) == 2
    assert len(files_of(table)) == 1


def test_a_unique_table_is_overwritten_by_distinct_keys_alone(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "u", index="n", index_type="int64", bucket=10, entity=["s"], properties={"unique": True})
    table.append({"n": [0], "s": ["a"], "v": [1]})
    encoding = begin(table, GIVEN)
    with pytest.raises(DuplicateKey):
        overwrite_outcomes(table, Delivery(), encoding, played(encoding, batch((1, "a", 1)), batch((1, "a", 2))))
    assert rows_of(table) == [(0, "a", 1)]
    report = overwrite_outcomes(table, Delivery(), encoding, played(encoding, batch((0, "a", 2)), batch((1, "a", 2))))
    assert (report.rows, report.removed_rows) == (2, 1)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_batch_of_a_stream_committed_again_by_the_same_messages_stays(table: TimeSeriesTable, overwrite: bool) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from gapless.spark.setup.options import parse_options
    from gapless.spark.stream.sink import StreamWriter

    columns = StructType([StructField("n", LongType()), StructField("s", StringType()), StructField("v", LongType())])
    sink = StreamWriter(parse_options({"path": table.url, "appId": "q"}, "stream write"), columns, overwrite)
    messages = [sink.write(iter([batch((20, "a", 3))])), None]
    for _ in range(2):
        sink.commit(messages, 0)
    assert rows_of(table)[-1] == (20, "a", 3)
    assert len(rows_of(table)) == (1 if overwrite else 3)
    assert table.verify(deep=True).ok
