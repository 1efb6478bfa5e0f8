"""The change feed: which rows each version brought, took away and changed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidTime, UnknownColumn, VersionNotFound
from gapless.formats.timeseries.actions import Commit, ExpireVersions
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.effects import Conversation
from gapless.log.format import Compatible
from gapless.runtime.committer import Committer, Proposal
from support.clocked_table import Clocked, rows_at
from support.hourly import START, hours

_counter = itertools.count()


@pytest.fixture
def table() -> gl.TimeSeriesTable:
    """Version 2: hours 0 to 3 of A; version 3: hour 0 of B."""
    table = gl.create(f"memory://changes-{next(_counter)}", index="ts", entity="sym", bucket="1h")
    table.append(hours(0, 1, 2, 3))
    table.append(hours(0, sym="B"))
    return table


def told(rows: gl.Rows) -> list[tuple[Any, ...]]:
    """(version, change, entity, hour, value) of each row."""
    return [
        (r["_commit_version"], r["_change_type"], r["sym"], (r["ts"] - START) // timedelta(hours=1), r["x"])
        for r in rows.to_arrow().to_pylist()
    ]


def bits(table: gl.TableView, columns: list[str] | None = None) -> Counter[str]:
    return Counter(map(repr, table.scan(columns=columns).to_arrow().to_pylist()))


def replayed(before: Counter[str], rows: gl.Rows) -> Counter[str]:
    """The rows that a reader has who keeps a bag of rows and believes the feed."""
    bag = before.copy()
    for row in rows.to_arrow().to_pylist():
        kind = row.pop("_change_type")
        del row["_commit_version"], row["_commit_timestamp"]
        bag[repr(row)] += 1 if kind in ("insert", "update_postimage") else -1
        assert bag[repr(row)] >= 0, "took a row away that was not there"
    return +bag


def expire(table: gl.TimeSeriesTable, before: int) -> None:
    """As expiry commits it."""

    def check_conflict(mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit]]:
        yield from ()
        return Compatible(mine)

    commit = Commit(id=f"expire-{next(_counter)}", operation="expire", actions=(ExpireVersions(before),))
    committer = Committer(table_format=TIME_SERIES, env=table._env, moved=lambda _: None)
    committer.land(gl.open(table.url)._snapshot, lambda _: Proposal(commit=commit, check_conflict=check_conflict))


def test_appended_rows_are_inserts(table: gl.TimeSeriesTable) -> None:
    assert told(table.changes(2)) == [(2, "insert", "A", at, 0.0) for at in range(4)] + [(3, "insert", "B", 0, 0.0)]
    assert told(table.changes(1, 1)) == []
    assert told(table.changes(2, 2)) == told(table.changes(2))[:4]


def test_both_ends_of_a_range_are_inclusive(table: gl.TimeSeriesTable) -> None:
    assert [row[0] for row in told(table.changes(3, 3))] == [3]
    assert {row[0] for row in told(table.changes(1, 3))} == {2, 3}


def clocked() -> Clocked:
    """Versions 2 to 6, each with the row of one hour."""
    world = Clocked()
    for hour in range(5):
        world.table.append(rows_at(hour))
    return world


def values(rows: gl.Rows) -> list[float]:
    found: list[float] = rows.to_arrow().column("v").to_pylist()
    return found


def test_a_range_is_named_by_times() -> None:
    table = clocked().table
    times: list[Any] = [None, *(entry.time for entry in table.history())]
    us = timedelta(microseconds=1)
    assert values(table.changes(from_time=times[3], to_time=times[5])) == [1.0, 2.0, 3.0]
    assert values(table.changes(from_time=times[3] + us, to_time=times[5] - us)) == [2.0]
    assert values(table.changes(from_time=times[3] + us, to_time=times[4] - us)) == [], "none was committed between"
    assert values(table.changes(from_time=times[1] - timedelta(days=9))) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert values(table.changes(3, to_time=datetime(9000, 1, 1, tzinfo=UTC))) == [1.0, 2.0, 3.0, 4.0]
    assert values(table.changes(from_time=times[5], to_version=5)) == [3.0]
    assert values(table.changes(from_time=str(times[5]), to_time=pd.Timestamp(times[5]))) == [3.0]
    assert values(table.changes(from_time=times[6] + us)) == []
    assert values(table.at(3).changes(from_time=times[2])) == [0.0, 1.0], "to the version that the handle sees"
    assert values(table.at(3).changes(from_time=times[6])) == [], "of which that handle has seen nothing"


def test_times_of_a_range_are_refused_that_say_none() -> None:
    table = clocked().table
    times: list[Any] = [None, *(entry.time for entry in table.history())]
    with pytest.raises(InvalidTime, match=r"to_time='.*' is before the table's first commit"):
        table.changes(1, to_time=times[1] - timedelta(microseconds=1))
    with pytest.raises(InvalidOption, match="begin after version 3"):
        table.changes(from_time=times[5], to_time=times[3])
    with pytest.raises(InvalidOption, match="begin after version 3"):
        table.changes(from_time=times[5], to_version=3)
    for wrong in ("2026-01-09T12:00:00", datetime(2026, 1, 9), date(2026, 1, 9), 5, pd.NaT, np.array([1, 2])):
        with pytest.raises(InvalidTime, match="from_time"):
            table.changes(from_time=wrong)
        with pytest.raises(InvalidTime, match="to_time"):
            table.changes(1, to_time=wrong)
    twice: list[dict[str, Any]] = [
        {},
        {"to_version": 2},
        {"from_version": 1, "from_time": times[1]},
        {"from_version": 1, "to_version": 2, "to_time": times[3]},
    ]
    for given in twice:
        with pytest.raises(InvalidOption, match=r"no beginning|two beginnings|two ends"):
            table.changes(**given)


def test_a_time_from_which_expired_versions_may_have_come_is_refused() -> None:
    """Version 4 is the earliest that is kept: who asks for all since before it may not be told the later ones alone."""
    table = clocked().table
    times: list[Any] = [None, *(entry.time for entry in table.history())]
    us = timedelta(microseconds=1)
    table.expire(keep_versions=4)
    assert table._snapshot.state.earliest == 4
    assert values(table.changes(from_time=times[4])) == [2.0, 3.0, 4.0]
    assert values(table.changes(from_time=times[4] + us)) == [3.0, 4.0]
    for early in (times[4] - us, times[3], times[2], times[1] - timedelta(days=1)):
        with pytest.raises(
            VersionNotFound, match=r"Versions before 4, .* are expired; .* begins with version 4\. Ask from"
        ) as refused:
            table.changes(from_time=early)
        assert refused.value.version == 4
        with pytest.raises(VersionNotFound, match=r"can be read no longer.* Pass to_time="):
            table.changes(4, to_time=early)


def test_the_columns_of_the_feed(table: gl.TimeSeriesTable) -> None:
    rows = table.changes(1)
    ours = [("_change_type", pa.string()), ("_commit_version", pa.int64()), ("_commit_timestamp", pa.timestamp("us", "UTC"))]
    assert [(field.name, field.type) for field in rows.schema][-3:] == ours
    assert pa.schema(list(rows.schema)[:-3]).equals(table.schema)
    times = {entry.version: entry.time for entry in table.history()}
    for row in rows.to_arrow().to_pylist():
        assert row["_commit_timestamp"] == times[row["_commit_version"]]


def test_an_upsert_is_told_as_it_changed_rows(table: gl.TimeSeriesTable) -> None:
    table.upsert(pa.concat_tables([hours(1, x=5.0), hours(9, x=6.0)]))
    assert told(table.changes(4)) == [
        (4, "update_preimage", "A", 1, 0.0),
        (4, "update_postimage", "A", 1, 5.0),
        (4, "insert", "A", 9, 6.0),
    ]


def test_cdc_02_an_upsert_that_changes_nothing_is_no_change(table: gl.TimeSeriesTable) -> None:
    table.append(pa.concat_tables([hours(20, x=math.nan), hours(21, x=None), hours(22, x=1.0)]))
    table.upsert(pa.concat_tables([hours(20, x=math.nan), hours(21, x=None), hours(22, x=2.0)]))
    assert told(table.changes(5)) == [(5, "update_preimage", "A", 22, 1.0), (5, "update_postimage", "A", 22, 2.0)]
    report = table.upsert(pa.concat_tables([hours(20, x=math.nan), hours(21, x=None)]))
    assert (report.version, report.rows, table.version) == (5, 0, 5)


def test_a_delete_is_told(table: gl.TimeSeriesTable) -> None:
    table.delete(start=START + timedelta(hours=1), end=START + timedelta(hours=3))
    assert told(table.changes(4)) == [(4, "delete", "A", 1, 0.0), (4, "delete", "A", 2, 0.0)]
    table.delete(entity={"sym": "B"})
    assert told(table.changes(5)) == [(5, "delete", "B", 0, 0.0)]


def test_cdc_04_an_overwrite_tells_the_rows_that_went(table: gl.TimeSeriesTable) -> None:
    span = (START, START + timedelta(hours=4))
    table.replace(span, pa.concat_tables([hours(2, x=0.0), hours(3, x=4.0)]), entity={"sym": "A"})
    assert told(table.changes(4)) == [
        (4, "delete", "A", 0, 0.0),
        (4, "delete", "A", 1, 0.0),
        (4, "update_preimage", "A", 3, 0.0),
        (4, "update_postimage", "A", 3, 4.0),
    ]
    table.delete(where="x = 4")
    assert told(table.changes(5)) == [(5, "delete", "A", 3, 4.0)]
    for first, last in itertools.combinations_with_replacement(range(2, 6), 2):
        assert replayed(bits(table.at(first - 1)), table.changes(first, last)) == bits(table.at(last))


def test_compaction_yields_nothing(table: gl.TimeSeriesTable) -> None:
    for at in range(10, 14):
        table.append(hours(at))
    before = table.version
    table.compact()
    assert table.version > before
    assert told(table.changes(before + 1)) == []


def test_a_correction_of_compacted_rows_is_told(table: gl.TimeSeriesTable) -> None:
    """The removed segment is one that compaction made, which no commit of the range added with new rows."""
    table.compact()
    compacted = table.version
    table.upsert(hours(2, x=7.0))
    assert told(table.changes(compacted, table.version)) == [
        (table.version, "update_preimage", "A", 2, 0.0),
        (table.version, "update_postimage", "A", 2, 7.0),
    ]


def test_a_restore_tells_only_what_differs(table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(1, x=5.0))
    table.restore(3)
    assert told(table.changes(5)) == [(5, "update_preimage", "A", 1, 5.0), (5, "update_postimage", "A", 1, 0.0)]


def test_many_segments_are_compared_window_by_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several overlapping segments on each side, cut into windows and pieces far smaller than they are."""
    monkeypatch.setattr("gapless.predicate.plan.SORT_BYTES", 4_000)
    monkeypatch.setattr("gapless.files.compare.row_diff.PIECE_ROWS", 7)
    table = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h")
    for sym in "ABC":
        table.append(hours(*range(200), sym=sym))
    table.append(pa.concat_tables([hours(*range(200), sym=sym) for sym in "DE"]))
    before = bits(table)
    table.upsert(pa.concat_tables([hours(*range(0, 200, 50), sym=sym, x=1.0) for sym in "ABCDE"]))
    feed = table.changes(table.version)
    assert Counter(change for _, change, *_ in told(feed)) == {"update_preimage": 20, "update_postimage": 20}
    assert replayed(before, feed) == bits(table)


def test_columns_are_given_back_as_asked_for(table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(1, x=5.0))
    rows = table.changes(4, columns=["x"]).to_arrow()
    assert rows.column_names == ["x", "_change_type", "_commit_version", "_commit_timestamp"]
    assert rows["x"].to_pylist() == [0.0, 5.0]
    assert table.changes(4, columns=["sym"]).count() == 2
    with pytest.raises(UnknownColumn, match="there is no column 'y'"):
        table.changes(4, columns=["y"])


def test_a_table_that_has_a_column_of_that_name_is_read_without_it() -> None:
    table = gl.create(f"memory://changes-{next(_counter)}", index="ts", bucket="1h")
    table.append({"ts": [START], "_change_type": ["mine"]})
    with pytest.raises(InvalidOption, match="'_change_type' of its own"):
        table.changes(1)
    assert table.changes(1, columns=["ts"]).to_arrow()["_change_type"].to_pylist() == ["insert"]


def test_a_reader_that_has_seen_all_asks_for_the_next_version(table: gl.TimeSeriesTable) -> None:
    assert table.changes(4).to_arrow().num_rows == 0
    with pytest.raises(VersionNotFound, match="The table has versions 1 to 3"):
        table.changes(5)
    with pytest.raises(VersionNotFound):
        table.changes(2, 4)
    with pytest.raises(VersionNotFound):
        table.changes(0)
    with pytest.raises(InvalidOption, match="begin after version 1"):
        table.changes(3, 1)


def test_the_feed_ends_where_the_handle_is_unless_asked_for_more(table: gl.TimeSeriesTable) -> None:
    lagging = gl.open(table.url)
    table.append(hours(30))
    assert {row[0] for row in told(lagging.changes(1))} == {2, 3}
    assert {row[0] for row in told(lagging.changes(1, 4))} == {2, 3, 4}


def test_the_feed_is_read_anew_each_time_and_as_of_then(table: gl.TimeSeriesTable) -> None:
    feed = table.changes(1)
    first = told(feed)
    table.delete(where="x = 0")
    assert told(feed) == first


def test_a_table_without_columns_has_no_changes() -> None:
    table = gl.create(f"memory://changes-{next(_counter)}", index="ts", bucket="1h")
    feed = table.changes(1)
    assert (feed.count(), feed.schema.names) == (0, ["_change_type", "_commit_version", "_commit_timestamp"])


# -- columns that changed ------------------------------------------------------------------------------------------------


def test_older_rows_come_under_the_columns_of_the_last_version(table: gl.TimeSeriesTable) -> None:
    table.add_column("note", pa.string(), default="old")
    table.rename_column("x", "value")
    table.append(pa.table({"ts": [START + timedelta(hours=40)], "sym": ["A"], "value": [1.0], "note": ["new"]}))
    rows = table.changes(1).to_arrow()
    assert rows.schema.names[:4] == ["ts", "sym", "value", "note"]
    assert rows["note"].to_pylist() == ["old"] * 5 + ["new"]
    assert replayed(Counter(), table.changes(1)) == bits(table)
    assert table.changes(1, 3).schema.names[:3] == ["ts", "sym", "x"]


def test_dropped_columns_are_gone_and_with_them_their_changes(table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(1, x=5.0))
    table.drop_column("x")
    table.add_column("x", pa.int64())
    rows = table.changes(1).to_arrow()
    assert Counter(rows["_change_type"].to_pylist()) == {"insert": 5}
    assert rows["x"].null_count == 5


def test_a_range_across_a_restore_to_narrower_columns_is_told_in_the_wider() -> None:
    table = gl.create(f"memory://changes-{next(_counter)}", index="ts", bucket="1h")
    table.append(pa.table({"ts": [START], "n": pa.array([1], pa.int32())}))
    table.widen_column("n", pa.int64())
    table.append(pa.table({"ts": [START + timedelta(hours=1)], "n": pa.array([2**40], pa.int64())}))
    table.restore(2)
    assert table.schema is not None
    assert table.schema.field("n").type == pa.int32()
    rows = table.changes(2).to_arrow()
    assert rows.schema.field("n").type == pa.int64()
    assert [(r["n"], r["_change_type"]) for r in rows.to_pylist()] == [(1, "insert"), (2**40, "insert"), (2**40, "delete")]
    table.restore(1)
    assert table.changes(6).to_arrow()["n"].to_pylist() == [1]


def test_after_such_a_restore_the_feed_goes_on_with_the_newest_columns() -> None:
    table = gl.create(f"memory://changes-{next(_counter)}", index="ts", bucket="1h")
    nested = pa.list_(pa.struct([("k", pa.int32())]))
    table.append(pa.table({"ts": [START], "n": pa.array([[{"k": 1}]], nested), "y": ["old"]}))
    table.rename_column("n.element.k", "key")
    table.widen_column("n.element.key", pa.int64())
    table.drop_column("y")
    table.restore(2)
    table.add_column("extra", pa.string())
    table.append(
        pa.table({"ts": [START + timedelta(hours=1)], "n": pa.array([[{"k": 2}]], nested), "y": ["new"], "extra": ["e"]})
    )
    rows = table.changes(1)
    assert rows.schema.names[:4] == ["ts", "n", "y", "extra"]
    assert rows.schema.field("n").type == pa.list_(pa.struct([("k", pa.int64())]))
    assert [(row["n"], row["y"], row["extra"]) for row in rows.to_arrow().to_pylist()] == [
        ([{"k": 1}], "old", None),
        ([{"k": 2}], "new", "e"),
    ]


def test_a_column_that_went_two_ways_is_refused_and_not_called_damage() -> None:
    table = gl.create(f"memory://changes-{next(_counter)}", index="ts", bucket="1h")
    table.append(pa.table({"ts": [START], "n": pa.array([1], pa.int32())}))
    table.widen_column("n", pa.int64())
    table.append(pa.table({"ts": [START + timedelta(hours=1)], "n": pa.array([2**60 + 1], pa.int64())}))
    table.restore(2)
    table.widen_column("n", pa.float64())
    table.append(pa.table({"ts": [START + timedelta(hours=2)], "n": [1.5]}))
    difference = table.diff(4)
    assert difference.schema.retyped == {"n": (pa.int64(), pa.float64())}
    two_ways = "column 'n' is double in one of these versions and was int64 in another"
    with pytest.raises(InvalidOption, match=two_ways):
        table.changes(1)
    with pytest.raises(InvalidOption, match=two_ways):
        difference.rows()
    assert [row["n"] for row in table.changes(7).to_arrow().to_pylist()] == [1.5]


# -- what is there no more -----------------------------------------------------------------------------------------------


def test_maint_04_an_expired_range_says_what_remains(table: gl.TimeSeriesTable) -> None:
    table.append(hours(30))
    table.tag("kept", 2)
    expire(table, before=4)
    with pytest.raises(VersionNotFound, match=r"Versions before 4 are expired.*begins with version 4.*'kept' \(2\)") as caught:
        gl.open(table.url).changes(3)
    assert "Read version 4 whole, and ask for changes from version 5 on" in str(caught.value)
    assert [row[0] for row in told(table.changes(4))] == [4]


def test_the_first_kept_version_is_told_only_without_rows_of_the_one_before(table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(1, x=5.0))
    table.append(hours(30))
    expire(table, before=4)
    with pytest.raises(VersionNotFound, match=r"what version 4 changed can be told no longer.*rows of version 3"):
        table.changes(4)
    assert told(table.changes(5)) == [(5, "insert", "A", 30, 0.0)]


def test_a_cleaned_log_says_where_the_feed_begins(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h", properties={"checkpoint_interval": 4})
    for at in range(6):
        table.append(hours(at))
    for version in range(1, 5):
        (tmp_path / "t" / "_timeseries_log" / f"{version:010d}.json").unlink()
    with pytest.raises(VersionNotFound, match=r"begins with version 5 now.*Ask from version 5 on, and read version 4 whole"):
        gl.open(tmp_path / "t").changes(3)
    assert {row[0] for row in told(gl.open(tmp_path / "t").changes(5))} == {5, 6, 7}
