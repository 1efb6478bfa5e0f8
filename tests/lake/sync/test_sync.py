"""Two nodes, a place in between and replicas: what comes together, what is refused, and what each copy says of itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import (
    CommitConflict,
    CorruptTable,
    InvalidOption,
    InvalidPath,
    NotReplicated,
    NotSupported,
    ReadOnlyReplica,
    SyncConflict,
    TableNotFound,
)
from gapless.lake.lake import Lake
from gapless.lake.opening import init
from gapless.lake.sync.report import SyncReport
from lake.sync.copies import fill, hours, read_by_others, state

Two = tuple[Lake, Lake, Path]


@pytest.fixture
def nodes(tmp_path: Path) -> Two:
    """A lake, another node's copy of it, and the place that both push to."""
    one = init(tmp_path / "one", node="one")
    one.create_table("events")
    one.create_table("orders", key=["id"])
    one.run("events", [{"id": 1}])
    one.run("orders", [{"id": 1, "v": 1}])
    one.push(tmp_path / "hub")
    gl.lake.pull(tmp_path / "hub", tmp_path / "two", writable=True)
    return one, gl.lake.open(tmp_path / "two", node="two"), tmp_path / "hub"


def ids(lake: Lake, table: str = "events") -> list[int]:
    return sorted(lake.table(table).to_arrow().column("id").to_pylist())


def conflict(copy: Callable[[], SyncReport]) -> tuple[str, str]:
    with pytest.raises(SyncConflict) as caught:
        copy()
    report = caught.value.report
    assert isinstance(report, SyncReport)
    (one,) = report.conflicts
    assert caught.value.tables == (one.table or "lake.toml",)
    return one.kind, one.what


def test_nodes_that_wrote_apart_come_together(nodes: Two) -> None:
    one, two, hub = nodes
    one.run("events", [{"id": 2}])
    two.run("events", [{"id": 3}])
    one.run("orders", [{"id": 1, "v": 2}])
    two.run("orders", [{"id": 1, "v": 3}])
    two.table("events").compact()
    one.table("events").compact()
    assert not one.sync_status(hub).in_sync
    for node in (one, two, one):
        node.push(hub)
        node.pull(hub)
    assert ids(one) == ids(two) == [1, 2, 3]
    assert one.table("orders").to_arrow().to_pylist() == two.table("orders").to_arrow().to_pylist() == [{"id": 1, "v": 3}]
    assert one.sync_status(hub).in_sync
    assert two.sync_status(hub).in_sync
    assert one.push(hub).tables[0].objects == 0
    assert not list(hub.glob("meta.sqlite*"))
    # Directly, too: both are lakes that runs write into.
    one.run("events", [{"id": 4}])
    two.pull(one.url)
    assert ids(two) == [1, 2, 3, 4]
    with pytest.raises(NotSupported, match="runs may write into"):
        one.push(two.url)


def test_runs_that_are_in_no_newest_snapshot_are_not_lost(nodes: Two) -> None:
    one, two, hub = nodes
    for node, number in ((one, 2), (two, 3)):
        node.run("events", [{"id": number}])
        node.table("events").compact()
        node.table("events").expire(keep_s=-1)
    one.push(hub)
    before = state_of(hub)
    assert conflict(lambda: two.push(hub))[0] == "snapshots"
    assert state_of(hub)["events"] == before["events"] == [1, 2]
    assert conflict(lambda: two.pull(hub))[0] == "snapshots"
    assert ids(two) == [1, 3]


def state_of(hub: Path) -> dict[str, list[int]]:
    copy = hub.parent / f"copy{len(list(hub.parent.iterdir()))}"
    gl.lake.pull(hub, copy)
    lake = gl.lake.open(copy)
    return {name: ids(lake, name) for name in lake.tables()}


def test_columns_that_went_on_apart_are_refused_for_that_table_alone(nodes: Two) -> None:
    one, two, hub = nodes
    one.run("events", [{"id": 2, "a": 1}])
    two.run("events", [{"id": 3, "b": "x"}])
    two.run("orders", [{"id": 2, "v": 1}])
    one.push(hub)
    kind, what = conflict(lambda: two.push(hub))
    assert (kind, "both sides" in what) == ("schema", True)
    assert state_of(hub) == {"events": [1, 2], "orders": [1, 2]}
    (events,) = [table for table in two.sync_status(hub).tables if table.table == "events"]
    assert events.columns == "diverged"
    assert events.conflict
    # What only one side went on with is brought over.
    one.pull(hub)
    one.run("orders", [{"id": 3, "v": 1, "more": "m"}])
    one.push(hub)
    with pytest.raises(SyncConflict):
        two.pull(hub)
    assert two.table("orders").schema.names == ["id", "v", "more"]
    assert ids(two, "orders") == [1, 2, 3]


def test_columns_that_went_on_apart_are_reconciled(nodes: Two, tmp_path: Path) -> None:
    one, two, hub = nodes
    one.run("events", [{"id": 2, "a": 1, "same": 1}])
    one.run("events", [{"id": 3, "a": "text", "same": 1}])
    two.run("events", [{"id": 4, "b": "x", "same": 2.5, "a": 7}])
    two.table("events").compact()
    two.run("events", [{"id": 5, "b": "y", "c": 1}])
    one.push(hub)
    assert not two.table("orders").reconcile(hub).changed
    with pytest.raises(NotSupported, match="wider type"):
        two.table("events").reconcile(hub)  # of int64 and double no number holds all
    one.run("events", [{"id": 6, "same": 0.5}])
    one.push(hub)
    report = two.table("events").reconcile(hub)
    assert (report.changed, report.renumbered) == (True, 3)
    two.push(hub)
    one.pull(hub)
    two.pull(hub)
    rows = {1: {}, 2: {"a": "1", "same": 1.0}, 3: {"a": "text", "same": 1.0}, 4: {"a": "7", "b": "x", "same": 2.5}}
    rows |= {5: {"b": "y", "c": 1}, 6: {"same": 0.5}}
    wanted = [{name: row.get(name) for name in ("a", "b", "c", "same")} | {"id": number} for number, row in rows.items()]
    for lake in (one, two):
        found = lake.table("events").to_arrow().to_pylist()
        assert sorted(found, key=lambda row: row["id"]) == wanted
        before = lake._catalog.content()
        (Path(lake.url) / "meta.sqlite").unlink()
        gl.lake.open(lake.url)
        assert lake._catalog.content()["schemas"] == before["schemas"]
        assert [row[1:] for row in lake._catalog.content()["runs"]] == [row[1:] for row in before["runs"]]
        lake.run("events", [{"id": 7, "d": 1}] if lake is one else [{"id": 8, "c": 2}])
        assert lake.table("events").compact().rows == 7
    # The second time, on the other side.
    two.push(hub)
    one.table("events").reconcile(hub)
    one.push(hub)
    for lake in (one, two):
        lake.pull(hub)
        assert ids(lake) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert one.sync_status(hub).in_sync


def test_a_run_that_a_reconciliation_overtakes_is_not_committed(nodes: Two) -> None:
    one, two, hub = nodes
    one.run("events", [{"id": 2, "a": 1}])
    one.push(hub)
    two.run("events", [{"id": 3, "b": "x"}])

    reconciled = []

    def source(_: object) -> object:
        yield gl.lake.Page([{"id": 4, "b": "y"}], 1)
        reconciled.append(two.table("events").reconcile(hub))
        yield gl.lake.Page([{"id": 5, "b": "z"}], 2)

    with pytest.raises(CommitConflict, match="reconciled"):
        two.run("events", source, cursor="opaque")
    assert (reconciled[0].changed, ids(two)) == (True, [1, 3])


def test_two_tables_of_one_name_and_two_files_of_one_name(nodes: Two, tmp_path: Path) -> None:
    one, two, hub = nodes
    for node in (one, two):
        node.create_table("both")
    one.push(hub)
    assert "two tables" in conflict(lambda: two.push(hub))[1]
    shutil.rmtree(tmp_path / "two/tables/both")
    run = one.new_run_id()
    same = gl.lake.open(tmp_path / "two", node="one")
    one.run("events", [{"id": 5}], run_id=run)
    same.run("events", [{"id": 6}], run_id=run)
    one.push(hub)
    kind, what = conflict(lambda: two.push(hub))
    assert (kind, run in what) == ("bytes", True)
    # A torn manifest is none, and the whole one takes its place; files with other bytes are an error, in which nothing is written over.
    stray = tmp_path / "stray"
    gl.lake.pull(hub, stray, writable=True)
    path = next((stray / "tables/events/data/runs").rglob("_manifest.json"))
    path.write_bytes(path.read_bytes()[:-9])
    part = next(path.parent.glob("part-*.parquet"))
    part.write_bytes(b"torn")
    assert conflict(lambda: gl.lake.pull(hub, stray))[0] == "bytes"
    assert part.read_bytes() == b"torn"
    part.unlink()
    gl.lake.pull(hub, stray)
    assert ids(gl.lake.open(stray)) == [1, 5]
    part.write_bytes(b"altered")
    with pytest.raises(CorruptTable, match="other bytes than its manifest says"):
        gl.lake.pull(stray, tmp_path / "from stray")


def test_lake_toml_is_brought_over_or_shown(nodes: Two, tmp_path: Path) -> None:
    one, two, hub = nodes

    def write(node: str, line: str) -> None:
        with (tmp_path / node / "lake.toml").open("a") as config:
            config.write(f"# {line}\n")

    write("one", "first")
    one.push(hub)
    two.pull(hub)
    write("one", "ours")
    write("two", "theirs")
    one.push(hub)
    two.run("events", [{"id": 7}])
    with pytest.raises(SyncConflict) as caught:
        two.push(hub)
    report = caught.value.report
    assert isinstance(report, SyncReport)
    assert [line for line in report.conflicts[0].difference.splitlines() if line[:2] in ("+#", "-#")] == [
        "-# ours",
        "+# theirs",
    ]
    assert two.sync_status(hub).config == "diverged"
    assert "# theirs" in two.sync_status(hub).config_difference
    assert state_of(hub)["events"] == [1, 7]
    two.pull(hub, config="theirs")
    assert "# ours" in (tmp_path / "two/lake.toml").read_text()
    assert "theirs" not in (tmp_path / "two/lake.toml").read_text()
    write("two", "both")
    two.push(hub)
    one.pull(hub)
    assert (tmp_path / "one/lake.toml").read_text().endswith("# ours\n# both\n")
    write("one", "x")
    write("two", "y")
    two.push(hub)
    one.push(hub, config="ours")
    assert (hub / "lake.toml").read_text().endswith("# x\n")
    with pytest.raises(InvalidOption):
        one.push(hub, config="mine")
    with pytest.raises(InvalidPath, match="another lake"):
        init(tmp_path / "other").push(hub)
    with pytest.raises(InvalidPath, match="itself"):
        one.push(one.url)


def test_tables_with_a_log_go_on_at_one_node(tmp_path: Path) -> None:
    one = init(tmp_path / "one", node="one")
    fill(one, 0)
    one.push(tmp_path / "hub")
    gl.lake.pull(tmp_path / "hub", tmp_path / "two", writable=True)
    two = gl.lake.open(tmp_path / "two", node="two")
    two.run("hourly", hours(5))
    two.run("notes", [{"id": 5}])
    two.push(tmp_path / "hub")
    gl.delta.open(tmp_path / "one/tables/notes/table").checkpoint()
    one.run("notes", [{"id": 6}])
    kind, what = conflict(lambda: one.push(tmp_path / "hub"))
    assert (kind, "notes" in what) == ("log", True)
    assert conflict(lambda: one.pull(tmp_path / "hub"))[0] == "log"
    assert sorted(row["v"] for row in one.table("hourly").to_arrow().to_pylist()) == [0, 5]
    assert ids(one, "notes") == [0, 6]
    one.run("hourly", hours(6))
    with pytest.raises(SyncConflict):
        one.push(tmp_path / "hub")
    gl.lake.pull(tmp_path / "hub", tmp_path / "copy")
    assert state(tmp_path / "copy") == {"events": [0, 1], "orders": [(1, 100), (2, 0)], "hourly": [0, 5, 6], "notes": [0, 5]}


def test_a_replica_says_what_it_is_and_refuses_the_rest(nodes: Two, tmp_path: Path) -> None:
    one, _, hub = nodes
    snapshot = one.table("orders").compact().snapshot
    assert snapshot is not None
    one.run("orders", [{"id": 2, "v": 2}])
    report = one.push(hub)
    gl.lake.pull(hub, tmp_path / "replica", tables=["events"])
    replica = gl.lake.open(tmp_path / "replica")
    told = replica.replica
    assert told is not None
    assert told.source == str(hub)
    assert (told.number, told.time_ns) == (report.number, report.time_ns)
    assert (told.tables, told.lacking) == (("events",), ("orders",))
    assert 0 <= told.age_s < 3600
    command = f"gapless lake sync pull {tmp_path / 'replica'} {hub} --table orders"
    for ask in (lambda: replica.table("orders"), lambda: replica.query("SELECT * FROM orders")):
        with pytest.raises(NotReplicated) as lacks:
            ask()
        assert command in lacks.value.fix
    for write in (
        lambda: replica.run("events", [{"id": 1}]),
        lambda: replica.create_table("more"),
        lambda: replica.table("events").compact(),
        lambda: replica.table("events").expire(),
        lambda: replica.set_drift("events", "freeze"),
        lambda: replica.run_pipeline("none"),
        lambda: replica.push(tmp_path / "elsewhere"),
        lambda: one.push(tmp_path / "replica"),
        lambda: gl.lake.open(hub).run("events", [{"id": 1}]),
        lambda: gl.lake.pull(hub, tmp_path / "replica", writable=True),
    ):
        with pytest.raises((ReadOnlyReplica, InvalidOption)):
            write()
    gl.lake.pull(hub, tmp_path / "replica", snapshots={"orders": snapshot})
    assert ids(replica, "orders") == [1]
    assert replica.replica is not None
    assert replica.replica.snapshots == {"orders": snapshot}
    assert replica.replica.lacking == ()
    one.run("orders", [{"id": 3, "v": 3}])
    one.run("events", [{"id": 9}])
    one.push(hub)
    replica.pull(hub)
    assert (ids(replica, "orders"), ids(replica)) == ([1], [1, 9])
    replica.pull(hub, tables=["orders"])
    assert ids(replica, "orders") == [1, 2, 3]
    assert replica.replica.snapshots == {}
    # A chain of copies, and one that was broken off.
    gl.lake.pull(tmp_path / "replica", tmp_path / "second")
    assert ids(gl.lake.open(tmp_path / "second"), "orders") == [1, 2, 3]
    gone = next((tmp_path / "replica/tables/events/data/runs").rglob("_manifest.json"))
    gone.unlink()
    with pytest.raises(CorruptTable, match="broken off"):
        gl.lake.pull(tmp_path / "replica", tmp_path / "third")
    with pytest.raises(NotSupported, match="partial"):
        one.pull(hub, tables=["events"])
    with pytest.raises(TableNotFound, match="no table"):
        gl.lake.pull(hub, tmp_path / "fourth", tables=["orderz"])
    with pytest.raises(TableNotFound, match="no lake"):
        gl.lake.pull(tmp_path / "nothing", tmp_path / "fifth")


def test_a_bucket_in_between(nodes: Two, s3_options: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    one, two, _ = nodes
    url, options = s3_options
    options["secret_access_key"] = "hunter2"
    one.push(url, storage_options=options)
    two.run("events", [{"id": 2}])
    two.push(url, storage_options=options)
    one.run("events", [{"id": 3}])
    one.push(url, storage_options=options)
    gl.lake.pull(url, tmp_path / "replica", storage_options=options)
    assert ids(gl.lake.open(tmp_path / "replica")) == [1, 2, 3]
    assert one.pull(url, storage_options=options).tables[0].runs == 1
    assert one.sync_status(url, storage_options=options).in_sync
    head = (tmp_path / "replica/head.json").read_bytes()
    assert json.loads(head)["source"] == url
    assert [path for path in tmp_path.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()] == []


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # the page's reader
def test_a_copy_by_other_means_in_any_order(
    two_states: tuple[Path, Path, list[dict[str, list[object]]]], tmp_path: Path
) -> None:
    """As `aws s3 sync` copies: object by object, in an order of its own, without meta.sqlite."""
    source, _, (_, new) = two_states
    objects = sorted(one for one in source.rglob("*") if one.is_file() and not one.name.startswith("meta.sqlite"))
    for order in (objects, objects[::-1], objects[1::2] + objects[::2]):
        copy = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        for one in order:
            into = copy / one.relative_to(source)
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(one, into)
        assert state(copy) == new
        assert read_by_others(copy) == {0, 1, 10, 11}
        assert gl.lake.open(copy).doctor(deep=True) == ()
    opened: Lake = gl.lake.open(copy)
    assert opened.sync_status(source).in_sync
