"""Calendars of coverage: weekly hours, exchanges' trading sessions (from exchange-calendars, where installed), and the buckets they expect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import chain
from typing import Any

import pyarrow as pa

from gapless.coverage.bucket import Grid
from gapless.coverage.calendar import Calendar, Sessions, WeeklyHours, is_weekly
from gapless.coverage.expected import ExpectedIds, Span, hull, plan_expected
from gapless.errors import InvalidOption, InvalidTime, NotSupported, nearest
from gapless.model.index import IndexSpec
from gapless.model.instant import NS_PER, format_instant
from gapless.tables.timeseries.read.values import display_zone, is_aware

_MARGIN = timedelta(days=7)
"""A session may lie on another day than the one it is named by."""


@dataclass(frozen=True, slots=True)
class ExchangeCalendar:
    """The sessions of one exchange, with its holidays, early closes and midday breaks: a `Calendar`."""

    name: str
    """As exchange-calendars has it: a market identifier such as "XNYS", or an alias."""

    def sessions(self, start_ns: int, end_ns: int) -> Sessions:
        """All sessions that reach into `[start_ns, end_ns)`.

        Raises NotSupported without exchange-calendars, InvalidOption for a name it does not know, InvalidTime for years whose
        holidays it does not know.
        """
        library = _library(self.name)
        if self.name not in (known := library.get_calendar_names(include_aliases=True)):
            raise InvalidOption(
                f"calendar {self.name!r} is not known",
                why="It is neither weekly hours nor an exchange of exchange-calendars",
                fix=nearest(self.name, known),
                option="calendar", value=self.name,
            )  # fmt: skip
        try:
            start, end = _date(start_ns, -_MARGIN), _date(end_ns, _MARGIN)
            found = library.get_calendar(self.name, start=start, end=end)
        except library.errors.NoSessionsError:
            return Sessions((), ())
        except (ValueError, OverflowError) as error:
            raise InvalidTime(
                f"the sessions of {self.name} from {format_instant(start_ns)} to {format_instant(end_ns)} are not known",
                why=str(error)[:300],
                fix="Pass start and end within the years that exchange-calendars knows, or weekly hours as the calendar",
                value=start_ns,
            ) from error
        return _sessions_of(found)


def _library(name: str) -> Any:
    try:
        return import_module("exchange_calendars")
    except ImportError as error:
        raise NotSupported(
            f"calendar {name!r} is not known here",
            why="It is not weekly hours, and the calendars of exchanges come from exchange-calendars, which is not installed",
            fix="pip install exchange-calendars; or write hours, such as 'mon-fri 09:30-16:00 America/New_York'",
            feature="exchange-calendars",
        ) from error


def _date(ns: int, margin: timedelta) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // NS_PER["s"]) + margin
    return moment.date().isoformat()


def _sessions_of(calendar: Any) -> Sessions:
    """Each session from its open to its close, without its break."""
    columns = (_ns(calendar.schedule[name]) for name in ("open", "break_start", "break_end", "close"))
    parts = (
        [(opens, closes)] if pause is None or resume is None else [(opens, pause), (resume, closes)]
        for opens, pause, resume, closes in zip(*columns, strict=True)
    )
    return Sessions.of(chain.from_iterable(parts))


def _ns(column: Any) -> list[Any]:
    whole = column.astype("datetime64[ns, UTC]").astype("int64").tolist()
    return [None if absent else ns for ns, absent in zip(whole, column.isna(), strict=True)]


def expected_ids(
    calendar: str | Calendar | None, index: IndexSpec, schema: pa.Schema | None, grid: Grid, spans: Iterable[Span]
) -> ExpectedIds:
    """The expected buckets of spans: those that a calendar has sessions in; without one, all.

    `calendar` is weekly hours as text, the name of an exchange, or anything with the method of `Calendar`. Raises InvalidOption,
    NotSupported and InvalidTime.
    """
    whole = hull(spans)
    if calendar is None:
        return plan_expected(grid, whole)
    chosen = parse_calendar(calendar, index, schema)
    if not whole.count:
        return plan_expected(grid, whole)
    return plan_expected(grid, whole, chosen.sessions(grid.start(whole.start), grid.end(whole.end - 1)))


def parse_calendar(given: str | Calendar, index: IndexSpec, schema: pa.Schema | None) -> Calendar:
    """The calendar a caller means; hours without a zone are those of the zone in which the table shows its times, else UTC.

    Raises InvalidOption for an integer index, for what is no calendar, and for the hours of a zone where the index has none.
    """
    if index.type != "timestamp":
        raise _refuse(given, f"The index {index.column!r} is {index.type}", "Leave the calendar out")
    if isinstance(given, str):
        given = WeeklyHours.parse(given) if is_weekly(given) or " " in given.strip() else ExchangeCalendar(given.strip())
    if not callable(getattr(given, "sessions", None)):
        raise _refuse(
            given,
            f"A {type(given).__name__} does not say when its sessions are",
            "Pass a text such as 'mon-fri 09:30-16:00 America/New_York' or 'XNYS', a gl.WeeklyHours or gl.Sessions",
        )
    zoned = isinstance(given, ExchangeCalendar) or (isinstance(given, WeeklyHours) and given.timezone is not None)
    if zoned and is_aware(index, schema) is False:
        raise _refuse(
            given,
            f"The calendar is of a time zone, and the index {index.column!r} has none: which clock its times mean is not known",
            "Write hours by the clock of the index, without a zone; or make the table with a timezone",
        )
    if isinstance(given, WeeklyHours) and given.timezone is None:
        return replace(given, timezone=str(display_zone(index, schema) or "UTC"))
    return given


def _refuse(given: object, why: str, fix: str) -> InvalidOption:
    text = given.text if isinstance(given, WeeklyHours) else given.name if isinstance(given, ExchangeCalendar) else given
    return InvalidOption(f"calendar {text!r} does not fit the table", why=why, fix=fix, option="calendar", value=given)
