"""Read the parts of a log checkpoint, and recover a lost one from the commits or from other checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapless.errors import CorruptTable, TableError
from gapless.formats.timeseries.actions import AddSegment, Commit, LiveSegment, RemoveSegment, TableState
from gapless.formats.timeseries.checkpoint.part import PartRef, PartRows, decode_part, encode_part
from gapless.formats.timeseries.checkpoint.segments import PartRequest
from gapless.formats.timeseries.replay import LiveSegments
from gapless.formats.timeseries.segment_coverage import repair_command
from gapless.log.effects import Concurrently, Conversation, Drive, Get, GetDrive, GetUrl, T, Warn, perform
from gapless.log.format import Snapshot, TableFormat
from gapless.log.segment import list_log, read_commits
from gapless.model.segment import check

Log = TableFormat[Commit, TableState]


def read_parts(table_format: Log, drive: Drive | None, wanted: Sequence[PartRequest]) -> list[PartRows]:
    """What parts hold, but perhaps for the ordinals that are gone. Raises CorruptTable where nothing tells it, StoreError."""
    if drive is None:
        raise _lost(wanted[0][0], "Nothing was given to read it with")
    rows: list[PartRows] = drive(_read(table_format, wanted, alone=isinstance(drive, _Alone)))
    return rows


@dataclass(frozen=True, slots=True)
class _Alone:
    """Reads as `drive` does, and tells `read_parts` to take nothing but the part itself: else one that is lost could be looked for
    in what needs another that is lost.
    """

    drive: Drive

    def __call__(self, conversation: Conversation[T]) -> T:
        answer: T = self.drive(conversation)
        return answer


def _read(table_format: Log, wanted: Sequence[PartRequest], *, alone: bool) -> Conversation[list[PartRows]]:
    answers = yield from perform(Concurrently(tuple(Get(ref.path) for ref, _ in wanted)))
    found: list[PartRows] = []
    for (ref, gone), data in zip(wanted, answers, strict=True):
        rows = decode_stored(ref, data)
        if isinstance(rows, str):
            if alone:
                raise _lost(ref, rows)
            rows = yield from _recovered(table_format, ref, gone, rows)
        found.append(rows)
    return found


def decode_stored(ref: PartRef, data: bytes | None) -> PartRows | str:
    """A part as it lies in the store (None: it does not), or what is the matter with it."""
    if data is None:
        return f"the part {ref.path} of a log checkpoint is missing"
    try:
        check(data, ref.checksum, ref.path)
        return decode_part(data, ref.path)
    except CorruptTable as error:
        return error.what


def _recovered(table_format: Log, ref: PartRef, gone: frozenset[int], what: str) -> Conversation[PartRows]:
    known = yield from rows_of_commits(table_format, ref)
    if known is not None:
        command = repair_command((yield from perform(GetUrl())))
        yield from perform(Warn(f"{what}; the commits serve instead, and `{command}` makes it again"))
    else:
        known = yield from _rows_of_checkpoints(table_format, ref, gone)
        if known is not None:
            yield from perform(Warn(f"{what}; other log checkpoints serve instead"))
    if known is None:
        raise _lost(ref, "The log was cleaned of the commits that it stood for, and no other checkpoint tells what they did")
    return PartRows.recovered(known, ref.path, ref.segments)


def rows_of_commits(table_format: Log, ref: PartRef) -> Conversation[dict[int, LiveSegment] | None]:
    """All that a part held, by ordinal, from the commits that it stands for; None where those cannot be read."""
    try:
        entries = yield from read_commits(table_format, range(ref.start, ref.written + 1))
    except TableError:
        return None
    live: dict[str, LiveSegment] = {}
    for version, commit, _ in entries:
        _follow(live, commit, version, ref)
    return dict(enumerate(live.values())) if len(live) == ref.segments else None


def _follow(live: dict[str, LiveSegment], commit: Commit, version: int, ref: PartRef) -> None:
    """What a commit does to the segments of a part's versions."""
    for action in commit.actions:
        match action:
            case AddSegment(segment) if version <= ref.end:
                live[segment.path] = LiveSegment(segment, version)
            case RemoveSegment(path):
                live.pop(path, None)


def remade(table_format: Log, ref: PartRef) -> Conversation[bytes | None]:
    """A part's bytes, made again from the commits that it stands for; None where those are gone, or it would not have its checksum."""
    rows = yield from rows_of_commits(table_format, ref)
    if rows is None:
        return None
    again, data = encode_part(ref.path, list(rows.values()), ref.written)
    return data if again.checksum == ref.checksum else None


def _rows_of_checkpoints(table_format: Log, ref: PartRef, gone: frozenset[int]) -> Conversation[dict[int, LiveSegment] | None]:
    """What is left of a part, by ordinal, from a log checkpoint that does not name it and the commits after; None where none tells."""
    for stored in reversed((yield from list_log(table_format)).checkpoints):
        data = yield from perform(Get(stored.paths[0]))
        drive = yield from perform(GetDrive())
        try:
            snapshot = table_format.assemble((data or b"",), stored, _Alone(drive))
            left = yield from _left_of(table_format, snapshot, ref, ref.segments - len(gone))
        except TableError:
            continue
        if left is not None:
            kept = (ordinal for ordinal in range(ref.segments) if ordinal not in gone)
            return dict(zip(kept, left.values(), strict=True))
    return None


def _left_of(
    table_format: Log, snapshot: Snapshot[TableState], ref: PartRef, count: int
) -> Conversation[dict[str, LiveSegment] | None]:
    """The `count` segments of a part that were left once so many were: by a snapshot that does not need it, and the commits after."""
    live = snapshot.state.live
    if not isinstance(live, LiveSegments) or ref.name in table_format.parts_of(snapshot):
        return None
    left = {one.segment.path: one for one in live.of_versions(ref.start, ref.end)}
    version = snapshot.version
    while version < ref.written or len(left) > count:
        version += 1
        data = yield from perform(Get(table_format.path_of(version)))
        if data is None:
            return None
        _follow(left, table_format.decode(data, version)[0], version, ref)
    return left if len(left) == count else None


def _lost(ref: PartRef, why: str) -> CorruptTable:
    return CorruptTable(
        f"the part {ref.path} of a log checkpoint cannot be read",
        why=f"{why}; it told which segments the versions {ref.start} to {ref.end} made live",
        fix=(
            "Open the table again, for a newer log checkpoint may not need it; where that does not help, bring the file back from a"
            " backup: `gapless repair` has nothing else to make it from"
        ),
        path=ref.path,
    )
