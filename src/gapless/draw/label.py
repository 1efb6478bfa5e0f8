"""Labels of a heat map: printable names made short, and percentages that are never rounded up to 100 %."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from gapless.model.index import Identity


def printable(text: str) -> str:
    r"""Text in which control, bidirectional and other invisible characters are written as escapes.

    >>> printable("a" + chr(27) + "[2J")
    'a\\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def name_of(identity: Identity) -> str:
    """An identity on one line; texts that would not be seen are quoted, and `()` is "all".

    >>> name_of(("Newark", 7)), name_of(("",)), name_of(())
    ('Newark, 7', '""', 'all')
    """
    return ", ".join(_value(value) for value in identity) or "all"


def row_name(row: Sequence[Identity], limit: int) -> str:
    """The identity of a row, or the first and the last of several with their number, in at most `limit` (>= 8) cells.

    >>> row_name([("EWR",), ("JFK",), ("LGA",)], 20), row_name([("EWR",), ("JFK",), ("LGA",)], 8)
    ('EWR … LGA (3)', 'EWR +2')
    """
    first, last = name_of(row[0]), name_of(row[-1])
    if len(row) == 1:
        return shorten(first, limit)
    both = limit - cell_len(f" …  ({len(row):,})")
    if both < min(cell_len(first) + cell_len(last), 24):
        more = f" +{len(row) - 1:,}"
        return shorten(first, max(1, limit - len(more))) + more
    tail = shorten(last, max(both // 2, both - cell_len(first)))
    return f"{shorten(first, both - cell_len(tail))} … {tail} ({len(row):,})"


def shorten(text: str, limit: int) -> str:
    """Text in at most `limit` terminal cells (a CJK character takes two), with "…" for what its middle lost.

    >>> shorten("temperature-sensor-17", 12)
    'tempera…r-17'
    """
    if cell_len(text) <= limit:
        return text
    tail = (limit - 1) * 2 // 5
    end = _fitting(text[::-1], tail)[::-1]
    return f"{_fitting(text, limit - 1 - tail)}…{end}"


def percent(covered: int, expected: int) -> str:
    """A share to two decimals, rounded down: "100%" only where nothing is missing, "–" where nothing is expected.

    >>> percent(26_115, 26_190), percent(10**9 - 1, 10**9), percent(1, 10**9), percent(0, 0)
    ('99.71%', '99.99%', '<0.01%', '–')
    """
    if not expected:
        return "–"
    if covered in (0, expected):
        return "100%" if covered else "0%"
    hundredths = covered * 10_000 // expected
    return f"{hundredths // 100}.{hundredths % 100:02d}%" if hundredths else "<0.01%"


def _value(value: object) -> str:
    text = str(value)
    return printable(text if text and text == text.strip() else f'"{text}"')


def _fitting(text: str, cells: int) -> str:
    """The longest beginning that takes at most so many cells."""
    used = 0
    for at, character in enumerate(text):
        used += cell_len(character)
        if used > cells:
            return text[:at]
    return text
