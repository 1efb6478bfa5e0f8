"""When a checkpoint is full. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gapless.errors import InvalidOption

BATCH_ROWS = 1 << 16
"""Rows of a poll."""
LONGEST_HOLD_S = 3600.0
"""A checkpoint is not held back for longer: files that are staged for half a day are taken for left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one checkpoint may have, and how many may wait for a sink."""

    rows: int
    size: int | None = None
    """Bytes of Arrow memory, as polled."""
    seconds: float | None = None
    """Of its first row's age."""
    backlog: int

    def __post_init__(self) -> None:
        """Raise InvalidOption for a number that is none."""
        _check_count("checkpoint_rows", self.rows, "A checkpoint is made after so many rows at the latest")
        if self.size is not None:
            _check_count("checkpoint_bytes", self.size, "A checkpoint is made after about so many bytes of rows")
        if self.seconds is not None:
            check_seconds("checkpoint_seconds", self.seconds)
        _check_count("max_backlog", self.backlog, "So many checkpoints may be decided and not committed, the newest at least")

    def hold_seconds(self, waiting: int) -> float:
        """How old the first row of a checkpoint becomes where its source has no more for now, while `waiting` others are decided and not
        committed; 0 for not at all.

        The ages double, so that those that wait are few however long a sink stands still, and rows of other sinks wait about as long as it
        stood still by then.

        >>> [Limits(rows=10, backlog=12).hold_seconds(waiting) for waiting in (0, 1, 2, 11)]
        [0.0, 2.0, 4.0, 2048.0]
        """
        own = self.seconds or 0.0
        return max(own, min(LONGEST_HOLD_S, 2.0 ** min(waiting, 16))) if waiting else own

    def longest_seconds(self, waiting: int) -> float:
        """How old it may become at most, where more rows come all the time."""
        return LONGEST_HOLD_S if self.seconds is None else self.hold_seconds(waiting)


@dataclass(slots=True, kw_only=True)
class Filling:
    """The rows of the checkpoint in the making."""

    rows: int = 0
    size: int = 0
    begun: float | None = None
    """When its first row came, by the monotonic clock."""
    dry: bool = False
    """Whether the source had no more for then."""
    other_columns: bool = False
    """Whether the rows that come next have other columns."""

    def add(self, rows: int, size: int, now: float) -> None:
        """Count what was polled."""
        self.rows, self.size = self.rows + rows, self.size + size
        if self.begun is None:
            self.begun = now

    def age(self, now: float) -> float:
        """Seconds since the first row came; 0 where none has."""
        return 0.0 if self.begun is None else now - self.begun

    def room(self, limits: Limits) -> int:
        """How many rows the next poll may have; none where the checkpoint is full.

        >>> filling = Filling(rows=10, size=1000)
        >>> [filling.room(Limits(rows=rows, size=size, backlog=1)) for rows, size in ((10, None), (25, None), (25, 1300), (25, 1000))]
        [0, 15, 3, 0]
        """
        room = min(BATCH_ROWS, limits.rows - self.rows)
        if limits.size is not None and self.size and room:
            left = limits.size - self.size
            room = min(room, math.ceil(left * self.rows / self.size)) if left > 0 else 0
        return max(room, 0)


def check_seconds(option: str, value: object) -> None:
    """Raise InvalidOption for what is no number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidOption(
            f"{option}={value!r} is no time", why="It counts seconds", fix="Pass a number above 0", option=option, value=value
        )


def _check_count(option: str, value: object, why: str) -> None:
    if type(value) is not int or value < 1:
        raise InvalidOption(f"{option}={value!r} is no count", why=why, fix="Pass 1 or more", option=option, value=value)
