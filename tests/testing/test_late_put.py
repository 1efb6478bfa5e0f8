"""A put that lands once the log was cleaned past its number: no commit, though its file lies in the log."""

from __future__ import annotations

from random import Random

from gapless.formats.timeseries.actions import Commit
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.simulation.draw import DAY_S
from gapless.testing.simulation.timeline import SimClock, SimIds, Timeline
from gapless.testing.store.stores import DictStore

LOCATION = "memory://late-put"


def test_a_handle_that_lags_does_not_follow_a_late_put_on_a_cleaned_number() -> None:
    timeline = Timeline()
    store = DictStore(lambda: timeline.now_ns)

    def env(seed: int) -> Environment:
        return Environment(store=store, clock=SimClock(timeline), ids=SimIds(Random(seed)))

    create_table(env(0), LOCATION, parse_index("ts", "int64", 10, (), None), None, {"checkpoint_interval": 0})
    lagging = TimeSeriesTable(env(1), LOCATION, open_table(env(1), LOCATION))
    lagging.append({"ts": [1]})
    late = lagging.version + 1, timeline.now_ns
    busy = TimeSeriesTable(env(2), LOCATION, open_table(env(2), LOCATION))
    for at in (11, 21, 31):
        busy.append({"ts": [at]})
        timeline.pause(2 * DAY_S)
    busy.expire(keep_versions=1, clean_log=True)
    path = TIME_SERIES.path_of(late[0])
    assert path not in {info.path for info in store.list("_timeseries_log")}

    store.put(path, TIME_SERIES.encode(Commit(id="late", operation="append", actions=()), *late))
    report = lagging.append({"ts": [41]})
    assert report.version == busy.refresh().version == 7
    assert sorted(busy.scan().to_arrow()["ts"].to_pylist()) == [1, 11, 21, 31, 41]
    assert lagging.scan().to_arrow().num_rows == 5
