"""Group commit: small appends of one handle that come at the same time share a segment and a log entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.errors import CoverageOverlap, DuplicateKey, StoreError
from gapless.files.ingest.batches import Batches, bytes_of, read_once
from gapless.files.sort.run import Run, sort_run
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import SetTransaction, TableState
from gapless.log.format import Snapshot
from gapless.model.index import EntityType
from gapless.model.operation import AppendReport, Tally, operation_key
from gapless.model.properties import OnOverlap
from gapless.model.schema import entity_types, stored_schema
from gapless.model.stats import distinct
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.timeseries.write.append import APPEND, Appender
from gapless.tables.timeseries.write.refusals import group_interrupted
from gapless.tables.timeseries.write.stage import Filtered, Stager

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
    if not all(counts) or any((one.schema, one.inferred) != (parts[0].schema, parts[0].inferred) for one in parts[1:]):
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
    together = replace(parts[0], source="a group of appends", read=lambda: _one_batch(parts))
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


SMALL_ROWS = 10_000
"""Appends of at most so many rows may share a commit."""
SMALL_BYTES = 16 << 20
"""And of at most so much Arrow memory, since they are gathered in it."""

Latest = Callable[[], Snapshot[TableState]]
Result = AppendReport | BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One append of a group: its rows, and how it would be done alone."""

    parts: tuple[Batches, ...]
    appender: Appender

    @property
    def policy(self) -> tuple[OnOverlap, bool]:
        """Its overlap policy, and whether that is the table's."""
        return self.appender.on_overlap, self.appender.by_table


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A member whose rows may go into the shared segment."""

    place: int
    member: Member
    filtered: Filtered

    @property
    def tally(self) -> Tally:
        run = self.filtered.run
        return Tally(
            rows=run.table.num_rows,
            segments=min(1, run.table.num_rows),
            buckets=run.coverage.cardinality(),
            skipped_rows=self.filtered.skipped_rows,
            skipped_buckets=self.filtered.skipped.cardinality(),
        )


def gather_small(part: Batches) -> tuple[Batches, bool]:
    """The part, and whether it is small; a small one is read into memory here, and its errors are raised here."""
    if (part.rows_hint or 0) > SMALL_ROWS:
        return part, False
    held: list[pa.RecordBatch] = []
    rows, size, left = 0, 0, iter(part)
    for batch in left:
        held.append(batch)
        rows += batch.num_rows
        size += bytes_of(batch, SMALL_BYTES - size)
        if rows > SMALL_ROWS or size > SMALL_BYTES:
            whole: Iterator[pa.RecordBatch] = chain(held, left)
            return replace(part, read=read_once(part.source, whole)), False
    return replace(part, read=lambda: iter(held), rows_hint=rows), True


def append_group(latest: Latest, members: Sequence[Member]) -> list[Result]:
    """Append each member as if alone, with one commit for all that need no other treatment; results in the members' order."""
    results: dict[int, Result] = {}
    try:
        for policy in dict.fromkeys(member.policy for member in members):
            alike = {place: one for place, one in enumerate(members) if one.policy == policy}
            if len(alike) > 1:
                _append_like(latest, alike, results)
            # What did not fit in, or lost to another writer's commit, goes on alone and is told its own reason.
            for place in sorted(alike.keys() - results.keys()):
                results[place] = _alone(latest, alike[place])
    except (KeyboardInterrupt, SystemExit) as error:
        # They reach the thread that leads, whose own item is the first; the others' callers were not interrupted.
        results[0] = error
    return [results[place] if place in results else group_interrupted() for place in range(len(members))]


def _append_like(latest: Latest, members: dict[int, Member], results: dict[int, Result]) -> None:
    """Members of one overlap policy, as far as they can share a commit; an error of that is told to those it held, and to no one else."""
    lead = next(iter(members.values())).appender
    try:
        snapshot = lead.context.committer.refresh(latest()) if any(m.appender.operation for m in members.values()) else latest()
    except StoreError:
        return  # each finds out alone
    meta = snapshot.state.meta
    # In a unique table that allows overlaps, one member's rows may have keys of another's.
    if not lead.heeds(snapshot) or meta.schema is None or (meta.properties.unique and lead.on_overlap == "allow"):
        return
    try:
        if (merged := _merge(lead.stager(snapshot), snapshot, meta.schema, members)) is not None:
            results |= _commit_together(lead, snapshot, members, merged)
            return
    except Exception as error:  # noqa: BLE001  # their callers get it
        results |= dict.fromkeys(members, error)
        return
    settled, accepted = _accept(lead.stager(snapshot), snapshot, meta.schema, members)
    results |= settled
    if len(accepted) > 1:
        mine = {one.place: one.member for one in accepted}
        try:
            results |= _commit_together(lead, snapshot, mine, _together(lead, snapshot, accepted))
        except Exception as error:  # noqa: BLE001  # their callers get it
            results |= dict.fromkeys(mine, error)


def _merge(stager: Stager, snapshot: Snapshot[TableState], schema: pa.Schema, members: dict[int, Member]) -> Merged | None:
    """All members at once, where that says the same as looking at each; None where one must be told something of its own."""
    named = [operation_key(one.appender.operation) for one in members.values() if one.appender.operation is not None]
    if len(set(named)) < len(named) or any(_is_applied(snapshot, one) for one in members.values()):
        return None
    return merge(stager, [part for one in members.values() for part in one.parts], schema)


def _is_applied(snapshot: Snapshot[TableState], member: Member) -> bool:
    return ChangeOutcome.before(snapshot, member.appender.operation, APPEND) is not None


def _accept(
    stager: Stager, snapshot: Snapshot[TableState], schema: pa.Schema, members: dict[int, Member]
) -> tuple[dict[int, Result], list[_Accepted]]:
    """Check each member by itself: those with a result already, and those whose rows may be written together."""
    results: dict[int, Result] = {}
    accepted: list[_Accepted] = []
    types = entity_types(schema, snapshot.state.meta.index)
    taken = CoverageMap()
    named: set[str] = set()
    for place, member in members.items():
        operation = member.appender.operation
        name = None if operation is None else operation_key(operation)
        if (known := member.appender.known(snapshot)) is not None:
            results[place] = known
        elif name not in named:
            try:
                filtered = _filtered(stager, member, types, schema, taken)
            except (CoverageOverlap, DuplicateKey):
                continue  # it may be another member's rows, which may never be there, or its own: it is told alone
            except Exception as error:  # noqa: BLE001  # it is this member's own, and its caller gets it
                results[place] = error
                continue
            if filtered is not None:
                accepted.append(_Accepted(place, member, filtered))
                taken = taken.union(filtered.run.coverage)
                named |= set() if name is None else {name}
    return results, accepted


def _filtered(
    stager: Stager, member: Member, types: tuple[EntityType, ...], schema: pa.Schema, taken: CoverageMap
) -> Filtered | None:
    """The member's rows as one run; None where it changes the schema or holds no rows, which is done alone."""
    if stager.schema_for(member.parts) != schema:
        return None
    runs = list(stager.runs(member.parts, schema))
    if len(runs) != 1:
        return None
    filtered = stager.filter_covered(runs[0], types, also=taken)
    stager.check_keys(filtered.run, schema)
    return filtered


def _together(lead: Appender, snapshot: Snapshot[TableState], accepted: list[_Accepted]) -> Merged:
    """The accepted rows, sorted together."""
    rows = pa.concat_tables([one.filtered.run.table for one in accepted])
    run = sort_run(rows, snapshot.state.meta.index, lead.context.grid)
    return Merged(run=run, tallies=tuple(one.tally for one in accepted))


def _commit_together(
    lead: Appender, snapshot: Snapshot[TableState], members: dict[int, Member], merged: Merged
) -> dict[int, Result]:
    """One segment and one commit for all, results by place; nothing where another writer's commit clashes with any of them."""
    stager = lead.stager(snapshot)
    schema = snapshot.state.meta.schema
    assert schema is not None
    attempt = StagedWrite.begin_alone(lead.context.committer.env, snapshot.state)
    with attempt.discarded_on_error():
        stager.write(merged.run, attempt, entity_types(schema, snapshot.state.meta.index))
    operations = zip((one.appender.operation for one in members.values()), merged.tallies, strict=True)
    applied = tuple(SetTransaction(operation, tally) for operation, tally in operations if operation is not None)
    outcome = lead.commit(snapshot, stager.staged(attempt, schema, applied))
    if not isinstance(outcome, AppendReport):
        attempt.discard()
        return {}
    return {place: AppendReport.of(tally, outcome.version) for place, tally in zip(members, merged.tallies, strict=True)}


def _alone(latest: Latest, member: Member) -> Result:
    try:
        return member.appender.append(latest(), member.parts)
    except Exception as error:  # noqa: BLE001  # its caller gets it
        return error
