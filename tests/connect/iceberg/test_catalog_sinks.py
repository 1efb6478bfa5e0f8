"""Sinks into Iceberg tables of catalogs: SQL on SQLite, REST (SeaweedFS), Glue (ministack), Hive (a real metastore), read
back by pyiceberg through the catalog."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError, ServerError

import gapless as gl
from gapless.connect import Sink
from gapless.errors import (
    AccessDenied,
    CommitConflict,
    GaplessError,
    InvalidOption,
    PreparedFilesMissing,
    StoreUnavailable,
    TableNotFound,
    UnsupportedTable,
)
from gapless.runtime.environment import RandomIds
from publish.test_iceberg_catalogs import rest_catalog, settings
from support.pipelines import SCHEMA, rows

__all__ = ["rest_catalog"]

# The pools of SQLAlchemy and botocore end with the process.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CATALOGS = ["sqlite", "rest", "glue", "hive"]
STORE_KEYS = {
    "s3.endpoint": "endpoint",
    "s3.region": "region",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
}


class Lake:
    """A table of a catalog, as sinks and strangers reach it."""

    def __init__(self, told: Mapping[str, str], folder: Path) -> None:
        self.told = {"warehouse": f"file://{folder}/warehouse", **told}
        self.name = f"sales.t{uuid.uuid4().hex[:8]}"

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", **self.told)

    @property
    def options(self) -> dict[str, Any]:
        """Of sinks and sources, in gapless' names: those of the store are not said in pyiceberg's."""
        store = {ours: self.told[theirs] for theirs, ours in STORE_KEYS.items() if theirs in self.told}
        rest = {name: value for name, value in self.told.items() if name not in (*STORE_KEYS, "type", "uri", "warehouse")}
        named = {"catalog_type": self.told["type"], "catalog_uri": self.told.get("uri"), "warehouse": self.told["warehouse"]}
        return {**named, "catalog_properties": rest, "storage_options": {**store, "allow_http": "true"} if store else None}

    def sink(self, pipeline: str = "orders", **options: Any) -> Sink:
        made = gl.connect.sink(f"iceberg:{self.name}", pipeline=pipeline, **self.options, **{"create": {}, **options})
        made.initialize(SCHEMA)
        return made

    @property
    def table(self) -> Any:
        return self.catalog.load_table(self.name)

    def values(self) -> list[int]:
        found: list[int] = sorted(self.table.scan().to_arrow()["v"].to_pylist())
        return found


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(settings(getattr(request, "param", "sqlite"), request, tmp_path), tmp_path)


def commit(sink: Sink, checkpoint: int, first: int, count: int = 3) -> Any:
    sink.write(rows(first, count))
    return sink.finalize(sink.prepare(checkpoint))


@pytest.mark.parametrize("lake", CATALOGS, indirect=True)
def test_a_table_is_made_and_written_to_once(lake: Lake) -> None:
    sink = lake.sink(partition_by=["day(ts)", "bucket(4, id)"])
    sink.write(rows(0, 30))
    prepared = sink.prepare(1)
    assert lake.values() == []
    assert not sink.finalize(prepared).already_committed
    assert lake.sink().finalize(prepared).already_committed
    assert lake.values() == list(range(30))
    names = [(one.name, str(one.transform)) for one in lake.table.spec().fields]
    assert names == [("ts_day", "day"), ("id_bucket", "bucket[4]")]
    for mode, key in (("upsert", "id"), ("cdc", "*"), ("delete", "v"), ("overwrite", None)):
        options: dict[str, Any] = {} if key is None else {"key": key}
        options |= {"change_type": "what"} if mode == "cdc" else {}
        made = gl.connect.sink(f"iceberg:{lake.name}", pipeline=mode, mode=mode, **lake.options, **options)
        given = rows(25, 5) if mode != "cdc" else rows(0, 2).append_column("what", [["delete", "insert"]])
        given = given.select(["v"]) if mode == "delete" else given
        made.initialize(given.schema)
        made.write(given)
        made.finalize(made.prepare(1))
    assert lake.values() == list(range(25, 30))


@pytest.mark.parametrize("lake", CATALOGS, indirect=True)
def test_several_writers_lose_and_double_nothing(lake: Lake) -> None:
    lake.sink()
    failed: list[BaseException] = []

    def write(name: str) -> None:
        try:
            sink = lake.sink(name)
            for checkpoint in range(4):
                first = 100 * int(name) + 3 * checkpoint
                sink.write(rows(first, 3))
                prepared = sink.prepare(checkpoint)
                for _ in range(2):  # each is sent twice
                    sink.finalize(prepared)
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=write, args=(f"{number}",)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert lake.values() == [100 * writer + number for writer in range(3) for number in range(12)]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("error", [ServerError("500"), CommitStateUnknownException("504"), OSError("connection reset")])
def test_after_an_answer_that_says_nothing_there_is_one_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, applied: bool, error: Exception
) -> None:
    sink = lake.sink()
    commit(sink, 1, 0)
    original, lost = type(lake.catalog).commit_table, [True]

    def commit_table(self: Catalog, *args: Any) -> Any:
        answer = original(self, *args) if applied or not lost else None
        if lost:
            lost.pop()
            raise error
        return answer

    monkeypatch.setattr(type(lake.catalog), "commit_table", commit_table)
    info = commit(sink, 2, 3)
    assert (info.version, lost) == (2, [])
    assert lake.values() == list(range(6))
    assert len(lake.table.snapshots()) == 2


def test_eo_04_a_request_that_is_applied_after_it_was_looked_for_is_not_doubled(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is still on its way when the sink looks, and lands just before the second."""
    sink = lake.sink()
    original = type(lake.catalog).commit_table
    held: list[Any] = []

    def commit_table(self: Catalog, *args: Any) -> Any:
        if not held:
            held.append(args)
            raise ServerError("504")
        if len(held) == 1:
            held.append(original(self, *held[0]))
        return original(self, *args)

    monkeypatch.setattr(type(lake.catalog), "commit_table", commit_table)
    commit(sink, 1, 0)
    assert len(held) == 2
    assert lake.values() == [0, 1, 2]
    assert len(lake.table.snapshots()) == 1


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_conflict_with_our_own_commit_deletes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """A proxy sent the request again, whose first answer it did not get: the second one is told of a conflict."""
    options = {} if mode == "append" else {"key": "v"}
    sink = lake.sink(mode=mode, **options)
    commit(sink, 1, 0)
    original = type(lake.catalog).commit_table

    def commit_table(self: Catalog, *args: Any) -> Any:
        original(self, *args)
        raise CommitFailedException("409")

    with monkeypatch.context() as patched:
        patched.setattr(type(lake.catalog), "commit_table", commit_table)
        assert commit(sink, 2, 2).version == 2
    assert lake.values() == ([0, 1, 2, 2, 3, 4] if mode == "append" else [0, 1, 2, 3, 4])
    assert len(lake.table.snapshots()) == 2


def test_an_old_prepare_after_all_snapshots_expired_is_one_commit(lake: Lake) -> None:
    sink = lake.sink()
    sink.write(rows(0, 3))
    old = sink.prepare(1)
    sink.finalize(old)
    stranger = lake.table
    for first in (10, 20):
        stranger.append(rows(first, 1))
    stranger.refresh()
    gone = [one.snapshot_id for one in stranger.snapshots() if one != stranger.current_snapshot()]
    stranger.maintenance.expire_snapshots().by_ids(gone).commit()
    assert len(lake.table.snapshots()) == 1
    again = lake.sink()
    info = again.finalize(old)
    assert (info.already_committed, info.version, info.commit_timestamp) == (True, 1, None)
    assert lake.values() == [0, 1, 2, 10, 20]
    again.write(rows(0, 3))
    with pytest.warns(gl.errors.LogWarning, match="is not new to the table"):
        late = again.prepare(1)
    assert again.finalize(late).already_committed
    assert again.last_committed() == 1
    assert lake.values() == [0, 1, 2, 10, 20]


def test_the_summary_tells_where_another_writer_took_the_property_away(lake: Lake) -> None:
    sink = lake.sink()
    sink.write(rows(0, 3))
    prepared = sink.prepare(7)
    sink.finalize(prepared)
    summary = lake.table.current_snapshot().summary.additional_properties
    assert (summary["gapless.app"], summary["gapless.checkpoint"]) == ("orders/main#1", "7")
    with lake.table.transaction() as change:
        change.remove_properties("gapless.txn.orders/main#1")
    assert lake.sink().finalize(prepared).already_committed
    assert lake.values() == [0, 1, 2]


def test_snapshot_ids_in_descending_order(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    real = RandomIds.uuid

    def uuid_of(self: RandomIds) -> str:
        found = real(self)
        return f"{(1 << 31) - next(numbers):08x}{found[8:]}"

    monkeypatch.setattr(RandomIds, "uuid", uuid_of)
    sink = lake.sink()
    prepared = []
    for checkpoint in range(4):
        sink.write(rows(3 * checkpoint, 3))
        prepared.append(sink.prepare(checkpoint))
    for one in prepared:
        sink.finalize(one)
    told = [one.snapshot_id for one in lake.table.snapshots()]
    assert told == sorted(told, reverse=True)
    assert all(lake.sink().finalize(one).already_committed for one in prepared)
    assert lake.sink().last_committed() == 3
    assert lake.values() == list(range(12))


def test_an_abort_beside_a_finalization_that_read_before_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finalization has looked at the document when the abort begins: its commit must not land after that."""
    sink, other = lake.sink(), lake.sink()
    sink.write(rows(0, 3))
    prepared = sink.prepare(1)
    original, aborted = type(lake.catalog).commit_table, list[bool]()

    def commit_table(self: Catalog, *args: Any) -> Any:
        if not aborted:
            aborted.append(True)
            assert other.abort(prepared)
        return original(self, *args)

    monkeypatch.setattr(type(lake.catalog), "commit_table", commit_table)
    with pytest.raises(PreparedFilesMissing):
        sink.finalize(prepared)
    assert lake.values() == []
    assert not any((lake_path(lake) / path).exists() for path in prepared.needs)
    assert [str(one.summary.operation.value) for one in lake.table.snapshots()] == ["replace"]


def lake_path(lake: Lake) -> Path:
    return Path(lake.table.location().removeprefix("file://"))


def test_a_writer_that_is_always_first_is_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = lake.sink()
    commit(sink, 1, 0)
    sink.write(rows(3, 3))
    prepared = sink.prepare(2)
    original, stranger = type(lake.catalog).commit_table, lake.table

    def commit_table(self: Catalog, *args: Any) -> Any:
        with monkeypatch.context() as real:
            real.setattr(type(lake.catalog), "commit_table", original)
            stranger.refresh()
            stranger.append(rows(100, 1))
        return original(self, *args)

    env = sink._table.env  # type: ignore[attr-defined]
    object.__setattr__(env, "deadline_s", 0.3)
    with monkeypatch.context() as patched:
        patched.setattr(type(lake.catalog), "commit_table", commit_table)
        with pytest.raises(CommitConflict, match="were first until the deadline"):
            sink.finalize(prepared)
    left = {path.name for path in (lake_path(lake) / "metadata").glob("snap-*")}
    named = {one.manifest_list.rpartition("/")[2] for one in lake.table.snapshots()}
    assert left == named
    sink.finalize(prepared)
    assert [value for value in lake.values() if value < 100] == list(range(6))


@pytest.mark.parametrize(
    ("error", "typed"),
    [
        (pytest.param("ForbiddenError", AccessDenied, id="403")),
        (pytest.param("UnauthorizedError", AccessDenied, id="401")),
        (pytest.param("ServiceUnavailableError", StoreUnavailable, id="503")),
    ],
)
def test_an_error_of_the_catalog_never_makes_a_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: str, typed: type[GaplessError]
) -> None:
    import pyiceberg.exceptions

    raised = getattr(pyiceberg.exceptions, error)

    def load_table(*_: Any) -> Any:
        raise raised("secret-of-mine")

    with monkeypatch.context() as patched:
        patched.setattr(type(lake.catalog), "load_table", load_table)
        options = {**lake.options, "catalog_properties": {"credential": "secret-of-mine"}}
        sink = gl.connect.sink(f"iceberg:{lake.name}", pipeline="orders", create={}, **options)
        with pytest.raises(typed) as caught:
            sink.initialize(SCHEMA)
    assert "secret-of-mine" not in f"{caught.value}{sink!r}{sink._table!r}"
    with pytest.raises(NoSuchTableError):
        lake.catalog.load_table(lake.name)


def test_where_nothing_says_how_a_missing_table_is_not_made(lake: Lake) -> None:
    with pytest.raises(TableNotFound, match="no Iceberg table sales"):
        lake.sink(create=None)


def test_another_version_of_the_format_is_refused_by_name(lake: Lake) -> None:
    lake.catalog.create_namespace_if_not_exists("sales")
    lake.catalog.create_table(lake.name, SCHEMA, properties={"format-version": "1"})
    with pytest.raises(UnsupportedTable, match="version 1 of Iceberg"):
        lake.sink()


def test_a_table_that_is_partitioned_otherwise(lake: Lake) -> None:
    lake.sink(partition_by="day(ts)")
    lake.sink(partition_by="DAYS(ts)")
    with pytest.raises(InvalidOption, match="is not how"):
        lake.sink(partition_by="hour(ts)")


def test_no_secret_is_shown_or_kept(lake: Lake) -> None:
    secrets = {"catalog_properties": {"token": "tok-s3cret"}}
    options = {**lake.options, **secrets, "catalog_uri": lake.told["uri"] + "?secret=uri-s3cret"}
    sink = gl.connect.sink(f"iceberg:{lake.name}", pipeline="orders", create={}, **options)
    assert "s3cret" not in f"{sink!r} {sink._table!r} {sink._table.options!r}"  # type: ignore[attr-defined]
    plain = lake.sink()
    plain.write(rows(0, 1))
    assert lake.told["uri"] not in plain.prepare(1).to_json()


@pytest.mark.parametrize(
    ("url", "options", "told"),
    [
        ("iceberg:a.b", {"catalog_type": "dynamodb"}, r"pip install 'pyiceberg\[hive\]'.*speak REST"),
        ("iceberg:a.b", {"catalog_type": "sql", "catalog_url": "sqlite://"}, "Did you mean 'catalog_uri'"),
        ("iceberg:b", {"catalog_type": "sql", "catalog_uri": "sqlite://"}, "names no table of a catalog"),
        ("iceberg:a.b", {"catalog_type": "rest", "namespace": "c"}, "They name different ones"),
        ("iceberg:a.b", {"namespace": "c"}, "namespace= is no option of a table in a directory"),
        ("iceberg:t", {"partition_by": "week(ts)"}, "is no transform"),
        ("iceberg:t", {"partition_by": "bucket(id)"}, "takes a number"),
        ("iceberg:t", {"create": {"partitions": "x"}}, "partition_by"),
        ("iceberg:t", {"on_overlap": "skip"}, "no option of append into an iceberg table"),
        ("iceberg:t", {"mode": "delete", "partition_by": "id", "key": "id"}, "no option of mode="),
    ],
)
def test_what_is_refused_before_anything_is_opened(url: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOption, match=told):
        gl.connect.sink(url, pipeline="orders", **options)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("iceberg:sales.t", {}),
        ("iceberg:t", {"namespace": "sales"}),
        ("iceberg:sales", {"table_name": "t"}),
        ("iceberg:", {"namespace": "sales", "table_name": "t"}),
        ("iceberg:sales.t", {"namespace": "sales", "table_name": "t"}),
    ],
)
def test_the_name_of_a_table(url: str, options: dict[str, Any]) -> None:
    if url == "iceberg:":
        url = "iceberg:sales.t"
    sink = gl.connect.sink(url, pipeline="orders", catalog_type="sql", catalog_uri="sqlite://", **options)
    assert repr(sink) == "<TableSink iceberg:sales.t, orders/main#1, append>"
