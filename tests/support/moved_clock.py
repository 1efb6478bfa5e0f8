"""The clock of tables, moved on: what is old enough to be tidied away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gapless.runtime import environment
from gapless.tables.shared import handle

MONTH_S = 30 * 86_400


@dataclass
class MovedClock:
    """The machine's clock, moved on."""

    inner: Any
    ahead_s: float = 0.0

    def now_ns(self) -> int:
        return int(self.inner.now_ns()) + int(self.ahead_s * 1e9)

    def monotonic(self) -> float:
        return float(self.inner.monotonic()) + self.ahead_s

    def sleep(self, seconds: float) -> None:
        self.ahead_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """The clock of every table that is opened from now on."""
    moved = MovedClock(environment.Environment(store=None).clock)  # type: ignore[arg-type]  # only its clock is wanted
    open_environment = handle.open_environment

    def opening(*place: Any) -> environment.Environment:
        env = open_environment(*place)
        return environment.Environment(store=env.store, clock=moved)

    for module in ("gapless.tables.timeseries.table", "gapless.tables.delta.table", "gapless.tables.timeseries.read.view"):
        monkeypatch.setattr(f"{module}.open_environment", opening, raising=False)
    return moved
