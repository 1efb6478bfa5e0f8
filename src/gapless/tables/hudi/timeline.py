"""The timeline of a Hudi table as it lies in the store, read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from gapless.errors import CorruptTable, ObjectNotFound, TableNotFound
from gapless.formats.hudi.arrow_schema import arrow_schema
from gapless.formats.hudi.history import (
    VERSION_FILE,
    HistoryFile,
    decode_instants,
    decode_manifest,
    manifest_path,
)
from gapless.formats.hudi.instants import (
    HISTORY_FOLDER,
    TIMELINE_FOLDER,
    CompletedInstant,
    PendingInstant,
    parse_completed,
    parse_pending,
)
from gapless.formats.hudi.marks import Mark, Marks, marks_of
from gapless.formats.hudi.names import METADATA_FOLDER, PROPERTIES_FILE
from gapless.formats.hudi.properties import decode_properties
from gapless.formats.hudi.slices import BaseFile, base_files, live_files
from gapless.formats.hudi.table_commits import TableCommit, decode_table_commit
from gapless.formats.hudi.table_config import HudiTableConfig, config_of
from gapless.model.operation import OperationId
from gapless.runtime.environment import Environment

PROPERTIES = f"{METADATA_FOLDER}/{PROPERTIES_FILE}"
_BACKUP = f"{PROPERTIES}.backup"
"""Where Hudi keeps the properties while it writes them anew."""


@dataclass(frozen=True)
class HudiState:
    """A table as its timeline says it is."""

    config: HudiTableConfig
    completed: tuple[CompletedInstant, ...]
    """In order of their requested times."""
    pending: tuple[PendingInstant, ...]
    marks: Marks
    """The last commits of all apps."""
    schema_text: str
    """The Avro schema, empty where the table has none yet."""
    replaced: frozenset[tuple[str, str]]
    """File groups that are seen no more, by partition and id."""
    url: str

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns without Hudi's own."""
        return arrow_schema(self.schema_text, self.url) if self.schema_text else pa.schema([])

    @cached_property
    def commits(self) -> tuple[CompletedInstant, ...]:
        """The completed instants that changed files."""
        return tuple(one for one in self.completed if one.is_commit)

    @property
    def newest(self) -> str:
        """The highest time of any instant, or of its completion; empty where there is none."""
        times = [time for one in self.completed for time in (one.requested, one.completed)]
        return max([*times, *(one.requested for one in self.pending)], default="")

    @property
    def version(self) -> int:
        """The newest commit as a number, 0 where there is none."""
        return int(max((one.requested for one in self.commits), default="0"))

    def recognise(self, operation: OperationId) -> Mark | None:
        """See `Marks.recognise`."""
        return self.marks.recognise(operation)

    def is_completed(self, requested: str) -> bool:
        """Whether a commit of the timeline has this instant."""
        return any(one.requested == requested for one in self.commits)

    def live(self, files: list[BaseFile]) -> list[BaseFile]:
        """The files of these that readers see."""
        return live_files(files, {one.requested for one in self.commits}, self.replaced)


class HudiTimeline:
    """The timeline of one table; commits that were read are kept, since they never change."""

    def __init__(self, env: Environment) -> None:
        """For the table whose base path is the root of the store of `env`."""
        self.env = env
        self._commits: dict[str, TableCommit] = {}
        self._archived: tuple[int, Marks] | None = None

    def load(self) -> HudiState:
        """The table as it is now. Raises TableNotFound, NotSupported, UnsupportedTable, CorruptTable, StoreError."""
        url = self.env.store.url
        config = config_of(decode_properties(self._properties()), url)
        completed, pending = self._instants()
        commits = sorted((one for one in completed if one.is_commit), key=lambda one: one.completed, reverse=True)
        schema = next((text for one in commits if (text := self._schema_of(one))), config.first_schema)
        replacing = (self.commit(one) for one in commits if one.action == "replacecommit")
        return HudiState(
            config=config,
            completed=completed,
            pending=pending,
            marks=self._marks(commits),
            schema_text=schema,
            replaced=frozenset((part, one) for commit in replacing for part, ids in commit.replaced.items() for one in ids),
            url=url,
        )

    def files(self) -> list[BaseFile]:
        """All base files below the base path. Raises StoreError."""
        return base_files((info.path, info.size) for info in self.env.store.list())

    def commit(self, instant: CompletedInstant) -> TableCommit:
        """What an instant did. Raises CorruptTable, StoreError."""
        if (known := self._commits.get(instant.path)) is None:
            known = self._commits[instant.path] = decode_table_commit(self.raw(instant), instant.path)
        return known

    def raw(self, instant: CompletedInstant) -> bytes:
        """The bytes of its file. Raises CorruptTable where it was archived meanwhile."""
        try:
            return self.env.store.get(instant.path)
        except ObjectNotFound as error:
            raise CorruptTable(
                f"{instant.path} is gone",
                why="Another writer archived it while it was read",
                fix="Read the table again",
                path=instant.path,
            ) from error

    def history(self) -> tuple[int, list[HistoryFile]]:
        """The number of the newest manifest of archived instants, and the files that it names; 0 and none where nothing is archived."""
        try:
            number = int(self.env.store.get(VERSION_FILE))
            path = manifest_path(number)
            return number, decode_manifest(self.env.store.get(path), path)
        except ObjectNotFound:
            return 0, []
        except ValueError as error:
            raise CorruptTable(
                f"{VERSION_FILE} names no manifest",
                why=str(error),
                fix="Bring it back from a copy of the table",
                path=VERSION_FILE,
            ) from error

    def archived(self, first: str = "", last: str = "9") -> Iterator[tuple[CompletedInstant, bytes]]:
        """Archived instants with what their files held, in files from the newest on that may have requested times in `[first, last]`."""
        for file in reversed(self.history()[1]):
            begin, end = (*file.name.split("_"), "", "")[:2]
            if end >= first and begin <= last:
                yield from reversed(decode_instants(self.env.store.get(file.path), file.path))

    def was_completed(self, state: HudiState, requested: str) -> bool:
        """Whether a commit has this instant, in the timeline or its archive. Raises CorruptTable, StoreError."""
        if state.is_completed(requested):
            return True
        first = min((one.requested for one in state.commits), default="")
        return requested < first and any(one.requested == requested for one, _ in self.archived(requested, requested))

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _properties(self) -> bytes:
        for path in (PROPERTIES, _BACKUP):
            try:
                return self.env.store.get(path)
            except ObjectNotFound:
                continue
        raise TableNotFound(
            f"there is no Hudi table at {self.env.store.url}",
            why=f"It has no {PROPERTIES}",
            fix="Check the path",
            path=self.env.store.url,
        )

    def _instants(self) -> tuple[tuple[CompletedInstant, ...], tuple[PendingInstant, ...]]:
        names = [info.path.removeprefix(f"{TIMELINE_FOLDER}/") for info in self.env.store.list(TIMELINE_FOLDER)]
        completed = sorted(one for name in names if (one := parse_completed(name)) is not None)
        done = {one.requested for one in completed}
        found = {pending for name in names if (pending := parse_pending(name)) is not None}
        return tuple(completed), tuple(sorted(one for one in found if one.requested not in done))

    def _schema_of(self, instant: CompletedInstant) -> str:
        return self.commit(instant).schema

    def _marks(self, newest_first: list[CompletedInstant]) -> Marks:
        for one in newest_first:
            marks = marks_of(self.commit(one).extra, one.path)
            if marks is not None:
                return marks
        return self._archived_marks()

    def _archived_marks(self) -> Marks:
        """Of the newest archived commit of ours: other writers archive them, too."""
        number, _ = self.history() if self._archived is None or self._has_more() else self._archived
        if self._archived is not None and self._archived[0] == number:
            return self._archived[1]
        found = Marks({})
        by_completion = sorted(
            (one for one in self.archived() if one[0].is_commit), key=lambda one: one[0].completed, reverse=True
        )
        for instant, data in by_completion:
            path = f"{HISTORY_FOLDER}/{instant.requested}"
            if data and (marks := marks_of(decode_table_commit(data, path).extra, path)) is not None:
                found = marks
                break
        self._archived = number, found
        return found

    def _has_more(self) -> bool:
        try:
            return self._archived is None or int(self.env.store.get(VERSION_FILE)) != self._archived[0]
        except (ObjectNotFound, ValueError):
            return True
