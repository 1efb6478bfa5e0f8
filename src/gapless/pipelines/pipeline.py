"""`gl.pipeline`: the SQL of a pipeline, ready to run on Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.connect.pace import on_signals
from gapless.errors import InvalidOption, UnreadableInput
from gapless.model.protocols import Clock
from gapless.pipelines.config import read_config
from gapless.pipelines.definitions import Pipeline, read_pipeline
from gapless.pipelines.language.statements import CreateSink
from gapless.pipelines.packages import PACKAGES, needed_packages
from gapless.pipelines.run.plan import SinkPlan, plan_pipeline
from gapless.pipelines.run.progress import Progress, RunProgress
from gapless.pipelines.run.run import PipelineReport, PipelineRun
from gapless.pipelines.run.state import PipelineState, RunStart
from gapless.runtime.environment import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineHandle:
    """A pipeline that was read and checked; it runs where it is told to."""

    def __init__(self, pipeline: Pipeline, name: str, checkpoints: str, file: str = "") -> None:
        self.definitions = pipeline
        self.name = name
        self.file = file
        self.state = PipelineState(f"{checkpoints.rstrip('/')}/{name}")
        self._clock: Clock = SystemClock()
        self._running: PipelineRun | None = None

    def __repr__(self) -> str:
        return f"<pipeline {self.name} of {len(self.definitions.of(CreateSink))} sinks>"

    @property
    def config(self) -> Mapping[str, object]:
        """Spark's options that its sources need: jars from Maven Central, brought the first time."""
        needed = ",".join(needed_packages(self.definitions))
        return {PACKAGES: needed} if needed else {}

    def plan(self, spark: SparkSession) -> list[SinkPlan]:
        """How its sinks would be filled. Raises InvalidPipeline."""
        return plan_pipeline(spark, self.definitions)

    def run(
        self, spark: SparkSession, *, continuous: bool = False, progress: Progress | None = None, master: str = ""
    ) -> PipelineReport:
        """Fill its sinks: with all that there is, or `continuous`, until it is stopped. A run that was killed is gone on with by the next one.

        Args:
            spark: A session, such as `gl.spark.session(config=pipeline.config)`.
            continuous: Wait for more rows at the end of all that there are.
            progress: Called after each batch with the progress of each sink, by name.
            master: Where the session runs, kept for `gapless pipelines restart`; what `gapless.toml` says by then where not given.

        Raises InvalidPipeline and what sinks refuse before the first row, PipelineFailed where Spark stops at a batch, CommitConflict where it
        runs already.
        """
        self._running = PipelineRun(
            pipeline=self.definitions,
            name=self.name,
            state=self.state,
            spark=spark,
            clock=self._clock,
            progress=RunProgress(report=progress),
            start=RunStart(file=self.file, master=master),
        )
        return self._running.run(continuous=continuous)

    def stop(self) -> None:
        """Have the run in this process end after its batches."""
        if self._running is not None:
            self._running.stop()

    def stopping_on(self, *signals: signal.Signals) -> AbstractContextManager[None]:
        """While a block `with` it runs, `stop` on the first of these signals (SIGINT and SIGTERM, where none is given)."""
        return on_signals(self.stop, *(signals or (signal.SIGINT, signal.SIGTERM)))


def pipeline(
    path: str | os.PathLike[str] | None = None,
    *,
    sql: str | None = None,
    name: str | None = None,
    checkpoints: str | None = None,
) -> PipelineHandle:
    """A pipeline from a file of SQL, or from `sql` itself.

    Args:
        path: The file.
        sql: The text, where no file has it.
        name: What the pipeline is known by: its sinks remember its batches by it, and its checkpoints lie in a folder of this name. The
            file's, without its suffix, where not given.
        checkpoints: The folder or URL for checkpoints of pipelines; where not given what `gapless.toml` beside the file (or in the working
            directory) says, else `.gapless/pipelines` there.

    Raises InvalidPipeline for what cannot be read, UnreadableInput for a file that cannot, InvalidOption.
    """
    if (path is None) == (sql is None):
        raise InvalidOption(
            "a pipeline is read from a file or from a text",
            why="Both were given" if path is not None else "Neither was given",
            fix='Pass gl.pipeline("orders.sql") or gl.pipeline(sql="CREATE …", name="orders")',
            option="path",
            value=path,
        )
    place = folder_of(path)
    if path is not None:
        try:
            sql = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UnreadableInput(
                f"the pipeline {os.fspath(path)!r} cannot be read",
                why=str(error),
                fix="Name a file of SQL, in UTF-8",
                source=os.fspath(path),
            ) from error
        name = Path(path).stem if name is None else name
    if not name or not all(one.isalnum() or one in "-_" for one in name):
        raise InvalidOption(
            f"name={name!r} is no name of a pipeline",
            why="It becomes the name of a folder: letters, digits, - and _",
            fix='Pass name="orders"',
            option="name",
            value=name,
        )
    assert sql is not None
    shown = f"{name}.sql" if path is None else os.fspath(path)
    read = read_pipeline(sql, shown, look_up)
    file = "" if path is None else str(Path(path).absolute())
    return PipelineHandle(read, name, checkpoints or default_checkpoints(place), file)


def folder_of(path: str | os.PathLike[str] | None) -> Path:
    """The folder of a file, where its `gapless.toml` lies; the working directory where there is none."""
    return Path.cwd() if path is None else Path(path).absolute().parent


def default_checkpoints(folder: Path) -> str:
    """Where pipelines of a folder have their checkpoints: where `gapless.toml` says, else in `.gapless/pipelines`. Raises InvalidOption."""
    return read_config(folder).checkpoints or str(folder / ".gapless" / "pipelines")


def look_up(kind: str, name: str) -> str | None:
    """What a secret stands for: an environment variable, or what a file holds, less the line break at its end. None where it is not there."""
    if kind == "env":
        return os.environ.get(name)
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        return None
