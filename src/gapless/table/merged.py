"""The rows of several appends as one run: the fast way of a group, where none of them needs an answer of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.model.distinct import distinct
from gapless.model.report import Tally
from gapless.model.schema import entity_types, stored_schema
from gapless.parquet.batches import Batches
from gapless.parquet.run import Run, sort_run
from gapless.table.stage import Stager

_MEMBER = "\0member"
"""Beside the columns of a table, none of which can have this name: the place of each row's append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The rows of several appends, sorted together, and what each brought."""

    run: Run
    tallies: tuple[Tally, ...]


def merge(stager: Stager, parts: Sequence[Batches], schema: pa.Schema) -> Merged | None:
    """The rows of small appends (each with its rows counted, in memory) checked and sorted together, to be written as one segment.

    None where any of them must be told something of its own: its columns are not like the others', it has no rows or wrong ones, or a
    bucket of it is covered, by the table or by another. What `parts` give may then be read again.
    """
    counts = [part.rows_hint or 0 for part in parts]
    if not all(counts) or any(part.schema != parts[0].schema for part in parts[1:]):
        return None
    try:
        if stager.schema_for((parts[0],)) != schema:
            return None
        run, members = _sorted(stager, parts, schema, counts)
        buckets = _buckets(run, members, len(parts), shared=stager.on_overlap == "allow")
        if buckets is None:
            return None
        filtered = stager.filter_covered(run, entity_types(schema, stager.state.meta.index))
        if filtered.skipped_rows:
            return None
        stager.check_keys(run, schema)
    except Exception:  # noqa: BLE001  # whose it is shows when each is looked at by itself
        return None
    return Merged(
        run=run,
        tallies=tuple(Tally(rows=n, segments=1, buckets=b) for n, b in zip(counts, buckets.tolist(), strict=True)),
    )


def _sorted(stager: Stager, parts: Sequence[Batches], schema: pa.Schema, counts: Sequence[int]) -> tuple[Run, npt.NDArray[Any]]:
    """One run of all rows, and for each of them the place of its part."""
    meta = stager.state.meta
    together = Batches(source="a group of appends", schema=parts[0].schema, read=lambda: _one_batch(parts))
    table = pa.Table.from_batches(stager.fitted((together,), schema), stored_schema(schema, meta.ids))
    members = pa.array(np.repeat(np.arange(len(parts), dtype=np.int32), counts))
    run = sort_run(table.append_column(_MEMBER, members), meta.index, stager.grid)
    place = run.table.num_columns - 1
    return run.with_rows(run.table.remove_column(place)), run.table.column(place).to_numpy()


def _one_batch(parts: Sequence[Batches]) -> Iterator[pa.RecordBatch]:
    batches = [batch for part in parts for batch in part]
    return iter(pa.Table.from_batches(batches, parts[0].schema).combine_chunks().to_batches())


def _buckets(run: Run, members: npt.NDArray[Any], count: int, *, shared: bool) -> npt.NDArray[Any] | None:
    """For each of `count` members the buckets of its rows; None where two have rows in one bucket and those may not be `shared`."""
    fresh = np.empty(len(members), dtype=bool)
    fresh[0] = True
    fresh[1:] = (run.codes[1:] != run.codes[:-1]) | (run.buckets[1:] != run.buckets[:-1])
    if not shared:
        if np.any(~fresh[1:] & (members[1:] != members[:-1])):
            return None
        return np.bincount(members[fresh], minlength=count)
    pairs = distinct((np.cumsum(fresh) - 1) * count + members)
    return np.bincount(pairs % count, minlength=count)
