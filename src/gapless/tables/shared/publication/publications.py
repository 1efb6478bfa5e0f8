"""What a handle publishes after each of its commits, and how that went."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.errors import CorruptTable, ForeignCommit, GaplessError, TableExists, UnsupportedTable
from gapless.log.format import TableFormat
from gapless.log.versions import time_of
from gapless.model.instant import NS_PER
from gapless.model.publishing import PublishSettings
from gapless.publish.publishers import Publication, Publisher, publisher_of
from gapless.publish.source import Source
from gapless.runtime.concurrency import ForkSafeLock
from gapless.runtime.environment import Environment

_LOGGER = logging.getLogger("gapless.tables")

PUBLISHER_HORIZON_NS = 7 * 86_400 * NS_PER["s"]
"""How long a publisher that does not go on keeps what it describes from going, since the first commit that it has not published."""

PUBLISHED = "published"
"""What a report says of a format that follows."""
LEFT = "left to `gapless publish`"


@dataclass(slots=True)
class Publications:
    """The publishers of one table, by format."""

    env: Environment
    _publishers: dict[tuple[str, str, str], Publisher] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def follow(self, newest: Source) -> None:
        """Publish a version that was committed, where that is the committer's. Whatever fails is logged and told: the commit stands."""
        try:
            settings = newest.settings
        except UnsupportedTable as error:
            _LOGGER.warning("%s: version %d is not published: %s", self.env.store.url, newest.version, error.what)
            return
        for name in settings.formats if settings.on_commit else ():
            with self._lock:
                try:
                    self._publisher(name, settings).publish(newest)
                    self._told[name] = PUBLISHED
                except Exception as error:  # noqa: BLE001  # whatever it is, the commit that it follows stands
                    why = error.what if isinstance(error, GaplessError) else str(error)
                    self._told[name] = f"{type(error).__name__}: {why}"
                    _LOGGER.warning("%s: version %d is not published as %s: %s", self.env.store.url, newest.version, name, why)

    def told(self, newest: Source) -> Mapping[str, str]:
        """By format "published", or why it is not yet."""
        try:
            settings = newest.settings
        except UnsupportedTable as error:
            return {"publish": f"{type(error).__name__}: {error.what}"}
        return {name: self._told.get(name, "not tried yet") if settings.on_commit else LEFT for name in settings.formats}

    def publish(self, newest: Source, *, mend: bool = False) -> None:
        """Publish what is not yet, in every format. Raises as `Publisher.publish`."""
        for name in newest.settings.formats:
            with self._lock:
                self._publisher(name, newest.settings).publish(newest, mend=mend)
                self._told[name] = PUBLISHED

    def check_place(self, formats: Iterable[str], settings: PublishSettings) -> None:
        """Raise TableExists where another writer's table lies in the place of a description that is to begin, CorruptTable, StoreError."""
        for name in formats:
            try:
                with self._lock:
                    self._publisher(name, settings).published()
            except ForeignCommit as error:
                raise TableExists(
                    f"there is a {name} table at {self.env.store.url} already, which another writer made",
                    why="What is published lies beside the table's own log, and would take its place",
                    fix="Move it away, or publish a table that lies elsewhere",
                    path=self.env.store.url,
                ) from error

    def marks(self, newest: Source) -> dict[str, int]:
        """The version that each format describes, if it does; where a description cannot be read the one that the table's log remembers, or 0."""
        marks: dict[str, int] = {}
        for name in newest.settings.formats:
            try:
                if (version := self._look(name, newest).version) is not None:
                    marks[name] = version
            except GaplessError as error:
                _LOGGER.warning("%s: how far it is published as %s cannot be told: %s", self.env.store.url, name, error.what)
                marks[name] = newest.remembered(name)
        return marks

    def look(self, newest: Source) -> list[Publication]:
        """How far each format is. Raises ForeignCommit, CorruptTable, StoreError."""
        return [self._look(name, newest) for name in newest.settings.formats]

    def _look(self, name: str, newest: Source) -> Publication:
        with self._lock:
            found = self._publisher(name, newest.settings).published()
        told = self._told.get(name, PUBLISHED)
        version, published_version = found or (None, None)
        behind = newest.version - (version or 0)
        why = told if behind and told != PUBLISHED else ""
        return Publication(format=name, version=version, published_version=published_version, behind=behind, why=why)

    def _publisher(self, name: str, settings: PublishSettings) -> Publisher:
        place = (name, settings.iceberg_catalog, settings.iceberg_table)
        if place not in self._publishers:
            self._publishers[place] = publisher_of(name, self.env, settings)
        return self._publishers[place]


def described_still(
    env: Environment, table_format: TableFormat[Any, Any], marks: Mapping[str, int], *, newest: int, earliest: int
) -> dict[str, int]:
    """Of the versions that formats describe, those that hold back what only versions before `newest` need: not those of a publisher that stands
    still for longer than `PUBLISHER_HORIZON_NS`. `earliest` is the first version whose commit the log has. Raises StoreError.
    """

    def stands_still(published: int) -> bool:
        following = max(published + 1, earliest)
        try:
            since_ns = env.drive(time_of(table_format, following))
        except CorruptTable:
            return True  # another writer cleaned the log of it
        return env.clock.now_ns() - since_ns > PUBLISHER_HORIZON_NS

    return {name: at for name, at in marks.items() if at < newest and not stands_still(at)}
