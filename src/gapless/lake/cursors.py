"""How far a pipeline has come: cursors of three kinds, and what rows make of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import AmbiguousTime, InvalidOption, InvalidTime, InvalidValue, NullKey, UnknownColumn, nearest, one_of
from gapless.lake.layout.manifest import RunCursor
from gapless.model.fit import NoInstant, instants
from gapless.model.types import is_zone

Kind = Literal["monotonic", "opaque", "snapshot"]
KINDS: tuple[Kind, ...] = ("monotonic", "opaque", "snapshot")
NEEDS_LEASE = frozenset({"opaque", "snapshot"})
"""Of two runs from one such cursor nobody can say which is further; of monotonic ones the larger is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monotonic:
    """A cursor that is the largest value of a column: rows behind it are new."""

    column: str
    """The field of the source."""
    timezone: str | None = None
    """What the source's times without an offset are in; such times are refused where it is not said."""
    nulls: Literal["raise", "include"] = "raise"
    """Rows without a value: an error, or taken, without a say in the cursor."""

    def __post_init__(self) -> None:
        """Raise InvalidOption."""
        one_of("nulls", self.nulls, ("raise", "include"))
        if self.timezone is not None and not is_zone(self.timezone):
            raise InvalidOption(
                f"timezone={self.timezone!r} is not known",
                fix="Pass a zone of the IANA database, such as 'Pacific/Auckland'",
                option="timezone",
                value=self.timezone,
            )

    def after(self, rows: pa.Table, before: Any) -> Any:
        """The cursor behind rows, JSON: whole numbers as they are, times as ISO texts in UTC, other texts as they are.

        Raises UnknownColumn, NullKey, InvalidTime, InvalidValue, AmbiguousTime.
        """
        if self.column not in rows.column_names:
            if not rows.num_rows or self.nulls == "include":
                return before
            raise UnknownColumn(
                f"the rows have no column {self.column!r}, which the cursor is of",
                fix=nearest(self.column, rows.column_names),
                column=self.column,
                columns=tuple(rows.column_names),
            )
        column = rows.column(self.column)
        if column.null_count and self.nulls == "raise":
            row = pc.index(column.is_null(), pa.scalar(True)).as_py()
            raise NullKey(
                f"row {row} has no value in {self.column!r}, which the cursor is of",
                why="Whether it was read before could not be told at the next run",
                fix="Mend the source, or take such rows each time with nulls='include'",
                column=self.column,
                row=row,
            )
        if column.null_count == len(column):
            return before
        found = self._told(column)
        return found if before is None or is_behind(before, found) else before

    def _told(self, column: pa.ChunkedArray) -> Any:
        if pa.types.is_timestamp(column.type):
            # The hour that a clock runs twice is in another order by the wall.
            return _iso(pc.max(self._instants(column)))
        if pa.types.is_string(column.type):
            return self._told_text(column)
        largest = pc.max(column).as_py()
        if isinstance(largest, bool) or not isinstance(largest, int | date):
            raise InvalidOption(
                f"column {self.column!r} is {column.type}, which no cursor is made of",
                why="A cursor is a whole number, a time, a date or a text",
                fix="Choose another column, or an opaque cursor",
                option="cursor",
                value=self.column,
            )
        return largest if isinstance(largest, int) else largest.isoformat()

    def _told_text(self, column: pa.ChunkedArray) -> str:
        """Texts that are times are compared as these are; others as texts, which order as the source says it."""
        texts = column.drop_null().to_pylist()
        times = [_time(text) for text in texts]
        if not any(times):
            return str(max(texts))
        if not all(times):
            odd = next(text for text, time in zip(texts, times, strict=True) if time is None)
            raise InvalidTime(
                f"column {self.column!r} has {odd!r} among times",
                why="The cursor is the latest of them",
                fix="Mend the source, or choose an opaque cursor",
                value=odd,
            )
        moments = [self._moment(time) for time in times if time is not None]
        return _written(max(moments))

    def _moment(self, time: datetime) -> datetime:
        if time.tzinfo is not None:
            return time.astimezone(UTC)
        zone = ZoneInfo(self._zone(time))
        early, late = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        if early.utcoffset() != late.utcoffset():
            raise self._ambiguous(time.isoformat(), 0, time)
        return early.astimezone(UTC)

    def _instants(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if column.type.tz is not None:
            return column
        zone = self._zone(column.drop_null()[0].as_py())
        try:
            return pa.chunked_array([instants(one, zone) for one in column.drop_null().chunks if len(one)])
        except NoInstant as none:
            raise self._ambiguous("a time", none.row, None) from None

    def _ambiguous(self, what: str, row: int, value: object) -> AmbiguousTime:
        return AmbiguousTime(
            f"{what} in {self.column!r} is skipped or comes twice in {self.timezone}",
            why="The clocks change there",
            fix="Have the source give offsets",
            column=self.column,
            row=row,
            value=value,
            timezone=str(self.timezone),
        )

    def _zone(self, value: object) -> str:
        if self.timezone is None:
            raise InvalidTime(
                f"column {self.column!r} has times without a zone, such as {value}",
                why="A source by UTC days would skip or repeat rows at the ends of a cursor in local time",
                fix="Say the zone: Monotonic(column=…, timezone='Pacific/Auckland')",
                value=value,
            )
        return self.timezone


def _time(text: str) -> datetime | None:
    if not text[:4].isdigit() or text[4:5] != "-" or text[10:11] not in ("T", " "):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _written(moment: datetime) -> str:
    return moment.isoformat().removesuffix("+00:00") + "Z"


def _iso(moment: pa.Scalar) -> str:
    utc = moment.cast(pa.timestamp("ns", "UTC")).value
    seconds, ns = divmod(utc, 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
    return f"{whole}.{ns:09d}".rstrip("0").rstrip(".") + "Z"


def is_behind(before: Any, after: Any) -> bool:
    """Whether a monotonic cursor is further than another. Raises InvalidValue where the two are of different kinds."""
    if type(before) is not type(after):
        raise InvalidValue(
            f"the cursor was {before!r}, and is to be {after!r}",
            why="Which of the two is further cannot be told",
            fix="Begin the pipeline anew under another name",
            column="",
            row=0,
            value=after,
        )
    if isinstance(before, str) and before.endswith("Z") and str(after).endswith("Z"):
        # "…:00.5Z" comes after "…:00Z".
        return before.removesuffix("Z") < str(after).removesuffix("Z")
    return bool(before < after)


def furthest(one: RunCursor | None, other: RunCursor, run: tuple[str, str], known_run: tuple[str, str]) -> bool:
    """Whether `other`, of `run`, is further than `one`, of `known_run`; `run` is a run and its node."""
    if one is None:
        return True
    if one.kind == "monotonic" and other.kind == "monotonic":
        if other.after is None or one.after is None:
            return one.after is None
        return is_behind(one.after, other.after) or (one.after == other.after and run > known_run)
    return (other.fence, run) > (one.fence, known_run)
