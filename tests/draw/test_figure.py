"""The picture: no gap is lost between pixels, names are text, and nothing global is touched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gapless.coverage.calendar import Sessions
from gapless.coverage.gap import Coverage
from gapless.draw.chart import COMPLETE, MISSING, SHADES, UNEXPECTED
from gapless.draw.figure import draw_figure, save_figure
from gapless.errors import InvalidOption, NotSupported, ObjectNotFound
from gapless.model.index import FixedWidth, IntWidth, Months

Make = Callable[..., Coverage[Any]]
Pixels = npt.NDArray[np.uint8]


@pytest.fixture(autouse=True)
def _matplotlib(require: Callable[[object, str], None]) -> None:
    require(find_spec("matplotlib"), "matplotlib is not installed")


def pixels(coverage: Coverage[Any]) -> Pixels:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = draw_figure(coverage, "title")
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()  # type: ignore[no-untyped-call]  # matplotlib says no types here
    rgba: Pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return rgba[:, :, :3]


def columns_of(image: Pixels, shade: int, least: int = 20) -> list[int]:
    """Pixel columns in which at least so many pixels have the colour of a shade."""
    colour = [int(SHADES[shade].colour[at : at + 2], 16) for at in (1, 3, 5)]
    found: list[int] = np.flatnonzero((image == colour).all(axis=2).sum(axis=0) >= least).tolist()
    return found


@pytest.mark.parametrize("hour", [1, 4000, 8758])
def test_one_missing_hour_in_a_year_is_seen(year: Make, hour: int) -> None:
    image = pixels(year(3, {1: [hour]}))
    found = columns_of(image, 2, least=60)
    assert len(found) >= 3
    whole = columns_of(image, COMPLETE, least=150)
    expected = whole[0] + (whole[-1] - whole[0]) * hour / 8760
    assert abs(np.mean(found) - expected) < 12


def test_one_missing_hour_in_a_day_of_its_own_is_seen(answer: Make) -> None:
    # The range ends one hour into a day, so that the last of 301 columns is an hour wide: a seventh of a pixel.
    hours = range(24 * 400, 24 * 700)
    image = pixels(answer({("a",): hours, ("b",): hours}, end=(24 * 700 + 1) * 3600 * 10**9))
    assert len(columns_of(image, MISSING, least=100)) >= 3


def test_two_thousand_identities(answer: Make) -> None:
    covered = {(f"s{n:04d}",): range(400) if n != 1234 else [*range(200), *range(201, 400)] for n in range(2000)}
    figure = draw_figure(answer(covered))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == 59
    assert labels[0] == "s0000 … s0033 (34)"
    assert len(columns_of(pixels(answer(covered)), 2, least=8)) >= 2


def test_nothing_expected_is_hatched(answer: Make) -> None:
    image = pixels(answer({("a",): range(100), ("b",): range(50, 100)}))
    ground = columns_of(image, UNEXPECTED, least=10)
    assert len(ground) > 300
    strip = image[:, ground[len(ground) // 2]].astype(int)
    assert ((abs(strip - 0xBD) < 12).all(axis=1)).sum() >= 4, "hatch lines cross the grey ground"


def test_a_missing_session_is_told_from_the_nights(answer: Make) -> None:
    hour = 3600 * 10**9
    sessions = Sessions.of(((day * 24 + 9) * hour, (day * 24 + 17) * hour) for day in range(10))
    covered = [at for day in range(10) if day != 5 for at in range(day * 24 + 9, day * 24 + 17)]
    image = pixels(answer({("a",): covered}, sessions=sessions))
    whole, missing = columns_of(image, COMPLETE, least=40), columns_of(image, MISSING, least=40)
    ground = [at for at in range(whole[0], whole[-1]) if at not in whole and at not in missing]
    breaks = [ground[0], *(b for a, b in pairwise(ground) if b > a + 1)]
    assert len(breaks) == 9, "nine nights"
    # one session of ten, eight hours of the 224 drawn
    assert missing[-1] - missing[0] + 1 == pytest.approx((whole[-1] - whole[0]) * 8 / 224, abs=4)
    assert not set(missing) & set(whole)


def test_texts_are_not_markup(answer: Make) -> None:
    names = ["$x^2$", "$\\bad", "a\nb", "東京🚀", "x" * 300, ""]
    figure = draw_figure(answer({(name,): range(20) for name in names}), "$\\frac$ & <b>")
    figure.canvas.draw()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert {"$x^2$", "$\\bad", "a\\nb", '""'} < set(labels)
    assert max(map(len, labels)) <= 40
    assert figure.get_suptitle() == "$\\frac$ & <b>"


@pytest.mark.parametrize("bucket", [IntWidth(1), FixedWidth(1000), Months(1), FixedWidth(86_400 * 10**9)])
def test_every_kind_of_index(answer: Make, bucket: Any, tmp_path: Path) -> None:
    save_figure(answer({("a",): [0, 1, 2, 5], ("b",): [3]}, bucket=bucket), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_empty_and_one(answer: Make, tmp_path: Path) -> None:
    for coverage in (answer({}), answer({}, identities=[("x",)]), answer({(): [7]})):
        save_figure(coverage, tmp_path / "x.PNG", "t")
        assert (tmp_path / "x.PNG").stat().st_size > 1000


def test_svg_is_the_same_each_time(year: Make, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_figure(year(2, {1: [5]}), str(tmp_path / name), "t")
    first = (tmp_path / "a.svg").read_text()
    assert "<svg" in first
    assert "<dc:date>" not in first


@pytest.mark.parametrize("name", ["x.jpg", "x.pdf", "x", "png", ".png", "x.png.gz"])
def test_other_suffixes_are_refused(year: Make, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOption, match=r"\.png, \.svg, \.html") as caught:
        save_figure(year(1), tmp_path / name)
    assert caught.value.option == "plot"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(year: Make, tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFound, match=r"x\.png"):
        save_figure(year(1), tmp_path / "none" / "x.png")


def test_without_matplotlib(year: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NotSupported, match=r"pip install 'gapless\[plot\]'"):
        save_figure(year(1), tmp_path / "x.png")
    save_figure(year(1), tmp_path / "x.html")
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_import_is_cheap_and_pyplot_stays_out() -> None:
    code = """
import sys
from gapless.draw import figure, page, terminal
assert "matplotlib" not in sys.modules
import pyroaring
from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import grid_of
from gapless.coverage.gap import Coverage
from gapless.coverage.expected import Span
from gapless.model.index import IntWidth
figure.draw_figure(Coverage(CoverageMap({}), grid_of(IntWidth(1)), {("a",): Span(0, 5)}, int), "t")
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
