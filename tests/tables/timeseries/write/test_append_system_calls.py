"""An append of which one system call after the other fails: all or nothing, no open file left, and durable where it returns."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import GaplessError, StoreUnavailable

CALLS = ("open", "write", "fsync", "link", "replace", "unlink", "close")
LOG = "_timeseries_log"


@dataclass
class Disk:
    """Counts this process's system calls below a folder, and lets call number `failing` fail with `error`."""

    root: str
    failing: int = 0
    error: BaseException = field(default_factory=lambda: OSError(errno.EIO, os.strerror(errno.EIO)))
    done: list[tuple[str, str]] = field(default_factory=list)
    """The calls that succeeded, by name and path."""
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    names: dict[int, str] = field(default_factory=dict)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in CALLS:
            real: Callable[..., Any] = getattr(os, name)
            monkeypatch.setattr(os, name, lambda *args, _n=name, _r=real, **more: self.call(_n, _r, *args, **more))

    def call(self, name: str, real: Callable[..., Any], *args: Any, **more: Any) -> Any:
        path = self.names.get(args[0], "") if isinstance(args[0], int) else str(args[1 if name in ("link", "replace") else 0])
        if not path.startswith(self.root):
            return real(*args, **more)
        with self.lock:
            self.count += 1
            fails = self.count == self.failing
        if fails and name != "close":
            raise self.error
        found = real(*args, **more)
        if fails:
            raise self.error
        if name == "open":
            self.names[found] = path
        self.done.append((name, os.path.relpath(path, self.root)))
        return found


def open_below(root: str) -> list[str]:
    found = [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]
    return [path for path in found if path.startswith(root)]


def make(place: Path) -> None:
    table = gl.create(place, index="i", index_type="int64", bucket=1)
    table.append({"i": [1]})


def test_a_failing_system_call_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "origin")
    place, number, count = tmp_path / "table", 0, 1
    while number < count:
        number += 1
        shutil.copytree(tmp_path / "origin", place)
        table, disk = gl.open(place), Disk(str(place), number)
        returned = False
        with monkeypatch.context() as patched:
            disk.watch(patched)
            try:
                table.append({"i": [2]})
                returned = True
            except GaplessError:
                pass
        count = max(count, disk.count)
        assert open_below(str(place)) == [], number
        again = gl.open(place)
        assert again.verify(deep=True).problems == (), number
        commit = next((at for at, (name, path) in enumerate(disk.done) if name == "link" and path.startswith(f"{LOG}/0")), None)
        rows = again.scan().to_arrow()["i"].to_pylist()
        assert rows == ([1] if commit is None else [1, 2]), number
        if returned:
            assert commit is not None, number
            assert ("fsync", LOG) in disk.done[commit:], f"call {number}: a power cut could take back what was told"
        shutil.rmtree(place)
    assert number > 20


def test_a_commit_whose_name_may_not_last_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    table, real = gl.open(tmp_path), os.fsync

    def fsync(handle: int) -> None:
        if str(Path(f"/proc/self/fd/{handle}").readlink()).endswith(LOG):
            raise OSError(errno.EIO, "I/O error")
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(StoreUnavailable, match="power cut"):
            table.append({"i": [2]})
    assert table.refresh().scan().to_arrow()["i"].to_pylist() == [1, 2], "nothing was deleted"
    table.append({"i": [3]})
    assert gl.open(tmp_path).verify(deep=True).problems == ()


def test_an_append_that_is_interrupted_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    table = gl.open(tmp_path)

    def interrupted(*_args: object, **_more: object) -> None:
        raise KeyboardInterrupt

    for act in ("link", "fsync"):
        with monkeypatch.context() as patched:
            patched.setattr(os, act, interrupted)
            with pytest.raises(KeyboardInterrupt):
                table.append({"i": [2]})
        assert open_below(str(tmp_path)) == []
    table.append({"i": [2]})
    assert table.count() == 2
