"""An Iceberg table in a plain directory, as Hadoop catalogs have it: put-if-absent of `metadata/v<N+1>.metadata.json` is the commit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV2
from pyiceberg.table.update import update_table_metadata

from gapless.errors import CommitOutcomeUnknown, CorruptTable, StoreError
from gapless.formats.iceberg.commits import first_metadata
from gapless.log.effects import Conversation, Get, ListNames, Put, PutHint, PutNew, Wait, perform
from gapless.publish.iceberg.changes import TableChange, as_version_2
from gapless.publish.iceberg.io import StoreIO
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_absent

FOLDER = "_iceberg"
"""Of its own, so that `DROP TABLE`, which removes a table's whole folder, leaves the table itself alone."""
_NAME = re.compile(r"v([1-9][0-9]*)\.metadata\.json", re.ASCII)
Accept = Callable[[TableMetadata, str], TableMetadataV2]
_KEPT_FILES = 50
"""Metadata files before the newest one that stay, for readers at work."""


@dataclass(frozen=True, slots=True)
class Found:
    """The metadata of a version of the directory."""

    number: int
    metadata: TableMetadataV2


class Directory:
    """The Iceberg table in a folder of a place."""

    rewrites_mappings = False

    def __init__(self, env: Environment, folder: str = FOLDER, accept: Accept = as_version_2) -> None:
        """For the place that `env` reaches, whose root it is where `folder` is empty; `accept` raises for metadata that is not to be read."""
        self._env, self._folder, self._accept = env, folder, accept
        self._metadata = f"{folder}/metadata" if folder else "metadata"
        self._hint = f"{self._metadata}/version-hint.text"
        self.io = StoreIO(env.store)
        self._known: Found | None = None
        self._is_pointed = True
        """Whether the hint is known to name the newest metadata that was loaded."""

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"the Iceberg table at {self._env.store.url}{self._folder and '/'}{self._folder}"

    @property
    def location(self) -> str:
        """Where the Iceberg table lies: in a folder of the table itself, wherever that was moved."""
        return self.io.location(self._folder) if self._folder else self.io.root

    def metadata_location(self, number: int) -> str:
        """What the metadata of a version is called."""
        return self.io.location(self._path(number))

    def load(self) -> Found | None:
        """The newest metadata; None where there is none. Raises CorruptTable, StoreError."""
        since = self._known
        found = self._env.drive(self._newest(0 if since is None else since.number))
        if found is None and since is not None:
            # Nothing is newer; unless it was taken away, or begun anew.
            found = self._env.drive(self._newest(0)) if self._env.drive(self._read(since.number)) is None else None
            if found is None:
                return since
        self._known = None if found is None else Found(found[0], self._parse(found[1], self._path(found[0])))
        self._is_pointed = False
        return self._known

    def settle(self) -> None:
        """Have the hint name the newest metadata that was loaded, where their writer died before it did. Raises StoreError."""
        if self._known is not None and not self._is_pointed:
            self._env.drive(self._heal(self._known.number))
            self._is_pointed = True

    def create(self, time_ms: int) -> None:
        """Make the table, without a column, unless it is there. Raises CommitOutcomeUnknown, StoreError."""
        first = first_metadata(self.location, self.io.root, self._env.ids.uuid(), time_ms)
        self.begin(TableMetadataV2.model_validate(first))

    def begin(self, metadata: TableMetadataV2) -> bool:
        """Make the table with this metadata; False where there is one. Raises CommitOutcomeUnknown, StoreError."""
        probe_put_if_absent(self._env.store)
        return self._put(1, metadata)

    def blank(self, time_ms: int) -> Found:
        """Another table after the newest metadata, whatever those say, which a commit puts in their place in one step. Raises StoreError."""
        self._known = None
        newest = self._env.drive(self._newest(0))
        metadata = TableMetadataV2.model_validate(first_metadata(self.location, self.io.root, self._env.ids.uuid(), time_ms))
        return Found(0 if newest is None else newest[0], metadata)

    def commit(self, found: Found, change: TableChange, time_ms: int) -> Found | Literal["lost"]:
        """What is there after a commit; "lost" where another one came first. Raises CommitOutcomeUnknown, StoreError."""
        for one in change.requirements:
            one.validate(found.metadata)
        location = self.metadata_location(found.number)
        changed = self._accept(update_table_metadata(found.metadata, change.updates, metadata_location=location), location)
        # The library dates a commit by the clock where two have one time; metadata must not be newer than the next snapshot.
        changed = changed.model_copy(update={"last_updated_ms": time_ms})
        if not self._put(found.number + 1, changed):
            return "lost"
        landed = self._known = Found(found.number + 1, changed)
        self._is_pointed = True
        gone = found.number - _KEPT_FILES
        if gone > 0 and changed.properties.get("write.metadata.delete-after-commit.enabled") == "true":
            self._env.store.delete(self._path(gone))
        return landed

    def _put(self, number: int, metadata: TableMetadataV2) -> bool:
        """Whether it is the version of this number."""
        data = metadata.model_dump_json(exclude_none=True).encode()
        deferred, self.io.deferred[:] = tuple(self.io.deferred), []
        try:
            landed = self._env.drive(_create(self._path(number), data), deferred)
        finally:
            # Those of a commit that is there are durable; no other will name them.
            self._env.forget(deferred)
        if landed is None:
            raise CommitOutcomeUnknown(
                f"whether {self._path(number)} is stored is not known",
                why="The store gave no usable answer until the deadline; nothing was deleted",
                fix="Publish again when the store answers: what landed is found",
                version=number,
                commit_id=str(metadata.current_snapshot_id),
            )
        if landed:
            self._env.drive(self._point(number))
        return landed

    def _path(self, number: int) -> str:
        return f"{self._metadata}/v{number}.metadata.json"

    def _parse(self, data: bytes, path: str) -> TableMetadataV2:
        try:
            return self._accept(TableMetadataUtil.parse_raw(data.decode()), path)
        except (ValueError, ValidationError) as error:
            raise CorruptTable(
                f"{path} is no Iceberg metadata that can be read",
                why=str(error).splitlines()[0],
                fix=f"Bring the file back from a backup{', or `gapless repair --apply` begins the description anew' if self._folder else ''}",
                path=path,
            ) from error

    def _heal(self, number: int) -> Conversation[None]:
        if _parse_hint((yield from perform(Get(self._hint)))) < number:
            yield from self._point(number)

    def _point(self, number: int) -> Conversation[None]:
        yield from perform(PutHint(self._hint, str(number).encode()))

    def _read(self, number: int) -> Conversation[bytes | None]:
        return (yield from perform(Get(self._path(number))))

    def _newest(self, known: int) -> Conversation[tuple[int, bytes] | None]:
        """The newest metadata after a known version, which is skipped; 0 for none."""
        number, data = known, None
        if not known:
            number = _parse_hint((yield from perform(Get(self._hint))))
            data = (yield from self._read(number)) if number else None
            if data is None:
                names = yield from perform(ListNames(self._metadata))
                told = (_NAME.fullmatch(name.removeprefix(f"{self._metadata}/")) for name in names)
                number = max((int(match[1]) for match in told if match), default=0)
                data = (yield from self._read(number)) if number else None
                if data is None:
                    return None
        # The hint is written after the commit, and may be behind.
        while (newer := (yield from self._read(number + 1))) is not None:
            number, data = number + 1, newer
        return None if data is None else (number, data)


def _create(path: str, data: bytes) -> Conversation[bool | None]:
    """Whether an object is ours; None where the store never said."""
    attempt = 0
    while True:
        put = yield from perform(PutNew(path, data))
        if put in (Put.DONE, Put.LATE):
            return True
        try:
            found = yield from perform(Get(path))
        except StoreError:
            return None
        if found is not None:
            return bytes(found) == data
        attempt += 1
        if not (yield from perform(Wait(attempt))):
            return None


def _parse_hint(data: bytes | None) -> int:
    text = b"" if data is None else bytes(data).strip()
    return int(text) if text.isdigit() and len(text) < 19 else 0
