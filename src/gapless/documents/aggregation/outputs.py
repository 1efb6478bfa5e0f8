"""Stages that put what comes out into a collection: `$merge` and `$out`, which are the last ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gapless.documents.aggregation.changes import check_changes
from gapless.documents.aggregation.fields import Parse
from gapless.documents.aggregation.operands import collection_name, named
from gapless.documents.aggregation.stages import Document, Parsing, Running, Stage, Stages, wrong_stage
from gapless.documents.expressions.conditions import check_name
from gapless.documents.expressions.scope import Evaluate
from gapless.documents.values.codec import ID
from gapless.errors import NotSupported, nearest

WhenMatched = Literal["replace", "keepExisting", "merge", "fail"]
WhenNotMatched = Literal["insert", "discard", "fail"]
_MATCHED: tuple[WhenMatched, ...] = ("replace", "keepExisting", "merge", "fail")
_NOT_MATCHED: tuple[WhenNotMatched, ...] = ("insert", "discard", "fail")


@dataclass(frozen=True, slots=True)
class Out(Stage):
    """`$out`: all documents of a collection become those that come out."""

    into: str

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:  # noqa: ARG002  # as every stage
        """What is to be written."""
        return documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Stage):
    """`$merge`: those that come out are put beside a collection's, by their ids."""

    into: str
    matched: WhenMatched | Stages = "merge"
    not_matched: WhenNotMatched = "insert"
    let: Mapping[str, Evaluate]

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:  # noqa: ARG002  # as every stage
        """What is to be written."""
        return documents


def _out(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:  # noqa: ARG001  # as every `Parse`
    return (Out(collection_name(stage, given)),)


def _merge(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    options = (
        {"into": given}
        if isinstance(given, str)
        else named(stage, given, ("into",), ("on", "let", "whenMatched", "whenNotMatched"))
    )
    if options.get("on", ID) not in (ID, [ID]):
        raise NotSupported(
            f"$merge on {options['on']!r} is not supported",
            why="What it merges on has to be there once, and only _id is sure to be",
            fix="Make the value the _id of the documents, with $set",
            feature="$merge on",
        )
    matched, let = options.get("whenMatched", "merge"), options.get("let", {"new": "$$ROOT"})
    if not isinstance(let, Mapping):
        raise wrong_stage(stage, let, "let is a mapping of names to expressions", "Pass {'new': '$$ROOT'}")
    if isinstance(matched, list | tuple):
        names = [check_name(stage, name) for name in let]
        matched = check_changes(stage, at.pipeline(matched, stage, *names))
    elif matched not in _MATCHED:
        raise wrong_stage(
            stage, matched, f"whenMatched is a pipeline or {', '.join(_MATCHED)}", nearest(str(matched), _MATCHED)
        )
    absent = options.get("whenNotMatched", "insert")
    if absent not in _NOT_MATCHED:
        raise wrong_stage(stage, absent, f"whenNotMatched is {', '.join(_NOT_MATCHED)}", nearest(str(absent), _NOT_MATCHED))
    return (
        Merge(
            into=collection_name(stage, options["into"]),
            matched=matched,
            not_matched=absent,
            let={name: at.expression(one) for name, one in let.items()},
        ),
    )


OUTPUT_STAGES: Mapping[str, Parse] = {"$merge": _merge, "$out": _out}
