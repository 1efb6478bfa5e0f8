"""What a local disk does to a store beyond the contract: it fills up, refuses, tears, and lacks operations."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import AccessDenied, CorruptTable, ObjectExists, ObjectNotFound, StorageFull, StoreError, StoreUnavailable
from gapless.store.local import file_system
from gapless.store.local import store as local
from gapless.store.local.store import LocalStore
from gapless.testing.store.case import in_child, race

NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "table")


def files(root: str | Path) -> list[str]:
    """All files below a folder, hidden ones too."""
    return sorted(str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file())


def failing(code: int) -> Callable[..., Any]:
    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


# The primitives of a put


def _without(monkeypatch: pytest.MonkeyPatch, code: int, *, renames: bool) -> None:
    monkeypatch.setattr(os, "link", failing(code))
    if not renames:
        monkeypatch.setattr(file_system, "_exclusive_rename", lambda: None)


@pytest.mark.parametrize("renames", [True, False])
@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.EPERM, errno.ENOSYS, errno.EMLINK])
def test_log_07_without_links_one_of_two_racing_creates_wins(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int, renames: bool
) -> None:
    _without(monkeypatch, code, renames=renames)
    if not renames:
        monkeypatch.setattr(os, "rename", failing(errno.ENOSYS))
    monkeypatch.setattr(os, "replace", failing(errno.ENOSYS))  # a create may never replace
    for version in range(20):
        path = f"log/{version}.json"
        data = [bytes([65 + n]) * 5000 for n in range(2)]
        won = race(ObjectExists, [lambda d=d, p=path: LocalStore(store.url).put(p, d) for d in data])  # type: ignore[misc] # mypy knows no defaults of lambdas
        assert len(won) == 1
        assert store.get(path) == data[won[0]]
    assert files(store.url) == sorted(f"log/{version}.json" for version in range(20))


def test_log_07_where_no_exclusive_primitive_exists_the_store_refuses(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, errno.ENOTSUP, renames=False)
    real = os.open

    def no_exclusive_create(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_EXCL and not str(path).endswith(".tmp"):
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", no_exclusive_create)
    with pytest.raises(StoreError, match="lacks an operation that a safe write needs"):
        store.put("log/1.json", b"x")
    assert files(store.url) == []


def test_log_07_a_torn_exclusive_create_is_removed(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, errno.ENOTSUP, renames=False)
    store.put("log/0.json", b"before")
    real, calls = os.write, []

    def tearing(handle: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) == 1:  # the temporary file is whole, the file under the final name is not
            return real(handle, data)
        if len(calls) == 2:
            return real(handle, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", tearing)
    with pytest.raises(StorageFull):
        store.put("log/1.json", b"0123456789")
    assert calls == [10, 10, 7]
    assert files(store.url) == ["log/0.json"]


def test_log_03_a_create_is_exclusive_on_the_object_itself(store: LocalStore) -> None:
    """No lock or registry beside the object decides: with nothing else on disk the second create is refused."""
    store.put("log/2.json", b"A")
    assert files(store.url) == ["log/2.json"]
    with pytest.raises(ObjectExists):
        LocalStore(store.url).put("log/2.json", b"B")
    assert store.get("log/2.json") == b"A"


def test_a_link_whose_answer_was_lost_is_ours(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link_twice(source: str, target: str) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    store.put("log/1.json", b"ours")
    assert store.get("log/1.json") == b"ours"
    with pytest.raises(ObjectExists):
        store.put("log/1.json", b"again")


def test_a_link_that_fails_otherwise_does_not_fall_back(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EIO))
    with pytest.raises(StoreUnavailable):
        store.put("a", b"x")
    assert files(store.url) == []


def test_syncs_come_in_the_order_that_survives_a_power_cut(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    names: dict[int, str] = {}
    opening = os.open

    def note(path: Any) -> str:
        text = os.path.relpath(path, store.url)
        return "temp" if text.endswith(".tmp") else text

    def opened(path: Any, *args: Any, **kwargs: Any) -> int:
        handle = opening(path, *args, **kwargs)
        names[handle] = note(path)
        return handle

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            answer = real(*args)
            steps.append(
                f"{name} {names[args[0]] if isinstance(args[0], int) else note(args[-1] if name != 'mkdir' else args[0])}"
            )
            return answer

        return call

    monkeypatch.setattr(os, "open", opened)
    for name in ("fsync", "link", "mkdir", "replace"):
        monkeypatch.setattr(os, name, noting(name, getattr(os, name)))
    store.put("log/1.json", b"x")
    made = ["mkdir .", "fsync ..", "mkdir log", "fsync ."]
    assert steps == [*made, "fsync temp", "link log/1.json", "fsync log", "fsync ."]
    steps.clear()
    store.put("log/2.json", b"x")
    assert steps == ["fsync temp", "link log/2.json", "fsync log"]
    steps.clear()
    store.put("log/CURRENT", b"2\n", mode="overwrite")
    assert steps == ["fsync temp", "replace log/CURRENT", "fsync log"]
    steps.clear()
    store.put("hints/CURRENT", b"2\n", mode="overwrite", durable=False)
    assert steps == ["mkdir hints", "replace hints/CURRENT"]


def test_a_folder_that_cannot_be_synced_leaves_the_effect_unknown(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"1")
    monkeypatch.setattr(local, "sync_folder", failing(errno.EIO))
    with pytest.raises(StoreUnavailable, match="power cut"):
        store.put("b", b"2")
    assert store.get("b") == b"2"


def test_a_file_system_without_folder_syncs_is_fine(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda h: failing(errno.EINVAL)() if stat.S_ISDIR(os.fstat(h).st_mode) else real(h))
    store.put("a/b", b"1")
    assert store.get("a/b") == b"1"


# Disks that are full, read-only or closed


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EFBIG, StorageFull),
        (errno.EACCES, AccessDenied),
        (errno.EROFS, AccessDenied),
        (errno.EMFILE, StoreError),
        (errno.ENFILE, StoreError),
        (errno.EIO, StoreUnavailable),
        (errno.ESTALE, StoreUnavailable),
        (errno.EBUSY, StoreError),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "fsync", "mkdir"])
def test_a_failing_call_leaves_nothing_and_is_typed(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str, code: int, error: type[StoreError], links: bool
) -> None:
    if not links:
        _without(monkeypatch, errno.ENOTSUP, renames=False)
    monkeypatch.setattr(os, call, failing(code))
    with pytest.raises(error) as caught:
        store.put("data/a", b"x" * 1000)
    assert caught.value.path == "data/a"
    assert store.url in caught.value.what
    assert os.strerror(code) in caught.value.what
    assert caught.value.why
    assert caught.value.fix
    monkeypatch.undo()
    assert files(Path(store.url).parent) == []


def test_a_short_write_is_continued(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:7]))
    store.put("a", b"0123456789" * 3)
    assert store.get("a") == b"0123456789" * 3


@pytest.mark.parametrize("lie", [0, 4])
def test_a_write_that_stops_or_lies_is_an_error(store: LocalStore, monkeypatch: pytest.MonkeyPatch, lie: int) -> None:
    """`os.write` answers 0, or counts bytes that the file does not get."""
    monkeypatch.setattr(os, "write", lambda _handle, _data: lie)
    with pytest.raises(StoreError):
        store.put("a", b"0123")
    assert files(store.url) == []


def test_an_error_when_closing_is_an_error_of_the_write(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS tells of a full disk when a file is closed."""
    real = os.close

    def close(handle: int) -> None:
        real(handle)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "close", close)
    with pytest.raises(StorageFull):
        store.put("a", b"x")
    monkeypatch.undo()
    assert files(store.url) == []


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = Path(tempfile.mkdtemp())
    mounted = os.geteuid() == 0 and shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], check=False, capture_output=True
    ).returncode == 0  # fmt: skip
    if not mounted:
        place.rmdir()
        pytest.skip("only root can mount a small file system; the monkeypatched tests above cover ENOSPC")
    yield place
    subprocess.run(["umount", str(place)], check=True)
    place.rmdir()


@pytest.mark.parametrize("mode", ["create", "overwrite"])
@pytest.mark.parametrize("links", [True, False])
def test_a_full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, links: bool) -> None:
    if not links:
        _without(monkeypatch, errno.ENOTSUP, renames=False)
    store = LocalStore(small_disk / "table")
    store.put("a", b"a" * 10_000)
    with pytest.raises(StorageFull, match="No space left on device"):
        store.put("b", bytes(1 << 20), mode=mode)
    with pytest.raises(StorageFull):
        store.put("a", bytes(1 << 20), mode="overwrite")
    assert files(small_disk) == ["table/a"]
    assert store.get("a") == b"a" * 10_000
    store.put("b", bytes(20_000), mode=mode)
    assert len(store.get("b")) == 20_000


def _as_nobody(act: Callable[[], None]) -> int:
    def run() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        act()

    return in_child(run)


@pytest.fixture
def read_only() -> Iterator[LocalStore]:
    """A store with one object, whose folders and files nobody may write; not below `tmp_path`, which others may not enter."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    store = LocalStore(place / "table")
    store.put("data/a", b"0123456789")
    changed = [Path(store.url, "data"), Path(store.url)]
    Path(store.url, "data", "a").chmod(0o444)
    for folder in changed:
        folder.chmod(0o555)
    yield store
    for folder in reversed(changed):
        folder.chmod(0o755)
    shutil.rmtree(place)


def test_path_15_reading_needs_no_write(read_only: LocalStore) -> None:
    def act() -> None:
        assert read_only.get("data/a") == b"0123456789"
        assert read_only.get("data/a", -3, 2) == b"78"
        assert read_only.head("data/a").size == 10
        assert [info.path for info in read_only.list()] == ["data/a"]

    assert _as_nobody(act) == 0


def test_path_15_writing_gives_one_clear_error_and_leaves_nothing(read_only: LocalStore) -> None:
    def act() -> None:
        calls: list[Callable[[], None]] = [
            lambda: read_only.put("data/b", b"x"),
            lambda: read_only.put("new/b", b"x"),
            lambda: read_only.put("data/a", b"x", mode="overwrite"),
            lambda: read_only.delete("data/a"),
        ]
        for call in calls:
            with pytest.raises(AccessDenied, match="Permission denied"):
                call()

    assert _as_nobody(act) == 0
    assert files(read_only.url) == ["data/a"]
    assert read_only.get("data/a") == b"0123456789"


def test_a_folder_that_may_not_be_read_is_not_skipped(read_only: LocalStore) -> None:
    Path(read_only.url, "data").chmod(0o000)

    def act() -> None:
        with pytest.raises(AccessDenied):
            list(read_only.list())
        with pytest.raises(AccessDenied):
            read_only.get("data/a")

    assert _as_nobody(act) == 0


# Crashes


@pytest.mark.parametrize("step", ["write", "fsync", "link", "unlink"])
def test_a_crash_leaves_the_old_state_or_the_new_and_hidden_files(store: LocalStore, step: str) -> None:
    store.put("log/1.json", b"one")

    def crash_at(*_args: Any, **_kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def act() -> None:
        setattr(os, step, crash_at)
        store.put("log/2.json", b"two")

    assert in_child(act) == signal.SIGKILL
    landed = step == "unlink"
    assert [info.path for info in store.list()] == ["log/1.json", "log/2.json"][: 2 if landed else 1]
    left = [name for name in files(store.url) if name not in ("log/1.json", "log/2.json")]
    assert len(left) == 1
    assert Path(left[0]).name.startswith(".")
    assert left[0].endswith(".tmp")
    if landed:
        assert store.get("log/2.json") == b"two"
    else:
        store.put("log/2.json", b"two again")
        assert store.get("log/2.json") == b"two again"


def test_an_interrupt_leaves_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put("a", b"x")
    assert files(store.url) == []


# Names, links and folders


@pytest.mark.parametrize("path", ["n" * 256, "é" * 128, "/".join(["n" * 200] * 25)])
def test_path_13_a_name_that_is_too_long(store: LocalStore, path: str) -> None:
    for call in (lambda: store.put(path, b"x"), lambda: store.get(path), lambda: store.head(path), lambda: store.delete(path)):
        with pytest.raises(StoreError, match="longer than the file system allows") as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFound)
    assert files(store.url) == []


def test_path_05_backslashes_and_drives_are_plain_characters(store: LocalStore) -> None:
    for path in (r"data\a.parquet", "C:/x", r"\\server\share\t", "12:30"):
        if not path.startswith("/"):
            store.put(path, path.encode())
            assert store.get(path) == path.encode()
    assert [info.path for info in store.list()] == sorted([r"data\a.parquet", "C:/x", r"\\server\share\t", "12:30"])


def test_names_that_are_no_text_are_listed_and_read(store: LocalStore) -> None:
    store.put("a", b"")
    Path(store.url, os.fsdecode(b"caf\xe9")).write_bytes(b"latin 1")
    (_, odd) = store.list()
    assert store.get(odd.path) == b"latin 1"


def test_a_root_behind_a_link_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    link = tmp_path / "link"
    link.symlink_to("first")
    store = LocalStore(link)
    link.unlink()
    link.symlink_to("second")
    store.put("a", b"x")
    assert files(tmp_path / "first") == ["a"]
    assert store.url == str(tmp_path / "first")


def test_linked_files_are_objects_and_linked_folders_are_not_followed(store: LocalStore, tmp_path: Path) -> None:
    store.put("data/a", b"1")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "b").write_bytes(b"22")
    Path(store.url, "data", "b").symlink_to(tmp_path / "out" / "b")
    Path(store.url, "data", "out").symlink_to(tmp_path / "out")
    Path(store.url, "data", "loop").symlink_to(store.url)
    Path(store.url, "data", "broken").symlink_to("nothing")
    assert [(info.path, info.size) for info in store.list()] == [("data/a", 1), ("data/b", 2)]
    assert store.get("data/b") == b"22"
    with pytest.raises(ObjectNotFound):
        store.get("data/broken")


def test_a_file_stands_where_a_folder_is_needed(store: LocalStore) -> None:
    store.put("a", b"")
    with pytest.raises(StoreError, match="A file stands where a folder is needed"):
        store.put("a/b/c", b"")
    with pytest.raises(StoreError, match="A file stands where a folder is needed"):
        store.put("a/b", b"")


@pytest.mark.parametrize("mode", ["create", "overwrite"])
def test_a_folder_stands_where_an_object_is_put(store: LocalStore, mode: Any) -> None:
    store.put("a/b", b"")
    with pytest.raises(StoreError, match="a folder where a file is") as caught:
        store.put("a", b"", mode=mode)
    assert not isinstance(caught.value, ObjectExists)
    assert files(store.url) == ["a/b"]


def test_a_file_that_gets_shorter_while_it_is_read(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, count, start: real(handle, min(count, max(0, 6 - start)), start))
    assert store.get("a", 1, 5) == b"12345"
    with pytest.raises(CorruptTable, match="it ends at byte 6 of 10"):
        store.get("a")


def test_a_read_in_parts(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, count, start: real(handle, min(count, 3), start))
    assert store.get("a") == b"0123456789"
    assert store.get("a", 2, 7) == b"2345678"


def test_the_temporary_file_lies_beside_its_target(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename between file systems would not be atomic; a mount below the root is one."""
    seen: list[tuple[str, str]] = []
    real = os.link

    def link(source: str, target: str) -> None:
        seen.append((source, target))
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    store.put("data/deep/a", b"x")
    assert [Path(a).parent for a, _ in seen] == [Path(b).parent for _, b in seen]


def test_files_follow_the_umask(store: LocalStore) -> None:
    before = os.umask(0o027)
    try:
        store.put("data/a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(store.url, "data/a").stat().st_mode) == 0o640
    assert stat.S_IMODE(Path(store.url, "data").stat().st_mode) == 0o750


def test_open_files_are_closed(store: LocalStore) -> None:
    store.put("a", b"0123456789")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        store.get("a")
        with pytest.raises(CorruptTable):
            store.get("a", 11)
        with pytest.raises(ObjectExists):
            store.put("a", b"")
        store.put("a", b"0123456789", mode="overwrite")
        list(store.list())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
