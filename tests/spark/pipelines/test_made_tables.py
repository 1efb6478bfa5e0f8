"""Time-series tables that a sink makes are as its options say, and one that is otherwise is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import DuplicateKey, InvalidOption
from gapless.pipelines.run.sinks import BatchSink, batch_sink

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


def sink(root: Path, options: str) -> BatchSink:
    sql = f"CREATE SOURCE s WITH (type='rate'); CREATE SINK air WITH (type='timeseries', location='{root}/air'{options}) AS SELECT * FROM s;"
    return batch_sink(gl.pipeline(sql=sql, name="p").definitions.defined["air"], "append", "p@1/air")


def test_a_table_of_local_days_whose_rows_are_unique(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql("SELECT timestamp'2026-01-05 02:00:00Z' AS ts, 'north' AS site, 1.5D AS ppm")
    options = ", index='ts', entity='site', bucket='1d', timezone='America/New_York', unique=TRUE"
    sink(tmp_path, options)(rows, 0)
    table = gl.open(tmp_path / "air")
    assert (table.index.timezone, table.properties.unique, table.index.entity) == ("America/New_York", True, ("site",))
    assert table.coverage().buckets()[0].start.isoformat() == "2026-01-04T00:00:00-05:00"
    with pytest.raises(DuplicateKey):
        sink(tmp_path, options)(rows, 1)
    for wrong in ("timezone='UTC'", "bucket='1h'"):
        with pytest.raises(InvalidOption, match=wrong.partition("=")[0]):
            sink(tmp_path, f", index='ts', entity='site', bucket='1d', {wrong}".replace("bucket='1d', bucket", "bucket"))(
                rows, 1
            )


def test_half_a_description_is_refused(tmp_path: Path) -> None:
    for half in (", timezone='UTC'", ", unique=TRUE", ", index='ts'", ", bucket='1h', entity='site'"):
        with pytest.raises(InvalidOption, match="does not make a table"):
            sink(tmp_path, half)
