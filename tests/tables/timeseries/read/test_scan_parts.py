"""A scan plans the same segments whether the live ones lie in parts of a log checkpoint or not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import gapless as gl
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.predicate.plan import prune
from gapless.tables.timeseries.read.scan import ScanRequest
from gapless.testing.simulation.simulation import small_parts
from support.counting_store import open_counting

WHERES = [
    None, "day = DATE '2024-01-02'", "day > DATE '2024-01-03' OR site = 'b'", "site IN ('a', 'c') AND n BETWEEN 8 AND 40",
    "NOT (site = 'a')", "site LIKE 'b%' AND n < 30", "site IS NULL", "n IN (3, 33) OR ok", "n >= 10 AND x > 3", "NOT ok AND n < 20",
]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> gl.TimeSeriesTable:
    """Sixty segments of several identities and of one, the older ones in parts of four; opened from the checkpoint."""
    place = tmp_path_factory.mktemp("parts") / "t"
    with small_parts(4):
        made = gl.create(
            place, index="n", index_type="int64", bucket=1, entity=["site", "day", "ok"],
            properties={"checkpoint_interval": 20, "on_overlap": "allow"},
        )  # fmt: skip
        for n in range(60):
            row = {"n": n - n % 7, "site": "abc"[n % 3], "day": date(2024, 1, 1 + n % 5), "ok": n % 2 == 0, "x": n % 11}
            others = [{**row, "site": "b", "n": n}] if n % 4 == 0 else []
            made.append([row, *others])
        made.delete(start=20, end=25)
        return gl.open(place)


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("bounds", [(None, None), (10, 30), (59, None)])
def test_a_plan_is_that_of_a_look_at_every_segment(
    table: gl.TimeSeriesTable, where: str | None, bounds: tuple[int | None, int | None]
) -> None:
    state = table._snapshot.state
    assert TIME_SERIES.parts_version(table._snapshot) == 60
    assert state.meta.schema is not None
    request = ScanRequest(start=bounds[0], end=bounds[1], where=where, entity={}, columns=None, order=None)
    plan = request.plan(state)
    assert plan is not None
    planned = {segment.path for group in plan.groups for segment in group.segments}
    looked = prune(
        state.segments, request.predicate(state, state.meta.schema), state.meta.index, state.meta.schema, state.meta.ids
    )
    assert planned == {segment.path for segment in looked}


def test_a_bounded_scan_reads_few_parts(table: gl.TimeSeriesTable) -> None:
    found, store = open_counting(table.url)
    store.forget()
    rows = found.scan(start=40, end=43, entity={"site": "a"}).to_arrow()
    assert sorted(rows.column("n").to_pylist()) == sorted(
        row["n"] for row in table.scan().to_arrow().to_pylist() if 40 <= row["n"] < 43 and row["site"] == "a"
    )
    assert 1 <= len([path for path in store.reads if path.startswith("_log_parts/")]) <= 5
    assert len(list((Path(table.url) / "_log_parts").iterdir())) >= 12
