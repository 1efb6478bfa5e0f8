"""A part of a log checkpoint: an immutable Parquet object of consecutive live segments, with bounds at hand and bodies decoded on access."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import CorruptTable
from gapless.formats.timeseries.actions import LiveSegment, parse_own_name
from gapless.formats.timeseries.codec.json_values import json_of
from gapless.formats.timeseries.codec.segment import decode_segment, encode_segment, identity_of
from gapless.log.format import PartName
from gapless.model.index import Identity
from gapless.model.segment import SegmentColumns, checksum, coarse, relative_path, stored_columns

_DAMAGED_ROW = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


class PartRows:
    """The segments of a part by ordinal. What was decoded is kept, and the text of all where it was needed for one."""

    __slots__ = (
        "_bodies",
        "_known",
        "_ordinals",
        "_paths",
        "_place",
        "_versions",
        "columns",
        "is_recovered",
        "missing",
        "ordinals",
    )

    columns: SegmentColumns
    """Bounds and identities, one for each of `ordinals`."""
    ordinals: Sequence[int]
    """Which segments of the part these are: all of them, but for a part that was lost and put together again."""

    is_recovered: bool
    """Whether the part was lost, and this was put together from elsewhere."""
    missing: frozenset[int]
    """The ordinals of which nothing is known any more: who needs them must look for the part again."""

    def __init__(self, columns: SegmentColumns, known: dict[int, LiveSegment], place: str) -> None:
        """Decoded segments by ordinal, in order; `place` is the part's path, for messages."""
        self.columns, self.ordinals = columns, tuple(known)
        self.is_recovered, self.missing = False, frozenset()
        self._known, self._place = known, place
        self._ordinals: dict[str, int] | None = None
        self._paths: Any = None
        self._versions: Sequence[int] = ()
        self._bodies: Any = None

    @classmethod
    def of(cls, known: Mapping[int, LiveSegment], place: str) -> PartRows:
        """Those of decoded segments by ordinal, in order."""
        return cls(SegmentColumns.of(one.segment for one in known.values()), dict(known), place)

    @classmethod
    def recovered(cls, known: Mapping[int, LiveSegment], place: str, count: int) -> PartRows:
        """Those of a part that was lost and had `count` segments, as far as they were needed and are known."""
        made = cls.of(known, place)
        made.is_recovered, made.missing = True, frozenset(range(count)).difference(known)
        return made

    @classmethod
    def stored(cls, *, columns: SegmentColumns, paths: Any, versions: Sequence[int], bodies: Any, place: str) -> PartRows:
        """Those of a part's columns, paths and bodies as Arrow has them."""
        made = cls(columns, {}, place)
        made.ordinals = range(len(versions))
        made._paths, made._versions, made._bodies = paths, versions, bodies
        return made

    def __getitem__(self, ordinal: int) -> LiveSegment:
        """A segment. Raises CorruptTable where it cannot be decoded, or could not be put together again."""
        found = self._known.get(ordinal)
        if found is None:
            found = self._known[ordinal] = self._decoded(ordinal)
        return found

    def taken(self, gone: frozenset[int]) -> Iterator[tuple[str, LiveSegment]]:
        """Path and segment of all but the ordinals that are gone, in order."""
        for ordinal in self.ordinals:
            if ordinal not in gone:
                found = self[ordinal]
                yield found.segment.path, found
        if self._bodies is not None and len(self._known) == len(self._versions):
            self._bodies = None  # all are decoded

    def find(self, path: str) -> int | None:
        """The ordinal of the segment with this path; None where there is none."""
        if self._ordinals is None:
            if self._paths is None:
                self._ordinals = {one.segment.path: ordinal for ordinal, one in self._known.items()}
            else:
                self._ordinals = {name: ordinal for ordinal, name in enumerate(self._paths.to_pylist())}
        return self._ordinals.get(path)

    def _decoded(self, ordinal: int) -> LiveSegment:
        bodies = self._bodies
        try:
            if bodies is None:
                return self._known[ordinal]  # another thread decoded the last of them just now
            return LiveSegment(decode_segment(json.loads(bodies[ordinal].as_py())), self._versions[ordinal])
        except _DAMAGED_ROW as error:
            raise CorruptTable(
                f"segment {ordinal} of the part {self._place} of a log checkpoint cannot be read",
                why="Whoever wrote the part broke the format"
                if bodies is not None
                else "The part is lost, and what it said of it",
                fix="Open the table again; run `gapless verify` if that does not help",
                path=self._place,
            ) from error


FORMAT = "1"
FEW_IDENTITIES = 16
"""So many identities of a part its reference names; of more it says nothing."""
_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),  # the commit that made it live
        pa.field("first", pa.int64(), nullable=False),  # index values, divided by 64 and rounded down
        pa.field("last", pa.int64(), nullable=False),
        pa.field("identity", pa.string(), nullable=False),  # what the body says of it
        pa.field("body", pa.string(), nullable=False),  # as in AddSegment
    ]
)
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRef:
    """What a log checkpoint says of a part: enough to know whether it must be read."""

    path: str
    """Relative to the table root."""
    checksum: str
    """Of the whole object."""
    size: int
    """Bytes."""
    segments: int
    """How many it holds; the place of each, from 0, is its ordinal."""
    first: int
    last: int
    """Smallest and largest index value of them all, both inclusive."""
    start: int
    end: int
    """The versions, both inclusive, that made them live."""
    written: int
    """The version that it was written for: it holds all segments that became live in `[start, end]` and still were in that one."""
    identities: tuple[Identity | None, ...] | None
    """Whose rows they hold (None among them: of several), where those are few; else None."""
    layouts: tuple[Mapping[str, Any], ...] | None
    """The same as bodies say it."""
    instants: tuple[int, int] | None
    """The first and the last instant in names of ours, nanoseconds since 1970 UTC; None where it holds no such name."""
    other_names: bool
    """Whether it holds other names."""

    @property
    def name(self) -> PartName:
        """As the log knows it."""
        return PartName(self.path, self.checksum)


def encode_part(path: str, live: Sequence[LiveSegment], written: int) -> tuple[PartRef, bytes]:
    """An object of these segments, in order of version, and what to say of it."""
    bodies = [encode_segment(one.segment) for one in live]
    layouts = [json_of(_layout(body)) for body in bodies]
    columns = [
        [one.segment.path for one in live],
        [one.version for one in live],
        [coarse(one.segment.bounds.first) for one in live],
        [coarse(one.segment.bounds.last) for one in live],
        layouts,
        [json_of(body) for body in bodies],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=_SCHEMA.with_metadata({"gapless.part": FORMAT}))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=["identity"], write_page_checksum=True)
    data = sink.getvalue().to_pybytes()
    return _ref(path, live, written, data, sorted(set(layouts))), data


def _ref(path: str, live: Sequence[LiveSegment], written: int, data: bytes, layouts: Sequence[str]) -> PartRef:
    names = [parse_own_name(one.segment.path) for one in live]
    instants = [name.instant_ns for name in names if name is not None and name.instant_ns is not None]
    few = tuple(map(json.loads, layouts)) if len(layouts) <= FEW_IDENTITIES else None
    return PartRef(
        path=path,
        checksum=checksum(data),
        size=len(data),
        segments=len(live),
        first=min(one.segment.bounds.first for one in live),
        last=max(one.segment.bounds.last for one in live),
        start=live[0].version,
        end=live[-1].version,
        written=written,
        identities=None if few is None else tuple(map(identity_of, few)),
        layouts=few,
        instants=(min(instants), max(instants)) if instants else None,
        other_names=len(instants) < len(live),
    )


def decode_part(data: bytes, path: str) -> PartRows:
    """What a part holds, whose checksum was compared before; bodies are decoded when they are asked for. Raises CorruptTable."""
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(use_threads=False)
        if (table.schema.metadata or {}).get(b"gapless.part") != FORMAT.encode():
            raise ValueError("it is of a format that this release does not know")
        layouts = table.column("identity").combine_chunks().dictionary_encode()
        known = {place: identity_of(json.loads(text)) for place, text in enumerate(layouts.dictionary.to_pylist())}
        first, last = (_numbers(table.column(name).combine_chunks(), np.int64) for name in ("first", "last"))
        return PartRows.stored(
            columns=stored_columns(first, last, _numbers(layouts.indices, np.int32), known),
            paths=table.column("path"),
            versions=table.column("version").to_pylist(),
            bodies=table.column("body"),
            place=path,
        )
    except _DAMAGE as error:
        raise CorruptTable(
            f"the part {path} of a log checkpoint cannot be read: {type(error).__name__}: {error}",
            why="It is torn or altered, or of a format this release does not know",
            fix="Run `gapless verify`, then `gapless repair`",
            path=path,
        ) from error


def encode_ref(ref: PartRef, gone: Iterable[int]) -> dict[str, object]:
    """A part as a log checkpoint names it; `gone` are the ordinals of segments that are live no more."""
    body: dict[str, object] = {
        "path": ref.path,
        "checksum": ref.checksum,
        "size": ref.size,
        "segments": ref.segments,
        "first": ref.first,
        "last": ref.last,
        "versions": [ref.start, ref.end],
        "written": ref.written,
        "identities": None if ref.layouts is None else list(ref.layouts),
        "instants": None if ref.instants is None else list(ref.instants),
        "other_names": ref.other_names,
    }
    return body | ({"gone": runs} if (runs := _runs(gone)) else {})


def decode_ref(body: Mapping[str, Any]) -> tuple[PartRef, frozenset[int]]:
    """The part that a log checkpoint names, and the ordinals that are gone. Raises KeyError, TypeError or ValueError."""
    layouts, instants = body["identities"], body["instants"]
    start, end = body["versions"]
    ref = PartRef(
        path=relative_path(body["path"]),
        checksum=body["checksum"],
        size=body["size"],
        segments=body["segments"],
        first=body["first"],
        last=body["last"],
        start=start,
        end=end,
        written=body["written"],
        identities=None if layouts is None else tuple(map(identity_of, layouts)),
        layouts=None if layouts is None else tuple(layouts),
        instants=None if instants is None else (instants[0], instants[1]),
        other_names=body["other_names"],
    )
    edges = body.get("gone", [])
    return ref, frozenset(n for low, high in zip(edges[::2], edges[1::2], strict=True) for n in range(low, high))


def _runs(numbers: Iterable[int]) -> list[int]:
    """Numbers as the edges of half-open runs: `[0, 1, 2, 7]` is `[0, 3, 7, 8]`."""
    edges: list[int] = []
    for number in sorted(numbers):
        if edges and edges[-1] == number:
            edges[-1] = number + 1
        else:
            edges += (number, number + 1)
    return edges


def _layout(body: Mapping[str, object]) -> dict[str, object]:
    return {key: body[key] for key in ("entity_layout", "identity") if key in body}


def _numbers(column: pa.Array, kind: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Whole numbers without nulls as numpy has them; `to_numpy` would import pandas."""
    if column.null_count:
        raise ValueError("a bound or an identity is missing")
    values: npt.NDArray[Any] = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * np.dtype(kind).itemsize)
    return values
