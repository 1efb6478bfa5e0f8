"""Consumers of a log of change records: from a place on, in commit order, with their place saved by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gapless import documents
from gapless.cdc.change_log import ChangeLog, LogReader
from gapless.cdc.offsets import MemoryOffsets, Offsets
from gapless.cdc.record import OPERATIONS, Record
from gapless.connect.sources.protocol import check_limit
from gapless.errors import InvalidOption, one_of

_FIELDS = ("_id", "_op", "_before", "_after", "_ts", "_txn")


def subscribe(
    changes: ChangeLog,
    *,
    group: str = "default",
    offsets: Offsets | None = None,
    from_seq: int | None = None,
    from_time: object = None,
    operations: Iterable[str] = OPERATIONS,
    where: Callable[[Record], bool] | Mapping[str, Any] | None = None,
    auto_commit: bool = False,
) -> Consumer:
    """A consumer of a log.

    Args:
        changes: What `gl.cdc.log` gave.
        group: Consumers of one name have one saved place.
        offsets: Where that is saved: `MemoryOffsets` (the default), `DeltaOffsets` or `CheckpointOffsets`.
        from_seq: Where a group without a saved place begins: at this `_seq`; without it and `from_time` at the log's first record.
        from_time: Instead: at what was committed then or later: an aware datetime, or an ISO text with an offset.
        operations: Of which kinds records are given, such as ("c", "d").
        where: Which of them: a function of the record, or a filter of MongoDB's over its fields, such as `{"_after.total": {"$gte": 10}}`
            (`gapless[documents]`). Records that are left out move the place as others do.
        auto_commit: Whether `poll` first saves the place behind the records that the poll before gave.

    Raises InvalidOption, InvalidTime, InvalidFilter, NotSupported; VersionNotFound where the log of the table was cleaned past the place; StoreError.
    """
    wanted = frozenset(one_of("operations", one, OPERATIONS) for one in operations)
    name: object = group
    if not (isinstance(name, str) and name and "/" not in name):
        raise InvalidOption(
            f"group={group!r} names no group",
            why="It is a text that is not empty, without /",
            fix='Pass group="billing"',
            option="group",
            value=group,
        )
    if from_seq is not None and from_time is not None:
        raise InvalidOption(
            "from_seq and from_time both say where to begin",
            why="A consumer begins at one place",
            fix="Pass one of them",
            option="from_time",
            value=from_time,
        )
    saved = MemoryOffsets() if offsets is None else offsets
    place = saved.load(group)
    if place is None:
        place = changes.seq_at(from_time) if from_time is not None else 0 if from_seq is None else from_seq
    chosen = _matching(where) if isinstance(where, Mapping) else where
    return Consumer(changes, (group, saved), (wanted, chosen), begin=place, auto_commit=auto_commit)


def _matching(filter_: Mapping[str, Any]) -> Callable[[Record], bool]:
    """Whether a record matches a filter of MongoDB's. Raises InvalidFilter, and NotSupported where its library is not installed."""
    matches = documents.matcher(filter_)
    matches({})  # what no record has an answer to is told now

    def chosen(record: Record) -> bool:
        body = {name: getattr(record, name) for name in _FIELDS}
        return matches({**body, "_seq": list(record.order), "_source": record._source.body})

    return chosen


class Consumer:
    """Gives each record of a log once, in commit order; after a crash again those behind the saved place. Not for several threads at once."""

    def __init__(
        self,
        changes: ChangeLog,
        saved: tuple[str, Offsets],
        wanted: tuple[frozenset[str], Callable[[Record], bool] | None],
        *,
        begin: int,
        auto_commit: bool,
    ) -> None:
        """Use `subscribe`."""
        self._log, (self._group, self._offsets), (self._operations, self._where) = changes, saved, wanted
        self._auto_commit = auto_commit
        self._reader = LogReader(changes)
        self._reading: Iterator[Record] | None = None
        self._position = begin
        self.seek(begin)
        self._passed = False

    @property
    def position(self) -> int:
        """The place that is read next: behind all records that were given or left out."""
        return self._position

    def poll(self, limit: int | None = None) -> list[Record]:
        """The next records, at most `limit` of them, all there are now where None; none where there are none yet.

        After an error it stands where it was. Raises InvalidOption, VersionNotFound where versions or their files are gone, CorruptTable,
        StoreError, and what saving raises.
        """
        check_limit(limit)
        if self._auto_commit:
            self.commit()
        begun, passed = self._position, self._passed
        found: list[Record] = []
        try:
            while limit is None or len(found) < limit:
                if self._reading is None:
                    self._reading = self._reader.records(self._position, self._stand)
                record = next(self._reading, None)
                if record is None:
                    self._reading = None
                    break
                # Behind it as soon as it was read, whether it is given or left out.
                self._position, self._passed = record.order[0] + 1, True
                if record._op in self._operations and (self._where is None or self._where(record)):
                    found.append(record)
        except BaseException:
            self._position, self._passed, self._reading = begun, passed, None
            raise
        return found

    def run(self, handler: Callable[[Record], Any], *, limit: int = 1000) -> int:
        """Call a handler with each record that is there now, and save the place behind it after each `limit` and at the end.

        How many there were. Where the handler fails it stands at that record; where the process fails, records behind the saved place come
        again. Raises what the handler does, and as `poll` and `commit`.
        """
        count = 0
        while records := self.poll(limit):
            for record in records:
                try:
                    handler(record)
                except BaseException:
                    self._position, self._reading = record.order[0], None
                    raise
            count += len(records)
            self.commit()
        self.commit()
        return count

    def commit(self) -> None:
        """Save the place behind all records that were given: the group goes on there, in whichever process.

        Nothing is saved where no record was passed since. Raises what its offsets raise, such as CommitConflict, StoreError.
        """
        if self._passed:
            self._offsets.save(self._group, self._position)
            self._passed = False

    def seek(self, seq: int) -> None:
        """Go on at a place, forward or back; it is saved by the next `commit`. Raises InvalidOption, VersionNotFound, StoreError."""
        if type(seq) is not int or seq < 0:
            raise InvalidOption(
                f"{seq!r} is no place in a log",
                why="It is the _seq of a record, or a consumer's position",
                fix="Pass record._seq",
                option="from_seq",
                value=seq,
            )
        place = self._reader.begin(seq)
        self._position, self._reading, self._passed = place, None, True

    def seek_to_time(self, time: object) -> None:
        """Go on at the first record that was committed at a time or later. Raises InvalidTime, VersionNotFound, StoreError."""
        self.seek(self._log.seq_at(time))

    def reset(self) -> None:
        """Go back to the first record of the log. Raises VersionNotFound where it can be told no longer, StoreError."""
        self.seek(0)

    def _stand(self, place: int) -> None:
        self._position = max(self._position, place)
