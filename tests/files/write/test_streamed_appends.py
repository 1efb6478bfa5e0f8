"""A large append reaches the disk while it is encoded, and is the same append: whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import StoreError
from gapless.store.local.temp_files import BegunFile

ROWS = 30_000


def rows(start: int = 0) -> pa.Table:
    dice = np.random.default_rng(2)
    return pa.table(
        {
            "ts": pa.array((start + np.arange(ROWS) // 3) * 1_000_000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.array(["A", "B", "C"])[np.arange(ROWS) % 3]),
            "price": dice.normal(100, 1, ROWS),
            "note": pa.array([None if n % 3 else f"note {n}" for n in range(ROWS)]),
        }
    )


def create(root: Path, **properties: Any) -> gl.TimeSeriesTable:
    return gl.create(root, index="ts", entity=["symbol"], bucket="1m", properties=properties)


def stored(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in (root / "data").iterdir()]


@pytest.mark.parametrize("codec", ["fastest", "balanced"])
def test_the_bytes_and_what_the_log_says_are_those_of_an_append_that_is_held(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for name, limit in (("held", 1 << 40), ("streamed", 1)):
        monkeypatch.setattr("gapless.files.write.staged_write.STREAMED_BYTES", limit)
        table = create(tmp_path / name, codec=codec)
        table.append(rows())
        (segment,) = table.segments()
        told.append((segment.rows, segment.size, segment.checksum, segment.footer_checksum, dict(segment.stats)))
        assert table.verify().ok
    assert told[0] == told[1]
    assert stored(tmp_path / "held") == stored(tmp_path / "streamed")
    wanted = rows().sort_by([("symbol", "ascending"), ("ts", "ascending")])
    assert pq.read_table(next((tmp_path / "streamed" / "data").iterdir())).equals(wanted.cast(table.schema))


def failing(at: int, act: Callable[..., Any]) -> Callable[..., Any]:
    """The act, which fails the n-th time as on a full disk."""
    calls = iter(range(1_000))

    def sometimes(*args: Any) -> Any:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return act(*args)

    return sometimes


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_disk_that_fills_up_meanwhile_leaves_the_table_as_it_was(
    tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.files.write.staged_write.STREAMED_BYTES", 1)
    table = create(tmp_path / "t")
    table.append(rows())
    before, version = stored(tmp_path / "t"), table.version
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", failing(at, os.writev))
        with pytest.raises(StoreError, match="data/"):
            table.append(rows(1_000_000))
    assert stored(tmp_path / "t") == before
    assert (table.version, gl.open(tmp_path / "t").count()) == (version, ROWS)
    table.append(rows(1_000_000))
    assert gl.open(tmp_path / "t").count() == 2 * ROWS


def test_rows_that_cannot_be_encoded_leave_nothing_of_the_file_that_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.files.write.staged_write.STREAMED_BYTES", 1)
    table = create(tmp_path / "t")
    table.append(rows())
    discarded: list[BegunFile] = []
    honest = BegunFile.discard

    def discard(self: BegunFile) -> None:
        discarded.append(self)
        honest(self)

    monkeypatch.setattr(BegunFile, "discard", discard)

    def refuse(*_: Any) -> None:
        raise RuntimeError("not these")

    with monkeypatch.context() as patch:
        patch.setattr("gapless.files.write.parallel_writer.chunk_of", refuse)
        with pytest.raises(RuntimeError, match="not these"):
            table.append(rows(1_000_000))
    assert len(discarded) == 1
    assert len(stored(tmp_path / "t")) == 1


def test_a_store_that_takes_objects_whole_is_given_them_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.files.write.staged_write.STREAMED_BYTES", 1)
    table = gl.create("memory://streamed", index="ts", entity=["symbol"], bucket="1m")
    table.append(rows())
    assert table.count() == ROWS
