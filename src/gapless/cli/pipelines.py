"""`run` and `pipelines`: pipelines in SQL, and how they stand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import gapless.spark
from gapless.cli.options import JsonFlag, argument, flag, option, refuse_given
from gapless.cli.show.console import Plain, print_line, print_table, write_json
from gapless.cli.show.failure import INTERRUPTED
from gapless.cli.show.pipeline_progress import pipeline_progress, sink_text
from gapless.cli.show.rows import row_documents
from gapless.draw.label import printable
from gapless.errors import CallError, InvalidOption, nearest
from gapless.pipelines.config import read_config
from gapless.pipelines.definitions import shown
from gapless.pipelines.language.statements import CreateSink, Explain, Show, ShowCreate, Subscribe
from gapless.pipelines.packages import session_options
from gapless.pipelines.pipeline import PipelineHandle, default_checkpoints, folder_of, pipeline
from gapless.pipelines.run.answers import explain, first_rows
from gapless.pipelines.run.state import PipelineState, RunState
from gapless.spark.correct.fill_gaps import GapFill
from gapless.tables.shared.findings import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ACTIONS = ("status", "stop", "restart", "reset")


def run(
    file: Annotated[Path, argument("FILE", "The SQL of the pipeline.")],
    continuous: Annotated[bool, flag("--continuous", "Wait for more rows at the end, until Ctrl-C.")] = False,
    name: Annotated[str | None, option("NAME", "What its sinks and its checkpoints know it by; the file's name.")] = None,
    checkpoints: Annotated[
        str | None, option("DIR", "The folder for checkpoints of pipelines; .gapless/pipelines beside it.")
    ] = None,
    master: Annotated[str | None, option("URL", "Where Spark runs: local[*], local[2], spark://host:7077.")] = None,
    remote: Annotated[str | None, option("URL", "A server of Spark Connect, sc://host:15002, in place of a master.")] = None,
    json: JsonFlag = False,
) -> None:
    """Run a pipeline: fill its sinks with all that its sources have, each row once, whatever is killed; run again, it goes on.

    SHOW, EXPLAIN and SUBSCRIBE in the file are answered first.

    Example: gapless run orders.sql
    """
    ready = pipeline(file, name=name, checkpoints=checkpoints)
    config = read_config(folder_of(file))
    if master is not None and remote is not None:
        refuse_given({"master": master}, "A server of Spark Connect says itself where it runs")
    session: SparkSession | None = None

    def spark() -> SparkSession:
        nonlocal session
        if session is None:
            place = remote or master or config.remote or config.master
            # Spark's own is 200, and each is a task of every batch with state; a query keeps the number that it began with.
            local = {"spark.sql.shuffle.partitions": os.cpu_count() or 1} if place.startswith("local") else {}
            session = gapless.spark.session(
                f"gapless {ready.name}", master=place, config=session_options(local, ready.config, config.spark)
            )
        return session

    answers = [_answer(ready, spark, request, then, as_json=json) for request, then in ready.definitions.requests]
    if not ready.definitions.of(CreateSink):
        if not ready.definitions.requests:
            raise CallError(
                f"{file} defines no sink", why="A pipeline fills sinks", fix="Add CREATE SINK … WITH (…) AS SELECT …"
            )
        if json:
            write_json({"answers": answers})
        return
    started = spark()
    with ready.stopping_on(), nullcontext() if json else pipeline_progress(ready.definitions.of(CreateSink)) as tell:
        report = ready.run(started, continuous=continuous, progress=tell, master=remote or master or "")
    if json:
        fills = [{"sink": one, **asdict(fill)} for one, fill in report.backfills]
        sinks = {one: asdict(progress) for one, progress in report.sinks.items()}
        write_json({"pipeline": ready.name, "stopped": report.stopped, "sinks": sinks, "answers": answers, "backfills": fills})
    else:
        for one, progress in report.sinks.items():
            print_line(printable(sink_text(one, progress)))
        for one, fill in report.backfills:
            print_line(printable(fill_text(one, fill)))
        if report.stopped:
            print_line("Stopped. Run it again to go on.")
    if report.stopped and not continuous:
        raise typer.Exit(INTERRUPTED)


def pipelines(
    action: Annotated[str, argument("ACTION", "status, stop, restart or reset.")] = "status",
    name: Annotated[
        str | None, argument("NAME", "The pipeline; all of the folder where not given, to show how they stand.")
    ] = None,
    checkpoints: Annotated[str | None, option("DIR", "The folder for checkpoints; .gapless/pipelines here.")] = None,
    yes: Annotated[bool, flag("--yes", "With reset: forget how far it came.")] = False,
    json: JsonFlag = False,
) -> None:
    """Show how pipelines stand, stop one, restart one, or have one begin anew.

    A restart has the run elsewhere end after its batches, and goes on here, with the options that it was run with.

    Example: gapless pipelines status
    """
    if action not in _ACTIONS:
        raise InvalidOption(
            f"pipelines {action} is not known", why="", fix=nearest(action, _ACTIONS), option="action", value=action
        )
    place = checkpoints or default_checkpoints(folder_of(None))
    if action == "status":
        names = [name] if name is not None else _names(place)
        states = {one: PipelineState(f"{place.rstrip('/')}/{one}").run() for one in names}
        if name is not None and states[name] is None:
            raise _unknown(name, place)
        _print_states(states, as_json=json)
        return
    if name is None:
        raise CallError(
            f"pipelines {action} names no pipeline", why="It is done to one", fix=f"Say `gapless pipelines {action} NAME`"
        )
    state = PipelineState(f"{place.rstrip('/')}/{name}")
    found = state.run()
    if found is None:
        raise _unknown(name, place)
    if action == "restart":
        _restart(name, place, state, json=json)
        return
    if action == "stop":
        if found.status == "running":
            state.ask_to_stop()
        done = "It ends after its batches" if found.status == "running" else "It does not run"
    else:
        if not yes:
            raise CallError(
                f"reset would forget how far {name!r} came",
                why="Its next run reads its sources from their beginning, and appends their rows to what its sinks have",
                fix="Empty or drop its sinks first where that is not wanted, and add --yes",
            )
        done = f"{count(state.reset(), 'file')} of its checkpoints are gone"
    if json:
        write_json({"pipeline": name, "status": found.status, "done": done})
    else:
        print_line(printable(f"{name}: {done}."))


def _restart(name: str, place: str, state: PipelineState, *, json: bool) -> None:
    """Stop the run of a pipeline, where it runs, and run the same here."""
    newest = state.run()
    assert newest is not None
    start = newest.start
    if not start.file:
        raise CallError(
            f"{name!r} is not restarted from here",
            why="Its last run came from a program, which gave its SQL as a text",
            fix=f"Say `gapless pipelines stop {name}`, and run that program again",
        )
    pipeline(start.file, name=name, checkpoints=place)  # what it cannot be is said while the other one runs on
    state.stop_and_wait()
    remote = start.master.startswith("sc://")
    run(
        file=Path(start.file),
        continuous=start.continuous,
        name=name,
        checkpoints=place,
        master=None if remote or not start.master else start.master,
        remote=start.master if remote else None,
        json=json,
    )


# -- steps ---------------------------------------------------------------------------------------------------------------


def fill_text(name: str, fill: GapFill) -> str:
    """What a BACKFILL did, in a line.

    >>> fill_text("air", GapFill(version=7, rows=48, buckets=24, gaps=3, left=1))
    'air: 48 rows filled 24 buckets of 3 gaps, version 7; 1 gap is left, of which its sources have no rows'
    >>> fill_text("air", GapFill(version=None, rows=0, buckets=0, gaps=0, left=0))
    'air: no gaps to fill'
    """
    parts = [f"{name}: no gaps to fill"]
    if fill.version is not None:
        parts = [f"{name}: {count(fill.rows, 'row')} filled {count(fill.buckets, 'bucket')} of {count(fill.gaps, 'gap')}"]
        parts[0] += f", version {fill.version}"
    elif fill.gaps:
        parts = [f"{name}: nothing to fill {count(fill.gaps, 'gap')} with"]
    if fill.left:
        parts.append(f"{count(fill.left, 'gap')} {'is' if fill.left == 1 else 'are'} left, of which its sources have no rows")
    return "; ".join(parts)


def _answer(ready: PipelineHandle, spark: Any, request: Any, then: Any, *, as_json: bool) -> Plain:
    """Answer a request; print it, or give it back for JSON."""
    match request:
        case ShowCreate():
            statement = shown(request, then)[0]["statement"]
            if not as_json:
                print_line(statement)
            return statement
        case Show(things="PIPELINE"):
            place = ready.state.url.rpartition("/")[0]
            states = {one: PipelineState(f"{place}/{one}").run() for one in _names(place)}
            if not as_json:
                _print_states(states, as_json=False)
            return _states(states)
        case Show():
            rows = [dict(one) for one in shown(request, then)]
            if not as_json:
                heads = ("name", "type", "location", "reads")
                print_table(heads, [tuple(printable(row[head]) for head in heads) for row in rows])
            return rows
        case Explain():
            text = explain(spark(), then, request)
            if not as_json:
                print_line(text)
            return text
        case Subscribe():
            documents = row_documents(first_rows(spark(), then, request))
            if not as_json:
                names = list(documents[0]) if documents else []
                print_table(names, [tuple(row[name] for name in names) for row in documents])
                print_line((count(len(documents), "row"), "dim"))
            return documents
    return None


def _names(place: str) -> list[str]:
    folder = Path(place.removeprefix("file://"))
    return sorted(one.name for one in folder.iterdir() if (one / "run.json").is_file()) if folder.is_dir() else []


def _states(states: Mapping[str, RunState | None]) -> Plain:
    return {name: None if state is None else asdict(state) for name, state in states.items()}


def _print_states(states: Mapping[str, RunState | None], *, as_json: bool) -> None:
    if as_json:
        write_json(_states(states))
        return
    if not states:
        print_line("No pipeline has run here.")
    for name, state in states.items():
        if state is None:
            continue
        since = f"since {state.started}" if state.status == "running" else f"until {state.heard}"
        print_line(printable(f"{name}: {state.status} {since}, process {state.pid} on {state.host}"))
        if state.error:
            print_line(printable(f"  {state.error}"))
        for sink, progress in state.sinks.items():
            print_line(printable(f"  {sink_text(sink, progress)}"))


def _unknown(name: str, place: str) -> CallError:
    return CallError(
        f"no pipeline {name!r} has run at {place}",
        why="Its state lies beside its checkpoints",
        fix=nearest(name, _names(place)),
    )
