"""Publishing a time-series table by hand, and asking how far that is."""

from __future__ import annotations

from gapless.errors import InvalidOption
from gapless.model.properties import PUBLISHED_FORMATS
from gapless.publish.publishers import Publication
from gapless.tables.timeseries.handle import Handle


class Publishing(Handle):
    """The table in other formats: what the property `publish` names follows each commit, and can be brought up to date."""

    def publications(self) -> list[Publication]:
        """How far the table is published in each format that its property `publish` names, asked for now.

        Raises ForeignCommit where another writer changed a description, CorruptTable, StoreError.
        """
        return self._publications.look(self._committer.refresh(self._snapshot))

    def publish(self, *, mend: bool = False) -> list[Publication]:
        """Publish what is not published yet, and say how far each format is then.

        With `mend` what another writer did to a description is undone, by a commit that follows it. Raises InvalidOption for a table that
        is to be published in no format, ForeignCommit without `mend`, UnsupportedType, NotSupported, CommitConflict, CommitOutcomeUnknown,
        CorruptTable, StoreError.
        """
        newest = self._committer.refresh(self._snapshot)
        formats = newest.state.meta.properties.publish
        if not formats:
            raise InvalidOption(
                f"the table at {self.url} is to be published in no format",
                why="Its property 'publish' names none",
                fix=f"Set it first: table.set_properties({{'publish': {list(PUBLISHED_FORMATS)!r}}})",
                option="publish",
                value=[],
            )
        self._publications.publish(newest, mend=mend)
        return self._publications.look(newest)
