"""A checkpoint store whose objects come and go between two calls, as another coordinator makes and removes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.connect import Checkpoint, CheckpointStore, Cursor
from gapless.errors import ObjectExists, StoreUnavailable
from gapless.model.protocols import ObjectInfo, PutMode
from gapless.testing.store.stores import OuterStore


def checkpoint(number: int) -> Checkpoint:
    return Checkpoint(id=number, cursor=Cursor(source="table", state={"version": number}), prepared={})


class RefusingStore(OuterStore):
    """Refuses so many creates of what is not there, as a bucket does while another request for it is in flight."""

    refusals = 0

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        if self.refusals and mode == "create":
            self.refusals -= 1
            raise ObjectExists(f"{path} exists", why="409", fix="Read it", path=path)
        super().put(path, data, mode=mode, durable=durable)


class PassingStore(OuterStore):
    """What is listed once is removed before it is read."""

    goes: Any = None

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        found = [*super().list(prefix, after)]
        if self.goes is not None:
            goes, self.goes = self.goes, None
            goes()
        return iter(found)


def behind(store: CheckpointStore, outer: Any) -> Any:
    """Put another store in front of the one it has."""
    store._store = outer(store._store)
    return store._store


def test_a_create_that_is_refused_though_nothing_is_there_is_made_again(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    refusing = behind(store, RefusingStore)
    store.recover()
    for number, act in ((2, store.record), (2, store.decide)):
        refusing.refusals = 2
        act(checkpoint(number))
    refusing.refusals = 2
    recovered = store.recover()
    assert recovered.decided == checkpoint(2)
    refusing.refusals = 3
    with pytest.raises(StoreUnavailable, match="refused 3 times"):
        store.record(checkpoint(9))


def test_a_decision_that_another_coordinator_removes_while_one_recovers_is_no_error(tmp_path: Path) -> None:
    """It finishes later checkpoints, and keeps only the newest."""
    store, other = CheckpointStore(tmp_path, keep=1), CheckpointStore(tmp_path, keep=1)
    passing = behind(store, PassingStore)
    store.recover()
    for number in (2, 3):
        other.record(checkpoint(number))
        other.decide(checkpoint(number))
    other.finish(checkpoint(2))
    passing.goes = lambda: other.finish(checkpoint(3))
    recovered = store.recover()
    assert recovered.decided == checkpoint(3)
    assert recovered.finished
