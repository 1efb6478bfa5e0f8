"""The merge of sorted runs, as of an external sort: those that came before wait in memory, compressed, and are read a piece at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.coverage.bucket import Grid
from gapless.files.sort.run import Run, sort_run
from gapless.model.index import IndexSpec

MOST_RUNS = 64
"""Runs that are merged at a time, and pieces of each: together the pieces take about as much memory as one run."""


@dataclass(frozen=True, slots=True)
class CompressedRun:
    """The rows of a run in memory, compressed, to be read in `MOST_RUNS` pieces."""

    data: pa.Buffer
    """An Arrow IPC file."""
    rows: int

    @classmethod
    def of(cls, run: Run) -> CompressedRun:
        """The rows of a run that has some."""
        onto = pa.BufferOutputStream()
        with pa.ipc.new_file(onto, run.rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
            for piece in pieces_of(run):
                file.write_table(piece.combine_chunks())
        return cls(onto.getvalue(), run.rows.count)

    def pieces(self) -> Iterator[pa.Table]:
        """Its rows in their order."""
        with pa.ipc.open_file(self.data) as file:
            for number in range(file.num_record_batches):
                yield pa.Table.from_batches([file.get_batch(number)])


def pieces_of(run: Run) -> Iterator[pa.Table]:
    """The rows of a run in `MOST_RUNS` pieces, or fewer; copies nothing."""
    table = run.table
    rows = max(1, -(-table.num_rows // MOST_RUNS))
    return (table.slice(start, rows) for start in range(0, table.num_rows, rows))


def merge(runs: Sequence[Iterable[pa.Table]], index: IndexSpec, grid: Grid) -> Iterator[Run]:
    """The rows of several runs in one order, of entity and index, as runs that follow each other; each is given in pieces that do.

    All have the stored schema. Where keys are equal, rows of an earlier run come first. Holds a piece of each run, and what is given out.
    """
    coming = [(sort_run(table, index, grid) for table in one if table.num_rows) for one in runs]
    held = {place: run for place, one in enumerate(coming) if (run := next(one, None)) is not None}
    while held:
        # All rows up to the end of the piece that ends first are at hand: what follows on it has equal keys or higher ones.
        first = min(held, key=lambda place: held[place].edge_key(-1))
        end, due = held[first].edge_key(-1), []
        for place, run in [*held.items()]:
            count = run.count_before(end, equal=place <= first)
            due.append(run.table.slice(0, count))
            rest = run.part(count, run.rows.count) if place != first else next(coming[place], None)
            if rest is None:
                del held[place]
            else:
                held[place] = rest
        yield sort_run(pa.concat_tables(due), index, grid)
