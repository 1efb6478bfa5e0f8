"""Reading documents: what `find` and its like take, and how they are found in one version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from tempfile import TemporaryFile
from typing import Any

from gapless.documents.collections.change import wanted_rows
from gapless.documents.collections.cursor import Cursor, Document, count_option, distinct_values
from gapless.documents.collections.lookups import Lookups
from gapless.documents.collections.storage import Index, columns_of, read_indexes
from gapless.documents.collections.version import Version
from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.prune import to_predicate
from gapless.documents.find.projection import parse_projection
from gapless.documents.find.sort import parse_sort
from gapless.documents.spill.memory import Memory
from gapless.documents.values.dates import date_of_ns
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.read.scan import Planner
from gapless.tables.delta.read.versions import VersionFiles
from gapless.tables.delta.table import DeltaTable

Filter = Mapping[str, Any]


class Reading:
    """The reading side of a collection."""

    def __init__(self, table: DeltaTable, memory_limit: int) -> None:
        """Use `gl.documents.collection`."""
        self._table = table
        self._memory = Memory(limit=memory_limit, open=TemporaryFile)
        self._planner: Planner | None = None
        self._lookups = Lookups(memory_limit)

    @property
    def table(self) -> DeltaTable:
        """The table that holds the documents."""
        return self._table

    @property
    def version(self) -> int:
        """The version that was seen last."""
        return self._table.version

    def find(
        self,
        filter: Filter | None = None,  # noqa: A002  # as pymongo calls it
        projection: Mapping[str, Any] | Iterable[str] | None = None,
        *,
        skip: int = 0,
        limit: int = 0,
        sort: object = None,
    ) -> Cursor:
        """The documents that match, of the newest version, whatever is committed while they are read.

        Args:
            filter: As `gl.documents.matches` takes it; None for all.
            projection: Which fields are given: names, or paths with 1, 0, an expression, `{"$slice": …}` or `{"$elemMatch": …}`, or
                `"a.$": 1`; None for whole documents.
            skip: How many of the first to leave out.
            limit: How many to give at most; 0 for all.
            sort: A path, or pairs of a path and 1 or -1. Memory holds `memory_limit` of sorted documents, a temporary
                file the rest; without it they come in the files' order.

        Raises InvalidFilter, InvalidOption, NotSupported, InvalidValue, UnsupportedTable, StoreError.
        """
        now, by = self._now(), parse_sort(sort)
        condition, shape = parse_filter(filter or {}, now=now), parse_projection(projection, now=now)
        version = self._at_newest()
        cursor = Cursor(
            read=lambda: version.documents(condition),
            first=lambda by, most: version.first(condition, by, most),
            memory=self._memory,
            by=by,
            shape=(lambda one: one) if shape is None else lambda one: shape.apply(one, condition),
        )
        return cursor.skip(skip).limit(limit)

    def find_one(
        self,
        filter: Filter | None = None,  # noqa: A002  # as pymongo calls it
        projection: Mapping[str, Any] | Iterable[str] | None = None,
        *,
        skip: int = 0,
        sort: object = None,
    ) -> Document | None:
        """The first of what `find` gives; None where nothing matches. Raises as `find`, CorruptTable."""
        return next(iter(self.find(filter, projection, skip=skip, limit=1, sort=sort)), None)

    def count_documents(self, filter: Filter, *, skip: int = 0, limit: int = 0) -> int:  # noqa: A002
        """How many documents match. Raises as `find`, CorruptTable."""
        skipped, most = count_option("skip", skip), count_option("limit", limit)
        condition = parse_filter(filter, now=self._now())
        found = self._at_newest().count(condition)
        rest = max(0, found - skipped)
        return min(rest, most) if most else rest

    def estimated_document_count(self) -> int:
        """How many documents there are, exactly. Raises UnsupportedTable, StoreError."""
        return self.count_documents({})

    def distinct(self, key: str, filter: Filter | None = None) -> list[Any]:  # noqa: A002
        """The different values at a path, and elements of arrays there, in the order in which they come. Raises as `find`, CorruptTable."""
        return distinct_values(self._at_newest().documents(parse_filter(filter or {}, now=self._now())), key)

    def explain(self, filter: Filter | None = None) -> dict[str, Any]:  # noqa: A002
        """What a `find` would read: `files` there are, and `files_read` of them. Raises as `find`."""
        condition, planner = parse_filter(filter or {}, now=self._now()), self._newest()
        predicate = to_predicate(condition, columns_of(self._indexes()))
        read = planner.select(wanted_rows(predicate, self._table.schema))
        return {"files": len(planner.files), "files_read": len(read)}

    def _indexes(self) -> tuple[Index, ...]:
        return read_indexes(self._newest().state.configuration, self._table.url)

    def _now(self) -> datetime:
        """What `$$NOW` is."""
        return date_of_ns(context_of(self._table).env.clock.now_ns())

    def _newest(self) -> Planner:
        state = context_of(self._table).refresh().state
        if self._planner is None or self._planner.state is not state:
            read_indexes(state.configuration, self._table.url)
            self._planner = Planner.of(state)
        return self._planner

    def _at_newest(self) -> Version:
        """The documents of the newest version."""
        planner, context = self._newest(), context_of(self._table)
        metadata = planner.state.metadata
        return Version(
            planner=planner,
            reader=FileReader.of(context.store, metadata),
            stored=VersionFiles(env=context.env, snapshot=context.snapshot),
            schema=self._table.schema,
            columns=columns_of(read_indexes(metadata.configuration, self._table.url)),
            url=self._table.url,
            memory_limit=self._memory.limit,
            lookups=self._lookups,
        )
