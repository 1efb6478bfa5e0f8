"""Where the consumers of a group stand: in memory, in the log of a Delta table, or in a checkpoint store."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gapless.connect.checkpoint_store import Checkpoint, CheckpointStore
from gapless.connect.sources.protocol import Cursor
from gapless.errors import InvalidOption
from gapless.model.operation import SequenceId
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.table import DeltaTable


class Offsets(ABC):
    """The place of the record that a group reads next."""

    @abstractmethod
    def load(self, group: str) -> int | None:
        """What was saved last; None where nothing was."""

    @abstractmethod
    def save(self, group: str, seq: int) -> None:
        """Save a place; it may be before the one that was saved last."""


class MemoryOffsets(Offsets):
    """As long as the object lives."""

    def __init__(self) -> None:
        self._saved: dict[str, int] = {}

    def load(self, group: str) -> int | None:
        """See `Offsets.load`."""
        return self._saved.get(group)

    def save(self, group: str, seq: int) -> None:
        """See `Offsets.save`."""
        self._saved[group] = seq


class DeltaOffsets(Offsets):
    """In the log of a Delta table, as transactions of the application `gapless.cdc/<group>/<n>`, which survive its log checkpoints.

    Versions of an application only grow: to go back a group gets the next number. Of two consumers of one group the one that is further wins.
    """

    def __init__(self, table: DeltaTable) -> None:
        """In this table, such as `ChangeLog.table`, or the one that the consumer's handler writes into."""
        self._table = table

    def load(self, group: str) -> int | None:
        """See `Offsets.load`. Raises CorruptTable, StoreError."""
        return self._newest(group)[1]

    def save(self, group: str, seq: int) -> None:
        """See `Offsets.save`. Raises CommitConflict, CommitOutcomeUnknown, UnsupportedTable, StoreError."""
        number, saved = self._newest(group)
        if saved is not None and seq < saved:
            number += 1
        if saved != seq:
            rows = self._table.schema.empty_table()
            self._table.append(rows, operation_id=(_application(group, number), seq))

    def _newest(self, group: str) -> tuple[int, int | None]:
        state = context_of(self._table).refresh().state
        number, saved = 0, None
        while (known := state.recognise(SequenceId(_application(group, number), 0))) is not None:
            assert isinstance(known.operation, SequenceId)
            number, saved = number + 1, known.operation.sequence
        return max(number - 1, 0), saved


class CheckpointOffsets(Offsets):
    """In a checkpoint store, one a group: each save is a checkpoint that is decided. Of two consumers at once one is refused."""

    def __init__(self, store: CheckpointStore) -> None:
        """In this store, which nothing else uses."""
        self._store = store
        self._next: int | None = None

    def load(self, group: str) -> int | None:
        """See `Offsets.load`; from now on consumers that loaded before cannot save. Raises InvalidOption for a store of others, StoreError."""
        found = self._store.recover()
        self._next = found.next_id
        if found.decided is None:
            return None
        cursor = found.decided.cursor
        if cursor.source != _KIND or cursor.state.get("group") != group:
            raise InvalidOption(
                f"the checkpoint store {self._store.url} is not that of the group {group!r}",
                why=f"Its newest checkpoint is of {cursor.source!r}, {dict(cursor.state)!r}",
                fix="Give each group a folder of its own",
                option="offsets",
                value=self._store.url,
            )
        return int(cursor.state["seq"])

    def save(self, group: str, seq: int) -> None:
        """See `Offsets.save`. Raises CommitConflict where another consumer of the group was first, StoreError."""
        if self._next is None:
            self.load(group)
        assert self._next is not None
        cursor = Cursor(source=_KIND, state={"group": group, "seq": seq})
        checkpoint = Checkpoint(id=self._next, cursor=cursor, prepared={})
        self._store.record(checkpoint)
        self._store.decide(checkpoint)
        self._store.finish(checkpoint)
        self._next += 1


_KIND = "cdc"


def _application(group: str, number: int) -> str:
    return f"gapless.cdc/{group}/{number}"
