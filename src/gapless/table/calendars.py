"""Calendars as callers name them, and the buckets that they make expected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from gapless.coverage.bucket import Grid
from gapless.coverage.expected import ExpectedIds, plan_expected
from gapless.coverage.sessions import Calendar
from gapless.coverage.span import Span, hull
from gapless.coverage.weekly import WeeklyHours
from gapless.coverage.weekly_text import is_weekly
from gapless.errors import InvalidOption
from gapless.model.index import IndexSpec
from gapless.table.exchange import ExchangeCalendar
from gapless.table.values import is_aware, shown_zone


def expected_ids(
    calendar: str | Calendar | None, index: IndexSpec, schema: pa.Schema | None, grid: Grid, spans: Iterable[Span]
) -> ExpectedIds:
    """The buckets of all the spans that a calendar expects rows in; without one, all of them.

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
        return replace(given, timezone=str(shown_zone(index, schema) or "UTC"))
    return given


def _refuse(given: object, why: str, fix: str) -> InvalidOption:
    shown = given.text if isinstance(given, WeeklyHours) else given.name if isinstance(given, ExchangeCalendar) else given
    return InvalidOption(f"calendar {shown!r} does not fit the table", why=why, fix=fix, option="calendar", value=given)
