"""Pipelines in SQL, run on Spark: what is in the tables afterwards, read by gapless itself, which Spark has no part in."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import CommitConflict, InvalidPipeline, PipelineFailed
from gapless.pipelines.pipeline import PipelineHandle
from gapless.pipelines.run.state import PipelineState

START = datetime(2026, 1, 5, tzinfo=UTC)
EVENTS = """CREATE SOURCE events (id BIGINT NOT NULL, ts TIMESTAMP, site STRING, v DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '10 minutes') WITH (type='json', location='{root}/in');"""

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def send(root: Path, name: str, ids: range, **more: object) -> None:
    rows = [
        {
            "id": one,
            "ts": (START + timedelta(hours=one)).isoformat(),
            "site": "north" if one % 2 else "south",
            "v": one * 1.5,
            **more,
        }
        for one in ids
    ]
    (root / f".{name}").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (root / f".{name}").rename(root / "in" / name)


def made(root: Path, sql: str, name: str = "p") -> PipelineHandle:
    return gl.pipeline(sql=(EVENTS + sql).format(root=root), name=name, checkpoints=str(root / "checkpoints"))


def column(root: Path, table: str, name: str) -> list[Any]:
    return sorted(gl.open(root / table).scan().to_arrow().column(name).to_pylist())


AIR = "CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', entity='site', bucket='1h') AS SELECT id, ts, site, v FROM events WHERE v > 3;"


def test_rows_come_once_through_views_into_several_sinks(spark: Any, root: Path) -> None:
    sql = (
        "CREATE VIEW big AS SELECT * FROM events WHERE v > 3;"
        + AIR.replace("FROM events WHERE v > 3", "FROM big")
        + "CREATE SINK twice WITH (type='timeseries', location='{root}/twice', index='ts', bucket='1h')"
        " AS SELECT id * 2 AS double_id, ts FROM big WHERE site = 'north';"
        "CREATE SINK hours WITH (type='timeseries', location='{root}/hours', index='hour', bucket='2h')"
        " AS SELECT window(ts, '2 hours').start AS hour, count(*) AS n FROM events GROUP BY window(ts, '2 hours');"
        "CREATE SINK sites WITH (type='timeseries', location='{root}/sites', index='newest', bucket='1h')"
        " AS SELECT max(ts) AS newest, site, count(*) AS n FROM events GROUP BY site;"
    )
    send(root, "a.json", range(10))
    pipeline = made(root, sql)
    plans = {plan.sink.name: (plan.kind, plan.mode) for plan in pipeline.plan(spark)}
    assert plans == {
        "air": ("shared", "append"),
        "twice": ("shared", "append"),
        "hours": ("own", "append"),
        "sites": ("own", "complete"),
    }
    report = pipeline.run(spark)
    assert {name: one.rows for name, one in report.sinks.items()} == dict.fromkeys(plans, 10)
    assert column(root, "air", "id") == [3, 4, 5, 6, 7, 8, 9]
    send(root, "b.json", range(10, 30))
    made(root, sql).run(spark)
    made(root, sql).run(spark)
    assert column(root, "air", "id") == list(range(3, 30))
    assert column(root, "twice", "double_id") == [2 * one for one in range(3, 30) if one % 2]
    # The watermark is 10 minutes before the newest row, so the last window is still open.
    assert column(root, "hours", "n") == [2] * 14
    assert column(root, "sites", "n") == [15, 15]
    assert gl.open(root / "sites").scan().count() == 2


def test_a_change_feed_is_filtered_by_its_change_type(spark: Any, root: Path) -> None:
    feed = gl.create(root / "feed", index="ts", bucket="1h")
    feed.append([{"ts": START + timedelta(hours=one), "k": one, "v": 0} for one in range(4)])
    feed.upsert([{"ts": START, "k": 0, "v": 7}])
    feed.delete("k = 3")
    sql = """CREATE SOURCE feed WITH (type='timeseries', location='{root}/feed', change_data_feed=TRUE, start='earliest');
      CREATE SINK changes WITH (type='timeseries', location='{root}/changes', index='ts', bucket='1h') AS
        SELECT ts, k, v, _change_type AS what FROM feed WHERE _change_type IN ('insert', 'update_postimage');"""
    pipeline = gl.pipeline(sql=sql.format(root=root), name="feed", checkpoints=str(root / "checkpoints"))
    pipeline.run(spark)
    rows = gl.open(root / "changes").scan().to_arrow().to_pylist()
    assert sorted((row["k"], row["v"], row["what"]) for row in rows) == [
        (0, 0, "insert"),
        (0, 7, "update_postimage"),
        (1, 0, "insert"),
        (2, 0, "insert"),
        (3, 0, "insert"),
    ]


def test_a_lookup_gives_what_is_there_now(spark: Any, root: Path) -> None:
    """Of five keys two are absent."""
    (root / "names.csv").write_text("id,name\n0,zero\n1,one\n2,two\n", encoding="utf-8")
    sql = """CREATE LOOKUP TABLE names (id BIGINT, name STRING, PRIMARY KEY (id)) WITH (type='csv', location='{root}/names.csv', ttl='1 ms');
      CREATE SINK outer_ WITH (type='timeseries', location='{root}/outer', index='ts', bucket='1h')
        AS SELECT e.id, e.ts, n.name FROM events e LEFT JOIN names n ON e.id % 5 = n.id;
      CREATE SINK inner_ WITH (type='timeseries', location='{root}/inner', index='ts', bucket='1h')
        AS SELECT e.id, e.ts, n.name FROM events e JOIN names n ON e.id % 5 = n.id;"""
    send(root, "a.json", range(5))
    made(root, sql).run(spark)
    rows = gl.open(root / "outer").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(0, "zero"), (1, "one"), (2, "two"), (3, None), (4, None)]
    assert column(root, "inner", "name") == ["one", "two", "zero"]
    (root / "names.csv").write_text("id,name\n0,zero\n1,uno\n2,two\n", encoding="utf-8")
    send(root, "b.json", range(5, 10))
    made(root, sql).run(spark)
    assert column(root, "inner", "name") == ["one", "two", "two", "uno", "zero", "zero"]
    (root / "names.csv").write_text("id,name\n0,zero\n0,null\n", encoding="utf-8")
    with pytest.raises(InvalidPipeline, match="2 rows of 'names' have the key id=0"):
        made(root, sql).plan(spark)


RETRACTING = """CREATE SINK k WITH (type='timeseries', mode='append', location='{root}/k', index='m', bucket='1h')
  AS SELECT max(ts) AS m FROM events GROUP BY site;"""
ALL_AGAIN = """CREATE SOURCE once (id BIGINT) WITH (type='json', location='{root}/in', mode='batch');
CREATE SINK k WITH (type='timeseries', mode='append', location='{root}/k', index='id', bucket='1h') AS SELECT id FROM once;"""
NOT_ALL = """CREATE SINK k WITH (type='timeseries', mode='complete', location='{root}/k', index='ts', bucket='1h')
  AS SELECT ts FROM events;"""


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (RETRACTING, "aggregates by no column that has a watermark"),
        (ALL_AGAIN, "each run would append all rows"),
        (NOT_ALL, "each batch would take the place of all rows"),
        ("CREATE SINK k WITH (type='console') AS SELECT tss FROM events;", "Spark refuses this query"),
        ("CREATE SINK k WITH (type='console') AS SELECT ts FRM events x y;", "Spark refuses this query"),
        ("CREATE SINK k WITH (type='console', rows=3) AS SELECT * FROM events LIMIT 3 UNION;", "Spark refuses this query"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_the_first_row(spark: Any, root: Path, sql: str, said: str) -> None:
    send(root, "a.json", range(3))
    with pytest.raises(InvalidPipeline) as caught:
        made(root, AIR + sql).run(spark)
    assert said in str(caught.value)
    assert "^" in caught.value.excerpt
    assert not (root / "air").exists()


def test_a_column_is_shown_where_spark_finds_it_missing(spark: Any, root: Path) -> None:
    send(root, "a.json", range(3))
    with pytest.raises(InvalidPipeline) as caught:
        made(root, "CREATE SINK k WITH (type='console') AS\n  SELECT ts,\n    tss FROM events;").plan(spark)
    assert (caught.value.line, caught.value.column) == (4, 5)
    assert caught.value.excerpt.endswith("^^^")


def test_a_row_that_stops_a_pipeline_is_told_and_comes_again(spark: Any, root: Path) -> None:
    send(root, "a.json", range(5))
    made(root, AIR).run(spark)
    send(root, "b.json", range(5, 7))
    (root / "in" / "c.json").write_text('{"id": null, "ts": "2026-01-05T00:00:00Z"}\n', encoding="utf-8")
    with pytest.raises(PipelineFailed, match="declared NOT NULL") as caught:
        made(root, AIR).run(spark)
    assert caught.value.sinks == ("air",)
    run = PipelineState(str(root / "checkpoints" / "p")).run()
    assert run is not None
    assert (run.status, "air" in run.sinks) == ("failed", True)
    assert column(root, "air", "id") == [3, 4]
    (root / "in" / "c.json").unlink()
    send(root, "c.json", range(7, 8))
    made(root, AIR).run(spark)
    assert column(root, "air", "id") == [3, 4, 5, 6, 7]


def test_one_that_runs_on_is_stopped_from_elsewhere_and_keeps_others_out(spark: Any, root: Path) -> None:
    send(root, "a.json", range(5))
    pipeline, reports = made(root, AIR), []
    thread = threading.Thread(target=lambda: reports.append(pipeline.run(spark, continuous=True)))
    thread.start()
    try:
        state = PipelineState(str(root / "checkpoints" / "p"))
        _until(lambda: (root / "air").exists() and gl.open(root / "air").scan().count() == 2)
        run = state.run()
        assert run is not None
        assert run.status == "running"
        with pytest.raises(CommitConflict, match="runs already"):
            made(root, AIR).run(spark)
        with pytest.raises(CommitConflict, match="Stop it first"):
            state.reset()
        send(root, "b.json", range(5, 9))
        _until(lambda: gl.open(root / "air").scan().count() == 6)
        state.ask_to_stop()
    finally:
        thread.join(60)
        pipeline.stop()
        thread.join(60)
    assert reports[0].stopped
    ended = state.run()
    assert ended is not None
    assert ended.status == "stopped"
    made(root, AIR).run(spark)
    assert gl.open(root / "air").scan().count() == 6


def test_after_a_reset_rows_come_again(spark: Any, root: Path) -> None:
    send(root, "a.json", range(5))
    made(root, AIR).run(spark)
    assert PipelineState(str(root / "checkpoints" / "p")).reset() > 3
    made(root, AIR).run(spark)
    assert column(root, "air", "id") == [3, 3, 4, 4]


def _until(true: Any) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_delta_tables_are_made_filled_and_followed(spark: Any, root: Path) -> None:
    """What changes in one comes into another by a filter on its change type."""
    sql = (
        "CREATE SINK trips WITH (type='delta', location='{root}/trips', partition_by='site') AS SELECT id, site, v FROM events;"
        "CREATE SINK newest WITH (type='delta', location='{root}/newest', key='site') AS SELECT site, max(id) AS id FROM events GROUP BY site;"
    )
    send(root, "a.json", range(6))
    made(root, sql).run(spark)
    send(root, "b.json", range(6, 9))
    made(root, sql).run(spark)
    trips = gl.delta.open(root / "trips")
    assert trips.partition_by == ("site",)
    assert sorted(trips.scan().to_arrow().column("id").to_pylist()) == list(range(9))
    newest = gl.delta.open(root / "newest").scan().to_arrow().to_pylist()
    assert sorted((row["site"], row["id"]) for row in newest) == [("north", 7), ("south", 8)]
    feed = """CREATE SOURCE newest WITH (type='delta', location='{root}/newest', change_data_feed=TRUE, start='earliest');
      CREATE SINK log FROM newest INTO DELTA (location='{root}/log');"""
    gl.pipeline(sql=feed.format(root=root), name="feed", checkpoints=str(root / "checkpoints")).run(spark)
    rows = gl.delta.open(root / "log").scan().to_arrow().to_pylist()
    assert sorted((row["site"], row["id"], row["_change_type"]) for row in rows) == [
        ("north", 5, "delete"),  # the table's own change feed is off, so an update is told as both
        ("north", 5, "insert"),
        ("north", 7, "insert"),
        ("south", 4, "delete"),
        ("south", 4, "insert"),
        ("south", 8, "insert"),
    ]


def test_a_sink_whose_batches_another_query_would_number_is_not_filled_twice_nor_passed_over(spark: Any, root: Path) -> None:
    sink = "CREATE SINK hours WITH (type='delta', location='{root}/hours'{more}) AS "
    rows = "SELECT ts AS hour, 1 AS n FROM events"
    counted = "SELECT window(ts, '1 hour').start AS hour, CAST(count(*) AS INT) AS n FROM events GROUP BY window(ts, '1 hour')"
    send(root, "a.json", range(4))
    made(root, sink.replace("{more}", "") + rows).run(spark)
    before = gl.delta.open(root / "hours")
    changed = sink.replace("{more}", "") + counted
    with pytest.raises(InvalidPipeline, match="from the beginning again") as caught:
        made(root, changed).run(spark)
    assert "source-events" in caught.value.why
    assert "sink-hours" in caught.value.why
    assert gl.delta.open(root / "hours").version == before.version
    send(root, "b.json", range(4, 8))
    upserted = sink.replace("{more}", ", mode='upsert', key='hour'") + counted
    made(root, upserted).run(spark)
    found = gl.delta.open(root / "hours").scan().to_arrow().column("hour").to_pylist()
    assert sorted(found) == [START + timedelta(hours=one) for one in range(8)]
