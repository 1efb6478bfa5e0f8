"""What Hudi on Spark 3.5 does with a Hudi table. Its jars come by Ivy, once, into the folder that SPARK_IVY names."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

PACKAGES = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
_OPTIONS = {
    "spark.jars.packages": PACKAGES,
    "spark.jars.ivy": os.environ.get("SPARK_IVY", ""),
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.warehouse.dir": os.environ.get("SPARK_WAREHOUSE", ""),
}
_started: list[Any] = []


def _session() -> Any:
    if not _started:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("interop")
        for name, value in _OPTIONS.items():
            builder = builder.config(name, value)
        _started.append(builder.getOrCreate())
    return _started[0]


def stop() -> None:
    """End the session."""
    for session in _started:
        session.stop()


def version() -> str:
    """Spark's release, once it has started."""
    session = _session()
    session.sql("select 1").collect()
    return str(session.version)


def _rows(frame: Any) -> pa.Table:
    batches = frame._collect_as_arrow()
    if not batches:
        return pa.table({name: [] for name in frame.columns})
    return pa.Table.from_batches(batches).rename_columns(frame.columns)


def read(path: str, at: str | None = None, where: str | None = None) -> pa.Table:
    """All rows, those of a condition, or those as of an instant."""
    reader = _session().read.format("hudi")
    frame = (reader if at is None else reader.option("as.of.instant", at)).load(path)
    frame = frame if where is None else frame.where(where)
    return _rows(frame.drop(*(name for name in frame.columns if name.startswith("_hoodie_"))))


def changed(path: str, since: str, until: str | None = None) -> pa.Table:
    """What an incremental query gives of changes that were completed after an instant, and by another."""
    reader = _session().read.format("hudi").option("hoodie.datasource.query.type", "incremental")
    reader = reader.option("hoodie.datasource.read.begin.instanttime", since)
    reader = reader if until is None else reader.option("hoodie.datasource.read.end.instanttime", until)
    return _rows(reader.load(path))


def write(path: str, rows: pa.Table, operation: str, key: str | None = None, **options: str) -> None:
    """Rows added, or in the place of those with their key, as Hudi's defaults do."""
    frame = _session().createDataFrame(rows.to_pandas())
    named = {"hoodie.table.name": "gapless", "hoodie.datasource.write.operation": operation, **options}
    if key is not None:
        named["hoodie.datasource.write.recordkey.field"] = key
    frame.write.format("hudi").options(**named).mode("append").save(path)


def sql(text: str) -> list[str]:
    """What a statement answers, a text a row."""
    return [str(row) for row in _session().sql(text).collect()]


def schema_of(name: str) -> str:
    """The Avro schema of one of Hudi's records."""
    return str(getattr(_session()._jvm.org.apache.hudi.avro.model, name).getClassSchema().toString())
