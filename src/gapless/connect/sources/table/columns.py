"""Columns of a table that change under a source: what differs, and whether those of its start can be kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gapless.connect.sources.table.source_table import SourceColumns, SourceTable
from gapless.errors import GaplessError, InvalidOption, SchemaMismatch
from gapless.tables.shared.changes import TYPE_FIELD


@dataclass(frozen=True, slots=True)
class Differences:
    """How the columns of a version differ from those of a source, one text a column."""

    texts: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether they do."""
        return bool(self.texts)

    def error(self, version: int, url: str) -> SchemaMismatch:
        """The error of a source that stops there."""
        return SchemaMismatch(
            f"version {version} of {url} has other columns than the source was started with: {'; '.join(self.texts)}",
            why='The rows of one run have one schema, and on_schema_change is "error"; no row of that version was given',
            fix="Start the source again at its cursor, with a sink that takes the new columns; or pass on_schema_change="
            '"keep" for the columns of the start, "evolve" for those of the table',
            differences=self.texts,
        )

    def not_kept(self, version: int, url: str, why: list[str]) -> SchemaMismatch:
        """The error where the columns of the start can be kept no longer."""
        return SchemaMismatch(
            f"the columns that the source was started with cannot be kept from version {version} of {url} on: {'; '.join(why)}",
            why="Later rows have values that the columns of the start do not hold; no row of that version was given",
            fix='Pass on_schema_change="evolve", or "error" and start again at the cursor, with a sink that takes the new columns',
            differences=tuple(why),
        )


def differences(ours: SourceColumns, theirs: SourceColumns) -> Differences:
    """What is other in a version than in the columns of a source; columns are told apart by their identities, not by their names."""
    loosened = [f"{name!r} may be null now" for name in ours.loosened(theirs)]
    return Differences((*ours.to(theirs).texts(), *loosened))


def why_not_kept(ours: SourceColumns, theirs: SourceColumns) -> list[str]:
    """Why rows of a version cannot be given in the columns of a source; empty where they can: added columns are left out then,
    dropped ones null, and renamed ones keep their names.
    """
    diff = ours.to(theirs)
    retyped = [f"{name!r} was {old} and is {new}" for name, (old, new) in diff.retyped.items()]
    dropped = [f"{name!r} was dropped, and may not be null" for name in diff.dropped if not ours.schema.field(name).nullable]
    return [*retyped, *dropped, *(f"{name!r} may be null now" for name in ours.loosened(theirs))]


def check_telling(columns: SourceColumns) -> None:
    """Raise InvalidOption where a table has a column of the name under which kinds of change are told."""
    if TYPE_FIELD.name in columns.schema.names:
        raise InvalidOption(
            f"the kinds of change cannot be told beside a column {TYPE_FIELD.name!r} of the table's own",
            why="They come in a column of that name",
            fix='Rename the column, or pass on_change="skip" or "error"',
            option="on_change",
            value="tell",
        )


def decoded(table: SourceTable, kept: Any) -> SourceColumns:
    """The columns that a cursor keeps; raises InvalidOption where they cannot be read."""
    try:
        return table.decode(kept)
    except (KeyError, TypeError, ValueError, AttributeError, GaplessError) as error:
        raise InvalidOption(
            "the columns that the cursor keeps cannot be read",
            why=f"{type(error).__name__}: {error}",
            fix="Pass a cursor that this source gave",
            option="cursor",
            value=kept,
        ) from error
