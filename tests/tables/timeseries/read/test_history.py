"""What a table tells of its commits, and of the difference between two of them."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, VersionNotFound
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.timeseries.lifecycle import open_table
from support.faulty_store import PatientClock
from support.hourly import SCHEMA, hours

_counter = itertools.count()


@pytest.fixture
def table() -> gl.TimeSeriesTable:
    """2: hours 0 and 1 of A; 3: hour 0 of B; 4: hour 1 of A is 5.0; 5: all rows in one segment."""
    table = gl.create(f"memory://history-{next(_counter)}", index="ts", entity="sym", bucket="1h")
    table.append(hours(0, 1))
    table.append(hours(0, sym="B"))
    table.upsert(hours(1, x=5.0))
    table.compact()
    return table


def test_history_counts_what_came_and_went(table: gl.TimeSeriesTable) -> None:
    told = [(e.version, e.operation, e.rows, e.segments, e.removed_rows, e.removed_segments) for e in table.history()]
    assert told == [
        (1, "create", 0, 0, 0, 0),
        (2, "append", 2, 1, 0, 0),
        (3, "append", 1, 1, 0, 0),
        (4, "upsert", 2, 1, 2, 1),
        (5, "compact", 3, 1, 3, 2),
    ]


def test_history_counts_bytes(table: gl.TimeSeriesTable) -> None:
    entries = table.history()
    live = {version: sum(s.size or 0 for s in table.at(version).segments()) for version in range(1, 6)}
    for before, entry in itertools.pairwise(entries):
        assert live[entry.version] == live[before.version] + (entry.bytes or 0) - (entry.removed_bytes or 0)
    assert (entries[-1].removed_bytes, entries[-1].bytes) == (live[4], live[5])


def test_a_part_of_the_history_is_that_part_of_all_of_it(table: gl.TimeSeriesTable) -> None:
    """What was removed was added by commits that are not read: the table's state knows of it."""
    whole = table.history()
    for limit in range(7):
        assert table.history(limit) == whole[max(0, 5 - limit) :]
    assert table.at(3).history() == whole[:3]
    with pytest.raises(InvalidOption, match="limit=-1"):
        table.history(-1)


def test_times_rise_and_the_ids_are_those_of_the_commits(table: gl.TimeSeriesTable) -> None:
    entries = table.history()
    assert [entry.time for entry in entries] == sorted({entry.time for entry in entries})
    assert len({entry.commit_id for entry in entries}) == 5
    assert {entry.engine for entry in entries} == {f"gapless/{gl.__version__}"}


def test_the_duration_is_from_the_call_to_the_commit() -> None:
    place = f"memory://history-{next(_counter)}"
    gl.create(place, index="ts", entity="sym", bucket="1h")
    clock = PatientClock()
    env = Environment(store=open_store(place, None), clock=clock)
    table = gl.TimeSeriesTable(env, place, open_table(env, place))

    def slow() -> Any:
        clock.now_s += 1.5
        yield from hours(0, 1).to_batches()

    table.append(pa.RecordBatchReader.from_batches(SCHEMA, slow()))
    table.tag("a")
    created, appended, tagged = gl.open(place).history()
    assert created.duration is None
    assert appended.duration == timedelta(seconds=1.5)
    assert tagged.duration == timedelta(0)


# -- differences -----------------------------------------------------------------------------------------------------------


def test_a_diff_counts_segments_and_rows(table: gl.TimeSeriesTable) -> None:
    found = table.diff(2, 4)
    assert (found.from_version, found.to_version) == (2, 4)
    assert [s.path for s in found.added] == [s.path for s in table.at(4).segments() if s not in table.at(2).segments()]
    assert [s.path for s in found.removed] == [s.path for s in table.at(2).segments()]
    assert (found.rows_before, found.rows_after, found.added_rows, found.removed_rows) == (2, 3, 3, 2)
    assert not found.schema
    assert found.properties == {}


def test_the_rows_of_a_diff_are_net(table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(1, x=6.0))
    table.upsert(hours(0, x=1.0))
    table.upsert(hours(0, x=0.0))
    told = [(r["sym"], r["ts"].hour, r["x"], r["_change_type"]) for r in table.diff(2).rows().to_arrow().to_pylist()]
    assert told == [("B", 0, 0.0, "insert"), ("A", 1, 0.0, "update_preimage"), ("A", 1, 6.0, "update_postimage")]


def test_a_diff_goes_either_way(table: gl.TimeSeriesTable) -> None:
    there, back = table.diff(2, 4), table.diff(4, 2)
    assert (there.added, there.removed) == (back.removed, back.added)
    opposite = {"insert": "delete", "update_preimage": "update_postimage", "update_postimage": "update_preimage"}
    kinds = [
        Counter((row.pop("_change_type"), repr(row)) for row in found.rows().to_arrow().to_pylist()) for found in (there, back)
    ]
    assert {(opposite[kind], row): times for (kind, row), times in kinds[0].items()} == dict(kinds[1])


def test_compaction_and_the_same_version_differ_in_no_row(table: gl.TimeSeriesTable) -> None:
    assert (table.diff(4, 5).rows().count(), len(table.diff(4, 5).added)) == (0, 1)
    same = table.diff(5)
    assert (same.added, same.removed, same.rows().count()) == ((), (), 0)


def test_columns_differ_by_what_they_are_and_not_by_their_names(table: gl.TimeSeriesTable) -> None:
    before = table.version
    table.add_column("n", pa.int32())
    table.rename_column("x", "value")
    table.widen_column("n", pa.int64())
    added = table.version
    found = table.diff(before).schema
    assert (found.added, found.dropped, found.renamed, found.retyped, found.reordered) == (
        ("n",),
        (),
        {"x": "value"},
        {},
        False,
    )
    table.drop_column("value")
    table.add_column("value", pa.int8())
    table.reorder_columns(["sym", "value", "ts", "n"])
    found = table.diff(added).schema
    assert (found.added, found.dropped, found.renamed, found.reordered) == (("value",), ("value",), {}, True)
    assert table.diff(before + 1, added).schema.retyped == {"n": (pa.int32(), pa.int64())}
    assert table.diff(before, before + 1).rows().count() == 0


def test_properties_that_differ_are_told(table: gl.TimeSeriesTable) -> None:
    table.set_properties({"on_overlap": "skip"})
    assert table.diff(5).properties == {"on_overlap": ("reject", "skip")}


def test_a_diff_of_no_version_is_an_error(table: gl.TimeSeriesTable) -> None:
    with pytest.raises(VersionNotFound):
        table.diff(0, 2)
    with pytest.raises(VersionNotFound):
        table.diff(2, 99)
