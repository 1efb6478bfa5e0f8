"""Stores of tables and checkpoints that are full for a while, and a clock by which that while passes at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gapless.errors import StorageFull
from gapless.model.protocols import Store
from gapless.store.open import open_store
from support.faulty_store import FaultyStore, PatientClock


@dataclass
class Disks:
    """Which stores have no room for what."""

    full: dict[str, Callable[[str], bool]] = field(default_factory=dict)
    """By what the URL of a store ends in, which paths there is no room for."""
    refused: int = 0

    def mend(self) -> None:
        """There is room from now on."""
        self.full = {}

    def opened(self, *place: object) -> Store:
        store = FaultyStore(open_store(*place))  # type: ignore[arg-type]  # as it is called

        def put(path: str) -> None:
            for end, affected in self.full.items():
                if store.url.endswith(end) and affected(path):
                    self.refused += 1
                    raise StorageFull(f"no room for {path}", path=path)

        store.before_put = put
        return store


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    """Stores that are opened from now on are on these disks."""
    found = Disks()
    for module in ("gapless.tables.shared.handle", "gapless.connect.checkpoint_store"):
        monkeypatch.setattr(f"{module}.open_store", found.opened)
    return found


@dataclass
class ScriptedClock(PatientClock):
    """A clock that moves while someone sleeps, and at whose times things happen."""

    script: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    """Seconds from the start, in order, and what happens then."""
    begun: float = 1_700_000_000.0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        while self.script and self.now_s - self.begun >= self.script[0][0]:
            self.script.pop(0)[1]()

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return self.now_s - self.begun
