"""Sinks into Delta, Iceberg and Hudi tables in SQL: how a missing table is made, and what others than us read there afterwards."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import gapless as gl
from gapless.errors import InvalidOption
from support import hudi_targets

START = datetime(2026, 1, 5, tzinfo=UTC)
ORDERS = """CREATE SOURCE orders (id BIGINT, order_time TIMESTAMP, amount DOUBLE) WITH (type='json', location='{root}/in');
CREATE SINK kept WITH (type='{type}', {options}) AS SELECT * FROM orders;
"""

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


def send(root: Path, name: str, *rows: tuple[int, int, float]) -> None:
    (root / "in").mkdir(exist_ok=True)
    lines = [
        json.dumps({"id": n, "order_time": (START + timedelta(days=day)).isoformat(), "amount": amount}) + "\n"
        for n, day, amount in rows
    ]
    (root / f".{name}").write_text("".join(lines), encoding="utf-8")
    (root / f".{name}").rename(root / "in" / name)


def run(spark: Any, root: Path, kind: str, options: str) -> None:
    sql = ORDERS.format(root=root, type=kind, options=options.format(root=root))
    gl.pipeline(sql=sql, name="p", checkpoints=str(root / "checkpoints")).run(spark)


def amounts(rows: list[dict[str, Any]]) -> dict[int, float]:
    found = {row["id"]: row["amount"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_an_iceberg_table_of_a_catalog_is_made_partitioned_and_filled_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG", f"sqlite:///{tmp_path}/catalog.db")
    options = (
        "catalog_type='sql', catalog_uri='${{env:CATALOG}}', warehouse='{root}/lake', namespace='sales', table_name='orders',"
        " partition_by='DAYS(order_time), bucket(4, id)', target_file_size='64 MiB'"
    )
    send(tmp_path, "a.json", (1, 0, 1.0), (2, 1, 2.0))
    run(spark, tmp_path, "iceberg", options)
    send(tmp_path, "b.json", (3, 1, 3.0))
    run(spark, tmp_path, "iceberg", options)
    run(spark, tmp_path, "iceberg", options)
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/lake")
    table = catalog.load_table(("sales", "orders"))
    assert amounts(table.scan().to_arrow().to_pylist()) == {1: 1.0, 2: 2.0, 3: 3.0}
    assert [str(one.transform) for one in table.spec().fields] == ["day", "bucket[4]"]
    catalog.close()


def test_a_hudi_table_takes_the_newest_row_of_each_key(spark: Any, tmp_path: Path) -> None:
    options = "location='{root}/orders', mode='upsert', key='id', order_by='order_time', partition_by='id'"
    send(tmp_path, "a.json", (1, 0, 1.0), (1, 1, 2.0), (2, 1, 9.0))
    run(spark, tmp_path, "hudi", options)
    send(tmp_path, "b.json", (2, 0, 5.0), (3, 0, 3.0))
    run(spark, tmp_path, "hudi", options)
    assert amounts(hudi_targets.rows(tmp_path / "orders")) == {1: 2.0, 2: 9.0, 3: 3.0}


def test_a_delta_table_is_described_as_iceberg_and_says_how_large_files_become(spark: Any, tmp_path: Path) -> None:
    options = "location='{root}/orders', uniform_iceberg=TRUE, target_file_size='128MB'"
    send(tmp_path, "a.json", (1, 0, 1.0))
    run(spark, tmp_path, "delta", options)
    table = gl.delta.open(tmp_path / "orders")
    assert table.properties["delta.targetFileSize"] == "128000000"
    described = list((tmp_path / "orders").rglob("*.metadata.json"))
    assert described, "each version is described as Iceberg"
    send(tmp_path, "b.json", (2, 0, 2.0))
    run(spark, tmp_path, "delta", options)
    assert amounts(gl.delta.open(tmp_path / "orders").scan().to_arrow().to_pylist()) == {1: 1.0, 2: 2.0}
    for other, name in (
        ("uniform_iceberg=FALSE", "uniform_iceberg"),
        ("target_file_size='1MB'", "target_file_size"),
        ("partition_by='id'", "partition_by"),
    ):
        send(tmp_path, f"{name}.json", (9, 0, 9.0))
        with pytest.raises(InvalidOption, match=name):
            run(spark, tmp_path, "delta", f"location='{{root}}/orders', {other}")


def test_a_region_is_an_option_of_a_bucket_alone(spark: Any, tmp_path: Path) -> None:
    send(tmp_path, "a.json", (1, 0, 1.0))
    for kind in ("timeseries", "delta", "hudi", "iceberg"):
        more = ", index='order_time', bucket='1h'" if kind == "timeseries" else ""
        with pytest.raises(InvalidOption, match=r"aws_region|storage_options"):
            run(spark, tmp_path, kind, f"location='{{root}}/{kind}', aws_region='eu-central-1'{more}")
