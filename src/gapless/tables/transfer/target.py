"""Where an import goes: a place that is free, or one where the same import was begun before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.errors import InvalidPath, TableExists
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.model.index import IndexSpec
from gapless.model.operation import SequenceId
from gapless.model.properties import Properties
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import Location, kind_of, open_environment, table_exists
from gapless.tables.timeseries.lifecycle import create_table
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.transfer.plan import ImportId
from gapless.tables.transfer.sources.foreign import ForeignTable


@dataclass(frozen=True, slots=True)
class Begun:
    """A table into which an import was begun, or an empty one."""

    snapshot: Snapshot[TableState]
    id: ImportId | None
    """The import; None where the table is empty."""
    commits: int
    """How many commits of it have landed."""

    @property
    def meta(self) -> TableMeta:
        """What the table is."""
        return self.snapshot.state.meta

    @property
    def version(self) -> int:
        """Its newest version."""
        return self.snapshot.version

    def done(self, run: ImportId) -> bool:
        """Whether all commits of an import have landed."""
        return self.id == run and self.commits >= run.batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place of the new table, and what it is to be."""

    env: Environment
    location: Location
    index: IndexSpec
    properties: Mapping[str, Any] | None

    @classmethod
    def of(
        cls,
        location: Location,
        storage_options: Mapping[str, str] | None,
        index: IndexSpec,
        properties: Mapping[str, Any] | None,
    ) -> Target:
        """The place at a location; raises InvalidPath, InvalidOption."""
        env = open_environment(location, storage_options)
        return cls(env=env, location=location, index=index, properties=properties)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.env.store.url

    def begun(self) -> Begun | None:
        """What was begun there; None where nothing lies there. Raises TableExists for anything else than an import or an empty table."""
        snapshot = self.env.drive(load(TIME_SERIES))
        if snapshot is None:
            if kind_of(self.env.store) is not None:
                raise self._exists("It is a Delta table")
            return None
        state = snapshot.state
        found = _import_of(state)
        if found is None and (state.live or state.removed or state.applied):
            raise self._exists("It has rows, or had some, that no import brought")
        if state.meta.index != self.index:
            raise self._exists(f"Its index is {state.meta.index}, and {self.index} was asked for")
        if self.properties and Properties.parse(self.properties) != state.meta.properties:
            raise self._exists("Its properties are others than those that were asked for")
        return Begun(snapshot, *((None, 0) if found is None else found))

    def opened(self, begun: Begun | None, schema: pa.Schema) -> TimeSeriesTable:
        """The table with these columns, made where there is none; raises TableExists where another one was made meanwhile."""
        if begun is None:
            made = create_table(self.env, str(self.location), self.index, schema, self.properties or {})
            return TimeSeriesTable(self.env, self.location, made)
        table = TimeSeriesTable(self.env, self.location, begun.snapshot)
        if begun.meta.schema is None:
            table.append(schema.empty_table(), on_overlap="allow")
        return table

    def _exists(self, why: str) -> TableExists:
        return table_exists(str(self.location), why, "Import into another path")


def _import_of(state: TableState) -> tuple[ImportId, int] | None:
    """The import that the table's operations are of, and how many of its commits landed."""
    for one in state.applied.values():
        if isinstance(one.operation, SequenceId) and (found := ImportId.parse(one.operation.app)) is not None:
            return found, one.operation.sequence
    return None


_ELSEWHERE = "Import into another path; or delete what lies there, where none of it is needed"


def check_source(url: str, begun: ImportId, source: ForeignTable) -> None:
    """Raise TableExists where the import that was begun in a target is of another source, or of another version of it."""
    if (begun.format, begun.source) != (source.format, source.id):
        raise table_exists(url, "Rows of another source were imported into it", _ELSEWHERE)
    if begun.version != source.version:
        raise table_exists(
            url,
            f"An import of version {begun.version} of this source was begun there, and the source is at version {source.version}",
            f"Pass source_version={begun.version!r}, where the source still has that. {_ELSEWHERE}",
        )


def refuse_plan(url: str) -> TableExists:
    """The error for a target into which this version of the source was imported otherwise."""
    why = "An import of this source was begun there with other columns, or other files in its commits"
    return table_exists(url, why, f"Go on with the arguments of then. {_ELSEWHERE}")


def check_apart(source: str, target: str) -> None:
    """Raise InvalidPath where source and target lie in one another: what is written would be read as part of the source."""
    one, other = (f"{url.rstrip('/')}/" for url in (source, target))
    if one.startswith(other) or other.startswith(one):
        raise InvalidPath(
            f"{target!r} cannot be made from {source!r}",
            why="One lies in the other, and the source stays as it is",
            fix="Choose a path beside it",
            path=target,
        )
