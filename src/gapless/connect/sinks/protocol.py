"""The contract of a sink with two-phase commit, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import pyarrow as pa

from gapless.tables.shared.prepared import PreparedCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCapabilities:
    """What a sink declares; `gapless.testing.SinkContract` tests it."""

    modes: frozenset[str]
    """The changes that it makes of rows: "append", "upsert", "overwrite", "delete", "cdc"."""
    takes_changes: bool = False
    """Rows may say in a column `_change_type` that others were changed or removed, as a source's on_change="tell" gives them."""
    exactly_once: bool = True
    """`finalize` of one prepared commit changes the target once, whoever calls it, and how often."""
    prepared_is_durable: bool = True
    """A prepared commit can be finalized by another process, after a crash of this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """A finalized checkpoint."""

    checkpoint_id: int
    version: int
    """The table's version that holds it; the newest one where it had no rows."""
    commit_timestamp: datetime | None
    """When that was committed, in UTC; None where the log is cleaned past it."""
    already_committed: bool = False
    """Whether an earlier `finalize` had committed it."""
    late_rows: int = 0
    """How many rows were left out, since a newer row of their key was there before them: in the table, or in the checkpoint; not counted are
    those that a newer one of the checkpoint followed. With key="*": how many removals met no such row. Of a checkpoint that was committed before, 0 where the log does not tell it any more.
    """
    skipped_rows: int = 0
    """How many rows of an append with `on_overlap="skip"` were left out, since their buckets were covered. As `late_rows` where it was committed
    before.
    """


class Sink(ABC):
    """Takes rows into a target, once: `initialize`, `write` any number of times, `prepare`, `finalize`; then rows of the next checkpoint.

    What `prepare` gives is kept by the caller, who decides: `finalize` it, from any process, or `abort` it. Between the two the rows are
    durable and cannot be seen. Not for several threads at once.
    """

    @property
    @abstractmethod
    def capabilities(self) -> SinkCapabilities:
        """What it declares."""

    @abstractmethod
    def initialize(self, schema: pa.Schema) -> None:
        """Get ready for rows of these columns. Raises before the first row what such rows deserve.

        Again where the columns change: after `prepare`, before the next `write`; with other columns while rows wait to be prepared it is
        refused. What was prepared is not touched.
        """

    @abstractmethod
    def write(self, batch: object) -> int:
        """Take rows, in what `table.append` takes; how many. Raises DataError for rows that do not fit: none of them is taken then."""

    @abstractmethod
    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        """Make the rows since the last `prepare` durable, as one commit to come. After an error they are still there, to be prepared again."""

    @abstractmethod
    def finalize(self, prepared: PreparedCommit) -> CommitInfo:
        """Commit it, once and for ever: where it was committed, by whomever, it only says so. Beside an `abort` of it, one of the two wins."""

    @abstractmethod
    def abort(self, prepared: PreparedCommit | None = None) -> bool:
        """Remove the files of a prepared commit, or of what was written and not prepared; False where it was committed, which stays."""

    @abstractmethod
    def pending(self) -> list[PreparedCommit]:
        """What this sink, in this process or another, has prepared and neither finalized nor aborted, by checkpoint."""

    def last_committed(self) -> int | None:
        """The highest checkpoint that its target has, by whichever process; None where there is none, or the target does not say."""
        return None

    def close(self) -> None:
        """Give up rows that were not prepared; prepared commits stay."""
        self.abort(None)

    def __enter__(self) -> Self:
        """Itself; `close` comes at the end of the block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close it."""
        self.close()

    def write_batch(self, batch: object) -> int:
        """Another name of `write`."""
        return self.write(batch)

    def prepare_commit(self, checkpoint_id: int) -> PreparedCommit:
        """Another name of `prepare`."""
        return self.prepare(checkpoint_id)

    def finalize_commit(self, prepared: PreparedCommit) -> CommitInfo:
        """Another name of `finalize`."""
        return self.finalize(prepared)
