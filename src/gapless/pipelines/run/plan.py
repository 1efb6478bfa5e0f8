"""How the sinks of a pipeline are run: which share one read of a source, which have a streaming query of their own."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gapless.connect.refusals import refuse_pipeline
from gapless.errors import SinkCannotDedup, nearest
from gapless.pipelines.definitions import Defined, Pipeline
from gapless.pipelines.language.statements import CreateLookupTable, CreateSink, Option, Query
from gapless.pipelines.run.connected import check_replays
from gapless.pipelines.run.frames import define_views, frame_of_query, is_continuous
from gapless.pipelines.run.sinks import WriteMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal["shared", "own", "once"]
_OPERATOR = re.compile(r"^(?P<indent>[\s:+|-]*)(?P<streams>~?)(?P<name>[A-Z]\w*)")
_ROW_BY_ROW = frozenset(
    ("Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Generate", "Join", "ResolvedHint", "UnresolvedHint")
)
"""Operators that make of each row of a stream what they make of it in a batch; a join does where its other side is no stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """How one sink is filled."""

    sink: Defined
    kind: Kind
    """"shared": its query is run over each batch of its one source, beside those of other sinks; "own": it is a streaming query; "once": all
    that it reads is there as the run begins.
    """
    source: str
    """Of a shared one: the name of the source in lower case."""
    mode: WriteMode
    plan: str
    """Spark's analyzed plan of its query."""

    @property
    def numbered_by(self) -> str:
        """What numbers its batches: the streaming query of its source, or its own, or the runs. Where that changes they begin anew."""
        return {"shared": f"source-{self.source}", "own": f"sink-{self.sink.name.casefold()}", "once": "runs"}[self.kind]

    @property
    def query(self) -> Query:
        """What goes into it."""
        assert isinstance(self.sink.statement, CreateSink)
        return self.sink.statement.query


def plan_pipeline(spark: SparkSession, pipeline: Pipeline, *, kept: str | None = None) -> list[SinkPlan]:
    """The plans of all sinks; `kept` as in `define_views`. Raises InvalidPipeline for a query that Spark refuses, and for one that its sink
    cannot take; SourceCannotReplay, SinkCannotDedup.
    """
    check_exactly_once(pipeline)
    define_views(spark, pipeline, streaming=True, kept=kept)
    return [plan_sink(spark, pipeline, sink) for sink in pipeline.of(CreateSink)]


def check_exactly_once(pipeline: Pipeline) -> None:
    """Raise SourceCannotReplay and SinkCannotDedup where a sink would have rows twice, or lack some, after a run that died.

    A console only shows them.
    """
    for sink in pipeline.of(CreateSink):
        assert isinstance(sink.statement, CreateSink)
        if sink.type == "console":
            continue
        if sink.type == "kafka" and sink.options["delivery"] != "at_least_once":
            raise refuse_pipeline(
                SinkCannotDedup,
                f"the sink {sink.name!r} cannot have each record once",
                "A topic does not tell which records it has: a batch that comes again is sent again",
                "Say delivery='at_least_once', or write into a table",
                sink=sink.name,
            )
        for one in pipeline.read_by(sink.statement.query):
            if is_continuous(one):
                check_replays(one)


def explained(frame: DataFrame) -> str:
    """Spark's analyzed plan of a DataFrame."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):  # there is no other way that Spark Connect has, too
        frame.explain(extended=True)
    text = printed.getvalue()
    start, _, rest = text.partition("== Analyzed Logical Plan ==\n")
    return (rest or start).partition("\n== Optimized")[0].partition("\n")[2].rstrip()


def streams_in(plan: str) -> tuple[int, bool]:
    r"""Of an analyzed plan of Spark's: how many streams it reads, and whether all it does with them is done row by row.

    >>> streams_in("~Aggregate [site]\n+- ~Project [site]\n   +- ~StreamingRelationV2 rate")
    (1, False)
    """
    lines = [
        (len(match["indent"]), match["streams"], match["name"]) for match in map(_OPERATOR.match, plan.split("\n")) if match
    ]
    streams, row_by_row = 0, True
    for place, (depth, marked, name) in enumerate(lines):
        end = next((at for at in range(place + 1, len(lines)) if lines[at][0] <= depth), len(lines))
        # Not all operators over a stream are marked as such.
        over_stream = bool(marked) or any(one[1] for one in lines[place:end])
        if name.startswith("Streaming"):
            streams += 1
        elif over_stream and name not in _ROW_BY_ROW:
            row_by_row = False
    return streams, row_by_row


def retracts(plan: str) -> bool:
    r"""Whether rows of an analyzed plan of Spark's change after they were given: a stream is aggregated by nothing that has a watermark.

    >>> retracts("~Aggregate [site#2], [site#2, max(v#3)]"), retracts("+- ~Aggregate [window#21-T600000ms, site#2], [count(1)]")
    (True, False)
    """
    groups = re.findall(r"^[\s:+|-]*~Aggregate (\[.*?\]), \[", plan, re.MULTILINE)
    return any(not re.search(r"-T\d+ms\b", one) for one in groups)


def plan_sink(spark: SparkSession, pipeline: Pipeline, sink: Defined) -> SinkPlan:
    """How a sink is filled, in a session that has the views. Raises as `plan_pipeline`."""
    assert isinstance(sink.statement, CreateSink)
    query = sink.statement.query
    frame = frame_of_query(spark, pipeline, query)
    _check_key(pipeline, sink, frame.columns)
    plan = explained(frame)
    streams, row_by_row = streams_in(plan)
    sources = [one for one in pipeline.read_by(query) if is_continuous(one)]
    kind: Kind = "own" if streams else "once"
    if streams == 1 and row_by_row and len(sources) == 1 and sink.type != "parquet":
        kind = "shared"
    lookups = [one for one in pipeline.read_by(query) if isinstance(one.statement, CreateLookupTable)]
    if kind == "own" and lookups:
        raise pipeline.sql.error(
            query.span,
            f"the lookup table {lookups[0].name!r} is not looked up in a query that keeps state, or reads several sources",
            why="Spark reads it once then, and would not see what changes in it",
            fix="Write the rows that were looked up into a table by one sink, and make a source of that for this query",
        )
    mode = _mode(pipeline, sink, kind, retracts=kind == "own" and retracts(plan))
    return SinkPlan(sink=sink, kind=kind, source=sources[0].name.casefold() if kind == "shared" else "", mode=mode, plan=plan)


def _check_key(pipeline: Pipeline, sink: Defined, columns: Sequence[str]) -> None:
    """Raise InvalidPipeline where the rows of a query lack a column of the sink's key."""
    known = {name.casefold() for name in columns}
    for name in sink.options.get("key") or ():
        if name.casefold() not in known:
            span = next(one.value_span for one in _options(sink) if one.name == "key")
            raise pipeline.sql.error(
                span,
                f"the query of {sink.name!r} gives no column {name!r}",
                why=f"It gives {', '.join(columns)}",
                fix=nearest(name, columns),
            )


def _mode(pipeline: Pipeline, sink: Defined, kind: Kind, *, retracts: bool) -> WriteMode:
    """What a batch does to the sink, by its options and its query."""
    given, key = sink.options.get("mode"), sink.options.get("key")
    span = next((one.value_span for one in _options(sink) if one.name == "mode"), sink.statement.name_span)
    if given is None:
        mode: WriteMode = "upsert" if key else "complete" if kind == "once" or retracts else "append"
        if mode == "complete" and sink.type in ("parquet", "kafka"):
            mode = "append"
    else:
        mode = given
    if key and mode != "upsert":
        raise pipeline.sql.error(
            span, f"mode={mode!r} takes no key", why="An upsert alone tells rows apart", fix="Leave it out"
        )
    if mode == "append" and retracts:
        raise pipeline.sql.error(
            span,
            f"rows of the query change after they were given, and {sink.name!r} would keep all of them",
            why="It aggregates by no column that has a watermark, so that no group is ever complete",
            fix="Say mode='upsert' and a key, or mode='complete', or declare a WATERMARK and group by a window of it",
        )
    if mode == "append" and kind == "once" and sink.type not in ("console", "parquet"):
        raise pipeline.sql.error(
            span,
            f"each run would append all rows to {sink.name!r} again",
            why="All that its query reads is read whole by each run",
            fix="Say mode='complete', or mode='upsert' and a key, or make a source continuous",
        )
    if mode == "complete" and kind == "shared":
        raise pipeline.sql.error(
            span,
            f"each batch would take the place of all rows of {sink.name!r}",
            why="The query gives the rows of one batch, not all that came so far",
            fix="Say mode='append', or mode='upsert' and a key",
        )
    return mode


def check_numbering(pipeline: Pipeline, plans: Iterable[SinkPlan], known: Mapping[str, str]) -> None:
    """Raise InvalidPipeline where batches of a sink that is appended to are numbered by something else than before, as `known` says it.

    They would begin with the first one again, and bring rows that it has.
    """
    for plan in plans:
        before = known.get(plan.sink.name.casefold(), plan.numbered_by)
        if before == plan.numbered_by or plan.mode != "append" or plan.sink.type == "console":
            continue
        raise pipeline.sql.error(
            plan.sink.statement.name_span,
            f"{plan.sink.name!r} would be filled from the beginning again, beside the rows that it has",
            why=f"Its batches were those of {before}, and its query makes them those of {plan.numbered_by}, which begin anew",
            fix="Give the sink another name and location, or say mode='upsert' and a key, by which rows that come again are the same",
        )


def _options(sink: Defined) -> Iterator[Option]:
    assert isinstance(sink.statement, CreateSink)
    return iter(sink.statement.options)
