"""Stages that bring in documents of other collections: `$lookup`, `$unionWith` and `$graphLookup`; and `$facet`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from bson.int64 import Int64

from gapless.documents.aggregation.fields import Match, Parse
from gapless.documents.aggregation.operands import collection_name, count, field_name, named, path, with_at
from gapless.documents.aggregation.stages import Document, Parsing, Running, Stage, Stages, run, wrong_stage
from gapless.documents.expressions.conditions import check_name
from gapless.documents.expressions.parse import parse_path
from gapless.documents.expressions.scope import Evaluate, at_path, scope_of, value_key
from gapless.documents.filters.paths import is_array, values_at
from gapless.documents.filters.tree import All, At, Computed, Condition, IsIn, Path
from gapless.documents.spill.memory import size_of
from gapless.documents.spill.spool import Spool
from gapless.documents.values.order import MISSING, Key, sort_key

_TOGETHER = 10_000
"""Documents for which a `$lookup` looks at once, at most."""


def leading(stages: Stages) -> tuple[Condition, Stages]:
    """What the first stages ask of documents that no variable says, and the stages that are left."""
    plain: list[Condition] = []
    others: list[Stage] = []
    rest = list(stages)
    while rest and isinstance(first := rest[0], Match):
        rest.pop(0)
        for one in first.condition.conditions if isinstance(first.condition, All) else (first.condition,):
            if _computes(one):
                others.append(Match(one))
            else:
                plain.append(one)
    return plain[0] if len(plain) == 1 else All(tuple(plain)), (*others, *rest)


def _computes(condition: Condition) -> bool:
    match condition:
        case Computed():
            return True
        case At():
            return False
    return any(_computes(one) for one in condition.conditions)


def _sources(stages: Iterable[Stage]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(one.sources for one in stages))


def keys_at(document: Document, at: Path) -> set[Key]:
    """What a filter finds a document by at a path: values and elements of arrays, null for what is missing."""
    return {sort_key(one) for one in values_at(document, at, into_arrays=True)}


def _wanted(value: Any) -> set[Key]:
    """What is looked for: of an array its elements."""
    return set(map(sort_key, value)) if is_array(value) else {sort_key(value)}


def _local_keys(document: Document, at: Path) -> set[Key]:
    """What a document looks for: what there is at a path, and null where there is nothing."""
    values = (one for one in values_at(document, at, into_arrays=False) if one is not MISSING)
    return set(chain.from_iterable(map(_wanted, values))) or {sort_key(None)}


@dataclass(frozen=True, slots=True)
class Equality:
    """That what lies at a path equals a variable, as expressions have it."""

    path: Path
    variable: str


def _equality(pipeline: Iterable[Any], variables: Iterable[str]) -> Equality | None:
    """One that a document of the other collection has to meet, by the first `$match`es of a pipeline that was read."""
    names = {f"$${name}": name for name in variables}
    for stage in pipeline:
        if "$match" not in stage:
            return None
        asked = [stage["$match"].get("$expr")]
        while asked:
            one = asked.pop()
            if not isinstance(one, Mapping) or len(one) != 1:
                continue
            ((operator, operands),) = one.items()
            if operator == "$and" and is_array(operands):
                asked += operands
            elif operator == "$eq" and len(operands) == 2:
                for given, other in (operands, operands[::-1]):
                    if isinstance(other, str) and other in names and (found := parse_path(given)) is not None:
                        return Equality(found.path, names[other])
    return None


# -- lookup ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Stage):
    """`$lookup`. It holds the documents in memory that a batch of others finds."""

    source: str
    to: Path
    local: Path | None = None
    foreign: Path | None = None
    let: Mapping[str, Evaluate]
    pipeline: Stages | None = None
    equal: Equality | None = None
    """What the first `$match`es of the pipeline want to be equal, so that not every document is asked for every other."""

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Stage`."""
        return (self.source, *_sources(self.pipeline or ()))

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        if self.local is None or self.foreign is None:
            yield from self._of_pipeline(documents, at)
            return
        for batch in _together(documents, at):
            yield from self._of_batch(batch, self.local, self.foreign, at)

    def _of_batch(self, batch: list[Document], local: Path, foreign: Path, at: Running) -> Iterator[Document]:
        wanted = [_local_keys(one, local) for one in batch]
        keys = frozenset(chain.from_iterable(wanted))
        found = list(at.read(self.source, At(foreign, IsIn(keys, ())))) if keys else []
        places = _by_key(found, foreign)
        for one, mine in zip(batch, wanted, strict=True):
            # In the order in which they were read, each once.
            hits = sorted(set(chain.from_iterable(places.get(key, ()) for key in mine)))
            joined = [found[place] for place in hits]
            if self.pipeline is not None:
                joined = list(run(self.pipeline, iter(joined), self._running(one, at)))
            yield with_at(one, self.to, joined)

    def _of_pipeline(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        condition, rest = leading(self.pipeline or ())
        with Spool(at.memory) as others:
            places: dict[Key, list[Document]] | None = None
            first = True
            for batch in _together(documents, at):
                if first:
                    first = False
                    for other in at.read(self.source, condition):
                        others.add(other)
                running = [self._running(one, at) for one in batch]
                if self.equal is None:
                    for one, inner in zip(batch, running, strict=True):
                        yield with_at(one, self.to, list(run(rest, iter(others), inner)))
                    continue
                keys = [value_key(inner.variables[self.equal.variable]) for inner in running]
                # What does not lie in memory is gone through for each batch.
                if places is None or others.spilled:
                    places = _by_value(others, self.equal.path, set(keys) if others.spilled else None)
                for one, inner, key in zip(batch, running, keys, strict=True):
                    yield with_at(one, self.to, list(run(rest, iter(places.get(key, ())), inner)))

    def _running(self, document: Document, at: Running) -> Running:
        scope = scope_of(document, at.variables)
        return at.knowing({name: one(scope) for name, one in self.let.items()})


def _together(documents: Iterator[Document], at: Running) -> Iterator[list[Document]]:
    """Documents that are looked for at once."""
    batch: list[Document] = []
    held = 0
    for one in documents:
        batch.append(one)
        held += size_of(one)
        if len(batch) == _TOGETHER or held > at.memory.limit // 2:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _by_value(documents: Iterable[Document], at: Path, wanted: set[Key] | None) -> dict[Key, list[Document]]:
    """Documents by what lies at a path, as expressions have it; those of some values, or all."""
    found: dict[Key, list[Document]] = {}
    for one in documents:
        key = value_key(at_path(one, at))
        if wanted is None or key in wanted:
            found.setdefault(key, []).append(one)
    return found


def _by_key(documents: list[Document], at: Path) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for place, one in enumerate(documents):
        for key in keys_at(one, at):
            found.setdefault(key, []).append(place)
    return found


def _lookup(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    options = named(stage, given, ("from", "as"), ("localField", "foreignField", "let", "pipeline"))
    fields = [name for name in ("localField", "foreignField") if name in options]
    if len(fields) == 1 or (not fields and "pipeline" not in options):
        raise wrong_stage(
            stage, given, "It takes localField with foreignField, a pipeline, or all", "Pass both fields, or a pipeline"
        )
    if "let" in options and "pipeline" not in options:
        raise wrong_stage(stage, given, "let is for the pipeline, and there is none", "Leave let out")
    let = options.get("let", {})
    if not isinstance(let, Mapping):
        raise wrong_stage(stage, let, "let is a mapping of names to expressions", "Pass {'price': '$price'}")
    names = [check_name(stage, name) for name in let]
    pipeline = at.pipeline(options["pipeline"], stage, *names) if "pipeline" in options else None
    return (
        Lookup(
            source=collection_name(stage, options["from"]),
            to=path(stage, options["as"]),
            local=path(stage, options["localField"]) if fields else None,
            foreign=path(stage, options["foreignField"]) if fields else None,
            let={name: at.expression(one) for name, one in let.items()},
            pipeline=pipeline,
            equal=None if fields or pipeline is None else _equality(options["pipeline"], names),
        ),
    )


# -- union, graph, facet -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Stage):
    """`$unionWith`: the other collection's documents come after those that are there."""

    source: str
    pipeline: Stages

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Stage`."""
        return (self.source, *_sources(self.pipeline))

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        yield from documents
        condition, rest = leading(self.pipeline)
        yield from run(rest, at.read(self.source, condition), at)


def _union(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    options = {"coll": given} if isinstance(given, str) else named(stage, given, ("coll",), ("pipeline",))
    pipeline = at.pipeline(options.get("pipeline", []), stage)
    return (Union(source=collection_name(stage, options["coll"]), pipeline=pipeline),)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLookup(Stage):
    """`$graphLookup`. It holds the other collection's documents in memory."""

    source: str
    start: Evaluate
    leaves: Path
    """Where a document names those that it leads to."""
    reached: Path
    """What they are found by."""
    to: Path
    deepest: int | None
    depth: Path | None
    condition: Condition

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Stage`."""
        return (self.source,)

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        held: list[Document] | None = None
        places: dict[Key, list[int]] = {}
        for one in documents:
            if held is None:
                held = list(at.read(self.source, self.condition))
                places = _by_key(held, self.reached)
            start = self.start(scope_of(one, at.variables))
            found = self._found(set() if start is MISSING else _wanted(start), held, places)
            yield with_at(one, self.to, found)

    def _found(self, keys: set[Key], held: list[Document], places: Mapping[Key, list[int]]) -> list[Document]:
        seen: dict[int, Document] = {}
        asked: set[Key] = set()
        depth = 0
        while keys and (self.deepest is None or depth <= self.deepest):
            asked |= keys
            fresh = sorted(set(chain.from_iterable(places.get(key, ()) for key in keys)) - seen.keys())
            keys = set()
            for place in fresh:
                one = held[place]
                seen[place] = one if self.depth is None else with_at(one, self.depth, Int64(depth))
                for value in values_at(one, self.leaves, into_arrays=False):
                    if value is not MISSING:
                        keys |= _wanted(value)
            keys -= asked
            depth += 1
        return list(seen.values())


def _graph(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    required = ("from", "startWith", "connectFromField", "connectToField", "as")
    options = named(stage, given, required, ("maxDepth", "depthField", "restrictSearchWithMatch"))
    return (
        GraphLookup(
            source=collection_name(stage, options["from"]),
            start=at.expression(options["startWith"]),
            leaves=path(stage, options["connectFromField"]),
            reached=path(stage, options["connectToField"]),
            to=path(stage, options["as"]),
            deepest=count(stage, options["maxDepth"], 0) if "maxDepth" in options else None,
            depth=path(stage, options["depthField"]) if "depthField" in options else None,
            condition=at.condition(options.get("restrictSearchWithMatch", {})),
        ),
    )


@dataclass(frozen=True, slots=True)
class Facet(Stage):
    """`$facet`. What its pipelines give is one document, and is held in memory."""

    pipelines: Mapping[str, Stages]

    @property
    def sources(self) -> tuple[str, ...]:
        """See `Stage`."""
        return tuple(chain.from_iterable(_sources(one) for one in self.pipelines.values()))

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        with Spool(at.memory) as held:
            for one in documents:
                held.add(one)
            yield {name: list(run(stages, iter(held), at)) for name, stages in self.pipelines.items()}


def _facet(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    if not isinstance(given, Mapping) or not given:
        raise wrong_stage(stage, given, "It takes a mapping of names to pipelines", "Pass {'top': [{'$limit': 3}]}")
    return (Facet({field_name(stage, name): at.pipeline(one, stage) for name, one in given.items()}),)


JOIN_STAGES: Mapping[str, Parse] = {
    "$lookup": _lookup,
    "$unionWith": _union,
    "$graphLookup": _graph,
    "$facet": _facet,
}
