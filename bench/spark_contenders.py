"""Who reads and writes in bench/spark.py: Spark's own Parquet, gapless in its two ways, Delta and Iceberg over hard links to the same files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_data import COLUMNS, SYMBOL, Case, Ticks
from spark_delta import delta_place, read_theirs

import gapless as gl

PACKAGES = "io.delta:delta-spark_4.1_2.13:4.4.0,org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
_LOG = Path("build/bench/spark.log")
Read = Callable[[Case], Any]
"""A DataFrame in which the case's question may be asked: all rows, or the late ones of one symbol."""
Write = Callable[[Path], object]
"""Write the frame to a place that is not there yet."""


def session(folder: Path, *, peers: bool) -> tuple[Any, bool]:
    """A session, and whether Delta and Iceberg are in it: without them where their jars cannot be had."""
    if peers:
        try:
            with _quiet():
                return gl.spark.session("bench", config=_peer_options(folder)), True
        except Exception as error:
            print(f"without Delta and Iceberg, whose jars cannot be had: {str(error).splitlines()[0]}; see {_LOG}")
    return gl.spark.session("bench"), False


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What Ivy says of each jar goes into a file."""
    _LOG.parent.mkdir(parents=True, exist_ok=True)
    before = os.dup(2)
    with _LOG.open("wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _peer_options(folder: Path) -> dict[str, object]:
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    return {
        "spark.jars.packages": PACKAGES,
        "spark.jars.ivy": str(_LOG.with_name("ivy").absolute()),
        "spark.sql.extensions": ",".join(extensions),
        # 50 tasks to list a table's files otherwise, which is meant for more machines.
        "spark.databricks.delta.snapshotPartitions": 2,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "iceberg"),
    }


@dataclass(frozen=True)
class Readers:
    """Ways to read the ticks, by name; Spark's own Parquet reader over the table's files comes first."""

    spark: Any
    ticks: Ticks

    def native(self, case: Case) -> Any:
        frame = self.spark.read.schema(COLUMNS).parquet(*map(str, self.ticks.segments))
        return self._late(frame) if case.late else frame

    def native_without_a_job(self, case: Case) -> Any:
        """As `native`, with the setting that lets Spark look at many paths without a job for it."""
        option = "spark.sql.sources.parallelPartitionDiscovery.threshold"
        before = self.spark.conf.get(option)
        self.spark.conf.set(option, "1000000")
        try:
            return self.native(case)
        finally:
            self.spark.conf.set(option, before)

    def gapless(self, case: Case) -> Any:
        table = self.ticks.table
        return (
            gl.spark.read(self.spark, table, start=self.ticks.cut, entity={"symbol": SYMBOL}) if case.late else self._all(table)
        )

    def _all(self, table: gl.TimeSeriesTable) -> Any:
        return gl.spark.read(self.spark, table)

    def source(self, case: Case) -> Any:
        """`format("gapless")`, told which columns are wanted, as its page advises."""
        reader = self.spark.read.format("gapless").option("columns", ",".join(case.columns))
        if case.late:
            reader = reader.option("start", self.ticks.cut.isoformat()).option("entity", f'{{"symbol": "{SYMBOL}"}}')
        return reader.load(self.ticks.table.url)

    def delta(self, case: Case) -> Any:
        return read_theirs(self.spark, self.ticks, case)

    def iceberg(self, case: Case) -> Any:
        frame = self.spark.table(_iceberg(self.ticks))
        return self._late(frame) if case.late else frame

    def _late(self, frame: Any) -> Any:
        from pyspark.sql import functions as f

        return frame.where((f.col("ts") >= f.lit(self.ticks.cut)) & (f.col("symbol") == SYMBOL))


def readers(spark: Any, ticks: Ticks, *, peers: bool, many: bool = False) -> dict[str, Read]:
    """Who reads; the first is the one that the others are held against. Makes the peers' tables."""
    ways = Readers(spark, ticks)
    found: dict[str, Read] = {"spark.read.parquet": ways.native}
    if many:
        found["  … without a job to list"] = ways.native_without_a_job
    found["gapless.spark.read"] = ways.gapless
    found['format("gapless")'] = ways.source
    if peers:
        _make_peers(spark, ticks)
        found |= {"delta-spark": ways.delta, "iceberg": ways.iceberg}
    return found


def writers(frame: Any, *, peers: bool) -> dict[str, Write]:
    """Who writes `frame`; the first is the one that the others are held against."""

    def ours(place: Path, *, spread: bool) -> object:
        table = gl.create(place, index="ts", entity=["symbol"], bucket="1m")
        return gl.spark.write(frame, table, on_overlap="allow", spread=spread)

    ways: dict[str, Write] = {
        "df.write.parquet": lambda place: frame.write.parquet(str(place)),
        "  … with zstd, as ours": lambda place: frame.write.option("compression", "zstd").parquet(str(place)),
        "gapless.spark.write": lambda place: ours(place, spread=False),
        "  … with spread=True": lambda place: ours(place, spread=True),
    }
    if peers:
        ways["delta-spark"] = lambda place: frame.write.format("delta").save(str(place))
        ways["iceberg"] = lambda place: frame.writeTo(f"ice.written.{place.name}").using("iceberg").create()
    return ways


def written_rows(spark: Any, name: str, place: Path) -> tuple[int, int]:
    """Rows and the sum of their volumes, of what a writer left."""
    if "gapless" in name or "spread" in name:
        row = gl.open(place).sql("select count(*), sum(volume) from this").to_arrow().to_pylist()[0].values()
        return tuple(map(int, row))
    if name == "iceberg":
        frame = spark.table(f"ice.written.{place.name}")
    else:
        frame = spark.read.format("delta" if name == "delta-spark" else "parquet").load(str(place))
    count, volume = frame.selectExpr("count(*)", "sum(volume)").first()
    return count, volume


def _iceberg(ticks: Ticks) -> str:
    return f"ice.read.{ticks.arrived[0].parent.parent.name}"


def _make_peers(spark: Any, ticks: Ticks) -> None:
    """Delta and Iceberg tables of the very files of the table: hard links, described once more."""
    for place in (delta_place(ticks), delta_place(ticks).with_name("linked")):
        _link(ticks.segments, place)
    spark.sql(f"CONVERT TO DELTA parquet.`{delta_place(ticks)}`")
    name = _iceberg(ticks)
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg")
    linked = delta_place(ticks).with_name("linked")
    spark.sql(f"CALL ice.system.add_files(table => '{name.removeprefix('ice.')}', source_table => '`parquet`.`{linked}`')")


def _link(files: Sequence[Path], folder: Path) -> None:
    folder.mkdir()
    for number, file in enumerate(files):
        os.link(file, folder / f"part-{number:05d}.parquet")
