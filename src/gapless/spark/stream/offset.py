"""How far a stream has come, as Spark keeps it in its checkpoint: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gapless.errors import InvalidOption
from gapless.log.stream_plan import Cursor

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A cursor, of which table it is, and where its stream began.

    Spark keeps where a batch ends and asks again where the stream begins: each offset therefore says it, so that a first batch that is
    planned again is the same, whatever was committed meanwhile.
    """

    table: str
    """What tells the table from another one at its place."""
    cursor: Cursor
    begin: Cursor

    @classmethod
    def first(cls, table: str, begin: Cursor) -> Offset:
        """Where a stream begins."""
        return cls(table=table, cursor=begin, begin=begin)

    def at(self, cursor: Cursor) -> Offset:
        """Another offset of the same stream."""
        return replace(self, cursor=cursor)

    def start_of(self, end: Offset) -> Cursor:
        """Where the batch from here to `end` starts."""
        return end.begin if self.cursor == self.begin else self.cursor

    def to_json(self) -> dict[str, Any]:
        """As Spark writes it; the same offset is always the same text.

        >>> Offset.first("a table", Cursor(version=3)).to_json()["version"]
        3
        """
        return {
            "gapless": FORMAT,
            "table": self.table,
            "version": self.cursor.version,
            "index": self.cursor.index,
            "whole": self.cursor.whole,
            "begin": {"version": self.begin.version, "whole": self.begin.whole},
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Offset:
        """Read one back; raises InvalidOption for what no release up to this one wrote."""
        if said.get("gapless") != FORMAT:
            raise unreadable(said, f"This release writes and reads format {FORMAT}")
        try:
            begin = said["begin"]
            return cls(
                table=str(said["table"]),
                cursor=Cursor(version=int(said["version"]), index=int(said["index"]), whole=bool(said["whole"])),
                begin=Cursor(version=int(begin["version"]), whole=bool(begin["whole"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(said, f"{type(error).__name__}: {error}") from error


def unreadable(said: Mapping[str, Any], why: str) -> InvalidOption:
    """The error for an offset that no release up to this one wrote for the table."""
    return InvalidOption(
        f"the checkpoint has an offset that cannot be read: {dict(said)!r}",
        why=why,
        fix="Use the release that wrote it or a later one; the checkpoint of another source does not serve a table",
        option="checkpointLocation",
        value=dict(said),
    )
