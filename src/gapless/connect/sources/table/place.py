"""How far a source out of a table has come, as its cursor says it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from gapless.connect.sources.protocol import Cursor
from gapless.errors import InvalidOption

KIND = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Before `version` all is read, and of that the first `row` rows."""

    version: int
    row: int = 0
    whole: bool = False
    """Whether the version's rows are all that it has, rather than what its commit changed."""

    def past(self) -> Place:
        """The beginning of what follows its version."""
        return Place(version=self.version + 1)

    def state(self, table_id: str, columns: Mapping[str, Any] | None) -> dict[str, Any]:
        """What a cursor keeps: of which table this is, and the columns that are kept whatever becomes of the table's."""
        state = {"table_id": table_id, "version": self.version, "row": self.row, "whole": self.whole}
        return state if columns is None else {**state, "columns": dict(columns)}

    @property
    def rest(self) -> str:
        """What is left of a version that is to be read whole, or was begun, for messages; empty before one whose commit is read."""
        of, on = f"the rows of version {self.version}", f"what version {self.version} changed"
        if self.row:
            return f"{of} from row {self.row + 1} on" if self.whole else f"{on}, from row {self.row + 1} on"
        return of if self.whole else ""

    @classmethod
    def of(cls, cursor: object) -> Place:
        """Where a cursor says; raises InvalidOption for one of another source, or that is damaged."""
        state = cursor.state if isinstance(cursor, Cursor) else {}
        if not isinstance(cursor, Cursor) or cursor.source != KIND or {"table_id", "version", "row", "whole"} - state.keys():
            raise InvalidOption(
                f"a cursor of {getattr(cursor, 'source', cursor)!r} cannot start a table's source",
                why="It does not say which version of which table is next",
                fix="Pass one that this source gave",
                option="cursor",
                value=cursor,
            )
        place = cls(version=state["version"], row=state["row"], whole=state["whole"])
        if type(place.version) is not int or type(place.row) is not int or place.version < 0 or place.row < 0:
            raise InvalidOption(
                f"version {place.version!r} and row {place.row!r} of a cursor are no place in a table",
                why="A version and the rows of it that were read are whole numbers from 0",
                fix="Pass a cursor that this source gave",
                option="cursor",
                value=cursor,
            )
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows, and where the first of them is."""

    place: Place
    time: datetime
    batch: pa.RecordBatch

    @property
    def end(self) -> Place:
        """After the last of them."""
        return replace(self.place, row=self.place.row + self.batch.num_rows)

    def rest(self, rows: int) -> Piece:
        """Those after the first `rows`."""
        return replace(self, place=replace(self.place, row=self.place.row + rows), batch=self.batch.slice(rows))
