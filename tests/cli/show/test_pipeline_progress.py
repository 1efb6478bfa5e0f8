"""What `gapless run` shows while it runs: lines into a pipe, a table on a terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

import gapless as gl
from gapless.cli.show.pipeline_progress import LiveTable, pipeline_progress
from gapless.pipelines.definitions import Defined
from gapless.pipelines.language.statements import CreateSink
from gapless.pipelines.run.state import SinkProgress

START = datetime(2026, 1, 5, tzinfo=UTC)


class StoodClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at

    def now_ns(self) -> int:
        return int(self.at * 1e9)

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def sinks_of(root: Path) -> list[Defined]:
    sql = f"""CREATE SOURCE s WITH (type='rate');
    CREATE SINK air WITH (type='timeseries', location='{root}/air') AS SELECT * FROM s;
    CREATE SINK copy WITH (type='delta', location='{root}/copy') AS SELECT * FROM s;"""
    return gl.pipeline(sql=sql, name="p").definitions.of(CreateSink)


def drawn(table: LiveTable) -> str:
    out = io.StringIO()
    Console(file=out, width=130).print(table.render())
    return out.getvalue()


def test_a_terminal_shows_what_waits_last_commits_and_coverage(tmp_path: Path) -> None:
    clock = StoodClock()
    table = LiveTable(sinks=tuple(sinks_of(tmp_path)), clock=clock)
    assert "air" in drawn(table)  # before anything was told, and before its table is there
    table.tell({"air": SinkProgress(), "copy": SinkProgress()})
    made = gl.create(tmp_path / "air", index="ts", bucket="1h")
    made.append([{"ts": START + timedelta(hours=one)} for one in range(24) if one % 12 != 5])
    clock.at += 2
    told = SinkProgress(batch=3, version=7, rows=1200, rows_per_second=400.0, waiting="2 files")
    table.tell({"air": told, "copy": SinkProgress()})
    clock.at += 9
    lines = drawn(table).splitlines()
    (air,) = (line for line in lines if line.startswith("air"))
    assert air.split()[:4] == ["air", "1,200", "400", "2"]
    assert "9 s ago" in air
    assert air.rstrip().endswith("91.66%, 2 gaps")
    assert air.count("×") == 2
    assert any("air: batch 3, 1,200 rows, version 7" in line for line in lines)


def test_a_pipe_gets_a_line_for_each_batch(tmp_path: Path) -> None:
    out = io.StringIO()
    with pipeline_progress(sinks_of(tmp_path), Console(file=out, width=200)) as tell:
        tell({"air": SinkProgress(batch=0, version=2, rows=10), "copy": SinkProgress()})
        tell({"air": SinkProgress(batch=0, version=2, rows=10), "copy": SinkProgress(batch=0, rows=10)})
    assert out.getvalue().splitlines() == [
        "air: 10 rows read, batch 0, version 2",
        "copy: 10 rows read, batch 0",
    ]


def test_a_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    out = io.StringIO()
    with pipeline_progress(sinks_of(tmp_path), Console(file=out, force_terminal=True, width=100)) as tell:
        tell({"air": SinkProgress(batch=0, version=2, rows=10)})
    shown = out.getvalue()
    assert "air" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor, hidden and shown again
