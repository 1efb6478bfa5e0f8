"""Runs compacted into snapshots: the same rows, readers that go on, deaths in between, expiry, time travel."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from gapless.errors import CorruptTable, InvalidOption, LogWarning, NotSupported, ObjectNotFound
from gapless.lake import Page
from gapless.lake.lake import Lake
from gapless.lake.opening import init, open_lake
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from gapless.testing.store.stores import Killed
from lake.test_lake_kills import DyingChanges
from support.dying_store import Life
from support.lake_catalogs import catalog_of, wipe_catalog


def rows_of(lake: Lake, table: str = "t", **options: Any) -> list[dict[str, Any]]:
    return list(lake.query(f"SELECT * FROM {table} ORDER BY ALL", **options).to_arrow().to_pylist())


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_a_life_of_runs_compactions_and_expiries_is_that_of_a_dict(lake: Lake, tmp_path: Path, seed: int) -> None:
    random, model, plain = Random(seed), dict[int, dict[str, Any]](), list[int]()
    lake.create_table("keyed", key=["id"], partition_by=["id"] if seed == 1 else [])
    lake.create_table("plain")
    for step in range(12):
        act = random.choice(("run", "run", "compact", "incremental", "expire"))
        if act == "run":
            rows = [{"id": random.randrange(6), "v": step if step < 6 else f"v{step}"} for _ in range(3)]
            lake.run("keyed", rows)
            lake.run("plain", rows)
            model |= {int(row["id"]): row for row in rows}
            plain += [int(row["id"]) for row in rows]
        for name in ("keyed", "plain"):
            if act == "expire":
                lake.table(name).expire(keep_s=-1)
            elif act != "run":
                lake.table(name).compact(incremental=act == "incremental")
        if model:
            assert {row["id"]: str(row["v"]) for row in rows_of(lake, "keyed")} == {
                k: str(row["v"]) for k, row in model.items()
            }
            assert len(rows_of(lake, "keyed")) == len(model)
            assert sorted(row["id"] for row in rows_of(lake, "plain")) == sorted(plain)
    before = catalog_of(tmp_path / "lake").content()
    wipe_catalog(tmp_path / "lake")
    open_lake(tmp_path / "lake")
    assert catalog_of(tmp_path / "lake").content() == before


def test_the_newest_row_stays_the_newest_through_snapshots(lake: Lake) -> None:
    table = lake.create_table("t", key="id")
    early = lake.new_run_id()
    lake.run("t", [{"id": 1, "v": "new"}])
    assert table.compact().complete
    lake.run("t", [{"id": 1, "v": "late"}, {"id": 2, "v": "late"}], run_id=early)
    assert rows_of(lake) == [{"id": 1, "v": "new"}, {"id": 2, "v": "late"}]
    assert not table.compact(incremental=True).complete
    assert rows_of(lake) == [{"id": 1, "v": "new"}, {"id": 2, "v": "late"}]


def test_compaction_with_nothing_new_makes_nothing(lake: Lake) -> None:
    table = lake.create_table("t")
    assert table.compact().snapshot is None
    lake.run("t", [{"a": 1}])
    assert table.compact().snapshot == table.snapshots()[0].name
    assert table.compact().snapshot is None
    assert table.count() == 1


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)], ids=["before", "after"])
@pytest.mark.parametrize("act", ["compact", "expire"])
def test_a_death_at_each_change_of_a_compaction_and_an_expiry(tmp_path: Path, act: str, after: bool) -> None:
    deaths = 0
    while True:
        root = tmp_path / str(deaths)
        lake = init(root)
        table = lake.create_table("t", key="id", partition_by="id")
        for number in range(2):
            lake.run("t", [{"id": number, "v": number}, {"id": 9, "v": number}])
        if act == "expire":
            table.compact()
        wanted = rows_of(lake)
        store = DyingChanges(LocalStore(str(root)), Life(dies_at=deaths + 1, after=after))
        dying = Lake(Environment(store=store), catalog_of(root)).table("t")
        try:
            dying.compact() if act == "compact" else dying.expire(keep_s=-1)
        except Killed:
            deaths += 1
            again = open_lake(root)
            assert rows_of(again) == wanted
            again.table("t").compact()
            again.table("t").expire(keep_s=-1)
            assert rows_of(again) == wanted
            assert again.table("t").manifests() == ()
            continue
        break
    assert deaths >= 4


def test_readers_that_began_before_go_on(lake: Lake) -> None:
    table = lake.create_table("t")
    for number in range(3):
        lake.run("t", [{"a": number}])
    begun = lake.query("SELECT a FROM t ORDER BY a")
    table.compact()
    assert table.expire().runs == 0
    assert begun.to_arrow().column("a").to_pylist() == [0, 1, 2]
    assert begun.count() == 3


def test_time_travel_to_a_snapshot_and_past_the_oldest(lake: Lake) -> None:
    table = lake.create_table("t")
    names = []
    for number in range(3):
        lake.run("t", [{"a": number}])
        names.append(str(table.compact().snapshot))
    lake.run("t", [{"a": 9}])
    for number, name in enumerate(names):
        assert [row["a"] for row in rows_of(lake, snapshots={"t": name})] == list(range(number + 1))
    assert table.expire(keep_s=-1).snapshots == 2
    with pytest.raises(InvalidOption, match=f"oldest that is left is '{names[2]}'"):
        rows_of(lake, snapshots={"t": names[0]})
    assert [row["a"] for row in rows_of(lake)] == [0, 1, 2, 9]


def test_lineage_and_cursors_outlive_the_runs(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t")
    lake.run("t", lambda _: iter([Page([{"a": 1}], "x")]), cursor="opaque")
    (run,) = table.manifests()
    name = table.compact().snapshot
    table.expire(keep_s=-1)
    wipe_catalog(tmp_path / "lake")
    found = open_lake(tmp_path / "lake").table("t")
    assert found.cursor() == "x"
    (told,) = found.lineage(f"tables/t/data/snapshot={name}")
    assert (told["run"], told["source"], told["cursor_after"]) == (run.run, run.source, '"x"')
    with pytest.raises(ObjectNotFound):
        found.lineage(f"{run.folder}/{run.files[0].path}")


DAY = datetime(2026, 3, 1, tzinfo=UTC)
ODD_TEXTS = (None, "", "__null__", "__empty__", "a/b", "a%2Fb", "p.q", "x" * 200, "007", "null")


@pytest.mark.parametrize("key", [[], ["n"]], ids=["plain", "keyed"])
def test_path_06_a_value_is_never_that_of_its_folder(lake: Lake, tmp_path: Path, key: list[str]) -> None:
    """Each reader takes values from the files, whatever folders are called; a second compaction would keep what the first misread."""
    table = lake.create_table("t", key=key, partition_by=["site", "amount", "hour(ts)"])
    rows = [{"n": n, "site": site, "amount": 0.1 + n, "ts": DAY + timedelta(minutes=n)} for n, site in enumerate(ODD_TEXTS)]
    lake.run("t", rows[:6])
    table.compact()
    lake.run("t", rows[6:])
    table.compact()
    assert sorted(rows_of(lake), key=lambda row: row["n"]) == rows
    with duckdb.connect() as connection:
        connection.execute(f"SET file_search_path = '{tmp_path / 'lake'}'; SET TimeZone = 'UTC'")
        connection.execute((tmp_path / "lake/views/t.sql").read_text())
        assert connection.sql("SELECT n, site, amount FROM t ORDER BY n").fetchall() == [
            (row["n"], row["site"], row["amount"]) for row in rows
        ]


def test_a_filter_reads_the_rows_of_its_partition_alone(lake: Lake, tmp_path: Path) -> None:
    """The pages of all other files are damaged, their footers are not."""
    table = lake.create_table("t", partition_by=["day(ts)", "site"])
    rows = [
        {"ts": DAY + timedelta(hours=hours), "site": site, "n": hours}
        for hours in range(72)
        for site in ("a/b", "", None, "x" * 200)
    ]
    lake.run("t", rows)
    table.compact()
    table.expire(keep_s=-1)
    (snapshot,) = table.snapshots()
    folders = {file.path.rpartition("/")[0] for file in snapshot.files}
    assert len(folders) == 12
    assert "ts_day=2026-03-02/site=a%2Fb" in folders
    told = {(row["ts"], row["site"]): row["n"] for row in rows_of(lake)}
    assert told == {(row["ts"], row["site"]): row["n"] for row in rows}
    for file in snapshot.files:
        if not file.path.startswith("ts_day=2026-03-02"):
            path = tmp_path / "lake" / snapshot.folder / file.path
            data = bytearray(path.read_bytes())
            footer = int.from_bytes(data[-8:-4], "little")
            data[4 : len(data) - 8 - footer] = bytes(len(data) - 12 - footer)
            path.write_bytes(data)
    day = "ts >= TIMESTAMPTZ '2026-03-02 00:00:00+00' AND ts < TIMESTAMPTZ '2026-03-03 00:00:00+00'"
    assert lake.query(f"SELECT count(n) AS n FROM t WHERE {day}").to_arrow().to_pylist() == [{"n": 96}]
    with pytest.raises(Exception, match="DuckDB"):
        lake.query("SELECT sum(n) FROM t").to_arrow()


def test_partitions_that_a_lake_has_not_are_refused(lake: Lake) -> None:
    with pytest.raises(NotSupported, match="bucket"):
        lake.create_table("t", partition_by=["bucket(16, id)"])
    for wrong in ("week(ts)", "day(", "day(a.b)", "", 3):
        with pytest.raises(InvalidOption, match="partition_by"):
            lake.create_table("t", partition_by=[wrong])
    lake.create_table("d", kind="delta")
    for act in (lake.table("d").compact, lake.table("d").expire):
        with pytest.raises(NotSupported, match="delta"):
            act()


def test_a_torn_snapshot_is_absent_and_one_without_its_base_is_damage(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"a": 1}])
    first = table.compact()
    lake.run("t", [{"a": 2}])
    table.compact(incremental=True)
    assert [row["a"] for row in rows_of(lake)] == [1, 2]
    base, added = (tmp_path / "lake" / one.path for one in table.snapshots())
    whole = base.read_bytes()
    base.unlink()
    with pytest.raises(CorruptTable, match="only adds rows"):
        rows_of(lake)
    base.write_bytes(whole)
    added.write_bytes(added.read_bytes()[:-9])
    with pytest.warns(LogWarning, match="as if it were not there"):
        assert [row["a"] for row in rows_of(lake)] == [1, 2]
    assert first.rows == 1
