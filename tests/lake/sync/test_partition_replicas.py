"""Replicas of single partitions: what they have is read, what they lack is refused with the command that brings it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import gapless as gl
from gapless.cli.lake.commands import parse_partitions
from gapless.errors import InvalidOption, NotReplicated, SyncConflict
from gapless.lake.lake import Lake
from gapless.lake.opening import init
from gapless.lake.sync.transfer import pull
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from lake.sync.test_interrupted import interrupted

START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = [f"ts_day=2026-01-0{number}" for number in range(1, 6)]

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of duckdb


def rows(day: int, first: int = 0) -> list[dict[str, object]]:
    return [
        {"id": first + 10 * day + site, "ts": START + timedelta(days=day, hours=site), "site": "ab"[site]} for site in range(2)
    ]


@pytest.fixture
def hub(tmp_path: Path) -> tuple[Lake, Path]:
    """A table of four days in a complete snapshot, a table beside it, and the place to which both are pushed."""
    one = init(tmp_path / "one", node="one")
    one.create_table("events", partition_by=["day(ts)", "site"])
    one.create_table("other")
    one.run("other", [{"id": 1, "events": 7}])
    for day in range(4):
        one.run("events", rows(day))
    one.table("events").compact()
    one.push(tmp_path / "hub")
    return one, tmp_path / "hub"


def ids(lake: Lake, *partitions: str) -> list[int]:
    found: list[int] = (
        lake.query("SELECT id FROM events ORDER BY id", partitions={"events": list(partitions)} if partitions else None)
        .to_arrow()
        .column("id")
        .to_pylist()
    )
    return found


def files(root: Path) -> list[str]:
    """The partitions of which files lie there."""
    return sorted({path.parent.parent.name for path in root.glob("tables/events/data/snapshot=*/*/*/part-*")})


def brought(error: NotReplicated, replica: Path) -> None:
    """Do what the command says that an error names."""
    words = shlex.split(error.fix[error.fix.index("gapless lake sync pull") :])
    options = list(zip(words[6::2], words[7::2], strict=True))
    assert words[4] == str(replica)
    parts = parse_partitions([text for name, text in options if name == "--partition"])
    tables = {**dict.fromkeys(text for name, text in options if name == "--table"), **parts}
    gl.lake.pull(words[5], words[4], tables=tables)


def test_what_a_replica_has_is_read_and_what_it_lacks_is_refused(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    _, place = hub
    replica = tmp_path / "replica"
    gl.lake.pull(place, replica, tables={"events": [DAYS[0], f"{DAYS[1]}/site=b"]})
    lake = gl.lake.open(replica)
    assert lake.replica is not None
    assert (lake.replica.partitions, lake.replica.lacking) == ({"events": (DAYS[0], f"{DAYS[1]}/site=b")}, ("other",))
    assert files(replica) == DAYS[:2]
    assert len(list(replica.rglob("part-*"))) == 3
    assert ids(lake, DAYS[0]) == [0, 1]
    assert ids(lake, f"{DAYS[0]}/site=a", f"{DAYS[1]}/site=b") == [0, 11]
    assert lake.table("events").schema.names == ["id", "site", "ts"]
    assert lake.doctor(deep=True) == ()
    assert not list(replica.glob("views/*.sql"))
    assert [(one.table, one.view) for one in lake.describe().tables] == [("events", None)]
    whole: tuple[Callable[[], object], ...] = (
        lambda: ids(lake),
        lambda: lake.table("events").count(),
        lambda: lake.table("events").to_arrow(),
        lambda: lake.limited_query("SELECT 1 FROM events", fingerprints={"events": lake.table("events").fingerprint}),
    )
    for ask in whole:
        with pytest.raises(NotReplicated, match="some partitions") as lacks:
            ask()
        assert f"{replica} {place} --table events" in lacks.value.fix
    for name in (DAYS[1], f"{DAYS[1]}/site=a", DAYS[2], "ts_day=2027-01-01"):
        with pytest.raises(NotReplicated, match="no copy of the partition") as caught:
            ids(lake, DAYS[0], name)
        assert f"--partition events={name}" in caught.value.fix
    with pytest.raises(NotReplicated, match="no copy of the table 'other'"):
        lake.table("other")
    # The command brings it, and only it.
    with pytest.raises(NotReplicated) as caught:
        ids(lake, DAYS[2], f"{DAYS[1]}/site=a")
    brought(caught.value, replica)
    assert (ids(lake, *DAYS[:3]), files(replica)) == ([0, 1, 10, 11, 20, 21], DAYS[:3])
    with pytest.raises(NotReplicated) as caught:
        ids(lake)
    brought(caught.value, replica)
    assert (ids(lake), lake.replica.partitions) == ([0, 1, 10, 11, 20, 21, 30, 31], {})
    assert list(replica.glob("views/events.sql"))


def test_a_replica_goes_on_with_its_partitions(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    one, place = hub
    gl.lake.pull(place, tmp_path / "replica", tables={"events": DAYS[:1], "other": None})
    replica = gl.lake.open(tmp_path / "replica")
    # A word of the query that is a column's name is no question to the table.
    assert replica.query("SELECT events FROM other").to_arrow().to_pylist() == [{"events": 7}]
    one.run("events", rows(0, first=100))
    one.run("other", [{"id": 2}])
    one.push(place)
    report = replica.pull(place)
    assert [(table.table, table.runs, table.snapshots) for table in report.tables] == [("events", 0, 0), ("other", 1, 0)]
    assert ids(replica, DAYS[0]) == [0, 1]  # a run that no snapshot has is in no partition
    one.table("events").compact(incremental=True)
    one.push(place)
    replica.pull(place)
    assert (ids(replica, DAYS[0]), files(tmp_path / "replica")) == ([0, 1, 100, 101], DAYS[:1])
    one.table("events").compact()
    one.push(place)
    replica.pull(place)
    assert (ids(replica, DAYS[0]), files(tmp_path / "replica")) == ([0, 1, 100, 101], DAYS[:1])
    status = replica.sync_status(place)
    assert [(table.runs_to_pull, table.snapshots_to_pull) for table in status.tables] == [(0, 0), (0, 0)]
    # A replica of the replica has no more than that.
    gl.lake.pull(tmp_path / "replica", tmp_path / "second")
    assert ids(gl.lake.open(tmp_path / "second"), DAYS[0]) == [0, 1, 100, 101]
    for tables in ({"events": DAYS[1:2]}, ["events"]):
        with pytest.raises(InvalidOption, match="partial replica itself"):
            gl.lake.pull(tmp_path / "replica", tmp_path / "third", tables=tables)


def test_partitions_of_a_lake_that_has_all(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    one, place = hub
    assert ids(one, DAYS[3]) == [30, 31]
    gl.lake.pull(place, tmp_path / "replica")
    replica = gl.lake.open(tmp_path / "replica")
    with pytest.raises(InvalidOption, match="with all partitions"):
        replica.pull(place, tables={"events": DAYS[:1]})
    wrong: tuple[tuple[object, str], ...] = (
        ({"events": ["ts_day=2026-01-9"]}, "has no partition"),
        ({"events": "ts_day=2026-01-01"}, "names no partitions"),
        ({"events": []}, "names no partitions"),
        ({"events": ["today"]}, "names no partitions"),
        ({"other": ["ts_day=2026-01-01"]}, "has no partitions"),
        ("events", "is no list"),
    )
    for number, (tables, told) in enumerate(wrong):
        with pytest.raises(InvalidOption, match=told):
            gl.lake.pull(place, tmp_path / f"none{number}", tables=tables)  # type: ignore[arg-type]
        assert not list((tmp_path / f"none{number}").rglob("head.json"))
    with pytest.raises(InvalidOption, match="has no partition"):
        ids(one, "ts_day=2026-01-09")


def test_a_key_whose_newest_row_may_be_elsewhere_wants_a_complete_snapshot(tmp_path: Path) -> None:
    one = init(tmp_path / "one")
    one.create_table("events", key=["id"], partition_by=["site"])
    one.run("events", [{"id": 1, "site": "a"}, {"id": 2, "site": "a"}])
    one.table("events").compact()
    one.run("events", [{"id": 1, "site": "b"}])
    one.table("events").compact(incremental=True)
    one.push(tmp_path / "hub")
    with pytest.raises(SyncConflict, match="newer row of a key") as caught:
        gl.lake.pull(tmp_path / "hub", tmp_path / "replica", tables={"events": ["site=a"]})
    assert caught.value.tables == ("events",)
    one.table("events").compact()
    one.push(tmp_path / "hub")
    gl.lake.pull(tmp_path / "hub", tmp_path / "replica", tables={"events": ["site=a"]})
    assert ids(gl.lake.open(tmp_path / "replica"), "site=a") == [2]


def test_a_pull_of_partitions_that_ends_at_any_object(hub: tuple[Lake, Path], tmp_path: Path) -> None:
    one, place = hub
    gl.lake.pull(place, tmp_path / "before", tables={"events": DAYS[:1]})
    one.run("events", rows(0, first=100))
    one.table("events").compact()
    one.push(place)
    at = 0
    while True:
        at += 1
        copy = tmp_path / f"copy{at}"
        shutil.copytree(tmp_path / "before", copy)

        def pulled(target: Environment) -> None:
            pull(target, Environment(store=LocalStore(str(place))), tables={"events": DAYS[1:2]})

        if not interrupted(copy, at, pulled):
            break
        found = gl.lake.open(copy)
        assert found.replica is not None
        if found.replica.partitions["events"] == (DAYS[0],):
            assert ids(found, DAYS[0]) == [0, 1]
            with pytest.raises(NotReplicated):
                ids(found, DAYS[1])
        else:
            assert ids(found, *DAYS[:2]) == [0, 1, 10, 11, 100, 101]
        found.pull(place, tables={"events": DAYS[1:2]})
        assert ids(found, *DAYS[:2]) == [0, 1, 10, 11, 100, 101]
        assert [one for one in found.doctor(deep=True) if one.problem] == []
    assert at > 6
