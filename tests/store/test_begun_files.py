"""A file that is put ahead piece by piece is whole under its name, or is not there."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import StorageFull, StoreError
from gapless.model.protocols import streams_writes
from gapless.store.local import temp_files
from gapless.store.local.store import LocalStore
from gapless.store.memory import MemoryStore


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_pieces_are_one_object_once_it_is_finished(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert streams_writes(store)
    assert not streams_writes(MemoryStore("m"))
    file = store.begin_deferred("data/1")
    file.write(b"one ", memoryview(b""), b"two ")
    file.write()
    file.write(memoryview(b"three"))
    assert [path.name.endswith(".tmp") for path in (tmp_path / "data").iterdir()] == [True], "no one sees it"
    assert list(store.list()) == []
    file.finish()
    assert files(tmp_path) == ["data/1"]
    assert store.get("data/1") == b"one two three"
    file.discard()
    assert store.get("data/1") == b"one two three", "it is too late for that"
    store.put_after("log/1", b"named", ["data/1"])
    assert files(tmp_path) == ["data/1", "log/1"]


def test_nothing_is_left_of_a_file_that_is_discarded(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    file = store.begin_deferred("data/1")
    file.write(b"x")
    file.discard()
    file.discard()
    assert files(tmp_path) == []
    store.put("data/1", b"another")
    assert store.get("data/1") == b"another"


@given(st.lists(st.binary(max_size=9), max_size=1_200), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_a_system_that_takes_few_bytes_at_a_time_gets_them_all_in_order(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], taken: list[int]
) -> None:
    root = tmp_path_factory.mktemp("begun")
    counts, whole = iter(taken * 1_000), os.writev

    def reluctant(handle: int, given: Sequence[memoryview]) -> int:
        assert len(given) <= 1_024, "more are refused"
        assert all(map(len, given))
        return os.write(handle, b"".join(given)[: next(counts)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "writev", reluctant)
        file = LocalStore(root).begin_deferred("f")
        file.write(*pieces)
    file.write(b"end")
    file.finish()
    assert os.writev is whole
    assert (root / "f").read_bytes() == b"".join(pieces) + b"end"


def failing(code: int) -> Any:
    def fail(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_full_disk_is_told_with_the_path_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    for broken in (failing(errno.ENOSPC), lambda *_: 0):
        monkeypatch.setattr(os, "writev", broken)
        with pytest.raises(StoreError, match="data/1"):
            store.put_deferred("data/1", b"x")
    assert files(tmp_path) == []


def test_a_file_that_is_not_even_closed_well_is_told_with_what_went_wrong_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a quota is spent a network file system may say so at each of these calls."""
    store, real = LocalStore(tmp_path), os.close

    def close(handle: int) -> None:
        real(handle)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "writev", failing(errno.EDQUOT))
    monkeypatch.setattr(os, "close", close)
    with pytest.raises(StorageFull, match="data/1"):
        store.put_deferred("data/1", b"x")
    monkeypatch.undo()
    assert files(tmp_path) == []


def test_a_file_that_lost_bytes_gets_no_name(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    file = store.begin_deferred("data/1")
    file.write(b"four")
    (temp,) = (tmp_path / "data").iterdir()
    os.truncate(temp, 3)
    with pytest.raises(StoreError, match="data/1"):
        file.finish()
    file.discard()
    assert files(tmp_path) == []


def test_the_disk_is_told_early_of_what_was_written_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(temp_files, "_EARLY_BYTES", 10)
    monkeypatch.setattr(temp_files, "begin_write_back", lambda _, start, length: told.append((start, length)))
    file = LocalStore(tmp_path).begin_deferred("data/1")
    for size in (4, 5, 1, 9, 30, 2):
        file.write(bytes(size))
    file.finish()
    assert told == [(0, 10), (10, 39)]


def test_to_tell_the_disk_early_is_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10_000)
    with path.open("rb+") as file:
        temp_files.begin_write_back(file.fileno(), 0, 10_000)
        temp_files.begin_write_back(-1, 0, 10_000)
    assert path.read_bytes() == b"x" * 10_000
