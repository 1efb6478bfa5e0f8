"""A pipeline that dies between two sinks of one source: both have each batch once afterwards, and its state says that it died."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.pipelines.run.state import PipelineState
from support import hudi_targets, iceberg_tables
from support.doomed_runs import live
from support.http_service import Answer, Service

SQL = """CREATE SOURCE events (id BIGINT, ts TIMESTAMP) WITH (type='json', location='{root}/in', max_files=1);
CREATE SINK first WITH (type='{first}', location='{root}/first'{more}) AS SELECT * FROM events;
CREATE SINK second WITH (type='{second}', location='{root}/second') AS SELECT * FROM events;
"""
READ: Mapping[str, Callable[[Path], list[dict[str, Any]]]] = {
    "timeseries": lambda place: gl.open(place).scan().to_arrow().to_pylist(),
    "delta": lambda place: gl.delta.open(place).scan().to_arrow().to_pylist(),
    "iceberg": iceberg_tables.copied_rows,
    "hudi": hudi_targets.rows,
}


@pytest.mark.parametrize(("one", "other"), [("timeseries", "delta"), ("iceberg", "hudi")])
def test_killed_between_two_sinks_both_have_each_row_once(tmp_path: Path, one: str, other: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        rows = [{"id": 10 * number + n, "ts": (datetime(2026, 1, 5, number, n, tzinfo=UTC)).isoformat()} for n in range(5)]
        path = tmp_path / "in" / f"{number}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        os.utime(path, (1_700_000_000 + number,) * 2)
    (tmp_path / "gapless.toml").write_text('[pipelines.spark]\n"spark.driver.memory" = "1g"\n', encoding="utf-8")
    more = ", index='ts', bucket='1h'" if one == "timeseries" else ""
    sql = tmp_path / "copies.sql"
    sql.write_text(SQL.format(root=tmp_path, first=one, second=other, more=more), encoding="utf-8")
    state = PipelineState(str(tmp_path / ".gapless" / "pipelines" / "copies"))
    for doomed, first, second in (("before:second:1", 10, 5), ("after:second:2", 15, 15)):
        assert live(sql, doomed).returncode == -signal.SIGKILL
        run = state.run()
        assert run is not None
        assert run.status == "died"
        assert len(READ[one](tmp_path / "first")) == first
        assert len(READ[other](tmp_path / "second")) == second
    assert live(sql).returncode == 0
    wanted = sorted(10 * number + n for number in range(4) for n in range(5))
    for name, kind in (("first", one), ("second", other)):
        assert sorted(row["id"] for row in READ[kind](tmp_path / name)) == wanted
    run = state.run()
    assert run is not None
    assert (run.status, run.number) == ("finished", 3)
    assert timedelta(0) <= datetime.fromisoformat(run.heard) - datetime.fromisoformat(run.started)


PAGES = """CREATE SOURCE records (id BIGINT, v STRING)
WITH (type='http', url='{url}', pagination='after_value', parameter='since', column='id', max_rows=5);
CREATE SINK first WITH (type='delta', location='{root}/first') AS SELECT * FROM records;
CREATE SINK second WITH (type='delta', location='{root}/second') AS SELECT * FROM records;
"""


def test_rows_of_a_service_that_changes_its_mind_are_the_same_in_both_sinks(tmp_path: Path, http_service: Service) -> None:
    said = dict.fromkeys(range(12), "then")

    def answer(_path: str, query: dict[str, str]) -> Answer:
        later = [{"id": one, "v": v} for one, v in sorted(said.items()) if one > int(query.get("since", "-1"))]
        return 200, {}, json.dumps(later[:4]).encode()

    http_service.answer = answer
    (tmp_path / "gapless.toml").write_text('[pipelines.spark]\n"spark.driver.memory" = "1g"\n', encoding="utf-8")
    sql = tmp_path / "copies.sql"
    sql.write_text(PAGES.format(root=tmp_path, url=http_service.url), encoding="utf-8")
    assert live(sql, "before:second:1").returncode == -signal.SIGKILL
    assert _rows(tmp_path / "first") == [(one, "then") for one in range(10)]
    assert _rows(tmp_path / "second") == [(one, "then") for one in range(5)]
    del said[7], said[8]
    said.update(dict.fromkeys(said, "now"))
    done = live(sql)
    assert done.returncode == 0, done.stderr[-3000:]
    wanted = [(one, "then") for one in range(10)] + [(10, "now"), (11, "now")]
    assert _rows(tmp_path / "first") == wanted
    assert _rows(tmp_path / "second") == wanted


def _rows(place: Path) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in gl.delta.open(place).scan().to_arrow().to_pylist())
