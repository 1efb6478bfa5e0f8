"""The heat map in a terminal: fits, can be read without colour, and hides no gap."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from rich.cells import cell_len
from rich.console import Console

from gapless.coverage.gap import Coverage
from gapless.draw.terminal import draw_terminal
from gapless.errors import InvalidOption
from gapless.model.index import IntWidth

Make = Callable[..., Coverage[Any]]


def printed(drawing: object, *, width: int = 80, encoding: str = "utf-8", colour: bool = False) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    console = Console(file=file, width=width, force_terminal=colour, color_system="truecolor" if colour else None)
    console.print(drawing)
    file.flush()
    assert isinstance(file.buffer, io.BytesIO)
    return file.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
@pytest.mark.parametrize("count", [1, 3, 60, 2000])
def test_fits_its_width_and_height(answer: Make, width: int, count: int) -> None:
    covered = {(f"sensor-{n:04d}",): [n % 7, *range(10, 2000 - n % 90, 3 if n % 5 == 0 else 1)] for n in range(count)}
    lines = str(draw_terminal(answer(covered), width, 40, title="a title " * 40)).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= 40
    assert max(map(cell_len, lines)) >= width * 3 // 4


def test_three_identities(year: Make) -> None:
    drawing = draw_terminal(
        year(3, {1: [4000], 2: range(24 * 7 * 20, 24 * 7 * 24)}, zone=ZoneInfo("Asia/Kolkata")), 80, title="Weather"
    )
    assert str(drawing).splitlines() == [
        "Weather",
        "s0000 █████████████████████████████████████████████████████    100%",
        "s0001 ████████████████████████▓████████████████████████████  99.98%",
        "s0002 ████████████████████░×××·████████████████████████████  92.32%",
        "      └───────────────────────────────────────────────────┘",
        "      2013-01-01 05:30                     2014-01-01 05:30",
        "97.43% covered: 673 of 26,280 expected buckets (1h) are missing, in 2 gaps",
        "A cell is 7d; times in Asia/Kolkata",
        "█ complete   ▓ 99% or more   ░ 50% or more   · under 50%   × missing",
    ]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("hour", [1, 23, 4000, 8735, 8758])
def test_one_missing_hour_in_a_year_is_seen(year: Make, width: int, hour: int) -> None:
    lines = str(draw_terminal(year(3, {1: [hour]}), width)).splitlines()
    cells = [line.split()[1] for line in lines[:3]]
    assert set(cells[0]) == set(cells[2]) == {"█"}
    assert set(cells[1]) - {"█"}


def test_two_thousand_share_rows(year: Make, answer: Make) -> None:
    drawing = str(
        draw_terminal(answer({(f"s{n:04d}",): range(100) if n != 1234 else [0, *range(2, 100)] for n in range(2000)}), 100)
    )
    rows = [line for line in drawing.splitlines() if line.startswith("s")]
    assert sum("100%" not in row for row in rows) == 1
    assert "a row up to 58 of 2,000 identities" in drawing


def test_nothing_expected_is_blank_and_said(answer: Make) -> None:
    drawing = str(draw_terminal(answer({("a",): range(10), ("b",): range(5, 10)}, bucket=IntWidth(1)), 60))
    assert "b                          ███" in drawing
    assert "(blank) nothing expected" in drawing
    assert "times in" not in drawing


def test_empty_coverage(answer: Make) -> None:
    assert str(draw_terminal(answer({}), 80, title="empty")) == "empty\nNothing is expected here\n"
    lines = str(draw_terminal(answer({}, identities=[("x",), ("y",)]), 80)).splitlines()
    assert [line.split() for line in lines] == [["x", "–"], ["y", "–"], ["Nothing", "is", "expected", "here"]]


def test_colour_only_adds_to_the_text(year: Make) -> None:
    drawing = draw_terminal(year(2, {1: range(100, 900)}), 80)
    plain = printed(drawing)
    assert "\x1b" not in plain
    assert [line.rstrip() for line in plain.splitlines()] == str(drawing).splitlines()
    coloured = printed(drawing, colour=True)
    assert "\x1b[38;2;31;90;153m█" in coloured
    assert "\x1b[38;2;74;32;8;48;2;255;240;138m×" in coloured


def test_ascii_where_nothing_else_can_be_written(answer: Make) -> None:
    drawing = draw_terminal(answer({("東京",): [*range(5), *range(8, 40)]}, bucket=IntWidth(1)), 60)
    lines = printed(drawing, encoding="ascii").splitlines()
    assert lines[0].startswith("???? #####xxx###")
    assert set(lines[1].strip()) == {"+", "-"}


def test_names_cannot_move_the_cursor(answer: Make) -> None:
    drawing = draw_terminal(answer({("a\x1b[2J\n",): [1]}), 80, title="t\x1b]0;x\x07")
    assert "\x1b" not in printed(drawing)
    assert "a\\x1b[2J\\n" in str(drawing)


@pytest.mark.parametrize(("width", "height"), [(29, 40), (0, 40), (80, 0), (80, -1)])
def test_no_room(year: Make, width: int, height: int) -> None:
    with pytest.raises(InvalidOption):
        draw_terminal(year(1), width, height)
    draw_terminal(year(1), 30, 1)
