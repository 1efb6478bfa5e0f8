"""Sinks and pipelines beside plain appends of the same rows, interleaved in one run: p50 and p99 of each step, and rows a second as a ratio.

A plain append takes the rows of one checkpoint in one commit, as one table of batches of 65,536 rows. The sink takes the same batches in
two phases: write, prepare, finalize. The pipeline is a Runner that polls the rows from memory, with its checkpoint store on the same disk. A ratio of 1 is the
plain append's rate, 0.9 the goal for large checkpoints; each is of one round, by wall time, and "cpu" by processor time over all threads.
`--rows N` and `--checkpoint N` rows, `--rounds N`, `--kind`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import gapless as gl
from gapless import connect
from gapless.connect.sources.protocol import Polled

BATCH = 1 << 16
SYMBOLS = 50
KINDS = ("timeseries", "delta")
GOAL = 0.9


def ticks(count: int) -> pa.Table:
    """Rows in arrival order: time rises, symbols alternate."""
    dice = np.random.default_rng(7)
    return pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + np.arange(count) // SYMBOLS * 1_000_000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", (np.arange(count) % SYMBOLS).astype(str))),
            **{name: np.round(100 + dice.normal(0, 1, count).cumsum() * 0.01, 4) for name in ("bid", "ask")},
            "volume": dice.integers(0, 10_000, count),
        }
    )


class Rows(connect.Source):
    """Rows in memory; its cursor is how many were given."""

    def __init__(self, table: pa.Table) -> None:
        """All of these."""
        self._table, self._at = table.combine_chunks(), 0

    @property
    def capabilities(self) -> connect.SourceCapabilities:
        """It replays."""
        return connect.SourceCapabilities(replays=True, retracts=False)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return self._table.schema

    def start(self, cursor: connect.Cursor | None = None) -> None:
        """At a cursor, or the first row."""
        self._at = 0 if cursor is None else cursor.state["at"]

    def poll(self, limit: int | None = None) -> Polled:
        """The next rows."""
        rows = self._table.slice(self._at, limit)
        self._at += rows.num_rows
        return Polled(rows.to_batches())

    @property
    def cursor(self) -> connect.Cursor:
        """How many rows were given."""
        return connect.Cursor(source="rows", state={"at": self._at})


class Cost(NamedTuple):
    """Seconds that something took."""

    wall: float
    cpu: float


class Steps:
    """Seconds of each step, by its name."""

    def __init__(self) -> None:
        """None yet."""
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def timed(self, name: str, act: Callable[..., Any], *given: Any) -> Any:
        """What an act gives."""
        begun = time.perf_counter()
        result = act(*given)
        self.seconds[name].append(time.perf_counter() - begun)
        return result

    def lines(self) -> Iterator[str]:
        """One line a step."""
        for name, found in self.seconds.items():
            p50, p99 = statistics.median(found) * 1e3, sorted(found)[int(len(found) * 0.99)] * 1e3
            yield f"    {name:24} p50 {p50:8.2f} ms   p99 {p99:8.2f} ms   ({len(found)})"


def cost(act: Callable[[], object]) -> Cost:
    """What an act takes, once."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def made(kind: str, place: Path, schema: pa.Schema) -> Any:
    """An empty table."""
    if kind == "delta":
        return gl.delta.create(place, schema)
    options: dict[str, Any] = {"entity": ["symbol"], "properties": {"on_overlap": "allow"}}
    return gl.create(place, index="ts", bucket="1m", schema=schema, **options)


def append_plain(kind: str, place: Path, parts: Sequence[pa.Table], steps: Steps) -> Cost:
    """One append for each part."""
    table = made(kind, place, parts[0].schema)
    return cost(lambda: [steps.timed("plain append", table.append, part) for part in parts])


def through_sink(kind: str, place: Path, parts: Sequence[pa.Table], steps: Steps) -> Cost:
    """One checkpoint for each part."""
    made(kind, place, parts[0].schema)
    sink = connect.sink(f"{kind}:{place}", pipeline="bench", name="sink")
    sink.initialize(parts[0].schema)

    def run() -> None:
        for number, part in enumerate(parts):
            for batch in part.to_batches():
                steps.timed("sink: write (a batch)", sink.write, batch)
            prepared = steps.timed("sink: prepare", sink.prepare, number)
            steps.timed("sink: finalize", sink.finalize, prepared)

    return cost(run)


def through_runner(kind: str, place: Path, parts: Sequence[pa.Table], _steps: Steps) -> Cost:
    """A pipeline, with a checkpoint for each part."""
    made(kind, place, parts[0].schema)
    sink = connect.sink(f"{kind}:{place}", pipeline="bench", name="runner")
    store = connect.CheckpointStore(place.with_name(f"{place.name}-checkpoints"))
    source = Rows(pa.concat_tables(parts))
    runner = connect.Runner(source, None, {"runner": sink}, store, checkpoint_rows=parts[0].num_rows)
    return cost(runner.run)


WAYS: Mapping[str, Callable[[str, Path, Sequence[pa.Table], Steps], Cost]] = {
    "plain": append_plain,
    "sink": through_sink,
    "pipeline": through_runner,
}


def measure(kind: str, rows: int, checkpoint: int, rounds: int) -> None:
    """Print the figures of one kind and size."""
    table = ticks(rows)
    parts = [
        pa.Table.from_batches(table.slice(at, checkpoint).combine_chunks().to_batches(BATCH))
        for at in range(0, rows, checkpoint)
    ]
    steps, found = Steps(), defaultdict[str, list[Cost]](list)
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            turns = list(WAYS)
            for name in turns[number % len(turns) :] + turns[: number % len(turns)]:
                took = WAYS[name](kind, Path(folder) / name, parts, Steps() if number == 0 else steps)
                table_there = gl.delta.open(Path(folder) / name) if kind == "delta" else gl.open(Path(folder) / name)
                assert table_there.scan().count() == rows
                if number:  # the first one warms up
                    found[name].append(took)
    print(f"{kind}: {rows:,} rows in checkpoints of {checkpoint:,}, {rounds} rounds")
    print(*steps.lines(), sep="\n")
    for name in ("sink", "pipeline"):
        wall = [plain.wall / one.wall for plain, one in zip(found["plain"], found[name], strict=True)]
        cpu = statistics.median(plain.cpu / one.cpu for plain, one in zip(found["plain"], found[name], strict=True))
        best = min(one.wall for one in found["plain"]) / min(one.wall for one in found[name])
        print(
            f"    {name:24} x plain append: {min(wall):.2f} / {statistics.median(wall):.2f} / {max(wall):.2f}, of the"
            f" quickest rounds {best:.2f}; cpu {cpu:.2f}; {rows / min(one.wall for one in found[name]):,.0f} rows/s"
        )


def main() -> None:
    """Print all figures."""
    known = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known.add_argument("--rows", type=int)
    known.add_argument("--checkpoint", type=int)
    known.add_argument("--rounds", type=int, default=7)
    known.add_argument("--kind", choices=KINDS)
    asked = known.parse_args()
    sizes: tuple[tuple[int, int], ...] = ((3_000_000, 1_000_000), (20_000, 1_000))
    if asked.rows or asked.checkpoint:
        sizes = ((asked.rows or 3_000_000, asked.checkpoint or 1_000_000),)
    for rows, checkpoint in sizes:
        for kind in [asked.kind] if asked.kind else KINDS:
            measure(kind, rows, checkpoint, asked.rounds)


if __name__ == "__main__":
    main()
