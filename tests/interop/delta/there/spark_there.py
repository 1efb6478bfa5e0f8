"""What Spark with delta-spark and Iceberg does with a table. The jars come by Ivy, once, into the folder that SPARK_IVY names."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

PACKAGES = "io.delta:delta-spark_4.1_2.13:4.4.0,org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
_OPTIONS = {
    "spark.jars.packages": PACKAGES,
    "spark.jars.ivy": os.environ.get("SPARK_IVY", ""),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Tables by their paths, too, are read anew each time.
    "spark.sql.catalog.default_iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.default_iceberg.type": "hadoop",
    "spark.sql.catalog.default_iceberg.warehouse": os.environ.get("SPARK_WAREHOUSE", ""),
    "spark.sql.catalog.default_iceberg.cache-enabled": "false",
    # 50 tasks to list a table's files otherwise, which is meant for more machines.
    "spark.databricks.delta.snapshotPartitions": 2,
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.shuffle.partitions": 2,
    "spark.default.parallelism": 2,
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.warehouse.dir": os.environ.get("SPARK_WAREHOUSE", ""),
}
_started: list[Any] = []


def _session() -> Any:
    if not _started:
        from gapless.spark import session

        _started.append(session("interop", master="local[2]", quick=True, config=_OPTIONS))
    return _started[0]


def stop() -> None:
    """End the session."""
    for session in _started:
        session.stop()


def version() -> str:
    """Its release, once it has started and has Delta's classes."""
    session = _session()
    session.sql("select 1").collect()
    return f"{session.version} {session._jvm.io.delta.package.VERSION()}"


def read(path: str, at: int | None = None, where: str | None = None) -> pa.Table:
    """All rows, or those of a condition."""
    reader = _session().read.format("delta")
    frame = (reader if at is None else reader.option("versionAsOf", at)).load(path)
    return (frame if where is None else frame.where(where)).toArrow()


def read_iceberg(path: str, at: int | None = None, where: str | None = None) -> pa.Table:
    """All rows of an Iceberg table in a directory, or those of a condition; `at` a snapshot."""
    reader = _session().read.format("iceberg")
    frame = (reader if at is None else reader.option("versionAsOf", at)).load(path)
    return (frame if where is None else frame.where(where)).toArrow()


def iceberg_catalog(name: str, warehouse: str) -> None:
    """Have a catalog of the tables in the folders of a folder, for `sql` and `query`."""
    conf = _session().conf
    conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    conf.set(f"spark.sql.catalog.{name}.warehouse", warehouse)
    conf.set(f"spark.sql.catalog.{name}.cache-enabled", "false")


def append_iceberg(path: str, rows: pa.Table) -> None:
    """Rows more, as another writer's."""
    _frame(rows).coalesce(1).write.format("iceberg").mode("append").save(path)


def _frame(rows: pa.Table) -> Any:
    return _session().createDataFrame(rows)


def create(path: str, rows: pa.Table, partition_by: list[str], configuration: dict[str, str]) -> None:
    """A table with its first rows."""
    writer = _frame(rows).coalesce(1).write.format("delta").mode("error").options(**configuration)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)


def append(path: str, rows: pa.Table) -> None:
    """Rows more."""
    _frame(rows).coalesce(1).write.format("delta").mode("append").save(path)


def overwrite(path: str, rows: pa.Table, where: str | None = None) -> None:
    """Other rows, all or those of a predicate."""
    writer = _frame(rows).coalesce(1).write.format("delta").mode("overwrite")
    (writer if where is None else writer.option("replaceWhere", where)).save(path)


def sql(text: str) -> list[str]:
    """What a statement answers, a text a row."""
    return [str(row) for row in _session().sql(text).collect()]


def query(text: str) -> pa.Table:
    """What a query answers."""
    return _session().sql(text).toArrow()


def delete(path: str, where: str | None) -> list[str]:
    """Rows fewer."""
    return sql(f"delete from delta.`{path}`" + ("" if where is None else f" where {where}"))


def update(path: str, values: dict[str, str], where: str | None) -> list[str]:
    """Rows otherwise; the values are SQL."""
    sets = ", ".join(f"`{name}` = {value}" for name, value in values.items())
    return sql(f"update delta.`{path}` set {sets}" + ("" if where is None else f" where {where}"))


def merge(path: str, rows: pa.Table, on: str) -> list[str]:
    """Rows updated where a row of the source matches, and inserted where none is matched."""
    _frame(rows).createOrReplaceTempView("merged")
    return sql(
        f"merge into delta.`{path}` t using merged s on {on} when matched then update set * when not matched then insert *"
    )


def optimize(path: str) -> list[str]:
    """Fewer files."""
    return sql(f"optimize delta.`{path}`")


def zorder(path: str, columns: list[str]) -> list[str]:
    """Files in another order."""
    return sql(f"optimize delta.`{path}` zorder by ({', '.join(columns)})")


def vacuum(path: str, hours: int) -> list[str]:
    """Files that no version of the last hours needs go."""
    return sql(f"vacuum delta.`{path}` retain {hours} hours")


def restore(path: str, at: int) -> list[str]:
    """As it was."""
    return sql(f"restore table delta.`{path}` to version as of {at}")


def checkpoint(path: str) -> None:
    """A checkpoint of the newest version."""
    session = _session()
    none = session._jvm.scala.Option.empty()
    log = session._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, path)
    log.checkpoint(log.update(False, none, none), none)


def history(path: str) -> list[str]:
    """The operations, newest first."""
    return [str(row.operation) for row in _session().sql(f"describe history delta.`{path}`").collect()]


def changes(path: str, start: int) -> pa.Table:
    """The change feed."""
    reader = _session().read.format("delta").option("readChangeFeed", "true").option("startingVersion", start)
    return reader.load(path).toArrow()
