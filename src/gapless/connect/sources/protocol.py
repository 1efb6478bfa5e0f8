"""The contract of a source that is read incrementally, and how far one has come."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from gapless.errors import InvalidOption, NotSupported


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCapabilities:
    """What a source declares; `gapless.testing.SourceContract` tests it."""

    replays: bool
    """It can start again at any cursor that it gave: without it there is no exactly-once."""
    retracts: bool
    """It may tell that rows were changed or removed, in a column `_change_type`: a sink that appends cannot take that."""
    bounded: bool = False
    """It ends: what there is to read is fixed when it starts, and then it is `ended`. One that is not follows what comes."""
    evolves: bool = False
    """Its `schema` may change between polls: see `Polled.schema_changed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a source has come. Stored only with a checkpoint that has its rows."""

    source: str
    """The kind of source that understands it."""
    state: Mapping[str, Any]
    """JSON: what it needs to go on."""
    table_version: int | None = None
    """Of a table: the version that is being read, or is read next."""
    files_processed: int = 0
    """How many files were read, where the source counts them."""
    timestamp: datetime | None = None
    """Commit time of the last rows, in UTC, where there is one."""

    def to_json(self) -> str:
        """As text, for a checkpoint."""
        told = None if self.timestamp is None else self.timestamp.isoformat()
        body = {"source": self.source, "state": dict(self.state), "table_version": self.table_version}
        return json.dumps({**body, "files_processed": self.files_processed, "timestamp": told}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """Read it back; raises InvalidOption for what is no cursor."""
        try:
            body = json.loads(text)
            told = body["timestamp"]
            return cls(
                source=body["source"],
                state=dict(body["state"]),
                table_version=body["table_version"],
                files_processed=body["files_processed"],
                timestamp=None if told is None else datetime.fromisoformat(told),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidOption(
                f"{str(text)[:200]!r} is no cursor",
                why=f"{type(error).__name__}: {error}",
                fix="Pass what a source's cursor gave as to_json()",
                option="cursor",
                value=text,
            ) from error


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll gave."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    schema_changed: bool = False
    """The rows that come next have other columns: those of the source's `schema` from now on. These, perhaps none, are the last before."""

    @property
    def rows(self) -> int:
        """How many rows."""
        return sum(batch.num_rows for batch in self.batches)

    def __len__(self) -> int:
        """How many batches."""
        return len(self.batches)

    def __bool__(self) -> bool:
        """Whether it says anything: rows, or that the columns change."""
        return bool(self.batches) or self.schema_changed

    def __getitem__(self, number: int) -> pa.RecordBatch:
        """One of the batches."""
        return self.batches[number]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches."""
        return iter(self.batches)


class Source(ABC):
    """Gives rows from where it was started: `start`, then `poll` again and again. Not for several threads at once."""

    @property
    @abstractmethod
    def capabilities(self) -> SourceCapabilities:
        """What it declares."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows that the next poll gives."""

    @abstractmethod
    def start(self, cursor: Cursor | None = None) -> None:
        """Begin, or begin again: at a cursor it gave, or where its options say."""

    @abstractmethod
    def poll(self, limit: int | None = None) -> Polled:
        """The next rows, at most `limit` of them, all there are now where None; no rows where there are none yet."""

    @property
    @abstractmethod
    def cursor(self) -> Cursor:
        """How far it has come: after the rows of the last poll."""

    @property
    def ended(self) -> bool:
        """Whether no rows come any more, whatever is committed. Always False for one that follows what comes."""
        return False

    def acknowledge(self, checkpoint_id: int) -> None:  # noqa: B027  # most sources have nothing to let go of
        """A checkpoint with all rows up to the cursor that it stored is committed: what is before may be forgotten."""

    def close(self) -> None:  # noqa: B027  # most sources hold nothing
        """Let go of what it holds."""

    def __enter__(self) -> Self:
        """Itself; `close` comes at the end of the block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close it."""
        self.close()

    def poll_next(self, limit: int | None = None) -> Polled:
        """Another name of `poll`."""
        return self.poll(limit)

    @property
    def current_checkpoint(self) -> Cursor:
        """Another name of `cursor`."""
        return self.cursor

    def commit(self, checkpoint_id: int) -> None:
        """Another name of `acknowledge`."""
        self.acknowledge(checkpoint_id)


def check_limit(limit: object) -> None:
    """Raise InvalidOption for what is no number of rows to poll."""
    if limit is not None and (type(limit) is not int or limit < 1):
        raise InvalidOption(
            f"limit={limit!r} is no number of rows", fix="Pass 1 or more, or None for all", option="limit", value=limit
        )


def refuse_pickling() -> NotSupported:
    """The error for a source that is at work, and to be pickled or copied."""
    return NotSupported(
        "a source that is started can be neither pickled nor copied",
        why="It is in the middle of reading",
        fix="Send its cursor, and make it in the other process: gl.connect.source(…), then start(cursor)",
        feature="pickling of a source at work",
    )
