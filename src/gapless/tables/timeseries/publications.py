"""What a handle of a time-series table publishes after each of its commits, and how that went."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gapless.errors import ForeignCommit, GaplessError, TableExists
from gapless.formats.timeseries.actions import SetTransaction, TableState
from gapless.log.format import Snapshot
from gapless.model.operation import SequenceId, Tally, operation_key
from gapless.model.properties import PublishedFormat
from gapless.publish.publishers import Publication, Publisher, publisher_of
from gapless.runtime.concurrency import ForkSafeLock
from gapless.runtime.environment import Environment

_LOGGER = logging.getLogger("gapless.tables")

PUBLISHED = "published"
"""What a report says of a format that follows."""
LEFT = "left to `gapless publish`"


@dataclass(slots=True)
class Publications:
    """The publishers of one table, by format."""

    env: Environment
    _publishers: dict[str, Publisher] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def follow(self, newest: Snapshot[TableState]) -> None:
        """Publish a version that was committed, where that is the committer's. Whatever fails is logged and told: the commit stands."""
        for name in _formats(newest) if newest.state.meta.properties.publish_on_commit else ():
            with self._lock:
                try:
                    self._publisher(name).publish(newest)
                    self._told[name] = PUBLISHED
                except Exception as error:  # noqa: BLE001  # whatever it is, the commit that it follows stands
                    why = error.what if isinstance(error, GaplessError) else str(error)
                    self._told[name] = f"{type(error).__name__}: {why}"
                    _LOGGER.warning("%s: version %d is not published as %s: %s", self.env.store.url, newest.version, name, why)

    def told(self, newest: Snapshot[TableState]) -> Mapping[str, str]:
        """By format "published", or why it is not yet."""
        tried = newest.state.meta.properties.publish_on_commit
        return {name: self._told.get(name, "not tried yet") if tried else LEFT for name in _formats(newest)}

    def publish(self, newest: Snapshot[TableState], *, mend: bool = False) -> None:
        """Publish what is not yet, in every format. Raises as `Publisher.publish`."""
        for name in _formats(newest):
            with self._lock:
                self._publisher(name).publish(newest, mend=mend)
                self._told[name] = PUBLISHED

    def check_place(self, formats: Iterable[str]) -> None:
        """Raise TableExists where another writer's table lies in the place of a description that is to begin, CorruptTable, StoreError."""
        for name in formats:
            try:
                with self._lock:
                    self._publisher(name).published()
            except ForeignCommit as error:
                raise TableExists(
                    f"there is a {name} table at {self.env.store.url} already, which another writer made",
                    why="What is published lies beside the table's own log, and would take its place",
                    fix="Move it away, or publish a table that lies elsewhere",
                    path=self.env.store.url,
                ) from error

    def marks(self, newest: Snapshot[TableState]) -> dict[str, int]:
        """The version that each format describes, if it does; where a description cannot be read the one that the table's log remembers, or 0."""
        marks: dict[str, int] = {}
        for name in _formats(newest):
            try:
                if (version := self._look(name, newest).version) is not None:
                    marks[name] = version
            except GaplessError as error:
                _LOGGER.warning("%s: how far it is published as %s cannot be told: %s", self.env.store.url, name, error.what)
                known = newest.state.applied.get(operation_key(published_mark(name, 0)))
                marks[name] = known.operation.sequence if known and isinstance(known.operation, SequenceId) else 0
        return marks

    def look(self, newest: Snapshot[TableState]) -> list[Publication]:
        """How far each format is. Raises ForeignCommit, CorruptTable, StoreError."""
        return [self._look(name, newest) for name in newest.state.meta.properties.publish]

    def _look(self, name: str, newest: Snapshot[TableState]) -> Publication:
        with self._lock:
            found = self._publisher(name).published()
        told = self._told.get(name, PUBLISHED)
        version, published_version = found or (None, None)
        behind = newest.version - (version or 0)
        why = told if behind and told != PUBLISHED else ""
        return Publication(format=name, version=version, published_version=published_version, behind=behind, why=why)

    def _publisher(self, name: str) -> Publisher:
        return self._publishers.setdefault(name, publisher_of(name, self.env))


def published_mark(name: str, version: int) -> SequenceId:
    """What the table's own log calls it that a version is published in a format."""
    return SequenceId(f"gapless.published.{name}", version)


def new_marks(marks: Mapping[str, int], state: TableState) -> list[SetTransaction]:
    """What a commit tells of published versions that the log does not know yet."""
    told = [published_mark(name, version) for name, version in marks.items() if version]
    return [SetTransaction(mark, Tally(), "publish") for mark in told if state.recognise(mark) is None]


def _formats(newest: Snapshot[TableState]) -> tuple[PublishedFormat, ...]:
    """The formats to follow."""
    return newest.state.meta.properties.publish
