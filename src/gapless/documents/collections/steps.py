"""Steps of a change of documents, made one after the other to a view of one version. Pure: the view reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gapless.documents.filters.match import holds
from gapless.documents.filters.prune import ID_PATH, ids_in
from gapless.documents.filters.tree import All, At, Condition, IsIn
from gapless.documents.values.codec import ID, decode_document, encode_document
from gapless.documents.values.identity import id_text
from gapless.documents.values.order import Key, sort_key
from gapless.errors import DuplicateKey, InvalidValue
from gapless.predicate.predicate import Predicate

Document = dict[str, Any]
Change = Callable[[Document], Document]
"""A document as it becomes; the one that is given may be altered."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document lies in a version."""

    file: str
    """The key of its file."""
    position: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A document, as it is stored."""

    id: str
    """The text of its `_id`."""
    data: bytes
    place: Place | None
    """None for one that the change adds."""


class Source(Protocol):
    """The documents of a version."""

    def documents(self, condition: Condition) -> Iterator[Stored]:
        """Those that may match, in the order of their files; each is to be matched again."""
        ...

    def ids(self, texts: Predicate) -> Iterator[str]:
        """The texts of ids for which a predicate is true."""
        ...


@dataclass(slots=True)
class View:
    """A version, and what the steps so far made of it."""

    source: Source
    changed: dict[str, Stored | None] = field(default_factory=dict)
    """By the texts of ids: what a document is now; None for one that is gone."""
    places: dict[str, Place] = field(default_factory=dict)
    """Where those lie that the version has, too."""

    def matching(self, condition: Condition) -> Iterator[tuple[Stored, Document]]:
        """The documents that match; those that steps changed come last. Not to be changed meanwhile."""
        for one in self.source.documents(condition):
            if one.id not in self.changed:
                document = decode_document(one.data)
                if holds(condition, document):
                    yield one, document
        for now in self.changed.values():
            if now is not None:
                document = decode_document(now.data)
                if holds(condition, document):
                    yield now, document

    def with_ids(self, ids: Mapping[str, Key]) -> dict[str, Stored]:
        """The documents that have these ids, by the texts of them; none is decoded."""
        asked = At(ID_PATH, IsIn(frozenset(ids.values()), ()))
        found = {one.id: one for one in self.source.documents(asked) if one.id in ids and one.id not in self.changed}
        return found | {text: one for text, one in self.changed.items() if one is not None and text in ids}

    def all(self) -> list[Stored]:
        """All documents; none is decoded."""
        found = [one for one in self.source.documents(All(())) if one.id not in self.changed]
        return found + [one for one in self.changed.values() if one is not None]

    def put(self, one: Stored) -> None:
        """Add a document, or exchange one."""
        self._remember(one)
        self.changed[one.id] = one

    def remove(self, one: Stored) -> None:
        """Take a document away."""
        self._remember(one)
        self.changed[one.id] = None

    def check_new(self, texts: Sequence[str], values: Sequence[Any]) -> None:
        """Raise DuplicateKey where an id is there, or comes twice."""
        value_of = dict(zip(texts, values, strict=True))
        if len(value_of) < len(texts):
            seen: set[str] = set()
            raise duplicate(next(value_of[text] for text in texts if text in seen or seen.add(text)))  # type: ignore[func-returns-value]
        there = next((text for text in texts if self.changed.get(text) is not None), None)
        unknown = [text for text in texts if text not in self.changed]
        if there is None and unknown:
            there = next((text for text in self.source.ids(ids_in(unknown)) if text in value_of), None)
        if there is not None:
            raise duplicate(value_of[there])

    def _remember(self, one: Stored) -> None:
        if one.place is not None:
            self.places[one.id] = one.place


def duplicate(value: object) -> DuplicateKey:
    """The error for an `_id` that is taken."""
    return DuplicateKey(
        f"a document with _id {value!r} is there already",
        why="An _id names one document of its collection; nothing was changed",
        fix="Leave _id out to get a new one, or change the document that is there: replace_one, update_one",
        columns=(ID,),
        keys=((value,),),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step did."""

    inserted: int = 0
    matched: int = 0
    modified: int = 0
    deleted: int = 0
    upserted: tuple[Any, ...] = ()
    """The `_id` of the document that was added since none matched."""
    before: Document | None = None
    """The one document that the step was made to, as it was."""
    after: Document | None = None
    """And as it is now."""


class Step(Protocol):
    """One step."""

    def apply(self, view: View) -> Outcome:
        """Make it. Raises DataError, after which the view is not to be used."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Adds documents."""

    ids: Sequence[Any]
    data: Sequence[bytes]

    def apply(self, view: View) -> Outcome:
        """See `Step`. Raises DuplicateKey."""
        texts = [id_text(one) for one in self.ids]
        view.check_new(texts, self.ids)
        for text, data in zip(texts, self.data, strict=True):
            view.put(Stored(text, data, view.places.get(text)))
        return Outcome(inserted=len(texts))


Choose = Callable[[Iterator[tuple[Stored, Document]]], list[tuple[Stored, Document]]]
"""Which of the documents that match a step is made to."""


def first_of(found: Iterator[tuple[Stored, Document]]) -> list[tuple[Stored, Document]]:
    """The first that comes."""
    one = next(found, None)
    return [] if one is None else [one]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Takes documents away."""

    condition: Condition
    choose: Choose = list

    def apply(self, view: View) -> Outcome:
        """See `Step`."""
        found = self.choose(view.matching(self.condition))
        for one, _ in found:
            view.remove(one)
        return Outcome(deleted=len(found), before=found[0][1] if len(found) == 1 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Makes others of documents; where none matches, adds one, if that is asked for."""

    condition: Condition
    change: Change
    choose: Choose = list
    upsert: Callable[[], Document] | None = None

    def apply(self, view: View) -> Outcome:
        """See `Step`. Raises DuplicateKey, InvalidValue."""
        found = self.choose(view.matching(self.condition))
        if not found and self.upsert is not None:
            return self._insert(view, self.upsert())
        modified, after = 0, None
        before = decode_document(found[0][0].data) if len(found) == 1 else None
        for one, document in found:
            number = document[ID]
            after = self.change(document)
            check_id(number, after)
            data = encode_document(after)
            if data != one.data:
                modified += 1
                view.put(Stored(one.id, data, one.place))
        return Outcome(matched=len(found), modified=modified, before=before, after=after)

    def _insert(self, view: View, document: Document) -> Outcome:
        number = document[ID]
        Insert(ids=[number], data=[encode_document(document)]).apply(view)
        return Outcome(upserted=(number,), after=document)


def check_id(number: object, after: Mapping[str, Any]) -> None:
    """Raise InvalidValue where a changed document has another `_id`."""
    if ID in after and type(after[ID]) is type(number) and sort_key(after[ID]) == sort_key(number):
        return
    raise InvalidValue(
        f"the _id {number!r} cannot become {after.get(ID)!r}",
        why="An _id stays what it is; nothing was changed",
        fix="Insert another document, and delete this one",
        column=ID,
        row=0,
        value=after.get(ID),
    )
