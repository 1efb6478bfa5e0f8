"""What the statements of a pipeline define, checked: names, options, and which query reads what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gapless.errors import nearest
from gapless.pipelines.language.parser import parse_pipeline
from gapless.pipelines.language.show_create import show_create
from gapless.pipelines.language.statements import (
    Backfill,
    CreateLookupTable,
    CreateSink,
    CreateSource,
    CreateView,
    Definition,
    Drop,
    Explain,
    Query,
    Show,
    ShowCreate,
    Statement,
    Subscribe,
    Thing,
)
from gapless.pipelines.language.text import SqlText
from gapless.pipelines.options.lookups import LOOKUPS
from gapless.pipelines.options.sinks import SINKS
from gapless.pipelines.options.sources import SOURCES
from gapless.pipelines.options.spec import OptionSpec, TypeSpec, read_options
from gapless.pipelines.options.values import fill_secrets

LookUp = Callable[[str, str], str | None]
"""What `${kind:name}` stands for, kind being "env" or "file"; None where there is nothing."""
Request = Show | ShowCreate | Explain | Subscribe
_TYPES: Mapping[Thing, Mapping[str, TypeSpec]] = {"SOURCE": SOURCES, "SINK": SINKS, "LOOKUP TABLE": LOOKUPS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A definition with its options read; `options` of a view are empty. The secrets in them are filled in: they are in no repr."""

    statement: Definition
    type: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """As it is written."""
        return self.statement.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline: what its text defines at its end, and what it asks for on the way."""

    sql: SqlText
    defined: Mapping[str, Defined] = field(default_factory=dict)
    """By the name in lower case, in the order in which they were defined."""
    requests: tuple[tuple[Request, Pipeline], ...] = ()
    """Each with what was defined when it was asked for."""
    backfills: tuple[Backfill, ...] = ()
    """Of time-series sinks that are defined at its end."""

    def of(self, kind: type[Definition]) -> list[Defined]:
        """The definitions of a kind, such as CreateSink, in their order."""
        return [one for one in self.defined.values() if isinstance(one.statement, kind)]

    def find(self, name: str) -> Defined | None:
        """What a name stands for, in whatever case it is written."""
        return self.defined.get(name.casefold())

    def read_by(self, query: Query) -> Iterator[Defined]:
        """The sources, lookup tables and views that a query reads, through views too, what others read before them; each once."""
        seen: dict[str, Defined] = {}

        def visit(one: Query) -> None:
            for name, _ in one.tables:
                found = self.find(name)
                if found is None or name.casefold() in seen:
                    continue
                if isinstance(found.statement, CreateView):
                    visit(found.statement.query)
                seen[name.casefold()] = found

        visit(query)
        return iter(seen.values())


def read_pipeline(text: str, name: str, look_up: LookUp) -> Pipeline:
    """The pipeline of a text; `name` is what messages call it. Raises InvalidPipeline, and InvalidOption for a secret that is not there."""
    sql = SqlText(text, name)
    pipeline = Pipeline(sql=sql)
    for statement in parse_pipeline(text, name):
        pipeline = _after(pipeline, statement, look_up)
    for backfill in pipeline.backfills:
        _check_backfill(pipeline, backfill)
    return pipeline


def _after(pipeline: Pipeline, statement: Statement, look_up: LookUp) -> Pipeline:
    """The pipeline after one more statement."""
    match statement:
        case Definition():
            return _defined(pipeline, statement, look_up)
        case Drop():
            return _dropped(pipeline, statement)
        case Backfill():
            _check_backfill(pipeline, statement)
            return replace(pipeline, backfills=(*pipeline.backfills, statement))
        case Show() | ShowCreate() | Explain() | Subscribe():
            _check_request(pipeline, statement)
            return replace(pipeline, requests=(*pipeline.requests, (statement, pipeline)))
    raise AssertionError(statement)


def _defined(pipeline: Pipeline, statement: Definition, look_up: LookUp) -> Pipeline:
    sql, key = pipeline.sql, statement.name.casefold()
    before = pipeline.defined.get(key)
    if before is not None:
        if statement.if_not_exists:
            return pipeline
        if not statement.or_replace:
            line, _ = sql.place(before.statement.name_span)
            raise sql.error(
                statement.name_span,
                f"the name {statement.name!r} is taken",
                why=f"Line {line} defines a {before.statement.thing.lower()} of this name",
                fix=f"Take another name, or write CREATE OR REPLACE {statement.thing}",
            )
        if before.statement.thing != statement.thing:
            raise sql.error(
                statement.name_span,
                f"{statement.name!r} is a {before.statement.thing.lower()}, and a {statement.thing.lower()} does not replace it",
                fix=f"DROP {before.statement.thing} {before.name} first",
            )
    if isinstance(statement, CreateView | CreateSink):
        _check_names(pipeline, statement.query)
    made = Defined(statement=statement)
    if isinstance(statement, CreateSource | CreateSink | CreateLookupTable):
        what = statement.thing.lower()
        spec, values = read_options(sql, statement.options, _TYPES[statement.thing], what, statement.name_span)
        made = Defined(statement=statement, type=spec.name, options=_filled(values, look_up))
    return replace(pipeline, defined={**{name: one for name, one in pipeline.defined.items() if name != key}, key: made})


def _filled(values: Mapping[str, Any], look_up: LookUp) -> Mapping[str, Any]:
    return {name: fill_secrets(one, name, look_up) if isinstance(one, str) else one for name, one in values.items()}


def _dropped(pipeline: Pipeline, statement: Drop) -> Pipeline:
    sql, key = pipeline.sql, statement.name.casefold()
    found = pipeline.defined.get(key)
    if found is None or found.statement.thing != statement.thing:
        if statement.if_exists and found is None:
            return pipeline
        known = [one.name for one in pipeline.defined.values() if one.statement.thing == statement.thing]
        raise sql.error(
            statement.name_span, f"there is no {statement.thing.lower()} {statement.name!r}", fix=nearest(statement.name, known)
        )
    for one in pipeline.defined.values():
        query = one.statement.query if isinstance(one.statement, CreateView | CreateSink) else None
        if query is not None and key in (name.casefold() for name, _ in query.tables):
            raise sql.error(
                statement.name_span,
                f"{statement.name!r} is read by the {one.statement.thing.lower()} {one.name!r}",
                fix=f"DROP {one.statement.thing} {one.name} first",
            )
    return replace(pipeline, defined={name: one for name, one in pipeline.defined.items() if name != key})


def _check_names(pipeline: Pipeline, query: Query) -> None:
    """Raise InvalidPipeline where a query reads what is not defined before it, or a sink."""
    readable = [one.name for one in pipeline.defined.values() if not isinstance(one.statement, CreateSink)]
    for name, span in query.tables:
        found = pipeline.find(name)
        if found is None:
            raise pipeline.sql.error(
                span,
                f"there is no source or view {name!r}",
                why="A query reads what was defined before it",
                fix=nearest(name, readable),
            )
        if isinstance(found.statement, CreateSink):
            raise pipeline.sql.error(
                span,
                f"{name!r} is a sink, and is not read",
                why="Its rows lie in a table of its own",
                fix="Read the view or the query that goes into it, or make a source of its table",
            )


def _check_request(pipeline: Pipeline, request: Request) -> None:
    sql = pipeline.sql
    if isinstance(request, Explain | Subscribe) and request.query is not None:
        _check_names(pipeline, request.query)
    if isinstance(request, ShowCreate):
        found, thing = pipeline.find(request.name), request.thing
    elif isinstance(request, Explain) and request.query is None:
        found, thing = pipeline.find(request.name), "SINK"
    else:
        return
    if found is None or found.statement.thing != thing:
        known = [one.name for one in pipeline.defined.values() if one.statement.thing == thing]
        raise sql.error(request.name_span, f"there is no {thing.lower()} {request.name!r}", fix=nearest(request.name, known))


def _check_backfill(pipeline: Pipeline, statement: Backfill) -> None:
    """Raise InvalidPipeline where it names no time-series sink."""
    sinks = pipeline.of(CreateSink)
    found = next((one for one in sinks if one.name.casefold() == statement.name.casefold()), None)
    if found is None:
        raise pipeline.sql.error(
            statement.name_span,
            f"there is no sink {statement.name!r} to be filled",
            fix=nearest(statement.name, [one.name for one in sinks if one.type == "timeseries"]),
        )
    if found.type != "timeseries":
        raise pipeline.sql.error(
            statement.name_span,
            f"gaps of {found.name!r} are not known: it is a {found.type} sink",
            why="Time-series tables alone keep which stretches of time they cover",
            fix="Name a sink of type='timeseries'",
        )


def shown(request: Show | ShowCreate, pipeline: Pipeline) -> list[Mapping[str, str]]:
    """The rows that answer a SHOW of sources, views, sinks or lookup tables; for SHOW CREATE one row with the statement."""
    if isinstance(request, ShowCreate):
        found = pipeline.defined[request.name.casefold()]
        return [{"name": found.name, "statement": show_create(found.statement, secret_names(found))}]
    return [
        {
            "name": one.name,
            "type": one.type or "view",
            "location": str(_location(one)),
            "reads": ", ".join(name for name, _ in getattr(getattr(one.statement, "query", None), "tables", ())),
        }
        for one in pipeline.defined.values()
        if one.statement.thing == request.things
    ]


def _location(one: Defined) -> object:
    """Where it lies, as it is written: what a secret in it stands for is not shown."""
    secret = secret_names(one)
    written = {option.name: option.value for option in getattr(one.statement, "options", ()) if option.name not in secret}
    return next((written[name] for name in ("location", "topic", "url", "table_name", "table") if name in written), "")


_SECRET = re.compile(r"^header\.|password|secret|token|jaas|credential|api.?key|private.?key|access.?key", re.IGNORECASE)


_STORAGE_SECRET = re.compile(r"^storage\..*(key|sas|account)", re.IGNORECASE)


def secret_names(defined: Defined) -> frozenset[str]:
    """The names of its options whose values are not to be shown: those that say so, and those of other programs by their names."""
    specs = _TYPES.get(defined.statement.thing, {})
    options: tuple[OptionSpec, ...] = specs[defined.type].options if defined.type in specs else ()
    given = [one.name for one in getattr(defined.statement, "options", ())]
    passed = [name for name in given if _SECRET.search(name) or _STORAGE_SECRET.search(name)]
    return frozenset([one.name for one in options if one.secret] + passed)
