"""Deferred writes of files: an object that names them can be seen only once they are durable."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import ObjectExists, StorageFull, StoreError
from gapless.model.protocols import DefersWrites
from gapless.store.local import sync
from gapless.store.local import sync as ahead
from gapless.store.local.store import LocalStore
from gapless.testing.store.case import in_child
from support.open_files import open_below


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "table")


def open_files(root: str) -> int:
    """How many files below a folder this process has open."""
    return len(open_below(Path(root)))


def target_of(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())


def watch(monkeypatch: pytest.MonkeyPatch, root: str) -> list[str]:
    """From now on: the syncs, links and renames that are made, by the names of what they touch."""
    steps: list[str] = []

    def name(path: str | int) -> str:
        found = target_of(path) if isinstance(path, int) else str(path)
        return "temp" if found.endswith(".tmp") else os.path.relpath(found, root)

    def syncing(handles: Sequence[int]) -> list[OSError | None]:
        steps.append("sync " + " ".join(sorted(name(handle) for handle in handles)))
        for handle in handles:
            real_fsync(handle)
        return [None] * len(handles)

    real_fsync = os.fsync
    monkeypatch.setattr(ahead, "sync_all", syncing)
    for act in ("fsync", "link", "replace"):
        real: Callable[..., Any] = getattr(os, act)

        def noting(*args: Any, _real: Callable[..., Any] = real, _act: str = act) -> Any:
            steps.append(f"{_act} {name(args[-1])}")
            return _real(*args)

        monkeypatch.setattr(os, act, noting)
    return steps


def test_what_comes_first_is_durable_before_the_other_has_a_name(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(store, DefersWrites)
    store.put("log/0", b"")
    store.put("data/0", b"")
    steps = watch(monkeypatch, store.url)
    store.put_deferred("data/1", b"one and more")
    store.put_deferred("data/2", b"two")
    assert steps == ["replace data/1", "replace data/2"]
    assert store.get("data/1") == b"one and more"
    steps.clear()
    store.put_after("log/1", b"commit", ["data/1", "data/2", "data/0"])
    assert steps == ["sync data data/1 data/2 temp", "link log/1", "fsync log"]
    steps.clear()
    store.put_after("log/2", b"commit", ["data/1", "data/2"])
    assert steps == ["sync temp", "link log/2", "fsync log"]


def test_folders_that_are_new_are_synced_with_those_above_them(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("log/0", b"")
    store.put_deferred("data/deep/1", b"one")
    steps = watch(monkeypatch, store.url)
    store.put_after("log/1", b"commit", ["data/deep/1"])
    assert steps[0] == "sync . data data/deep data/deep/1 temp"


def test_a_lost_race_syncs_nothing_and_leaves_it_for_the_next_try(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("log/1", b"theirs")
    store.put_deferred("data/1", b"one")
    steps = watch(monkeypatch, store.url)
    with pytest.raises(ObjectExists):
        store.put_after("log/1", b"ours", ["data/1"])
    assert steps == []
    store.put_after("log/2", b"ours", ["data/1"])
    assert steps[0] == "sync . data data/1 temp"


@pytest.mark.parametrize("at", ["data/1", "data"])
def test_what_could_not_be_synced_once_never_counts_as_durable(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """After a failed sync the system forgets the error, and the next one succeeds without the data being there."""
    store.put("log/0", b"")
    store.put("data/0", b"")
    store.put_deferred("data/1", b"one")
    store.put_deferred("data/2", b"two")

    def failing(handles: Sequence[int]) -> list[OSError | None]:
        bad = [target_of(handle).endswith(at) for handle in handles]
        return [OSError(errno.EIO, "I/O error") if one else None for one in bad]

    monkeypatch.setattr(ahead, "sync_all", failing)
    with pytest.raises(StoreError, match="Input/output error") as caught:
        store.put_after("log/1", b"commit", ["data/1", "data/2"])
    assert caught.value.path == "data/1"
    monkeypatch.undo()
    with pytest.raises(StoreError):
        store.put_after("log/1", b"commit", ["data/1"])
    with pytest.raises(StoreError):
        store.settle(["data/1"])
    assert [info.path for info in store.list("log")] == ["log/0"]
    assert list(store.unfinished()) == []
    store.delete("data/1")
    store.put_after("log/1", b"commit", ["data/1"])


def test_a_full_disk_is_told_as_one(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_deferred("data/1", b"one")
    monkeypatch.setattr(ahead, "sync_all", lambda handles: [OSError(errno.ENOSPC, "full") for _ in handles])
    with pytest.raises(StorageFull):
        store.put_after("log/1", b"commit", ["data/1"])


@pytest.mark.parametrize(("code", "kind"), [(errno.EMFILE, StoreError), (errno.ENOSPC, StorageFull)])
@pytest.mark.parametrize("commits", [False, True])
def test_a_folder_that_cannot_be_opened_is_told_of_what_lies_in_it(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StoreError], *, commits: bool
) -> None:
    """Too many files are open, say: nothing was synced, and the next try may."""
    store.put("log/0", b"")
    store.put_deferred("data/1", b"one")
    real = os.open

    def failing(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECTORY:
            raise OSError(code, os.strerror(code))
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(kind) as caught:
        store.put_after("log/1", b"commit", ["data/1"]) if commits else store.settle(["data/1"])
    assert caught.value.facts["path"] == "data/1"
    assert [info.path for info in store.list("log")] == ["log/0"]
    monkeypatch.undo()
    store.put_after("log/1", b"commit", ["data/1"])
    assert open_files(store.url) == 0


def test_a_folder_that_cannot_be_closed_was_synced(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_deferred("data/1", b"one")
    real = os.close

    def close(handle: int) -> None:
        real(handle)
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "close", close)
    store.settle(["data/1"])
    monkeypatch.undo()
    assert open_files(store.url) == 0


def test_no_file_stays_open(store: LocalStore) -> None:
    store.put("log/0", b"")
    for number in range(100):
        store.put_deferred(f"data/{number}", b"x")
    assert open_files(store.url) == 100
    store.delete("data/99")
    store.settle(f"data/{number}" for number in range(50))
    assert open_files(store.url) == 49
    store.put_after("log/1", b"commit", [f"data/{number}" for number in range(100)])
    assert open_files(store.url) == 0


def test_a_store_that_is_pickled_takes_no_open_files_along(store: LocalStore) -> None:
    store.put_deferred("data/1", b"one")
    copy = pickle.loads(pickle.dumps(store))
    copy.put_after("log/1", b"commit", ["data/1"])
    store.put_after("log/2", b"commit", ["data/1"])


# Several syncs at once


def some_files(folder: Path, count: int) -> list[int]:
    handles = [os.open(folder / str(number), os.O_WRONLY | os.O_CREAT) for number in range(count)]
    for handle in handles:
        os.write(handle, b"x" * 5_000)
    return handles


def no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.fixture
def fresh_helpers() -> Iterator[None]:
    """No thread that syncs is there yet, and none is left behind for others."""
    sync._helpers.cache_clear()
    yield
    sync._helpers.cache_clear()


@pytest.mark.usefixtures("fresh_helpers")
@pytest.mark.parametrize("threads", [True, False])
def test_syncs_of_many_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: bool) -> None:
    if not threads:
        monkeypatch.setattr(threading.Thread, "start", no_thread)
    handles = [*some_files(tmp_path, 150), os.open(tmp_path, os.O_RDONLY)]
    assert sync.sync_all(handles) == [None] * 151
    assert sync.sync_all(handles[:1]) == [None]
    assert sync.sync_all([]) == []
    os.close(handles[0])
    found = sync.sync_all([*handles[1:3], handles[0], handles[3]])
    assert [error and error.errno for error in found] == [None, None, errno.EBADF, None]
    read, write = os.pipe()
    assert [error and error.errno for error in sync.sync_all([read, handles[1], write])] == [errno.EINVAL, None, errno.EINVAL]
    for handle in (*handles[1:], read, write):
        os.close(handle)


def test_a_file_and_its_folder_take_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_helpers", lambda _process: pytest.fail("a thread for two"))
    handles = some_files(tmp_path, 2)
    assert sync.sync_all(handles) == [None, None]
    os.close(handles[0])
    assert [error and error.errno for error in sync.sync_all(handles)] == [errno.EBADF, None]
    os.close(handles[1])


def test_threads_and_a_forked_child_sync_at_the_same_time(tmp_path: Path) -> None:
    found: list[list[OSError | None]] = []

    def work(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        for _ in range(20):
            handles = some_files(folder, 3)
            found.append(sync.sync_all(handles))
            for handle in handles:
                os.close(handle)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert in_child(lambda: work(9)) == 0
    assert found == [[None] * 3] * 80


@pytest.mark.usefixtures("fresh_helpers")
def test_so_many_threads_and_no_more_sync_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who finds none free syncs alone, and those that are given back serve the next."""
    real, busy, go = os.fsync, threading.Semaphore(0), threading.Event()
    callers, here = 6, set(threading.enumerate())

    def held(handle: int) -> None:
        busy.release()
        go.wait(10)
        real(handle)

    def one(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        handles = some_files(folder, 3)
        found.append(sync.sync_all(handles))
        for handle in handles:
            os.close(handle)

    found: list[list[OSError | None]] = []
    monkeypatch.setattr(os, "fsync", held)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for _ in range(callers + 8):
        assert busy.acquire(timeout=10), "each caller and each of eight helpers has a file"
    helpers = [thread for thread in threading.enumerate() if thread.name == "gapless-sync" and thread not in here]
    assert len(helpers) == 8
    go.set()
    for thread in threads:
        thread.join()
    assert found == [[None] * 3] * callers
    one(callers)
    assert found[-1] == [None] * 3
    after = [thread for thread in threading.enumerate() if thread.name == "gapless-sync" and thread not in here]
    assert after == helpers


@pytest.mark.usefixtures("fresh_helpers")
def test_a_sync_that_is_interrupted_before_a_thread_begins_waits_for_no_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_helper: object, _work: object) -> None:
        raise KeyboardInterrupt

    handles = some_files(tmp_path, 3)
    with monkeypatch.context() as patch:
        patch.setattr(sync._Helper, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sync.sync_all(handles)
    assert sync.sync_all(handles) == [None] * 3
    for handle in handles:
        os.close(handle)


def test_an_interrupted_sync_leaves_no_thread_at_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are closed next, and the next file that is opened has the number of one: its error must not go to someone else's sync."""
    main, under_way, waits, ended = threading.current_thread(), threading.Event(), threading.Event(), threading.Event()
    real = sync._Helper.wait

    def slow(_handle: int) -> None:
        if threading.current_thread() is main:
            assert under_way.wait(10)
            raise KeyboardInterrupt
        under_way.set()
        assert waits.wait(10)
        ended.set()

    def awaited(helper: sync._Helper) -> BaseException | None:
        waits.set()
        return real(helper)

    handles = some_files(tmp_path, 3)
    monkeypatch.setattr(os, "fsync", slow)
    monkeypatch.setattr(sync._Helper, "wait", awaited)
    with pytest.raises(KeyboardInterrupt):
        sync.sync_all(handles)
    assert ended.is_set()
    for handle in handles:
        os.close(handle)


class Watched:
    """A lock, taken at first, that calls a function before each wait for it."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._lock, self._before = threading.Lock(), before
        self._lock.acquire()

    def acquire(self) -> None:
        self._before()
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()


@pytest.mark.usefixtures("fresh_helpers", "interrupts")
def test_who_is_interrupted_while_others_sync_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, under_way = threading.current_thread(), threading.Barrier(3)
    waits, go, ended = iter([True, False, False]), threading.Event(), threading.Semaphore(0)

    def slow(_handle: int) -> None:
        under_way.wait(10)
        if threading.current_thread() is not main:
            assert go.wait(10)
            ended.release()

    def before_a_wait() -> None:
        if threading.current_thread() is main:
            if next(waits):
                signal.raise_signal(signal.SIGINT)
            # It waits again for the one whose wait was interrupted.
            go.set()

    handles = some_files(tmp_path, 3)
    before = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", slow)
        patch.setattr(sync, "_taken", partial(Watched, before_a_wait))
        with pytest.raises(KeyboardInterrupt):
            sync.sync_all(handles)
        assert go.is_set()
        assert ended.acquire(blocking=False)
        assert ended.acquire(blocking=False)
    assert sync.sync_all(handles) == [None] * 3
    assert threading.active_count() <= before + 2, "the same threads help again"
    for handle in handles:
        os.close(handle)


def test_a_sync_whose_outcome_is_not_known_does_not_count_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = threading.current_thread()
    met = threading.Barrier(3)

    def strange(_handle: int) -> None:
        met.wait(10)
        if threading.current_thread() is not main:
            raise MemoryError

    handles = some_files(tmp_path, 3)
    monkeypatch.setattr(os, "fsync", strange)
    with pytest.raises(MemoryError):
        sync.sync_all(handles)
    for handle in handles:
        os.close(handle)


_AT_THE_END = """
import os, sys
from gapless.store.local import sync

class Last:
    def __init__(self, folder):
        self.sync, self.handles = sync.sync_all, [os.open(f"{folder}/{n}", os.O_WRONLY | os.O_CREAT) for n in range(4)]
        self.finalizing, self.say = sys.is_finalizing, os.write
        assert self.sync(self.handles) == [None] * 4

    def __del__(self):
        assert self.finalizing()
        self.say(1, repr(self.sync(self.handles)).encode())

sys.modules["last"] = Last(sys.argv[1])
"""


def test_a_sync_while_the_program_ends_waits_for_no_thread(tmp_path: Path) -> None:
    """Those that help are gone by then."""
    command = [sys.executable, "-c", _AT_THE_END, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (found.stdout, found.stderr) == ("[None, None, None, None]", "")


_TRACED = """
import sys
import gapless as gl
table = gl.create(sys.argv[1], index="at", index_type="int64", bucket=1)
table.append({"at": [1]})
try:
    open("/append/begins")
except OSError:
    pass
table.append({"at": [2]})
try:
    open("/append/returned")
except OSError:
    pass
"""


def test_the_system_is_asked_for_syncs_in_the_order_that_a_power_cut_demands(
    tmp_path: Path, require: Callable[[object, str], None]
) -> None:
    """An append, seen from outside: data, its folder and the commit's bytes are synced before the commit has its name; its folder after."""
    probe = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False) if _has("strace") else None
    require(probe and probe.returncode == 0, "strace is not installed or may not trace")
    trace = tmp_path / "trace"
    calls = "trace=openat,write,writev,fsync,link,rename,renameat2,close"
    command = ["strace", "-f", "-y", "-e", calls, "-o", str(trace), sys.executable, "-c", _TRACED, str(tmp_path / "table")]
    subprocess.run(command, check=True, capture_output=True)
    lines = [line.partition(" ")[2].strip() for line in trace.read_text().splitlines()]
    begin, end = (next(i for i, line in enumerate(lines) if word in line) for word in ("/append/begins", "/append/returned"))
    append = lines[begin:end]

    def first(*words: str, start: int = 0) -> int:
        return next(i for i, line in enumerate(append) if i >= start and all(word in line for word in words))

    data, folder = str(tmp_path / "table" / "data"), str(tmp_path / "table" / "_timeseries_log")
    written = first("writev(", f"{data}/.")
    named = first("rename(", f"{data}/", ".parquet", start=written)
    commit = first("link(", "0000000003.json", start=named)
    begun = sorted(line.partition("<")[2].partition(">")[0] for line in append[named:commit] if "fsync(" in line)
    assert [Path(name).suffix for name in begun] == [".tmp", "", ".parquet"]
    assert [name.startswith(f"{folder}/.") for name in begun] == [True, False, False]
    assert begun[1] == data
    assert begun[2].startswith(f"{data}/")
    ended = [line for line in append[named:commit] if line.endswith("= 0") and "fsync" in line]
    assert len(ended) == len(begun) == 3
    assert first("fsync(", f"<{folder}>", start=commit) < len(append)


def _has(command: str) -> bool:
    return shutil.which(command) is not None
