"""Pipelines that make another of one document: those of updates, and of `$merge` where a document is there. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gapless.documents.aggregation.fields import AddFields, Project, ReplaceRoot
from gapless.documents.aggregation.stages import Document, Running, Stages, run, wrong_stage
from gapless.documents.expressions.scope import NO_VARIABLES, Scope
from gapless.documents.filters.tree import Condition
from gapless.documents.values.codec import ID

_CHANGES = (AddFields, Project, ReplaceRoot)


def check_changes(stage: str, stages: Stages) -> Stages:
    """The stages, where each makes one document of one. Raises InvalidOption; `stage` is what they stand in."""
    wrong = next((one for one in stages if not isinstance(one, _CHANGES)), None)
    if wrong is not None:
        raise wrong_stage(
            stage,
            type(wrong).__name__,
            "A pipeline in it changes one document",
            "Use $set, $addFields, $unset, $project, $replaceRoot and $replaceWith",
        )
    return stages


def changed(stages: Stages, document: Document, variables: Scope = NO_VARIABLES) -> Document:
    """What stages make of a document; one that comes out without an `_id` keeps its own. Raises InvalidValue."""
    (after,) = run(stages, iter([document]), Running(read=_nothing, draw=_never, variables=variables))
    return after if ID in after or ID not in document else {ID: document[ID], **after}


def _nothing(name: str, condition: Condition) -> Iterator[Any]:  # noqa: ARG001  # none of the stages reads
    return iter(())


def _never() -> float:
    return 0.0
