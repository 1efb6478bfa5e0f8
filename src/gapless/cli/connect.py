"""`connect`: copy a source into a table, once or as it grows, exactly once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.text import Text

from gapless.cli.connect_options import NewTable, PipelineName, Places, RunOptions, SinkOptions, SourceOptions, in_catalog
from gapless.cli.options import JsonFlag
from gapless.cli.show.console import Plain, print_line, stderr_console, write_json
from gapless.cli.show.failure import INTERRUPTED
from gapless.cli.show.rows import row_progress
from gapless.connect import CheckpointStore, Runner, RunnerReport, sink, source
from gapless.draw.label import printable
from gapless.metrics import serve
from gapless.tables.shared.findings import count

WAITING = 1
"""Exit code where what was decided is still to be committed."""


def connect(
    places: Places,
    source_options: SourceOptions,
    sink_options: SinkOptions,
    new: NewTable,
    identity: PipelineName,
    run: RunOptions,
    json: JsonFlag = False,
) -> None:
    """Copy rows of a table, or of another source, into a table: each once, whatever is killed; run again, it goes on.

    It remembers in a folder beside the sink how far it came. Where it was stopped or killed, the same command goes on from there.

    Example: gapless connect timeseries:feed delta:trips --create --follow
    """
    given, into = source_options.given, sink_options.given
    places.check(given, into)
    sides = {places.source_place: given, places.sink_place: into}
    named = [place for place, options in sides.items() if in_catalog(options)]
    created, pipeline, table = new.given(places, named), identity.pipeline or places.source_name, places.sink_name
    folder = identity.folder(pipeline, places.sink_place, named=in_catalog(into))
    reader = source(places.source_url, storage_options=places.storage_of(places.source_place, named), **given)
    storage = places.storage_of(places.sink_place, named)
    writer = sink(
        places.sink_url,
        pipeline=pipeline,
        name=identity.name,
        generation=identity.generation,
        create=created,
        storage_options=storage,
        **into,
    )
    store = CheckpointStore(folder, storage_options=places.storage_of(folder, named))
    with (
        _metrics_served(run.metrics_port),
        row_progress(f"copying {places.source_name} into {table}") as done,
        _warnings_shown(),
    ):
        runner = Runner(reader, None, {identity.name: writer}, store, **run.limits)
        runner.progress = lambda report: done(report.rows, None)
        with runner.stopping_on():
            report = runner.run(follow=run.follow, poll_interval=run.interval)
    if json:
        write_json(report_document(report, identity.name))
    else:
        print_line(report_text(report, identity.name, table))
    if report.stopped and not run.follow:
        raise typer.Exit(INTERRUPTED)
    if report.backlog:
        raise typer.Exit(WAITING)


def report_document(report: RunnerReport, name: str) -> dict[str, Plain]:
    """What `connect --json` prints; `name` is the sink's."""
    commit = report.commits.get(name)
    return {
        "rows": report.rows,
        "checkpoints": report.checkpoints,
        "version": None if commit is None else commit.version,
        "waiting": report.backlog,
        "stalls": report.stalls,
        "stopped": report.stopped,
    }


def report_text(report: RunnerReport, name: str, table: str) -> str:
    """What a run did, in a few sentences; `name` is the sink's, `table` what it is called.

    >>> report_text(RunnerReport(checkpoints=0, rows=0, commits={}), "main", "trips")
    'Nothing new for trips.'
    >>> report_text(RunnerReport(checkpoints=0, rows=9, commits={}, backlog=2, stopped=True), "main", "trips")
    'Stopped. 2 checkpoints of 9 rows are prepared and not committed yet. Run it again to go on.'
    """
    commit = report.commits.get(name)
    texts = ["Stopped."] if report.stopped else []
    if report.checkpoints and commit is not None:
        made = count(report.checkpoints, "checkpoint")
        what = f"Copied {count(report.rows, 'row')} in {made}" if report.rows else f"Committed {made} of an earlier run"
        texts.append(f"{what}: {table} is at version {commit.version}.")
    elif not report.backlog:
        texts.append(f"Nothing new for {table}.")
    if report.backlog:
        are = "is" if report.backlog == 1 else "are"
        of = "" if report.checkpoints else f" of {count(report.rows, 'row')}"
        texts.append(f"{count(report.backlog, 'checkpoint')}{of} {are} prepared and not committed yet.")
    if report.stopped:
        texts.append("Run it again to go on.")
    return " ".join(texts)


# -- steps ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _metrics_served(port: int | None) -> Iterator[None]:
    if port is None:
        yield
        return
    server = serve(port)
    try:
        yield
    finally:
        server.close()


class _Shown(logging.Handler):
    """Prints what a pipeline warns of to stderr, as it happens."""

    def emit(self, record: logging.LogRecord) -> None:
        stderr_console().print(Text.assemble(("Warning: ", "bold yellow"), printable(record.getMessage())))


@contextmanager
def _warnings_shown() -> Iterator[None]:
    handler, logger = _Shown(logging.WARNING), logging.getLogger("gapless.connect")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
