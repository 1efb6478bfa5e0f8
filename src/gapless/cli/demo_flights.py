"""The demo's second half: a year of flights through Spark, killed half way."""

from __future__ import annotations

import importlib.util
import inspect
import os
from pathlib import Path

from gapless.cli.console import print_table, say, stderr_console
from gapless.cli.demo_chart import draw_chart
from gapless.cli.demo_data import Tally, split_by_day
from gapless.cli.demo_pipeline import DAYS_A_BATCH, hourly, stream
from gapless.cli.demo_run import LOG, Landed, run_pipeline
from gapless.cli.demo_story import show_code, show_command, show_line, tell
from gapless.cli.progress import row_progress
from gapless.errors import NotSupported
from gapless.spark.java import find_java
from gapless.table.table import TimeSeriesTable

MADE = ("flights", "departures", "checkpoint", "departures.png", "departures.html", "year.png", LOG)
"""What this half makes in the demo's folder."""


def show_flights(source: Path, out: Path, *, kill_after: int = 25) -> None:
    """Stream the flights of a zip through Spark into a table in `out`, where the table of the weather is; kill it after a batch, and resume.

    Where Spark is missing only say how to get it.
    """
    try:
        _check_spark()
    except NotSupported as error:
        tell("The demo goes on with a stream through Spark, which is not here.")
        say(f"{error.why}. {error.fix}; then run the demo again.")
        return
    files, tally = split_by_day(source, out / "flights")
    tell(f"Now {tally.flights:,} flights, one CSV file a day. Spark is to count them by airport and hour, beside the weather.")
    say(f"{len(files)} files, {files[0]} to {files[-1].name}")
    show_code("\n\n".join(inspect.getsource(function) for function in (hourly, stream)))
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
    tell("It runs, and half way it is killed, Python and Java, with kill -9: just after the table has taken a batch.")
    landed = _run(out, days, kill_after=kill_after)
    marked = _marked(out)
    say(f"Killed. The table holds batches 0 to {landed[-1].batch}, Spark has noted 0 to {marked} as done.")
    show_command("sql", out / "departures", "select sum(flights) as flights, max(time_hour) as until from this")


def _show_end(out: Path, days: int) -> None:
    tell(
        "The same again. Spark sends once more what it has not noted; the table knows the batch by its number, and takes it once."
    )
    landed = _run(out, days)
    known = [one.batch for one in landed if one.known]
    sent = f"Sent again, and known: batch {known[0]}. " if known else "No batch was sent again. "
    say(f"{sent}New: {len(landed) - len(known)} batches.")


def _run(out: Path, days: int, *, kill_after: int | None = None) -> list[Landed]:
    show_line(f"python -m gapless.cli.demo_pipeline {out}")
    shown = not stderr_console().is_terminal
    with row_progress("Spark streams the flights", "days") as done:

        def told(one: Landed) -> None:
            landed = min(days, (one.batch + 1) * DAYS_A_BATCH)
            done(landed, days)
            if shown and (one.batch % 4 == 0 or landed == days):
                say(f"{landed} of {days} days")

        return run_pipeline(out, told, kill_after=kill_after)


def _marked(out: Path) -> int:
    """The newest batch that Spark has noted as done; -1 for none."""
    return max((int(path.name) for path in (out / "checkpoint" / "commits").glob("[0-9]*")), default=-1)


def _show_sums(out: Path, tally: Tally) -> None:
    tell("Is each flight there, and only once? The table beside the raw file, whose rows Python counted.")
    query = "select sum(flights) as flights, sum(cancelled) as cancelled, sum(delay_minutes) as delay_minutes from this"
    show_line(f'gapless sql {out / "departures"} "{query}"')
    found = TimeSeriesTable.open(out / "departures").sql(query).to_arrow().to_pylist()[0]
    held = Tally(**{name: int(value) for name, value in found.items()})
    rows = [("raw file", tally), ("table", held)]
    print_table(("", *found), [(name, one.flights, one.cancelled, one.delay_minutes) for name, one in rows])
    if held != tally:
        raise AssertionError("the table does not hold what the raw file does")


def _show_pictures(out: Path) -> None:
    tell(
        "What do we have? The hours with departures, in two weeks of February: the nights are missing, and JFK's are the shortest."
    )
    drawn = importlib.util.find_spec("matplotlib") is not None
    picture = out / f"departures.{'png' if drawn else 'html'}"
    span = ("--start", "2013-02-02T05:00Z", "--until", "2013-02-16T05:00Z")
    show_command("coverage", out / "departures", *span, "--plot", picture, python='table.coverage("2013-02-02T05:00Z", …)')
    if drawn:
        draw_chart(TimeSeriesTable.open(out / "departures"), out / "year.png")
        say(f"The year as it was, a day a bar: {out / 'year.png'}")
