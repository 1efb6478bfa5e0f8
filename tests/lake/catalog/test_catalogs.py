"""What every catalog of a lake does, in SQLite and in PostgreSQL alike: the conformance suite of its backends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import LeaseRefused, StoreError
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.postgres import PostgresCatalog
from gapless.lake.catalog.rows import USER_VERSION, Lease, check_lease, forget_snapshot, forget_table, record_manifest
from gapless.lake.catalog.sqlite import SqliteCatalog
from gapless.lake.layout.manifest import Manifest, RunCursor, RunFile
from gapless.lake.layout.names import ulid
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.snapshots import Snapshot
from support.postgres import Postgres

NS = 10**9
Make = Callable[[str], Catalog]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """`make(name)` is the catalog of a name, as another process would have it."""
    if request.param == "sqlite":
        return lambda name: SqliteCatalog(str(tmp_path / f"{name}.sqlite"))
    server: Postgres = request.getfixturevalue("postgres")
    database = server.database()
    url = f"postgresql://gapless:s3cret@127.0.0.1:{server.port}/{database}"
    return lambda name: PostgresCatalog(url, f"gapless_{name}")


@pytest.fixture
def catalog(make: Make) -> Catalog:
    return make("a")


def manifest(number: int, cursor: RunCursor | None = None, *, table: str = "t", node: str = "main", files: int = 2) -> Manifest:
    made = tuple(
        RunFile(path=f"part-{n:05}.parquet", rows=3, size=2**40, sha256="ab" * 32, schema_version=1) for n in range(files)
    )
    return Manifest(
        table=table, run=ulid(number, number), node=node, source="a 'quoted' % source? é", cursor=cursor, schema_version=1,
        columns={}, files=made, quarantined=made[:1] and (replace(made[0], path="quarantine-0.parquet"),), rows=3 * files,
        started_ns=number * NS, finished_ns=2**62,
    )  # fmt: skip


def monotonic(after: Any, pipeline: str = "p") -> RunCursor:
    return RunCursor(pipeline=pipeline, kind="monotonic", before=None, after=after)


def opaque(after: Any, fence: int, pipeline: str = "p") -> RunCursor:
    return RunCursor(pipeline=pipeline, kind="opaque", before=None, after=after, fence=fence)


def snapshot(name: str, *runs: Manifest) -> Snapshot:
    return Snapshot(
        table="t",
        name=name,
        runs=tuple(replace(one, files=()) for one in runs),
        schema_version=1,
        files=(),
        rows=4,
        written_by="",
    )


def test_what_manifests_say_is_there_once(catalog: Catalog) -> None:
    one, other = manifest(1, monotonic(5)), manifest(2, node="two", table="u")
    schema = LakeSchema(version=1, columns=pa.schema([("é", pa.int64())]))
    assert (catalog.newest_run(), catalog.known_runs("t"), catalog.cursor("t", "p")) == (None, set(), None)
    for _ in range(2):
        catalog.record([one, other], [("t", schema)], [snapshot("20260101T000000.000000Z", one)])
        assert catalog.known_runs("t") == {(one.run, "main")}
        assert catalog.known_runs("u") == {(other.run, "two")}
        assert catalog.newest_run() == other.run
        assert catalog.known_schemas("t") == {1}
        assert catalog.known_snapshots("t") == {"20260101T000000.000000Z"}
        assert catalog.last_runs() == {("t", "p"): NS}
        content = catalog.content()
        assert {kind: len(rows) for kind, rows in content.items()} == {
            "schemas": 1, "runs": 2, "files": 6, "cursors": 1, "snapshots": 1, "snapshot_runs": 1,
        }  # fmt: skip
    told = catalog.rows('SELECT path, source, run FROM lineage WHERE "table" = ? ORDER BY path', ("t",))
    assert [one["path"].rpartition("/")[2] for one in told] == [
        "part-00000.parquet",
        "part-00001.parquet",
        "quarantine-0.parquet",
    ]
    assert told[0]["source"] == one.source
    assert list(told[0]) == ["path", "source", "run"]


def test_cursors_go_forwards_only(catalog: Catalog) -> None:
    for number, (after, told) in enumerate([(5, 5), (3, 5), (9, 9), (None, 9)]):
        catalog.record([manifest(number, monotonic(after))], [], [])
        found = catalog.cursor("t", "p")
        assert found is not None
        assert found.after == told
    token = {"é": [1, None, 2**53 + 1], "a": "'\"?%"}
    tokens: list[tuple[Any, int, Any]] = [(token, 2, token), ("b", 1, token), ("c", 3, "c")]
    for number, (given, fence, newest) in enumerate(tokens):
        catalog.record([manifest(10 + number, opaque(given, fence, "q"))], [], [])
        found = catalog.cursor("t", "q")
        assert found is not None
        assert (found.after, found.kind) == (newest, "opaque")
    assert catalog.cursor("t", "other") is None
    assert catalog.cursor("u", "p") is None


def test_what_is_forgotten(catalog: Catalog) -> None:
    one, other = manifest(1, monotonic(5)), manifest(2, monotonic(7))
    catalog.record([one, other], [], [snapshot("20260101T000000.000000Z", one)])
    catalog.forget_files("t", one.run, one.node)
    assert len(catalog.rows("SELECT * FROM files WHERE run = ? AND quarantined = 1", (one.run,))) == 1
    assert len(catalog.rows("SELECT * FROM files WHERE run = ?", (one.run,))) == 1
    catalog.forget_run("t", one.run, one.node)
    assert catalog.known_runs("t") == {(other.run, "main")}
    with catalog.transaction() as connection:
        forget_snapshot(connection, "t", "20260101T000000.000000Z")
    assert catalog.known_snapshots("t") == set()
    assert catalog.content()["snapshot_runs"] == []
    with catalog.transaction() as connection:
        forget_table(connection, "t")
    assert {name for name, rows in catalog.content().items() if rows} == {"cursors"}


def test_a_transaction_is_whole_or_nothing(catalog: Catalog) -> None:
    class Broken(Exception):
        pass

    with pytest.raises(Broken), catalog.transaction() as connection:  # noqa: PT012  # what is done before the error is the point
        record_manifest(connection, manifest(1, monotonic(5)))
        raise Broken
    assert not any(catalog.content().values())
    with pytest.raises(StoreError), catalog.transaction() as connection:  # noqa: PT012
        record_manifest(connection, manifest(1))
        connection.execute("SELECT nothing FROM nowhere")
    assert not any(catalog.content().values())


def test_a_lease_is_one_holders_until_its_time_is_over(catalog: Catalog) -> None:
    lease = catalog.acquire("t", "p", "a", now_ns=0, ttl_s=10)
    with pytest.raises(LeaseRefused, match="'p'") as refused:
        catalog.acquire("t", "p", "b", now_ns=9 * NS)
    assert refused.value.holder == "a"
    assert catalog.acquire("t", "q", "b", now_ns=0).fence == 1  # another pipeline
    assert catalog.acquire("u", "p", "b", now_ns=0).fence == 1  # another table
    catalog.renew(lease, now_ns=9 * NS, ttl_s=10)
    with pytest.raises(LeaseRefused):
        catalog.acquire("t", "p", "b", now_ns=18 * NS)
    other = catalog.acquire("t", "p", "b", now_ns=20 * NS, ttl_s=10)
    assert other.fence == lease.fence + 1
    with pytest.raises(LeaseRefused, match="lost"):
        catalog.renew(lease, now_ns=20 * NS)
    catalog.release(lease)  # not its own any more
    with pytest.raises(LeaseRefused):
        catalog.acquire("t", "p", "c", now_ns=21 * NS)
    catalog.release(other)
    assert catalog.acquire("t", "p", "c", now_ns=21 * NS).fence == other.fence + 1
    again = catalog.acquire("t", "p", "c", now_ns=21 * NS)  # its own, with another number
    assert again.fence == other.fence + 2


def test_a_lease_is_looked_at_in_the_commits_transaction(catalog: Catalog) -> None:
    lease = catalog.acquire("t", "p", "a", now_ns=0, ttl_s=10)
    with catalog.transaction() as connection:
        check_lease(connection, lease, 9 * NS)
    wrong = [(lease, 11 * NS), (replace(lease, fence=2), 0), (replace(lease, holder="b"), 0), (replace(lease, pipeline="q"), 0)]
    for one, now in wrong:
        with pytest.raises(LeaseRefused, match="lost"), catalog.transaction() as connection:
            check_lease(connection, one, now)


def test_numbers_of_leases_go_on_behind_those_of_manifests(make: Make) -> None:
    catalog = make("fresh")
    catalog.record([manifest(1, opaque("x", 7))], [], [])
    assert catalog.acquire("t", "p", "a", now_ns=0) == Lease(table="t", pipeline="p", holder="a", fence=8)


def test_two_catalogs_of_the_same_manifests_are_equal(make: Make, tmp_path: Path) -> None:
    """In any order, and with the catalog of the other kind."""
    random, cursors = Random(0), list[RunCursor | None]([None])
    cursors += [monotonic(random.randrange(9)) for _ in range(8)]
    cursors += [opaque(f"c{n}", random.randrange(9), "q") for n in range(8)]
    manifests = [
        manifest(n, random.choice(cursors), node=random.choice(("main", "two")), files=random.randrange(3)) for n in range(40)
    ]
    taken = [snapshot(f"2026010{n}T000000.000000Z", *manifests[:n]) for n in range(1, 5)]
    first, second, plain = make("one"), make("two"), SqliteCatalog(str(tmp_path / "plain.sqlite"))
    for each in (first, plain):
        each.record(manifests, [], taken)
    for one in random.sample(manifests, len(manifests)):
        second.record([one], [], random.sample(taken, 2))
    second.record([], [], taken)
    assert first.content() == second.content() == plain.content()


def test_one_of_many_gets_the_lease(make: Make) -> None:
    got, lost, barrier = list[int](), list[str](), threading.Barrier(8)

    def take(number: int) -> None:
        barrier.wait()
        try:
            got.append(make("a").acquire("t", "p", f"n{number}", now_ns=0).fence)
        except LeaseRefused as error:
            lost.append(error.holder)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (got, len(lost), len(set(lost))) == ([1], 7, 1)


_COUNTER = """
import sys
from gapless.lake.catalog.postgres import PostgresCatalog
from gapless.lake.catalog.sqlite import SqliteCatalog
catalog = eval(sys.argv[1])
for _ in range(20):
    with catalog.transaction() as connection:
        (n,) = connection.execute("SELECT count(*) FROM schemas").fetchone()
        connection.execute("INSERT INTO schemas VALUES (?, ?, ?, ?)", ("t", n, "f", "{}"))
"""


def test_transactions_of_processes_come_one_after_the_other(make: Make) -> None:
    """Each writes the number of rows that it counted: two that counted at once would write one number twice."""
    catalog: Any = make("a")
    told = (
        f"SqliteCatalog({catalog.path!r})"
        if isinstance(catalog, SqliteCatalog)
        else f"PostgresCatalog({catalog.url!r}, {catalog.schema!r})"
    )
    others = [subprocess.Popen([sys.executable, "-c", _COUNTER, told]) for _ in range(3)]
    assert [other.wait(120) for other in others] == [0, 0, 0]
    assert catalog.known_schemas("t") == set(range(60))


def test_a_catalog_of_a_newer_release_is_refused(catalog: Catalog) -> None:
    catalog.newest_run()
    with catalog.transaction() as connection:
        if isinstance(catalog, SqliteCatalog):
            connection.execute(f"PRAGMA user_version = {USER_VERSION + 1}")
        else:
            connection.execute("UPDATE catalog_version SET version = ?", (USER_VERSION + 1,))
    for ask in (catalog.newest_run, lambda: catalog.acquire("t", "p", "a", 0)):
        with pytest.raises(StoreError, match="newer gapless"):
            ask()
