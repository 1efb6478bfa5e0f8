"""Handles, views and what they give, pickled into another process and copied within one."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import GaplessError, NotSupported, TableNotFound, VersionNotFound
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.handle import open_environment
from gapless.tables.timeseries.lifecycle import open_table

START = datetime(2026, 1, 1)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string())])

Copied = Callable[[Any], Any]


def rows(hour: int) -> dict[str, list[Any]]:
    return {"ts": [START + timedelta(hours=hour)], "k": ["a"]}


def series(path: Path | str) -> gl.TimeSeriesTable:
    """Version 1 is empty; versions 2 to 4 add a row each."""
    table = gl.create(path, index="ts", bucket="1h", entity="k", schema=SCHEMA)
    for hour in (0, 1, 4):
        table.append(rows(hour))
    return table


def delta(path: Path | str) -> gl.delta.DeltaTable:
    """Version 0 is empty; versions 1 to 3 add a row each."""
    table = gl.delta.create(path, SCHEMA)
    for hour in (0, 1, 4):
        table.append(rows(hour))
    return table


def there_and_back(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


_ELSEWHERE = """
import json, pickle, sys
from datetime import datetime
found = pickle.load(sys.stdin.buffer)
answer = {}
for name, one in found.items():
    answer[name] = [type(one).__name__, one.version, one.name, one.url, one.count(), one.scan().to_arrow().num_rows]
rows = {"ts": [datetime(2026, 2, 1)], "k": ["b"]}
answer["written"] = [found[name].append(rows).version for name in ("series", "delta")]
json.dump(answer, sys.stdout)
"""


def elsewhere(script: str, thing: Any) -> Any:
    """What a fresh process answers, which has nothing of this one but the pickle."""
    done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(thing), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_handles_and_views_come_to_another_process_as_place_and_version(tmp_path: Path) -> None:
    at, there = str(tmp_path / "s"), str(tmp_path / "d")
    ours, theirs = series(at), delta(there)
    behind, behind_delta = gl.open(at), gl.delta.open(there)
    ours.append(rows(5))
    theirs.append(rows(5))
    sent = {
        "series": behind,
        "delta": behind_delta,
        "view": ours.at(3),
        "delta_view": theirs.at(2),
        "opened_at": gl.open_at(at, 2),
        "delta_opened_at": gl.delta.open_at(there, 1),
    }
    answer = elsewhere(_ELSEWHERE, sent)
    assert answer["series"] == ["TimeSeriesTable", 4, "s", at, 3, 3], "as it stood, and not at the newest version"
    assert answer["delta"] == ["DeltaTable", 3, "d", there, 3, 3]
    assert answer["view"] == ["TableView", 3, "s", at, 2, 2]
    assert answer["delta_view"][1:] == [2, "d", there, 2, 2]
    assert answer["opened_at"] == ["TableView", 2, "s", at, 1, 1]
    assert answer["delta_opened_at"][1:] == [1, "d", there, 1, 1]
    assert answer["written"] == [6, 5], "it can be written to"


def test_a_handle_goes_on_by_itself_after_it_was_pickled(tmp_path: Path) -> None:
    for table, newest in ((series(tmp_path / "s"), 5), (delta(tmp_path / "d"), 4)):
        copied = there_and_back(table)
        copied.append(rows(6))
        assert (copied.version, table.version) == (newest, newest - 1)
        assert (copied.refresh().count(), table.refresh().count()) == (4, 4)


@pytest.mark.parametrize("copied", [there_and_back, copy.copy, copy.deepcopy])
def test_a_copy_is_at_the_same_version_and_shares_no_state(tmp_path: Path, copied: Copied) -> None:
    for table in (series(tmp_path / "s"), delta(tmp_path / "d")):
        for one in (table, table.at(2)):
            again = copied(one)
            assert type(again) is type(one)
            assert again is not one
            assert (again.version, again.url, again.name, again.count()) == (one.version, one.url, one.name, one.count())
            assert again.scan().to_arrow().equals(one.scan().to_arrow())
            assert there_and_back(again).version == one.version, "once more"
        moved = copied(table)
        moved.append(rows(7))
        assert moved.version == table.version + 1
        assert isinstance(copied(table.at(2)), gl.TableView | DeltaView)


def test_the_name_of_a_table_and_the_right_to_upgrade_it_go_along(tmp_path: Path) -> None:
    series(tmp_path / "a table")
    table = gl.open(tmp_path / "a table", upgrade=True)
    for copied in (there_and_back, copy.copy, copy.deepcopy):
        again = copied(table)
        assert again.name == "a table"
        assert again.sql('select count(*) as n from "a table"').to_arrow()["n"].to_pylist() == [3]
        assert again._upgrade is True
        assert there_and_back(gl.open(tmp_path / "a table"))._upgrade is False


@pytest.mark.parametrize("make", [series, delta])
def test_a_table_in_memory_is_copied_here_and_goes_nowhere_else(make: Callable[[str], Any]) -> None:
    table = make(f"memory://pickled-{make.__name__}")
    for one in (table, table.at(2)):
        with pytest.raises(NotSupported, match=r"memory://pickled-.* cannot be pickled.*no other process sees it.*on disk"):
            pickle.dumps(one)
        for again in (copy.copy(one), copy.deepcopy(one)):
            assert (again.version, again.count()) == (one.version, one.count())
    copied = copy.deepcopy(table)
    copied.append(rows(9))
    assert table.refresh().count() == 4, "it is the same table"


def test_a_version_that_is_expired_meanwhile_is_refused(tmp_path: Path) -> None:
    table = series(tmp_path / "s")
    sent = pickle.dumps(table.at(2))
    table.expire(keep_versions=1)
    with pytest.raises(VersionNotFound, match="version 2 can be read no longer"):
        pickle.loads(sent)


@pytest.mark.parametrize("make", [series, delta])
def test_another_table_in_its_place_is_not_taken_for_it(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    table = make(tmp_path / "t")
    sent = [pickle.dumps(one) for one in (table, table.at(1))]
    shutil.rmtree(tmp_path / "t")
    for one in sent:
        with pytest.raises(TableNotFound):
            pickle.loads(one)
    make(tmp_path / "t")
    for one in sent:
        with pytest.raises(VersionNotFound, match="another one made in its place"):
            pickle.loads(one)


def test_rows_that_are_not_read_yet_are_refused_with_what_to_send(tmp_path: Path) -> None:
    table, other = series(tmp_path / "s"), delta(tmp_path / "d")
    lazy = (
        table.scan(),
        table.sql("select 1 as n"),
        table.changes(1),
        table.diff(1).rows(),
        other.scan(),
        other.sql("select 1 as n"),
    )
    for one in lazy:
        with pytest.raises(NotSupported, match=r"cannot be pickled.*Send the table, or table.at\(version\).*to_arrow\(\)"):
            pickle.dumps(one)
        assert copy.copy(one).to_arrow().equals(copy.deepcopy(one).to_arrow())


def test_what_a_table_says_of_itself_is_pickled_as_a_value(tmp_path: Path) -> None:
    table, other = series(tmp_path / "s"), delta(tmp_path / "d")
    report = table.append(rows(8))
    values = (report, table.history(), other.history(), table.segments(), other.files(), table.index, table.properties)
    for one in values:
        assert there_and_back(one) == one
    difference = there_and_back(table.diff(1, 3))
    assert difference.rows().to_arrow().equals(table.diff(1, 3).rows().to_arrow())
    merge = other.merge(pa.table({"ts": [START], "k": ["a"]}, SCHEMA), "t.ts = s.ts").when_matched_delete()
    assert there_and_back(merge).execute().deleted_rows == 1
    assert other.refresh().count() == 2


@pytest.mark.parametrize("bucket", ["1h", "1mo", "1d"])
@pytest.mark.parametrize("timezone", [None, "Europe/Berlin"])
def test_coverage_is_pickled_as_a_value(bucket: str, timezone: str | None) -> None:
    table = gl.create(f"memory://covered-{bucket}-{timezone}", index="ts", bucket=bucket, entity="k", timezone=timezone)
    zone = "Z" if timezone else ""
    times = pa.array(
        [START, START + timedelta(hours=5), START + timedelta(days=100)], pa.timestamp("us", "UTC" if zone else None)
    )
    table.append(pa.table({"ts": times, "k": ["a", "a", "a"]}))
    for calendar in (None, "mon-fri 09:30-16:00"):
        covered = table.coverage(f"2026-01-01T00:00{zone}", f"2026-06-01T00:00{zone}", calendar=calendar)
        for again in (there_and_back(covered), copy.copy(covered), copy.deepcopy(covered)):
            assert again.gaps() == covered.gaps() != []
            assert (again.ratio, again.identities, again.spans) == (covered.ratio, covered.identities, covered.spans)


def test_sinks_and_sources_are_pickled_until_they_are_at_work(tmp_path: Path) -> None:
    delta(tmp_path / "d")
    url = f"delta:{tmp_path / 'd'}"
    source = there_and_back(gl.connect.source(url))
    assert sum(batch.num_rows for batch in source.poll()) == 3
    with pytest.raises(NotSupported, match=r"a source that is started.*Send its cursor"):
        pickle.dumps(source)
    resumed = there_and_back(gl.connect.source(url))
    resumed.start(there_and_back(source.cursor))
    assert not list(resumed.poll())

    sink = there_and_back(gl.connect.sink(url, pipeline="p", name="n"))
    sink.initialize(SCHEMA)
    sink.write(pa.table(rows(7), SCHEMA))
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(NotSupported, match=r"a sink that is initialized.*commit them twice"):
            copied(sink)
    sink.finalize(there_and_back(sink.prepare(1)))
    assert gl.delta.open(tmp_path / "d").count() == 4


def test_every_refusal_comes_to_another_process_whole() -> None:
    with pytest.raises(GaplessError) as refused:
        pickle.dumps(series("memory://refused"))
    again = there_and_back(refused.value)
    assert (str(again), again.feature) == (str(refused.value), "pickling of what lies in memory")


def test_an_environment_is_pickled_with_its_store(tmp_path: Path) -> None:
    series(tmp_path / "s")
    env = there_and_back(open_environment(tmp_path / "s", None))
    assert open_table(env, "s").version == 4
