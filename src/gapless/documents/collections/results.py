"""What changes of a collection answer, in the spelling of pymongo's results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What every change answers."""

    version: int
    """The version of the table that holds the change; the newest where nothing changed."""
    already_applied: bool = False
    """Whether the operation id was known: nothing was changed now. Counts are those of the first time as far as the log tells them: what
    matched is what was modified, and ids of upserts are not known any more.
    """

    @property
    def acknowledged(self) -> bool:
        """Always: what is answered is committed."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertOneResult(WriteResult):
    """Of `insert_one`."""

    inserted_id: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertManyResult(WriteResult):
    """Of `insert_many`."""

    inserted_ids: list[Any]
    """In the order of the documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult(WriteResult):
    """Of `delete_one` and `delete_many`."""

    deleted_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult(WriteResult):
    """Of `replace_one`, `update_one` and `update_many`."""

    matched_count: int
    """Documents that the filter matched; 0 for one that was upserted."""
    modified_count: int
    """Of these, those that are another now."""
    upserted_id: Any = None
    """The `_id` of the document that was added since none matched."""
    did_upsert: bool = False
    """Whether one was, whose `_id` may be None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkWriteResult(WriteResult):
    """Of `bulk_write`."""

    inserted_count: int
    matched_count: int
    modified_count: int
    deleted_count: int
    upserted_ids: Mapping[int, Any] = field(default_factory=dict)
    """By the places of the requests that added a document since none matched."""

    @property
    def upserted_count(self) -> int:
        """How many requests did."""
        return len(self.upserted_ids)
