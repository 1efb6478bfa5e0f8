"""A Kafka cluster in this process for the tests that want one: librdkafka's own mock, which speaks the real protocol on a port."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from confluent_kafka import Producer


PARTITIONS = 4


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    brokers: str
    producer: Producer

    def topic(self) -> str:
        """A new topic's name; it has 4 partitions, as all that the mock makes."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        while len(self.producer.list_topics(name, timeout=10).topics[name].partitions) != PARTITIONS:
            pass
        return name

    def send(self, topic: str, values: Sequence[bytes | None], partitions: int = 2, **options: Any) -> None:
        """Records one after the other, round the partitions."""
        for number, value in enumerate(values):
            self.producer.produce(topic, value=value, partition=number % partitions, **options)
        assert self.producer.flush(10) == 0


@pytest.fixture(scope="session")
def kafka_cluster(require: Callable[[object, str], None]) -> Iterator[Cluster]:
    """One broker, which makes each topic that is asked for."""
    import importlib.util
    import logging

    require(importlib.util.find_spec("confluent_kafka"), "confluent-kafka is not installed: no cluster to test against")
    from confluent_kafka import Producer

    made: Any = Producer  # its stubs do not know that it takes a logger
    quiet = logging.getLogger("tests.kafka")
    quiet.propagate = False
    mock = made({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0}, logger=quiet)
    broker = next(iter(mock.list_topics(timeout=10).brokers.values()))
    brokers = f"{broker.host}:{broker.port}"
    yield Cluster(brokers=brokers, producer=made({"bootstrap.servers": brokers, "linger.ms": 0}, logger=quiet))
    del mock
