"""A lake in a bucket, whose catalog is in PostgreSQL: runs, queries, compaction, expiry, exports, copies; what is refused there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

import gapless as gl
from gapless.errors import InvalidQuery, NotSupported
from gapless.lake import Page, QueryLimits
from gapless.lake.lake import Lake
from gapless.lake.opening import init, open_lake, pull
from support.lake_catalogs import PASSWORD, url_of
from support.postgres import Postgres

S3 = tuple[str, dict[str, str]]


@pytest.fixture
def catalog(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(PASSWORD, "s3cret")
    return url_of(postgres, postgres.database())


@pytest.fixture
def lake(s3_options: S3, catalog: str) -> Lake:
    bucket, options = s3_options
    return init(f"{bucket}/lake", catalog=catalog, storage_options=options)


def rows(lake: Lake, table: str = "t", **options: Any) -> list[dict[str, Any]]:
    return sorted(lake.query(f"SELECT * FROM {table}", **options).to_arrow().to_pylist(), key=repr)


def test_a_life_in_a_bucket(lake: Lake, s3_options: S3, tmp_path: Path) -> None:
    bucket, options = s3_options
    table = lake.create_table("t", key="id", partition_by="site")
    lake.run("t", [{"id": 1, "v": 1, "site": "a/b[0]*?"}, {"id": 2, "v": 2, "site": None}])
    lake.run("t", lambda _: iter([Page([{"id": 2, "v": "text", "site": "é %"}], 7)]), cursor="opaque")
    wanted = [{"id": 1, "site": "a/b[0]*?", "v": "1"}, {"id": 2, "site": "é %", "v": "text"}]
    assert rows(lake) == wanted
    first = table.compact().snapshot
    assert first is not None
    lake.run("t", [{"id": 1, "v": "later", "site": ""}])
    other = open_lake(f"{bucket}/lake", node="two", storage_options=options)
    assert other.table("t").cursor() == 7
    assert rows(other)[0] == {"id": 1, "site": "", "v": "later"}
    assert rows(other, snapshots={"t": first}) == wanted
    assert (table.compact().rows, table.expire(keep_s=-1).snapshots) == (2, 1)
    assert (lake.doctor(deep=True), table.count()) == ((), 2)
    done = table.export("delta")
    storage = {"AWS_ENDPOINT_URL": options["endpoint"], "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    storage |= {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    found = deltalake.DeltaTable(done.path, storage_options=storage).to_pyarrow_table().to_pylist()
    assert sorted(found, key=repr) == rows(lake)
    report = pull(f"{bucket}/lake", tmp_path / "replica", storage_options=options)
    assert report.tables[0].snapshots == 1
    assert rows(gl.lake.open(tmp_path / "replica")) == rows(lake)


def test_queries_with_limits_open_what_is_named_alone(lake: Lake) -> None:
    lake.create_table("t")
    lake.run("t", [{"id": number} for number in range(50)])
    manifest = lake.table("t").manifests()[0]
    live = f"{manifest.folder}/{manifest.files[0].path}"
    lake._env.store.put(f"{manifest.folder}/stray.parquet", lake._env.store.get(live))

    def ask(sql: str, **limits: Any) -> Any:
        told = {"t": lake.table("t").fingerprint}
        return lake.limited_query(sql, fingerprints=told, limits=QueryLimits(**limits)).run()

    answer = ask("SELECT id FROM t ORDER BY id", rows=2)
    assert (answer.table.to_pylist(), answer.truncated_by) == ([{"id": 0}, {"id": 1}], "rows")
    assert ask(f"SELECT count(*) AS n FROM read_parquet('gaplesslake://{live}'), t").table.to_pylist() == [{"n": 2500}]
    for sql in (
        f"SELECT * FROM read_parquet('gaplesslake://{manifest.folder}/stray.parquet'), t",
        f"SELECT * FROM read_parquet('gaplesslake://{manifest.folder}/../main/stray.parquet'), t",
        f"SELECT * FROM read_blob('gaplesslake://{manifest.folder}/*'), t",
        "SELECT * FROM read_text('gaplesslake://lake.toml'), t",
        "SELECT * FROM read_text('/etc/passwd'), t",
        "SELECT * FROM read_parquet('s3://gapless-tests/x'), t",
    ):
        with pytest.raises(InvalidQuery):
            ask(sql)


def test_what_is_refused_in_a_bucket(lake: Lake, s3_options: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, options = s3_options
    with pytest.raises(NotSupported, match="catalog in PostgreSQL"):
        init(f"{bucket}/other", storage_options=options)
    with pytest.raises(NotSupported, match="kind 'delta'"):
        lake.create_table("d", kind="delta")
    with pytest.raises(NotSupported, match="catalog in PostgreSQL"):
        pull(f"{bucket}/lake", f"{bucket}/copy")
    lake.create_table("t")
    lake.run("t", [{"a": 1}])
    lake.push(f"{bucket}/hub", storage_options=options)
    with pytest.raises(NotSupported, match="a replica has no other"):
        open_lake(f"{bucket}/hub", storage_options=options)
    monkeypatch.setitem(sys.modules, "fsspec.spec", None)
    with pytest.raises(NotSupported, match="fsspec"):
        rows(lake)
