"""A lake whose catalog is in PostgreSQL: copies on several machines share its leases; secrets, servers that die, replicas."""

from __future__ import annotations

import importlib
import json
import logging
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import AccessDenied, GaplessError, InvalidOption, LeaseRefused, NotSupported, StoreUnavailable
from gapless.lake import Page
from gapless.lake.catalog.postgres import PostgresCatalog
from gapless.lake.catalog.sqlite import SqliteCatalog
from gapless.lake.opening import init, open_lake, pull
from support.lake_catalogs import PASSWORD, catalog_of, url_of, wipe_catalog
from support.postgres import Postgres


@pytest.fixture
def url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(PASSWORD, "s3cret")
    return url_of(postgres, postgres.database())


def page(token: int | None) -> Iterator[Page]:
    following = (token or 0) + 1
    yield Page([{"id": following}], following)


_NODE = """
import sys
import gapless as gl
from gapless.errors import LeaseRefused
root, node, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
lake, done = gl.lake.open(root, node=node), 0
def page(token):
    following = (token or 0) + 1
    yield gl.lake.Page([{"id": following, "node": node}], following)
while done < runs:
    try:
        lake.run("t", page, cursor="opaque")
        done += 1
    except LeaseRefused:
        pass
"""


def test_copies_on_two_machines_never_read_from_one_cursor_twice(url: str, tmp_path: Path) -> None:
    """Each run goes on behind the one before, wherever that was; brought together there is each row once."""
    first = init(tmp_path / "one", catalog=url)
    first.create_table("t")
    first.run("t", [{"id": 0, "node": "one"}])
    first.push(str(tmp_path / "hub"))
    pull(tmp_path / "hub", tmp_path / "two", writable=True)
    assert isinstance(catalog_of(tmp_path / "two"), PostgresCatalog)
    nodes = [
        subprocess.Popen([sys.executable, "-c", _NODE, str(tmp_path / node), node, "12"], stderr=subprocess.PIPE, text=True)
        for node in ("one", "two")
    ]
    told = [node.communicate(timeout=180)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], told
    open_lake(tmp_path / "two", node="two").push(str(tmp_path / "hub"))
    lake = open_lake(tmp_path / "one")
    lake.pull(str(tmp_path / "hub"))
    assert lake.query("SELECT id FROM t ORDER BY id").to_arrow()["id"].to_pylist() == list(range(25))
    assert {one.node for one in lake.table("t").manifests()} == {"main", "one", "two"}
    fences = sorted(one.cursor.fence for one in lake.table("t").manifests() if one.cursor)
    assert len(set(fences)) == 24
    assert lake.table("t").cursor() == 24
    before = catalog_of(tmp_path / "one").content()
    wipe_catalog(tmp_path / "one")
    open_lake(tmp_path / "one")
    assert catalog_of(tmp_path / "one").content() == before
    assert lake.doctor() == ()


_SLEEPER = """
import sys
import gapless as gl
from gapless.errors import LeaseRefused
def page(token):
    print("reads", flush=True)
    sys.stdin.readline()
    yield gl.lake.Page([{"id": 1, "by": "sleeper"}], 1)
try:
    gl.lake.open(sys.argv[1], node="sleeper").run("t", page, cursor="opaque", lease_s=1)
except LeaseRefused as error:
    print(error.holder, flush=True)
"""


def test_a_machine_that_slept_past_its_lease_commits_nothing(url: str, tmp_path: Path) -> None:
    """Its process is stopped as it reads; another copy goes on meanwhile, from the same cursor."""
    lake = init(tmp_path / "lake", catalog=url)
    lake.create_table("t")
    lake.push(str(tmp_path / "hub"))
    pull(tmp_path / "hub", tmp_path / "two", writable=True)
    command = [sys.executable, "-c", _SLEEPER, str(tmp_path / "two")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sleeper:
        assert sleeper.stdin is not None
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "reads\n"
        sleeper.send_signal(signal.SIGSTOP)
        holders, taken = set[str](), None
        while taken is None:
            try:
                taken = lake.run("t", page, cursor="opaque")
            except LeaseRefused as refused:
                holders.add(refused.holder.partition(":")[0])
        assert taken.cursor == 1
        assert holders <= {"sleeper"}  # a slow machine may come when the lease is over
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.communicate("go on\n", timeout=60)[0].startswith("main:")
    assert open_lake(tmp_path / "two", node="sleeper").table("t").manifests() == ()
    assert lake.query("SELECT * FROM t").to_arrow().to_pylist() == [{"id": 1}]


def test_a_run_of_another_copy_is_no_damage(url: str, tmp_path: Path) -> None:
    init(tmp_path / "one", catalog=url).create_table("t")
    open_lake(tmp_path / "one").push(str(tmp_path / "hub"))
    pull(tmp_path / "hub", tmp_path / "two", writable=True)
    open_lake(tmp_path / "two", node="two").run("t", page, cursor="opaque")
    lake = open_lake(tmp_path / "one")
    assert (lake.table("t").manifests(), lake.table("t").cursor()) == ((), 1)
    assert lake.doctor(apply=True) == ()
    assert lake.run("t", page, cursor="opaque").cursor == 2


def test_a_replica_has_a_catalog_of_its_own(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = init(tmp_path / "lake", catalog=url)
    lake.create_table("t")
    lake.run("t", page, cursor="opaque")
    pull(tmp_path / "lake", tmp_path / "replica")
    monkeypatch.delenv(PASSWORD)
    replica = open_lake(tmp_path / "replica")
    assert isinstance(catalog_of(tmp_path / "replica"), SqliteCatalog)
    assert replica.table("t").lineage()[0]["cursor_after"] == "1"
    assert not (tmp_path / "lake/meta.sqlite").exists()
    with pytest.raises(InvalidOption, match=PASSWORD):
        open_lake(tmp_path / "lake")


# -- secrets --------------------------------------------------------------------------------------------------------------


def test_secrets_are_in_no_file_message_traceback_or_log(
    postgres: Postgres, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lake = init(tmp_path / "lake", catalog=url)
    lake.create_table("t")
    lake.run("t", page, cursor="opaque")
    lake.push(str(tmp_path / "hub"))
    told = [repr(lake), repr(catalog_of(tmp_path / "lake")), caplog.text, json.dumps(lake.table("t").lineage())]
    told += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    secret = "hunt" + "er2"  # a traceback shows lines of this file
    monkeypatch.setenv(PASSWORD, f"{secret}@[:")
    with pytest.raises(StoreUnavailable) as refused:
        open_lake(tmp_path / "lake")
    told.append("".join(traceback.format_exception(refused.value)))
    for odd in ("postgresql://u:{}@[", "postgresql://u:{0}@h:{0}/d", "mysql://u:{}@h/d", "{}"):
        with pytest.raises(InvalidOption) as wrong:
            PostgresCatalog(odd.format(secret), "s")
        told.append("".join(traceback.format_exception(wrong.value)))
    with pytest.raises(GaplessError) as wrong_option:
        PostgresCatalog(f"postgresql://u:{secret}@127.0.0.1:{postgres.port}/d?nonsense={secret}", "s").newest_run()
    told.append("".join(traceback.format_exception(wrong_option.value)))
    for query in (
        f"password={secret}",
        f"sslpassword={secret}&sslmode=nonsense",
        f"password={secret}&connect_timeout={secret}",
    ):
        with pytest.raises(GaplessError) as refused_query:
            PostgresCatalog(f"postgresql://u@127.0.0.1:{postgres.port}/d?{query}", "s").newest_run()
        told.append("".join(traceback.format_exception(refused_query.value)))
    assert not [one for one in told if secret in one or "s3cret" in one]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ('catalog = 3\n[lake]\nformat = 1\nid = "a"\n', "no table"),
        ('[lake]\nformat = 1\nid = "a"\n[catalog]\nurll = "x"\n', "'urll'"),
        ('[lake]\nformat = 1\nid = "a"\n[catalog]\nurl = 3\n', "no text"),
        ('[lake]\nformat = 1\nid = "a"\n[catalog]\nurl = "postgresql://u:hunter2@h/d"\n', "has a password"),
        ('[lake]\nformat = 1\nid = "a"\n[catalog]\nurl = "postgresql://u@h/d?password=hunter2"\n', "has a password"),
        ('[lake]\nformat = 1\nid = "a"\n[catalog]\nurl = "postgresql://u:${NOT_THERE}@h/d"\n', "NOT_THERE"),
        ('[lake]\nformat = 1\nid = "a"\n[catalog]\nurl = "sqlite:///x"\n', "none of PostgreSQL"),
    ],
)
def test_what_names_no_catalog_is_refused(tmp_path: Path, config: str, told: str) -> None:
    (tmp_path / "lake.toml").write_text(config)
    with pytest.raises(InvalidOption, match=told) as refused:
        open_lake(tmp_path)
    assert "hunter2" not in str(refused.value)


def test_a_url_may_be_a_variable_as_a_whole(
    postgres: Postgres, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG", url.replace(f"${{{PASSWORD}}}", "s3cret"))
    init(tmp_path / "lake", catalog="${CATALOG}").create_table("t")
    assert open_lake(tmp_path / "lake").tables() == ["t"]
    with pytest.raises(InvalidOption, match="password"):
        init(tmp_path / "other", catalog=url.replace(f"${{{PASSWORD}}}", "s3cret"))
    assert not (tmp_path / "other/lake.toml").exists()


def test_psycopg_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(NotSupported, match="needs psycopg") as refused:
        init(tmp_path / "lake", catalog="postgresql://h/d")
    assert "pip install" in refused.value.fix


# -- servers that fail ----------------------------------------------------------------------------------------------------


def test_a_server_that_dies_in_a_commit_leaves_the_run_that_is_there(
    postgres: Postgres, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The manifest is the commit; the catalog is told by the next one. Before it nothing is committed."""
    commits: Any = importlib.import_module("gapless.lake.commits")
    lake = init(tmp_path / "lake", catalog=url)
    lake.create_table("t")
    put, checked = commits.create_once, commits.check_columns

    def dies(*given: Any) -> Any:
        found = put(*given)
        postgres.kill()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(commits, "create_once", dies)
        try:
            assert lake.run("t", page, cursor="opaque", lease_s=1).cursor == 1
        finally:
            postgres.start()
    assert "the catalog lacks it" in caplog.text
    assert "is not given back" in caplog.text
    assert open_lake(tmp_path / "lake").table("t").cursor() == 1

    def dies_before(*given: Any) -> None:
        checked(*given)
        postgres.kill()

    class Stops(Exception):
        pass

    def stops(*_: Any) -> None:
        raise Stops

    with monkeypatch.context() as patched:
        patched.setattr(commits, "check_columns", dies_before)
        patched.setattr(commits, "create_once", stops)
        try:
            with pytest.raises((Stops, StoreUnavailable)):
                lake.run("t", [{"id": 2}])
        finally:
            postgres.start()
    assert len(open_lake(tmp_path / "lake").table("t").manifests()) == 1
    assert lake.run("t", [{"id": 2}]).rows == 1


def test_a_server_that_is_not_there_leaves_no_lake_behind(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        init(tmp_path / "lake", catalog="postgresql://127.0.0.1:1/d?connect_timeout=2")
    assert not (tmp_path / "lake/lake.toml").exists()


def test_a_user_who_may_not_make_the_schema(postgres: Postgres, url: str, tmp_path: Path) -> None:
    database = url.rpartition("/")[2]
    postgres.run(database, "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 's3cret'")
    with pytest.raises(AccessDenied, match="may not use"):
        init(tmp_path / "lake", catalog=url.replace("gapless:", "reader:"))


def test_who_reads_does_not_wait_for_a_commit(url: str, tmp_path: Path) -> None:
    lake = init(tmp_path / "lake", catalog=url)
    lake.create_table("t")
    with catalog_of(tmp_path / "lake").transaction():
        assert lake.table("t").cursor() is None
        assert lake.table("t").lineage() == []


def test_a_lease_of_another_machine_is_seen(url: str, tmp_path: Path) -> None:
    lake = init(tmp_path / "lake", catalog=url)
    lake.create_table("t")
    lake.push(str(tmp_path / "hub"))
    pull(tmp_path / "hub", tmp_path / "two", writable=True)
    other = open_lake(tmp_path / "two", node="two")

    def meanwhile(token: int | None) -> Iterator[Page]:
        with pytest.raises(LeaseRefused, match="main:"):
            other.run("t", page, cursor="opaque")
        yield from page(token)

    assert lake.run("t", meanwhile, cursor="opaque").cursor == 1
    assert other.run("t", page, cursor="opaque").cursor == 2
