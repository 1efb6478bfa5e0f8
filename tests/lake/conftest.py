"""Lakes for tests: fixture `lake`, and one over any store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gapless.lake.catalog.sqlite import SqliteCatalog
from gapless.lake.lake import Lake
from gapless.model.protocols import Clock, Store
from gapless.runtime.environment import Environment, SystemClock
from support.lake_catalogs import new_lake

Over = Callable[..., Lake]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return new_lake(tmp_path / "lake")


@pytest.fixture
def over(tmp_path: Path) -> Over:
    """`over(store, clock=…, node=…)` is a lake over a store whose catalog lies on this disk."""

    def make(store: Store, *, clock: Clock | None = None, node: str = "main", deadline_s: float = 5.0) -> Lake:
        env = Environment(store=store, clock=clock or SystemClock(), deadline_s=deadline_s)
        return Lake(env, SqliteCatalog(str(tmp_path / "meta.sqlite")), node)

    return make
