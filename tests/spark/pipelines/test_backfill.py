"""BACKFILL of time-series sinks, held against a model of rows and buckets."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidPipeline
from gapless.pipelines.pipeline import PipelineHandle

START = datetime(2026, 1, 5, tzinfo=UTC)
SITES = ("north", "south")
SOURCE = """CREATE SOURCE events (id BIGINT, ts TIMESTAMP, site STRING, WATERMARK FOR ts AS ts - INTERVAL '10 minutes')
  WITH (type='json', location='{root}/in');"""
AIR = """CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', entity='site', bucket='1h')
  AS SELECT id, ts, site FROM events WHERE id % 10 <> 3;"""
HOURS = """CREATE SINK hours WITH (type='timeseries', location='{root}/hours', index='hour', bucket='1h')
  AS SELECT window(ts, '1 hour').start AS hour, count(*) AS n FROM events GROUP BY window(ts, '1 hour');"""

Row = tuple[int, datetime, str]

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


def send(root: Path, name: str, rows: list[Row]) -> None:
    (root / "in").mkdir(exist_ok=True)
    text = "".join(json.dumps({"id": id_, "ts": ts.isoformat(), "site": site}) + "\n" for id_, ts, site in rows)
    (root / f".{name}").write_text(text, encoding="utf-8")
    (root / f".{name}").rename(root / "in" / name)


def made(root: Path, sql: str) -> PipelineHandle:
    return gl.pipeline(sql=(SOURCE + sql).format(root=root), name="p", checkpoints=str(root / "checkpoints"))


def hour_of(row: Row) -> tuple[str, int]:
    return row[2], int((row[1] - START) / timedelta(hours=1))


def rows_of(root: Path) -> list[Row]:
    return sorted((row["id"], row["ts"], row["site"]) for row in gl.open(root / "air").scan().to_arrow().to_pylist())


@pytest.mark.parametrize("seed", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in (2, 3))])
def test_the_gaps_of_a_range_are_filled_and_nothing_else(spark: Any, tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    sent: list[Row] = [
        (number, START + timedelta(minutes=drawn.randrange(24 * 60)), drawn.choice(SITES)) for number in range(200)
    ]
    send(tmp_path, "a.json", sent)
    made(tmp_path, AIR).run(spark)
    table = gl.open(tmp_path / "air")
    model = {row for row in sent if row[0] % 10 != 3}
    assert rows_of(tmp_path) == sorted(model)
    # Buckets go, some of them get a row by hand: what is there stays as it is.
    for site, hour in drawn.sample([(site, hour) for site in SITES for hour in range(24)], 24):
        begin, end = START + timedelta(hours=hour), START + timedelta(hours=hour + 1)
        table.delete(start=begin, end=end, entity={"site": site})
        model = {row for row in model if hour_of(row) != (site, hour)}
        if drawn.random() < 0.3:
            table.append([{"id": -hour, "ts": begin, "site": site}])
            model.add((-hour, begin, site))
    low, high = sorted(drawn.sample(range(25), 2))
    covered = {hour_of(row) for row in model}
    filled = {row for row in sent if row[0] % 10 != 3 and low <= hour_of(row)[1] < high and hour_of(row) not in covered}
    assert filled
    begin, end = (START + timedelta(hours=hour) for hour in (low, high))
    sql = f"{AIR} BACKFILL air FROM '{begin.isoformat()}' TO '{end.isoformat()}';"
    report = made(tmp_path, sql).run(spark)
    assert rows_of(tmp_path) == sorted(model | filled)
    ((name, fill),) = report.backfills
    assert (name, fill.rows, fill.buckets) == ("air", len(filled), len({hour_of(row) for row in filled}))
    assert report.sinks["air"].version == fill.version
    version = table.refresh().version
    # A second run finds nothing to do; the source has no rows of what is left.
    ((_, again),) = made(tmp_path, sql).run(spark).backfills
    assert (again.version, again.rows, again.gaps) == (None, 0, fill.left)
    assert table.refresh().version == version
    assert rows_of(tmp_path) == sorted(model | filled)


def test_a_site_that_never_arrived_is_missing_as_a_whole(spark: Any, tmp_path: Path) -> None:
    rows: list[Row] = [
        (10 * hour + place, START + timedelta(hours=hour), site) for hour in range(3) for place, site in enumerate(SITES)
    ]
    send(tmp_path, "a.json", rows)
    made(tmp_path, AIR).run(spark)
    gl.open(tmp_path / "air").delete("site = 'north'")
    made(tmp_path, f"{AIR} BACKFILL air FROM '2026-01-05T01:00Z' TO '2026-01-05T02:00Z';").run(spark)
    assert rows_of(tmp_path) == sorted(row for row in rows if row[2] == "south" or hour_of(row)[1] == 1)


def test_a_window_that_is_open_is_left_to_its_stream(spark: Any, tmp_path: Path) -> None:
    rows: list[Row] = [(number, START + timedelta(minutes=20 * number), "north") for number in range(15)]
    send(tmp_path, "a.json", rows)
    made(tmp_path, HOURS).run(spark)
    hours = gl.open(tmp_path / "hours")
    assert hours.scan().count() == 4
    hours.delete(start=START + timedelta(hours=1), end=START + timedelta(hours=3))
    sql = f"{HOURS} BACKFILL hours FROM '2026-01-05' TO '2026-01-06';"
    ((_, fill),) = made(tmp_path, sql).run(spark).backfills
    assert (fill.rows, fill.buckets, fill.left) == (2, 2, 0)
    assert hours.refresh().scan().count() == 4
    send(tmp_path, "b.json", [(100 + number, START + timedelta(hours=5, minutes=number), "north") for number in range(60)])
    made(tmp_path, sql).run(spark)
    counted = hours.refresh().scan().to_arrow().to_pydict()
    # Once each: that of the fifth hour came whole, as the stream closed it.
    assert counted["n"] == [3] * 5
    assert counted["hour"] == [START + timedelta(hours=hour) for hour in range(5)]
    whole = f"{HOURS} BACKFILL hours FROM '2026-01-05T00:00Z' TO '2026-01-05T05:00Z';"
    ((_, fill),) = made(tmp_path, whole).run(spark).backfills
    assert (fill.gaps, fill.version) == (0, None)


UPSERT = """CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h', key='ts') AS SELECT ts, id FROM events;"""
WHOLE = """CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h') AS
  SELECT max(ts) AS ts, site FROM events GROUP BY site;"""
RATE = """CREATE SOURCE r WITH (type='rate');
CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h') AS SELECT timestamp AS ts FROM r;"""


REFUSED = [
    (AIR, ("2026-01-05T00:30Z", "2026-01-06"), "lies inside the bucket from 2026-01-05T00:00:00Z to 2026-01-05T01:00:00Z"),
    (AIR, ("2026-01-07", "2026-01-06"), "start lies behind end"),
    (AIR, ("yesterdayish", "2026-01-06"), "yesterdayish"),
    (UPSERT, ("2026-01-05", "2026-01-06"), "its mode is 'upsert'"),
    (WHOLE, ("2026-01-05", "2026-01-06"), "its mode is 'complete'"),
    (RATE, ("2026-01-05", "2026-01-06"), "it reads the rate source 'r'"),
]


def test_what_cannot_be_filled_is_refused_before_the_first_row(spark: Any, tmp_path: Path) -> None:
    send(tmp_path, "a.json", [(1, START, "north")])
    made(tmp_path, AIR).run(spark)
    send(tmp_path, "b.json", [(2, START, "north")])
    for sql, (begin, end), said in REFUSED:
        with pytest.raises(InvalidPipeline) as caught:
            made(tmp_path, f"{sql} BACKFILL air FROM '{begin}' TO '{end}';").run(spark)
        assert said in str(caught.value)
        assert "^" in caught.value.excerpt
    assert rows_of(tmp_path) == [(1, START, "north")]


def test_a_continuous_run_has_no_end_to_look_for_gaps_at(spark: Any, tmp_path: Path) -> None:
    send(tmp_path, "a.json", [(1, START, "north")])
    with pytest.raises(InvalidOption, match="BACKFILL"):
        made(tmp_path, f"{AIR} BACKFILL air FROM '2026-01-05' TO '2026-01-06';").run(spark, continuous=True)
