"""Names that cannot harm or mislead, short ones, and shares that are never rounded up."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gapless.draw.label import name_of, percent, row_name, shorten
from gapless.model.index import Identity


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (("Newark", 7, True, date(2013, 1, 2)), "Newark, 7, True, 2013-01-02"), ((), "all"), (("",), '""'), ((" pad ",), '" pad "'),
        (("a\nb",), "a\\nb"), (("\x1b[31mred",), "\\x1b[31mred"), (("\u202eabc",), "\\u202eabc"), (("東京",), "東京"),
        (("a\udc80",), "a\\udc80"),
    ],
)  # fmt: skip
def test_names(identity: Identity, name: str) -> None:
    assert name_of(identity) == name


@given(st.lists(st.text(), min_size=1, max_size=3), st.integers(8, 60), st.integers(1, 3))
def test_row_names_fit_and_are_printable(names: list[str], limit: int, repeat: int) -> None:
    name = row_name([(name,) for name in names] * repeat, limit)
    assert 0 < cell_len(name) <= limit
    assert name.isprintable()


def test_row_names_say_how_many() -> None:
    many: list[Identity] = [(f"sensor-{n:04d}",) for n in range(2000)]
    assert row_name(many, 33) == "sensor-0000 … sensor-1999 (2,000)"
    assert row_name(many, 32) == "sensor-0000 +1,999"
    assert row_name(many, 16) == "senso…000 +1,999"
    long: list[Identity] = [(f"{'x' * 20}-{n:04d}",) for n in range(34)]
    assert row_name(long, 36) == "xxxxxxxx…-0000 … xxxxxxxx…-0033 (34)"
    assert row_name([("EWR",), ("LGA",)], 20) == "EWR … LGA (2)"


@given(st.text(st.characters(categories=["L", "N"])), st.integers(2, 30))
def test_shortened_text_keeps_both_ends(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert cell_len(short) <= limit
    head, _, tail = short.partition("…") if cell_len(text) > limit else (text, "", "")
    assert text.startswith(head)
    assert text.endswith(tail)


@pytest.mark.parametrize(
    ("covered", "expected", "text"),
    [(0, 0, "–"), (0, 5, "0%"), (5, 5, "100%"), (10**9 - 1, 10**9, "99.99%"), (1, 10**9, "<0.01%"), (1, 3, "33.33%")],
)
def test_percent(covered: int, expected: int, text: str) -> None:
    assert percent(covered, expected) == text
