"""However the system copies, an adopted file holds the bytes of its source, synced before it has its name."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import gapless as gl
from gapless.errors import StorageFull
from gapless.files.adopt import copy_or_link


def large(path: Path) -> bytes:
    """A file of more than one stretch that the disk is told of."""
    noise = np.random.default_rng(11).bytes(9 << 20)
    data = pa.table(
        {"ts": pa.array(range(9), pa.timestamp("us", "UTC")), "raw": [noise[at << 20 : (at + 1) << 20] for at in range(9)]}
    )
    pq.write_table(data, path, compression="none", use_dictionary=False)
    return path.read_bytes()


def adopted(tmp_path: Path) -> gl.TimeSeriesTable:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append_file(tmp_path / "in.parquet", adopt="copy")
    return table


def check(table: gl.TimeSeriesTable, whole: bytes) -> None:
    (segment,) = table.segments()
    assert (Path(table.url) / segment.path).read_bytes() == whole
    assert (segment.size, segment.checksum) == (len(whole), f"xxh3-128:{xxhash.xxh3_128_hexdigest(whole)}")
    assert table.verify(deep=True).findings == ()


def test_blocks_are_shared_where_they_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = large(tmp_path / "in.parquet")

    def clone(copy: int, _request: int, source: int) -> None:
        os.write(copy, os.pread(source, 64 << 20, 0))

    monkeypatch.setattr(fcntl, "ioctl", clone)
    monkeypatch.setattr(copy_or_link._Target, "write", None)
    check(adopted(tmp_path), whole)


def test_short_writes_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, real = large(tmp_path / "in.parquet"), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: real(handle, data[: max(1, len(data) * 2 // 3)], at))
    check(adopted(tmp_path), whole)


def test_a_disk_that_takes_nothing_is_told_as_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As broken drivers answer: it is not asked for ever."""
    large(tmp_path / "in.parquet")
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(StorageFull):
        adopted(tmp_path)
    assert not list((tmp_path / "t").rglob("*.tmp"))


def test_the_disk_begins_early_and_is_waited_for_before_the_name_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = large(tmp_path / "in.parquet")
    seen: list[tuple[str, Any]] = []
    sync, rename = os.fsync, os.replace

    def begin(handle: int, start: int, size: int) -> None:
        assert os.fstat(handle).st_size == start + size
        seen.append(("begin", (start, size)))

    def synced(handle: int) -> None:
        seen.append(("sync", os.fstat(handle).st_ino))
        sync(handle)

    def named(old: str, new: str) -> None:
        seen.append(("name", Path(old).stat().st_ino))
        rename(old, new)

    monkeypatch.setattr(copy_or_link, "begin_write_back", begin)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    table = adopted(tmp_path)
    (segment,) = table.segments()
    inode = (Path(table.url) / segment.path).stat().st_ino
    begun = [what for kind, what in seen if kind == "begin"]
    assert begun == [(0, 4 << 20), (4 << 20, 4 << 20)]
    assert seen.index(("sync", inode)) < seen.index(("name", inode))
    check(table, whole)
