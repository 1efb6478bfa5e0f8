"""A group of appends that is checked and sorted as one says and stores what looking at each member would."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.tables.timeseries.write import group as grouping
from gapless.tables.timeseries.write import group as merged
from gapless.tables.timeseries.write.group import Member, append_group
from support.group_members import member

Rows = Sequence[tuple[int | None, str, float]]


def draw_rows(dice: random.Random, writer: int) -> Rows:
    """Rows of one append: mostly of buckets of its own, sometimes of another's, out of order, doubled, without a key, or none."""
    odd = dice.random()
    if odd < 0.03:
        return []
    home = writer if odd < 0.9 else dice.randrange(6)
    rows: list[tuple[int | None, str, float]] = [
        (home * 100 + dice.randrange(12), dice.choice("AB"), dice.random()) for _ in range(dice.randrange(1, 8))
    ]
    if 0.03 < odd < 0.06:
        rows.append((None, "A", 0.0))
    return rows


def make_table(name: str, properties: dict[str, Any]) -> gl.TimeSeriesTable:
    table = gl.create(f"memory://{name}", index="at", index_type="int64", bucket=5, entity="who", properties=properties)
    table.append({"at": pa.array([0, 1], pa.int64()), "who": ["A", "A"], "value": [0.0, 1.0]})
    return table


def members_of(table: gl.TimeSeriesTable, drawn: Sequence[tuple[Rows, object]], policy: Any) -> list[Member]:
    found = []
    for rows, operation in drawn:
        at, who, value = ([row[place] for row in rows] for place in range(3))
        columns = {"at": pa.array(at, pa.int64()), "who": pa.array(who, pa.string()), "value": pa.array(value, pa.float64())}
        found.append(member(table, columns, policy, operation))
    return found


def told(results: Sequence[object]) -> list[str]:
    """What each caller is told, less names that are drawn anew each time."""
    said = [repr(one) if isinstance(one, gl.AppendReport) else f"{type(one).__name__}: {one}" for one in results]
    return [re.sub(r"data/\S+\.parquet", "a segment", one) for one in said]


def contents(table: gl.TimeSeriesTable) -> tuple[object, ...]:
    fresh = gl.open(table.url)
    rows = (
        fresh.scan().to_arrow().sort_by([(name, "ascending") for name in ("at", "who", "value")])
    )  # segments have random names
    said = [(one.rows, one.bounds, dict(one.stats), one.coverage) for one in fresh.segments()]
    return rows.to_pylist(), said, fresh.version


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("policy", ["reject", "skip", "allow"])
def test_a_merged_group_equals_one_whose_members_are_looked_at_one_by_one(
    seed: int, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(f"{policy}{seed}")
    properties = {"unique": True} if dice.random() < 0.3 else {}
    groups = []
    for _ in range(3):
        drawn: list[tuple[Rows, object]] = []
        for writer in range(1, dice.randrange(3, 7)):
            name = ("app", dice.randrange(1, 9)) if dice.random() < 0.1 else f"job {dice.randrange(40)}"
            drawn.append((draw_rows(dice, writer), name if dice.random() < 0.3 else None))
        groups.append(drawn)
    fast, slow = (make_table(f"merged-{policy}-{seed}-{way}", properties) for way in ("fast", "slow"))
    merges: list[bool] = []
    real = merged.merge

    def counting(*args: Any) -> Any:
        found = real(*args)
        merges.append(found is not None)
        return found

    for drawn in groups:
        with monkeypatch.context() as patched:
            patched.setattr(grouping, "merge", counting)
            quick = told(append_group(lambda: fast._snapshot, members_of(fast, drawn, policy)))
        with monkeypatch.context() as patched:
            patched.setattr(grouping, "merge", lambda *_: None)
            careful = told(append_group(lambda: slow._snapshot, members_of(slow, drawn, policy)))
        assert quick == [one.replace(slow.url, fast.url) for one in careful]
    assert contents(fast) == contents(slow)
    _MERGED.append(any(merges))


_MERGED: list[bool] = []


def test_many_of_these_groups_were_merged() -> None:
    """Runs after the ones above, of which it counts how many took the fast way."""
    if _MERGED:
        assert sum(_MERGED) > len(_MERGED) // 5, f"{sum(_MERGED)} of {len(_MERGED)}"
