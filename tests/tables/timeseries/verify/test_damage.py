"""Damaged tables: an error that names the file, or the exact same rows; never other rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CorruptTable
from gapless.files.write import staged_write
from gapless.store.open import open_store
from support.faulty_store import objects

_counter = itertools.count()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of two segments, with sidecars."""
    monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", 0)
    place = f"memory://damage-{next(_counter)}"
    table = gl.create(place, index="i", index_type="int64", entity=["e"], bucket=10, properties={"codec": "none"})
    table.append({"i": [1, 2, 15], "e": ["a", "b", "a"], "x": [1.5, None, -0.0], "s": ["", "text", None]})
    table.append({"i": [31], "e": ["a"], "x": [2.5], "s": ["more"]})
    return place


def stored(place: str, prefix: str) -> str:
    """The first object there."""
    return next(path for path in objects(place) if path.startswith(prefix))


def overwrite(place: str, path: str, data: bytes) -> None:
    open_store(place).put(path, data, mode="overwrite")


def rows_of(place: str, **options: Any) -> list[Any]:
    return [str(row) for row in gl.open(place).scan(**options).to_arrow().to_pylist()]


def first_segment(place: str) -> str:
    return gl.open(place).segments()[0].path


def test_every_flipped_byte_of_a_segment_is_an_error_or_changes_nothing(place: str) -> None:
    path, expected = first_segment(place), rows_of(place)
    whole = open_store(place).get(path)
    found = 0
    table = gl.open(place)
    for position in range(len(whole)):
        bad = bytearray(whole)
        bad[position] ^= 1 << position % 8
        overwrite(place, path, bytes(bad))
        try:
            rows = [str(row) for row in table.scan().to_arrow().to_pylist()]
        except CorruptTable as error:
            assert error.path == path  # noqa: PT017  # the same rows are right as well
            found += 1
        else:
            assert rows == expected, f"byte {position} of {len(whole)}"
        if position % 16 == 0:
            try:
                assert sorted(map(str, table.sql("SELECT * FROM this").to_arrow().to_pylist())) == sorted(expected)
            except CorruptTable as error:
                assert error.path == path  # noqa: PT017  # the same rows are right as well
    assert found > len(whole) * 0.9


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda _data: b"",
        lambda data: data + b"x",
        lambda data: b"x" + data[1:-1],
    ],
)
def test_a_torn_segment_is_named(place: str, change: Any) -> None:
    path = first_segment(place)
    overwrite(place, path, change(open_store(place).get(path)))
    with pytest.raises(CorruptTable) as damage:
        rows_of(place)
    assert damage.value.path == path
    with pytest.raises(CorruptTable):
        gl.open(place).sql("SELECT * FROM this").to_arrow()
    assert len(rows_of(place, start=20)) == 1, "what does not need it is read"


def test_a_missing_segment_is_named(place: str) -> None:
    path = first_segment(place)
    open_store(place).delete(path)
    with pytest.raises(CorruptTable, match="is missing") as damage:
        rows_of(place)
    assert damage.value.path == path
    assert rows_of(place, start=20)
    assert gl.open(place).coverage().covered == 4, "coverage needs no segment"
    with pytest.raises(CorruptTable):
        gl.open(place).sql("SELECT * FROM this").to_arrow()


def test_a_segment_of_another_table_is_refused(place: str) -> None:
    """A whole Parquet file, but not the one that the log means: its footer has another checksum."""
    path = first_segment(place)
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table({"i": [7], "e": ["z"], "x": [0.0], "s": ["forged"]}), sink)
    overwrite(place, path, sink.getvalue().to_pybytes())
    with pytest.raises(CorruptTable):
        rows_of(place)


@pytest.mark.parametrize(
    "change", [None, lambda _data: b"", lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1])]
)
def test_a_damaged_sidecar_is_named_and_scans_go_on(place: str, change: Any) -> None:
    path = stored(place, "_coverage/")
    store = open_store(place)
    expected = rows_of(place)
    if change is None:
        store.delete(path)
    else:
        overwrite(place, path, change(store.get(path)))
    assert rows_of(place) == expected
    with pytest.raises(CorruptTable) as damage:
        gl.open(place).coverage()
    assert damage.value.path == path


@pytest.mark.parametrize(
    "change", [lambda _data: b"", lambda data: data[:-5], lambda _data: b"null", lambda _data: b"{}", lambda _data: b"\xff\xfe"]
)
def test_a_torn_commit_is_named(place: str, change: Any) -> None:
    path = "_timeseries_log/0000000002.json"
    overwrite(place, path, change(open_store(place).get(path)))
    with pytest.raises(CorruptTable) as damage:
        gl.open(place)
    assert damage.value.path == path


@pytest.mark.parametrize("hint", [b"", b"1\n", b"2", b"garbage", b"\xff", b'{"version":', b"+3\n"])
def test_log_12_a_stale_or_torn_hint_is_only_a_hint(place: str, hint: bytes) -> None:
    overwrite(place, "_timeseries_log/CURRENT", hint)
    table = gl.open(place)
    assert table.version == 3
    table.append({"i": [99], "e": ["a"]})
    assert open_store(place).get("_timeseries_log/CURRENT") == b"4\n", "the next commit heals it"


def test_a_hint_that_leads_means_a_lost_commit(place: str) -> None:
    overwrite(place, "_timeseries_log/CURRENT", b"4\n")
    with pytest.raises(CorruptTable, match="version 4"):
        gl.open(place)


def test_stat_06_bounds_that_the_log_lacks_prune_nothing(place: str) -> None:
    """Absent statistics are neither null nor zero."""
    table = gl.open(place)
    state = table._snapshot.state
    bare = {path: replace(one, segment=replace(one.segment, stats={})) for path, one in state.live.items()}
    table._snapshot = replace(table._snapshot, state=replace(state, live=bare))
    assert table.scan(where="x > 1").count() == 2
    assert table.scan(where="x IS NULL").count() == 1
    assert table.sql("FROM this WHERE x > 1").count() == 2
