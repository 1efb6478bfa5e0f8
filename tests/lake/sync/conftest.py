"""Nothing here is about power cuts: files are not synced, which is most of what a copy of many small ones costs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.lake.opening import init
from lake.sync.copies import fill, state


@pytest.fixture(autouse=True, scope="module")
def unsynced() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def two_states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[dict[str, list[object]]]]:
    """A lake, a place that has its first state, and both states."""
    place = tmp_path_factory.mktemp("copies")
    lake, states = init(place / "lake"), []
    for step in range(2):
        fill(lake, step)
        states.append(state(place / "lake"))
        if step == 0:
            lake.push(place / "hub")
    return place / "lake", place / "hub", states
