"""A sink holds no file open that nobody will ask it to make durable."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from gapless import connect
from gapless.store.local.store import LocalStore
from support.open_files import open_below

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
SCHEMA = pa.schema([("id", pa.int64())])


def test_those_who_lose_a_race_hold_nothing_open(tmp_path: Path) -> None:
    sinks = [
        connect.sink(f"iceberg:{tmp_path}/t", pipeline="p", name="n", create={} if number == 0 else None) for number in range(4)
    ]
    for one in sinks:
        one.initialize(SCHEMA)
    with ThreadPoolExecutor(len(sinks)) as threads:
        for number in range(1, 6):
            sinks[0].write(pa.table({"id": [number]}, schema=SCHEMA))
            prepared = sinks[0].prepare(number)
            versions = list(threads.map(lambda one, prepared=prepared: one.finalize(prepared).version, sinks))
            assert len(set(versions)) == 1
    assert open_below(tmp_path) == []


def test_a_store_that_is_gone_holds_nothing_open(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_deferred("a", b"1")
    assert open_below(tmp_path) == [str(tmp_path / "a")]
    del store
    assert open_below(tmp_path) == []
    assert (tmp_path / "a").read_bytes() == b"1"
