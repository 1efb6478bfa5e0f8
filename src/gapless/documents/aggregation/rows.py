"""Stages of which documents come, and in what order: `$sort`, `$limit`, `$skip`, `$count`, `$sample`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from gapless.documents.aggregation.fields import Parse
from gapless.documents.aggregation.operands import count, field_name, named
from gapless.documents.aggregation.stages import Document, Parsing, Running, Stage, Stages, wrong_stage
from gapless.documents.find.sort import Sort, in_order, parse_sort
from gapless.documents.values.numbers import whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted(Stage):
    """`$sort`."""

    by: Sort
    most: int | None = None
    """How many are asked of it at most."""

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        return in_order(documents, self.by, self.most, at.memory)


def _sort(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:  # noqa: ARG001  # as every `Parse`
    if not isinstance(given, Mapping) or not given:
        raise wrong_stage(stage, given, "It takes a mapping of paths to 1 or -1", "Pass {'age': -1}")
    return (Sorted(by=parse_sort(given)),)


@dataclass(frozen=True, slots=True)
class Limit(Stage):
    """`$limit`."""

    most: int

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:  # noqa: ARG002  # as every stage
        """See `Stage`."""
        return islice(documents, self.most)


@dataclass(frozen=True, slots=True)
class Skip(Stage):
    """`$skip`."""

    count: int

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:  # noqa: ARG002  # as every stage
        """See `Stage`."""
        return islice(documents, self.count, None)


@dataclass(frozen=True, slots=True)
class Count(Stage):
    """`$count`; nothing where there is no document."""

    name: str

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:  # noqa: ARG002  # as every stage
        """See `Stage`."""
        found = sum(1 for _ in documents)
        if found:
            yield {self.name: whole_number(found)}


@dataclass(frozen=True, slots=True)
class Sample(Stage):
    """`$sample`: so many of the documents, each with the same chance. It holds them in memory."""

    size: int

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        kept: list[Document] = []
        for seen, one in enumerate(documents):
            if seen < self.size:
                kept.append(one)
            elif (place := int(at.draw() * (seen + 1))) < self.size:
                kept[place] = one
        for last in range(len(kept) - 1, 0, -1):
            other = int(at.draw() * (last + 1))
            kept[last], kept[other] = kept[other], kept[last]
        yield from kept


def _sample(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:  # noqa: ARG001  # as every `Parse`
    return (Sample(count(stage, named(stage, given, ("size",))["size"], 1)),)


def bounded(stages: Stages) -> Stages:
    """The same stages, with sorts that know how many documents are asked of them."""
    found = list(stages)
    for at, one in enumerate(stages):
        if not isinstance(one, Sorted):
            continue
        skipped = 0
        for after in stages[at + 1 :]:
            if isinstance(after, Skip):
                skipped += after.count
            elif isinstance(after, Limit):
                found[at] = replace(one, most=skipped + after.most)
                break
            else:
                break
    return tuple(found)


ROW_STAGES: Mapping[str, Parse] = {
    "$sort": _sort,
    "$limit": lambda stage, given, _: (Limit(count(stage, given, 1)),),
    "$skip": lambda stage, given, _: (Skip(count(stage, given, 0)),),
    "$count": lambda stage, given, _: (Count(field_name(stage, given)),),
    "$sample": _sample,
}
