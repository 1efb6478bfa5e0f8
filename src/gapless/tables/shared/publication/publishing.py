"""Publishing a table by hand, asking how far that is, and what reports say of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import Field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from gapless.errors import InvalidOption
from gapless.log.format import Snapshot, State
from gapless.model.publishing import PublishedFormat
from gapless.publish.publishers import Publication
from gapless.publish.source import Source
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import AtVersion
from gapless.tables.shared.publication.publications import Publications


class ChangedReport(Protocol):
    """The report of a change, which says what became of it in other formats."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def published(self) -> Mapping[str, str]:
        """By format "published", or why it is not yet."""
        ...


Report = TypeVar("Report", bound=ChangedReport)


class PublishedHandle(AtVersion[State], Generic[State]):
    """A handle whose commits other formats follow."""

    def __init__(self, env: Environment, name: str, snapshot: Snapshot[State]) -> None:
        """See `AtVersion`."""
        super().__init__(env, name, snapshot)
        self._publications = Publications(env)

    @abstractmethod
    def _source(self, snapshot: Snapshot[State]) -> Source:
        """A version, as publishers need it."""

    @abstractmethod
    def _newest_version(self) -> Snapshot[State]:
        """The newest version, to which the handle moves."""

    def _with_publications(self, report: Report) -> Report:
        """A report of a change, with what became of it in other formats."""
        told = self._publications.told(self._source(self._snapshot))
        return replace(report, published=told) if told else report

    def _follow(self, landed: Snapshot[State]) -> None:
        """Publish a version that a commit of this handle made."""
        self._publications.follow(self._source(landed))


class Publishing(PublishedHandle[State], Generic[State]):
    """The table in other formats: what the property `publish` names follows each commit, and can be brought up to date."""

    _formats: ClassVar[tuple[PublishedFormat, ...]]
    """Those in which tables of this kind can be published."""
    _how_to_publish: ClassVar[str] = "table.set_properties"
    """What sets the property."""

    def publications(self) -> list[Publication]:
        """How far the table is published in each format that its property `publish` names, asked for now.

        Raises ForeignCommit where another writer changed a description, CorruptTable, StoreError.
        """
        return self._publications.look(self._source(self._newest_version()))

    def publish(self, *, mend: bool = False) -> list[Publication]:
        """Publish what is not published yet, and say how far each format is then.

        With `mend` what another writer did to a description is undone, by a commit that follows it. Raises InvalidOption for a table that
        is to be published in no format, ForeignCommit without `mend`, UnsupportedType, NotSupported, CommitConflict, CommitOutcomeUnknown,
        CorruptTable, StoreError.
        """
        newest = self._source(self._newest_version())
        if not newest.settings.formats:
            raise InvalidOption(
                f"the table at {self.url} is to be published in no format",
                why="Its property 'publish' names none",
                fix=f"Set it first: {self._how_to_publish}({{'publish': {list(self._formats)!r}}})",
                option="publish",
                value=[],
            )
        self._publications.publish(newest, mend=mend)
        return self._publications.look(newest)
