"""`[[pipeline]]` in `lake.toml`, or one plan as JSON: which source fills which table, and when."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gapless import connect
from gapless.connect.sources.protocol import Source
from gapless.errors import InvalidOption, nearest, one_of
from gapless.lake.cursors import Monotonic
from gapless.lake.sources.dlt_source import DltSource, find_dlt_source
from gapless.lake.sources.spark_frame import SparkSource, read_by_spark
from gapless.model.protocols import Clock
from gapless.runtime.schedule import Schedule
from gapless.runtime.scheduler import Scheduler

_TABLES = ("lake", "catalog", "pipeline")
_NEEDED = ("name", "table", "source")
_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "table": str,
    "source": (str, dict),
    "engine": str,
    "cursor": str,
    "options": dict,
    "kind": str,
    "key": (str, list),
    "drift": (str, dict),
    "table_options": dict,
    "schedule": str,
    "timezone": str,
}
_OTHER_WORDS = {"every": 'schedule = "every 15m"', "cron": 'schedule = "0 3 * * *"', "interval": 'schedule = "every 15m"'}
_TIMES = ("schedule", "timezone")
_DLT, _SPARK = ("dlt", "resource"), ("format", "path", "sql")
_PAGINATIONS = ("AfterValue", "LinkHeader", "NextLink", "Offset", "PageNumber", "PageToken")
_EVOLVING = ("http", "https", "files")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DltPlace:
    """Where a source of dlt is: `source = {dlt = "module:function", resource = …}`."""

    function: str
    """As `module:function`."""
    resource: str | None = None
    """Which of a source's resources is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRead:
    """What Spark reads, with `engine = "spark"`: `source = {format = "parquet", path = …, sql = "SELECT … FROM {source}"}`."""

    read: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """One pipeline as it is written."""

    name: str
    table: str
    source: str | DltPlace | SparkRead
    """The URL of a source, as `gl.connect.source` takes it, or a source of dlt, or what Spark reads."""
    cursor: Monotonic | None = None
    """Of what Spark reads; other sources have their own."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The source's own; of one of dlt the arguments of its function. A text `${NAME}` in one is the environment's, so that no secret is in the file."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the table is made with, where it is not there: as `lake.create_table` takes it."""
    schedule: Schedule | None = None
    """When it is due; None for a pipeline that is run by name."""

    def open_source(self) -> Source | DltSource | SparkSource:
        """The source. Of pages and files whose columns change all are taken, which the table's policy is for, unless `options` say otherwise.

        Raises InvalidOption, NotSupported where a library lacks, and as `gl.connect.source`.
        """
        if not isinstance(self.source, str):
            arguments = {name: _filled(value, self.name) for name, value in self.options.items()}
            if isinstance(self.source, SparkRead):
                return read_by_spark(self.source.read, arguments, self.cursor)
            return find_dlt_source(self.source.function, resource=self.source.resource, arguments=arguments)
        evolving = {"on_schema_change": "evolve"} if self.source.partition(":")[0] in _EVOLVING else {}
        options = evolving | {name: _filled(value, self.name) for name, value in self.options.items()}
        if "pagination" in options:
            options["pagination"] = _pagination(options["pagination"], self.name)
        return connect.source(_filled(self.source, self.name), **options)


def parse_pipelines(told: Mapping[str, Any], path: str) -> tuple[PipelinePlan, ...]:
    """The pipelines of a `lake.toml`; `path` is its own. Raises InvalidOption for keys that are not known."""
    for name in told:
        if name not in _TABLES:
            raise _refuse(path, f"it has {name!r}", nearest(name, _TABLES), name)
    given = told.get("pipeline", [])
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(one, Mapping) for one in given):
        raise _refuse(path, "pipeline is no list of tables", "Write [[pipeline]] before each", "pipeline")
    plans = tuple(_plan(one, path) for one in given)
    names = [one.name for one in plans]
    if twice := [name for name in names if names.count(name) > 1]:
        raise _refuse(path, f"two pipelines are called {twice[0]!r}", "Rename one: a cursor belongs to a name", "name")
    return plans


def parse_plan(text: str | bytes, path: str) -> PipelinePlan:
    """One plan as JSON, an object of the keys of a `[[pipeline]]`, that is run once. Raises as `parse_pipelines`."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise _refuse(path, f"it is no JSON: {error}", "Write one object with name, table and source", "plan") from error
    if not isinstance(given, Mapping):
        raise _refuse(path, "it is no object of JSON", "Write one object with name, table and source", "plan")
    for name in _TIMES:
        if name in given:
            raise _refuse(path, f"it has {name!r}, and is run once", "Leave it out, or write the plan into lake.toml", name)
    return _plan(given, path)


def pipeline_scheduler(
    plans: Sequence[PipelinePlan], last_ns: Mapping[str, int], run: Callable[[PipelinePlan], object], clock: Clock
) -> Scheduler:
    """Jobs that run pipelines, by their names. One is due by when its last run began (`last_ns`, nanoseconds since 1970 UTC), and one that never
    ran at once. Raises InvalidOption where no pipeline has a schedule.
    """
    scheduler = Scheduler(clock)
    timed = [(one, one.schedule) for one in plans if one.schedule is not None]
    if not timed:
        raise InvalidOption(
            "no pipeline of lake.toml has a schedule",
            why=f"It has {len(plans)} without one",
            fix='Write such as schedule = "every 15m" into a [[pipeline]], or run them once: gapless lake run',
            option="schedule",
            value=None,
        )
    for plan, schedule in timed:
        scheduler.add(plan.name, schedule, partial(run, plan), last_ns=last_ns.get(plan.name, 0))
    return scheduler


def _plan(given: Mapping[str, Any], path: str) -> PipelinePlan:
    for name, value in given.items():
        if name not in _KEYS:
            fix = f"Write {_OTHER_WORDS[name]}" if name in _OTHER_WORDS else nearest(name, _KEYS)
            raise _refuse(path, f"a pipeline has {name!r}", fix, name)
        if not isinstance(value, _KEYS[name]):
            raise _refuse(
                path, f"{name} of a pipeline is of another type", "Write a text, list or table as the page shows", name
            )
    for name in _NEEDED:
        if name not in given:
            raise _refuse(path, f"a pipeline lacks {name!r}", f"Say {', '.join(_NEEDED)}", name)
    settings = {name: given[name] for name in ("kind", "key", "drift") if name in given} | given.get("table_options", {})
    return PipelinePlan(
        name=given["name"],
        table=given["table"],
        source=_source(given, path),
        cursor=Monotonic(column=given["cursor"]) if "cursor" in given else None,
        options=given.get("options", {}),
        settings=settings,
        schedule=_schedule(given, path),
    )


def _source(given: Mapping[str, Any], path: str) -> str | DltPlace | SparkRead:
    """The source of a pipeline: a URL, a function of dlt, or what Spark reads."""
    source, on_spark = given["source"], "engine" in given
    if on_spark:
        one_of("engine", given["engine"], ("spark",), "Without it a pipeline runs in this process")
    elif "cursor" in given:
        raise _refuse(path, "a pipeline has a cursor and no engine", "Leave it out: its source has its own", "cursor")
    if isinstance(source, str) and not on_spark:
        return source
    known, needed, example = (
        (_SPARK, "format", "{format = 'parquet', path = 'landing/'}")
        if on_spark
        else (_DLT, "dlt", "{dlt = 'module:function'}")
    )
    told = source if isinstance(source, Mapping) else {}
    for name, value in told.items():
        if name not in known:
            raise _refuse(path, f"source of a pipeline has {name!r}", nearest(name, known), name)
        if not isinstance(value, str):
            raise _refuse(path, f"{name} of a pipeline's source is no text", f"Write such as {example}", name)
    if needed not in told:
        fix = f"Write {example}" if on_spark else f"Write {example}, or a URL"
        raise _refuse(path, f"source of a pipeline lacks {needed!r}", fix, "source")
    return SparkRead(read=told) if on_spark else DltPlace(function=told["dlt"], resource=told.get("resource"))


def _schedule(given: Mapping[str, Any], path: str) -> Schedule | None:
    """When a pipeline is due: "every 15m", or cron in a `timezone`."""
    if "schedule" not in given:
        if "timezone" in given:
            raise _refuse(path, "a pipeline has a timezone and no schedule", "Leave it out, or write a schedule", "timezone")
        return None
    text = given["schedule"].strip()
    schedule = Schedule.parse(text.removeprefix("every ").strip(), timezone=given.get("timezone", "UTC"))
    if schedule.every_ns and "timezone" in given:
        raise _refuse(path, "an interval has no timezone", "Leave timezone out, or write cron", "timezone")
    return schedule


def _filled(value: Any, pipeline: str) -> Any:
    """A value with what it names of the environment in its place, at any depth."""
    if isinstance(value, Mapping):
        return {name: _filled(one, pipeline) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, pipeline) for one in value]
    return _VARIABLE.sub(lambda found: _variable(found[1], pipeline), value) if isinstance(value, str) else value


def _variable(name: str, pipeline: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise InvalidOption(
            f"the pipeline {pipeline!r} names ${{{name}}}, which the environment lacks",
            fix=f"Set {name}, or correct the name",
            option=name,
            value=None,
        )
    return found


def _pagination(given: Any, pipeline: str) -> Any:
    rest = dict(given) if isinstance(given, Mapping) else {}
    kind = rest.pop("type", None)
    if kind not in _PAGINATIONS:
        raise InvalidOption(
            f"pagination of the pipeline {pipeline!r} has type {kind!r}",
            why=f"It is one of {', '.join(_PAGINATIONS)}",
            fix=nearest(str(kind), _PAGINATIONS),
            option="pagination",
            value=kind,
        )
    try:
        return getattr(connect, kind)(**rest)
    except TypeError as error:
        raise InvalidOption(
            f"pagination of the pipeline {pipeline!r} cannot be made", why=str(error), fix="Correct its options",
            option="pagination", value=kind,
        ) from error  # fmt: skip


def _refuse(path: str, what: str, fix: str, option: str) -> InvalidOption:
    return InvalidOption(f"{path} cannot be used: {what}", why="", fix=fix, option=option, value=None)
