"""Encode and decode time-series log checkpoints: Parquet, one row for each thing that a snapshot holds.

Live segments that lie in parts have no rows, but each part has one. Key-value metadata carry the version, its commit time and a checksum over
all rows, so that damage anywhere is found. Loose segments become a part once there are enough of them; parts are rewritten only where most of
what was in them is gone. So what a checkpoint writes grows with what changed, and not with the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.formats.timeseries.actions import Applied, LiveSegment, Removed, TableState
from gapless.formats.timeseries.checkpoint.part import PartRef, PartRows, decode_ref, encode_part, encode_ref
from gapless.formats.timeseries.checkpoint.segments import CheckpointPart, CheckpointSegments, PartIndex, ReadParts
from gapless.formats.timeseries.codec.json_values import decode_operation, encode_operation, json_of
from gapless.formats.timeseries.codec.metadata import decode_meta, encode_meta
from gapless.formats.timeseries.codec.segment import decode_segment, encode_segment
from gapless.formats.timeseries.replay import Draft, LiveSegments
from gapless.log.format import Packed, Snapshot
from gapless.model.instant import NS_PER_DAY
from gapless.model.operation import JobId, operation_key
from gapless.model.segment import relative_path

PLAIN, IN_PARTS = "1", "2"
"""The format of a checkpoint that names no part, and of one that does."""
_SCHEMA = pa.schema(
    [
        pa.field("action", pa.string(), nullable=False),  # meta, part, inlined, segment, operation, removed, tag, expired
        pa.field("version", pa.int64(), nullable=False),  # the commit that said so
        pa.field("time_ns", pa.int64(), nullable=False),  # its commit time; 0 for segments
        pa.field("body", pa.string(), nullable=False),  # the action's body
    ]
)
_Row = tuple[str, int, int, str]


def encode_checkpoint(snapshot: Snapshot[TableState], segments: CheckpointSegments) -> bytes:
    """The snapshot's bytes, its live segments being `segments`; ids of jobs older than the table's retention are left out."""
    rows = list(_rows(snapshot, segments))
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    about = {
        "gapless.checkpoint": IN_PARTS if segments.index.parts else PLAIN,
        "gapless.version": str(snapshot.version),
        "gapless.time_ns": str(snapshot.time_ns),
        "gapless.checksum": _digest(snapshot.version, snapshot.time_ns, rows),
    }
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(columns, schema=_SCHEMA.with_metadata(about))
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def decode_checkpoint(data: bytes, version: int, path: str, read: ReadParts) -> Snapshot[TableState]:
    """The snapshot that a checkpoint holds, whose parts are read when they are needed.

    Raises CorruptTable for anything but the bytes that were written.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(use_threads=False)
        about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        rows: list[_Row] = list(zip(*(table.column(name).to_pylist() for name in _SCHEMA.names), strict=True))
        time_ns = int(about["gapless.time_ns"])
        _check(about, version, _digest(version, time_ns, rows))
        return Snapshot(version, time_ns, _state_of(rows, version, read))
    except (UnsupportedTable, CorruptTable):
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise CorruptTable(
            f"the log checkpoint {path} cannot be read: {type(error).__name__}: {error}",
            why="It is torn or altered, or of a format this release does not know",
            fix="Remove it; the log is read without it",
            path=path,
        ) from error


def _rows(snapshot: Snapshot[TableState], segments: CheckpointSegments) -> Iterator[_Row]:
    state = snapshot.state
    yield "meta", snapshot.version, snapshot.time_ns, json_of(encode_meta(state.meta))
    for number, part in enumerate(segments.index.parts):
        yield "part", part.ref.written, 0, json_of(encode_ref(part.ref, segments.gone.get(number, ())))
    if inlined := state.inlined_bytes - sum(live.segment.inlined_bytes for live in segments.loose.values()):
        yield "inlined", snapshot.version, 0, json_of({"bytes": inlined})
    for live in segments.loose.values():
        yield "segment", live.version, 0, json_of(encode_segment(live.segment))
    horizon_ns = snapshot.time_ns - state.meta.properties.operation_retention_days * NS_PER_DAY
    for known in state.applied.values():
        if not isinstance(known.operation, JobId) or known.time_ns >= horizon_ns:
            yield "operation", known.version, known.time_ns, json_of(encode_operation(known.operation, known.tally, known.kind))
    for gone in state.removed.values():
        yield "removed", gone.removed, gone.removed_ns, json_of(_encode_removed(gone))
    for name, version in state.tags.items():
        yield "tag", version, 0, json_of({"name": name})
    if state.earliest > 1:
        yield "expired", state.earliest, 0, "{}"


def _encode_removed(gone: Removed) -> dict[str, object]:
    return {"path": gone.path, "sidecars": list(gone.sidecars), "size": gone.size, "rows": gone.rows, "added": gone.added}


def _decode_removed(body: dict[str, Any], version: int, time_ns: int) -> Removed:
    return Removed(
        path=relative_path(body["path"]),
        sidecars=tuple(relative_path(path) for path in body["sidecars"]),
        size=body["size"],
        rows=body["rows"],
        added=body["added"],
        removed=version,
        removed_ns=time_ns,
    )


def _state_of(rows: list[_Row], version: int, read: ReadParts) -> TableState:
    draft = Draft.of(None)
    parts: list[CheckpointPart] = []
    gone: dict[int, frozenset[int]] = {}
    for action, at, time_ns, text in rows:
        if action == "part":
            ref, lost = decode_ref(json.loads(text))
            gone |= {len(parts): lost} if lost else {}
            parts.append(CheckpointPart(ref, read))
        else:
            _take(draft, action, json.loads(text), at, time_ns)
    if draft.meta is None:
        raise ValueError("it does not say what the table is")
    if parts:
        draft.live = LiveSegments.of(CheckpointSegments(PartIndex(tuple(parts)), gone, dict(draft.live), version))
    return draft.state(draft.meta)


def _take(draft: Draft, action: str, body: dict[str, Any], version: int, time_ns: int) -> None:
    match action:
        case "meta":
            draft.meta = decode_meta(body)
        case "segment":
            segment = decode_segment(body)
            draft.live[segment.path] = LiveSegment(segment, version)
            draft.inlined_bytes += segment.inlined_bytes
        case "inlined":
            draft.inlined_bytes += int(body["bytes"])
        case "operation":
            operation, tally, kind = decode_operation(body)
            draft.applied[operation_key(operation)] = Applied(operation, version, time_ns, tally, kind)
        case "removed":
            draft.removed[body["path"]] = _decode_removed(body, version, time_ns)
        case "tag":
            draft.tags[str(body["name"])] = version
        case "expired":
            draft.earliest = version
        case _:
            raise ValueError(f"action {action!r} is not known")


def _check(about: dict[str, str], version: int, digest: str) -> None:
    stated = about["gapless.version"], about["gapless.checksum"]
    if about["gapless.checkpoint"] not in (PLAIN, IN_PARTS) or stated != (str(version), digest):
        raise ValueError(
            f"format {about['gapless.checkpoint']}, version and checksum are {stated}, not {(str(version), digest)}"
        )


def _digest(version: int, time_ns: int, rows: list[_Row]) -> str:
    hasher = xxhash.xxh3_128(f"{version} {time_ns}\n".encode())
    for action, at, when, body in rows:
        hasher.update(f"{action} {at} {when} {body}\n".encode())
    return f"xxh3-128:{hasher.hexdigest()}"


PARTS_FOLDER = "_log_parts"
PART_SEGMENTS = 1_000
"""Loose segments that become a part. Commits are not divided, so that a part may have more; one with less than half of it is poor."""


def checkpoint_segments(state: TableState) -> CheckpointSegments:
    """The live segments of a state, by the parts that it knows."""
    return state.live.checkpoint_segments() if isinstance(state.live, LiveSegments) else CheckpointSegments.of(dict(state.live))


def refs_of(state: TableState) -> tuple[PartRef, ...]:
    """The parts that a state rests on."""
    return tuple(part.ref for part in checkpoint_segments(state).index.parts)


def needs_new_parts(state: TableState) -> bool:
    """Whether a log checkpoint of a state would have parts to write."""
    segments = checkpoint_segments(state)
    return len(segments.loose) >= PART_SEGMENTS or any(_is_due(segments, run) for run in _runs(segments, frozenset()))


@dataclass(slots=True)
class _PartWriter:
    """Makes parts for one log checkpoint."""

    version: int
    token: str
    """Makes their names unique."""
    read: ReadParts
    made: list[tuple[str, bytes]]

    def part(self, live: Sequence[LiveSegment]) -> CheckpointPart:
        path = f"{PARTS_FOLDER}/{self.version:010d}-{self.token}-{len(self.made)}.parquet"
        ref, data = encode_part(path, live, self.version)
        self.made.append((path, data))
        return CheckpointPart(ref, self.read, PartRows.of(dict(enumerate(live)), path))


def pack(snapshot: Snapshot[TableState], token: str, read: ReadParts, lost: frozenset[str]) -> Packed[TableState]:
    """The same snapshot resting on new parts, where some are due, and their objects; `token` makes their names unique. Those of the
    paths `lost` are made anew.
    """
    segments, writer = checkpoint_segments(snapshot.state), _PartWriter(snapshot.version, token, read, [])
    parts: list[CheckpointPart] = []
    gone: dict[int, frozenset[int]] = {}
    for run in _runs(segments, lost):
        if _is_due(segments, run):
            parts += [writer.part(some) for some in _cut(one for number in run.parts for _, one in segments.taken(number))]
            continue
        for number in run.parts:
            if number in segments.gone:
                gone[len(parts)] = segments.gone[number]
            parts.append(segments.index.parts[number])
    loose = list(segments.loose.values())
    full = [some for some in _cut(loose) if len(some) >= PART_SEGMENTS]
    parts += [writer.part(some) for some in full]
    left = {one.segment.path: one for one in loose[sum(map(len, full)) :]}
    packed = CheckpointSegments(PartIndex(tuple(parts)), gone, left, snapshot.version)
    state = replace(snapshot.state, live=LiveSegments.of(packed))
    return Packed(Snapshot(snapshot.version, snapshot.time_ns, state), tuple(writer.made))


@dataclass(frozen=True, slots=True)
class _Run:
    """Parts one after another that are poor, or one that is not."""

    parts: tuple[int, ...]
    lost: bool
    """Whether one of them is missing or damaged."""


def _runs(segments: CheckpointSegments, lost: frozenset[str]) -> Iterator[_Run]:
    parts = segments.index.parts
    unsound = {number for number, part in enumerate(parts) if part.ref.path in lost or part.is_recovered}
    for poor, run in groupby(range(len(parts)), lambda number: segments.count(number) * 2 < PART_SEGMENTS):
        for numbers in (tuple(run),) if poor else ((number,) for number in run):
            yield _Run(numbers, not unsound.isdisjoint(numbers))


def _is_due(segments: CheckpointSegments, run: _Run) -> bool:
    """Whether parts are to be rewritten: several poor ones become one, one that has lost more than it holds becomes small, or nothing."""
    total = sum(segments.index.parts[number].ref.segments for number in run.parts)
    left = sum(segments.count(number) for number in run.parts)
    return run.lost or len(run.parts) > 1 or total > 2 * left


def _cut(live: Iterable[LiveSegment]) -> Iterator[list[LiveSegment]]:
    """Pieces of at least so many segments as a part has, the last of fewer; what one version made live stays together."""
    piece: list[LiveSegment] = []
    for _, same in groupby(live, lambda one: one.version):
        if len(piece) >= PART_SEGMENTS:
            yield piece
            piece = []
        piece += same
    if piece:
        yield piece
