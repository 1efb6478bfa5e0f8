"""Whatever was done to a table: its change feed, replayed onto a bag of rows, gives every later version exactly, and says nothing twice."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.files.compare import row_diff
from gapless.predicate import plan

START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("sym", pa.string()),
        ("x", pa.float64()),
        ("tags", pa.list_(pa.struct([("k", pa.string()), ("v", pa.float32())]))),
    ]
)
_counter = itertools.count()

Act = Callable[[gl.TimeSeriesTable], object]

_numbers = st.sampled_from([None, 0.0, -0.0, 1.0, math.nan])
_tags = st.sampled_from([None, [], [{"k": "a", "v": None}], [{"k": "a", "v": math.nan}], [{"k": None, "v": -0.0}, None]])
_row = st.fixed_dictionaries({"at": st.integers(0, 11), "sym": st.sampled_from("AB"), "x": _numbers, "tags": _tags})
_rows = st.lists(_row, min_size=1, max_size=6)
_hours = st.tuples(st.integers(0, 11), st.integers(0, 11)).map(sorted)


def moment(at: int) -> datetime:
    return START + timedelta(minutes=20 * at)


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {"ts": [moment(row["at"]) for row in rows], **{name: [row[name] for row in rows] for name in SCHEMA.names[1:]}}
    return pa.table(columns, schema=SCHEMA)


def within(rows: list[dict[str, Any]], span: list[int]) -> list[dict[str, Any]]:
    return [row for row in rows if span[0] <= row["at"] <= span[1]]


def appending(rows: list[dict[str, Any]]) -> Act:
    return lambda table: table.append(to_table(rows), on_overlap="allow")


def upserting(rows: list[dict[str, Any]]) -> Act:
    return lambda table: table.upsert(to_table(rows), on_duplicate="last")


def replacing(rows: list[dict[str, Any]], span: list[int]) -> Act:
    ends = moment(span[0]), moment(span[1] + 1)
    return lambda table: table.replace(ends, to_table(within(rows, span)))


def deleting(span: list[int]) -> Act:
    return lambda table: table.delete(start=moment(span[0]), end=moment(span[1]))


def compacting() -> Act:
    return lambda table: table.compact(resort=True)


def restoring(share: float) -> Act:
    return lambda table: table.restore(2 + int(share * (table.version - 2)))


_acts = st.one_of(
    st.builds(appending, _rows),
    st.builds(upserting, _rows),
    st.builds(replacing, _rows, _hours),
    st.builds(deleting, _hours),
    st.builds(compacting),
    st.builds(restoring, st.floats(0, 1, exclude_max=True)),
)


def bag(rows: gl.Rows) -> Counter[str]:
    return Counter(map(repr, rows.to_arrow().to_pylist()))


def grouped(rows: gl.Rows) -> dict[int, list[tuple[str, str]]]:
    """(change, row) of each version."""
    found: dict[int, list[tuple[str, str]]] = {}
    for row in rows.to_arrow().to_pylist():
        version, kind, _ = (row.pop(name) for name in ("_commit_version", "_change_type", "_commit_timestamp"))
        found.setdefault(version, []).append((kind, repr(row)))
    return found


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_acts, min_size=2, max_size=6), st.booleans())
def test_cdc_04_replaying_the_feed_gives_every_version(acts: list[Act], small: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(plan, "SORT_BYTES", 300)
            patch.setattr(row_diff, "PIECE_ROWS", 2)
        table = gl.create(f"memory://feed-{next(_counter)}", index="ts", entity="sym", bucket="1h", schema=SCHEMA)
        table.append(to_table([{"at": 0, "sym": "A", "x": 1.0, "tags": None}]))
        for act in acts:
            act(table)
        versions = {version: bag(table.at(version).scan()) for version in range(1, table.version + 1)}
        feed = grouped(table.changes(1))
        held: Counter[str] = Counter()
        for version, rows in versions.items():
            before = held.copy()
            for kind, row in feed.get(version, []):
                held[row] += 1 if kind in ("insert", "update_postimage") else -1
                assert held[row] >= 0, "a row went that was not there"
            held = +held
            assert held == rows
            assert len(feed.get(version, [])) == ((rows - before) + (before - rows)).total(), "a change that another undoes"
        for first in range(2, table.version + 1):
            assert grouped(table.changes(first)) == {version: told for version, told in feed.items() if version >= first}
        net = Counter(dict.fromkeys(held, 0))
        net.update(versions[2])
        for changed in table.diff(2).rows().to_arrow().to_pylist():
            kind = changed.pop("_change_type")
            net[repr(changed)] += 1 if kind in ("insert", "update_postimage") else -1
        assert +net == held
