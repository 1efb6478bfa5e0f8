"""Taking turns: a courtesy among the writers of one machine, which ends by itself and which nothing rests on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gapless.errors import ObjectExists
from gapless.model.protocols import WriterQueue, takes_turns
from gapless.store.local import queue
from gapless.store.local import store as local
from gapless.store.local.store import LocalStore
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


def take(line: WriterQueue) -> bool:
    """Wait for one's turn; whether it came."""
    while line.wait():
        assert not line.mine
    return line.mine


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
    with store.turn("log") as line:
        assert is_free(store), "who has not asked yet waits for no one and holds no one up"
        assert take(line)
        assert not is_free(store)
        store.put("log/1", b"x")
        assert is_free(store)
        assert not line.mine
    with contextlib.suppress(KeyError), store.turn("log") as line:
        assert take(line)
        store.put("log/CURRENT", b"1", mode="overwrite", durable=False)
        assert not is_free(store)
        raise KeyError
    assert is_free(store)


def test_a_create_that_is_refused_does_not_end_it(store: LocalStore) -> None:
    with store.turn("log") as line:
        assert take(line)
        with pytest.raises(Exception, match="exists already"):
            store.put("log/0", b"x")
        assert not is_free(store)
        assert line.mine
        assert not line.wait()
    assert is_free(store)


def test_who_waits_goes_next(store: LocalStore) -> None:
    order: list[str] = []

    def second() -> None:
        with LocalStore(store.url).turn("log") as line:
            order.append(f"second {take(line)}")

    with store.turn("log") as line:
        assert take(line)
        with in_background(second) as thread:
            thread.join(0.05)
            assert order == []
            order.append("first")
            store.put("log/1", b"x")
    assert order == ["first", "second True"]


def test_where_others_went_first_one_is_asked_what_else_there_is_to_do_before_the_next_turn(store: LocalStore) -> None:
    """Done in the turn, the others would wait for it. Who met no one goes at once."""
    other = LocalStore(store.url)
    with other.turn("log") as line:
        assert not line.wait()
    with store.turn("log") as first, other.turn("log") as second:
        assert take(first)
        assert second.wait(), "at the first look"
        assert is_free(store) is False
        store.put("log/1", b"x")
        assert take(second)
    with other.turn("log") as line:
        assert line.wait()
        assert is_free(store), "it is not even looked"
        assert not line.wait()
        assert line.mine
    with other.turn("log") as line:
        assert not line.wait()
        assert line.mine


def test_who_waits_is_asked_again_and_again_what_else_there_is_to_do(store: LocalStore) -> None:
    """So that what others create can be read meanwhile."""
    with store.turn("log") as first, LocalStore(store.url).turn("log") as second:
        assert take(first)
        assert [second.wait() for _ in range(3)] == [True, True, True]
        store.put("log/1", b"x")
        assert not second.wait()
        assert second.mine


def temps(store: LocalStore, folder: str = "log") -> list[str]:
    return [info.path for info in store.unfinished(folder)]


def test_the_file_that_a_create_writes_is_opened_before_the_turn_comes(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that others do not wait for it."""
    with store.turn("log") as line:
        (draft,) = temps(store)
        assert take(line)
        with pytest.raises(ObjectExists):
            store.put("log/0", b"x")
        store.put("data/1", b"elsewhere")
        store.put("log/CURRENT", b"1", mode="overwrite", durable=False)
        with in_background(lambda: store.put("log/9", b"of another thread")):
            pass
        assert temps(store) == [draft], "none of these took it"
        with monkeypatch.context() as patch:
            patch.setattr(local, "open_temp", lambda _folder: pytest.fail("another file"))
            store.put("log/1", b"x")
        assert temps(store) == []
        store.put("log/2", b"y")
    assert [store.get(f"log/{name}") for name in (0, 1, 2, 9)] == [b"", b"x", b"y", b"of another thread"]
    assert temps(store) == temps(store, "data") == []


def test_a_file_that_no_create_took_is_removed(store: LocalStore) -> None:
    before = open_files()
    with contextlib.suppress(KeyError), store.turn("log") as line:
        assert take(line)
        assert len(temps(store)) == 1
        raise KeyError
    assert temps(store) == []
    assert open_files() == before
    with store.turn("nowhere yet") as line:
        store.put("nowhere yet/1", b"x")
    assert store.get("nowhere yet/1") == b"x"
    assert open_files() == before


def test_no_file_stays_whose_opening_is_interrupted(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def interrupted(path: str, flags: int, mode: int = 0o777) -> int:
        handle = real(path, flags, mode)
        if flags & os.O_CREAT:
            os.close(handle)
            raise KeyboardInterrupt
        return handle

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", interrupted)
        with pytest.raises(KeyboardInterrupt), store.turn("log"):
            pass
        with pytest.raises(KeyboardInterrupt):
            store.put("log/1", b"x")
    assert temps(store) == []


def test_a_file_that_someone_removed_is_opened_anew(store: LocalStore) -> None:
    """A table was removed meanwhile, and perhaps made anew; or vacuum came, long after."""
    before = open_files()
    with store.turn("log"):
        shutil.rmtree(Path(store.url) / "log")
        store.put("log/1", b"x")
    assert store.get("log/1") == b"x"
    with store.turn("log"):
        for path in temps(store):
            store.delete(path)
        store.put("log/2", b"y")
    with store.turn("log"):
        shutil.rmtree(Path(store.url) / "log")
    assert list(store.list()) == []
    assert open_files() == before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_patience_ends(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "PATIENCE_S", 0.05)
    with store.turn("log") as line, LocalStore(store.url).turn("log") as other:
        assert take(line)
        assert not take(other)
        assert not other.wait(), "it is not waited for again"
        store.put("log/1", b"x")
        assert is_free(store), "who did not get it does not end another's"


def test_who_waited_in_vain_waits_less_the_next_time(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped in its turn costs the others half a second once, and not at each of their commits."""
    found: list[float] = []

    class Hasty(queue.Waiting):
        def __init__(self, handle: int | None, patience_s: float, *, crowded: bool = False) -> None:
            found.append(patience_s)
            super().__init__(handle, patience_s / 100, crowded=crowded)

    other = LocalStore(store.url)
    with store.turn("log") as line:
        assert take(line)
        monkeypatch.setattr(queue, "Waiting", Hasty)
        for _ in range(3):
            with other.turn("log") as behind:
                assert not take(behind)
        with other.turn("log"):
            pass
    with other.turn("log") as behind:
        assert take(behind)
    with other.turn("log"):
        pass
    assert found == pytest.approx([0.5, 0.25, 0.125, 0.0625, 0.5, 0.5])


def test_a_turn_that_cannot_be_given_back_does_no_harm(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.close

    def close(handle: int) -> None:
        real(handle)
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "close", close)
    with store.turn("log") as line:
        assert take(line)


def test_a_process_that_died_or_forked_in_its_turn_holds_no_one_up(store: LocalStore) -> None:
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with LocalStore(store.url).turn("log") as line:
            take(line)
            os.write(tell, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    assert not is_free(store)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert is_free(store)
    with store.turn("log") as line:
        assert take(line)
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
    with store.turn("log") as line:
        assert not take(line)
    monkeypatch.undo()
    with store.turn("no such folder") as line:
        assert not take(line)
