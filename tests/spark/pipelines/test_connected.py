"""Sources of `gapless.connect` in pipelines: Iceberg and Hudi tables that others write, and a service that fails and changes its mind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless import connect
from gapless.errors import InvalidPipeline, PipelineFailed, SourceCannotReplay
from gapless.pipelines.pipeline import PipelineHandle
from gapless.pipelines.run.backfills import run_backfill
from gapless.pipelines.run.state import PipelineState
from support.http_service import Answer, Service

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


def made(root: Path, sql: str, name: str = "p") -> PipelineHandle:
    return gl.pipeline(sql=sql.format(root=root), name=name, checkpoints=str(root / "checkpoints"))


def commit(url: str, number: int, rows: dict[int, str], mode: str = "append") -> None:
    options: dict[str, Any] = {"key": "id"} if mode == "upsert" else {}
    into = connect.sink(url, pipeline="writer", name=mode, mode=mode, create={}, **options)
    into.initialize(SCHEMA)
    into.write(pa.table({"id": list(rows), "v": list(rows.values())}, schema=SCHEMA))
    into.finalize(into.prepare(number))


def rows_of(place: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in gl.delta.open(place).scan().to_arrow().to_pylist())


def kept_rows(root: Path, name: str = "p") -> list[Path]:
    return sorted((root / "checkpoints" / name / "rows").rglob("*.arrow"))


@pytest.mark.parametrize("kind", ["iceberg", "hudi"])
def test_a_table_of_others_is_read_and_followed(spark: Any, tmp_path: Path, kind: str) -> None:
    place = f"{kind}:{tmp_path}/table"
    sql = (
        f"CREATE SOURCE rows_in WITH (type='{kind}', location='{{root}}/table');"
        "CREATE SINK copy FROM rows_in INTO DELTA (location='{root}/copy');"
        "CREATE SINK odd WITH (type='delta', location='{root}/odd') AS SELECT id FROM rows_in WHERE id % 2 = 1;"
    )
    commit(place, 1, {1: "a", 2: "b", 3: "c"})
    report = made(tmp_path, sql).run(spark)
    assert report.sinks["copy"].rows == 3
    assert rows_of(tmp_path / "copy") == [(1, "a"), (2, "b"), (3, "c")]
    commit(place, 2, {4: "d", 5: "e", 6: "f"})
    made(tmp_path, sql).run(spark)
    assert rows_of(tmp_path / "copy") == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]
    assert rows_of(tmp_path / "odd") == [(1,), (3,), (5,)]
    assert len(kept_rows(tmp_path)) <= 1  # of the last batch, which the next one lets go
    assert PipelineState(str(tmp_path / "checkpoints" / "p")).reset() > 3
    assert not kept_rows(tmp_path)


@pytest.mark.parametrize("kind", ["iceberg", "hudi"])
def test_a_gap_is_filled_from_the_version_that_a_table_had_as_the_run_began(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = f"{kind}:{tmp_path}/table"
    sql = (
        f"CREATE SOURCE rows_in WITH (type='{kind}', location='{{root}}/table');"
        "CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h')"
        " AS SELECT id, timestamp_seconds(3600 * (id % 10)) AS ts FROM rows_in;"
    )
    commit(place, 1, dict.fromkeys(range(4), "a"))
    made(tmp_path, sql).run(spark)
    air = gl.open(tmp_path / "air")
    air.delete("id = 1")

    def fill_later(*given: Any) -> Any:
        commit(place, 2, {11: "b", 15: "c"})  # of the hour that is missing, and of another one
        return run_backfill(*given)

    with monkeypatch.context() as patch:
        patch.setattr("gapless.pipelines.run.run.run_backfill", fill_later)
        fill = "BACKFILL air FROM '1970-01-01T00:00Z' TO '1970-01-01T10:00Z';"
        ((_, told),) = made(tmp_path, sql + fill).run(spark).backfills
    assert (told.rows, told.buckets) == (1, 1)
    assert sorted(air.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    made(tmp_path, sql).run(spark)
    assert sorted(air.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 11, 15]


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("hudi", marks=pytest.mark.soak)])
def test_changes_are_told_or_stop_it_and_a_batch_reads_the_newest_version(spark: Any, tmp_path: Path, kind: str) -> None:
    place = f"{kind}:{tmp_path}/table"
    commit(place, 1, {1: "a", 2: "b"}, "upsert")
    followed = (
        f"CREATE SOURCE rows_in WITH (type='{kind}', location='{{root}}/table'{{more}});"
        "CREATE SINK copy FROM rows_in INTO DELTA (location='{root}/{name}');"
    )

    def run(name: str, more: str) -> list[tuple[Any, ...]]:
        sql = followed.replace("{more}", more).replace("{name}", name)
        gl.pipeline(sql=sql.format(root=tmp_path), name=name, checkpoints=str(tmp_path / "checkpoints")).run(spark)
        return rows_of(tmp_path / name)

    for name, more in (("strict", ""), ("told", ", change_data_feed=TRUE")):
        run(name, more)
    commit(place, 2, {2: "B", 3: "c"}, "upsert")
    with pytest.raises(gl.GaplessError, match="changed rows"):
        run("strict", "")
    assert rows_of(tmp_path / "strict") == [(1, "a"), (2, "b")]
    assert run("strict", ", on_data_change='skip'") == [(1, "a"), (2, "b")]
    told = run("told", ", change_data_feed=TRUE")
    # A table whose writer tells of no keys gives an update as a delete and an insert.
    assert [row[:2] for row in told if row[2] in ("insert", "update_postimage")] == [(1, "a"), (2, "B"), (2, "b"), (3, "c")]
    assert [row[:2] for row in told if row[2] in ("delete", "update_preimage")] == [(2, "b")]
    assert run("batch", ", mode='batch'") == [(1, "a"), (2, "B"), (3, "c")]
    commit(place, 3, {1: "z"}, "upsert")
    assert run("batch", ", mode='batch'") == [(1, "z"), (2, "B"), (3, "c")]


PAGED = """CREATE SOURCE trips (id BIGINT NOT NULL, ts TIMESTAMP, fare DECIMAL(9, 2))
WITH (type='http', url='{url}', records='data.items', pagination='after_value', parameter='since', column='id', max_rows=7,
  'header.Authorization' = 'Bearer hunter2', 'param.sortBy' = 'id');
CREATE SINK trips FROM trips INTO DELTA (location='{root}/trips');
CREATE SINK dear WITH (type='delta', location='{root}/dear') AS SELECT id FROM trips_source WHERE fare > 10;
""".replace("trips_source", "trips")


def paged(rows: list[dict[str, object]]) -> Any:
    """Pages of three rows after an id."""

    def answer(_path: str, query: dict[str, str]) -> Answer:
        later = [row for row in rows if int(str(row["id"])) > int(query.get("since", "-1"))]
        return 200, {}, json.dumps({"data": {"items": later[:3]}}).encode()

    return answer


def trip(number: int) -> dict[str, object]:
    return {"id": number, "ts": f"2026-01-05T00:{number:02}:00Z", "fare": f"{number}.50"}


def test_a_service_is_read_page_by_page_past_its_failures(spark: Any, tmp_path: Path, http_service: Service) -> None:
    sql = PAGED.replace("SINK trips FROM", "SINK copy FROM").format(url=http_service.url, root=tmp_path)
    rows = [trip(one) for one in range(10)]
    http_service.answer = paged(rows)
    http_service.failures = [(503, {"Retry-After": "0"}, b""), (-1, {}, b""), (-2, {}, b'{"data"')]
    pipeline = gl.pipeline(sql=sql, name="p", checkpoints=str(tmp_path / "checkpoints"))
    assert pipeline.run(spark).sinks["copy"].rows == 10
    rows += [trip(one) for one in range(10, 13)]
    assert pipeline.run(spark).sinks["copy"].rows == 3
    copied = gl.delta.open(tmp_path / "trips").scan().to_arrow()
    assert sorted(copied.column("id").to_pylist()) == list(range(13))
    assert sorted(str(one) for one in copied.column("fare").to_pylist()) == sorted(f"{one}.50" for one in range(13))
    assert str(copied.schema.field("ts").type) == "timestamp[us, tz=UTC]"
    assert [row[0] for row in rows_of(tmp_path / "dear")] == [10, 11, 12]
    assert all(headers["Authorization"] == "Bearer hunter2" for _, _, headers in http_service.asked)
    assert {query["sortBy"] for _, query, _ in http_service.asked} == {"id"}
    for state in (tmp_path / "checkpoints").rglob("*"):
        assert state.is_dir() or b"hunter2" not in state.read_bytes()
    plans = "".join(one.plan for one in pipeline.plan(spark))
    assert "Bearer" not in plans
    assert "gapless_connect" in plans


def test_pages_that_move_are_read_whole_or_refused(spark: Any, tmp_path: Path, http_service: Service) -> None:
    http_service.answer = lambda _, query: (
        (200, {}, json.dumps([trip(2 * int(query["page"]) + one) for one in range(2)]).encode())
        if int(query["page"]) < 3
        else (404, {}, b"")
    )
    sql = (
        f"CREATE SOURCE trips (id BIGINT, ts TIMESTAMP) WITH (type='http', url='{http_service.url}', pagination='page_number',"
        " first_page=0{more});"
        "CREATE SINK copy WITH (type='delta', location='{root}/copy') AS SELECT id FROM trips;"
    )
    with pytest.raises(SourceCannotReplay, match="'trips' cannot be gone on with"):
        made(tmp_path, sql.replace("{more}", "")).run(spark)
    assert not http_service.asked
    assert not (tmp_path / "copy").exists()
    with pytest.raises(PipelineFailed, match="fare: is not known"):
        made(tmp_path, sql.replace("{more}", ", mode='batch'"), "b").run(spark)
    whole = sql.replace("ts TIMESTAMP", "ts TIMESTAMP, fare DECIMAL(9, 2)").replace("{more}", ", mode='batch'")
    for _ in range(2):
        made(tmp_path, whole, "c").run(spark)
        assert [row[0] for row in rows_of(tmp_path / "copy")] == list(range(6))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("pagination='after_value', column='id'", "needs parameter="),
        (
            "pagination='page_token', parameter='t', path='next', column='id'",
            "column='id' is no option of pagination='page_token'",
        ),
        ("pagination='nextlink'", "next_link"),
        ("pagintion='offset'", "pagination"),
        ("first_page=-1", "whole number from 0"),
    ],
)
def test_a_service_is_described_or_refused(spark: Any, tmp_path: Path, options: str, said: str) -> None:
    sql = (
        "CREATE SOURCE s (id BIGINT) WITH (type='http', url='http://127.0.0.1:9/', {options});"
        "CREATE SINK copy FROM s INTO DELTA (location='{root}/copy');"
    )
    with pytest.raises(gl.CallError, match=said):
        made(tmp_path, sql.replace("{options}", options)).run(spark)


def test_the_columns_of_a_service_are_declared_and_an_iceberg_table_is_named(spark: Any, tmp_path: Path) -> None:
    for source, said in (
        ("type='http', url='http://127.0.0.1:9/', pagination='after_value', parameter='a', column='id'", "are not declared"),
        ("type='iceberg'", "no Iceberg table is named"),
        ("type='iceberg', catalog_typ='sql'", "Did you mean 'catalog_type'"),
    ):
        sql = f"CREATE SOURCE s WITH ({source}); CREATE SINK copy FROM s INTO DELTA (location='{tmp_path}/copy');"
        with pytest.raises(gl.CallError, match=said):
            gl.pipeline(sql=sql, name="p", checkpoints=str(tmp_path / "checkpoints")).run(spark)


def test_secrets_of_services_and_catalogs_are_masked() -> None:
    sql = (
        "CREATE SOURCE s (id BIGINT) WITH (type='http', url='http://h/', 'header.Authorization'='Bearer hunter2', 'param.api_key'='hunter2');"
        "CREATE SOURCE t WITH (type='iceberg', catalog_type='sql', catalog_uri='postgresql://a:hunter2@h/d', 'catalog.credential'='hunter2',"
        " table_name='t');"
    )
    read = gl.pipeline(sql=sql, name="p")
    from gapless.pipelines.definitions import secret_names
    from gapless.pipelines.language.show_create import show_create

    for one in read.definitions.defined.values():
        assert "hunter2" not in show_create(one.statement, secret_names(one))
        assert "hunter2" not in repr(one.options.__class__) + str(read)
    with pytest.raises(InvalidPipeline, match="3a"):
        gl.pipeline(sql="CREATE SOURCE s WITH (type='http', url='x', timeout='3a')", name="p")
