"""Time travel, history and the range of a change feed, which both kinds of table share: the same questions get the same answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidTime, LogWarning, VersionNotFound

SCHEMA = pa.schema([("n", pa.int64())])


def make_series(path: str) -> gl.TimeSeriesTable:
    return gl.create(path, index="n", index_type="int64", bucket=1, schema=SCHEMA)


def make_delta(path: str) -> Any:
    return gl.delta.create(path, SCHEMA, properties={"delta.enableChangeDataFeed": True})


KINDS = [pytest.param(make_series, 1, gl.open_at, id="timeseries"), pytest.param(make_delta, 0, gl.delta.open_at, id="delta")]
every_kind = pytest.mark.parametrize(("make", "first", "open_at"), KINDS)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def filled(make: Callable[[str], Any], place: str) -> Any:
    """A table with three appends of a row after its first version."""
    table = make(place)
    for n in range(3):
        table.append({"n": [n]})
    return table


@every_kind
def test_a_version_is_found_by_number_and_by_time(make: Any, first: int, open_at: Any, place: str) -> None:
    table = filled(make, place)
    assert [table.at(first + step).count() for step in range(4)] == [0, 1, 2, 3]
    for entry in table.history():
        assert table.at(time=entry.time).version == open_at(place, time=entry.time).version == entry.version
        assert open_at(place, entry.version).count() == entry.version - first
    assert table.at(time=table.history()[-1].time + timedelta(days=1)).version == first + 3
    assert table.at(first + 1).at(first + 2).version == first + 2, "a handle of an older version knows of newer ones"


@every_kind
@pytest.mark.parametrize("how", ["at", "restore", "open_at"])
def test_what_names_no_version_is_refused(make: Any, first: int, open_at: Any, place: str, how: str) -> None:
    table = filled(make, place)
    ask = (lambda *args, **names: open_at(place, *args, **names)) if how == "open_at" else getattr(table, how)
    for version in (first - 1, first + 4):
        with pytest.raises(VersionNotFound, match=f"has versions {first} to {first + 3}") as missing:
            ask(version)
        assert missing.value.facts["version"] == version
    with pytest.raises(InvalidTime, match=f"before the table's first commit. Version {first} was committed at"):
        ask(time=table.history()[0].time - timedelta(days=1))
    with pytest.raises(InvalidTime, match="no time zone"):
        ask(time="2026-01-05T00:00")
    with pytest.raises(InvalidOption, match="asked for by nothing") as nothing:
        ask()
    with pytest.raises(InvalidOption, match="asked for by version and time"):
        ask(first, time="2026-01-05T00:00Z")
    assert nothing.value.facts["option"] == "version"
    for wrong in (True, 1.0, "1"):
        with pytest.raises(InvalidOption, match=f"whole numbers from {first}"):
            ask(wrong)
    assert table.version == first + 3, "nothing was committed"


@every_kind
def test_a_version_before_a_damaged_commit_opens_with_a_warning(make: Any, first: int, open_at: Any, place: str) -> None:
    time = filled(make, place).history()[1].time
    (last,) = (path for path in Path(place).glob(f"_*_log/*{first + 3}.json") if path.stem.isdigit())
    last.write_bytes(b"{")
    with pytest.warns(LogWarning, match="is not known"):
        assert open_at(place, first + 2).count() == 2
    with pytest.raises(gl.TableError):
        open_at(place, time=time)


@every_kind
def test_history_has_the_newest_commits_up_to_a_version(make: Any, first: int, open_at: Any, place: str) -> None:
    table = filled(make, place)
    assert [entry.version for entry in table.history()] == [first, first + 1, first + 2, first + 3]
    assert [entry.version for entry in table.history(np.int64(2))] == [first + 2, first + 3]
    assert [entry.version for entry in open_at(place, first + 1).history(1)] == [first + 1]
    assert table.history(0) == []
    times = [entry.time for entry in table.history()]
    assert times == sorted(times)
    for wrong in (-1, 1.5, "2", True):
        with pytest.raises(InvalidOption, match="limit="):
            table.history(wrong)


@every_kind
def test_a_feed_has_a_range_of_versions(make: Any, first: int, open_at: Any, place: str) -> None:
    table = filled(make, place)
    found = table.changes(first).to_arrow().to_pylist()
    assert [(row["n"], row["_change_type"], row["_commit_version"]) for row in found] == [
        (n, "insert", first + 1 + n) for n in range(3)
    ]
    assert [row["_commit_timestamp"] for row in found] == [entry.time for entry in table.history(3)]
    assert open_at(place, first + 1).changes(first + 1).count() == 1, "up to the version of the handle"
    assert table.changes(first + 4).count() == 0, "a reader that has seen all goes on there"
    assert table.changes(first, columns=[]).to_arrow().schema.names == ["_change_type", "_commit_version", "_commit_timestamp"]
    for start, end in ((first - 1, first), (first, first + 4), (first + 5, None)):
        with pytest.raises(VersionNotFound, match=f"has versions {first} to {first + 3}"):
            table.changes(start, end)
    with pytest.raises(InvalidOption, match=f"from version {first + 3} on begin after version {first + 1}"):
        table.changes(first + 3, first + 1)
