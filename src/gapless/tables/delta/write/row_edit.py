"""Apply deletes and updates to one data file: as rows of a new file, or as a deletion vector."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from gapless.formats.delta.actions import AddFile
from gapless.formats.delta.deletion_vector import Positions
from gapless.tables.delta.files.open_file import Projection, read_vector, write_vectors
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What becomes of rows: some go, some change, the others stay."""

    gone: Mask
    """Which are deleted."""
    changed: Mask
    """Which others take; none of them is `gone`, and each is another row then."""
    after: pa.Table
    """The rows that take the place of the changed ones, in their order."""

    @property
    def touched(self) -> Mask:
        """Which do not stay as they are."""
        return self.gone | self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedFile:
    """What a change does to one live file."""

    file: AddFile
    positions: Positions | None = None
    """Where in it the rows lie that it may touch; None for all its live rows."""
    edit: Callable[[pa.Table, Positions], Edit] | None = None
    """What becomes of some of these rows (all columns, and where they lie); None where all of them go."""

    @property
    def is_removal(self) -> bool:
        """Whether the whole file goes, which no one has to read."""
        return self.positions is None and self.edit is None


def all_gone(rows: pa.Table, _positions: Positions) -> Edit:
    """The edit that deletes every row."""
    count = rows.num_rows
    return Edit(gone=np.ones(count, dtype=bool), changed=np.zeros(count, dtype=bool), after=rows.slice(0, 0))


def edited(rows: pa.Table, places: Positions, edit: Edit) -> pa.Table:
    """Rows of a file once some of them, at these `places` among them, were edited; those that stay keep their order."""
    if edit.changed.any():
        rows = _replaced(rows, places[edit.changed], edit.after)
    if not edit.gone.any():
        return rows
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[places[edit.gone]] = False
    return rows.filter(pa.array(kept))


def _replaced(rows: pa.Table, places: Positions, after: pa.Table) -> pa.Table:
    """The rows with those at `places` (ascending) exchanged for others."""
    order = np.arange(rows.num_rows)
    order[places] = rows.num_rows + np.arange(len(places))
    mask = np.zeros(rows.num_rows, dtype=bool)
    mask[places] = True
    taken, masked = pa.array(order), pa.array(mask)
    columns = [_exchanged(column, other, masked, taken) for column, other in zip(rows.columns, after.columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _exchanged(column: pa.ChunkedArray, other: pa.ChunkedArray, mask: pa.Array, order: pa.Array) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        # Several times as quick as to take from both.
        return pc.replace_with_mask(column, mask, other.combine_chunks())
    return pa.chunked_array([*column.chunks, *other.chunks], kind).take(order)


@dataclass(frozen=True, slots=True)
class FileWithDeletions:
    """A live file, and all positions in it that are deleted now."""

    file: AddFile
    positions: Positions
    rows: int
    """Of the data file, deleted ones too."""


def delete_positions(reader: FileReader, file: AddFile, positions: Positions) -> FileWithDeletions | None:
    """A live file with more of its rows deleted; None where none is left. Raises CorruptTable, StoreError."""
    if file.deletion_vector is not None:
        positions = np.union1d(read_vector(reader.places, file.deletion_vector), positions)
    rows = _rows_in(reader, file)
    if len(positions) >= rows:
        # Before a file goes, it is asked itself: statistics may be wrong.
        rows = _counted(reader, file)
    return None if len(positions) >= rows else FileWithDeletions(file, positions, rows)


def write_deletion_vectors(attempt: StagedWrite, struck: list[FileWithDeletions]) -> list[AddFile]:
    """The files told anew with their vectors, which are stored. Raises StoreError."""
    deleted = {one.file.path: one.positions for one in struck}
    vectors = write_vectors(attempt.put, attempt.env.ids.uuid, deleted)
    return [
        structs.replace(
            one.file,
            deletion_vector=vectors[one.file.path],
            stats=with_loose_bounds(one.file.stats, one.rows),
            data_change=True,
        )
        for one in struck
    ]


def with_loose_bounds(stats: str | None, rows: int) -> str:
    """Statistics that say of themselves that rows were deleted since they were taken; all else byte for byte.

    `rows` are the data file's, which must be said beside a deletion vector.

    >>> loosened('{"numRecords":2,"minValues":{"v":1.10}}', 2)
    '{"numRecords":2,"minValues":{"v":1.10},"tightBounds":false}'
    """
    known = _parsed(stats)
    if stats is None or known is None or known.get("numRecords") != rows:
        return json.dumps({"numRecords": rows, "tightBounds": False}, separators=(",", ":"))
    if known.get("tightBounds") is True:
        return _rewritten(stats)
    if "tightBounds" in known:
        return stats if known["tightBounds"] is False else json.dumps({**known, "tightBounds": False})
    return f'{stats.rstrip()[:-1].rstrip()},"tightBounds":false}}'


def _parsed(stats: str | None) -> Mapping[str, object] | None:
    try:
        known = json.loads(stats or "")
    except ValueError:
        return None
    return known if isinstance(known, dict) else None


def _rewritten(stats: str) -> str:
    """The text with its own `tightBounds` made false: the first such name that is not inside another object."""
    decoder, at, depth = json.JSONDecoder(), 0, 0
    while at < len(stats):
        letter = stats[at]
        if letter == '"':
            name, end = decoder.raw_decode(stats, at)
            if depth == 1 and name == "tightBounds":
                begin = stats.index("t", end)
                return f"{stats[:begin]}false{stats[begin + len('true') :]}"
            at = end
            continue
        depth += (letter in "{[") - (letter in "}]")
        at += 1
    return stats


def known_rows(file: AddFile) -> int | None:
    """The rows of a data file, deleted ones too, where the log says them."""
    known = (_parsed(file.stats) or {}).get("numRecords")
    return known if isinstance(known, int) else None


def _rows_in(reader: FileReader, file: AddFile) -> int:
    known = known_rows(file)
    return _counted(reader, file) if known is None else known


def _counted(reader: FileReader, file: AddFile) -> int:
    return reader.count([file], Projection(deleted=True))


def live_rows(reader: FileReader, file: AddFile) -> int:
    """The rows of a live file, less those that its deletion vector deletes. Raises CorruptTable, StoreError."""
    return _rows_in(reader, file) - (0 if file.deletion_vector is None else file.deletion_vector.cardinality)
