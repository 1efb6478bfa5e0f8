"""How the Hudi description of a table begins: all live files as of one version, found by readers once all of it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gapless.errors import StoreUnavailable, VersionNotFound
from gapless.formats.hudi.commits import DataFile, HudiCommit
from gapless.formats.hudi.names import GENESIS, Instant, instant_in, parse_file_name
from gapless.formats.hudi.schema import avro_schema
from gapless.model.protocols import WRITER_HORIZON_NS
from gapless.publish.hudi.columns import check_stored
from gapless.publish.hudi.listing import data_file_names
from gapless.publish.hudi.plan import (
    BasePath,
    Carried,
    base_name,
    copies_to_begin_with,
    data_file,
    file_id,
    is_copy_name,
    own_instant,
)
from gapless.publish.hudi.timeline import Begun, Described, Timeline
from gapless.publish.source import Source, SourceChange, SourceColumns
from gapless.publish.stored_types import check_change
from gapless.runtime.concurrency import Call, in_order
from gapless.runtime.environment import Environment

NAME = "gapless"
"""What the Hudi table and the record of its columns are called."""
_TRIES = 5
"""How often a description is begun that others clear away meanwhile."""
_WIDTH = 16
"""Instants that are put at a time."""
_COMMIT_BYTES = 4_096
"""What one takes, about."""


def schema_of(columns: SourceColumns) -> str:
    """The Avro schema of a table that has columns."""
    assert columns.schema is not None
    return avro_schema(columns.schema, NAME)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Begins the description of one table."""

    env: Environment
    base: BasePath
    timeline: Timeline
    copy: Callable[[str, str], None]
    """Stores a file, by its path, under a name in the base path, once."""

    def begin_anew(self, source: Source) -> Described:
        """Take the description away, with the copies that it showed, and begin it with this version; readers find no table for a moment."""
        self.timeline.clear()
        for name in data_file_names(self.env.store, self.base.folder):
            if is_copy_name(name):
                self.env.store.delete(self.base.path(name))
        return self.begin(source)

    def begin(self, source: Source) -> Described:
        """Describe all live files, or go on where another publisher was killed, or is still, while it described those of a version of before."""
        for _ in range(_TRIES):
            if self.timeline.instants() and self.timeline.begun() is None:
                self.timeline.clear()  # left behind by one that was being taken away
            if self._begin_once(source) and (now := self.timeline.look()) is not None:
                return now
        raise StoreUnavailable(
            f"the Hudi table at {self.env.store.url}/{self.base.folder} could not be begun",
            why="Another publisher took away what this one wrote, again and again",
            fix="Let one process alone publish with mend=True, and publish again",
            path=self.timeline.folder,
        )

    def _begin_once(self, source: Source) -> bool:
        """Whether all that makes the description is there in the end."""
        # Whoever comes first decides which version it begins with, and at which instant.
        begun = self.timeline.begin(Begun(version=source.version, first=self._first_instant(source)))
        try:
            at = source if begun.version == source.version else source.at(begun.version)
        except VersionNotFound:
            at = None
        if at is None:
            self.timeline.clear()
            return False
        instant = Instant(begun.first, "replacecommit")
        first = self.timeline.put(instant, self._first_commit(at))
        commits = self._later(at.whole(), first, begun.first)
        calls = (Call(partial(self.timeline.put, *one), _COMMIT_BYTES) for one in sorted(commits.items()))
        for _ in in_order(calls, width=_WIDTH):
            pass
        # As of an instant before the last one only some of the files are seen, and as of one before the first some that were removed.
        earliest = max([begun.first, *(one.digits for one in commits)])
        if earliest != GENESIS:
            self.timeline.clean(earliest)
        self.timeline.complete(NAME)
        return {instant, *commits}.issubset(self.timeline.instants())

    def _first_commit(self, source: Source) -> HudiCommit:
        """Hides every file that is not live, whatever instant its name has."""
        whole = source.whole()
        check_change(self.env.store, whole, check_stored)
        copies = copies_to_begin_with(whole.added, self.base, whole.time_ns)
        files = data_file_names(self.env.store, self.base.folder)
        for name in files:
            if parse_file_name(name) is None:
                base_name(self.base.path(name))  # raises
        live = {copies.get(one.path) or base_name(one.path) for one in whole.added}
        gone = [name for name in files if name not in live]
        strays = frozenset(file_id(name) for name in gone if not source.was_removed(self.base.path(name)))
        carried = Carried(version=source.version, copies=copies, strays=strays)
        return HudiCommit(
            operation="INSERT_OVERWRITE_TABLE",
            replaced=tuple(sorted(map(file_id, gone))),
            schema=schema_of(source.columns),
            extra=carried.encode(),
        )

    def _first_instant(self, source: Source) -> str:
        """The first of the timeline, before all others. Files with instants of before it are seen whether they are committed or not, so no attempt
        that may still be at work began before it; nor does it come after files if all are of now.
        """
        whole = source.whole()
        horizon = own_instant(max(0, whole.time_ns - WRITER_HORIZON_NS), GENESIS)
        names = (self.base.own_name(one.path) for one in whole.added)
        return horizon if any(name is not None and instant_in(name) < horizon for name in names) else GENESIS

    def _later(self, whole: SourceChange, first: HudiCommit, since: str) -> Mapping[Instant, HudiCommit]:
        """What the instants from `since` on do, that live files have; those that cannot be read where they lie are copied."""
        copies = copies_to_begin_with(whole.added, self.base, whole.time_ns)
        for path, copy in copies.items():
            self.copy(path, copy)
        files: dict[str, list[DataFile]] = {}
        for one in whole.added:
            name = copies.get(one.path) or base_name(one.path)
            if instant_in(name) >= since:
                files.setdefault(instant_in(name), []).append(data_file(one, name))
        return {
            Instant(digits, "commit"): replace(
                first, operation="INSERT", added=tuple(sorted(those, key=lambda one: one.name)), replaced=()
            )
            for digits, those in files.items()
        }
