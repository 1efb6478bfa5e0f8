"""What a change does to some rows of a data file, and the rows that come of it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.dialects.delta.actions import AddFile
from gapless.dialects.delta.deletion_vector import Positions

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
class Touch:
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
