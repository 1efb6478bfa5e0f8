"""Stages that change each document by itself: `$match`, `$project`, `$addFields`, `$unset`, `$replaceRoot`, `$redact`, `$unwind`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bson.int64 import Int64

from gapless.documents.aggregation.operands import named, path, plain_at, with_at
from gapless.documents.aggregation.stages import Document, Parsing, Running, Stage, wrong_stage
from gapless.documents.expressions.operands import wrong_value
from gapless.documents.expressions.scope import CURRENT, Evaluate, scope_of
from gapless.documents.filters.match import holds
from gapless.documents.filters.paths import is_array
from gapless.documents.filters.tree import Condition, Path
from gapless.documents.find.fields import Fields, computed
from gapless.documents.find.projection import Projection, flattened, parse_projection
from gapless.documents.values.order import MISSING

Parse = Callable[[str, Any, Parsing], tuple[Stage, ...]]
"""Of a stage's name and its operand the stages. It raises InvalidOption, InvalidFilter, NotSupported, InvalidValue."""


@dataclass(frozen=True, slots=True)
class Match(Stage):
    """`$match`."""

    condition: Condition

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        return (one for one in documents if holds(self.condition, one, at.variables))


def _match(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:  # noqa: ARG001  # as every `Parse`
    return (Match(at.condition(given)),)


@dataclass(frozen=True, slots=True)
class Project(Stage):
    """`$project` and `$unset`."""

    projection: Projection

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        return (self.projection.apply(one, None, at.variables) for one in documents)


def _project(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    if not isinstance(given, Mapping) or not given:
        raise wrong_stage(stage, given, "It takes a mapping that names fields", "Pass {'name': 1}")
    projection = parse_projection(given, now=at.now, names=at.names, finds=False)
    assert projection is not None
    return (Project(projection),)


def _unset(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    paths = [given] if isinstance(given, str) else given
    if not isinstance(paths, list | tuple) or not paths or not all(isinstance(one, str) for one in paths):
        raise wrong_stage(stage, given, "It takes the path of a field, or a list of them", "Pass ['a', 'b.c']")
    return _project(stage, {".".join(path(stage, one)): 0 for one in paths}, at)


@dataclass(frozen=True, slots=True)
class AddFields(Stage):
    """`$addFields` and `$set`."""

    fields: Fields

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        return (computed(one, self.fields, scope_of(one, at.variables)) for one in documents)


def _add_fields(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    if not isinstance(given, Mapping) or not given:
        raise wrong_stage(stage, given, "It takes a mapping of fields to expressions", "Pass {'total': {'$add': ['$a', '$b']}}")
    fields = Fields()
    for to, value in flattened(given, (), given, empty=True):
        fields.add(to, at.expression(value), given)
    return (AddFields(fields),)


@dataclass(frozen=True, slots=True)
class ReplaceRoot(Stage):
    """`$replaceRoot` and `$replaceWith`."""

    root: Evaluate

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`. Raises InvalidValue where a root is no document."""
        for one in documents:
            found = self.root(scope_of(one, at.variables))
            if not isinstance(found, Mapping):
                raise wrong_value("$replaceRoot", found, "a document")
            yield dict(found)


def _replace_root(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    return (ReplaceRoot(at.expression(named(stage, given, ("newRoot",))["newRoot"])),)


def _replace_with(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:  # noqa: ARG001  # as every `Parse`
    return (ReplaceRoot(at.expression(given)),)


class Verdict(Enum):
    """What a `$redact` says of a document, or of one inside."""

    DESCEND = "DESCEND"
    PRUNE = "PRUNE"
    KEEP = "KEEP"


_VERDICTS = {one.value: one for one in Verdict}


@dataclass(frozen=True, slots=True)
class Redact(Stage):
    """`$redact`."""

    verdict: Evaluate

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`. Raises InvalidValue where it says anything else."""
        for one in documents:
            found = self._redacted(one, {**scope_of(one, at.variables), **_VERDICTS})
            if found is not MISSING:
                yield found

    def _redacted(self, value: Any, scope: Mapping[str, Any]) -> Any:
        said = self.verdict({**scope, CURRENT: value})
        if said is Verdict.KEEP:
            return value
        if said is Verdict.PRUNE:
            return MISSING
        if said is not Verdict.DESCEND:
            raise wrong_value("$redact", said, "$$DESCEND, $$PRUNE or $$KEEP")
        found = ((name, self._below(one, scope)) for name, one in value.items())
        return {name: one for name, one in found if one is not MISSING}

    def _below(self, value: Any, scope: Mapping[str, Any]) -> Any:
        if isinstance(value, Mapping):
            return self._redacted(value, scope)
        if is_array(value):
            return [one for one in (self._below(each, scope) for each in value) if one is not MISSING]
        return value


def _redact(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:  # noqa: ARG001  # as every `Parse`
    return (Redact(at.expression(given, *_VERDICTS)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwind(Stage):
    """`$unwind`."""

    path: Path
    index: Path | None
    """Where the place of an element goes."""
    keeps_empty: bool

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:  # noqa: ARG002  # as every stage
        """See `Stage`."""
        for one in documents:
            value = plain_at(one, self.path)
            if is_array(value) and value:
                for place, element in enumerate(value):
                    yield self._numbered(with_at(one, self.path, element), Int64(place))
            elif is_array(value):
                if self.keeps_empty:
                    yield self._numbered(with_at(one, self.path, MISSING), None)
            elif self.keeps_empty or (value is not MISSING and value is not None):
                yield self._numbered(one, None)

    def _numbered(self, document: Document, place: int | None) -> Document:
        return document if self.index is None else with_at(document, self.index, place)


def _unwind(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:  # noqa: ARG001  # as every `Parse`
    options = (
        {"path": given}
        if isinstance(given, str)
        else named(stage, given, ("path",), ("includeArrayIndex", "preserveNullAndEmptyArrays"))
    )
    source, keeps = options["path"], options.get("preserveNullAndEmptyArrays", False)
    if not isinstance(source, str) or not source.startswith("$") or not isinstance(keeps, bool):
        raise wrong_stage(stage, given, "It takes a path with a $, and options that are true or false", "Pass '$items'")
    index = options.get("includeArrayIndex")
    return (
        Unwind(
            path=path(stage, source[1:]),
            index=None if index is None else path(stage, index),
            keeps_empty=keeps,
        ),
    )


FIELD_STAGES: Mapping[str, Parse] = {
    "$match": _match,
    "$project": _project,
    "$unset": _unset,
    "$addFields": _add_fields,
    "$set": _add_fields,
    "$replaceRoot": _replace_root,
    "$replaceWith": _replace_with,
    "$redact": _redact,
    "$unwind": _unwind,
}
