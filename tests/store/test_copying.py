"""What copies of files rest on: shared blocks where there are any, and a hint to the disk that changes nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from pathlib import Path

import pytest

from gapless.store.local import temp_files
from gapless.store.local.file_system import clone_file
from gapless.store.local.temp_files import begin_write_back


def test_a_file_system_that_shares_no_blocks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").write_bytes(b"abc")
    asked: list[int] = []

    def refuse(_copy: int, request: int, _source: int) -> None:
        asked.append(request)
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    with (tmp_path / "one").open("rb") as source, (tmp_path / "two").open("wb") as copy:
        assert not clone_file(source.fileno(), copy.fileno())
    assert asked == [0x40049409]
    assert (tmp_path / "two").read_bytes() == b""


def test_a_clone_is_the_whole_file_or_none_of_it(tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    (tmp_path / "one").write_bytes(data)
    with (tmp_path / "one").open("rb") as source, (tmp_path / "two").open("wb") as copy:
        cloned = clone_file(source.fileno(), copy.fileno())
    assert (tmp_path / "two").read_bytes() == (data if cloned else b"")


def test_two_files_that_are_one_kind_of_thing_are_not_cloned(tmp_path: Path) -> None:
    (tmp_path / "two").write_bytes(b"")
    reader, writer = os.pipe()
    try:
        with (tmp_path / "two").open("r+b") as copy:
            assert not clone_file(reader, copy.fileno())
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_hint_changes_no_byte_and_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    temp_files._send_range.cache_clear()
    try:
        with (tmp_path / "one").open("wb", buffering=0) as file:
            file.write(b"abc" * 10_000)
            begin_write_back(file.fileno(), 0, 30_000)
            begin_write_back(file.fileno(), 10_000, 1 << 40)
            file.write(b"d")
        begin_write_back(-1, 0, 1)
    finally:
        monkeypatch.undo()
        temp_files._send_range.cache_clear()
    assert (tmp_path / "one").read_bytes() == b"abc" * 10_000 + b"d"
