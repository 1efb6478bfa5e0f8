"""How many rows a scan gives, read of as little as tells."""

from __future__ import annotations

from dataclasses import replace

from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.model.stats import ColumnStats
from gapless.parquet.scan import ReadPlan, planned_pieces, read_tables
from gapless.scan.plan import stats_of
from gapless.scan.prune import ALWAYS, StatsOf, asking


def count_rows(store: Store, plan: ReadPlan) -> int:
    """The number of rows that `scan.read` gives for a plan; raises as that does.

    Of segments whose rows the filters keep all, by the log, nothing is read; of others the footer, the columns that the filters name, and
    of these no row group that they keep or leave as a whole.
    """
    plan = replace(plan, columns=())
    segments = [segment for group in plan.groups for segment in group.segments]
    ask = asking(plan.predicate, plan.schema)
    sure = [s for s in segments if plan.expression is None and ask(_certain_stats(s, plan), s.rows) == ALWAYS]
    known = {segment.path for segment in sure}
    open_ends = [segment for segment in segments if segment.path not in known]
    pieces = list(planned_pieces(store, open_ends, plan, plan.fetched(sort=False)))
    told = sum(piece.rows for piece in pieces if piece.certain)
    unsure = (piece for piece in pieces if not piece.certain)
    read = sum(int(table.num_rows) for table in read_tables(store, unsure, plan, sort=False))
    return sum(segment.rows for segment in sure) + told + read


def _certain_stats(segment: Segment, plan: ReadPlan) -> StatsOf:
    """The log's statistics; with the knowledge that segments of ours, which have checksums of their footers, lack no index value."""
    stats = stats_of(segment, plan.index, plan.ids)
    if segment.footer_checksum is None:
        return stats

    def known(name: str) -> ColumnStats | None:
        found = stats(name)
        return replace(found, nulls=0) if found is not None and name == plan.index.column else found

    return known
