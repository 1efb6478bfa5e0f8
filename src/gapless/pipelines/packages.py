"""Spark's connectors that pipelines need: packages from Maven Central, which a session brings at its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gapless.pipelines.definitions import Pipeline
from gapless.spark.setup.not_started import packages_of

PACKAGES = "spark.jars.packages"
KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
AVRO = "org.apache.spark:spark-avro_2.13"


def spark_package(name: str) -> str:
    """A package of Spark's own, such as `KAFKA`, in the release of Spark that is installed."""
    import pyspark

    return f"{name}:{_RELEASES.get(pyspark.__version__, pyspark.__version__)}"


_RELEASES = {"4.1.3": "4.1.1", "4.1.4": "4.1.1"}
"""Releases whose own artifacts lack the token provider of Kafka."""


def needed_packages(pipeline: Pipeline) -> Iterator[str]:
    """The packages that the sources of a pipeline need."""
    sources = [one for one in pipeline.defined.values() if one.type == "kafka"]
    if sources:
        yield spark_package(KAFKA)
    if any(one.options.get("format") == "avro" for one in sources):
        yield spark_package(AVRO)


def session_options(*given: Mapping[str, object]) -> dict[str, object]:
    """Options of a session: of each the last one given, but for packages, of which all are brought, each in the release given last.

    >>> session_options({"spark.jars.packages": "a:b:1,a:c:1"}, {"spark.jars.packages": "a:b:2"})
    {'spark.jars.packages': 'a:b:2,a:c:1'}
    """
    told: dict[str, object] = {}
    packages: dict[str, str] = {}
    for options in given:
        told |= options
        packages |= {one.rpartition(":")[0]: one for one in packages_of(options)}
    if packages:
        told[PACKAGES] = ",".join(packages.values())
    return told
