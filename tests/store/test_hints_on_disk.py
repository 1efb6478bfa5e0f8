"""Hints on a local disk: the last digit of one is changed in place; whatever else it is to say goes into another file."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gapless.store.local.store import LocalStore
from gapless.testing.store.case import race


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "table")


def files(root: str | Path) -> list[str]:
    """All files below a folder, hidden ones too."""
    return sorted(str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file())


def hint(store: LocalStore, data: bytes) -> bool:
    """Put a hint; whether the file that has its name is the one that had it before."""
    target = Path(store.url, "CURRENT")
    before = target.lstat().st_ino if target.exists() else None
    # A number may be given to the next file: it is kept from that.
    with target.open("rb") if before else contextlib.nullcontext():
        store.put("CURRENT", data, mode="overwrite", durable=False)
        assert store.get("CURRENT") == data
        assert files(store.url) == ["CURRENT"]
        return target.lstat().st_ino == before


def test_a_hint_whose_last_digit_changes_stays_the_file_that_it_is(store: LocalStore) -> None:
    """A file for each would cost more than all else that a hint does."""
    kept = [hint(store, b"%d\n" % number) for number in range(1, 121)]
    assert [number for number, same in enumerate(kept, 1) if not same] == [1, *range(10, 121, 10)]
    assert hint(store, b"120\n")
    assert hint(store, b"121\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"11\n", b"21\n"),
        (b"11\n", b"22\n"),
        (b"11\n", b"11 "),
        (b"11\n", b"1\n"),
        (b"1\n", b"11\n"),
        (b"1\n", b"1"),
        (b"1", b"2"),
        (b"", b"2"),
        (b"2", b""),
        (b"12345", b"123456"),
    ],
)
def test_a_hint_that_says_anything_else_is_another_file(store: LocalStore, before: bytes, after: bytes) -> None:
    """Of a file in which more than one byte changes, a reader could see half; and two writers could make of it what neither said."""
    hint(store, before)
    assert not hint(store, after)


def test_a_hint_that_someone_keeps_under_another_name_is_not_changed(store: LocalStore, tmp_path: Path) -> None:
    hint(store, b"1\n")
    os.link(Path(store.url, "CURRENT"), tmp_path / "backup")
    assert not hint(store, b"2\n")
    assert (tmp_path / "backup").read_bytes() == b"1\n"


def test_a_hint_that_is_a_link_is_replaced(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"1\n")
    hint(store, b"0\n")
    Path(store.url, "CURRENT").unlink()
    Path(store.url, "CURRENT").symlink_to(tmp_path / "elsewhere")
    store.put("CURRENT", b"2\n", mode="overwrite", durable=False)
    assert not Path(store.url, "CURRENT").is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == b"1\n"


@pytest.mark.parametrize("call", ["pread", "pwrite", "fstat"])
def test_a_hint_that_cannot_be_changed_is_replaced(store: LocalStore, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    hint(store, b"1\n")
    real = getattr(os, call)
    first = [True]

    def once(*args: Any) -> Any:
        if first.pop() if first else False:
            raise OSError(errno.EIO, "I/O error")
        return real(*args)

    monkeypatch.setattr(os, call, once)
    assert not hint(store, b"2\n")


def test_a_durable_overwrite_changes_no_file_in_place(store: LocalStore) -> None:
    hint(store, b"1\n")
    before = Path(store.url, "CURRENT").stat().st_ino
    os.link(Path(store.url, "CURRENT"), Path(store.url, "kept"))
    store.put("CURRENT", b"2\n", mode="overwrite")
    assert Path(store.url, "CURRENT").stat().st_ino != before


def test_many_writers_of_a_hint_leave_what_one_of_them_said(store: LocalStore) -> None:
    """They change one file's last digit while others give its name to another: no reader ever sees what no one said."""
    said = {b"%d\n" % number for number in range(100, 140)}
    seen: set[bytes] = set()
    store.put("CURRENT", b"100\n", mode="overwrite", durable=False)

    def write(start: int) -> None:
        mine = LocalStore(store.url)
        for number in range(start, 140, 4):
            mine.put("CURRENT", b"%d\n" % number, mode="overwrite", durable=False)
            seen.add(store.get("CURRENT"))

    race(KeyError, [lambda number=number: write(100 + number) for number in range(4)])  # type: ignore[misc]
    assert seen <= said
    assert store.get("CURRENT") in said
    assert files(store.url) == ["CURRENT"]
