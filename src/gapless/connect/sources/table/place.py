"""How far a source out of a table has come, as its cursor says it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gapless.connect.sources.protocol import Cursor
from gapless.errors import InvalidOption, shorten

KIND = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Before `version` all is read, and of that the first `row` rows."""

    version: int
    row: int = 0
    whole: bool = False
    """Whether the version's rows are all that it has, rather than what its commit changed."""
    files: int = 0
    """How many data files the versions had that were read to their end."""
    time: datetime | None = None
    """Commit time of the last rows."""

    def past(self, files: int = 0) -> Place:
        """The beginning of what follows its version, of which so many files were read."""
        return replace(self.at(self.version + 1), files=self.files + files)

    def at(self, version: int) -> Place:
        """The beginning of what the commit of another version changed."""
        return replace(self, version=version, row=0, whole=False)

    def after(self, first: int, time: datetime, rows: int) -> Place:
        """In its version, `rows` after the row `first`, which was committed at a time."""
        return replace(self, row=first + rows, time=time)

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
                f"{shorten(cursor)} cannot start a table's source",
                why="It does not say which version of which table is next",
                fix="Pass Cursor.from_json(text)" if isinstance(cursor, str) else "Pass one that this source gave",
                option="cursor",
                value=cursor,
            )
        place = cls(
            version=state["version"],
            row=state["row"],
            whole=state["whole"],
            files=cursor.files_processed,
            time=cursor.timestamp,
        )
        if type(place.version) is not int or type(place.row) is not int or place.version < 0 or place.row < 0:
            raise InvalidOption(
                f"version {place.version!r} and row {place.row!r} of a cursor are no place in a table",
                why="A version and the rows of it that were read are whole numbers from 0",
                fix="Pass a cursor that this source gave",
                option="cursor",
                value=cursor,
            )
        return place
