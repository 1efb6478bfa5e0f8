"""Which live segments a log checkpoint puts into new parts. Pure.

Loose segments become a part once there are enough of them; parts are rewritten only where most of what they held is gone. So what a
checkpoint writes goes by what changed, and not by what the table holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from gapless.dialects.timeseries.actions import LiveSegment, TableState
from gapless.dialects.timeseries.live import LiveSegments
from gapless.dialects.timeseries.part_codec import PartRef, encode_part
from gapless.dialects.timeseries.part_rows import PartRows
from gapless.dialects.timeseries.stock import Catalogue, Part, ReadParts, Stock
from gapless.log.dialect import Packed, Snapshot

PARTS_FOLDER = "_log_parts"
PART_SEGMENTS = 1_000
"""Loose segments that become a part. Commits are not divided, so that a part may have more; one with less than half of it is poor."""


def stock_of(state: TableState) -> Stock:
    """The live segments of a state, by the parts that it knows."""
    return state.live.stock() if isinstance(state.live, LiveSegments) else Stock.of(dict(state.live))


def refs_of(state: TableState) -> tuple[PartRef, ...]:
    """The parts that a state rests on."""
    return tuple(part.ref for part in stock_of(state).catalogue.parts)


def owes(state: TableState) -> bool:
    """Whether a log checkpoint of a state would have parts to write."""
    stock = stock_of(state)
    return len(stock.loose) >= PART_SEGMENTS or any(_is_due(stock, run) for run in _runs(stock, frozenset()))


@dataclass(slots=True)
class _Press:
    """Makes parts for one log checkpoint."""

    version: int
    token: str
    """Makes their names unique."""
    read: ReadParts
    made: list[tuple[str, bytes]]

    def part(self, live: Sequence[LiveSegment]) -> Part:
        path = f"{PARTS_FOLDER}/{self.version:010d}-{self.token}-{len(self.made)}.parquet"
        ref, data = encode_part(path, live, self.version)
        self.made.append((path, data))
        return Part(ref, self.read, PartRows.of(dict(enumerate(live)), path))


def pack(snapshot: Snapshot[TableState], token: str, read: ReadParts, lost: frozenset[str]) -> Packed[TableState]:
    """The same snapshot resting on new parts, where some are due, and their objects; `token` makes their names unique. Those of the
    paths `lost` are made anew.
    """
    stock, press = stock_of(snapshot.state), _Press(snapshot.version, token, read, [])
    parts: list[Part] = []
    gone: dict[int, frozenset[int]] = {}
    for run in _runs(stock, lost):
        if _is_due(stock, run):
            parts += [press.part(some) for some in _cut(one for number in run.parts for _, one in stock.taken(number))]
            continue
        for number in run.parts:
            if number in stock.gone:
                gone[len(parts)] = stock.gone[number]
            parts.append(stock.catalogue.parts[number])
    loose = list(stock.loose.values())
    full = [some for some in _cut(loose) if len(some) >= PART_SEGMENTS]
    parts += [press.part(some) for some in full]
    left = {one.segment.path: one for one in loose[sum(map(len, full)) :]}
    packed = Stock(Catalogue(tuple(parts)), gone, left, snapshot.version)
    state = replace(snapshot.state, live=LiveSegments.of(packed))
    return Packed(Snapshot(snapshot.version, snapshot.time_ns, state), tuple(press.made))


@dataclass(frozen=True, slots=True)
class _Run:
    """Parts one after another that are poor, or one that is not."""

    parts: tuple[int, ...]
    lost: bool
    """Whether one of them is missing or damaged."""


def _runs(stock: Stock, lost: frozenset[str]) -> Iterator[_Run]:
    parts = stock.catalogue.parts
    unsound = {number for number, part in enumerate(parts) if part.ref.path in lost or part.is_recovered}
    for poor, run in groupby(range(len(parts)), lambda number: stock.count(number) * 2 < PART_SEGMENTS):
        for numbers in (tuple(run),) if poor else ((number,) for number in run):
            yield _Run(numbers, not unsound.isdisjoint(numbers))


def _is_due(stock: Stock, run: _Run) -> bool:
    """Whether parts are to be rewritten: several poor ones become one, one that has lost more than it holds becomes small, or nothing."""
    held = sum(stock.catalogue.parts[number].ref.segments for number in run.parts)
    left = sum(stock.count(number) for number in run.parts)
    return run.lost or len(run.parts) > 1 or held > 2 * left


def _cut(live: Iterable[LiveSegment]) -> Iterator[list[LiveSegment]]:
    """Pieces of at least so many segments as a part has, the last of fewer; what one version made live stays together."""
    piece: list[LiveSegment] = []
    for _, same in groupby(live, lambda one: one.version):
        if len(piece) >= PART_SEGMENTS:
            yield piece
            piece = []
        piece += same
    if piece:
        yield piece
