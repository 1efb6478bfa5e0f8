"""Where quotes begin and end in a block of CSV, and so where its rows end. Pure.

A quoted field is one whose first byte is a quote; within it a quote is doubled, or escaped where an escape character was declared. A quote
further on in a field that is not quoted is a character like any other, as it is to Arrow and most readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.intp]

_LF, _CR = 10, 13
_BLANKS = b" \t"


class MalformedQuote(Exception):
    """A quote that is neither the beginning nor the end of a field, nor doubled, nor escaped."""

    def __init__(self, at: int, opened: int | None) -> None:
        """`at` is its position; `opened` that of the quote that began its field, None where blanks stand before it."""
        self.at = at
        self.opened = opened
        super().__init__(f"at {at}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The characters that divide a file, as bytes."""

    delimiter: int
    quote: int | None
    escape: int | None = None
    """None too where it is the quote itself, which is then doubled as ever."""


@dataclass(frozen=True, kw_only=True)
class QuotedText:
    """A block of CSV that begins with a row. `final` says that the file ends with it."""

    data: bytes
    marks: Marks
    final: bool

    @cached_property
    def view(self) -> npt.NDArray[np.uint8]:
        """The bytes as numbers."""
        return np.frombuffer(self.data, np.uint8)

    @cached_property
    def quotes(self) -> Positions:
        """Positions of the quotes that begin or end fields, or are doubled: an even number of them before any place outside of quotes.

        Raises MalformedQuote.
        """
        if self.marks.quote is None or self.data.find(self.marks.quote) < 0:
            return np.empty(0, np.intp)
        found = np.flatnonzero(self.view == self.marks.quote)
        if self._escapes.size:
            found = found[~self._is_escaped(found)]
        if self._all_in_place(found):
            return found
        kept = self._without_literal(found)
        return kept if kept is not None else self._one_by_one(found)

    def first_rows(self, end: int) -> QuotedText:
        """The first `end` bytes, which end outside of quotes."""
        first = QuotedText(data=self.data[:end], marks=self.marks, final=True)
        first.__dict__["quotes"] = self.quotes[: np.searchsorted(self.quotes, end)]  # what it would find again
        return first

    def end_of_rows(self) -> int:
        """Just past the last line end outside of quotes; 0 where there is none."""
        for line_end in (b"\n", b"\r"):
            # A carriage return at the end of a block may be followed by the line feed that belongs to it.
            stop = len(self.data) - (line_end == b"\r" and not self.final)
            while (at := self.data.rfind(line_end, 0, stop)) >= 0:
                before = int(np.searchsorted(self.quotes, at))
                if before % 2 == 0:
                    return at + 1
                stop = int(self.quotes[before - 1])
        return 0

    def unclosed(self) -> int | None:
        """Position of the quote that began a field which does not end in this block, where there is one."""
        at = len(self.quotes) - 1
        if at % 2:
            return None
        while at >= 2 and self.quotes[at - 1] == self.quotes[at] - 1:
            at -= 2
        return int(self.quotes[at])

    def row_starts(self) -> Positions:
        """Positions of the first bytes of rows; blank lines are no rows."""
        ends = np.flatnonzero((self.view == _LF) | (self.view == _CR))
        ends = ends[np.searchsorted(self.quotes, ends) % 2 == 0]
        starts = np.concatenate([[0], ends + 1]).astype(np.intp)
        starts = starts[starts < len(self.data)]
        return np.asarray(starts[(self.view[starts] != _LF) & (self.view[starts] != _CR)])

    def unescaped(self) -> bytes:
        """The same with doubled quotes in the place of escaped ones, and one escape character in the place of two, within quotes."""
        escapes = self._escapes[np.searchsorted(self.quotes, self._escapes) % 2 == 1] if self._escapes.size else self._escapes
        if not escapes.size:
            return self.data
        changed = self.view.copy()
        second = _place_in_run(escapes) % 2 == 1
        after = np.minimum(escapes + 1, len(self.data) - 1)
        changed[escapes[~second & (self.view[after] == self.marks.quote)]] = self.marks.quote or 0
        return np.delete(changed, escapes[second]).tobytes()

    @cached_property
    def _escapes(self) -> Positions:
        escape = self.marks.escape
        if escape is None or self.data.find(escape) < 0:
            return np.empty(0, np.intp)
        return np.flatnonzero(self.view == escape)

    def _is_escaped(self, quotes: Positions) -> npt.NDArray[np.bool_]:
        """Of each quote, whether an odd number of escape characters stands right before it."""
        last = np.searchsorted(self._escapes, quotes) - 1
        near = (last >= 0) & (self._escapes[last] == quotes - 1)
        return np.asarray(near & (_place_in_run(self._escapes)[last] % 2 == 0))

    @cached_property
    def _edges(self) -> npt.NDArray[np.bool_]:
        """Of each byte there is, whether it divides fields."""
        edges = np.zeros(256, np.bool_)
        edges[[self.marks.delimiter, _LF, _CR]] = True
        return edges

    def _is_edge(self, at: Positions) -> npt.NDArray[np.bool_]:
        """Of each position, in order, whether it holds a delimiter or a line end, or lies outside of the block."""
        found = self._edges.take(self.view.take(at, mode="clip"))
        if len(at):
            found[0] |= at[0] < 0
            found[-1] |= at[-1] >= len(self.data)
        return np.asarray(found)

    def _all_in_place(self, quotes: Positions) -> bool:
        """Whether every quote begins or ends a field or is doubled, read as if no field that is not quoted held one."""
        opening, closing = quotes[::2], quotes[1::2]
        begins, ends = self._is_edge(opening - 1), self._is_edge(closing + 1)
        if begins.all() and ends.all():
            return True
        doubled = opening[1:] - closing[: len(opening) - 1] == 1
        begins[1:] |= doubled
        ends[: len(doubled)] |= doubled
        return bool(begins.all() and ends.all())

    def _without_literal(self, quotes: Positions) -> Positions | None:
        """These less the ones in fields that are not quoted; None where that is not as simple as it looks."""
        edges = np.flatnonzero((self.view == self.marks.delimiter) | (self.view == _LF) | (self.view == _CR))
        starts = np.concatenate([[0], edges + 1])[np.searchsorted(edges, quotes)]
        literal = self.view[starts] != self.marks.quote
        kept, left_out = quotes[~literal], quotes[literal]
        before = self.view[left_out - 1]
        blanks = (before == _BLANKS[0]) | (before == _BLANKS[1])
        plain = not blanks.any() and not (np.searchsorted(kept, left_out) % 2).any()
        return np.asarray(kept) if plain and self._all_in_place(kept) else None

    def _one_by_one(self, quotes: Positions) -> Positions:
        """The same of a block in which a field that is not quoted holds quotes."""
        data, edges = self.data, bytes((self.marks.delimiter, _LF, _CR))
        found: list[int] = []
        opened: int | None = None
        passed = -1
        for at in quotes.tolist():
            if at <= passed:
                continue
            if opened is None:
                if at == 0 or data[at - 1] in edges:
                    opened = at
                    found.append(at)
                elif data[at - 1] in _BLANKS and self._only_blanks_before(at, edges):
                    raise MalformedQuote(at, None)
                continue
            found.append(at)
            if at + 1 == len(data) or data[at + 1] in edges:
                opened = None
            elif data[at + 1] == self.marks.quote:
                passed = at + 1
                found.append(passed)
            else:
                raise MalformedQuote(at, opened)
        return np.array(found, np.intp)

    def _only_blanks_before(self, at: int, edges: bytes) -> bool:
        while at > 0 and data_is_blank(self.data, at - 1, edges):
            at -= 1
        return at == 0 or self.data[at - 1] in edges


def data_is_blank(data: bytes, at: int, edges: bytes) -> bool:
    """Whether a byte is a space or a tab that divides no fields."""
    return data[at] in _BLANKS and data[at] not in edges


def _place_in_run(positions: Positions) -> npt.NDArray[Any]:
    """Of each position, its number from 0 in its run of positions that follow each other."""
    count = np.arange(len(positions))
    starts = np.concatenate([[True], np.diff(positions) != 1])
    return count - np.maximum.accumulate(np.where(starts, count, 0))


def lines_in(data: bytes) -> int:
    """Line ends: line feeds, carriage returns, or both together."""
    view = np.frombuffer(data, np.uint8)
    count = int(np.count_nonzero(view == _LF))
    if data.find(_CR) >= 0:
        returns = view == _CR
        count += int(np.count_nonzero(returns)) - int(np.count_nonzero(returns[:-1] & (view[1:] == _LF)))
    return count


def column_at(data: bytes, at: int) -> int:
    """The column, in characters from 1, of a position in its line."""
    start = max(data.rfind(b"\n", 0, at), data.rfind(b"\r", 0, at)) + 1
    return len(data[start:at].decode("utf-8", errors="replace")) + 1
