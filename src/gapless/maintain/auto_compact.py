"""Compaction after appends, as a table's properties ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.dialects.timeseries.actions import TableState
from gapless.log.dialect import Snapshot
from gapless.maintain.compact import Compactor
from gapless.maintain.compact_options import TARGET_BYTES, CompactOptions
from gapless.maintain.compact_plan import CompactionPlan
from gapless.model.properties import Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCompaction:
    """When to compact, and what that may cost."""

    segments: int
    """Small segments that may gather; at least 1."""
    options: CompactOptions

    @classmethod
    def of(cls, properties: Properties) -> AutoCompaction | None:
        """What the properties ask for; None where that is nothing."""
        if not properties.auto_compact_segments:
            return None
        budget = properties.auto_compact_bytes
        return cls(
            segments=properties.auto_compact_segments,
            options=CompactOptions(target_size=min(TARGET_BYTES, budget), max_bytes=budget),
        )

    def is_due(self, before: int, now: int) -> bool:
        """Whether to look at the segments after a move from version `before` to `now`.

        So rarely that what looking costs, which grows with the table, is shared by half as many appends as segments may gather.
        """
        every = max(1, self.segments // 2)
        return now // every > before // every

    def run(self, compactor: Compactor, snapshot: Snapshot[TableState]) -> list[str]:
        """Compact if more small segments gathered than may; returns what is wrong with segments. Raises as `Compactor.compact`."""
        if _gathered(compactor.plan(snapshot)) <= self.segments:
            return []
        return [one.why for one in compactor.compact(snapshot).given_up if not one.overtaken]


def _gathered(plan: CompactionPlan) -> int:
    """How many segments a compaction without a budget would take up."""
    return plan.segments + sum(rest == "left for later" for rest in plan.left.values())
