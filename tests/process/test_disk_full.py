"""A disk that is full, read-only or forbidden, too many open files, short writes: a typed error, the table as before, writable after."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import AccessDenied, GaplessError, StorageFull, StoreError
from gapless.testing.store.case import in_child
from process.disks import can_mount, free_bytes, resize, set_writable, small_disk
from process.ledger import Append, Place, check, make_table, open_at, rows_of

PAGE = 4096
ROOMY = 64 << 20
pytestmark = pytest.mark.filterwarnings("ignore:the log checkpoint:gapless.errors.LogWarning")
"""One that found no room is a warning: the commit stands."""

THERE: list[Append] = [("w", 0), ("w", 1)]
VICTIM: Append = ("w", 2)
AFTER: Append = ("w", 3)


@pytest.fixture
def disk(tmp_path: Path, require: Callable[[object, str], None]) -> Iterator[Path]:
    require(can_mount(), "a small disk needs root and the right to mount")
    with small_disk(tmp_path / "disk", ROOMY) as folder:
        yield folder


def _table(folder: Path) -> Place:
    """Two appends; the third would write a log checkpoint."""
    place: Place = str(folder / "table"), {}
    table = make_table(place, checkpoint_interval=4)
    for append in THERE:
        table.append(rows_of(append), operation_id=append)
    return place


def _append(place: Place, append: Append) -> None:
    open_at(place).append(rows_of(append), operation_id=append)


def _is_as_before(place: Place, *, version: int) -> None:
    found = check(place, THERE)
    assert found.version == version
    assert found.orphans == (), "what was written for a refused append takes up the room that is missing"
    hidden = [name for _, _, names in os.walk(place[0]) for name in names if name.endswith(".tmp")]
    assert hidden == []


def _works_again(place: Place, *landed: Append) -> None:
    _append(place, VICTIM)
    _append(place, AFTER)
    check(place, [*THERE, *landed, VICTIM, AFTER])


def _sweep(place: Place, disk: Path, act: Callable[[], object], step: int) -> tuple[int, int]:
    """Do `act` on a disk with 0, `step`, … bytes left until it succeeds; how often it failed, and with how much room it succeeded."""
    version = open_at(place).version
    room = 0
    while True:
        resize(disk, _used(disk) + room)
        try:
            act()
        except StorageFull as error:
            assert error.fix.startswith("Free space")  # noqa: PT017 - one of two good ends
            _is_as_before(place, version=version)
        else:
            resize(disk, ROOMY)
            return room // step, room
        room += step


def _used(disk: Path) -> int:
    resize(disk, ROOMY)
    return ROOMY - free_bytes(disk)


def test_a_full_disk_at_every_size_at_which_an_append_can_die(disk: Path) -> None:
    """tmpfs gives out whole pages, so a step of one page is every size there is."""
    place = _table(disk)
    failed, room = _sweep(place, disk, lambda: _append(place, VICTIM), PAGE)
    assert failed >= 1
    check(place, [*THERE, VICTIM])
    _works_again(place)
    print(f"an append needs {room} bytes; {failed} smaller rooms: StorageFull each time, the table as before")


@pytest.mark.parametrize("step", [4 * PAGE, pytest.param(PAGE, marks=pytest.mark.soak)])
def test_a_full_disk_while_a_large_append_writes_several_objects(disk: Path, step: int) -> None:
    """Coverage too large for the commit goes to a sidecar: segment, sidecar and commit can each be what finds no room."""
    place = _table(disk)
    appends: list[Append] = [(f"v{writer}", number) for writer in range(40) for number in range(0, 200, 3)]
    tables = [rows_of(append) for append in appends]
    data = pa.concat_tables(tables)
    failed, room = _sweep(place, disk, lambda: open_at(place).append(data), step)
    assert failed >= 5
    check(place, [*THERE, *appends])
    _works_again(place, *appends)
    print(f"a large append needs {room} bytes; {failed} smaller rooms: StorageFull each time, the table as before")


def test_a_full_disk_leaves_a_handle_usable(disk: Path) -> None:
    place = _table(disk)
    table = open_at(place)
    resize(disk, _used(disk))
    for _ in range(3):
        with pytest.raises(StorageFull):
            table.append(rows_of(VICTIM), operation_id=VICTIM)
    assert table.scan().count() == 20
    resize(disk, ROOMY)
    assert not table.append(rows_of(VICTIM), operation_id=VICTIM).already_applied
    check(place, [*THERE, VICTIM])


def test_a_full_disk_under_appends_that_share_a_commit(disk: Path) -> None:
    place = _table(disk)
    table = open_at(place)
    resize(disk, _used(disk) + PAGE)
    results: dict[int, BaseException | None] = {}

    def run(number: int) -> None:
        try:
            table.append(rows_of((f"t{number}", 0)))
        except GaplessError as error:
            results[number] = error
        else:
            results[number] = None

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(results[number]) for number in range(8)] == [StorageFull] * 8
    resize(disk, ROOMY)
    _is_as_before(place, version=3)
    _works_again(place)


def test_create_on_a_full_disk(disk: Path) -> None:
    place: Place = str(disk / "table"), {}
    for room in range(0, 8 * PAGE, PAGE):
        filler = disk / "filler"
        resize(disk, PAGE * 4)
        with suppress(OSError), filler.open("wb") as file:
            file.write(bytes(max(0, free_bytes(disk) - room)))
        try:
            make_table(place)
        except StorageFull:
            filler.unlink()
            assert not (Path(place[0]) / "_timeseries_log" / "0000000001.json").exists()
            shutil.rmtree(place[0], ignore_errors=True)
        else:
            break
    resize(disk, ROOMY)
    open_at(place).append(rows_of(VICTIM))
    check(place, [VICTIM])
    assert room >= PAGE, "no size was too small"


def test_a_disk_that_turns_read_only(disk: Path) -> None:
    place = _table(disk)
    table = open_at(place)
    set_writable(disk, writable=False)
    try:
        with pytest.raises(AccessDenied, match=r"read-only|permission"):
            table.append(rows_of(VICTIM), operation_id=VICTIM)
        with pytest.raises(AccessDenied):
            make_table((str(disk / "other"), {}))
        _is_as_before(place, version=3)
    finally:
        set_writable(disk, writable=True)
    _works_again(place)


def test_permission_lost(tmp_path: Path, require: Callable[[object, str], None]) -> None:
    """Root ignores modes, so a child gives root up."""
    require(os.geteuid() == 0, "giving up root needs root")
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    place = _table(folder)

    def act() -> None:
        table = open_at(place)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        with pytest.raises(AccessDenied) as caught:
            table.append(rows_of(VICTIM))
        assert "permission" in str(caught.value)
        assert caught.value.path.startswith(("data/", "_staged/"))  # the first write may be the probe

    # The folders above belong to root alone.
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(above.stat().st_mode | 0o011)
    assert in_child(act) == 0
    _is_as_before(place, version=3)
    _works_again(place)


@contextmanager
def _few_files(spare: int) -> Iterator[None]:
    """At most `spare` more files can be opened."""
    held = os.open(os.devnull, os.O_RDONLY)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(link.name) for link in Path("/proc/self/fd").iterdir())
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + spare, hard))
    try:
        with suppress(OSError):
            while True:
                fillers.append(os.dup(held))
        for _ in range(spare):
            os.close(fillers.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one in (*fillers, held):
            os.close(one)


@pytest.mark.parametrize("spare", [0, 1])
def test_too_many_open_files(tmp_path: Path, spare: int) -> None:
    place = _table(tmp_path)
    table = open_at(place)
    with _few_files(spare):
        try:
            table.append(rows_of(VICTIM), operation_id=VICTIM)
        except StoreError as error:
            refused: StoreError | None = error
        else:
            refused = None
    if spare == 0:
        assert refused is not None
        assert "Too many files are open" in str(refused)
    if refused is None:
        check(place, [*THERE, VICTIM])
    else:
        check(place, THERE)
    _works_again(place)


def _cut(limit: int) -> Callable[..., int]:
    """An `os.write` that writes at most `limit` bytes of each call, and says so: as pipes, NFS and signals do."""
    real = os.write
    return lambda handle, data: real(handle, data[:limit])


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _table(tmp_path)
    cut = _cut(100)
    monkeypatch.setattr(os, "write", cut)
    monkeypatch.setattr(os, "writev", lambda handle, pieces: cut(handle, b"".join(pieces)))
    _append(place, VICTIM)
    monkeypatch.undo()
    check(place, [*THERE, VICTIM])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, 0])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_write_that_fails_after_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, number: int) -> None:
    """Half of the `number`-th write, then an error, or (0) a write of nothing, as /dev/full and broken drivers answer."""
    place = _table(tmp_path)
    real, calls = os.write, [0]

    def write(handle: int, data: Any) -> int:
        calls[0] += 1
        if calls[0] == number:
            return real(handle, data[: len(data) // 2])
        if calls[0] == number + 1 and code == 0:
            return 0
        if calls[0] == number + 1:
            raise OSError(code, os.strerror(code))
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "writev", lambda handle, pieces: write(handle, b"".join(pieces)))
    failed = None
    try:
        _append(place, VICTIM)
    except StoreError as error:
        failed = error
    monkeypatch.undo()
    landed = check(place, THERE, [VICTIM]).present - set(THERE)
    assert bool(landed) is (failed is None), "a commit that was written is acknowledged, and no other"
    assert (failed is not None) is (number <= 2 and not (number == 2 and code == errno.EIO)), (
        "segment and commit are what counts"
    )
    _works_again(place)
