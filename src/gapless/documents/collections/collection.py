"""Collections of documents: what `gl.documents.collection` gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from bson.objectid import ObjectId

from gapless.documents.aggregation.outputs import Merge, Out
from gapless.documents.aggregation.parse import parse_pipeline
from gapless.documents.aggregation.stages import Running
from gapless.documents.collections.aggregating import sibling, streamed, writing
from gapless.documents.collections.change import DocumentChange
from gapless.documents.collections.cursor import Cursor
from gapless.documents.collections.indexed import Indexed
from gapless.documents.collections.reading import Filter
from gapless.documents.collections.requests import (
    Circumstances,
    DeleteMany,
    DeleteOne,
    ReplaceOne,
    Request,
    UpdateMany,
    UpdateOne,
    inserting,
    steps_of,
)
from gapless.documents.collections.results import (
    BulkWriteResult,
    DeleteResult,
    InsertManyResult,
    InsertOneResult,
    UpdateResult,
)
from gapless.documents.collections.steps import Document, Outcome, Step
from gapless.documents.collections.storage import PROPERTIES, SCHEMA, read_indexes
from gapless.documents.collections.unsupported import OF_COLLECTIONS, missing, refuse
from gapless.documents.find.projection import parse_projection
from gapless.documents.spill.memory import DEFAULT_LIMIT, LEAST_LIMIT
from gapless.errors import InvalidOption, TableExists, TableNotFound
from gapless.model.operation import ChangeReport, OperationArgument, parse_operation
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.rewrite import change_rows
from gapless.tables.shared.handle import Location

UpdateArgument = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Projected = Mapping[str, Any] | Iterable[str] | None


def collection(
    path: Location,
    *,
    create: bool = True,
    properties: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    memory_limit: int = DEFAULT_LIMIT,
) -> Collection:
    """Open a collection of documents: a Delta table, which is made where none is.

    Args:
        path: As `gl.delta.create` takes it.
        create: Whether to make one where there is none.
        properties: Properties of a new table beside the collection's own, such as `{"delta.enableChangeDataFeed": True}`.
        storage_options: As `gl.delta.create` takes them.
        memory_limit: Bytes that a sort and each stage of a pipeline hold in memory, from 1,000,000; what is more lies in a temporary file.

    Raises TableNotFound, UnsupportedTable for a table that is no collection, InvalidOption, InvalidPath, StoreError.
    """
    if type(memory_limit) is not int or memory_limit < LEAST_LIMIT:
        raise InvalidOption(
            f"memory_limit={memory_limit!r} is no limit",
            why="It counts bytes, and less would be blocks of a few documents",
            fix=f"Pass a whole number from {LEAST_LIMIT}",
            option="memory_limit",
            value=memory_limit,
        )
    try:
        table = DeltaTable.open(path, storage_options=storage_options)
    except TableNotFound:
        if not create:
            raise
        given = {**(properties or {}), **PROPERTIES}
        try:
            table = DeltaTable.create(path, SCHEMA, properties=given, storage_options=storage_options)
        except TableExists:
            # Another process made it first.
            table = DeltaTable.open(path, storage_options=storage_options)
    read_indexes(table.properties, table.url)
    return Collection(table, storage_options, memory_limit)


class Collection(Indexed):
    """Documents of one Delta table, in pymongo's spelling.

    Each change is one commit, all of it or nothing, and is made anew where another's commit came first and clashes. An operator that is
    not known is an error before anything is read. `operation_id` names a change, as in `gl.delta`: sent again, from anywhere, it is not
    made again.
    """

    def __init__(
        self, table: DeltaTable, storage_options: Mapping[str, str] | None = None, memory_limit: int = DEFAULT_LIMIT
    ) -> None:
        """Use `gl.documents.collection`."""
        super().__init__(table, memory_limit)
        self._storage_options = storage_options

    def __getattr__(self, name: str) -> Any:
        """Raise NotSupported for what pymongo's collections have, AttributeError for others."""
        raise missing("Collection", name, OF_COLLECTIONS)

    def insert_one(self, document: Mapping[str, Any], *, operation_id: OperationArgument = None) -> InsertOneResult:
        """Add a document; one without `_id` gets an ObjectId, which is put into it where it can be changed.

        With an operation id the new `_id` follows from that. Raises DuplicateKey, InvalidValue, and as `gl.delta`'s `merge`.
        """
        result = self.insert_many([document], operation_id=operation_id)
        (number,) = result.inserted_ids
        return InsertOneResult(inserted_id=number, version=result.version, already_applied=result.already_applied)

    def insert_many(
        self, documents: Iterable[Mapping[str, Any]], *, operation_id: OperationArgument = None
    ) -> InsertManyResult:
        """Add documents in one commit: all, or none where one cannot be. Raises as `insert_one`, InvalidOption where there are none."""
        step = inserting(documents, self._circumstances(operation_id))
        report, _ = self._change([step], operation_id)
        return InsertManyResult(inserted_ids=list(step.ids), version=report.version, already_applied=report.already_applied)

    def delete_one(self, filter: Filter, *, sort: object = None, operation_id: OperationArgument = None) -> DeleteResult:  # noqa: A002
        """Delete the first document that matches. Raises InvalidFilter, NotSupported, and as `gl.delta`'s `delete`."""
        return self._deleted(DeleteOne(filter, sort), operation_id)

    def delete_many(self, filter: Filter, *, operation_id: OperationArgument = None) -> DeleteResult:  # noqa: A002
        """Delete the documents that match; `{}` means all. Raises as `delete_one`."""
        return self._deleted(DeleteMany(filter), operation_id)

    def replace_one(
        self,
        filter: Filter,  # noqa: A002
        replacement: Mapping[str, Any],
        *,
        upsert: bool = False,
        sort: object = None,
        operation_id: OperationArgument = None,
    ) -> UpdateResult:
        """Put a document in the place of the first that matches, under its `_id`; with `upsert` add it where none does.

        Raises InvalidOption, InvalidFilter, NotSupported, DuplicateKey, InvalidValue, and as `gl.delta`'s `merge`.
        """
        return self._updated(ReplaceOne(filter, replacement, upsert, sort), operation_id)

    def update_one(
        self,
        filter: Filter,  # noqa: A002
        update: UpdateArgument,
        *,
        upsert: bool = False,
        array_filters: Iterable[Filter] | None = None,
        sort: object = None,
        operation_id: OperationArgument = None,
    ) -> UpdateResult:
        """Change the first document that matches, by operators.

        Args:
            filter: As `gl.documents.matches` takes it.
            update: Operators with fields and operands: `{"$set": {"a.b": 1}, "$inc": {"n": 2}}`; or a pipeline of `$set`, `$unset`,
                `$replaceWith` and their like: `[{"$set": {"total": {"$add": ["$a", "$b"]}}}]`.
            upsert: Whether to add a document where none matches: with what the filter says that it equals, changed by the update.
            array_filters: Which elements `$[id]` in paths are: `[{"id.score": {"$lt": 5}}]`.
            sort: Which document is the first, as `find` takes it.
            operation_id: See the class.

        Raises as `replace_one`.
        """
        return self._updated(UpdateOne(filter, update, upsert, array_filters, sort), operation_id)

    def update_many(
        self,
        filter: Filter,  # noqa: A002
        update: UpdateArgument,
        *,
        upsert: bool = False,
        array_filters: Iterable[Filter] | None = None,
        operation_id: OperationArgument = None,
    ) -> UpdateResult:
        """Change all documents that match, in one commit, as `update_one` changes one. What matches is held in memory."""
        return self._updated(UpdateMany(filter, update, upsert, array_filters), operation_id)

    def find_one_and_delete(
        self,
        filter: Filter,  # noqa: A002
        projection: Projected = None,
        *,
        sort: object = None,
    ) -> Document | None:
        """Delete the first document that matches, and give it; None where none does.

        It has no operation id, and no other `find_one_and_…` has: what it gives is not kept. Raises as `delete_one`, InvalidOption.
        """
        return self._found(DeleteOne(filter, sort), projection, after=False)

    def find_one_and_replace(
        self,
        filter: Filter,  # noqa: A002
        replacement: Mapping[str, Any],
        projection: Projected = None,
        *,
        sort: object = None,
        upsert: bool = False,
        return_document: bool = False,
    ) -> Document | None:
        """`replace_one`, which gives the document as it was, or with `return_document=True` (pymongo's AFTER) as it is."""
        return self._found(ReplaceOne(filter, replacement, upsert, sort), projection, after=return_document)

    def find_one_and_update(
        self,
        filter: Filter,  # noqa: A002
        update: UpdateArgument,
        projection: Projected = None,
        *,
        sort: object = None,
        upsert: bool = False,
        return_document: bool = False,
        array_filters: Iterable[Filter] | None = None,
    ) -> Document | None:
        """`update_one`, which gives the document as it was, or with `return_document=True` (pymongo's AFTER) as it is."""
        request = UpdateOne(filter, update, upsert, array_filters, sort)
        return self._found(request, projection, after=return_document)

    def bulk_write(self, requests: Sequence[Request], *, operation_id: OperationArgument = None) -> BulkWriteResult:
        """Make changes one after the other, in one commit: all, or none where one cannot be made; each sees what those before it did.

        `requests` are `InsertOne`, `UpdateOne`, `UpdateMany`, `ReplaceOne`, `DeleteOne` and `DeleteMany` of `gl.documents`. Raises as their
        methods, InvalidOption for what is none of them.
        """
        report, outcomes = self._change(steps_of(requests, self._circumstances(operation_id)), operation_id)
        upserted = {place: one.upserted[0] for place, one in enumerate(outcomes) if one.upserted}
        told = outcomes or [_told(report)]
        return BulkWriteResult(
            inserted_count=sum(one.inserted for one in told),
            matched_count=sum(one.matched for one in told),
            modified_count=sum(one.modified for one in told),
            deleted_count=sum(one.deleted for one in told),
            upserted_ids=upserted,
            version=report.version,
            already_applied=report.already_applied,
        )

    def aggregate(
        self,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        collections: Mapping[str, Collection] | None = None,
        operation_id: OperationArgument = None,
        **options: object,
    ) -> Cursor:
        """What comes out of a pipeline over the documents of the newest version.

        Args:
            pipeline: Stages, as MongoDB has them: `[{"$match": {"a": 1}}, {"$group": {"_id": "$b", "n": {"$sum": 1}}}]`.
            collections: Those that `$lookup` and its like, `$merge` and `$out` name. Others lie beside this one: the name is a path from the
                folder that it lies in.
            operation_id: See the class; for a pipeline that ends with `$merge` or `$out`.
            options: Those of pymongo's are refused by name, but for `allowDiskUse=True`, which says what is so.

        Documents stream through; a stage that has to hold them holds `memory_limit` bytes in memory, and the rest in a temporary file. In
        memory alone are: what is gathered of one group, values for the documents of one partition of `$setWindowFields`, what `$facet` gives,
        `$sample`, the other collection of `$graphLookup`, and all that `$merge` and `$out` write. With `$merge` and `$out` all is written when this returns, in one commit, and nothing comes out.
        Raises InvalidOption, InvalidFilter, NotSupported, InvalidValue, TableNotFound, StoreError; what documents make it raise comes with
        the first of them.
        """
        refuse("aggregate", (name for name, value in options.items() if (name, value) != ("allowDiskUse", True)))
        stages = parse_pipeline(pipeline, now=self._now())
        output = stages[-1] if stages else None
        others: dict[str, Collection] = dict(collections or {})

        def named(name: str, *, create: bool) -> Collection:
            if name in others and not isinstance(others[name], Collection):
                raise InvalidOption(
                    f"collections[{name!r}] is a {type(others[name]).__name__}",
                    fix="Pass what gl.documents.collection gives",
                    option="collections",
                    value=others[name],
                )
            if name not in others:
                place = sibling(self._table.url, name)
                others[name] = collection(place, create=create, storage_options=self._storage_options)
            return others[name]

        readers = {name: named(name, create=False) for one in stages for name in one.sources}
        reads = {name: one._at_newest() for name, one in readers.items()}  # noqa: SLF001  # of this class
        jitter = context_of(self._table).env.ids.jitter
        running = Running(read=lambda name, condition: reads[name].documents(condition), draw=jitter, memory=self._memory)
        read = streamed(stages, self._at_newest(), running)
        if isinstance(output, Out | Merge):
            named(output.into, create=True)._put(output, read(), operation_id)  # noqa: SLF001  # of this class
            return Cursor(read=lambda: iter(()), shape=lambda one: one)
        if operation_id is not None:
            raise InvalidOption(
                "operation_id names a change, and this pipeline makes none",
                fix="Leave it out, or end with $merge or $out",
                option="operation_id",
                value=operation_id,
            )
        return Cursor(read=read, shape=lambda one: one)

    def _put(self, output: Out | Merge, found: Iterator[Document], operation_id: OperationArgument) -> None:
        """Write what comes out of a pipeline. Raises DuplicateKey, InvalidValue, and as `gl.delta`'s `merge`."""
        self._change(writing(output, list(found), self._circumstances(operation_id)), operation_id)

    # -- how changes are made ------------------------------------------------------------------------------------------

    def _deleted(self, request: DeleteOne | DeleteMany, operation_id: OperationArgument) -> DeleteResult:
        step = request.step(self._circumstances(operation_id))
        report, outcomes = self._change([step], operation_id, "DELETE")
        (told,) = outcomes or [_told(report)]
        return DeleteResult(deleted_count=told.deleted, version=report.version, already_applied=report.already_applied)

    def _updated(self, request: ReplaceOne | UpdateOne | UpdateMany, operation_id: OperationArgument) -> UpdateResult:
        report, outcomes = self._change([request.step(self._circumstances(operation_id))], operation_id)
        (told,) = outcomes or [_told(report)]
        return UpdateResult(
            matched_count=told.matched,
            modified_count=told.modified,
            upserted_id=told.upserted[0] if told.upserted else None,
            did_upsert=bool(told.upserted),
            version=report.version,
            already_applied=report.already_applied,
        )

    def _found(self, request: DeleteOne | ReplaceOne | UpdateOne, projection: Projected, *, after: bool) -> Document | None:
        shape, step = parse_projection(projection), request.step(self._circumstances(None))
        operation = "DELETE" if isinstance(request, DeleteOne) else "MERGE"
        _, (told,) = self._change([step], None, operation)
        document = told.after if after else told.before
        return document if document is None or shape is None else shape.apply(document, step.condition)

    def _change(
        self, steps: Sequence[Step], operation_id: OperationArgument, operation: str = "MERGE"
    ) -> tuple[ChangeReport, list[Outcome]]:
        """What was committed, and what each step did; nothing of the steps where the operation was applied before."""
        change = DocumentChange(steps=steps, url=self._table.url, operation=operation)
        report = change_rows(self._table, change, operation_id)
        return report, [] if report.already_applied else change.outcomes

    def _circumstances(self, operation_id: OperationArgument) -> Circumstances:
        operation = parse_operation(operation_id)
        fresh = _random_ids() if operation is None else _ids_of(repr(operation))
        return Circumstances(now_ns=context_of(self._table).env.clock.now_ns(), fresh_ids=fresh)


def _random_ids() -> Iterator[ObjectId]:
    while True:
        yield ObjectId()


def _ids_of(operation: str) -> Iterator[ObjectId]:
    """The same ones whenever an operation is sent."""
    for number in count():
        yield ObjectId(hashlib.sha256(f"{operation}\0{number}".encode()).digest()[:12])


def _told(report: ChangeReport) -> Outcome:
    """What the log tells of a change that was made before."""
    return Outcome(
        inserted=report.inserted_rows,
        matched=report.updated_rows,
        modified=report.updated_rows,
        deleted=report.removed_rows - report.updated_rows,
    )
