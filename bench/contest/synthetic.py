"""Metadata of a table of many segments that are not there: a segment a symbol and day, a hundred days, known by symbol and first and last time."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from contest.questions import iso
from contest.workload import DAY_US, MINUTE_US, START_US

DAYS, ROWS, BYTES = 100, 1_440, 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One segment that is not there."""

    symbol: str
    day: int

    @property
    def path(self) -> str:
        return f"data/{self.symbol}-{self.day}.parquet"

    @property
    def first_us(self) -> int:
        return START_US + self.day * DAY_US

    @property
    def last_us(self) -> int:
        """The last row's, inclusive."""
        return self.first_us + DAY_US - MINUTE_US


def pieces(count: int) -> Iterator[Piece]:
    """`count` segments, day by day as they would have arrived."""
    for day in range(DAYS):
        for number in range(count // DAYS):
            yield Piece(symbol=f"host{number}", day=day)


def batched(found: Iterator[Piece], size: int) -> Iterator[list[Piece]]:
    """The same in lists of `size`, the last of them shorter."""
    while chunk := list(islice(found, size)):
        yield chunk


def commit(version: int, chunk: list[Piece]) -> bytes:
    """A commit of `_timeseries_log/` that adds these segments, in the words that both gapless and timeseries-table-format 0.9.0 read."""
    stamp = f"{iso(START_US + DAYS * DAY_US + version * MINUTE_US).replace(' ', 'T')}Z"
    entry = {"version": version, "base_version": version - 1, "timestamp": stamp}
    return json.dumps(entry | {"actions": [{"AddSegment": _segment(piece)} for piece in chunk]}, separators=(",", ":")).encode()


def _segment(piece: Piece) -> dict[str, object]:
    first, last = (f"{iso(us).replace(' ', 'T')}Z" for us in (piece.first_us, piece.last_us))
    return {
        "path": piece.path,
        "format": "parquet",
        "entity_layout": {"Single": [{"type": "utf8", "value": piece.symbol}]},
        "index_min": {"type": "timestamp", "value": first},
        "index_max": {"type": "timestamp", "value": last},
        "row_count": ROWS,
        "file_size": BYTES,
        "coverage": base64.b64encode(_coverage(piece)).decode(),
        "sorted_by": ["symbol", "ts"],
        "stats": {"symbol": {"min": piece.symbol, "max": piece.symbol, "nulls": 0}},
    }


def _coverage(piece: Piece) -> bytes:
    name, buckets = piece.symbol.encode(), _buckets(piece.day)
    value = struct.pack(">IBQ", 1, 1, len(name)) + name
    return b"TSTECOV2" + struct.pack(">I", 1) + value + struct.pack(">Q", len(buckets)) + buckets


@cache
def _buckets(day: int) -> bytes:
    """A day's minutes as a 64-bit Roaring bitmap: one part, of one run in each container that the day reaches into."""
    first = (1 << 63) ^ ((START_US + day * DAY_US) // MINUTE_US)
    low = range(first & 0xFFFFFFFF, (first & 0xFFFFFFFF) + ROWS)
    runs = {key: [value & 0xFFFF for value in low if value >> 16 == key] for key in {low[0] >> 16, low[-1] >> 16}}
    head = struct.pack("<I", 12_347 | (len(runs) - 1) << 16) + bytes([(1 << len(runs)) - 1])
    keys = (struct.pack("<HH", key, len(runs[key]) - 1) for key in sorted(runs))
    bodies = (struct.pack("<HHH", 1, runs[key][0], len(runs[key]) - 1) for key in sorted(runs))
    return struct.pack("<QI", 1, first >> 32) + head + b"".join((*keys, *bodies))
