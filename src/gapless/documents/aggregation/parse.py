"""Pipelines as users write them, read into stages. Pure.

A stage that is not known is an error before any document is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gapless.documents.aggregation.buckets import BUCKET_STAGES
from gapless.documents.aggregation.fields import FIELD_STAGES, Parse
from gapless.documents.aggregation.groups import GROUP_STAGES
from gapless.documents.aggregation.joins import JOIN_STAGES
from gapless.documents.aggregation.outputs import OUTPUT_STAGES
from gapless.documents.aggregation.rows import ROW_STAGES, bounded
from gapless.documents.aggregation.stages import Parsing, Stages, wrong_stage
from gapless.documents.aggregation.windows import WINDOW_STAGES
from gapless.errors import InvalidOption, NotSupported, nearest


def parse_pipeline(given: object, *, now: datetime | None = None) -> Stages:
    """The stages of a pipeline.

    Args:
        given: A list of stages, each a mapping of its name to its operand: `[{"$match": {"a": 1}}, {"$count": "n"}]`.
        now: What `$$NOW` is; without it there is none.

    Raises InvalidOption for a stage that is not known or does not take its operand, whose name is in `value`; InvalidFilter for filters and
    expressions in it; NotSupported for what MongoDB has and this release has not; InvalidValue.
    """
    return _read(given, Parsing(reader=_read, now=now))


def _read(given: object, at: Parsing) -> Stages:
    if not isinstance(given, list | tuple):
        raise wrong_stage(at.inside or "aggregate", given, "A pipeline is a list of stages", "Pass [{'$match': {…}}, …]")
    found: list[Any] = []
    for place, one in enumerate(given):
        if not isinstance(one, Mapping) or len(one) != 1:
            raise wrong_stage(
                at.inside or "aggregate", one, "A stage is a mapping of its name to its operand", "Pass {'$match': {…}}"
            )
        ((name, operand),) = one.items()
        parse = STAGES.get(name)
        if parse is None:
            raise _unknown(name)
        if name in OUTPUT_STAGES and (at.inside or place + 1 < len(given)):
            raise wrong_stage(name, operand, "It is the last stage of the outermost pipeline", f"Put {name} there")
        if at.inside == "$facet" and name == "$facet":
            raise wrong_stage(name, operand, "It is not in a $facet itself", "Say its pipelines beside each other")
        found += parse(name, operand, at)
    return bounded(tuple(found))


def _unknown(name: object) -> InvalidOption | NotSupported:
    if name in _NOT_BUILT:
        return NotSupported(
            f"{name} is not supported in a pipeline",
            why=_NOT_BUILT[str(name)],
            fix="Use the stages that docs/howto/documents.md lists",
            feature=str(name),
        )
    return InvalidOption(
        f"{name} is no stage of a pipeline",
        why="MongoDB has no stage of that name; no document was looked at",
        fix=nearest(str(name), STAGES),
        option="pipeline",
        value=name,
    )


STAGES: Mapping[Any, Parse] = {
    **FIELD_STAGES,
    **ROW_STAGES,
    **GROUP_STAGES,
    **BUCKET_STAGES,
    **JOIN_STAGES,
    **WINDOW_STAGES,
    **OUTPUT_STAGES,
}
_NOT_BUILT: Mapping[Any, str] = {
    **dict.fromkeys(("$search", "$searchMeta", "$vectorSearch", "$rankFusion", "$scoreFusion"), "There is no full-text index"),
    "$geoNear": "There is no geometry",
    "$changeStream": "Changes are followed with gl.cdc",
    **dict.fromkeys(
        ("$collStats", "$indexStats", "$planCacheStats", "$currentOp", "$listSessions", "$listLocalSessions",
         "$listSampledQueries", "$queryStats", "$shardedDataDistribution", "$changeStreamSplitLargeEvent"),
        "It tells of a server, and there is none",
    ),
    **dict.fromkeys(("$densify", "$fill", "$documents"), "It is not built"),
}  # fmt: skip
