"""A topic of a Kafka cluster, through librdkafka: its partitions, how far they reach, and their records. No consumer group is joined."""

# ruff: noqa: SLF001 - librdkafka's own codes begin with an underscore

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless.errors import (
    AccessDenied,
    GaplessError,
    InvalidOption,
    ObjectNotFound,
    StoreUnavailable,
    VersionNotFound,
)
from gapless.model.protocols import Clock
from gapless.tables.shared.library_errors import missing_library

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message
    from confluent_kafka.admin import AdminClient

_LOGGER = logging.getLogger("gapless.connect")
_MOST_MESSAGES = 10_000
_WAIT_S = 0.1
_OURS = {
    "bootstrap.servers": "brokers=", "auto.offset.reset": "on_missing=", "enable.auto.commit": "",
    "enable.auto.offset.store": "", "enable.partition.eof": "", "isolation.level": "",
}  # fmt: skip


class Record(NamedTuple):
    """A record of a topic."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """Milliseconds since 1970 UTC."""
    headers: list[tuple[str, bytes | None]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What came at once: records in their order, each partition's by offset, and how far each partition was read."""

    records: list[Record]
    offsets: Mapping[int, int]
    """By partition, the next offset."""


@dataclass(slots=True, kw_only=True)
class KafkaTopic:
    """One topic."""

    name: str
    brokers: str
    clock: Clock
    group: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further settings of librdkafka; may hold secrets."""
    timeout_s: float = 30.0
    """After so long without an answer it is unavailable."""
    _consumer: Consumer | None = field(default=None, repr=False)
    _admin: AdminClient | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raises InvalidOption for a setting that the source makes itself."""
        for name in self.config:
            if name in _OURS:
                raise InvalidOption(
                    f"config has {name!r}, which the source sets itself",
                    why="Offsets lie in the cursor, and only committed records are read",
                    fix=f"Pass {_OURS[name]} instead" if _OURS[name] else "Leave it out",
                    option="config",
                    value=name,
                )

    def partitions(self) -> list[int]:
        """Its partitions. Raises ObjectNotFound where there is no such topic, AccessDenied, StoreUnavailable."""
        from confluent_kafka import KafkaException

        try:
            found = self._reader().list_topics(self.name, timeout=self.timeout_s).topics[self.name]
        except KafkaException as error:
            raise self._error(error.args[0]) from error
        if found.error is not None:
            raise self._error(found.error)
        return sorted(found.partitions)

    def earliest(self, partitions: list[int]) -> dict[int, int]:
        """The first offset of each that is still there."""
        return self._offsets(partitions, "earliest")

    def ends(self, partitions: list[int]) -> dict[int, int]:
        """The offset behind the last committed record of each."""
        return self._offsets(partitions, "latest")

    def since(self, partitions: list[int], time_ms: int) -> dict[int, int]:
        """The offset of the first record of each from a time on (milliseconds since 1970 UTC); its end where there is none."""
        found = self._offsets(partitions, time_ms)
        ends = self.ends(partitions)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def read(self, offsets: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Arrived]:
        """Records from these offsets on, until each partition was read up to its end. Raises as `partitions`, VersionNotFound for an offset
        that is gone.
        """
        from confluent_kafka import TopicPartition

        consumer, read = (
            self._reader(),
            {partition: offset for partition, offset in offsets.items() if offset < ends[partition]},
        )
        consumer.assign([TopicPartition(self.name, partition, offset) for partition, offset in read.items()])
        until = self.clock.monotonic() + self.timeout_s
        while any(offset < ends[partition] for partition, offset in read.items()):
            records = self._arrived(consumer, read)
            if records is not None:
                until = self.clock.monotonic() + self.timeout_s
                yield Arrived(records=records, offsets=dict(read))
            elif self.clock.monotonic() > until:
                raise self._silent()

    def tell_group(self, offsets: Mapping[int, int]) -> None:
        """Store offsets with the consumer group, where there is one, for those who watch its lag: they are never read. What fails is logged."""
        from confluent_kafka import KafkaException, TopicPartition

        if self.group is None or not offsets:
            return
        told = [TopicPartition(self.name, partition, offset) for partition, offset in offsets.items()]
        try:
            self._reader().commit(offsets=told, asynchronous=False)
        except KafkaException as error:
            _LOGGER.warning("%s: the group %s was not told its offsets: %s", self.name, self.group, error.args[0].str())

    def close(self) -> None:
        """Leave the cluster."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._admin = None

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _arrived(self, consumer: Consumer, read: dict[int, int]) -> list[Record] | None:
        """What came, `read` moved on past it; None where nothing did."""
        from confluent_kafka import KafkaError

        first = consumer.poll(_WAIT_S)
        if first is None:
            return None
        found = list[Record]()
        for message in (first, *consumer.consume(_MOST_MESSAGES - 1, timeout=0)):
            error = message.error()
            if error is None:
                record = _record(message)
                found.append(record)
                read[record.partition] = record.offset + 1
                continue
            partition, offset = message.partition(), message.offset()
            if error.code() == KafkaError._PARTITION_EOF and partition is not None and offset is not None:
                # Behind the last record lie markers of transactions.
                read[partition] = max(read[partition], offset)
            elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
                continue  # it concerns members of a group
            elif not error.retriable() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise self._error(error, offset)
        return found

    def _settings(self) -> dict[str, Any]:
        return {"fetch.wait.max.ms": 50, **self.config, "bootstrap.servers": self.brokers}

    def _reader(self) -> Consumer:
        if self._consumer is None:
            try:
                from confluent_kafka import Consumer, KafkaException
            except ModuleNotFoundError as error:
                raise missing_library("Kafka", "confluent-kafka", "kafka") from error
            fixed = {
                "group.id": self.group or "gapless",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            }
            try:
                self._consumer = Consumer({**self._settings(), **fixed}, logger=_LOGGER)
            except (KafkaException, TypeError, ValueError) as error:
                raise InvalidOption(
                    f"no consumer of {self.name} can be made with config {sorted(self.config)}",
                    why=error.args[0].str() if isinstance(error, KafkaException) else str(error),
                    fix="See librdkafka's CONFIGURATION.md for names and values",
                    option="config",
                    value=sorted(self.config),
                ) from None
        return self._consumer

    def _offsets(self, partitions: list[int], wanted: str | int) -> dict[int, int]:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition, admin

        if self._admin is None:
            self._admin = admin.AdminClient(self._settings(), logger=_LOGGER)
        specs: Any = admin
        spec = specs.OffsetSpec
        found = spec.for_timestamp(wanted) if isinstance(wanted, int) else getattr(spec, wanted)()
        asked = {TopicPartition(self.name, partition): found for partition in partitions}
        if not asked:
            return {}
        futures = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self.timeout_s)
        try:
            return {place.partition: future.result(self.timeout_s + 1).offset for place, future in futures.items()}
        except KafkaException as error:
            raise self._error(error.args[0]) from error
        except TimeoutError as error:
            raise self._silent() from error

    def _error(self, error: KafkaError, offset: int | None = None) -> GaplessError:
        from confluent_kafka import KafkaError as Codes

        code, said, place = error.code(), error.str(), f"kafka:{self.name}"
        if code in (Codes.UNKNOWN_TOPIC_OR_PART, Codes._UNKNOWN_TOPIC, Codes._UNKNOWN_PARTITION):
            return ObjectNotFound(
                f"the topic {self.name!r} at {self.brokers} is not there: {said}",
                why="No broker knows it, or that partition of it",
                fix="Check its name, or make it",
                path=place,
            )
        if code in (Codes._AUTO_OFFSET_RESET, Codes.OFFSET_OUT_OF_RANGE):
            return VersionNotFound(
                f"an offset of {place} is gone: {said}",
                why="Retention removed the record while the topic was read",
                fix='Start at the cursor again, with on_missing="earliest" to go on behind what is gone',
                version=-1 if offset is None else offset,
            )
        denied = (
            Codes.TOPIC_AUTHORIZATION_FAILED, Codes.GROUP_AUTHORIZATION_FAILED, Codes.CLUSTER_AUTHORIZATION_FAILED,
            Codes.SASL_AUTHENTICATION_FAILED, Codes._AUTHENTICATION, Codes._SSL,
        )  # fmt: skip
        if code in denied:
            return AccessDenied(
                f"{place} at {self.brokers} may not be read: {said}",
                why="The credentials are missing or wrong, or may not read it",
                fix="Check the sasl.… and ssl.… settings in config=, and the topic's access list",
                path=place,
            )
        return StoreUnavailable(
            f"{place} at {self.brokers} cannot be read: {said}",
            why="The brokers gave no usable answer",
            fix="Try again",
            path=place,
        )

    def _silent(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"kafka:{self.name} at {self.brokers} gave no answer in {self.timeout_s:g} s",
            why="No broker can be reached, or the partition has no leader",
            fix="Check brokers= and the network, then try again",
            path=f"kafka:{self.name}",
        )


def _record(message: Message) -> Record:
    kind, time_ms = message.timestamp()
    known: Any = message
    return Record(
        key=known.key(),
        value=known.value(),
        topic=known.topic(),
        partition=known.partition(),
        offset=known.offset(),
        timestamp=time_ms if kind else None,
        headers=known.headers(),
    )
