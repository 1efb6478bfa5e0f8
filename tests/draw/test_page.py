"""The HTML page: one file, well formed, with every name escaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

import pytest

from gapless.coverage.gap import Coverage
from gapless.draw.chart import COMPLETE
from gapless.draw.page import draw_page
from gapless.model.index import IntWidth

Make = Callable[..., Coverage[Any]]


def parse(page: str) -> ET.Element:
    """The page as XML, which it is but for the doctype and the void elements of its head."""
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    return ET.fromstring(re.sub(r"<(meta [^>]*)>", r"<\1/>", page.removeprefix("<!DOCTYPE html>\n")))


def texts(root: ET.Element, tag: str) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(tag)]


def test_a_page_loads_nothing_and_says_what_it_is(year: Make) -> None:
    page = draw_page(year(3, {1: [100]}), "Weather & <wind>")
    assert not re.search(r"https?:|<script|<link|@import|src=|url\((?!#)", page)
    root = parse(page)
    assert texts(root, "title")[0] == texts(root, "h1")[0] == "Weather & <wind>"
    picture = next(root.iter("svg"))
    assert picture.get("role") == "img"
    named = next(element for element in picture if element.get("id") == picture.get("aria-labelledby"))
    assert "1 of 26,280 expected buckets (1h) is missing, in 1 gap" in (named.text or "")
    assert "prefers-color-scheme: dark" in page


def test_cells_tell_what_they_are(year: Make) -> None:
    root = parse(draw_page(year(2, {1: [24 * 7 + 3]}, zone=ZoneInfo("Asia/Kolkata"))))
    cells = [title.text for rect in root.iter("rect") if (title := rect.find("title")) is not None]
    assert cells == [
        "s0000\n2013-01-01 05:30 to 2014-01-01 05:30\ncomplete",
        "s0001\n2013-01-01 05:30 to 2013-01-08 05:30\ncomplete",
        "s0001\n2013-01-08 05:30 to 2013-01-09 05:30\n95.83% covered",
        "s0001\n2013-01-09 05:30 to 2014-01-01 05:30\ncomplete",
    ]
    assert next(rect for rect in root.iter("rect") if rect.find("title") is not None).get("class") == f"s{COMPLETE}"


def test_cells_fill_the_width(year: Make) -> None:
    root = parse(draw_page(year(1, {0: [100, 5000]})))
    cells = [rect for rect in root.iter("rect") if rect.find("title") is not None]
    places = [(float(rect.get("x", "")), float(rect.get("width", ""))) for rect in cells]
    assert places[0][0] == 0
    assert sum(places[-1]) == pytest.approx(1000)
    assert all(at + width == pytest.approx(after + 0.5, abs=0.02) for (at, width), (after, _) in pairwise(places))
    assert places[1][1] > 2.5


def test_the_longest_gaps_come_first(year: Make) -> None:
    root = parse(draw_page(year(2, {0: [5], 1: [50, 51, 52, *range(1000, 1400, 2)]})))
    rows = [[cell.text for cell in row] for row in root.iter("tr")]
    assert rows[:3] == [
        ["Identity", "From", "To (exclusive)", "Buckets"],
        ["s0001", "2013-01-03 02:00", "2013-01-03 05:00", "3"],
        ["s0000", "2013-01-01 05:00", "2013-01-01 06:00", "1"],
    ]
    assert len(rows) == 51
    assert "50 of 202 gaps." in texts(root, "p")


def test_names_are_escaped(answer: Make) -> None:
    names = ["</title><script>alert(1)</script>", "\"'&", "a\x1b\nb", "\u202eabc", "東京"]
    page = draw_page(answer({(name,): [0, 5] for name in names}, bucket=IntWidth(1)), "<img onerror=x>")
    assert "<script" not in page
    assert "<img" not in page
    root = parse(page)
    assert {row[0].text for row in root.iter("tr")} == {"Identity", names[0], names[1], "a\\x1b\\nb", "\\u202eabc", names[4]}


def test_nothing_to_show(answer: Make) -> None:
    for coverage in (answer({}), answer({}, identities=[("x",)])):
        root = parse(draw_page(coverage))
        assert texts(root, "p") == ["Nothing is expected here."]
        assert not list(root.iter("svg"))
        assert not list(root.iter("table"))


def test_two_thousand_identities(answer: Make) -> None:
    page = draw_page(answer({(f"s{n:04d}",): range(n % 7, 400) for n in range(2000)}))
    root = parse(page)
    assert len(list(root.iter("g"))) == 59
    assert len(page) < 3_000_000
