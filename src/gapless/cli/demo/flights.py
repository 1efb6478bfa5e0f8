"""The demo's second half: flights streamed through Spark by a process that is killed half way, and a chart of the year."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.cli.demo.data import FlightCounts, split_by_day
from gapless.cli.demo.pipeline import DAYS_A_BATCH, hourly, stream
from gapless.cli.demo.steps import print_code, print_command, print_step, run_command
from gapless.cli.show.console import print_line, print_table, stderr_console
from gapless.cli.show.rows import row_progress
from gapless.errors import NotSupported
from gapless.spark.setup.start import find_java
from gapless.tables.timeseries.table import TimeSeriesTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LOG = "pipeline.log"
"""Where what Spark says to stderr goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """A batch that is in the table, as the pipeline says it."""

    batch: int
    """Its number, from 0."""
    repeated: bool
    """Whether the table had it when it came."""


def run_pipeline(folder: Path, on_batch: Callable[[BatchResult], None], *, kill_after: int | None = None) -> list[BatchResult]:
    """Run the pipeline in `folder`; `on_batch` is called when the table has one, and all are given back.

    As soon as the table has batch `kill_after` the whole process group is killed: Python and Java. Raises NotSupported where the
    pipeline fails.
    """
    seen: list[BatchResult] = []
    with _pipeline(folder) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(BatchResult(**json.loads(line)))
            if seen[-1].batch == kill_after:
                _kill(process)
            on_batch(seen[-1])
    killed = process.returncode == -signal.SIGKILL and any(one.batch == kill_after for one in seen)
    if process.returncode and not killed:
        raise _failed(process.returncode, folder / LOG)
    return seen


@contextlib.contextmanager
def _pipeline(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The process, in a group and session of its own; all of it is gone when the block ends."""
    command = [sys.executable, "-m", "gapless.cli.demo.pipeline", str(folder)]
    with (
        (folder / LOG).open("ab") as log,
        subprocess.Popen(  # noqa: S603  # this Python, and a folder that the user named
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        except BaseException:
            _kill(process)
            raise


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failed(code: int, log: Path) -> NotSupported:
    # The lines of a trace are indented, what went wrong is not.
    said = [
        line
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip() and not line[0].isspace()
    ]
    return NotSupported(
        f"the pipeline on Spark ended with exit code {code}",
        why=said[-1] if said else "It said nothing",
        fix=f"{log} has all it said; `gapless demo --no-spark` leaves this part out",
        feature="demo",
    )


_DAYS = """
    select cast(timezone('America/New_York', time_hour) as date) as day, 100.0 * sum(cancelled) / sum(flights) as cancelled,
        sum(delay_minutes) / sum(departed) as late, max(wind_speed) as wind
    from this group by day order by day
"""
_PANELS = (
    ("cancelled", "cancelled flights, % of the day's", "#b2182b"),
    ("late", "mean delay at departure, minutes", "#2166ac"),
    ("wind", "strongest hourly wind, mph", "#666666"),
)


def draw_chart(table: TimeSeriesTable, path: Path) -> None:
    """Draw the days of a table of hourly departures into a PNG, three panels under each other; matplotlib must be there."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    days = table.sql(_DAYS).to_arrow()
    figure = Figure(figsize=(12, 6.5), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle("Departures from New York in 2013, by day", x=0.0034, ha="left", size=13, weight="bold")
    for axes, (name, title, colour) in zip(figure.subplots(len(_PANELS), sharex=True), _PANELS, strict=True):
        _draw_panel(axes, days, name, colour)
        axes.set_title(title, loc="left", size=9, color="#555555")
    figure.savefig(path, format="png")


def _draw_panel(axes: Axes, days: pa.Table, name: str, colour: str) -> None:
    """One column as bars; its highest days say their date."""
    pairs = [
        (day, value) for day, value in zip(days["day"].to_pylist(), days[name].to_pylist(), strict=True) if value is not None
    ]
    axes.bar([day for day, _ in pairs], [value for _, value in pairs], width=1.0, color=colour)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.005)
    axes.set_ylim(min(0, *(value for _, value in pairs)), 1.15 * max(value for _, value in pairs))
    for day, value in _peaks(pairs):
        axes.annotate(f"{day.day} {day:%b}", (day, value), ha="center", va="bottom", size=8)


def _peaks(pairs: list[tuple[date, float]], count: int = 3) -> list[tuple[date, float]]:
    """The highest days, none of them within two weeks of a higher one."""
    found: list[tuple[date, float]] = []
    for day, value in sorted(pairs, key=lambda pair: pair[1], reverse=True):
        if len(found) < count and all(abs((day - other).days) > 14 for other, _ in found):
            found.append((day, value))
    return found


OUTPUTS = ("flights", "departures", "checkpoint", "departures.png", "departures.html", "year.png", LOG)
"""What this half makes in the demo's folder."""


def show_flights(source: Path, out: Path, *, kill_after: int = 25) -> None:
    """Stream the flights of a zip through Spark into a table in `out`, where the table of the weather is; kill it after a batch, and resume.

    Where Spark is missing only say how to get it.
    """
    try:
        _check_spark()
    except NotSupported as error:
        print_step("The demo goes on with a stream through Spark, which is not here.")
        print_line(f"{error.why}. {error.fix}; then run the demo again.")
        return
    files, tally = split_by_day(source, out / "flights")
    print_step(
        f"Now {tally.flights:,} flights, one CSV file a day. Spark is to count them by airport and hour, beside the weather."
    )
    print_line(f"{len(files)} files, {files[0]} to {files[-1].name}")
    print_code("\n\n".join(inspect.getsource(function) for function in (hourly, stream)))
    _show_kill(out, len(files), kill_after)
    _show_end(out, len(files))
    _show_sums(out, tally)
    _show_pictures(out)


def _check_spark() -> None:
    """Raise NotSupported where Spark cannot be started."""
    if importlib.util.find_spec("pyspark") is None:
        raise NotSupported(
            "the flights need Spark", why="pyspark is not installed", fix="pip install 'gapless[spark]'", feature="spark"
        )
    find_java(os.environ)


def _show_kill(out: Path, days: int, kill_after: int) -> None:
    print_step("It runs, and half way it is killed, Python and Java, with kill -9: just after the table has taken a batch.")
    landed = _run(out, days, kill_after=kill_after)
    done = _last_checkpoint(out)
    print_line(f"Killed. The table holds batches 0 to {landed[-1].batch}, Spark has noted 0 to {done} as done.")
    run_command("sql", out / "departures", "select sum(flights) as flights, max(time_hour) as until from this")


def _show_end(out: Path, days: int) -> None:
    print_step(
        "The same again. Spark sends once more what it has not noted; the table knows the batch by its number, and takes it once."
    )
    landed = _run(out, days)
    repeated = [one.batch for one in landed if one.repeated]
    sent = f"Sent again, and known: batch {repeated[0]}. " if repeated else "No batch was sent again. "
    print_line(f"{sent}New: {len(landed) - len(repeated)} batches.")


def _run(out: Path, days: int, *, kill_after: int | None = None) -> list[BatchResult]:
    print_command(f"python -m gapless.cli.demo.pipeline {out}")
    shown = not stderr_console().is_terminal
    with row_progress("Spark streams the flights", "days") as done:

        def on_batch(one: BatchResult) -> None:
            landed = min(days, (one.batch + 1) * DAYS_A_BATCH)
            done(landed, days)
            if shown and (one.batch % 4 == 0 or landed == days):
                print_line(f"{landed} of {days} days")

        return run_pipeline(out, on_batch, kill_after=kill_after)


def _last_checkpoint(out: Path) -> int:
    """The newest batch that Spark has noted as done; -1 for none."""
    return max((int(path.name) for path in (out / "checkpoint" / "commits").glob("[0-9]*")), default=-1)


def _show_sums(out: Path, tally: FlightCounts) -> None:
    print_step("Is each flight there, and only once? The table beside the raw file, whose rows Python counted.")
    query = "select sum(flights) as flights, sum(cancelled) as cancelled, sum(delay_minutes) as delay_minutes from this"
    print_command(f'gapless sql {out / "departures"} "{query}"')
    found = TimeSeriesTable.open(out / "departures").sql(query).to_arrow().to_pylist()[0]
    held = FlightCounts(**{name: int(value) for name, value in found.items()})
    rows = [("raw file", tally), ("table", held)]
    print_table(("", *found), [(name, one.flights, one.cancelled, one.delay_minutes) for name, one in rows])
    if held != tally:
        raise AssertionError("the table does not hold what the raw file does")


def _show_pictures(out: Path) -> None:
    print_step(
        "What do we have? The hours with departures, in two weeks of February: the nights are missing, and JFK's are the shortest."
    )
    drawn = importlib.util.find_spec("matplotlib") is not None
    picture = out / f"departures.{'png' if drawn else 'html'}"
    span = ("--start", "2013-02-02T05:00Z", "--until", "2013-02-16T05:00Z")
    run_command("coverage", out / "departures", *span, "--plot", picture, python='table.coverage("2013-02-02T05:00Z", …)')
    if drawn:
        draw_chart(TimeSeriesTable.open(out / "departures"), out / "year.png")
        print_line(f"The year as it was, a day a bar: {out / 'year.png'}")
