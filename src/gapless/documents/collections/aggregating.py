"""Pipelines over collections: what they read, and the steps that put what comes out into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from gapless.documents.aggregation.changes import changed
from gapless.documents.aggregation.groups import Group
from gapless.documents.aggregation.joins import leading
from gapless.documents.aggregation.outputs import Merge, Out
from gapless.documents.aggregation.rows import Count, Sorted
from gapless.documents.aggregation.stages import Running, Stages, run
from gapless.documents.collections.requests import Circumstances, inserting
from gapless.documents.collections.steps import Document, Outcome, Step, Stored, View, check_id, duplicate
from gapless.documents.collections.version import Version
from gapless.documents.expressions.scope import Constant, scope_of
from gapless.documents.values.codec import ID, decode_document, encode_document
from gapless.documents.values.identity import id_text
from gapless.documents.values.order import sort_key
from gapless.errors import InvalidOption, InvalidValue


def streamed(stages: Stages, version: Version, at: Running) -> Callable[[], Iterator[Document]]:
    """What comes out of a pipeline, read anew each time it is called.

    What the first stages ask of documents decides which files are read. Where nothing is asked of any, they are counted, and where columns
    tell what a first `$group` wants, these are read.
    """
    condition, rest = leading(stages)

    def read() -> Iterator[Document]:
        if rest and _asks_nothing(rest):
            return run(rest, repeat({}, version.count(condition)), at)
        if rest and isinstance(rest[0], Group) and (found := version.grouped(condition, rest[0])) is not None:
            return run(rest[1:], found, at)
        if rest and isinstance(first := rest[0], Sorted) and first.most is not None:
            found = version.first(condition, first.by, first.most)
            if found is not None:
                return run(rest[1:], found, at)
        return run(rest, version.documents(condition), at)

    return read


def _asks_nothing(stages: Stages) -> bool:
    """Whether the first stage makes the same of whatever documents there are."""
    first = stages[0]
    if not isinstance(first, Group):
        return isinstance(first, Count)
    return isinstance(first.by, Constant) and all(isinstance(one.value, Constant) for one in first.fields.values())


def sibling(url: str, name: str) -> str:
    """The place of a collection beside another. Raises InvalidOption for a name that leads elsewhere.

    >>> sibling("s3://bucket/shop/orders", "people")
    's3://bucket/shop/people'
    """
    if "://" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise InvalidOption(
            f"{name!r} names no collection beside {url}",
            why="A name in a pipeline is a path from the folder in which the collection lies",
            fix="Pass aggregate(…, collections={'name': collection}), and the name",
            option="pipeline",
            value=name,
        )
    return f"{url.rstrip('/').rpartition('/')[0]}/{name}"


# -- what is put into a collection -------------------------------------------------------------------------------------


def writing(output: Out | Merge, documents: Sequence[Document], now: Circumstances) -> list[Step]:
    """The steps that put documents into a collection. Raises InvalidValue."""
    if isinstance(output, Out):
        cleared: list[Step] = [Cleared()]
        return [*cleared, inserting(documents, now)] if documents else cleared
    named = [one if ID in one else {ID: next(now.fresh_ids), **one} for one in documents]
    return [Merged(documents=named, output=output)] if named else []


@dataclass(frozen=True, slots=True)
class Cleared:
    """Takes all documents away."""

    def apply(self, view: View) -> Outcome:
        """See `Step`."""
        found = view.all()
        for one in found:
            view.remove(one)
        return Outcome(deleted=len(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Puts documents beside those that are there, by their ids."""

    documents: Sequence[Document]
    output: Merge

    def apply(self, view: View) -> Outcome:
        """See `Step`. Raises DuplicateKey and InvalidValue where it is to fail, InvalidValue."""
        inserted = matched = modified = 0
        texts = [id_text(one[ID]) for one in self.documents]
        known = view.with_ids({text: sort_key(one[ID]) for text, one in zip(texts, self.documents, strict=True)})
        for text, fresh in zip(texts, self.documents, strict=True):
            before = known.get(text)
            now = self._inserted(text, fresh, view) if before is None else self._changed(before, fresh)
            if now is None:
                continue
            inserted += before is None
            matched += before is not None
            if before is None or now.data != before.data:
                modified += before is not None
                view.put(now)
                known[text] = now
        return Outcome(inserted=inserted, matched=matched, modified=modified)

    def _inserted(self, text: str, fresh: Document, view: View) -> Stored | None:
        if self.output.not_matched == "fail":
            raise InvalidValue(
                f"there is no document with _id {fresh[ID]!r} to merge with",
                why="whenNotMatched is 'fail'; nothing was changed",
                fix="Pass 'insert' or 'discard'",
                column=ID,
                row=0,
                value=fresh[ID],
            )
        if self.output.not_matched == "discard":
            return None
        return Stored(text, encode_document(fresh), view.places.get(text))

    def _changed(self, before: Stored, fresh: Document) -> Stored:
        document = decode_document(before.data)
        after = self._merged(document, fresh)
        check_id(document[ID], after)
        return Stored(before.id, encode_document(after), before.place)

    def _merged(self, document: Document, fresh: Document) -> Document:
        match self.output.matched:
            case "fail":
                raise duplicate(fresh[ID])
            case "keepExisting":
                return document
            case "replace":
                return {ID: document[ID], **_without_id(fresh)}
            case "merge":
                return {**document, **_without_id(fresh)}
            case stages:
                scope = scope_of(fresh)
                return changed(stages, document, {name: one(scope) for name, one in self.output.let.items()})


def _without_id(document: Mapping[str, Any]) -> Document:
    return {name: value for name, value in document.items() if name != ID}
