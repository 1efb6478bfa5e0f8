"""A pipeline that is killed at any changing call of any store, and run again: every row is in the sink once."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gapless.connect import CheckpointStore, Runner, sink, source
from gapless.store.open import open_store
from gapless.testing.store.stores import Killed
from support.dying_store import DyingStore, Life
from support.pipelines import SINK_KINDS, made, opened, rows


def fed(place: str) -> None:
    """A time-series table of 12 rows in 3 commits."""
    table = made("timeseries", f"{place}-feed")
    for first in (0, 4, 8):
        table.append(rows(first, 4, 7))


def pipeline(place: str, kind: str, mode: str) -> Runner:
    """From the feed into a table that is there, in checkpoints of 5 rows."""
    options: dict[str, Any] = {"key": ["id"]} if mode == "upsert" else {}
    return Runner(
        source(f"timeseries:{place}-feed", start="earliest"),
        None,
        {"main": sink(f"{kind}:{place}-sink", pipeline="orders", name="main", mode=mode, spill_bytes=1, **options)},
        CheckpointStore(f"{place}-checkpoints"),
        checkpoint_rows=5,
    )


def found(place: str, kind: str) -> list[dict[str, Any]]:
    table = opened(kind, f"{place}-sink")
    assert table.verify(deep=True).ok
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["v"])


def expected(mode: str) -> list[dict[str, Any]]:
    everything = rows(0, 12, 7).to_pylist()
    return everything if mode == "append" else sorted({row["id"]: row for row in everything}.values(), key=lambda row: row["v"])


def living(monkeypatch: pytest.MonkeyPatch, life: Life) -> None:
    """All stores that are opened from now on belong to a process with this life."""
    for module in ("gapless.tables.shared.handle", "gapless.connect.checkpoint_store"):
        monkeypatch.setattr(f"{module}.open_store", lambda *place: DyingStore(open_store(*place), life))


def leftovers(place: str) -> list[str]:
    """Prepared commits that nobody will finalize."""
    return [info.path for info in open_store(f"{place}-sink").list("_prepared") if info.path.endswith(".json")]


@pytest.mark.parametrize(
    ("mode", "after"),
    [
        pytest.param("append", False, id="append-before"),
        pytest.param("upsert", True, id="upsert-after", marks=pytest.mark.long),
        pytest.param("append", True, id="append-after", marks=pytest.mark.soak),
        pytest.param("upsert", False, id="upsert-before", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("kind", SINK_KINDS)
def test_log_15_killed_at_any_call_and_run_again_each_row_is_there_once(
    kind: str, mode: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_at, finished = 0, False
    while not finished:
        dies_at += 1
        place = f"memory://{uuid.uuid4()}"
        fed(place)
        made(kind, f"{place}-sink")
        with monkeypatch.context() as patched:
            living(patched, Life(dies_at=dies_at, after=after))
            try:
                pipeline(place, kind, mode).run()
                finished = True
            except Killed:
                pass
        pipeline(place, kind, mode).run()
        assert found(place, kind) == expected(mode), f"killed at call {dies_at}"
        assert leftovers(place) == []
    assert dies_at > 20


@pytest.mark.parametrize("kind", SINK_KINDS)
def test_a_pipeline_that_dies_again_and_again_gets_there(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after each few calls, life after life."""
    place = f"memory://{uuid.uuid4()}"
    fed(place)
    made(kind, f"{place}-sink")
    for dies_at in (*range(1, 60), None):
        with monkeypatch.context() as patched:
            living(patched, Life(dies_at=dies_at, after=bool(dies_at and dies_at % 2)))
            try:
                pipeline(place, kind, "append").run()
            except Killed:
                continue
            break
    assert found(place, kind) == expected("append")
