"""Who stands in line for a turn has its files made durable meanwhile, and may talk on between two looks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gapless.errors import StoreUnavailable
from gapless.log.effects import Conversation, Put, PutNew, TakeTurn, perform
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from gapless.store.memory import MemoryStore


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    store = LocalStore(tmp_path / "table")
    store.put("log/0", b"")
    return Environment(store=store)


def conversation(others: Conversation[None] | None = None) -> Conversation[tuple[int, Put]]:
    """Stand in line, let others go on each time, and create; how often that was, and what became of it."""
    waits = 0
    while (yield from perform(TakeTurn())):
        waits += 1
        if others is not None:
            next(others, None)
    return waits, (yield from perform(PutNew("log/1", b"ours")))


def test_where_there_are_no_turns_it_comes_at_once(env: Environment) -> None:
    for turn in (None, "no such folder"):
        assert env.drive(conversation(), turn=turn)[0] == 0
        env.store.delete("log/1")
    assert Environment(store=MemoryStore("in-line")).drive(conversation(), turn="log") == (0, Put.DONE)


def test_files_that_come_first_are_durable_before_the_turn_comes(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the turn, which others wait for, is as short as it can be."""
    store, other = env.store, LocalStore(env.store.url)
    assert isinstance(store, LocalStore)
    store.put_deferred("data/1", b"rows")
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    with other.turn("log") as line:
        assert not line.wait()
        monkeypatch.setattr(os, "fsync", fsync)

        def others() -> Conversation[None]:
            assert {"1", "data"} <= set(synced)
            synced.clear()
            line.end()  # type: ignore[attr-defined]
            yield from ()

        waits, put = env.drive(conversation(others()), ["data/1"], turn="log")
    assert (waits, put) == (1, Put.DONE)
    assert [name for name in synced if not name.endswith(".tmp")] == ["log"]


def test_a_file_that_cannot_be_made_durable_in_line_ends_the_talk(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = env.store, LocalStore(env.store.url)
    assert isinstance(store, LocalStore)
    store.put_deferred("data/1", b"rows")

    def broken(_handle: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    with other.turn("log") as line:
        assert not line.wait()
        monkeypatch.setattr(os, "fsync", broken)
        with pytest.raises(StoreUnavailable) as caught:
            env.drive(conversation(), ["data/1"], turn="log")
    assert caught.value.facts["path"] == "data/1"
    assert [info.path for info in store.list("log")] == ["log/0"]
