"""Changes as values, for `bulk_write` and the methods that make one of them. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from gapless.documents.collections.steps import Choose, Delete, Document, Insert, Step, Update, first_of
from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.tree import Condition
from gapless.documents.find.sort import Sort, ordered, parse_sort
from gapless.documents.updates.replace import check_replacement, replaced, seeds
from gapless.documents.updates.update import parse_update
from gapless.documents.values.codec import ID, encode_document
from gapless.documents.values.dates import date_of_ns
from gapless.documents.values.identity import id_text
from gapless.errors import InvalidOption

Filter = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What requests are read in."""

    now_ns: int
    """Since 1970 UTC, for `$currentDate` and `$$NOW`."""
    fresh_ids: Iterator[Any]
    """Ids of documents that have none."""

    def condition(self, given: Filter) -> Condition:
        """The condition that a filter is. Raises InvalidFilter, NotSupported, InvalidValue."""
        return parse_filter(given, now=date_of_ns(self.now_ns))


@dataclass(frozen=True, slots=True)
class InsertOne:
    """Add a document."""

    document: Mapping[str, Any]

    def step(self, now: Circumstances) -> Insert:
        """The step. Raises InvalidValue."""
        return inserting([self.document], now)


@dataclass(frozen=True, slots=True)
class DeleteOne:
    """Delete the first document that matches."""

    filter: Filter
    sort: object = None

    def step(self, now: Circumstances) -> Delete:
        """The step. Raises InvalidFilter, InvalidOption, NotSupported, InvalidValue."""
        return Delete(condition=now.condition(self.filter), choose=_first_by(self.sort))


@dataclass(frozen=True, slots=True)
class DeleteMany:
    """Delete the documents that match."""

    filter: Filter

    def step(self, now: Circumstances) -> Delete:
        """The step. Raises InvalidFilter, NotSupported, InvalidValue."""
        return Delete(condition=now.condition(self.filter))


@dataclass(frozen=True, slots=True)
class ReplaceOne:
    """Put a document in the place of the first that matches."""

    filter: Filter
    replacement: Mapping[str, Any]
    upsert: bool = False
    sort: object = None

    def step(self, now: Circumstances) -> Update:
        """The step. Raises InvalidFilter, InvalidOption, NotSupported, InvalidValue."""
        fresh = check_replacement(self.replacement)
        encode_document(fresh)

        number: Any = None
        if self.upsert:
            seeded = seeds(self.filter)
            number = fresh[ID] if ID in fresh else seeded[ID] if ID in seeded else next(now.fresh_ids)
        return Update(
            condition=now.condition(self.filter),
            change=lambda document: replaced(document, fresh),
            choose=_first_by(self.sort),
            upsert=(lambda: replaced({ID: number}, fresh)) if self.upsert else None,
        )


@dataclass(frozen=True, slots=True)
class UpdateOne:
    """Change the first document that matches, by operators or a pipeline."""

    filter: Filter
    update: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    upsert: bool = False
    array_filters: Iterable[Filter] | None = None
    sort: object = None

    def step(self, now: Circumstances) -> Update:
        """The step. Raises InvalidFilter, InvalidOption, NotSupported, InvalidValue."""
        return _updating(self, _first_by(self.sort), now)


@dataclass(frozen=True, slots=True)
class UpdateMany:
    """Change the documents that match, by operators or a pipeline."""

    filter: Filter
    update: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    upsert: bool = False
    array_filters: Iterable[Filter] | None = None

    def step(self, now: Circumstances) -> Update:
        """The step. Raises InvalidFilter, InvalidOption, NotSupported, InvalidValue."""
        return _updating(self, list, now)


Request = InsertOne | DeleteOne | DeleteMany | ReplaceOne | UpdateOne | UpdateMany


def steps_of(requests: object, now: Circumstances) -> list[Step]:
    """The steps of requests, all of which are read first. Raises as they do, InvalidOption for what is none."""
    given = list(requests) if isinstance(requests, Iterable) and not isinstance(requests, str | Mapping) else []
    wrong = next((one for one in given if not isinstance(one, Request)), None)
    if not given or wrong is not None:
        raise InvalidOption(
            f"requests={requests!r:.80} cannot be made",
            why="It takes a list of changes" if wrong is None else f"{wrong!r:.80} is none of them",
            fix="Pass InsertOne, UpdateOne, UpdateMany, ReplaceOne, DeleteOne and DeleteMany of gl.documents",
            option="requests",
            value=requests,
        )
    return [one.step(now) for one in given]


def inserting(documents: Iterable[Mapping[str, Any]], now: Circumstances) -> Insert:
    """The step that adds documents; ids are put into those that have none. Raises InvalidValue, InvalidOption where there are none."""
    ids, data = [], []
    for row, one in enumerate(documents):
        given: Any = one
        if isinstance(given, Mapping) and ID not in given:
            number = next(now.fresh_ids)
            if isinstance(one, MutableMapping):
                one[ID] = number
            else:
                given = {ID: number, **one}
        data.append(encode_document(given, row))
        ids.append(given[ID])
        id_text(given[ID])
    if not ids:
        raise InvalidOption("there is no document", fix="Pass at least one", option="documents", value=[])
    return Insert(ids=ids, data=data)


def _first_by(sort: object) -> Choose:
    by: Sort = parse_sort(sort)
    return (lambda found: ordered(found, by)[:1]) if by else first_of


def _updating(request: UpdateOne | UpdateMany, choose: Choose, now: Circumstances) -> Update:
    condition = now.condition(request.filter)
    filters = None if request.array_filters is None else list(request.array_filters)
    update = parse_update(request.update, filters, now_ns=now.now_ns)
    seeded = seeds(request.filter) if request.upsert else {}
    number = next(now.fresh_ids) if request.upsert else None

    def added() -> Document:
        fresh = update.apply(copy.deepcopy(seeded))
        return {ID: number} | fresh

    return Update(
        condition=condition,
        change=lambda document: update.apply(document, condition),
        choose=choose,
        upsert=added if request.upsert else None,
    )
