"""Pipelines of a simulation and what their processes do, as values; what came of it, for the auditor."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from gapless.connect import PreparedCommit
from gapless.testing.simulation.tasks import (
    BUCKET_WIDTH,
    Appending,
    Changing,
    History,
    Intent,
    Overwriting,
    Row,
    Upserting,
)

Mode = Literal["append", "upsert", "cdc", "delete", "overwrite"]
"""What a sink does with rows."""
Act = Literal["prepare", "finalize", "abort"]
"""What is done by hand."""
SHIFT = 10**9
"""What is added to a row's number for each pipeline, whose rows are so told from those of others in one sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline from the source's table into the sink's, as it was made once."""

    name: str
    lane: int
    """From 1; its rows are marked with it."""
    mode: Mode = "append"
    start: Any = None
    checkpoint_rows: int = 1_000
    generation: int = 1
    spill_bytes: int = 1 << 20
    max_backlog: int = 4

    @property
    def entities(self) -> tuple[str, ...]:
        """Those of its rows in the sink."""
        return tuple(f"{self.lane}{entity}" for entity in "xy")

    @property
    def initial(self) -> tuple[Row, ...]:
        """The rows in the sink before it runs: what a pipeline may delete that only deletes."""
        if self.mode != "delete":
            return ()
        places = [BUCKET_WIDTH * bucket + spot for bucket in range(4) for spot in range(3)]
        keys = [(at, entity) for entity in self.entities for at in places]
        return tuple((*key, (self.lane + 1) * SHIFT - 1 - n) for n, key in enumerate(keys))

    @property
    def app(self) -> str:
        """What the sink's log calls its commits."""
        return f"{self.name}/main#{self.generation}"

    @property
    def folder(self) -> str:
        """Where its checkpoints lie."""
        return f"checkpoints/{self.name}-{self.generation}"

    def marked(self, row: Row) -> Row:
        """A row of the source as it is in the sink."""
        at, entity, number = row
        return at, f"{self.lane}{entity}", number + self.lane * SHIFT

    def own(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """Of the sink's rows those that it brought."""
        return tuple(row for row in rows if row[1].startswith(str(self.lane)))

    def applied(self, before: Counter[Row], rows: Counter[Row]) -> Counter[Row]:
        """Its rows once further ones came, of which no two have one key."""
        if self.mode in ("append", "overwrite"):
            return before + rows
        keys = {row[:2] for row in rows}
        puts = Counter({row: count for row, count in rows.items() if not removes(self.mode, row)})
        return Counter({row: count for row, count in before.items() if row[:2] not in keys}) + puts


def removes(mode: Mode, row: Row) -> bool:
    """Whether a row says that the one of its key goes."""
    return mode == "delete" or (mode == "cdc" and row[2] % 3 == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPipeline:
    """Run it until there is nothing for now, or so many checkpoints were made."""

    pipeline: Pipeline
    checkpoints: int | None = None
    operation_id: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHand:
    """Prepare, finalize or abort a commit by hand, whatever others do with it at the moment."""

    act: Act
    number: int
    """Of the prepared commit: each is of a sink of its own."""
    mode: Mode
    rows: tuple[Row, ...] = ()

    @property
    def name(self) -> str:
        """Of the sink."""
        return f"hand{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRows:
    """What a process prepared."""

    rows: tuple[Row, ...]
    start: dict[str, Any] | None
    """Where its source began, if without a cursor."""
    mode: Mode
    entities: tuple[str, ...] = ()
    """What an overwrite takes the place of."""

    @property
    def intent(self) -> Intent:
        """The change that its finalization is."""
        if self.mode == "upsert":
            return Upserting(rows=tuple({row[:2]: row for row in self.rows}.values()))
        if self.mode in ("cdc", "delete"):
            return Changing(rows=self.rows, removes=frozenset(row[2] for row in self.rows if removes(self.mode, row)))
        if self.mode == "overwrite":
            return Overwriting(rows=self.rows, entities=self.entities)
        return Appending(rows=self.rows, on_overlap="allow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of a pipeline, or one act by hand."""

    actor: str
    task: RunPipeline | ByHand
    answer: Any = None
    """What it gave; None where it raised."""
    error: BaseException | None = None


@dataclass(slots=True)
class PipelineHistory(History):
    """What happened in the sink's table, and all that pipelines did."""

    ran: list[Ran] = field(default_factory=list)
    prepared: dict[str, PreparedRows] = field(default_factory=dict)
    """By the attempt."""
    handed: dict[int, PreparedCommit] = field(default_factory=dict)
    """Prepared by hand, by their number."""
