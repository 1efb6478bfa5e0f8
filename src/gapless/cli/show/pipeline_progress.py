"""How a pipeline gets on: lines, and on a terminal a table that is drawn anew: rows a second, what waits, last commits, coverage."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gapless.cli.show.console import stderr_console
from gapless.coverage.heatmap import plan_heatmap
from gapless.draw.chart import SHADES, shade_of
from gapless.draw.label import percent, printable
from gapless.errors import GaplessError
from gapless.model.protocols import Clock
from gapless.pipelines.definitions import Defined
from gapless.pipelines.run.progress import Progress
from gapless.pipelines.run.state import SinkProgress
from gapless.runtime.environment import SystemClock
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.table import TimeSeriesTable

_LAST = 5
"""Commits that are listed."""
_CELLS = 24
"""Of a strip of coverage."""
_COVERAGE_EVERY_S = 1.0


def sink_text(name: str, progress: SinkProgress) -> str:
    """How far a sink came, in a line.

    >>> sink_text("air", SinkProgress(batch=3, version=7, rows=1200, rows_per_second=400.0, waiting="2 files"))
    'air: 1,200 rows read, 400 rows/s, 2 files wait, batch 3, version 7'
    >>> sink_text("air", SinkProgress())
    'air: nothing new'
    """
    if progress.batch is None:
        return f"{name}: nothing new"
    parts = [f"{name}: {count(progress.rows, 'row')} read"]
    if progress.rows_per_second:
        parts.append(f"{progress.rows_per_second:,.0f} rows/s")
    if progress.waiting:
        parts.append(f"{progress.waiting} wait")
    parts.append(f"batch {progress.batch}")
    if progress.version is not None:
        parts.append(f"version {progress.version}")
    return ", ".join(parts)


@contextmanager
def pipeline_progress(sinks: Iterable[Defined], console: Console | None = None) -> Iterator[Progress]:
    """What is to be told of each batch while the block runs: shown on stderr, as a table where that is a terminal, else in lines."""
    console = console or stderr_console()
    if not console.is_terminal:
        yield _Lines(console).tell
        return
    shown = LiveTable(sinks=tuple(sinks))
    with Live(get_renderable=shown.render, console=console, refresh_per_second=4, transient=True):
        yield shown.tell


@dataclass(slots=True)
class _Lines:
    """One line for each batch of each sink."""

    console: Console
    told: dict[str, SinkProgress] = field(default_factory=dict)

    def tell(self, sinks: Mapping[str, SinkProgress]) -> None:
        for name, progress in sinks.items():
            if progress.batch is not None and progress != self.told.get(name):
                self.console.print(printable(sink_text(name, progress)))
                self.told[name] = progress


@dataclass(slots=True, kw_only=True)
class LiveTable:
    """A line a sink, and the last commits below. Told in one thread, drawn in another."""

    sinks: tuple[Defined, ...]
    clock: Clock = field(default_factory=SystemClock)
    _told: dict[str, SinkProgress] = field(default_factory=dict)
    _heard: dict[str, float] = field(default_factory=dict)
    """When each sink's newest batch was told of, by the monotonic clock."""
    _commits: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_LAST))
    _tables: dict[str, TimeSeriesTable] = field(default_factory=dict)
    _coverage: dict[str, Text] = field(default_factory=dict)
    _looked: float = float("-inf")
    _lock: Lock = field(default_factory=Lock)

    def tell(self, sinks: Mapping[str, SinkProgress]) -> None:
        """Take how far the sinks are."""
        now = self.clock.monotonic()
        with self._lock:
            for name, progress in sinks.items():
                before = self._told.get(name, SinkProgress())
                if progress.batch is not None and progress.batch != before.batch:
                    rows = count(progress.rows - before.rows, "row")
                    version = "" if progress.version is None else f", version {progress.version}"
                    self._commits.append((now, f"{name}: batch {progress.batch}, {rows}{version}"))
                    self._heard[name] = now
                self._told[name] = progress
        if now - self._looked >= _COVERAGE_EVERY_S:
            self._looked = now
            for sink in self.sinks:
                if sink.type == "timeseries":
                    self._look(sink)

    def render(self) -> RenderableType:
        """What stands on the terminal now."""
        now = self.clock.monotonic()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in ("sink", "rows", "rows/s", "waiting", "batch", "version", "last commit", "coverage"):
            table.add_column(name, justify="right" if name in ("rows", "rows/s", "batch", "version") else "left", no_wrap=True)
        with self._lock:
            for sink in self.sinks:
                one = self._told.get(sink.name, SinkProgress())
                heard = self._heard.get(sink.name)
                table.add_row(
                    Text(printable(sink.name), style="bold"),
                    f"{one.rows:,}",
                    f"{one.rows_per_second:,.0f}" if one.rows_per_second else "",
                    one.waiting,
                    "" if one.batch is None else str(one.batch),
                    "" if one.version is None else str(one.version),
                    "" if heard is None else f"{now - heard:.0f} s ago",
                    self._coverage.get(sink.name, Text()),
                )
            lines = [Text(f"  {now - when:4.0f} s ago  {printable(what)}", style="dim") for when, what in self._commits]
        return Group(table, *lines)

    def _look(self, sink: Defined) -> None:
        """Draw anew what the table of a sink covers: a strip over all its time, and the share."""
        with suppress(GaplessError):  # it is not there yet, or not readable for a moment: what is drawn stays
            table = self._tables.get(sink.name)
            self._tables[sink.name] = table = (
                TimeSeriesTable.open(sink.options["location"]) if table is None else table.refresh()
            )
            coverage = table.coverage()
            if not coverage.expected:
                return
            cells = plan_heatmap(coverage.union(), _CELLS, 1).values
            strip = "".join(SHADES[shade_of(float(one))].symbol for one in cells[0])
            gaps = count(len(coverage.gaps()), "gap")
            drawn = Text.assemble((strip, "blue"), f" {percent(coverage.covered, coverage.expected)}, {gaps}")
            with self._lock:
                self._coverage[sink.name] = drawn
