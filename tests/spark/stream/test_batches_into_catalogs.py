"""Batches of Spark into Iceberg tables of catalogs and their buckets, read back by pyiceberg through the catalog."""

from __future__ import annotations

from typing import Any

import pytest

from connect.iceberg.test_catalog_sinks import Lake, lake
from gapless.spark import batch_writer
from publish.test_iceberg_catalogs import rest_catalog
from support.pipelines import rows

__all__ = ["lake", "rest_catalog"]

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CATALOGS = ["rest", *(pytest.param(one, marks=pytest.mark.soak) for one in ("sqlite", "glue", "hive"))]


@pytest.mark.parametrize("lake", CATALOGS, indirect=True)
def test_executors_write_into_the_bucket_and_the_driver_commits_in_the_catalog_once(spark: Any, lake: Lake) -> None:
    def written(mode: Any, first: int, count: int, batch: int, **options: Any) -> Any:
        frame = spark.createDataFrame(rows(first, count)).repartition(2)
        return batch_writer(f"iceberg:{lake.name}", mode, app_id="job", **lake.options, **options).write(frame, batch)

    made = {"create": {"partition_by": ["day(ts)"]}}
    assert written("append", 0, 12, 0, **made).rows == 12
    assert written("append", 0, 12, 0, **made).already_applied
    assert lake.values() == [*range(12)]
    assert written("update", 10, 4, 1, key="v").rows == 4
    assert lake.values() == [*range(14)]
    assert [str(field.transform) for field in lake.table.spec().fields] == ["day"]
