"""Taking turns: a courtesy among the writers of one machine, which ends by itself and which nothing rests on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gapless.model.protocols import takes_turns
from gapless.store import turn
from gapless.store.local import LocalStore
from gapless.store.memory import MemoryStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "table")
    store.put("log/0", b"")
    return store


@contextmanager
def in_background(act: Callable[[], None]) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def is_free(store: LocalStore) -> bool:
    handle = os.open(f"{store.url}/log", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def test_which_stores_take_turns(store: LocalStore) -> None:
    assert takes_turns(store)
    assert not takes_turns(MemoryStore("turns"))


def test_a_turn_ends_with_the_first_create_and_with_the_context(store: LocalStore) -> None:
    with store.turn("log") as mine:
        assert mine
        assert not is_free(store)
        store.put("log/1", b"x")
        assert is_free(store)
    with contextlib.suppress(KeyError), store.turn("log"):
        store.put("log/CURRENT", b"1", mode="overwrite", durable=False)
        assert not is_free(store)
        raise KeyError
    assert is_free(store)


def test_a_create_that_is_refused_does_not_end_it(store: LocalStore) -> None:
    with store.turn("log"), pytest.raises(Exception, match="exists already"):
        store.put("log/0", b"x")
    with store.turn("log"):
        assert not is_free(store)


def test_who_waits_goes_next(store: LocalStore) -> None:
    order: list[str] = []

    def second() -> None:
        with LocalStore(store.url).turn("log") as mine:
            order.append(f"second {mine}")

    with store.turn("log"), in_background(second) as thread:
        thread.join(0.05)
        assert order == []
        order.append("first")
        store.put("log/1", b"x")
    assert order == ["first", "second True"]


def test_patience_ends(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "PATIENCE_S", 0.05)
    with store.turn("log"), LocalStore(store.url).turn("log") as other:
        assert not other
        store.put("log/1", b"x")
        assert is_free(store), "who did not get it does not end another's"


def test_who_waited_in_vain_waits_less_the_next_time(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped in its turn costs the others half a second once, and not at each of their commits."""
    found: list[float] = []
    real = turn._take

    def take(handle: int, patience_s: float) -> bool:
        found.append(patience_s)
        return real(handle, patience_s / 100)

    monkeypatch.setattr(turn, "_take", take)
    other = LocalStore(store.url)
    with store.turn("log"):
        for _ in range(3):
            with other.turn("log") as mine:
                assert not mine
    with other.turn("log") as mine:
        assert mine
    with other.turn("log"):
        pass
    assert found == pytest.approx([0.5, 0.5, 0.25, 0.125, 0.0625, 0.5])


def test_a_turn_that_cannot_be_given_back_does_no_harm(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.close

    def close(handle: int) -> None:
        real(handle)
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "close", close)
    with store.turn("log") as mine:
        assert mine


def test_a_process_that_died_or_forked_in_its_turn_holds_no_one_up(store: LocalStore) -> None:
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with LocalStore(store.url).turn("log"):
            os.write(tell, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    assert not is_free(store)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert is_free(store)
    with store.turn("log"):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    assert is_free(store)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(tell)


@pytest.mark.parametrize("call", ["flock", "open"])
def test_where_there_are_no_such_locks_everyone_goes(store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def failing(*_args: object) -> int:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl if call == "flock" else os, call, failing)
    with store.turn("log") as mine:
        assert not mine
    monkeypatch.undo()
    with store.turn("no such folder") as mine:
        assert not mine
