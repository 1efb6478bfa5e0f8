"""A real Kafka broker on this machine for the tests that want one: its jars come from Maven Central by the Ivy that PySpark brings, once."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gapless.cli.demo.broker import broker_jars
from gapless.cli.demo.broker import kafka_broker as running_broker
from gapless.errors import SparkNotStarted
from gapless.spark.setup.start import find_java
from support.kafka import PARTITIONS, Cluster

BUILD = Path(__file__).resolve().parents[2] / "build"


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]) -> Iterator[Cluster]:
    """One broker (KRaft), which makes each topic that is asked for."""
    require(importlib.util.find_spec("confluent_kafka"), "confluent-kafka is not installed")
    require(importlib.util.find_spec("pyspark"), "pyspark is not installed")
    # The machine's own Java first: it trusts whom the machine trusts.
    system = shutil.which("java")
    java = find_java(os.environ) if system is None else Path(system).resolve().parents[1]
    try:
        jars = broker_jars(java, BUILD)
    except SparkNotStarted as error:
        require(None, f"the jars of a Kafka broker cannot be had from Maven Central: {error.why}")
        return
    from confluent_kafka import Producer

    with running_broker(java, jars, tmp_path_factory.mktemp("kafka"), partitions=PARTITIONS) as brokers:
        # Else a record that a topic was not there for comes behind the next one.
        ordered = {"enable.idempotence": True, "linger.ms": 0}
        yield Cluster(brokers=brokers, producer=Producer({"bootstrap.servers": brokers, **ordered}))
