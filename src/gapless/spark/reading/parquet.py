"""Parquet files of a table as a DataFrame of Spark's own reader."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.errors import InvalidOption, NotSupported
from gapless.model.protocols import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""Up to so many paths Spark looks at by itself, else in a job of its own, which takes it seconds."""
_OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",
    "mergeSchema": "false",
    "int96RebaseMode": "CORRECTED",
    # A session may be set to pass over what it cannot read.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
_NO_COLUMN = "`gapless: no column` boolean"
"""Where no column of the files is wanted, their rows still count; no file has this one."""
# Its own switch for literal paths (`__globPaths__`) reads each file once for every path that looks like a pattern.
_PATTERN = re.compile(r"[\\*?{}\[\]]")
_SCHEMES = {"s3": "s3a", "s3a": "s3a", "r2": "s3a", "gs": "gs", "gcs": "gs", "abfs": "abfss", "abfss": "abfss"}


def scan_files(
    spark: SparkSession, columns: str, files: Sequence[tuple[Store, str]], *, partitioned: bool = False
) -> DataFrame:
    """The columns (DDL) of Parquet files, each a store and a path in it, as they hold them.

    Where they are `partitioned`, all in one store, the folders `column=value` below its root give columns too. Raises NotSupported for a
    place that Spark does not reach.
    """
    paths = [_spark_path(store, path) for store, path in files]
    below = {"basePath": _spark_url(*files[0]).removesuffix(f"/{files[0][1]}")} if partitioned else {}
    with _listing(spark, len(paths)), _naming_jars(files[0][0]):
        return spark.read.schema(columns or _NO_COLUMN).options(**_OPTIONS, **below).parquet(*paths)


@contextlib.contextmanager
def _naming_jars(store: Store) -> Iterator[None]:
    """Say which jars are missing where Spark does not find the class that reads S3."""
    try:
        yield
    except Exception as error:
        if "S3AFileSystem not found" not in str(error):
            raise
        raise NotSupported(
            f"Spark cannot read {store.url}",
            why="The jars with which it reads s3a:// are not in this session",
            fix="Make it with gapless.spark.session(s3=True), or gapless.spark.configure(builder, s3=True)",
            feature="spark",
        ) from error


@contextlib.contextmanager
def _listing(spark: SparkSession, paths: int) -> Iterator[None]:
    """While paths are looked at: no job for it."""
    before = str(spark.conf.get(_LISTING))
    if int(before) >= paths:
        yield
        return
    spark.conf.set(_LISTING, str(paths))
    try:
        yield
    finally:
        spark.conf.set(_LISTING, before)


def _spark_path(store: Store, path: str) -> str:
    """A segment's place as Spark takes it, for which it is a pattern; raises NotSupported for a place that Spark does not reach."""
    return _PATTERN.sub(r"\\\g<0>", _spark_url(store, path))


def _spark_url(store: Store, path: str) -> str:
    local = store.local_path(path)
    if local is not None:
        return f"file://{local}"
    scheme, _, rest = store.url.partition("://")
    if scheme not in _SCHEMES or (scheme.startswith("abfs") and "@" not in rest):
        raise NotSupported(
            f"Spark cannot read {store.url}",
            why="It reads files that lie where all its processes reach them: on disk, s3://, gs:// and abfss://container@account…",
            fix="Name the table so; or read it with table.scan()",
            feature="spark",
        )
    return f"{_SCHEMES[scheme]}://{rest}/{path}"


def check_names(spark: SparkSession, schemas: Sequence[pa.Schema]) -> None:
    """Raise InvalidOption where Spark would not tell columns apart."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return
    for schema in schemas:
        counts = Counter(name.lower() for name in schema.names)
        clash = [name for name in schema.names if counts[name.lower()] > 1]
        if clash:
            raise InvalidOption(
                f"the columns {', '.join(map(repr, clash))} differ by case alone",
                why="Spark does not tell such names apart unless it is told to",
                fix='spark.conf.set("spark.sql.caseSensitive", "true"), or leave one out with columns=[…]',
                option="columns",
                value=tuple(clash),
            )
