"""A sink into PostgreSQL, a real one: each batch once, whatever dies, and what it refuses."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import DataError, DuplicateKey, InvalidOption, NotSupported, NullKey, SchemaMismatch, StoreUnavailable
from gapless.pipelines.sinks.postgres import PostgresSink, Written
from support.doomed_runs import live
from support.postgres import Postgres

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)
COLUMNS = "id BIGINT, ts TIMESTAMP, fare DECIMAL(9, 2), tags ARRAY<STRUCT<a: INT, b: BINARY>>, note STRING"


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.database()


def made(
    postgres: Postgres, database: str, *, table: str = "trips", mode: str = "append", key: tuple[str, ...] = (), **more: Any
) -> PostgresSink:
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{database}"
    options = {"url": url, "table": table, "user": "gapless", "password": "s3cret", "key": key, **more}
    return PostgresSink.of(options, mode, "p@1/trips")


def held(postgres: Postgres, database: str, query: str) -> list[tuple[Any, ...]]:
    with postgres.connect(database) as connection:
        return connection.execute(query.encode()).fetchall()


def frame(spark: Any, *rows: tuple[Any, ...], columns: str = "id BIGINT, v STRING") -> Any:
    return spark.createDataFrame(list(rows), columns)


def test_values_come_as_they_are_and_a_batch_comes_once(spark: Any, postgres: Postgres, database: str) -> None:
    at = datetime(2026, 1, 5, 12, 30, 15, 123456, UTC)
    sink = made(postgres, database)
    sink.check()
    assert "s3cret" not in repr(sink)
    rows = frame(spark, (1, at, Decimal("3.50"), [(7, b"\0x")], "a\tb\\N\né"), (2, None, None, None, None), columns=COLUMNS)
    assert sink(rows, 0) == Written(rows=2)
    assert sink(rows, 0) == Written(rows=0, already_applied=True)
    assert made(postgres, database)(rows, 0).already_applied
    assert sink(rows.where("id = 2"), 1) == Written(rows=1)
    found = held(postgres, database, "SELECT * FROM trips ORDER BY id, ts NULLS LAST")
    assert found == [
        (1, at, Decimal("3.50"), [{"a": 7, "b": "AHg="}], "a\tb\\N\né"),
        (2, None, None, None, None),
        (2, None, None, None, None),
    ]
    assert held(postgres, database, "SELECT app, batch, rows FROM gapless_batches") == [("p@1/trips", 1, 1)]


def test_rows_take_the_place_of_those_with_their_key_or_of_all(spark: Any, postgres: Postgres, database: str) -> None:
    sink = made(postgres, database, mode="upsert", key=("id",), table="public.Odd")
    sink(frame(spark, (1, "a"), (2, "b")), 0)
    sink(frame(spark, (2, "B"), (3, "c")), 1)
    assert held(postgres, database, 'SELECT * FROM public."Odd" ORDER BY id') == [(1, "a"), (2, "B"), (3, "c")]
    with pytest.raises(DuplicateKey, match="several rows of the key 5"):
        sink(frame(spark, (5, "x"), (5, "y")), 2)
    with pytest.raises(NullKey, match="the key 'id' is null"):
        sink(frame(spark, (None, "x")), 2)
    assert len(held(postgres, database, 'SELECT * FROM public."Odd"')) == 3
    assert not sink(frame(spark, (4, "d")), 2).already_applied
    whole = made(postgres, database, mode="complete", table="answer")
    for batch in range(2):
        whole(frame(spark, (batch, "n")), batch + 5)
    assert held(postgres, database, "SELECT * FROM answer") == [(1, "n")]


def test_what_cannot_be_is_refused_and_leaves_nothing(spark: Any, postgres: Postgres, database: str) -> None:
    postgres.run(database, "CREATE TABLE trips (id smallint NOT NULL, v text CHECK (v <> 'bad'))")
    with pytest.raises(InvalidOption, match="CREATE UNIQUE INDEX"):
        made(postgres, database, mode="upsert", key=("id",)).check()
    sink = made(postgres, database)
    sink.check()
    with pytest.raises(SchemaMismatch, match="has no column 'w'"):
        sink(frame(spark, (1, "a"), columns="id BIGINT, w STRING"), 0)
    for row in ((70_000, "a"), (1, "bad"), (None, "a"), (1, "nul \0")):
        with pytest.raises(DataError):
            sink(frame(spark, (2, "good"), row), 0)
    assert held(postgres, database, "SELECT * FROM trips") == []
    assert sink(frame(spark, (2, "good")), 0).rows == 1
    for wrong, said in (
        (made(postgres, database, password="no"), "password authentication failed"),
        (made(postgres, "nowhere"), "nowhere"),
    ):
        with pytest.raises(StoreUnavailable, match=said) as refused:
            wrong.check()
        assert "s3cret" not in str(refused.value)
    for url in ("jdbc:mysql://h/d", "h:5432/d"):
        with pytest.raises(NotSupported, match="PostgreSQL alone"):
            made(postgres, database, url=url)
    with pytest.raises(InvalidOption, match="names a user"):
        made(postgres, database, url="postgresql://ada@h/d")
    with pytest.raises(InvalidOption, match="names no table"):
        made(postgres, database, table="a.b.c")


SQL = """CREATE SOURCE records (id BIGINT, v STRING) WITH (type='json', location='{root}/in', max_files=1);
CREATE SINK pg WITH (type='jdbc', url='{postgres}', table='copied', password='${{env:TRIPS_PASSWORD}}', user='gapless') AS SELECT * FROM records;
CREATE SINK kept WITH (type='delta', location='{root}/kept') AS SELECT * FROM records;
"""


def test_killed_once_it_has_a_batch_each_row_is_there_once(
    postgres: Postgres, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        path = tmp_path / "in" / f"{number}.json"
        path.write_text("".join(f'{{"id": {one}, "v": "v{one}"}}\n' for one in range(4 * number, 4 * number + 4)))
        os.utime(path, (1_700_000_000 + number,) * 2)
    monkeypatch.setenv("TRIPS_PASSWORD", "s3cret")
    (tmp_path / "gapless.toml").write_text('[pipelines.spark]\n"spark.driver.memory" = "1g"\n', encoding="utf-8")
    sql = tmp_path / "copies.sql"
    url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{database}"
    sql.write_text(SQL.format(root=tmp_path, postgres=url), encoding="utf-8")
    died = live(sql, "after:pg:0")
    assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]
    assert len(held(postgres, database, "SELECT * FROM copied")) == 4
    done = live(sql)
    assert done.returncode == 0, done.stderr[-3000:]
    assert held(postgres, database, "SELECT * FROM copied ORDER BY id") == [(one, f"v{one}") for one in range(8)]
    assert sorted(gl.delta.open(tmp_path / "kept").scan().to_arrow().column("id").to_pylist()) == list(range(8))
    for state in (tmp_path / ".gapless").rglob("*"):
        assert state.is_dir() or b"s3cret" not in state.read_bytes()
