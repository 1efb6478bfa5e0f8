"""Sources of dlt as sources of runs: records, dlt's state as the cursor, and nothing that dlt stores or sends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import dlt
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, NotSupported, UnreadableInput
from gapless.lake.lake import Lake
from gapless.lake.run import RunReport

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(number: int) -> dict[str, Any]:
    return {"id": number, "updated": START + timedelta(hours=number)}


class Tracker:
    """A service of records that were updated, which come newest first, as many services give them."""

    def __init__(self) -> None:
        self.records = [record(number) for number in range(6)]
        self.asked: list[datetime | None] = []
        self.fails_behind: int | None = None

    def resource(self, **hints: Any) -> Any:
        @dlt.resource(name="issues", primary_key="id", **hints)
        def issues(updated: Any = dlt.sources.incremental("updated", initial_value=START)) -> Iterator[Any]:  # noqa: B008
            self.asked.append(updated.last_value)
            newest_first = [one for one in reversed(self.records) if one["updated"] >= updated.last_value]
            for at in range(0, len(newest_first), 2):
                if self.fails_behind is not None and at >= self.fails_behind:
                    raise ConnectionError("the password hunter2 is wrong")
                yield newest_first[at : at + 2]

        return issues


def ids(lake: Lake, table: str = "issues") -> list[int]:
    found: list[int] = lake.query(f"SELECT id FROM {table} ORDER BY id").to_arrow().column("id").to_pylist()
    return found


def test_an_incremental_cursor_of_dlt_is_ours(lake: Lake, tmp_path: Path) -> None:
    tracker = Tracker()
    lake.create_table("issues")

    def run() -> RunReport:
        # As another process would: nothing is known but what the lake has.
        return gl.lake.open(tmp_path / "lake").run("issues", gl.lake.dlt_source(tracker.resource()))

    assert (run().rows, run().rows) == (6, 0)
    tracker.records += [record(6), record(7)]
    report = run()
    assert (report.rows, ids(lake)) == (2, list(range(8)))
    assert tracker.asked == [START, START + timedelta(hours=5), START + timedelta(hours=5)]
    state = json.loads(report.cursor)["sources"]
    assert next(iter(state.values()))["resources"]["issues"]["incremental"]["updated"]["last_value"].endswith(
        "2026-01-01T07:00:00+00:00"
    )
    assert lake.table("issues").manifests()[0].source == "dlt:issues"


def test_a_resource_that_fails_keeps_nothing_and_begins_there_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest records come first: behind the first page dlt's state is past all records, also those that never came."""
    monkeypatch.setattr("gapless.lake.sources.dlt_source.CHUNK_ROWS", 2)
    tracker = Tracker()
    table = lake.create_table("issues")
    for behind in (0, 2, 4):
        tracker.fails_behind = behind
        with pytest.raises(UnreadableInput, match="failed: ConnectionError") as caught:
            lake.run("issues", gl.lake.dlt_source(tracker.resource()))
        assert "hunter2" not in str(caught.value)
        assert (table.manifests(), table.cursor()) == ((), None)
    tracker.fails_behind = None
    assert (lake.run("issues", gl.lake.dlt_source(tracker.resource())).rows, ids(lake)) == (6, list(range(6)))


def test_the_lease_is_renewed_while_records_come_slowly(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.lake.sources.dlt_source.CHUNK_S", 0.0)
    lake.create_table("issues")
    told = list[gl.lake.RunProgress]()
    report = lake.run("issues", gl.lake.dlt_source(Tracker().resource()), progress=told.append)
    assert [(one.rows, one.cursor) for one in told] == [(one, None) for one in range(1, 6)] + [(6, report.cursor)]


@dlt.resource
def counters() -> Iterator[dict[str, int]]:
    state = dlt.current.resource_state()
    first = state.get("next", 0)
    for number in range(first, first + 2):
        state["next"] = number + 1
        yield {"n": number}


@dlt.transformer(data_from=counters)
def doubled(item: dict[str, int]) -> Iterator[dict[str, int]]:
    yield {"n": item["n"], "twice": 2 * item["n"]}


@dlt.source(name="numbers")
def numbers(first: int = 0) -> Any:
    seen = dlt.current.source_state().get("resources", {}).get("counters", {}).get("next")

    @dlt.resource
    def told() -> Iterator[dict[str, Any]]:
        yield {"first": first, "seen": seen}

    return counters, doubled, told


def test_resources_of_sources_with_their_state_and_arguments(lake: Lake) -> None:
    for name in ("a", "b", "c"):
        lake.create_table(name)
    for _ in range(2):
        lake.run("a", gl.lake.dlt_source(numbers, resource="counters"))
        lake.run("b", gl.lake.dlt_source(doubled))
        lake.run("c", gl.lake.dlt_source(numbers, resource="told", first=7), pipeline="told")
    assert lake.query("SELECT n FROM a ORDER BY n").to_arrow().column("n").to_pylist() == [0, 1, 2, 3]
    assert lake.query("SELECT twice FROM b ORDER BY n").to_arrow().column("twice").to_pylist() == [0, 2, 4, 6]
    assert lake.query("SELECT DISTINCT first FROM c").to_arrow().column("first").to_pylist() == [7]
    # A source that reads its state as it is called is called with it.
    lake.create_table("d")
    for _ in range(2):
        lake.run("d", gl.lake.dlt_source(source_with_state))
    assert sorted(lake.query("SELECT called, n FROM d ORDER BY n").to_arrow().to_pylist(), key=lambda row: row["n"]) == [
        {"called": 0, "n": 0},
        {"called": 1, "n": 1},
    ]


@dlt.source
def source_with_state() -> Any:
    called = dlt.current.source_state().get("calls", 0)

    @dlt.resource
    def calls() -> Iterator[dict[str, int]]:
        dlt.current.source_state()["calls"] = called + 1
        yield {"called": called, "n": called}

    return calls


def test_tables_of_arrow_and_times_of_pendulum(lake: Lake) -> None:
    pendulum = pytest.importorskip("pendulum")

    @dlt.resource
    def mixed() -> Iterator[Any]:
        yield {"id": 0, "when": pendulum.datetime(2026, 1, 1, tz="Europe/Berlin")}
        yield pa.table({"id": [1, 2]})
        yield pa.table({"id": pa.array([], pa.int64())})

    lake.create_table("issues")
    report = lake.run("issues", gl.lake.dlt_source(mixed))
    assert (report.rows, ids(lake)) == (3, [0, 1, 2])
    assert lake.query('SELECT epoch("when")::BIGINT AS s FROM issues WHERE id = 0').to_arrow().column("s").to_pylist() == [
        int(datetime(2025, 12, 31, 23, tzinfo=UTC).timestamp())
    ]
    # The last item had no rows: the state is behind those before it.
    assert report.cursor is not None


def test_a_page_without_columns_may_be_the_last(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.lake.sources.dlt_source.CHUNK_ROWS", 1)
    lake.create_table("issues")
    report = lake.run("issues", gl.lake.dlt_source(dlt.resource([{"id": 1}, {}], name="odd")))
    assert (report.rows, ids(lake)) == (1, [1])
    assert report.cursor is not None


def test_what_would_be_other_rows_than_those_of_dlt_is_refused(lake: Lake) -> None:
    lake.create_table("issues")
    several = dlt.resource([{"id": 1, "kind": "a"}], name="events", table_name=lambda row: row["kind"])
    for made, told in ((several, "dynamic table names"), (Tracker().resource(write_disposition="replace"), "replace")):
        with pytest.raises(NotSupported) as caught:
            lake.run("issues", gl.lake.dlt_source(made))
        assert told in caught.value.feature


def test_what_is_no_source_of_dlt_or_none_alone(lake: Lake) -> None:
    lake.create_table("issues")
    with pytest.raises(InvalidOption, match=r"neither @dlt\.source"):
        gl.lake.dlt_source(os.system)
    with pytest.raises(InvalidOption, match="Name it: resource='counters'"):
        lake.run("issues", gl.lake.dlt_source(numbers))
    with pytest.raises(InvalidOption, match="Did you mean 'counters'"):
        lake.run("issues", gl.lake.dlt_source(numbers, resource="counter"))
    with pytest.raises(InvalidOption, match="cannot be called with thrid"):
        lake.run("issues", gl.lake.dlt_source(numbers, resource="told", thrid=1))
    with pytest.raises(InvalidOption, match="a source of dlt"):
        lake.run("issues", gl.lake.dlt_source(counters), cursor=gl.lake.Monotonic(column="n"))


MODULE = """
import socket

import dlt


def refuse(*_args):
    raise SystemExit("dlt connects")


socket.socket.connect = socket.create_connection = refuse


@dlt.source
def tracker(token: str = dlt.secrets.value, rows: int = 1):
    @dlt.resource
    def issues():
        first = dlt.current.resource_state().setdefault("next", 0)
        yield [{"id": first + number, "long": len(token)} for number in range(rows)]
        dlt.current.resource_state()["next"] = first + rows

    return issues


plain = print
"""


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A lake with a pipeline of dlt, beside the module; and an environment with a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "trackers.py").write_text(MODULE)
    gl.lake.init(tmp_path / "books")
    with (tmp_path / "books/lake.toml").open("a") as config:
        config.write(
            dedent("""
            [[pipeline]]
            name = "issues"
            table = "issues"
            source = { dlt = "trackers:tracker", resource = "issues" }
            options = { token = "${TRACKER_TOKEN}", rows = 3 }
            """)
        )
    return tmp_path, dict(os.environ) | {"HOME": str(home), "TRACKER_TOKEN": "hunter2", "PYTHONDONTWRITEBYTECODE": "1"}


def lake_command(place: Path, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    script = Path(sys.executable).with_name("gapless")
    return subprocess.run([script, "lake", *words], cwd=place, env=env, capture_output=True, text=True, check=False)


def test_a_pipeline_of_dlt_in_lake_toml(place: tuple[Path, dict[str, str]]) -> None:
    """In processes of their own: dlt connects nowhere and writes nothing, and the secret is in no file."""
    folder, env = place
    before = {path for path in folder.rglob("*") if "books" not in path.parts}
    for _ in range(2):
        ended = lake_command(folder, env, "run", "books")
        assert (ended.returncode, ended.stdout.startswith("issues: 3 rows into issues")) == (0, True), ended.stderr
    lake = gl.lake.open(folder / "books")
    assert ids(lake) == list(range(6))
    assert lake.table("issues").manifests()[0].source == "dlt:trackers:tracker"
    assert {path for path in folder.rglob("*") if "books" not in path.parts} == before
    assert [path for path in folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('dlt = "trackers:tracker"', 'dlt = "trackers"', "module:function"),
        ('dlt = "trackers:tracker"', 'dlt = "trackerz:tracker"', "Neither an installed"),
        ('dlt = "trackers:tracker"', 'dlt = "trackers:track"', "Did you mean 'tracker'"),
        ('dlt = "trackers:tracker"', 'dlt = "trackers:plain"', "neither @dlt.source"),
        ('dlt = "trackers:tracker"', 'dlt = "os:system"', "neither @dlt.source"),
        ('dlt = "trackers:tracker"', 'dtl = "trackers:tracker"', "Did you mean 'dlt'"),
        ('resource = "issues"', 'resource = "issue"', "Did you mean 'issues'"),
        ("rows = 3", "row = 3", "cannot be called with"),
        ('token = "${TRACKER_TOKEN}", ', "", "lacks"),
    ],
)
def test_what_a_pipeline_of_dlt_lacks_is_told(place: tuple[Path, dict[str, str]], old: str, new: str, told: str) -> None:
    folder, env = place
    config = folder / "books/lake.toml"
    config.write_text(config.read_text().replace(old, new))
    ended = lake_command(folder, env, "run", "books")
    assert (ended.returncode in (1, 2), told in ended.stderr, "Traceback" in ended.stderr) == (True, True, False), ended.stderr


def test_without_dlt_it_is_said_how_to_get_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dlt", None)
    with pytest.raises(NotSupported, match=r"pip install 'gapless\[dlt\]'"):
        gl.lake.dlt_source(counters)
    plan = gl.lake.parse_plan(json.dumps({"name": "p", "table": "t", "source": {"dlt": "trackers:tracker"}}), "plan.json")
    with pytest.raises(NotSupported, match=r"pip install 'gapless\[dlt\]'"):
        lake.run_plan(plan)
