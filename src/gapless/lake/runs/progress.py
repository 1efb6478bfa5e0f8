"""How far a run has come, for whoever watches it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """A run between two pages: nothing of it counts before its commit."""

    table: str
    pipeline: str
    run: str
    rows: int
    """That were read and fit."""
    quarantined_rows: int
    pages: int
    files: int
    """That are stored: rows of several pages wait for one."""
    seconds: float
    """Since it began to read."""
    cursor: Any
    """Where it would go on; None where it has no cursor."""

    @property
    def rows_per_second(self) -> float:
        """Since it began to read; 0 at the very beginning."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


Watch = Callable[[RunProgress], None]
"""Called after each page that has rows, in the thread of the run; what it raises ends the run, of which then nothing counts."""
