"""Hudi tables as sources need them, copy-on-write and merge-on-read, read by hudi-rs: each completed instant is a version."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.connect.location import without_secrets
from gapless.connect.sources.table.commit_order import removals_first
from gapless.connect.sources.table.options import OnChange, TableSourceOptions
from gapless.connect.sources.table.place import Place
from gapless.connect.sources.table.source import TableSource
from gapless.connect.sources.table.source_table import FOLLOWER, Begin, CommitRead, SourceColumns, inserted
from gapless.errors import NotSupported, ObjectNotFound, VersionNotFound
from gapless.files.compare.keys import KeySet
from gapless.files.compare.row_diff import DELETE, INSERT, POSTIMAGE, PREIMAGE
from gapless.formats.hudi.arrow_schema import META_COLUMNS, arrow_schema
from gapless.formats.hudi.instants import digits_of, time_of
from gapless.formats.hudi.slices import BaseFile
from gapless.formats.hudi.table_commits import TableCommit, WrittenFile
from gapless.formats.timeseries.codec.schema import decode_schema, encode_schema
from gapless.model.protocols import Clock
from gapless.tables.hudi.data_files import read_file
from gapless.tables.hudi.library import LibraryTable
from gapless.tables.hudi.read_timeline import Instants, ReadTimeline
from gapless.tables.shared.changes import TYPE_FIELD
from gapless.tables.shared.handle import Kind, is_stored, open_environment, place_for_library
from gapless.tables.shared.versions import parse_instant_value, whole_number
from gapless.tables.shared.versions_gone import VersionsGone, pass_over

_TIME, _KEY = META_COLUMNS[0], META_COLUMNS[2]
_LAID_OUT = ("COMPACT", "CLUSTER", "LOG_COMPACT")
"""What Hudi calls changes that only lay rows out anew: these keep the times at which they were written."""


@dataclass(slots=True, kw_only=True)
class HudiSourceTable:
    """A Hudi table; its versions are requested times of completed instants, as numbers of 17 digits."""

    kind: ClassVar[Kind] = "hudi"

    location: str
    storage_options: Mapping[str, str] | None = None
    on_change: OnChange = "error"
    pass_missing: bool = False
    """Versions that can be told no longer are left out, with a warning."""
    url: str = field(init=False)
    _timeline: ReadTimeline = field(init=False)
    _library: LibraryTable = field(init=False)
    _now: Instants = field(init=False)

    def __post_init__(self) -> None:
        """Raise TableNotFound, NotSupported for a table that cannot be read so, StoreError."""
        self.url = without_secrets(os.fspath(self.location))
        if self.url.startswith("memory:"):
            raise NotSupported(
                f"the Hudi table {self.url} cannot be read",
                why="It lies in the memory of this process, which hudi-rs, by which Hudi tables are read, does not see",
                fix="Make the table on disk or in a bucket",
                feature="Hudi tables in memory as sources",
            )
        env = open_environment(self.location, self.storage_options)
        self._timeline = ReadTimeline(env)
        self._library = LibraryTable(place_for_library(env.store, self.location), self.storage_options or {})
        properties = self._timeline.properties()
        self._check(properties)
        self._now = self._timeline.instants()

    @property
    def table_id(self) -> str:
        """See `SourceTable.table_id`. Hudi names a table by its name alone."""
        found = self._timeline.properties()
        return sha256(f"{found.get('hoodie.table.name')}\n{found.get('hoodie.table.type')}".encode()).hexdigest()[:16]

    @property
    def clock(self) -> Clock:
        """See `SourceTable.clock`."""
        return self._timeline.env.clock

    def newest(self) -> int:
        """See `SourceTable.newest`: the last completed instant that follows none which is not."""
        self._now = self._timeline.instants()
        return max(self._now.completed, default=0)

    def at_or_after(self, version: int) -> int:
        """See `SourceTable.at_or_after`."""
        known = [*self._now.completed]
        place = bisect_left(known, version)
        return known[place] if place < len(known) else version

    def count(self, first: int, last: int) -> int:
        """See `SourceTable.count`."""
        return sum(first <= one <= last for one in self._now.completed)

    def begin(self, at: Begin) -> tuple[int, bool]:
        """See `SourceTable.begin`."""
        newest = max(self._now.completed, default=0)
        if at.time_ns is not None:
            wanted = int(digits_of(at.time_ns))
            return self._kept(
                max(wanted, min(self._now.completed, default=0)) if wanted <= self._now.first_kept else wanted
            ), False
        if at.version is None:
            return newest, bool(newest)
        if at.version == "latest":
            return newest + 1, False
        return (self._earliest() if at.version == "earliest" else self._kept(at.version)), False

    def version_of(self, version: object, time: object) -> int:
        """See `SourceTable.version_of`: an instant that is there, or the newest one by a time."""
        number = whole_number(version)
        if number is None:
            number = self.last_by(parse_instant_value(time, name="time"))
        if number not in self._now.completed:
            known = (
                f"Its timeline goes from {min(self._now.completed)} to {max(self._now.completed)}"
                if self._now.completed
                else "It has none"
            )
            raise VersionNotFound(
                f"the Hudi table at {self.url} has no completed instant {version if time is None else time}",
                why=known,
                fix="Pass an instant that it has, or a time after the first",
                version=number,
            )
        return self._kept(number)

    def last_by(self, time_ns: int) -> int:
        """See `SourceTable.last_by`."""
        return max((one for one in self._now.completed if one <= int(digits_of(time_ns))), default=0)

    def columns_at(self, version: int) -> SourceColumns:
        """See `SourceTable.columns_at`."""
        for at in sorted(self._now.completed, reverse=True):
            if at <= version and (text := self._commit(at).schema):
                return _columns(arrow_schema(text, self.url))
        text = self._timeline.properties().get("hoodie.table.create.schema", "")
        return _columns(arrow_schema(text, self.url) if text else pa.schema([]))

    def encode(self, columns: SourceColumns) -> Mapping[str, Any]:
        """See `SourceTable.encode`."""
        return {"schema": encode_schema(columns.schema)}

    def decode(self, body: Mapping[str, Any]) -> SourceColumns:
        """See `SourceTable.decode`."""
        return _columns(decode_schema(body["schema"]))

    def whole(self, version: int) -> CommitRead:
        """See `SourceTable.whole`."""
        self._kept(version)
        slices = self._library.slices(_digits(version))

        def rows(columns: SourceColumns) -> Iterator[pa.RecordBatch]:
            for found in slices:
                read = list(self._library.rows(found, _digits(version), columns.schema))
                self._kept(version, again=True)
                yield from map(inserted, read)

        return CommitRead(time_ns=_time_ns(version), columns=self.columns_at(version), files=len(slices), rows=rows)

    def commit(self, version: int) -> CommitRead:
        """See `SourceTable.commit`."""
        self._kept(version)
        commit = self._commit(version)
        columns = self.columns_at(version)
        if commit.operation in _LAID_OUT:
            return CommitRead(time_ns=_time_ns(version), columns=columns, files=0, rows=lambda _: iter(()))
        written = (*commit.files, *commit.logged)
        changes = any(one.updated or one.deleted for one in written) or any(commit.replaced.values())
        told = self.on_change == "tell"
        read = partial(self._told, version, commit) if told else partial(self._added, version, written)

        def rows(of: SourceColumns) -> Iterator[pa.RecordBatch | pa.Table]:
            yield from removals_first(partial(read, of)) if told else read(of)

        return CommitRead(time_ns=_time_ns(version), columns=columns, changes_rows=changes, files=len(written), rows=rows)

    def mark(self, place: Place) -> Mapping[str, Any]:
        """See `SourceTable.mark`: the instant that was read last, or is being read."""
        before = place.version if place.whole or place.row else place.version - 1
        last = max((one for one in self._now.completed if one <= before), default=0)
        return {"instant": last} if last else {}

    def check_mark(self, place: Place, state: Mapping[str, Any]) -> None:
        """See `SourceTable.check_mark`: an instant may be archived, and not be gone between others."""
        told = int(state.get("instant", 0))
        if told and told not in self._now.completed and told >= min(self._now.completed, default=0):
            raise VersionNotFound(
                f"instant {told} of the Hudi table at {self.url}, which was read, is not there",
                why="It was rolled back, or another table was made in the place",
                fix="Start without the cursor, into a sink of a higher generation",
                version=place.version,
            )

    def past_missing(self, place: Place, gone: VersionNotFound) -> int:
        """See `SourceTable.past_missing`."""
        self._now = self._timeline.instants()
        pass_over(gone, allowed=self.pass_missing)
        return max(self._now.first_kept, place.version + 1)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _check(self, properties: Mapping[str, str]) -> None:
        kind, telling = properties.get("hoodie.table.type", ""), self.on_change == "tell"
        has_meta = properties.get("hoodie.populate.meta.fields", "true").lower() == "true"
        refused = (
            (
                properties.get("hoodie.datasource.write.drop.partition.columns", "false").lower() == "true",
                "files without its partition columns",
                "Its rows lack them, too",
            ),
            (
                not has_meta,
                "rows without the columns that say when they were written",
                "Which rows a commit added is not known",
            ),
            (
                telling and (kind != "COPY_ON_WRITE" or properties["hoodie.table.version"] == "6"),
                f'the type {kind} and table version {properties["hoodie.table.version"]}, of which on_change="tell" is not answered',
                "What a commit took away is told from base files alone, of copy-on-write tables of version 8 and later",
            ),
        )
        for is_so, what, why in refused:
            if is_so:
                raise NotSupported(
                    f"the Hudi table at {self.url} has {what}",
                    why=why,
                    fix='Import it with gl.import_table, or pass on_change="skip" where that was it',
                    feature=f"Hudi sources of a table with {what}",
                )

    def _earliest(self) -> int:
        """The first version whose commit can be told: what it changed is held against files of before it."""
        first = self._now.first_kept
        if self.on_change != "tell" or first not in self._now.completed:
            return first
        commit = self._commit(first)
        there = all(not one.before or is_stored(self._timeline.env.store, _before(one).path) for one in commit.files)
        return first if there and not any(commit.replaced.values()) else first + 1

    def _commit(self, version: int) -> TableCommit:
        try:
            return self._timeline.commit(self._now.completed[version])
        except (KeyError, ObjectNotFound):
            raise self._gone(version) from None

    def _kept(self, version: int, *, again: bool = False) -> int:
        """The version, as of which all files are there. Raises VersionNotFound where they may be gone: hudi-rs would give fewer rows."""
        if again:
            self._now = self._timeline.instants()
        if version < self._now.first_kept:
            raise self._gone(version)
        return version

    def _gone(self, version: int) -> VersionNotFound:
        self._now = self._timeline.instants()
        why = "Files of before were cleaned, or its instants archived"
        return VersionsGone(first=version, goes_on=max(self._now.first_kept, version + 1), why=why).error(self.url, FOLLOWER)

    def _added(self, version: int, written: tuple[WrittenFile, ...], columns: SourceColumns) -> Iterator[pa.RecordBatch]:
        """The rows that the table has with the instant's time: inserted and, where these are passed over, changed ones."""
        instant, groups = _digits(version), {(one.partition, one.file_id) for one in written}
        schema = columns.schema.append(pa.field(_TIME, pa.string()))
        for found in self._library.slices(instant):
            if (found.partition_path, found.file_id) in groups:
                read = list(self._library.rows(found, instant, schema))
                self._kept(version, again=True)
                for batch in read:
                    mine = batch.filter(pc.equal(batch.column(_TIME), instant))
                    yield inserted(mine.select(columns.schema.names))

    def _told(self, version: int, commit: TableCommit, columns: SourceColumns) -> Iterator[pa.Table]:
        """What became of each row, by each file and the one before it, and the files that were taken away."""
        instant = _digits(version)
        for file in commit.files:
            after = self._rows(version, _base(file), columns)
            before = self._rows(version, _before(file), columns) if file.before else after.slice(0, 0)
            self._kept(version, again=True)
            yield from _compared(before, after, instant, columns.schema)
        if any(commit.replaced.values()):
            earlier = max((one for one in self._now.completed if one < version), default=0)
            gone = {(partition, one) for partition, ids in commit.replaced.items() for one in ids}
            self._kept(earlier)
            for found in self._library.slices(_digits(earlier)):
                if (found.partition_path, found.file_id) in gone:
                    for batch in self._library.rows(found, _digits(earlier), columns.schema):
                        yield _kind(pa.Table.from_batches([batch]), DELETE)

    def _rows(self, version: int, file: BaseFile, columns: SourceColumns) -> pa.Table:
        env = self._timeline.env
        if not is_stored(env.store, file.path):
            raise self._gone(version)
        return read_file(env, file, columns.schema)


def _base(file: WrittenFile) -> BaseFile:
    return BaseFile(partition=file.partition, file_id=file.file_id, instant="", name=file.name, size=file.size)


def _before(file: WrittenFile) -> BaseFile:
    """The file that it took the place of."""
    return BaseFile(partition=file.partition, file_id=file.file_id, instant="", name=file.before, size=0)


def _compared(before: pa.Table, after: pa.Table, instant: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """What became of the rows of a file group, found by their record keys."""
    written = after.filter(pc.equal(after.column(_TIME), instant))
    names = schema.names
    if not before.num_rows:
        yield _kind(written.select(names), INSERT)
        return
    old, new = KeySet.of(before, (_KEY,)), KeySet.of(written, (_KEY,))
    known = old.match(written) >= 0
    changed = new.match(before) >= 0 if written.num_rows else np.zeros(before.num_rows, dtype=bool)
    stays = KeySet.of(after, (_KEY,)).match(before) >= 0 if after.num_rows else np.zeros(before.num_rows, dtype=bool)
    for rows, mask, kind in (
        (before, ~stays, DELETE),
        (before, changed, PREIMAGE),
        (written, known, POSTIMAGE),
        (written, ~known, INSERT),
    ):
        yield _kind(rows.filter(pa.array(mask)).select(names), kind)


def _kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(TYPE_FIELD, pa.repeat(pa.scalar(kind, TYPE_FIELD.type), rows.num_rows))


def _columns(schema: pa.Schema) -> SourceColumns:
    return SourceColumns(schema=schema, stored=tuple(schema.names), meta=None)


def _digits(version: int) -> str:
    return f"{version:017d}"


def _time_ns(version: int) -> int:
    return time_of(_digits(version)) or 0


def open_hudi_source(location: str, storage_options: Mapping[str, str] | None, options: Mapping[str, Any]) -> TableSource:
    """A source out of a Hudi table of either type. Raises InvalidOption, InvalidTime, NotSupported, TableNotFound, StoreError."""
    asked = TableSourceOptions.parse(options)
    table = HudiSourceTable(
        location=location,
        storage_options=storage_options,
        on_change=asked.on_change,
        pass_missing=asked.on_missing_versions == "earliest",
    )
    return TableSource(table, asked)
